"""The table of plans that the one law runs over: every form, noise and unit, short attributes crossed or not."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

import residua as rs
from residua.plans import ProductPlan
from residua.plans.operators.buckets import NestedBuckets

LEVELS = rs.Categories([str(i) for i in range(6)], levels={"g": {"x": ["0", "1", "2"], "y": ["3", "4", "5"]}})
DAYS = rs.Integers(0, 7, levels={"week": [0, 3, 6, 8]})
D = rs.Domain({"a": rs.Integers(0, 6), "b": rs.Integers(0, 2), "one": ["only"]})
T = rs.Domain({"b": rs.Integers(0, 2), "t": LEVELS, "one": ["only"]})
N = rs.Domain({"b": ["x", "y"], "day": DAYS, "one": ["only"]})
TWO = rs.Domain({"sex": ["F", "M"], "a": rs.Integers(0, 3), "b": rs.Integers(0, 4)})
LONG = rs.Domain({"a": rs.Integers(0, 18), "one": ["only"]})
GAUSS = rs.ZCDP(0.5)
PURE = rs.PureDP(1.0)
APART = rs.marginals(D, [("a",), ("b",)])
CROSSED = rs.prefixes(D, "a", by=["b"]) + rs.prefixes(D, "a")
TREE = rs.hierarchy(T, "t", by=["b"]) + rs.hierarchy(T, "t") + rs.marginals(T, [("b",)])
SQL = rs.queries(D, ["a < 3 and b > 1", "a > 5", "b = 1"])
LIMITED = rs.Person(records=3, one_per="a")

_MADE: dict[str, Callable[[], rs.Plan]] = {
    # independent normal noise
    "marginals": lambda: rs.plan(APART, GAUSS),
    "marginals, crossed": lambda: rs.plan(rs.marginals(D, ways=[0, 1, 2]), rs.GDP(1.0)),
    "marginals, replaced": lambda: rs.plan(APART, GAUSS, unit=rs.ReplaceOne()),
    "marginals, k records": lambda: rs.plan(APART, rs.ApproxDP(1.0, 1e-6), unit=rs.AddRemove(3)),
    "marginals, limited": lambda: rs.plan(rs.marginals(D, ways=[1, 2]), GAUSS, unit=LIMITED),
    "products": lambda: rs.plan(rs.prefixes(D, "a") + rs.marginals(D, [("b",)]), GAUSS, form=rs.Lattice()),
    "products, crossed": lambda: rs.plan(CROSSED, GAUSS, form=rs.Lattice()),
    "products, replaced": lambda: rs.plan(CROSSED, GAUSS, form=rs.Lattice(), unit=rs.ReplaceOne()),
    "products, limited": lambda: rs.plan(CROSSED, GAUSS, form=rs.Lattice(), unit=LIMITED),
    "matrix": lambda: rs.plan(APART, GAUSS, form=rs.Matrix()),
    "matrix, queries": lambda: rs.plan(SQL, GAUSS),
    "matrix, replaced": lambda: rs.plan(SQL, GAUSS, unit=rs.ReplaceOne()),
    "matrix, limited": lambda: rs.plan(SQL, GAUSS, unit=LIMITED),
    "blockwise": lambda: rs.plan(SQL + APART, GAUSS, form=rs.Blockwise()),
    "blockwise, replaced": lambda: rs.plan(SQL + APART, GAUSS, form=rs.Blockwise(), unit=rs.ReplaceOne()),
    "blockwise, limited": lambda: rs.plan(SQL + APART, GAUSS, form=rs.Blockwise(), unit=LIMITED),
    "tree": lambda: rs.plan(rs.hierarchy(T, "t"), GAUSS, form=rs.Tree()),
    "tree, crossed": lambda: rs.plan(TREE, GAUSS, form=rs.Tree()),
    "tree, replaced": lambda: rs.plan(TREE, GAUSS, form=rs.Tree(), unit=rs.ReplaceOne()),
    "tree, limited": lambda: rs.plan(TREE, GAUSS, form=rs.Tree(), unit=rs.Person(3, one_per="t")),
    "by group": lambda: rs.by_group(_members(), by=["b"], chosen={0: "sums", 1: "values"}),
    "by group, replaced": lambda: rs.by_group(
        _members(unit=rs.ReplaceOne()), by=["b"], chosen={0: "sums", 2: "values"}
    ),
    "by group, limited": lambda: rs.by_group(_members(unit=LIMITED), by=["b"], chosen=["values", "sums", "values"]),
    # correlated normal noise
    "axis": lambda: rs.plan(rs.prefixes(D, "a"), GAUSS, form=rs.Axis()),
    "axis, ranges": lambda: rs.plan(rs.ranges(D, "a") + rs.marginals(D, [("a",)]), GAUSS, form=rs.Axis()),
    "axis, replaced": lambda: rs.plan(rs.prefixes(D, "a"), GAUSS, form=rs.Axis(), unit=rs.ReplaceOne()),
    "axis, limited": lambda: rs.plan(rs.prefixes(D, "a"), GAUSS, form=rs.Axis(), unit=LIMITED),
    "axis, levels": lambda: rs.plan(rs.prefixes(N, "day") + rs.hierarchy(N, "day"), GAUSS, form=rs.Axis()),
    "axis, crossed": lambda: rs.plan(CROSSED, GAUSS, form=rs.Axis()),
    "axis, crossed, replaced": lambda: rs.plan(CROSSED, GAUSS, form=rs.Axis(), unit=rs.ReplaceOne()),
    "axis, crossed, limited": lambda: rs.plan(CROSSED, GAUSS, form=rs.Axis(), unit=LIMITED),
    "axis, crossed, levels": lambda: rs.plan(
        rs.prefixes(N, "day", by=["b"]) + rs.hierarchy(N, "day"), GAUSS, form=rs.Axis()
    ),
    "two axes": lambda: rs.plan(
        rs.prefixes(TWO, ["a", "b"], by=["sex"]) + rs.prefixes(TWO, "a", by=["sex"]), GAUSS, form=rs.Axis(("a", "b"))
    ),
    "noise per set": lambda: rs.plan(CROSSED, GAUSS, form=rs.Axis(apart=True)),
    "noise per set, k records": lambda: rs.plan(CROSSED, GAUSS, form=rs.Axis(apart=True), unit=rs.AddRemove(2)),
    # Laplace noise
    "tables": lambda: rs.plan(APART, PURE),
    "tables, crossed": lambda: rs.plan(rs.marginals(D, ways=[1, 2]), PURE),
    "tables, replaced": lambda: rs.plan(APART, PURE, unit=rs.ReplaceOne()),
    "tables, limited": lambda: rs.plan(APART, PURE, unit=LIMITED),
    "pure matrix": lambda: rs.plan(APART, PURE, form=rs.Matrix()),
    "pure matrix, replaced": lambda: rs.plan(SQL, PURE, unit=rs.ReplaceOne()),
    "pure matrix, limited": lambda: rs.plan(SQL, PURE, unit=LIMITED),
    "pure tree": lambda: rs.plan(rs.hierarchy(T, "t"), PURE, form=rs.Tree()),
    "pure tree, replaced": lambda: rs.plan(rs.hierarchy(T, "t"), PURE, form=rs.Tree(), unit=rs.ReplaceOne()),
    "runs": lambda: _runs(),
    "runs, replaced": lambda: _runs(unit=rs.ReplaceOne()),
    "runs, limited": lambda: _runs(unit=rs.Person(3, one_per="a")),
}
NAMES = tuple(_MADE)


def _runs(**options: rs.ReplaceOne | rs.Person) -> rs.Plan:
    """Rows over runs of three values, and of seven runs; planned by nobody, who plans so for long attributes alone."""
    rows = [
        np.array([[1, 1, 0], [0, 2, 1], [1, 0, 3], [1, 1, 1]]),
        np.vstack([np.eye(7, dtype=int), np.tri(7, dtype=int)]),
    ]
    asked, scales = rs.prefixes(LONG, "a"), np.array([9.0, 30.0])
    plan = ProductPlan.along(
        LONG,
        0,
        {(): NestedBuckets(int(LONG.sizes[0]), tuple(rows), scales)},
        guarantee=rs.PureDP(9.0),
        workload=asked,
        **options,
    )
    return plan.replaced(guarantee=rs.PureDP(plan.unit_epsilon))


def _members(**options: rs.ReplaceOne | rs.Person) -> dict[str, rs.Plan]:
    """Plans for groups: whole tables, and prefix sums by a strategy of their own."""
    sums = rs.plan(rs.prefixes(D, "a"), GAUSS, form=rs.Lattice(), **options)
    return {"sums": sums, "values": rs.plan(rs.marginals(D, [("a",)]), GAUSS, **options)}


@cache
def made(name: str) -> rs.Plan:
    """A plan of the table, made once."""
    return _MADE[name]()
