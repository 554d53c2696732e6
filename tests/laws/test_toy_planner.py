"""A planner and an objective of one's own: one class each, from `rs.plan` to a release, a projection and a report."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import residua as rs
from residua.errors import PlanError
from residua.plans.objectives import least_sum
from residua.plans.planners import offers
from residua.plans.planners.lattice import plan_marginals
from residua.plans.planners.offers import (
    Declared,
    Forecast,
    Offer,
    Planner,
    Proof,
    Task,
    finished,
    register,
    registered,
)
from residua.plans.planners.plan import _offers
from residua.plans.product.plan import ProductPlan
from residua.plans.saddle import Effort, Game, Solution

DOMAIN = rs.Domain({"age": rs.Integers(0, 9), "sex": ["F", "M"]})
STEPS, TABLES = rs.prefixes(DOMAIN, "age"), rs.marginals(DOMAIN, ways=[1, 2])
DATA = pa.table({"age": [0, 1, 1, 2, 9] * 200, "sex": ["F", "M", "M", "F", "M"] * 200})


@dataclass(frozen=True)
class Values(Planner[ProductPlan]):
    """Measures the values behind prefixes of one attribute, and adds them up."""

    declares = (Declared("prefixes", "total", "normal", Proof.EVERY, "no time"),)

    def offer(self, task: Task) -> Offer | None:
        of_one = task.workload.with_rows and len(task.workload.lattice.used) == 1 and not task.laplace
        return Offer(Proof.EVERY, Forecast(0.0, 0.0, "a toy"), task) if of_one or task.requested else None

    def plan(self, task: Task) -> ProductPlan | None:
        if isinstance(task.objective, rs.MaxVariance):
            return None  # others are better
        values = rs.marginals(DOMAIN, [("age",)])
        made = plan_marginals(replace(task, workload=values))
        return finished(made.replaced(workload=task.workload, objective="values alone"), task, 1.0)


@dataclass(frozen=True)
class Squares:
    """The sum of variances, tables by the squares of their weights."""

    homogeneous = True

    def loss(self, workload, variances) -> float:
        return float((workload.weights**2 * workload.cells) @ variances)

    def solve(self, workload, response: Game, effort: Effort) -> Solution:
        return least_sum(response, workload.weights**2 * workload.cells)


@pytest.fixture
def toy(monkeypatch):
    monkeypatch.setattr(offers, "_PLANNERS", dict(offers._PLANNERS))
    register(Values())


def _goes_all_the_way(plan, folder: Path) -> None:
    plan.save(folder / "plan.json")
    assert rs.Plan.load(folder / "plan.json").objective == plan.objective
    release = rs.measure(plan, DATA, ledger=rs.Ledger(folder / "ledger", rs.ZCDP(0.5)))
    release.save(folder / "out")
    again = rs.Release.load(folder / "out")
    assert np.array_equal(again.estimates(["age"]), release.estimates(["age"]))
    projected = rs.project(again)
    assert (projected.estimates(["age"]) >= 0).all()
    again.report(folder / "release.html")
    assert plan.objective in (folder / "release.html").read_text()


@pytest.mark.usefixtures("toy")
def test_a_registered_planner_is_asked_and_its_offer_taken(tmp_path):
    plan = rs.plan(STEPS, rs.ZCDP(0.5))
    assert plan.objective == "values alone"
    assert rs.plan(STEPS, rs.ZCDP(0.5), form=rs.Lattice()).objective == "TotalVariance"
    assert (
        rs.plan(STEPS, rs.ZCDP(0.5), minimise=rs.MaxVariance()).objective == "MaxVariance"
    )  # it leaves that to others
    assert rs.plan(TABLES, rs.ZCDP(0.5)).objective == "TotalVariance"  # and does not accept this
    assert "| `rs.Values` | prefixes | total | normal | against every plan | no time |" in planner_table()
    _goes_all_the_way(plan, tmp_path)


def test_a_planner_need_not_be_registered_to_be_asked_for_by_name():
    assert rs.plan(STEPS, rs.ZCDP(0.5), form=Values()).objective == "values alone"
    with pytest.raises(PlanError, match="no planner accepts"):
        rs.plan(STEPS, rs.ZCDP(0.5), minimise=rs.MaxVariance(), form=Values())


def test_an_objective_of_ones_own_is_minimised(tmp_path):
    weighted = rs.marginals(DOMAIN, [("age",)], weight=3.0) + rs.marginals(DOMAIN, [("sex",), ("age", "sex")])
    plan = rs.plan(weighted, rs.ZCDP(0.5), minimise=Squares())
    squared = rs.marginals(DOMAIN, [("age",)], weight=9.0) + rs.marginals(DOMAIN, [("sex",), ("age", "sex")])
    assert plan.variances(weighted) == pytest.approx(rs.plan(squared, rs.ZCDP(0.5)).variances(weighted))
    assert plan.gap < 1e-9
    _goes_all_the_way(plan, tmp_path)


def planner_table():
    """What all planners declare, as a table in Markdown."""
    head = "| form | asked | minimises | noise | proof | time |\n|---|---|---|---|---|---|\n"
    rows = [
        f"| `rs.{type(planner).__name__}` | {row.asked} | {row.objectives} | {row.noise} | {row.proof.words} "
        f"| {row.takes} |\n"
        for planner in registered()
        for row in planner.declares
    ]
    return head + "".join(rows)


def test_the_table_in_the_docs_is_what_planners_declare():
    page = (Path(__file__).parents[2] / "docs" / "choosing.md").read_text()
    assert planner_table() in page, f"docs/choosing.md: the table of planners is now\n\n{planner_table()}"


@pytest.mark.parametrize("objective", [rs.TotalVariance(), rs.MaxVariance()])
@pytest.mark.parametrize("laplace", [False, True])
def test_ending_the_asking_early_changes_no_choice(objective, laplace):
    long = rs.Domain({"t": rs.Integers(0, 1499, levels={"g": [0, 700, 1500]}), "b": rs.Integers(0, 2)})
    asked = [
        TABLES,
        STEPS,
        rs.queries(DOMAIN, ["age < 3 and sex = 'F'"]),
        rs.prefixes(long, "t"),
        rs.prefixes(long, "t", by=["b"]),
        rs.hierarchy(long, "t"),
    ]
    for workload in asked:
        task = Task(workload, rs.PureDP(1.0) if laplace else rs.ZCDP(0.5), objective, laplace=laplace)
        planners = offers.registered()
        all_of_them = [(offer, each) for each in planners if (offer := each.offer(task)) is not None]
        best = sorted(all_of_them, key=lambda both: both[0].order)
        chosen = list(_offers(task, planners))
        assert [each for _, each in chosen] == [each for _, each in best]
        assert [offer.order for offer, _ in chosen] == [offer.order for offer, _ in best]
