"""The algebra of plans against the Loewner order of their privacy cost matrices."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import residua as rs
from residua.plans import ProductPlan
from tests.laws import dense
from tests.laws.instances import plans, plans_of_one_domain, workloads


def on_one_scale(*plans_):
    gammas = [dense.gamma(plan) for plan in plans_]
    return gammas, max(float(np.abs(g).max()) for g in gammas) + 1.0


@given(plans_of_one_domain(2))
def test_running_both_adds_the_matrices(pair):
    (a, b), scale = on_one_scale(*pair)
    both = pair[0] + pair[1]
    assert np.allclose(dense.gamma(both), a + b, atol=1e-12 * scale)
    assert both.can_answer(pair[0])
    assert both.can_answer(pair[1])


@settings(max_examples=200)
@given(plans_of_one_domain(2))
def test_answers_is_the_loewner_order(pair):
    (a, b), scale = on_one_scale(*pair)
    assert pair[0].can_answer(pair[1]) == dense.is_psd(a - b, scale)
    assert pair[0].can_answer(pair[0])


@settings(max_examples=150)
@given(st.integers(1, 4).flatmap(plans_of_one_domain))
def test_common_is_below_all_and_above_every_other_common_part(candidates):
    gammas, scale = on_one_scale(*candidates)
    common = rs.common(candidates)
    shared = dense.gamma(common)
    assert all(dense.is_psd(g - shared, scale) for g in gammas)
    assert all(plan.can_answer(common) for plan in candidates)
    # Residual matrices commute, so they share eigenvectors, and the greatest lower bound among matrices with those
    # eigenvectors takes the least eigenvalue of each: the parts of Γ in the residual spaces.
    sizes = candidates[0].domain.sizes.tolist()
    for members in dense.all_subsets(range(len(sizes))):
        R = dense.centring(sizes, members) @ dense.marginal_matrix(sizes, members)
        parts = [float(np.trace(R @ g @ R.T)) for g in (shared, *gammas)]
        assert parts[0] == pytest.approx(min(parts[1:]), rel=1e-7, abs=1e-7 * scale)


@pytest.mark.parametrize("seed", range(4))
def test_no_lower_bound_has_a_larger_trace(seed):
    # Among all symmetric matrices below every candidate, commuting or not, by SDP: hence maximal in the Loewner order.
    rng = np.random.default_rng(seed)
    domain = rs.Domain.of_sizes([[2, 3], [3, 3], [2, 2, 2], [4, 2]][seed])
    lattice = rs.marginals(domain, ways=len(domain)).lattice
    candidates = [ProductPlan(domain, lattice, rng.uniform(0.1, 3, len(lattice))) for _ in range(2 + seed % 2)]
    below = cp.Variable((int(np.prod(domain.sizes)),) * 2, symmetric=True)
    problem = cp.Problem(cp.Maximize(cp.trace(below)), [dense.gamma(plan) - below >> 0 for plan in candidates])
    problem.solve(solver=cp.CLARABEL)
    assert problem.status == "optimal"
    assert np.trace(dense.gamma(rs.common(candidates))) == pytest.approx(problem.value, rel=1e-6)


@given(st.integers(1, 3).flatmap(plans_of_one_domain))
def test_any_plan_that_all_answer_is_answered_by_the_common_one(candidates):
    common = rs.common(candidates)
    smaller = ProductPlan(common.domain, common.lattice, common.precisions * 0.7)
    assert all(plan.can_answer(smaller) for plan in candidates)
    assert common.can_answer(smaller)
    if common.pcost > 0:
        larger = ProductPlan(common.domain, common.lattice, common.precisions * 1.01)
        assert not all(plan.can_answer(larger) for plan in candidates)


@given(plans_of_one_domain(3))
def test_the_residual_completes_the_common_plan(candidates):
    common = rs.common(candidates)
    for plan in candidates:
        left = rs.residual(plan, given=common)
        assert np.allclose(dense.gamma(left), dense.gamma(plan) - dense.gamma(common), atol=1e-10 * (1 + plan.pcost))
        assert left.pcost + common.pcost == pytest.approx(plan.pcost, rel=1e-12, abs=1e-12)
        again = left + common
        assert np.allclose(dense.gamma(again), dense.gamma(plan), atol=1e-10 * (1 + plan.pcost))


@given(plans_of_one_domain(2))
def test_top_up_is_the_least_that_is_missing(pair):
    wanted, have = pair
    missing = rs.top_up(wanted, given=have)
    pooled = dense.gamma(have) + dense.gamma(missing)
    scale = 1 + wanted.pcost + have.pcost
    assert dense.is_psd(pooled - dense.gamma(wanted), scale * 100)
    # Nothing less will do: wanted is the sum of what both had in common and of the top-up.
    assert np.allclose(dense.gamma(rs.common(pair)) + dense.gamma(missing), dense.gamma(wanted), atol=1e-10 * scale)
    if wanted.can_answer(have):
        assert missing.precisions.tolist() == rs.residual(wanted, given=have).precisions.tolist()


@given(plans_of_one_domain(2))
def test_algebra_keeps_every_answer_it_should(pair):
    # Also those with one-valued attributes, which are never measured themselves.
    for made in (pair[0] + pair[1], rs.common(pair), rs.top_up(pair[0], given=pair[1])):
        gamma = dense.gamma(made)
        for members in {*pair[0].lattice, *pair[1].lattice}:
            names = tuple(made.domain.names[i] for i in members)
            W = dense.marginal_matrix(made.domain.sizes.tolist(), members)
            sub = members in set(pair[0].lattice) or members in set(pair[1].lattice)
            expected = dense.covariance(gamma, W)
            if not sub or expected is None:
                assert not made.supports(names)
            elif made.supports(names):
                assert made.variance(names).ravel() == pytest.approx(np.diag(expected), rel=1e-7)
            else:
                # Only a set that no plan had in its family may be unknown though answerable.
                assert not all(members in set(plan.lattice) for plan in pair)


def test_common_of_plans_with_a_one_valued_attribute_still_answers_for_it():
    domain = rs.Domain.of_sizes({"a": 3, "b": 2, "c": 1})
    one = rs.plan(rs.marginals(domain, [("a", "c"), ("b",)]), rs.GDP(mu=1.0))
    two = rs.plan(rs.marginals(domain, [("a", "b", "c")]), rs.GDP(mu=1.0))
    common = rs.common([one, two])
    assert common.supports(("a", "c"))
    assert common.variance(("a", "c")) == pytest.approx(common.variance(("a",))[:, None])
    assert not common.supports(("a", "b"))
    assert not common.supports(("a", "b", "c"))


@pytest.mark.parametrize(
    ("domain", "ways", "saved"),
    [({"age": 101, "gender": 2}, (1, 2), 50.5), (dict.fromkeys("abcdefg", 2), (1, 2), 75.0)],
)
def test_the_published_savings_of_the_common_mechanism(domain, ways, saved):
    domain = rs.Domain.of_sizes(domain)
    candidates = [rs.independent(rs.marginals(domain, ways=k), rs.GDP(mu=1.0)) for k in ways]
    assert 100 * rs.common(candidates).pcost == pytest.approx(saved, abs=0.05)


@given(workloads(), st.sampled_from([rs.ZCDP(0.5), rs.GDP(0.8), rs.ApproxDP(1.0, 1e-6)]))
def test_the_guarantee_of_a_result_covers_its_cost_in_the_same_currency(workload, guarantee):
    plan = rs.plan(workload, guarantee)
    for made in (plan + plan, rs.common([plan, plan]), rs.top_up(plan + plan, given=plan)):
        assert type(made.guarantee) is type(guarantee)
        assert float(made.guarantee.pcost_allowed()) >= made.pcost * (1 - 1e-11)
    nothing = rs.residual(plan, given=plan)
    assert nothing.guarantee is None
    assert nothing.pcost == 0
    assert not nothing.supports(())


@given(plans())
def test_nothing_measured_is_answered_by_everything(plan):
    nothing = rs.residual(plan, given=plan)
    assert plan.can_answer(nothing)
    assert nothing.pcost == 0
    assert np.array_equal(dense.gamma(plan + nothing), dense.gamma(plan))
