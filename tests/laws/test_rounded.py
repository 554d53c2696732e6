"""Whole numbers: one rounding of all tables of a release, a projection or estimates, whose tables add up."""

from __future__ import annotations

import csv
import math
from contextlib import suppress
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings, strategies as st

import residua as rs
from residua.errors import PlanError
from residua.projection import rounding
from residua.projection.rounding import attribute_by_attribute, cumulated, differences, searched
from residua.projection.rounding_kernel import transported
from tests.laws.every_plan import made

SIZES = {"a": 4, "b": 3, "c": 5, "d": 2}
DOMAIN = rs.Domain({name: rs.Integers(0, size - 1) for name, size in SIZES.items()})


def people(records: int, seed: int = 1) -> pa.Table:
    """Skewed and dependent: some cells hold many, many hold none."""
    random = np.random.default_rng(seed)
    kind = random.integers(0, 3, records)
    return pa.table(
        {name: np.minimum(random.geometric(0.4, records) - 1 + kind, size - 1) for name, size in SIZES.items()}
    )


def released(folder: Path, workload: rs.Workload, records: int = 400, budget: Any = None) -> rs.Release:
    budget = budget or rs.ZCDP(0.3)
    plan = rs.plan(workload, budget)
    return rs.measure(
        plan, people(records), ledger=rs.Ledger(folder / f"{np.random.default_rng().integers(1 << 62)}", budget)
    )


WORKLOADS = {
    "one and two": rs.marginals(DOMAIN, ways=[0, 1, 2]),
    "three that overlap": rs.marginals(DOMAIN, ways=[1, 3]),
    "one table of all": rs.marginals(DOMAIN, sets=[("a", "b", "c", "d"), ("b", "d"), ("c",)]),
    "two that share one": rs.marginals(DOMAIN, sets=[("a", "b", "c"), ("c", "d"), ("a",)]),
    "prefixes": rs.product(DOMAIN, {"a": "prefixes", "b": "identity", "c": "ranges"}, sets=[("a", "b"), ("b", "c")]),
}
KINDS = {"release": lambda r: r, "projection": lambda r: rs.project(r, simulations=0), "estimates": rs.estimate}


@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=WORKLOADS)
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_tables_are_whole_and_add_up_whichever_is_asked_for_first(tmp_path: Path, workload: Any, kind: Any) -> None:
    closed = {part for names in workload.sets for k in range(len(names) + 1) for part in combinations(names, k)}
    for _ in range(6):  # of 450 searches for tables that overlap none failed: that six do has odds below 1e-12
        published = kind(released(tmp_path, workload))
        rounded, again = published.rounded(), published.rounded()
        with suppress(PlanError):
            cells = {names: rounded.estimates(names) for names in sorted(closed)}
            break
    for names in sorted(closed, key=len, reverse=True):  # in another order, of another object
        np.testing.assert_array_equal(again.estimates(names), cells[names])
        assert (cells[names] == np.rint(cells[names])).all()
        assert not published.nonnegative or cells[names].min() >= 0
        for axis in range(len(names)):
            np.testing.assert_array_equal(cells[names].sum(axis=axis), cells[names[:axis] + names[axis + 1 :]])
    for table, exact in zip(rounded.tables(), published.tables(), strict=True):
        assert (table.estimates == np.rint(table.estimates)).all()
        assert table.title == exact.title
        np.testing.assert_allclose(table.moved, np.abs(table.estimates - exact.estimates))
        # intervals hold all that those before rounding hold, and the number
        assert (table["lower"] <= np.minimum(exact["lower"], table["estimate"]) + 1e-9).all()
        assert (table["upper"] >= np.maximum(exact["upper"], table["estimate"]) - 1e-9).all()
        assert "rounded by at most" in table.note
    total = rounded.estimates(())
    assert abs(total - published.estimates(())) <= 0.5 + 1e-5


@given(
    shape=st.lists(st.integers(1, 5), min_size=0, max_size=4),
    seed=st.integers(0, 2**32 - 1),
    scale=st.sampled_from([0.3, 3.0, 1e6]),
    halves=st.booleans(),
)
def test_boxes_of_cumulated_sums_move_by_no_more_than_half_of_their_corners(
    shape: list[int], seed: int, scale: float, halves: bool
) -> None:
    random = np.random.default_rng(seed)
    table = random.normal(0, scale, shape)
    table = np.rint(2 * table) / 2 if halves else table

    def sums(values: np.ndarray) -> np.ndarray:
        return cumulated(values, lambda axis: sums(values.sum(axis=axis)))

    moved = differences(sums(table)) - table
    for axis in range(table.ndim):
        np.testing.assert_array_equal(differences(sums(table)).sum(axis=axis), differences(sums(table.sum(axis=axis))))
    box = tuple(slice(*sorted(random.integers(0, n + 1, 2))) for n in shape)
    limit = 2.0 ** (table.ndim - 1) + 1e-5 * (1 + scale * table.size * 1e-9)
    assert abs(moved[box].sum()) <= limit
    assert np.abs(moved).max(initial=0.0) <= limit


@given(
    shape=st.lists(st.integers(1, 6), min_size=2, max_size=4),
    seed=st.integers(0, 2**32 - 1),
    scale=st.sampled_from([0.05, 0.5, 5.0, 1e4]),
)
@settings(max_examples=60)
def test_numbers_that_are_not_negative_have_the_margins_given_and_keep_zeros(
    shape: list[int], seed: int, scale: float
) -> None:
    random = np.random.default_rng(seed)
    table = random.gamma(0.3, scale, shape) * (random.random(shape) < 0.6)

    def margin(axis: int) -> np.ndarray:
        others = tuple(i for i in range(table.ndim) if i != axis)
        return np.diff(np.ceil(table.sum(axis=others).cumsum() - 0.5 - 1e-6), prepend=0).astype(np.int64)

    margins = [margin(axis) for axis in range(table.ndim)]
    whole = attribute_by_attribute(table, margins)
    assert whole.dtype == np.int64
    assert whole.min(initial=0) >= 0
    for axis, wanted in enumerate(margins):
        np.testing.assert_array_equal(whole.sum(axis=tuple(i for i in range(table.ndim) if i != axis)), wanted)
    if table.ndim == 2 and (whole > 0)[table <= 0].any():  # only where whole numbers with these sums need it
        from scipy.optimize import linprog

        rows, columns = np.indices(table.shape).reshape(2, -1)
        sums = np.vstack([rows == i for i in range(shape[0])] + [columns == j for j in range(shape[1])]).astype(float)
        most = np.where(table.ravel() > 1e-6, np.ceil(table.ravel()) + 10, 0)
        found = linprog(np.zeros(table.size), A_eq=sums, b_eq=np.concatenate(margins), bounds=np.c_[0 * most, most])
        assert found.x is None


def test_whole_numbers_stay_what_they_are() -> None:
    """Public tables, given in whole numbers, are not moved."""
    table = np.random.default_rng(3).poisson(4, (6, 5)).astype(np.float64)
    margins = [table.sum(axis=1).astype(np.int64), table.sum(axis=0).astype(np.int64)]
    np.testing.assert_array_equal(attribute_by_attribute(table, margins), table)
    found = searched({("r", "c"): table}, {("r",): margins[0], ("c",): margins[1]})
    assert found is not None
    np.testing.assert_array_equal(found["r", "c"], table)
    line = np.array([0.4, 3.0, 0.4, 0.4, 7.0, 0.0])
    assert differences(cumulated(line, lambda axis: np.int64(11))).tolist()[1::3] == [3, 7]


def test_intervals_cover_as_they_say(tmp_path: Path) -> None:
    """At 95 %, of 40 releases; false alarm below 1e-7, even if all numbers of a release hold or fail together.

    That the mean of 40 independent shares, each 5 % on average at most, is above 35 % has odds of at most
    exp(−40 KL(0.35 ‖ 0.05)) = 3e-8. (That intervals hold all that those before rounding hold is a law above.)
    """
    workload = rs.marginals(DOMAIN, ways=[0, 1, 2])
    data = people(400)
    columns = {name: data[name].to_numpy() for name in SIZES}
    truth = {
        names: np.histogramdd(np.array([columns[n] for n in names]).T, [np.arange(SIZES[n] + 1) for n in names])[0]
        for names in workload.sets
        if names
    }
    plan, held = rs.plan(workload, rs.ZCDP(0.3)), list[float]()
    ledger = rs.Ledger(tmp_path / "l", rs.ZCDP(20.0))
    for _ in range(40):
        tables = [t for t in rs.measure(plan, data, ledger=ledger).rounded().tables() if t.attributes]
        own = [
            (t["lower"] <= truth[t.attributes].ravel()) & (truth[t.attributes].ravel() <= t["upper"]) for t in tables
        ]
        held.append(float(np.concatenate(own).mean()))
    assert np.mean(held) > 0.65


def test_large_tables_that_share_two_attributes_are_refused_and_the_release_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = released(tmp_path, WORKLOADS["three that overlap"])
    monkeypatch.setattr(rounding, "MOST_SEARCHED", 50)
    with pytest.raises(PlanError, match="Round the release"):
        list(rs.project(release, simulations=0).rounded().tables())
    assert len(list(release.rounded().tables())) == 8


def test_tables_that_were_not_asked_for_agree_with_those_that_were(tmp_path: Path) -> None:
    for _ in range(20):  # of 120 searches one found none: that twenty do has odds below 1e-20
        rounded = rs.estimate(released(tmp_path, WORKLOADS["one and two"])).rounded()
        with suppress(PlanError):
            cells = rounded.table(["a", "b", "d"]).estimates
            break
    assert cells.min() >= 0
    for axis, names in enumerate((["b", "d"], ["a", "d"], ["a", "b"])):
        np.testing.assert_array_equal(cells.sum(axis=axis), rounded.table(names).estimates)


def test_where_an_axis_ends_the_table_without_it_decides() -> None:
    """Two ways of summing floating point may end on either side of a half."""
    assert cumulated(np.array([0.2, 0.3]), lambda axis: np.int64(7)).tolist() == [0, 7]
    table = np.full((2, 2), 0.25)
    margins = {0: np.array([1, 1]), 1: np.array([0, 1])}
    whole = differences(cumulated(table, lambda axis: margins[axis]))
    assert (whole.sum(axis=0).tolist(), whole.sum(axis=1).tolist()) == ([1, 0], [0, 1])


def test_a_zero_is_filled_only_if_the_rest_of_its_row_has_no_room() -> None:
    target = np.array([[0.0, 0.9], [0.4, 0.0], [0.5, 0.5]])
    assert transported(target, np.array([0, 1, 1]), np.array([1, 1])).tolist() == [[0, 0], [1, 0], [0, 1]]
    assert transported(np.array([[1.0, 0.0]]), np.array([2]), np.array([1, 1])).tolist() == [[1, 1]]


@pytest.mark.parametrize("wrong", [math.nan, math.inf, 1e300])
def test_what_cannot_be_counted_is_refused(wrong: float) -> None:
    with pytest.raises(PlanError, match="cannot be rounded"):
        cumulated(np.array([1.0, wrong]), lambda axis: np.int64(1))


def test_queries_agree_with_tables_or_are_rounded_by_themselves(tmp_path: Path) -> None:
    asked = rs.queries(DOMAIN, ["a = 1 and b = 2", "a = 1"])
    rounded = released(tmp_path, WORKLOADS["one and two"]).rounded()
    answers = rounded.answers(asked).estimates
    assert answers.tolist() == [rounded.estimates(["a", "b"])[1, 2], rounded.estimates(["a"])[1]]
    alone = released(tmp_path, asked)
    assert (alone.rounded().answers().estimates == np.rint(alone.answers().estimates)).all()
    prefixes = rounded.table(["c", "a"], queries={"a": "prefixes"})
    np.testing.assert_array_equal(prefixes.estimates, rounded.estimates(["c", "a"]).cumsum(axis=1))


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("format", ["csv", "parquet", "long", "jsonstat", "px"])
def test_exports_hold_the_same_whole_numbers_and_say_so(tmp_path: Path, kind: Any, format: str) -> None:
    published = kind(released(tmp_path, WORKLOADS["one and two"]))
    files = published.rounded().export(tmp_path / "out", format, suppress="unreliable")
    tables = list(published.rounded().tables())
    blank = [table.poor("unreliable") for table in tables]
    assert any(each.any() for each in blank)
    if format in ("csv", "parquet"):
        for file, table, hidden in zip(files, tables, blank, strict=True):
            rows = (
                list(csv.DictReader(file.read_text().splitlines()))
                if format == "csv"
                else pq.read_table(file).to_pylist()
            )
            assert [row["estimate"] in ("", None) for row in rows] == hidden.tolist()
            shown = [float(row["estimate"]) for row in rows if row["estimate"] not in ("", None)]
            assert shown == table["estimate"][~hidden].tolist()
            assert all(each >= 0 for each in shown)
    if format == "long":
        written = pq.read_table(files[0]).to_pandas()
        numbers = np.concatenate(
            [np.where(hidden, np.nan, t["estimate"]) for t, hidden in zip(tables, blank, strict=True)]
        )
        np.testing.assert_array_equal(np.sort(written["estimate"]), np.sort(numbers))
        assert {"lower", "upper"} <= set(written.columns)
    said = "".join(
        path.read_bytes().decode(errors="replace") for path in (tmp_path / "out").rglob("*") if path.is_file()
    )
    flat = said.replace('"\n"', "")
    assert "rounded to whole ones, once for all tables" in flat
    assert "left blank" in flat


def test_suppressed_numbers_are_poor_or_below_zero(tmp_path: Path) -> None:
    release = released(tmp_path, WORKLOADS["one and two"])
    with pytest.raises(PlanError, match="suppress="):
        release.export(tmp_path / "out", suppress="bad")  # type: ignore[arg-type]
    for table in [*release.tables(), *rs.project(release, simulations=0).tables()]:
        hidden = table.suppressed("unreliable")
        flags = table.flagged(suppress="unreliable")
        np.testing.assert_array_equal(np.isnan(hidden["estimate"]), np.isnan(flags["estimate"]))
        told = ~np.isnan(hidden["estimate"])
        assert (hidden["estimate"][told] > 0).all()
        assert not np.isin(np.array(flags["quality"])[told], ["unreliable"]).any()
        assert np.isnan(hidden["lower"][~told]).all()
    below = replace(release.table(["d"]), estimates=np.array([-9.0, 9.0]), stddev=1.0)
    assert below.poor("unreliable").tolist() == [True, False]
    answers = release.answers(rs.queries(DOMAIN, ["d = 0", "d = 1"]))
    differences_ = replace(answers, estimates=np.array([-9.0, 9.0]), stddev=np.ones(2))
    assert differences_.poor("unreliable").tolist() == [False, False]


def test_every_node_of_a_tree_moves_by_no_more_than_one(tmp_path: Path) -> None:
    groups = {"county": [f"c{i % 97}" for i in range(600)], "state": [f"s{i % 97 % 8}" for i in range(600)]}
    domain = rs.Domain({"area": rs.CodeList([f"b{i:04d}" for i in range(600)], levels=groups), "sex": ["f", "m"]})
    plan = rs.plan(
        rs.product(domain, {"area": "hierarchy", "sex": "identity"}, sets=[("area",), ("sex",)]), rs.ZCDP(0.5)
    )
    data = pa.table({"area": [f"b{i % 600:04d}" for i in range(1_800)], "sex": ["f", "m"] * 900})
    release = rs.measure(plan, data, ledger=rs.Ledger(tmp_path / "l", rs.ZCDP(0.5)))
    for published in (release, rs.project(release, simulations=0)):
        tables = [table.estimates for table in published.rounded().tables()]
        assert {float(each.sum()) for each in tables if math.prod(each.shape) > 1} == {float(tables[-1].sum())}
        moved = [np.abs(t.moved).max() for t in published.rounded().tables() if t.attributes == ("area",)]
        assert max(moved) <= 1 + 1e-5  # every node of the tree, though its leaves stand far apart


@pytest.mark.parametrize(
    "name", ["products, crossed", "blockwise", "tree, crossed", "axis, crossed, levels", "two axes", "tables, crossed"]
)
def test_releases_of_every_form_are_rounded(name: str) -> None:
    plan = made(name)
    measured = plan.compile()
    numbers = np.random.default_rng(1).integers(-300, 900, measured.cells)
    release = rs.Release(plan, measured, numbers, {"pcost": 1.0, "epsilon": 1.0})
    rounded = release.rounded()
    for table in rounded.tables():
        assert (table.estimates == np.rint(table.estimates)).all()
        assert table.moved.max() <= 2.0 ** (len(table.attributes) - 1) + 1e-5
    assert (rounded.answers().estimates == np.rint(rounded.answers().estimates)).all()


def test_numbers_that_are_not_told_are_refused() -> None:
    plan = made("by group")
    measured = plan.compile()
    release = rs.Release(plan, measured, np.ones(measured.cells, dtype=np.int64), {"pcost": 1.0})
    with pytest.raises(PlanError, match="not told"):
        list(release.rounded().tables())
