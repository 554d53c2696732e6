"""What the type checker is told is what comes back: checked by mypy alone, in `scripts/test`; nothing here runs."""

from typing import assert_type

import residua as rs
from residua.linalg.arrays import Floats
from residua.plans import BlockwisePlan, MatrixPlan, Plan
from residua.privacy import Guarantee
from residua.published import Flagged
from residua.quoting import Quoted
from residua.workload import Workload


def plans(tables: Workload, ranges: Workload, queries: Workload, any_guarantee: Guarantee) -> None:
    """The form that was asked for by name is told; chosen forms are plans."""
    assert_type(rs.plan(tables, rs.ZCDP(1.0), form=rs.Matrix()), MatrixPlan)
    assert_type(rs.plan(queries, rs.PureDP(1.0), form=rs.Matrix()), MatrixPlan)
    assert_type(rs.plan(ranges, targets=1.0, form=rs.Blockwise()), BlockwisePlan)
    assert_type(rs.plan(ranges, noise="laplace", targets=1.0), Plan)
    assert_type(rs.plan(tables, any_guarantee), Plan)
    assert_type(rs.independent(tables, rs.ZCDP(1.0)), Plan)


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
    assert_type(plan.assuming(100).mean("a"), Quoted)
    assert_type(release.table(["a"]).flagged(), Flagged)
