"""What the type checker is told is what comes back: checked by mypy alone, in `scripts/test`; nothing here runs."""

from typing import assert_type

import residua as rs
from residua.linalg.arrays import Floats
from residua.plans import LatticePlan, MatrixPlan, Plan, TablesPlan
from residua.privacy import Guarantee
from residua.published import Flagged
from residua.quoting import Quoted
from residua.workload import Explicit, Marginals, Products


def plans(tables: Marginals, ranges: Products, queries: Explicit, any_guarantee: Guarantee) -> None:
    """The form follows from what is asked and from the guarantee."""
    assert_type(rs.plan(tables, rs.ZCDP(1.0)), LatticePlan)
    assert_type(rs.plan(tables, targets=1.0), LatticePlan)
    assert_type(rs.plan(tables, rs.PureDP(1.0)), TablesPlan)
    assert_type(rs.plan(tables, noise="laplace", targets=1.0), TablesPlan)
    assert_type(rs.plan(ranges, rs.GDP(1.0), form=rs.Lattice(limit=5)), LatticePlan)
    assert_type(rs.plan(ranges, rs.GDP(1.0)), Plan)  # along a long axis, over a tree, or in lattice form
    assert_type(rs.plan(ranges, rs.PureDP(1.0)), Plan)  # a tree over a long axis, or a matrix
    assert_type(rs.plan(ranges, noise="laplace", targets=1.0), Plan)
    assert_type(rs.plan(queries, rs.ZCDP(1.0)), MatrixPlan)
    assert_type(rs.plan(queries, rs.PureDP(1.0)), MatrixPlan)
    assert_type(rs.plan(tables, rs.ZCDP(1.0), form=rs.Matrix()), MatrixPlan)
    assert_type(rs.plan(tables, any_guarantee), Plan)
    assert_type(rs.independent(tables, rs.ZCDP(1.0)), LatticePlan)
    assert_type(rs.independent(tables, rs.PureDP(1.0)), TablesPlan)
    assert_type(rs.independent(queries, rs.ZCDP(1.0)), MatrixPlan)


def facts(plan: Plan, tables: Marginals) -> None:
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
