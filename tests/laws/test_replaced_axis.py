"""A record replaced along an ordered axis: bounds beside the dense optimum, and plans beside bounds."""

import numpy as np
import pytest

import residua as rs
from residua.plans.solver.level import least_replacement
from residua.plans.solver.replaced_axis import least_prefixes, least_ranges

REPLACED = rs.ReplaceOne()


def asked_along(kind, n, **rest):
    return getattr(rs, kind)(rs.Domain.of_sizes({"x": n} | rest), "x")


def dense_optimum(workload):
    """What is proven by weights on all pairs of cells, and what is reached."""
    best = least_replacement(workload.listed().matrix.toarray(), 1e-4, total=True, removable=False)
    return best.bound, best.loss


@pytest.mark.parametrize(("kind", "near"), [("prefixes", 0.15), ("ranges", 0.4)])
@pytest.mark.parametrize("n", [4, 5, 9, 40, 63])
def test_bounds_are_below_what_is_reached_and_near_it_on_long_axes(kind, near, n):
    least = least_prefixes(n) if kind == "prefixes" else least_ranges(n)
    proven, reached = dense_optimum(asked_along(kind, n))
    assert least <= reached * (1 + 1e-9)
    assert least >= proven * (1 - near)
    if n >= 40:  # where halves meet counts for ever less
        assert least >= proven * (1 - (0.013 if kind == "prefixes" else 2.5 / n))


@pytest.mark.parametrize(("kind", "most"), [("prefixes", 0.01), ("ranges", 0.025)])
def test_long_axes_are_near_what_is_proven_of_every_plan(kind, most):
    for n in (1_025, 10_000):
        workload = asked_along(kind, n)
        plan = rs.plan(workload, rs.GDP(mu=1.0), unit=REPLACED)
        least = least_prefixes(n) if kind == "prefixes" else least_ranges(n)
        assert plan.gap == pytest.approx(plan.total_variance(workload) * plan.unit_pcost / least - 1, rel=1e-6)
        assert plan.gap < most
        assert plan.measurements.price(REPLACED) <= 1
        assert plan.variance({"x": rs.between(0, n - 1)}) < 1e-5  # the number of records, which is public


@pytest.mark.parametrize("kind", ["prefixes", "ranges"])
def test_the_noise_of_long_axes_beside_the_dense_optimum_on_short_ones(kind):
    workload = asked_along(kind, 96, y=2)
    plan = rs.plan(workload, rs.GDP(mu=1.0), unit=REPLACED, form=rs.Axis())
    proven, reached = dense_optimum(asked_along(kind, 96))
    found = plan.total_variance(workload) * plan.unit_pcost
    assert proven <= found <= reached * (1.01 if kind == "prefixes" else 1.03)
    assert found <= proven * (1 + plan.gap) * (1 + 1e-9)


def test_what_is_proven_of_prefixes_and_of_ranges_adds_up_and_values_count_for_nothing():
    domain = rs.Domain.of_sizes({"x": 600})
    both = 3 * rs.prefixes(domain, "x") + rs.ranges(domain, "x")
    more = both + rs.marginals(domain, [["x"]])
    for workload in (both, more):
        plan = rs.plan(workload, rs.GDP(mu=1.0), unit=REPLACED)
        least = 3 * least_prefixes(600) + least_ranges(600)
        assert 0 < plan.gap < 0.05
        assert plan.gap == pytest.approx(plan.total_variance(workload) * plan.unit_pcost / least - 1, rel=1e-6)


def test_a_total_that_a_dropped_record_changes_is_not_free():
    domain = rs.Domain({"x": rs.Integers(0, 599, unknown="drop")})
    workload = rs.prefixes(domain, "x")
    plan = rs.plan(workload, rs.GDP(mu=1.0), unit=REPLACED)
    assert plan.variances(workload)[-1] > 0.5
    assert not np.isfinite(plan.gap)
    assert plan.measurements.price(REPLACED) <= 1


def test_nothing_is_measured_beside_an_axis_whose_release_is_to_grow(tmp_path):
    workload = asked_along("prefixes", 12)
    ledger = rs.Ledger(tmp_path / "ledger", rs.GDP(mu=1.0), unit=REPLACED)
    best = rs.plan(workload, rs.GDP(mu=1.0), unit=REPLACED, form=rs.Axis())
    with pytest.raises(rs.errors.PlanError, match="apart=True"):
        rs.Continual(tmp_path / "best", ledger=ledger, plan=best)
    assert not ledger.entries
    alone = rs.plan(workload, rs.GDP(mu=1.0), unit=REPLACED, form=rs.Axis(apart=True))
    assert rs.Continual(tmp_path / "alone", ledger=ledger, plan=alone).periods == 0
    assert best.total_variance(workload) < alone.total_variance(workload)


@pytest.mark.parametrize("kind", ["prefixes", "ranges"])
def test_no_pair_of_cells_costs_more_than_the_price(kind):
    plan = rs.plan(asked_along(kind, 40), rs.GDP(mu=1.0), unit=REPLACED, form=rs.Axis())
    strategy = plan.strategies[0]
    energies = np.linalg.inv(strategy.inverse + np.outer(strategy.spread, strategy.spread) / strategy.tells)
    each = np.diag(energies)
    apart = (each[:, None] + each - 2 * energies) * plan.precisions[-1]
    assert apart.max() <= float(plan.measurements.price(REPLACED)) * (1 + 1e-9) <= apart.max() * 1.05
    assert energies.min() > -1e-9 * each.max()
