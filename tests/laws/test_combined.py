"""Releases of disjoint populations together: the sums of their numbers and of their variances, by name their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import residua as rs
from residua.errors import PlanError
from residua.projection.problems import problem_of
from residua.release import Release
from tests.statistics.copies import measured

DOMAIN = rs.Domain({"age": rs.Integers(0, 5, levels={"half": [0, 3, 6]}), "sex": ["F", "M"]})
ASKED = rs.marginals(DOMAIN, ways=[0, 1, 2])
NORTH, SOUTH = np.arange(12).reshape(6, 2) * 7, np.arange(12)[::-1].reshape(6, 2) * 20
LESS, MORE = rs.ZCDP(0.1), rs.ZCDP(0.5)
PLANS: dict[str, Callable[[rs.ZCDP], rs.Plan]] = {
    "marginals": lambda budget: rs.plan(ASKED, budget),
    "products": lambda budget: rs.plan(rs.prefixes(DOMAIN, "age", by=["sex"]) + ASKED, budget),
    "matrix": lambda budget: rs.plan(rs.explicit(DOMAIN, ASKED), budget),
    "blockwise": lambda budget: rs.plan(rs.queries(DOMAIN, ["age > 3"]) + ASKED, budget, form=rs.Blockwise()),
    "tree": lambda budget: rs.plan(rs.hierarchy(DOMAIN, "age", by=["sex"]), budget, form=rs.Tree()),
    "axis": lambda budget: rs.plan(rs.prefixes(DOMAIN, "age", by=["sex"]), budget, form=rs.Axis()),
    "Laplace": lambda budget: rs.plan(ASKED, rs.PureDP(float(budget.rho))),
    "Laplace matrix": lambda budget: rs.independent(rs.explicit(DOMAIN, ASKED), rs.PureDP(float(budget.rho))),
}
PAIRS = [(one, one) for one in PLANS] + [
    ("marginals", "products"),
    ("tree", "marginals"),
    ("Laplace", "Laplace matrix"),
]


def released(plan: rs.Plan, x: np.ndarray, ledger: str, **receipt: Any) -> rs.Release:
    """What a ledger paid for, once."""
    row = measured(plan.measurements, x, 1)[0]
    return Release(plan, plan.measurements, row, {"ledger": ledger, "digest": f"of {ledger}", **receipt})


def pair(one: str, two: str) -> list[rs.Release]:
    return [released(PLANS[one](LESS), NORTH, "n"), released(PLANS[two](MORE), SOUTH, "s")]


@pytest.mark.parametrize(("one", "two"), PAIRS)
def test_numbers_are_sums_and_so_are_variances(one: str, two: str, tmp_path: Path) -> None:
    """Of Laplace noise variances are stated up to a part in 10,000 above the truth, as of pools."""
    parts = pair(one, two)
    both = rs.combined(dict(zip(("north", "south"), parts, strict=True)), by="region", disjoint=True)
    both.save(tmp_path / "both")
    for release in (both, rs.Release.load(tmp_path / "both")):
        for names in (["age"], ["sex", "age"]):
            own = [part.table(names) for part in parts]
            together = release.table(names)
            np.testing.assert_allclose(together.estimates, sum(each.estimates for each in own), atol=1e-2)
            expected = sum(each["stddev"] ** 2 for each in own)
            np.testing.assert_allclose(together["stddev"] ** 2, expected, rtol=2e-4)
            by_name = release.table(["region", *names])
            np.testing.assert_allclose(by_name.estimates, [each.estimates for each in own], atol=1e-2)
            stddevs = np.concatenate([each["stddev"] for each in own])
            np.testing.assert_allclose(by_name["stddev"], stddevs, rtol=2e-4)
    assert both.planned.guarantee == parts[1].planned.guarantee, "every record pays in its own population"
    assert both.debits == {"of n", "of s"}
    assert both.planned.supports(["region", "age", "sex"])


def test_everything_is_quoted_from_them_together() -> None:
    parts = pair("marginals", "marginals")
    both = rs.combined(parts, disjoint=True)
    assert both.domain["population"].labels == ("1", "2")
    share = both.share(["population"])
    counts = [part.count() for part in parts]
    assert share.estimate[0] == pytest.approx(counts[0].estimate / sum(each.estimate for each in counts))
    assert both.count().stddev == pytest.approx(np.hypot(*(each.stddev for each in counts)))
    change = rs.change(parts[1], parts[0])
    gap = both.difference("population", {"2": 1, "1": -1})
    assert (gap.lower, gap.upper) == (pytest.approx(float(change.lower)), pytest.approx(float(change.upper)))
    assert rs.project(both).table(["population", "age"])["lower"].min() >= 0
    with pytest.raises(PlanError, match="share one"):
        rs.change(both, parts[0])


def test_projected_populations_are_as_near_as_each_by_itself(tmp_path: Path) -> None:
    """With many cells that hold nobody: each keeps its clear total, so that cells are not too high on average."""
    domain = rs.Domain({name: rs.Integers(0, 4) for name in "abcd"})
    random, plan = np.random.default_rng(5), rs.plan(rs.marginals(domain, ways=[1, 2]), rs.ZCDP(0.02))
    truths = np.zeros((2, *domain.sizes))
    for truth, people in zip(truths, (600, 900), strict=True):
        np.add.at(truth, tuple(np.minimum(random.geometric(0.6, (4, people)) - 1, 4)), 1.0)
    parts = [released(plan, truth, str(k)) for k, truth in enumerate(truths)]
    both = rs.combined(parts, disjoint=True)
    projected = rs.project(both, simulations=0)
    together = both.table(["population"])
    assert projected.estimates(["population"]) == pytest.approx(together.estimates)
    assert (rs.project(both, total="free", simulations=0).estimates(["population"]) > together.estimates).all()
    alone = [rs.project(part, metric="covariance", simulations=0) for part in parts]
    errors = np.zeros((2, 4, 2, 5))
    for at, name in enumerate(domain.names):
        truth = truths.sum(axis=tuple(axis for axis in range(1, 5) if axis != at + 1))
        errors[0, at] = projected.estimates(["population", name]) - truth
        errors[1, at] = np.stack([each.estimates([name]) for each in alone]) - truth
    assert np.linalg.norm(errors[0]) < 1.1 * np.linalg.norm(errors[1])
    problem = problem_of(both.plan, projected.terms)
    apart = np.stack([projected.fit.array[..., k] for k in range(2)]) - truths
    seen = [rows @ each.ravel() for rows, each in zip(problem._rows, apart, strict=True)]
    assert np.linalg.norm(seen) <= projected.bound.projected * np.sqrt(problem.cells)
    projected.save(tmp_path / "p")
    assert rs.Projected.load(tmp_path / "p").terms.own_totals
    assert "the total of each group is exactly what the release says" in projected.statement


def test_what_bounds_on_persons_left_out_adds_up(tmp_path: Path) -> None:
    unit = rs.Person(records=2)
    plan = rs.plan(ASKED, rs.ZCDP(1.0), unit=unit)
    parts = []
    for k in (50, 100):
        data = pa.table({"id": np.repeat(np.arange(k), 3), "age": [0, 1, 2] * k, "sex": ["F", "M", "F"] * k})
        ledger = rs.Ledger(tmp_path / f"{k}", rs.ZCDP(1.0), unit=unit)
        parts.append(rs.measure(plan, rs.Source.frame(data, person="id"), ledger=ledger))
    both = rs.combined(parts, disjoint=True)
    both.save(tmp_path / "both")
    left = [each.left_out for each in (*parts, both, rs.Release.load(tmp_path / "both"))]
    one, two, *together = (each.count() for each in left if each is not None)
    for each in together:
        assert each.estimate == pytest.approx(one.estimate + two.estimate)
        assert each.stddev == pytest.approx(np.hypot(one.stddev, two.stddev))
    assert "leaves out at least about" in both.counted


def test_survey_totals_of_two_populations_add_up() -> None:
    weights = {"weights": "w", "weights_most": 10.0, "weights_step": 0.5}
    plan = rs.plan(ASKED, MORE, unit=rs.AddRemove(records=20))
    parts = [released(plan, x * 4, name, **weights) for name, x in (("n", NORTH), ("s", SOUTH))]
    own = [rs.weighted(part).total() for part in parts]
    together = rs.weighted(rs.combined(parts, disjoint=True)).total()
    assert together.estimate == pytest.approx(sum(each.estimate for each in own))
    other = replace(parts[1], receipt={**parts[1].receipt, "weights_step": 1.0})
    with pytest.raises(PlanError, match="different survey weights"):
        rs.combined([parts[0], other], disjoint=True)


def _refusals() -> dict[str, tuple[Callable[[Sequence[rs.Release]], object], str]]:
    plan = rs.plan(ASKED, MORE)
    elsewhere = rs.plan(rs.marginals(rs.Domain({"age": rs.Integers(0, 5)}), ways=[1]), MORE)
    unlike = rs.plan(ASKED, MORE, unit=rs.AddRemove(2))
    replacing = rs.plan(ASKED, MORE, unit=rs.ReplaceOne())
    totals = rs.plan(rs.marginals(DOMAIN, ways=[0]), MORE)
    sexes = rs.plan(rs.marginals(DOMAIN, [("sex",)]), MORE)
    return {
        "not declared": (lambda both: rs.combined(both), "say disjoint=True"),
        "one population": (
            lambda both: rs.combined([both[0], released(plan, SOUTH, "n", digest="x")], disjoint=True), "of one ledger"
        ),
        "twice": (lambda both: rs.combined([both[0], both[0]], disjoint=True), "given twice"),
        "one": (lambda both: rs.combined(both[:1], disjoint=True), "two or more populations"),
        "none": (lambda both: rs.combined([], disjoint=True), "releases is empty"),
        "no list": (lambda both: rs.combined(both[0], disjoint=True), "give a list"),
        "an old name": (lambda both: rs.combined(both, by="age", disjoint=True), "not the name of a new attribute"),
        "domains": (
            lambda both: rs.combined([both[0], released(elsewhere, NORTH[:, 0], "e")], disjoint=True),
            "different domains",
        ),
        "units": (lambda both: rs.combined([both[0], released(unlike, NORTH, "u")], disjoint=True), "different units"),
        "noise": (
            lambda both: rs.combined([both[0], pair("Laplace", "Laplace")[1]], disjoint=True), "normal and with Laplace"
        ),
        "replaced": (
            lambda _: rs.combined([released(replacing, x, n) for n, x in (("n", NORTH), ("s", SOUTH))], disjoint=True),
            "replaced records",
        ),
        "nothing in common": (
            lambda _: rs.combined([released(sexes, NORTH, "n"), released(totals, SOUTH, "s")], disjoint=True),
            "nothing in common",
        ),
    }  # fmt: skip


@pytest.mark.parametrize("name", _refusals())
def test_what_is_no_sum_of_populations_is_refused(name: str) -> None:
    act, words = _refusals()[name]
    with pytest.raises(PlanError, match=words):
        act(pair("marginals", "marginals"))
