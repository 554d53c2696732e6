"""A kind of rows of one's own: one file, no existing file touched, and the whole pipeline takes it.

The toy asks for sums over three consecutive values. It is asked for by its word, planned with every noise, measured,
released, saved, loaded, projected, and reported.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

import residua as rs
from residua.domain import Attribute
from residua.errors import WorkloadError
from residua.linalg.arrays import Floats
from residua.report.plan_text import plan_facts
from residua.workload import AttributeQueries, Workload

DOMAIN = rs.Domain({"age": rs.Integers(0, 7), "sex": ["F", "M"]})
AGES = [0, 1, 1, 2, 5, 6, 7, 7, 7, 3] * 30


class Windows(AttributeQueries):
    """Sums over three consecutive values."""

    kind = "windows"

    @property
    def rows(self) -> int:
        """One per first value."""
        return self.size - 2

    def matrix(self) -> Floats:
        """Three ones in each row."""
        return sum(np.eye(self.rows, self.size, k) for k in range(3))

    def labels(self, attribute: Attribute) -> Iterator[str]:
        """`=0~2`, …"""
        return (f"={attribute.labels[i]}~{attribute.labels[i + 2]}" for i in range(self.rows))


def workload() -> Workload:
    return rs.product(DOMAIN, {"age": "windows", "sex": "identity"}) + 2 * rs.marginals(DOMAIN, [("age",)])


def test_it_is_asked_for_by_its_word():
    asked = workload()
    assert not asked.plain
    assert list(asked.titles()) == ["age: windows × sex", "age"]
    assert next(asked.query_labels()) == "age=0~2, sex=F"
    assert asked.listed().matrix.shape == (6 * 2 + 8, 16)
    with pytest.raises(WorkloadError, match="'windows'"):
        rs.product(DOMAIN, {"age": "window"})
    with pytest.raises(TypeError, match="already"):
        type("Others", (Windows,), {"kind": "windows"})


@pytest.mark.parametrize("guarantee", [rs.ZCDP(0.5), rs.PureDP(1.0)], ids=["normal", "laplace"])
@pytest.mark.parametrize("form", [None, rs.Matrix()], ids=["chosen", "matrix"])
def test_it_is_planned_measured_saved_projected_and_reported(tmp_path, guarantee, form):
    asked = workload()
    plan = rs.plan(asked, guarantee, form=form)
    assert plan.variances(asked) == pytest.approx(plan.variances(asked.listed()), rel=1e-6)
    plan.save(tmp_path / "plan.json")
    plan = rs.Plan.load(tmp_path / "plan.json")
    assert plan.workload.labels == asked.labels
    data = pa.table({"age": AGES, "sex": ["F", "M", "M"] * 100})
    release = rs.measure(plan, data, ledger=rs.Ledger(tmp_path / "ledger", guarantee))
    release.save(tmp_path / "release")
    release = rs.Release.load(tmp_path / "release")
    answers = release.answers(asked).columns
    ages = release.estimates(["age"])
    both = np.reshape(answers["estimate"][:12], (6, 2)).sum(axis=1)
    assert both == pytest.approx(ages[:-2] + ages[1:-1] + ages[2:], abs=1e-6)
    projected = rs.project(release).answers(asked).estimates
    assert len(projected) == asked.queries
    assert min(projected) >= 0
    if plan.workload.tabular:
        titles = [table.title for table in release.tables()]
        assert titles == ["age: windows × sex", "age"]
        assert {"term": "age: windows × sex"}.items() <= plan_facts(plan)["terms"][0].items()
    release.report(tmp_path / "report.html")
    assert "windows" in (tmp_path / "report.html").read_text() or not plan.workload.tabular
