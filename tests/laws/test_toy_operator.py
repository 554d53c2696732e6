"""An operator of one's own in one file: from `rs.plan` to a release, a projection, a report and the law."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import residua as rs
from residua.errors import PlanError
from residua.linalg.lattice import subsets
from residua.plans import ProductPlan
from residua.plans.noise import INVISIBLE_SCALE
from residua.plans.operators.contract import Operator, Piece, RecordCosts, require_power_of_two
from residua.plans.planners.offers import Declared, Forecast, Offer, Planner, Proof, Task, finished
from residua.plans.verifier import require_scales
from residua.testing import check_plan

DOMAIN = rs.Domain({"age": rs.Integers(0, 9), "sex": ["F", "M"], "one": ["only"]})
DATA = pa.table({"age": [0, 1, 1, 2, 9] * 200, "sex": ["F", "M", "M", "F", "M"] * 200, "one": ["only"] * 1000})
ALONE = rs.prefixes(DOMAIN, "age") + rs.marginals(DOMAIN, [("age",)])
CROSSED = rs.marginals(DOMAIN, [("age",), ("sex",), ("age", "sex")]) + rs.ranges(DOMAIN, "age", by=["sex"])


@pytest.fixture(autouse=True)
def unregistered(monkeypatch):
    monkeypatch.setattr(Operator, "readers", {**Operator.readers, "each value": EachValue.of_body})


@dataclass(frozen=True, eq=False)
class EachValue(Operator):
    """Independent normal noise of one precision on every value: `A = τ I`."""

    size: int
    precision: float
    kind = "each value"

    def row_variances(self, rows):
        return np.asarray((rows * rows).sum(axis=1)).ravel() / self.precision

    def row_covariances(self, rows, others):
        return (rows @ others.T).toarray() / self.precision

    def scaled(self, factor):
        return EachValue(self.size, self.precision * factor)

    def ratio_to(self, other):
        return self.precision / other.precision if isinstance(other, EachValue) else None

    def root(self):
        return math.sqrt(self.precision) * np.eye(self.size)

    def piece(self, members, sizes):
        deviation = math.prod(sizes) / math.sqrt(self.precision)
        grid = 2 ** max(math.ceil(math.log2(INVISIBLE_SCALE / deviation)), 0)
        return EachValuePiece(members, sizes, self, grid, deviation * grid * (1.0 + 2.0**-48))

    def to_body(self):
        return {"kind": self.kind, "precision": self.precision}

    @classmethod
    def of_body(cls, body, attribute, known):
        return cls(attribute.size, float(body["precision"]))


Operator.readers.pop("each value")  # other tests know nothing of it: the fixture above has it for these


@dataclass(frozen=True, eq=False)
class EachValuePiece(Piece):
    """Every value of the residual, on a grid."""

    operator: EachValue
    scale: float

    @property
    def cells(self):
        return self.operator.size * self.fibres

    @property
    def largest(self):
        return self.grid * self.fibres

    def record_costs(self, size):
        require_power_of_two(self.grid)
        require_scales(self.scale_list)
        return RecordCosts(Fraction(self.grid) ** 2 * self.heaviest / Fraction(self.scale) ** 2)

    @property
    def scale_list(self):
        return np.full(self.operator.size, self.scale)

    def integers(self, which, table):
        return np.moveaxis(self.residual(table), -1, 0).reshape(self.operator.size, -1) * self.grid

    def prepared(self, measured):
        return measured.reshape(self.operator.size, -1) / (float(self.grid) * self.fibres)

    def values(self, prepared):
        return prepared

    def whitened(self, measured):
        return self.prepared(measured) * math.sqrt(self.operator.precision)


@dataclass(frozen=True)
class EachValues(Planner[ProductPlan]):
    """Measures all values of the first attribute, by all sets of the others that are asked."""

    declares = (Declared("anything", "total", "normal", Proof.NONE, "no time"),)

    def offer(self, task: Task) -> Offer | None:
        return Offer(Proof.NONE, Forecast(0.0, 0.0, "a toy"), task)

    def plan(self, task: Task) -> ProductPlan:
        domain, short = task.workload.domain, tuple(i for i in task.workload.lattice.used if i)
        parts = {members: EachValue(int(domain.sizes[0]), 1.0) for members in subsets(short)}
        plan = ProductPlan.along(domain, 0, parts, **{**task.stated, "objective": "each value alike"})
        return finished(plan, task, float(plan.variances(task.workload).sum()))


@pytest.mark.parametrize("workload", [ALONE, CROSSED], ids=["alone", "crossed"])
def test_an_operator_goes_all_the_way(workload, tmp_path):
    plan = rs.plan(workload, rs.ZCDP(0.5), form=EachValues())
    plan.save(tmp_path / "plan.json")
    assert rs.Plan.load(tmp_path / "plan.json").variances(workload) == pytest.approx(plan.variances(workload))
    release = rs.measure(plan, DATA, ledger=rs.Ledger(tmp_path / "ledger", rs.ZCDP(0.5)))
    release.save(tmp_path / "out")
    again = rs.Release.load(tmp_path / "out")
    assert np.array_equal(again.estimates(["age"]), release.estimates(["age"]))
    projected = rs.project(again)
    assert (projected.estimates(["age"]) >= -1e-6).all()
    assert projected.estimates(["age"]).sum() == pytest.approx(again.estimates([]), rel=1e-6)
    projected.save(tmp_path / "projected")
    again.report(tmp_path / "release.html")
    assert "each value alike" in (tmp_path / "release.html").read_text()


@pytest.mark.parametrize("unit", [rs.AddRemove(), rs.ReplaceOne(), rs.Person(3, one_per="age")], ids=repr)
@pytest.mark.parametrize("workload", [ALONE, CROSSED], ids=["alone", "crossed"])
def test_the_law_of_all_plans_holds_for_it(workload, unit):
    check_plan(rs.plan(workload, rs.ZCDP(0.5), form=EachValues(), unit=unit))


def test_the_law_notices_an_operator_that_is_cheaper_than_its_noise(monkeypatch):
    honest = EachValuePiece.record_costs
    monkeypatch.setattr(EachValuePiece, "record_costs", lambda piece, n: replace(honest(piece, n), even=Fraction(1, 9)))
    with pytest.raises((AssertionError, PlanError), match=r"price|cost"):
        check_plan(rs.plan(ALONE, rs.ZCDP(0.5), form=EachValues()))
