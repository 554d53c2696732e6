"""The algebra of product plans that share strategies, against the Loewner order of dense privacy cost matrices."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import residua as rs
from residua.plans.strategy import Plain, Rows
from residua.plans.verifier import priced
from tests.laws.product_plans import gamma, random_plan

seeds = st.integers(0, 2**32 - 1)


@st.composite
def kin(draw):
    """Two plans with the same strategies."""
    first = random_plan(draw(seeds))
    second = random_plan(draw(seeds), domain=first.domain, strategies=first.strategies)
    return first, second


def below(a, b):
    """Whether a ⪯ b, up to rounding."""
    return np.linalg.eigvalsh(b - a).min() > -1e-9 * max(np.abs(b).max(), 1.0)


@given(kin())
@settings(max_examples=60)
def test_running_both_adds(plans):
    first, second = plans
    np.testing.assert_allclose(gamma(first + second), gamma(first) + gamma(second), rtol=1e-12, atol=1e-12)
    assert (first + second).guarantee.pcost_allowed() >= (first + second).pcost
    assert len((first + second).workload) <= len(first.workload) + len(second.workload)


@given(kin())
@settings(max_examples=60)
def test_answers_is_the_loewner_order(plans):
    first, second = plans
    assert first.can_answer(second) == below(gamma(second), gamma(first))
    assert (first + second).can_answer(first)
    assert first.can_answer(first)


@given(kin())
@settings(max_examples=60)
def test_common_is_answered_by_all_and_what_is_left_makes_up_the_plan(plans):
    first, second = plans
    shared = rs.common([first, second])
    for plan in plans:
        assert below(gamma(shared), gamma(plan))
        assert plan.can_answer(shared)
        left = rs.residual(plan, given=shared)
        np.testing.assert_allclose(gamma(shared) + gamma(left), gamma(plan), rtol=1e-9, atol=1e-9)
        if left.pcost and shared.pcost:
            cost = priced(shared)[1] + priced(left)[1]
            assert cost <= priced(plan.replaced(guarantee=rs.ZCDP.of_pcost(plan.pcost * 1.01)))[1]
    # Maximal: nothing can be added to any block that both still answer.
    for number in np.flatnonzero(shared.costs > 0):
        more = shared.precisions.copy()
        more[number] += 1e-3
        bigger = shared.replaced(precisions=more)
        assert not (first.can_answer(bigger) and second.can_answer(bigger))


@given(kin())
@settings(max_examples=60)
def test_top_up_is_the_least_that_suffices(plans):
    wanted, have = plans
    missing = rs.top_up(wanted, given=have)
    assert below(gamma(wanted) * (1 - 1e-8), gamma(missing) + gamma(have))
    both = np.minimum(missing.precisions, 1.0)
    assert missing.pcost <= wanted.pcost
    assert (both >= 0).all()
    assert rs.top_up(wanted, given=wanted).pcost == 0


def test_marginals_mix_with_products_whose_strategies_are_plain_where_they_meet():
    domain = rs.Domain.of_sizes({"a": 4, "b": 3})
    tables = rs.plan(rs.marginals(domain, [("b",)]), rs.ZCDP(rho=0.5))
    ranges = rs.plan(rs.ranges(domain, "a"), rs.ZCDP(rho=0.5))
    both = tables + ranges
    assert both.pcost == pytest.approx(2.0)
    assert both.can_answer(tables)
    assert both.can_answer(ranges)
    assert not ranges.can_answer(tables)
    assert rs.residual(both, given=ranges).pcost == pytest.approx(tables.pcost)
    assert both.variances(rs.ranges(domain, "a")).max() <= ranges.variances(rs.ranges(domain, "a")).max()


def test_other_strategies_on_many_cells_are_refused_with_a_remedy():
    domain = rs.Domain.of_sizes({"a": 100, "b": 50})
    one = random_plan(1, full=True, domain=domain, strategies=(Plain(100), Plain(50)))
    two = one.replaced(strategies=(Rows(100, np.arange(100)[None]), Plain(50)))
    with pytest.raises(rs.ResiduaError, match=r"5,000 cells.*another strategy.*like=other"):
        rs.common([one, two])
    with pytest.raises(rs.ResiduaError, match=r"5,000 cells.*other kinds of plans"):
        rs.common([one, rs.plan(rs.queries(domain, ["a < 3"]), rs.ZCDP(rho=0.5))])
    with pytest.raises(rs.ResiduaError, match="different units"):
        rs.common([one, one.replaced(unit=rs.AddRemove(2))])
    with pytest.raises(rs.ResiduaError, match="different domains"):
        rs.common([one, random_plan(1, full=True, domain=rs.Domain.of_sizes({"c": 4, "b": 3}))])
    with pytest.raises(rs.ResiduaError, match="not answered"):
        rs.residual(one, given=one + one)
