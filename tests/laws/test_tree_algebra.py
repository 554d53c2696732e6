"""The algebra of plans over one tree with one strategy is that of their matrices, over any number of values."""

from fractions import Fraction

import numpy as np
import pytest

import residua as rs
from residua.errors import PlanError
from residua.plans.matrix import algebra as dense
from residua.plans.product.algebra import agree
from residua.plans.verifier import composed_cost, priced
from residua.release.pooled import _pooled_matrix
from tests.laws.trees import domain, records, workload

DOMAIN = domain(30)
BUDGET = rs.ZCDP(0.5)
WHOLE = rs.plan(workload(DOMAIN), BUDGET, form=rs.Tree())
ASKED = {
    "nodes": rs.product(DOMAIN, {"block": "hierarchy"}),
    "by sex": rs.product(DOMAIN, {"block": "hierarchy", "sex": "identity"}),
    "by age": rs.product(DOMAIN, {"block": "state", "age": "identity", "sex": "identity"}),
}
PLANS = {name: rs.plan(asked, BUDGET, form=rs.Tree(like=WHOLE)) for name, asked in ASKED.items()}
PAIRS = [("nodes", "by sex"), ("by sex", "by age"), ("by age", "nodes")]


def gamma(plan):
    """Γ over all 180 cells, by the definition of what is measured: nodes × centred tables."""
    sizes, total = plan.domain.sizes, 0.0
    for members, tree in plan.parts.items():
        along, nesting, start = 0.0, tree.nesting, tree.start
        for k, tau in enumerate(tree.precisions):
            onto = nesting.between(0, start + k)
            same = onto[:, None] == onto
            per_node = tau[nesting.parents[start]] if k == 0 and len(tau) > 1 else tau
            each = per_node[onto] if len(tau) > 1 else np.full(len(onto), tau[0])
            along = along + same * each
        factors = [
            along if i == plan.attribute else np.eye(n) - 1 / n if i in members else np.ones((n, n))
            for i, n in enumerate(sizes.tolist())
        ]
        total = total + np.kron(np.kron(factors[0], factors[1]), factors[2])
    return np.zeros((180, 180)) + total


def least(matrix):
    return np.linalg.eigvalsh(matrix).min()


def meet(first, second):
    """The dimension in which the ranges of two matrices meet."""
    ranks = [np.linalg.matrix_rank(each, tol=1e-9) for each in (first, second, np.hstack([first, second]))]
    return ranks[0] + ranks[1] - ranks[2]


def test_gamma_is_that_of_the_plan():
    grouping, rows = WHOLE.over_cells()
    assert grouping.attributes == (0, 1, 2)
    np.testing.assert_allclose(rows.T @ rows, gamma(WHOLE), atol=1e-9)


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_common_residual_and_top_up_are_those_of_the_matrices(pair):
    p, q = (PLANS[name] for name in pair)
    assert agree([p, q])
    G, H, both = gamma(p), gamma(q), gamma(p + q)
    np.testing.assert_allclose(both, G + H, rtol=1e-9, atol=1e-12)
    shared = rs.common([p, q])
    X = gamma(shared)
    assert least(G - X) >= -1e-9
    assert least(H - X) >= -1e-9
    assert meet(G - X, H - X) == 0  # nothing can be added that both would still answer
    for wanted, own in ((p, G), (q, H)):
        left = rs.residual(wanted, given=shared)
        np.testing.assert_allclose(gamma(left) + X, own, rtol=1e-9, atol=1e-10)
        assert composed_cost([shared, left]) <= priced(wanted)[1] * (1 + Fraction(1, 2**40))
    missing = rs.top_up(p, given=q)
    D = gamma(missing)
    assert least(H + D - G) >= -1e-9
    assert meet(H + D - G, D) == 0  # nothing of it is too much
    for one, other, A, B in ((p, q, G, H), (q, p, H, G), (p + q, q, G + H, H)):
        assert one.can_answer(other) == dense.can_answer(one, other) == (least(A - B) >= -1e-9)


def test_what_is_common_to_plans_without_a_set_in_common_is_nothing():
    p = PLANS["by sex"]
    apart = rs.residual(p, given=rs.common([p, PLANS["nodes"]]))  # the residual of sex, and some of the nodes
    sex = apart.with_parts({(0,): apart.parts[(0,)]})
    nothing = rs.common([PLANS["nodes"], sex])
    assert not nothing.parts
    assert nothing.pcost == nothing.unit_pcost == 0.0
    assert (nothing + sex).can_answer(sex)
    assert rs.top_up(p, given=nothing).equivalent(p)


def test_costs_add_up_leaf_by_leaf_and_never_below_the_matrices():
    several = list(PLANS.values())
    truth = sum(gamma(plan) for plan in several)
    found = float(composed_cost(several))
    assert truth.diagonal().max() * (1 - 1e-9) <= found <= truth.diagonal().max() * (1 + 1e-6)
    assert found <= sum(float(priced(plan)[1]) for plan in several)
    replaced = [plan.replaced(unit=rs.ReplaceOne()) for plan in several]
    worst = (truth.diagonal()[:, None] + truth.diagonal() - 2 * truth).max()
    assert worst * (1 - 1e-9) <= float(composed_cost(replaced))


def test_a_strategy_is_kept_by_like_and_another_one_is_not_taken_for_it():
    again = rs.plan(workload(DOMAIN), BUDGET, form=rs.Tree(like=WHOLE))
    assert agree([again, WHOLE])
    assert again.total_variance(workload(DOMAIN)) == pytest.approx(WHOLE.total_variance(workload(DOMAIN)), rel=1e-6)
    own = rs.plan(ASKED["by sex"], BUDGET, form=rs.Tree())
    assert not agree([own, WHOLE])
    assert own.total_variance(ASKED["by sex"]) <= PLANS["by sex"].total_variance(ASKED["by sex"])
    ratio = PLANS["by sex"].total_variance(ASKED["by sex"]) / own.total_variance(ASKED["by sex"]) - 1
    assert ratio <= PLANS["by sex"].gap <= ratio + own.gap + 1e-3
    for minimise in (rs.MaxVariance(), rs.MaxVariance(over="terms")):
        largest = rs.plan(ASKED["by sex"], BUDGET, form=rs.Tree(like=WHOLE), minimise=minimise)
        assert agree([largest, WHOLE])
        best = rs.plan(ASKED["by sex"], BUDGET, form=rs.Tree(), minimise=minimise)
        per = "query" if minimise.over == "queries" else "term"
        excess = largest.variances(ASKED["by sex"], per=per).max() / best.variances(ASKED["by sex"], per=per).max() - 1
        assert per == "term" or excess <= largest.gap + 1e-9
    met = rs.plan(ASKED["by sex"], targets=25.0, form=rs.Tree(like=WHOLE))
    assert 24.9 < met.variances(ASKED["by sex"]).max() <= 25.0


def test_pooled_nodes_are_the_pooled_matrix(tmp_path):
    data = records(DOMAIN, 500)
    releases = []
    for k, plan in enumerate(PLANS.values()):
        releases.append(rs.measure(plan, data, ledger=rs.Ledger(tmp_path / str(k), BUDGET)))
    pool, matrix = rs.pooled(releases, same_people=True), _pooled_matrix(releases, None)
    assert type(pool.planned).__name__ == "ProductPlan"
    for names in (["block", "sex"], ["block"], ["sex"], []):
        found, wanted = pool.table(names), matrix.table(names)
        np.testing.assert_allclose(found.estimates, wanted.estimates, atol=2e-3)
        np.testing.assert_allclose(found.columns["stddev"], wanted.columns["stddev"], rtol=1e-5)
    exact = np.linalg.pinv(sum(gamma(plan) for plan in PLANS.values()), hermitian=True)
    total = np.ones(180)
    assert pool.planned.combination_variance({(): 1.0}) == pytest.approx(total @ exact @ total, rel=1e-6)
    pool.save(tmp_path / "pool")
    np.testing.assert_array_equal(rs.Release.load(tmp_path / "pool").estimates(["block"]), pool.estimates(["block"]))


def test_a_session_over_many_values_looks_chooses_and_finishes(tmp_path):
    given = domain(3000)  # 18,000 cells: too many for a matrix
    asked = {
        "coarse": rs.product(given, {"block": "hierarchy"}),
        "fine": rs.product(given, {"block": "hierarchy", "sex": "identity"}),
    }
    whole = rs.plan(asked["coarse"] + asked["fine"], BUDGET, form=rs.Tree())
    plans = {name: rs.plan(each, BUDGET, form=rs.Tree(like=whole)) for name, each in asked.items()}
    session = rs.Session(records(given, 20_000), ledger=rs.Ledger(tmp_path / "ledger", BUDGET))
    choice = session.choose(plans)
    assert choice.estimates(asked["coarse"]).estimates.shape == (asked["coarse"].queries,)
    release = choice.finish("fine")
    found, wanted = release.planned.variances(asked["fine"]), plans["fine"].variances(asked["fine"])
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    assert session.ledger.spent_exactly <= priced(plans["fine"])[1]
    other = rs.plan(asked["coarse"], BUDGET, form=rs.Tree())
    with pytest.raises(PlanError, match="like=other"):
        rs.common([other, plans["fine"]])


def test_a_strategy_that_tells_too_little_is_refused():
    with pytest.raises(PlanError, match="sees too little of block, age"):
        rs.plan(rs.product(DOMAIN, {"block": "county", "age": "identity"}), BUDGET, form=rs.Tree(like=PLANS["nodes"]))
    with pytest.raises(PlanError, match="another domain"):
        rs.plan(workload(domain(20)), BUDGET, form=rs.Tree(like=WHOLE))
    with pytest.raises(PlanError, match="not a plan over a tree"):
        rs.plan(ASKED["nodes"], BUDGET, form=rs.Tree(like=rs.plan(rs.marginals(DOMAIN, ways=1), BUDGET)))
