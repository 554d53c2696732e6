"""Prefixes, values and calendar levels of one long axis in one plan: against the dense optimum, by every objective."""

from __future__ import annotations

import datetime

import numpy as np
import pyarrow as pa
import pytest

import residua as rs
from residua.errors import PlanError
from residua.plans import ProductPlan


def calendar(days):
    first = datetime.date(2000, 1, 1)
    return rs.Domain({"day": rs.Dates(first, first + datetime.timedelta(days=days - 1), levels=["month", "year"])})


DOMAIN = calendar(100)
PREFIXES, VALUES = rs.prefixes(DOMAIN, "day"), rs.marginals(DOMAIN, [("day",)])
LEVELS, MONTHS, RANGES = rs.hierarchy(DOMAIN, "day"), rs.product(DOMAIN, {"day": "month"}), rs.ranges(DOMAIN, "day")
CASES = {
    "prefixes and levels": (PREFIXES + LEVELS, None),
    "heavy months": (PREFIXES + 5 * MONTHS, None),
    "months thirty times as heavy": (PREFIXES + 30 * MONTHS, None),
    "ranges and levels": (RANGES + 100 * LEVELS, None),
    "prefixes, ranges and levels": (PREFIXES + RANGES + 10 * LEVELS, None),
    "largest of prefixes and values": (PREFIXES + VALUES, rs.MaxVariance()),
    "largest of prefixes and levels": (PREFIXES + LEVELS, rs.MaxVariance()),
    "months at a quarter": (PREFIXES + MONTHS, rs.MaxVariance(targets=[1.0] * 100 + [0.25] * 4)),
    "values at a quarter": (PREFIXES + VALUES, rs.MaxVariance(targets=[1.0] * 100 + [0.25] * 100)),
    "means of kinds": (PREFIXES + RANGES + 3 * VALUES, rs.MaxVariance(over="terms")),
    "means of kinds and levels": (PREFIXES + RANGES + 3 * LEVELS, rs.MaxVariance(over="terms")),
}


def loss_of(plan, workload, objective):
    if objective is None:
        return plan.total_variance(workload)
    if objective.over == "terms":
        return objective.loss(workload, plan.variances(workload, per="term"))
    scales = np.repeat(objective.scales(workload), workload.cells.astype(int))
    return float((plan.variances(workload) / scales).max())


@pytest.mark.parametrize("case", CASES)
def test_mixtures_are_as_good_as_the_dense_optimum_and_the_gap_is_true(case):
    workload, objective = CASES[case]
    options = {} if objective is None else {"minimise": objective}
    plan = rs.plan(workload, rs.ZCDP(0.5), form=rs.Axis(), **options)
    assert isinstance(plan, ProductPlan)
    assert plan.cost <= 1.0
    ours = loss_of(plan, workload, objective)
    if objective is None or objective.over == "queries":
        dense = rs.plan(workload, rs.ZCDP(0.5), form=rs.Matrix(), tolerance=5e-3, **options)
        theirs = loss_of(dense, workload, objective)
        assert ours / (1 + plan.gap) <= theirs * (1 + 1e-9)  # nobody is better than the gap says
    assert plan.gap <= 1e-3


def test_variances_of_levels_are_those_of_their_sums():
    plan = rs.plan(PREFIXES + LEVELS, rs.ZCDP(0.5), form=rs.Axis())
    rows = LEVELS.families[0].queries[0].matrix()
    inside = rs.product(DOMAIN, {"day": "identity within month=2000-02"})
    cells = plan.covariance(VALUES)
    assert plan.variances(LEVELS) == pytest.approx(np.diag(rows @ cells @ rows.T), rel=1e-3)
    assert plan.variances(inside) == pytest.approx(np.diag(cells)[31:60], rel=1e-9)


def test_each_kind_meets_its_target():
    for targets in (25.0, {("day",): 25.0}):
        plan = rs.plan(PREFIXES + LEVELS, targets=targets, form=rs.Axis())
        assert 24.5 < max(plan.variances(each).max() for each in (PREFIXES, LEVELS)) <= 25.0
    mapped = rs.plan(PREFIXES + LEVELS, targets={("day",): 30.0, ("month",): 12.0}, form=rs.Axis())
    assert mapped.variances(MONTHS).max() <= 12.0
    assert max(mapped.variances(each).max() for each in (PREFIXES, VALUES)) <= 30.0
    assert mapped.variances(MONTHS).max() > 11.5 or mapped.variances(PREFIXES).max() > 29
    with pytest.raises(PlanError, match="week"):
        rs.plan(PREFIXES + LEVELS, targets={("day",): 30.0, ("week",): 12.0}, form=rs.Axis())
    with pytest.raises(PlanError, match="no variance for 'day'; give one"):
        rs.plan(PREFIXES + LEVELS, targets={("month",): 12.0}, form=rs.Axis())
    months = len(DOMAIN["day"].level("month"))
    by_query = [12.0 if ".month=" in label else 30.0 for label in (PREFIXES + LEVELS).query_labels()]
    assert by_query.count(12.0) == months
    assert rs.plan(PREFIXES + LEVELS, targets=by_query, form=rs.Axis()).guarantee == mapped.guarantee
    with pytest.raises(PlanError, match=r"differ between cells of 'day'; give all .* of a kind or of a level"):
        rs.plan(PREFIXES + LEVELS, targets=[*by_query[:-1], 31.0], form=rs.Axis())
    with pytest.raises(PlanError, match=r"-1.0 for 'month' is not a positive"):
        rs.plan(PREFIXES + LEVELS, targets=[-1.0 if v == 12.0 else v for v in by_query], form=rs.Axis())
    tight = rs.plan(PREFIXES + VALUES, targets=[40.0] * 100 + [5.0] * 100, form=rs.Axis())
    assert tight.variances(PREFIXES).max() <= 40.0
    assert tight.variances(VALUES).max() <= 5.0


def test_long_mixtures_are_planned_by_themselves_measured_and_read(tmp_path):
    domain = calendar(3_000)
    workload = rs.prefixes(domain, "day") + rs.hierarchy(domain, "day")
    plan = rs.plan(workload, rs.GDP(1.0))
    assert isinstance(plan, ProductPlan)
    assert plan.gap < 1e-3
    plan.save(tmp_path / "plan.json")
    days = domain["day"].labels
    data = pa.table({"day": pa.array([days[i] for i in range(60)] * 50)})
    release = rs.measure(rs.Plan.load(tmp_path / "plan.json"), data, ledger=rs.Ledger(tmp_path / "l", rs.GDP(1.0)))
    months = release.table(["day"], queries={"day": "month"})
    assert abs(months.estimates[0] - 31 * 50) < 6 * months.columns["stddev"][0]
    assert months.columns["stddev"] == pytest.approx(np.sqrt(plan.variances(rs.product(domain, {"day": "month"}))))
    assert release.table(["day"]).estimates[:31].sum() == pytest.approx(months.estimates[0])


def test_years_of_days_are_planned_to_the_end():
    """The search once went on with steps too small to count, and never came to what it does last: a gap of a half."""
    domain = calendar(1_100)
    plan = rs.plan(rs.prefixes(domain, "day") + rs.hierarchy(domain, "day"), rs.GDP(1.0), minimise=rs.MaxVariance())
    assert isinstance(plan, ProductPlan)
    assert plan.gap < 1e-3
