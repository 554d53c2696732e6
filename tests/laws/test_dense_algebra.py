"""The algebra of dense plans against plain matrices: order, common parts, what is left or missing, exact costs."""

from fractions import Fraction
from functools import reduce
from itertools import pairwise
from operator import add

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st

import residua as rs
from residua.errors import LongWarning, PlanError, VerificationError
from residua.plans import MatrixPlan
from residua.plans.matrix import algebra as dense_algebra
from residua.plans.verifier import composed_cost, composed_profile, priced
from tests.laws import dense
from tests.laws.instances import plans_of_one_domain

TOLERANCE = 2.0**-20  # of the algebra of dense plans, stated in loewner.py


def gamma(plan) -> np.ndarray:
    """Γ over all cells of the domain, from the integers alone (or, of a residual plan, from its definition)."""
    if not isinstance(plan, MatrixPlan):
        return dense.gamma(plan)
    sizes = plan.domain.sizes.tolist()
    own = [n if i in plan.attributes else 1 for i, n in enumerate(sizes)]
    columns = np.broadcast_to(plan.columns.reshape(own), sizes).ravel()
    wide = np.append(plan.strategy, np.zeros((len(plan.strategy), 1), dtype=np.int64), axis=1)[:, columns]
    return wide.T.astype(float) @ wide / plan.scale**2


def below(first, second, slack=TOLERANCE) -> bool:
    """`first ⪯ second (1 + slack)`, with room for the rounding of this test's own arithmetic."""
    largest = np.abs(second).max() + np.abs(first).max() + 1e-300
    return bool(np.linalg.eigvalsh(second * (1 + slack) - first)[0] >= -1e-8 * largest)


@st.composite
def matrices(draw, cells):
    rows = draw(st.integers(1, 6))
    entries = st.lists(st.integers(-2, 2), min_size=cells, max_size=cells)
    matrix = np.array(draw(st.lists(entries, min_size=rows, max_size=rows)))
    if draw(st.booleans()):
        matrix[:, -1] = matrix[:, 0]
    if draw(st.booleans()):
        matrix[:, 1] = 0
    if not matrix.any():
        matrix[0, 0] = 1
    return matrix


@st.composite
def dense_plans(draw, count):
    """Plans for integer queries over some of two attributes, with budgets of their own."""
    domain = rs.Domain.of_sizes({"a": draw(st.integers(2, 4)), "b": draw(st.integers(1, 3))})
    made = []
    for _ in range(count):
        names = draw(st.sampled_from([("a",), ("a", "b")]))
        cells = int(np.prod([len(domain[name].labels) for name in names]))
        workload = rs.explicit(domain, draw(matrices(cells)), on=names)
        made.append(rs.independent(workload, rs.GDP(draw(st.floats(0.3, 3.0)))))
    return made


@given(dense_plans(2))
@settings(max_examples=60)
def test_running_both_adds_the_matrices(pair):
    both = pair[0] + pair[1]
    expected = gamma(pair[0]) + gamma(pair[1])
    assert np.allclose(gamma(both), expected, atol=1e-7 * expected.max())
    assert both.can_answer(pair[0])
    assert both.can_answer(pair[1])


@given(dense_plans(2))
@settings(max_examples=100)
def test_answers_is_the_loewner_order_and_comes_with_its_matrices(pair):
    a, b = gamma(pair[0]), gamma(pair[1])
    lowest, size = np.linalg.eigvalsh(a - b)[0], np.abs(a).max() + np.abs(b).max()
    assume(lowest < -1e-5 * size or lowest > -1e-12 * size)  # not where tolerances decide
    assert pair[0].can_answer(pair[1]) == (lowest > -1e-9 * size)
    assert pair[0].equivalent(pair[0])
    if not pair[0].can_answer(pair[1]):
        with pytest.raises(PlanError, match="does not answer"):
            rs.analysis.derivation(pair[0], pair[1])
        return
    A, C = rs.analysis.derivation(pair[0], pair[1])
    together = dense_algebra.compared(pair)
    assert np.allclose(A @ together.rows[0], together.rows[1], atol=1e-6 * size)
    assert np.allclose(A @ A.T + C @ C.T, np.eye(len(A)), atol=1e-5)


@given(st.integers(1, 3).flatmap(dense_plans))
@settings(max_examples=80)
def test_every_candidate_answers_the_common_plan_and_its_residual_completes_it(candidates):
    common = rs.common(candidates)
    shared = gamma(common)
    for plan in candidates:
        whole = gamma(plan)
        assert plan.can_answer(common)
        assert below(shared, whole)
        left = rs.residual(plan, given=common)
        assert np.allclose(shared + gamma(left), whole, atol=2e-6 * whole.max())
        # In whole numbers: together they cost no more than the plan, and no cell more than it costs there.
        assert composed_cost([common, left]) <= composed_cost([plan])
        assert composed_cost([common, left]) >= composed_cost([plan]) * Fraction(999_998, 1_000_000)
        assert np.diag(whole - shared - gamma(left)).min() >= -1e-9 * whole.max()
        if left.pcost:
            assert plan.can_answer(left)
            assert priced(left)[1] <= left.guarantee.pcost_allowed()
        again = rs.residual(plan, given=reduce(add, [common, left]))
        assert again.pcost == 0


@pytest.mark.parametrize("count", [2, 3])
def test_a_common_plan_serves_the_queries_that_it_is_asked_to_serve(count):
    """Total variance of the queries served, beside the semidefinite program's, and below that of any other look."""
    rng = np.random.default_rng(count)
    domain = rs.Domain.of_sizes({"a": 4})
    candidates = [
        rs.independent(rs.explicit(domain, np.eye(4) + rng.integers(0, 3, (4, 4))), rs.GDP(1.0)) for _ in range(count)
    ]
    served = 3 * rs.explicit(domain, [[1, 1, 0, 0]]) + rs.explicit(domain, [[0, 0, 1, 0]])
    look = rs.common(candidates, serving=served)
    W = served.matrix.toarray() * np.sqrt(served.query_weights)[:, None]
    sigma = cp.Variable((4, 4), symmetric=True)
    above = [sigma >> np.linalg.inv(gamma(plan)) for plan in candidates]
    problem = cp.Problem(cp.Minimize(cp.trace(W.T @ W @ sigma)), above)
    problem.solve(solver=cp.CLARABEL)
    assert look.total_variance(served) == pytest.approx(problem.value, rel=1e-4)
    assert rs.common(candidates).total_variance(served) > 1.001 * problem.value
    assert all(plan.can_answer(look) for plan in candidates)
    with pytest.raises(PlanError, match="not every candidate answers"):
        rs.common([*candidates, rs.independent(rs.explicit(domain, [[1, 1, 1, 1]]), rs.GDP(1.0))], serving=served)


@given(dense_plans(2))
@settings(max_examples=80)
def test_top_up_makes_up_for_what_is_missing(pair):
    wanted, have = pair
    missing = rs.top_up(wanted, given=have)
    assert below(gamma(wanted), gamma(have) + gamma(missing))
    # Never dearer in all than measuring the plan anew.
    assert composed_cost([have, missing]) <= composed_cost([have, wanted]) * Fraction(10**9 + 1, 10**9)
    assert rs.top_up(wanted, given=have + wanted).pcost == 0
    if wanted.can_answer(have):
        left = rs.residual(wanted, given=have)
        assert np.allclose(gamma(left), gamma(missing), atol=2e-6 * gamma(wanted).max())


@given(plans_of_one_domain(2))
@settings(max_examples=30)
def test_matrices_and_closed_forms_agree(pair):
    assume(all(plan.pcost > 0 for plan in pair))
    cells = int(np.prod(pair[0].domain.sizes))
    assume(cells <= 36)
    as_dense = [dense_algebra.compose(plan, rs.residual(plan, given=plan)) for plan in pair]
    assert all(isinstance(plan, MatrixPlan) for plan in as_dense)
    scale = max(np.abs(gamma(plan)).max() for plan in pair)
    mixtures = [as_dense, [as_dense[0], pair[1]], [pair[0], as_dense[1]]]
    closed = [rs.common(pair), rs.top_up(*pair[:1], given=pair[1]), pair[0] + pair[1]]
    for one, two in mixtures:
        common = rs.common([one, two])
        made = [common, rs.top_up(one, given=two), one + two]
        for ours, expected in zip(made, closed, strict=True):
            assert np.allclose(gamma(ours), gamma(expected), atol=3e-6 * scale)
        left, expected = rs.residual(one, given=common), rs.residual(pair[0], given=closed[0])
        assert np.allclose(gamma(left), gamma(expected), atol=3e-6 * scale)
        assert one.can_answer(two) == pair[0].can_answer(pair[1])
        assert composed_cost([common, left]) <= composed_cost([one])


@pytest.mark.parametrize("seed", range(5))
def test_common_has_the_least_trace_by_sdp(seed):
    # Two plans in closed form, three and more by alternating directions, against a general solver on Eq. 1.
    rng = np.random.default_rng(seed)
    cells, count = 4 + seed % 3, 2 + seed % 3
    domain = rs.Domain({"x": rs.Integers(0, cells - 1)})
    candidates = [
        rs.independent(rs.explicit(domain, rng.integers(-2, 3, (cells + 2, cells))), rs.GDP(1.0)) for _ in range(count)
    ]
    covariances = [np.linalg.inv(gamma(plan)) for plan in candidates]
    above = cp.Variable((cells, cells), symmetric=True)
    problem = cp.Problem(cp.Minimize(cp.trace(above)), [above - S >> 0 for S in covariances])
    problem.solve(solver=cp.CLARABEL)
    assert problem.status == "optimal"
    common = rs.common(candidates)
    assert np.trace(np.linalg.inv(gamma(common))) == pytest.approx(problem.value, rel=3e-6)
    assert common.gap <= 1e-6
    assert all(plan.can_answer(common) for plan in candidates)


def test_nested_candidates_need_no_rounds_and_give_a_chain():
    domain = rs.Domain({"age": rs.Integers(0, 11)})
    buckets = [np.kron(np.eye(k), np.ones((1, 12 // k))) for k in (1, 3, 6, 12)]
    chain = [rs.independent(rs.explicit(domain, rows), rs.GDP(1.0)) for rows in buckets]
    rounds = []
    looks = [rs.common(chain[k:], progress=lambda *at: rounds.append(at)) for k in range(4)]
    assert not rounds
    assert all(fine.can_answer(coarse) for coarse, fine in pairwise(looks))
    # The finest bucketisation gives the coarsest, noisier: the common part of all is its total.
    assert looks[0].variance(()) == pytest.approx(12.0, rel=1e-7)
    assert looks[3].equivalent(chain[3])


@given(st.integers(1, 3).flatmap(dense_plans), st.sampled_from([rs.AddRemove(), rs.AddRemove(2), rs.ReplaceOne()]))
@settings(max_examples=60)
def test_the_composed_cost_is_that_of_the_summed_matrices(candidates, unit):
    plans = [plan.replaced(unit=unit) for plan in candidates]
    total = sum(gamma(plan) for plan in plans)
    expected = dense.replacement(total) if unit == rs.ReplaceOne() else float(unit.scaled(float(np.diag(total).max())))
    if unit == rs.ReplaceOne() and any((plan.columns < 0).any() for plan in plans):
        expected = max(expected, np.diag(total)[np.diag(total) >= 0].max() if (np.diag(total) == 0).any() else 0.0)
    found = composed_cost(plans)
    assert float(found) == pytest.approx(expected, rel=1e-9)
    assert found >= Fraction(expected) * Fraction(10**12 - 1, 10**12)
    if unit != rs.ReplaceOne():
        profile = composed_profile(plans)
        largest = unit.scaled(1) * profile.largest  # each column is rounded up, then all; or all at once
        assert found <= largest <= found + len(plans) * unit.scaled(1) * Fraction(1, 2**200)
        assert sum(plan.measurements.profile().largest for plan in plans) >= profile.largest


def test_people_in_different_cells_do_not_add_up():
    domain = rs.Domain({"age": rs.Integers(0, 9)})
    young, old, all_ages = (
        rs.plan(rs.queries(domain, [where]), rs.GDP(1.0)) for where in ("age < 5", "age >= 5", "age >= 0")
    )
    assert float(composed_cost([young, old])) == pytest.approx(1.0, rel=1e-9)
    assert float(composed_cost([young, old, all_ages])) == pytest.approx(2.0, rel=1e-9)
    marginal = rs.plan(rs.marginals(domain, ways=1), rs.GDP(1.0))
    assert float(composed_cost([young, old, marginal])) == pytest.approx(2.0, rel=1e-9)
    assert composed_cost([]) == 0
    assert composed_cost([rs.residual(young, given=young)]) == 0


def test_cells_beyond_listing_are_priced_by_their_dearest():
    domain = rs.Domain.of_sizes([200, 200, 200])
    parts = [rs.plan(rs.explicit(domain, np.eye(200)[:2], on=[name]), rs.GDP(1.0)) for name in domain.names]
    assert float(composed_cost(parts)) == pytest.approx(3.0, rel=1e-9)
    with pytest.raises(PlanError, match="8,000,000 cells"):
        rs.common(parts)


def test_the_result_keeps_the_currency_and_unit_of_the_first_plan():
    domain = rs.Domain({"x": rs.Integers(0, 3)})
    workload = rs.explicit(domain, np.tril(np.ones((4, 4))))
    for guarantee in (rs.ZCDP(0.5), rs.GDP(0.7), rs.ApproxDP(1.0, 1e-6)):
        for unit in (rs.AddRemove(), rs.AddRemove(3), rs.ReplaceOne()):
            first = rs.plan(workload, guarantee, unit=unit)
            second = rs.independent(rs.explicit(domain, np.eye(4)), rs.ZCDP(0.01), unit=unit)
            common = rs.common([first, second])
            left = rs.residual(first, given=common)
            for made in (common, left, rs.top_up(first, given=second), first + second):
                assert type(made.guarantee) is type(guarantee)
                assert made.unit == unit
                assert priced(made)[1] <= made.guarantee.pcost_allowed()
            assert composed_cost([common, left]) <= composed_cost([first])


def test_nothing_left_is_a_plan_too(tmp_path):
    domain = rs.Domain({"x": rs.Integers(0, 3)})
    plan = rs.independent(rs.explicit(domain, np.eye(4)), rs.GDP(1.0))
    apart = [rs.independent(rs.explicit(domain, np.eye(4)[[k]]), rs.GDP(1.0)) for k in (0, 1)]
    for nothing in (rs.residual(plan, given=plan), rs.common(apart), rs.top_up(plan, given=plan + plan)):
        assert (nothing.pcost, nothing.unit_pcost, nothing.guarantee) == (0.0, 0.0, None)
        assert not nothing.supports(())
        assert np.isinf(nothing.variances(rs.explicit(domain, np.eye(4)))).all()
        assert plan.can_answer(nothing)
        assert not nothing.can_answer(plan)
        assert (plan + nothing).equivalent(plan)
        assert rs.common([plan, nothing]).pcost == 0
        assert rs.residual(plan, given=nothing).equivalent(plan)
        assert rs.top_up(nothing, given=plan).pcost == 0
        with pytest.raises(VerificationError, match="nothing to measure"):
            priced(nothing)
    nothing.save(tmp_path / "nothing.json")
    assert rs.Plan.load(tmp_path / "nothing.json").pcost == 0


def test_bad_input_is_refused():
    domain, other = rs.Domain({"x": rs.Integers(0, 3)}), rs.Domain({"y": rs.Integers(0, 3)})
    plan = rs.plan(rs.explicit(domain, np.eye(4)), rs.GDP(1.0))
    bigger = rs.plan(rs.explicit(domain, np.eye(4)), rs.GDP(2.0))
    elsewhere = rs.plan(rs.explicit(other, np.eye(4)), rs.GDP(1.0))
    replacing = rs.plan(rs.explicit(domain, np.eye(4)), rs.GDP(1.0), unit=rs.ReplaceOne())
    for act, message in [
        (lambda: rs.common([]), "plans is empty"),
        (lambda: rs.common(plan), "plans is one plan"),
        (lambda: rs.common([plan, "plan"]), "a text is not a plan"),
        (lambda: rs.common([plan, elsewhere]), "different domains"),
        (lambda: rs.common([plan, replacing]), "different units"),
        (lambda: rs.residual(plan, given=bigger), "given is not answered by the plan"),
        (lambda: rs.residual(plan, given=elsewhere), "different domains"),
        (lambda: rs.top_up(plan, given=None), "None is not a plan"),
        (lambda: plan.can_answer(3), "3 is not a plan"),
        (lambda: plan + elsewhere, "different domains"),
        (lambda: rs.common([plan, plan.replaced(bias=0.1)]), "bias"),
    ]:
        with pytest.raises(PlanError, match=message):
            act()
    wide = rs.Domain.of_sizes([20, 20, 20])
    marginal = rs.plan(rs.marginals(wide, ways=3), rs.GDP(1.0))
    narrow = rs.plan(rs.explicit(wide, np.eye(20), on=[wide.names[0]]), rs.GDP(1.0))
    with pytest.raises(PlanError, match="8,000 cells"):
        rs.common([marginal, narrow])


def test_combining_over_many_cells_says_that_it_takes_long(monkeypatch):
    domain = rs.Domain.of_sizes({"a": 6})
    plans = [rs.plan(rs.queries(domain, [f"a <= {k}", "1"]), rs.GDP(1.0)) for k in (1, 3)]
    rs.common(plans)
    monkeypatch.setattr(dense_algebra, "_LONG", 2)
    with pytest.warns(LongWarning, match="over 3 cells, which takes minutes; plans that share"):
        rs.common(plans)
