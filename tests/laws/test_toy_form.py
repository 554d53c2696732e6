"""A form of plan of one's own: one file, no existing file touched, and the whole pipeline takes it.

The toy measures the values of one attribute as they are, with equal normal noise. It is planned, priced, measured,
released, saved, loaded, composed with other forms, pooled, and printed by the command.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import residua as rs
from residua.cli.main import app
from residua.cli.planning import print_plan
from residua.errors import PlanError
from residua.linalg.lattice import Layout, closure, layout_of
from residua.plans.cells import Grouping
from residua.plans.contract import Plan
from residua.plans.estimator import Combination, Estimator, combined, in_one_table
from residua.plans.measurements import Batch, Measurements
from residua.plans.noise import NORMAL, Noise
from residua.plans.planners.offers import Forecast, Offer, Planner, Proof, Task
from residua.plans.verifier import Profile, even, require_scales
from residua.privacy import ReplaceOne
from residua.report.plan_text import plan_facts
from residua.workload import Workload


@dataclass(frozen=True, eq=False)
class ToyBlocks(Measurements):
    sizes: Any
    attribute: int
    scale: float

    @property
    def noise(self) -> Noise:
        return NORMAL

    @property
    def cells(self) -> int:
        return int(self.sizes[self.attribute])

    def arrays(self) -> dict[str, Any]:
        return {"scales": np.array([self.scale])}

    def check(self) -> None:
        require_scales(np.array([self.scale]))

    def profile(self) -> Profile:
        return even(1 / Fraction(self.scale) ** 2)

    @classmethod
    def replaced(cls, several: Sequence[Any]) -> Fraction:
        return sum((2 / Fraction(each.scale) ** 2 for each in several), Fraction(0))

    @property
    def most_records(self) -> int:
        return 2**61

    @property
    def counted(self) -> Layout:
        lattice = closure([np.array([[self.attribute]], dtype=np.int32)], len(self.sizes))
        return layout_of(lattice, self.sizes, lattice.is_maximal)

    @property
    def in_place(self) -> bool:
        return True

    def batches(self) -> Sequence[Batch]:
        return [Batch(0, np.array([self.scale]), None)]

    def integers(self, batch: Batch, tables: Any) -> Any:
        return tables[None, :]


class ToyEstimator(Estimator):
    @property
    def summary(self) -> str:
        return f"{len(self.noisy)} values of {self.plan.name}."

    def marginal(self, positions: tuple[int, ...]) -> Any:
        return np.array(self.noisy.sum() if not positions else self.noisy, dtype=float)

    def answers(self, workload: Workload) -> tuple[Any, Any]:
        return self.plan.rows(workload) @ self.noisy, self.plan.variances(workload)

    def combination(self, combination: Combination) -> tuple[float, float]:
        row = self.plan.row(combination)
        return float(row @ self.noisy), self.plan.combination_variance(combination)

    def _whitened(self) -> Any:
        return self.noisy / self.plan.scale


@dataclass(frozen=True, eq=False)
class ToyPlan(Plan):
    kinds: ClassVar[tuple[str, ...]] = ("toy",)

    attribute: int
    scale: float

    @property
    def name(self) -> str:
        return self.domain.names[self.attribute]

    @property
    def pcost(self) -> float:
        return 1 / self.scale**2

    @property
    def unit_pcost(self) -> float:
        return float(self.unit.scaled(self.pcost, 2 * self.pcost if isinstance(self.unit, ReplaceOne) else None))

    def rows(self, workload: Workload) -> Any:
        asked = workload.listed()
        if not set(asked.attributes) <= {self.attribute}:
            raise PlanError(f"the toy knows {self.name!r} alone.")
        return asked.over((self.attribute,)).toarray()

    def row(self, combination: Combination) -> Any:
        _, total = in_one_table(self.domain, combined(self.domain, combination))
        return np.broadcast_to(total, (int(self.domain.sizes[self.attribute]),))

    def _variances(self, workload: Workload) -> Any:
        return (self.rows(workload) ** 2).sum(axis=1) * NORMAL.variance(self.scale)

    def _covariance(self, first: Workload, second: Workload) -> Any:
        return self.rows(first) @ self.rows(second).T * NORMAL.variance(self.scale)

    def combination_variance(self, combination: Combination) -> float:
        return float((self.row(combination) ** 2).sum() * NORMAL.variance(self.scale))

    def compile(self) -> ToyBlocks:
        return ToyBlocks(self.domain.sizes, self.attribute, self.scale)

    def saved_measurements(self, arrays: Mapping[str, Any]) -> ToyBlocks:
        return self.compile()

    def estimator(self, measurements: Measurements, noisy: Any) -> ToyEstimator:
        return ToyEstimator(self, measurements, noisy)

    @property
    def measured_attributes(self) -> tuple[int, ...]:
        return (self.attribute,)

    def over_cells(self) -> tuple[Grouping, Any]:
        n = int(self.domain.sizes[self.attribute])
        return Grouping((self.attribute,), np.arange(n)), np.eye(n) / self.scale

    @property
    def remarks(self) -> tuple[tuple[str, str], ...]:
        return (("Toy", "measures one attribute"),)

    def kept(self) -> dict[str, Any]:
        return {"attribute": self.attribute, "scale": self.scale}

    @classmethod
    def of_kept(cls, domain: rs.Domain, body: dict[str, Any], stated: dict[str, Any]) -> ToyPlan:
        return cls(domain, int(body["attribute"]), float(body["scale"]), **stated)


@dataclass(frozen=True)
class Toy(Planner[ToyPlan]):
    def offer(self, task: Task) -> Offer:
        return Offer(Proof.NONE, Forecast(0.0, 0.0, "a toy"), task)

    def plan(self, task: Task) -> ToyPlan:
        (position,) = task.workload.listed().attributes
        scale = 1 / math.sqrt(float(task.guarantee.pcost_allowed())) * (1 + 2**-40)
        return ToyPlan(task.workload.domain, position, scale, **task.stated)


DOMAIN = rs.Domain({"age": rs.Integers(0, 4), "sex": ["F", "M"]})
DATA = pa.table({"age": [0, 1, 1, 2, 4] * 200, "sex": ["F", "M", "M", "F", "M"] * 200})


@pytest.fixture(scope="module")
def made():
    return rs.plan(_ages(), rs.ZCDP(0.5), form=Toy())


def _ages():
    return rs.marginals(DOMAIN, [("age",)])


def test_it_is_planned_and_answers_every_question(made):
    assert isinstance(made, ToyPlan)
    assert made.cost == pytest.approx(1.0)
    assert made.variance(["age"]) == pytest.approx(np.full(5, 1 + 1 / 12))
    assert made.variance({"age": 3}) == pytest.approx(1 + 1 / 12)
    assert made.variances(rs.prefixes(DOMAIN, "age")) == pytest.approx(np.arange(1, 6) * (1 + 1 / 12))
    assert made.covariance(["age"]) == pytest.approx(np.eye(5) * (1 + 1 / 12))
    assert made.total_variance(_ages()) == pytest.approx(5 + 5 / 12)
    assert made.supports(["age"])


def test_it_is_measured_released_saved_loaded_and_printed(made, tmp_path, capsys):
    ledger = rs.Ledger(tmp_path / "l", rs.ZCDP(0.5))
    release = rs.measure(made, DATA, ledger=ledger)
    assert abs(release.count({"age": 1}).estimate - 400) < 12
    release.save(tmp_path / "out")
    again = rs.Release.load(tmp_path / "out")
    assert isinstance(again.planned, ToyPlan)
    assert np.array_equal(again.estimates(["age"]), release.estimates(["age"]))
    shown = CliRunner().invoke(app, ["table", str(tmp_path / "out"), "age"])
    assert shown.exit_code == 0
    assert "estimate" in shown.output
    made.save(tmp_path / "plan.json")
    assert rs.Plan.load(tmp_path / "plan.json").scale == made.scale
    print_plan(made)
    assert "measures one attribute" in capsys.readouterr().out
    assert plan_facts(made)["marginals"][0]["attributes"] == ["age"]


def test_it_is_composed_with_other_forms_and_pooled(made, tmp_path):
    other = rs.plan(rs.marginals(DOMAIN, ways=[1]), rs.ZCDP(0.5))
    both = made + other
    assert both.can_answer(made)
    assert both.can_answer(other)
    assert made.can_answer(rs.common([made, other]))
    assert rs.top_up(other, given=made).pcost < other.pcost
    releases = [
        rs.measure(plan, DATA, ledger=rs.Ledger(tmp_path / str(number), rs.ZCDP(0.5)))
        for number, plan in enumerate((made, other))
    ]
    pool = rs.pooled(releases, same_people=True)
    assert pool.plan.variance(["age"]).max() < min(made.variance(["age"]).max(), other.variance(["age"]).max())


def test_two_forms_cannot_have_one_name_in_files():
    with pytest.raises(TypeError, match="two forms of plan are called 'toy'"):
        type("Other", (ToyPlan,), {"kinds": ("toy",), "__module__": "elsewhere"})
