"""What the type checker is told is what comes back: checked by mypy alone, in `scripts/test`; nothing here runs."""

from typing import assert_type

import residua as rs
from residua.linalg.arrays import Floats
from residua.plans import LatticePlan, MatrixPlan, Plan
from residua.privacy import Guarantee
from residua.published import Flagged
from residua.quoting import Quoted
from residua.workload import Workload


def plans(workload: Workload, any_guarantee: Guarantee) -> None:
    """What is planned follows from what is asked, unless a form is named."""
    assert_type(rs.plan(workload, rs.ZCDP(1.0)), Plan)
    assert_type(rs.plan(workload, noise="laplace", targets=1.0), Plan)
    assert_type(rs.plan(workload, any_guarantee), Plan)
    assert_type(rs.plan(workload, rs.GDP(1.0), form=rs.Lattice(limit=5)), LatticePlan)
    assert_type(rs.plan(workload, rs.ZCDP(1.0), form=rs.Matrix()), MatrixPlan)
    assert_type(rs.independent(workload, rs.ZCDP(1.0)), Plan)


def facts(plan: Plan, tables: Workload) -> None:
    """Of one query a number, of all others an array."""
    assert_type(plan.variance(["a"]), Floats)
    assert_type(plan.variance({"a": 1}), float)
    assert_type(plan.variances(tables), Floats)
    assert_type(plan.covariance(tables), Floats)
    assert_type(plan.covariance({"a": 1}, {"b": 2}), float)
    assert_type(plan.total_variance(tables), float)
    assert_type(plan.can_answer(plan), bool)


def quoted(release: rs.Release, plan: Plan) -> None:
    """Every quoted number is one kind of table."""
    assert_type(release.mean("a"), Quoted)
    assert_type(plan.mean("a", records=100), Quoted)
    assert_type(release.table(["a"]).flagged(), Flagged)
