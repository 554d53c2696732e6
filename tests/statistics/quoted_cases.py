"""The numbers whose intervals are counted: every kind, on easy and on hard data, for every form of plan and noise."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import residua as rs
from residua.plans.contract import Plan
from tests.statistics.many_releases import Ask

DOMAIN = rs.Domain({"age": rs.Integers(0, 9), "sex": ["F", "M"], "paid": ["no", "yes"]})
_SHAPE = np.array([8, 12, 15, 20, 24, 20, 14, 10, 6, 3])
# Hundreds of records per cell; and a handful: the noise is as large as most counts, and men are few.
EASY = np.stack([np.outer(_SHAPE, [70, 30]), np.outer(_SHAPE[::-1], [40, 60])], axis=1)
HARD = np.stack([np.outer(_SHAPE, [3, 1]), np.outer([1, 2, 3, 3, 4, 4, 3, 2, 1, 1], [2, 1])], axis=1)
# Men are ten, all but a few of one kind: denominators near zero, and cells that are.
TINY = np.stack(
    [np.outer(_SHAPE, [1, 0]) // 2 + np.outer(1 + np.arange(10) % 3, [0, 1]), np.tile([1, 0], (10, 1))], axis=1
)
TINY[4:7, 1, 1] = 1
TABLES = {"easy": EASY, "hard": HARD, "tiny": TINY}


def _marginals() -> Plan:
    return rs.plan(rs.marginals(DOMAIN, ways=[1, 2, 3]), rs.ZCDP(rho=0.5))


def _products() -> Plan:
    asked = rs.prefixes(DOMAIN, "age", by=["sex", "paid"])
    return rs.plan(asked + rs.marginals(DOMAIN, ways=[1, 2]), rs.ZCDP(rho=0.5))


def _matrix() -> Plan:
    return rs.plan(rs.explicit(DOMAIN, rs.marginals(DOMAIN, ways=[1, 2, 3])), rs.ZCDP(rho=0.5))


def _laplace_matrix() -> Plan:
    return rs.independent(rs.explicit(DOMAIN, rs.marginals(DOMAIN, ways=[3])), rs.PureDP(epsilon=1.0))


def _laplace_tables() -> Plan:
    return rs.plan(rs.marginals(DOMAIN, ways=[1, 2, 3]), rs.PureDP(epsilon=1.0))


PLANS: dict[str, Callable[[], Plan]] = {
    "marginals": _marginals,
    "products": _products,
    "matrix": _matrix,
    "Laplace matrix": _laplace_matrix,
    "Laplace tables": _laplace_tables,
}
WEIGHTS = {age: 1.0 + age for age in range(10)}
CASES: dict[str, Ask] = {
    "share of a total": lambda of: of.share(["paid"]),
    "share within groups": lambda of: of.share(["age"], by=["sex"]),
    "share, public total": lambda of: of.share(["paid"], total=float(_total(of))),
    "ratio": lambda of: of.ratio({"sex": "F"}, {"sex": "M"}),
    "ratio by group": lambda of: of.ratio({"paid": "yes"}, {"paid": "no"}, by=["age"]),
    "sum": lambda of: of.sum("age", by=["sex"]),
    "mean": lambda of: of.mean("age", by=["sex"]),
    "median": lambda of: of.median("age", by=["sex"]),
    "quantile 0.05": lambda of: of.quantile("age", 0.05, by=["sex"]),
    "quantile 0.95": lambda of: of.quantile("age", 0.95, by=["sex"]),
    "Gini": lambda of: of.gini("age", by=["sex"]),
    "difference of counts": lambda of: of.difference("sex", {"F": 1, "M": -1}, by=["age"]),
    "difference of means": lambda of: of.difference("sex", {"F": 1, "M": -1}, of="age"),
    "difference of shares": lambda of: of.difference("sex", {"F": 1, "M": -1}, of={"paid": "yes"}),
    "relative difference, counts": lambda of: of.relative_difference("sex", "F", "M"),
    "relative difference, means": lambda of: of.relative_difference("sex", "F", "M", of="age"),
    "relative difference, shares": lambda of: of.relative_difference("sex", "F", "M", of={"paid": "yes"}),
    "standardised share": lambda of: of.standardised({"paid": "yes"}, "age", WEIGHTS, by=["sex"]),
}


def _total(of: object) -> float:
    x: np.ndarray = of.x  # type: ignore[attr-defined]
    return float(x.sum())
