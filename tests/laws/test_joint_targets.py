"""Blockwise plans whose queries each have a target, and plans by the rows of another, against dense optima."""

from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest

import residua as rs
from residua.errors import PlanError
from residua.plans.blockwise.plan import BlockwisePlan
from tests.laws.test_joint import random_workload

MANY = rs.Domain({name: rs.Integers(0, 4) for name in "abcdef"})  # 15,625 cells


@pytest.mark.parametrize("seed", range(3))
def test_targets_are_met_within_the_stated_gap_of_the_dense_optimum(seed):
    workload = random_workload(seed)
    targets = np.random.default_rng(seed).uniform(1.0, 10.0, workload.queries)
    plan = rs.plan(workload, targets=targets, form=rs.Blockwise())
    assert isinstance(plan, BlockwisePlan)
    assert (plan.variances(workload) / targets).max() == pytest.approx(1.0, rel=1e-9)
    assert (plan.variances(workload) <= targets).all()
    least = rs.plan(workload.listed(), targets=targets, form=rs.Matrix())
    assert least.pcost * (1 - 2e-3) <= plan.pcost <= least.pcost * 1.06
    assert plan.gap < 0.02
    assert plan.measurements.cost(rs.AddRemove()) <= plan.guarantee.pcost_allowed()


def test_no_plan_of_the_same_split_is_better_than_the_gap_says():
    """Other precisions of the same rows measure block by block in the plan's own split."""
    workload, random = random_workload(1), np.random.default_rng(0)
    plan = rs.plan(workload, rs.GDP(1.0), minimise=rs.MaxVariance(), form=rs.Blockwise())
    scales = 1.0 / workload.weights
    achieved = (plan.variances(workload) / scales).max() * plan.pcost
    for width in (0.01, 0.1, 0.5):
        other = plan.replaced(precisions=plan.precisions * np.exp(width * random.standard_normal(len(plan.precisions))))
        assert (other.variances(workload) / scales).max() * other.pcost >= achieved / (1 + plan.gap) * (1 - 1e-9)


def affine(domain):
    i, j = np.indices((5, 5))
    rows = np.array([(i + j <= c).ravel() for c in range(9)])
    parts = [rs.prefixes(domain, name) for name in domain.names]
    parts += [rs.explicit(domain, rows, on=pair) for pair in combinations(domain.names, 2)]
    return sum(parts[1:], parts[0])


def test_what_is_alike_is_solved_once_and_as_well():
    workload = affine(MANY)
    plan = rs.plan(workload, targets=10.0)
    assert len(plan.strategies) == 3  # the total, an attribute, a pair
    found = plan.variances(workload).reshape(-1)[6 * 5 :].reshape(15, 9)
    assert np.ptp(found, axis=0).max() < 1e-9  # all pairs alike
    three = rs.Domain({name: rs.Integers(0, 4) for name in "abc"})
    alike = rs.plan(affine(three), targets=10.0, form=rs.Blockwise())
    apart = 10.0 * (1.0 + 1e-9 * np.random.default_rng(0).uniform(size=affine(three).queries))  # nothing is alike
    other = rs.plan(affine(three), targets=apart, form=rs.Blockwise())
    assert len(other.strategies) > len(alike.strategies)
    assert other.pcost == pytest.approx(alike.pcost, rel=0.01)


def test_plans_by_the_rows_of_another_combine_over_any_number_of_cells(tmp_path):
    workload = affine(MANY)
    large = rs.plan(workload, rs.ZCDP(0.5))
    singles = rs.marginals(MANY, ways=1)
    small = rs.plan(singles, rs.ZCDP(0.5), form=rs.Blockwise(like=large))
    again = rs.plan(singles, rs.ZCDP(0.5), form=rs.Lattice(like=large))
    assert np.array_equal(again.precisions, small.precisions)
    assert small.unit_pcost == pytest.approx(1.0)
    for factor in (0.9, 1.1):  # the best precisions for these rows, each block at its own price
        for k in np.flatnonzero(small.precisions)[:3]:
            moved = small.precisions.copy()
            moved[k] *= factor
            moved *= small.precisions.sum() / moved.sum()
            assert small.replaced(precisions=moved).total_variance(singles) >= small.total_variance(singles)
    least = rs.plan(singles, targets=4.0, form=rs.Blockwise(like=large))
    assert (least.variances(singles) <= 4.0).all()
    assert least.variances(singles).max() == pytest.approx(4.0)
    shared = rs.common([small, large])
    assert small.can_answer(shared)
    assert large.can_answer(shared)
    random = np.random.default_rng(0)
    data = pa.table({name: random.integers(0, 5, 400) for name in MANY.names})
    session = rs.Session(data, rs.ZCDP(0.5), ledger=tmp_path / "l")
    choice = session.choose({"small": small, "large": large})
    assert 0 < session.ledger.spent.rho < 0.5
    release = choice.finish("large")
    assert session.ledger.spent_exactly == pytest.approx(1.0, rel=1e-6)
    assert session.ledger.spent_exactly <= 1
    assert release.plan.variances(workload) == pytest.approx(large.variances(workload), rel=1e-3)


def test_no_precisions_of_the_same_rows_beat_the_gap_of_a_plan_like_another():
    """Priced cell by cell: random precisions, and those of a search, at the same price have no less variance."""
    domain = rs.Domain.of_sizes([5, 5, 5])
    large = rs.plan(affine(domain), rs.ZCDP(0.5), form=rs.Blockwise())
    singles = rs.prefixes(domain, domain.names[0]) + rs.marginals(domain, [domain.names[1:]])
    small = rs.plan(singles, rs.ZCDP(0.5), form=rs.Blockwise(like=large))
    assert 0 <= small.gap < 0.01
    assert small.comparison_class == "the best plan that measures these rows"
    assert small.gap_any < np.inf
    least, random = np.inf, np.random.default_rng(3)
    best = small.precisions
    for step in range(300):
        moved = best * np.exp(random.normal(0.0, 0.3 if step < 100 else 0.03, len(best)))
        made = small.replaced(precisions=moved)
        loss = made.total_variance(singles) * made.pcost
        if loss < least:
            least, best = loss, moved
    achieved = small.total_variance(singles) * small.pcost
    assert achieved <= least * (1.0 + small.gap) * (1.0 + 1e-9)
    assert least <= achieved * 1.2  # the search comes close, so that it could tell


def test_what_cannot_be_is_refused():
    domain = rs.Domain.of_sizes(dict.fromkeys("abcdef", 30))
    pair = rs.queries(domain, ["a < b", "c < d", "e < f"])
    with pytest.raises(PlanError, match=r"PNormVariance is for marginals, and .*; these take .* MaxVariance"):
        rs.plan(pair, rs.GDP(1.0), minimise=rs.PNormVariance(2))
    with pytest.raises(PlanError, match="for normal noise"):
        rs.plan(pair, rs.PureDP(1.0), form=rs.Blockwise())
    with pytest.raises(PlanError, match="is not a guarantee"):
        rs.plan(pair, 0.5, form=rs.Blockwise())
    made = rs.plan(pair, rs.GDP(1.0))
    with pytest.raises(PlanError, match="sees too little of a, c"):
        rs.plan(rs.queries(domain, ["a < c"]), rs.GDP(1.0), form=rs.Blockwise(like=made))
    with pytest.raises(PlanError, match="smallest of the budgets"):
        rs.plan(pair, rs.ZCDP(1e-12), form=rs.Blockwise(like=made))
    with pytest.raises(PlanError, match="not a blockwise plan"):
        rs.plan(pair, rs.GDP(1.0), form=rs.Blockwise(like=rs.plan(rs.marginals(domain, ways=1), rs.GDP(1.0))))
    with pytest.raises(PlanError, match="another domain"):
        rs.plan(rs.marginals(MANY, ways=1), rs.GDP(1.0), form=rs.Blockwise(like=made))
