"""Every fact a residual plan states, against dense linear algebra with its privacy cost matrix Γ."""

import math
from itertools import permutations

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st

import residua as rs
from residua.errors import PlanError
from residua.plans import ProductPlan
from residua.plans.product import residual_costs as replacement
from tests.laws import dense
from tests.laws.instances import domains, plans, subsets_of, workloads


def names_of(domain, members):
    return tuple(domain.names[i] for i in members)


def sizes_of(plan):
    return plan.domain.sizes.tolist()


def the_one(variances: np.ndarray) -> float:
    """The variance that all cells of a marginal have."""
    assert (variances == variances.flat[0]).all()
    return float(variances.flat[0])


def permutation(domain, names) -> np.ndarray:
    """Reorders cells from the domain's order of the attributes to the order given."""
    positions = domain.positions(names)
    shape = [int(domain.sizes[i]) for i in sorted(positions)]
    order = np.argsort(np.argsort(positions))
    cells = np.arange(math.prod(shape)).reshape(shape).transpose(order).ravel()
    return np.eye(math.prod(shape))[cells]


@given(plans())
def test_pcost_is_every_diagonal_entry_of_gamma(plan):
    diagonal = np.diag(dense.gamma(plan))
    assert plan.pcost == pytest.approx(diagonal.max(), rel=1e-12)
    assert np.ptp(diagonal) <= 1e-12 * max(diagonal.max(), 1)


@given(plans())
def test_a_residual_of_a_one_valued_attribute_is_never_measured(plan):
    for members, tau in zip(plan.lattice, plan.precisions, strict=True):
        if any(plan.domain.sizes[i] == 1 for i in members):
            assert tau == 0


@settings(max_examples=150)
@given(plans())
def test_supports_and_variance_of_every_marginal_of_the_family(plan):
    gamma = dense.gamma(plan)
    for members in plan.lattice:
        names = names_of(plan.domain, members)
        expected = dense.covariance(gamma, dense.marginal_matrix(sizes_of(plan), members))
        assert plan.supports(names) == (expected is not None)
        if expected is None:
            with pytest.raises(PlanError, match="does not answer"):
                plan.variance(names)
        else:
            found = plan.variance(names)
            assert found.shape == tuple(plan.domain[name].size for name in names)
            assert np.allclose(np.diag(expected), found.ravel(), rtol=1e-8)


@given(st.data())
def test_variances_of_a_workload(data):
    domain = data.draw(domains())
    plan, workload = data.draw(plans(domain)), data.draw(workloads(domain))
    gamma = dense.gamma(plan)
    expected = []
    for members in dense.asked_of(workload):
        told = [i for i in members if domain.sizes[i] > 1]  # a table with an attribute of one value is the one without
        inside = any(int(plan.lattice.find(np.array([each], np.int32))[0]) >= 0 for each in (members, told))
        found = dense.covariance(gamma, dense.marginal_matrix(sizes_of(plan), members)) if inside else None
        cells = math.prod(domain.sizes[list(members)].tolist())
        expected.append(np.full(cells, np.inf) if found is None else np.diag(found))
    assert np.allclose(plan.variances(workload), np.concatenate(expected), rtol=1e-8)
    assert len(plan.variances(workload)) == workload.queries == len(list(workload.query_labels()))
    assert plan.variances(workload, per="term").tolist() == [
        the_one(plan.variance(names)) if plan.supports(names) else np.inf for names in workload.sets
    ]


@settings(max_examples=150)
@given(st.data())
def test_covariances_within_and_between_marginals_in_any_order(data):
    plan = data.draw(plans(zeros=False))
    gamma, domain = dense.gamma(plan), plan.domain
    pick = st.sampled_from(list(plan.lattice))
    first, second = data.draw(pick), data.draw(pick)
    a, b = (tuple(data.draw(st.permutations(names_of(domain, s)))) for s in (first, second))
    W1, W2 = (dense.marginal_matrix(sizes_of(plan), s) for s in (first, second))
    P1, P2 = permutation(domain, a), permutation(domain, b)
    expected = P1 @ dense.covariance(gamma, W1, W2) @ P2.T
    scale = max(the_one(plan.variance(a)), the_one(plan.variance(b)))
    assert np.allclose(plan.covariance(a, b), expected, atol=1e-9 * scale, rtol=0)
    within = P1 @ dense.covariance(gamma, W1) @ P1.T
    assert np.allclose(plan.covariance(a), within, atol=1e-9 * scale, rtol=0)
    # One pair of cells at a time gives the same numbers.
    i, j = data.draw(st.integers(0, len(P1) - 1)), data.draw(st.integers(0, len(P2) - 1))
    cells = [
        dict(zip(names, map(int, np.unravel_index(k, [domain[n].size for n in names])), strict=True))
        for names, k in ((a, i), (b, j))
    ]
    assert plan.covariance(*cells) == pytest.approx(expected[i, j], abs=1e-9 * scale)
    assert plan.covariance(cells[1], cells[0]) == pytest.approx(expected[i, j], abs=1e-9 * scale)
    assert plan.covariance(a, cells[1])[:, 0] == pytest.approx(expected[:, j], abs=1e-9 * scale)
    assert plan.covariance(cells[0], b)[0] == pytest.approx(expected[i], abs=1e-9 * scale)


@given(st.data(), st.integers(0, 2**32 - 1))
def test_variance_of_any_linear_combination(data, seed):
    plan = data.draw(plans(zeros=False))
    domain, rng = plan.domain, np.random.default_rng(seed)
    sets = data.draw(st.lists(st.sampled_from(list(plan.lattice)), min_size=1, max_size=4, unique=True))
    row = np.zeros(int(np.prod(sizes_of(plan))))
    combination = {}
    for members in sets:
        names = tuple(data.draw(st.permutations(names_of(domain, members))))
        coefficients = rng.normal(size=[domain[name].size for name in names])
        combination[names] = coefficients
        row += coefficients.ravel() @ permutation(domain, names) @ dense.marginal_matrix(sizes_of(plan), members)
    expected = dense.covariance(dense.gamma(plan), row[None, :])[0, 0]
    assert plan.combination_variance(combination) == pytest.approx(expected, rel=1e-7, abs=1e-9)


def test_a_marginal_minus_its_own_margin_has_no_variance():
    domain = rs.Domain.of_sizes({"a": 3, "b": 2})
    plan = rs.plan(rs.marginals(domain, ways=2), rs.GDP(mu=1.0))
    row = {("a", "b"): [[1, 1], [0, 0], [0, 0]], ("a",): [-1, 0, 0]}
    assert plan.combination_variance(row) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("names", list(permutations("abc")))
def test_coefficients_follow_the_order_in_which_attributes_are_given(names):
    # All six orders: two of them are cycles, where a permutation is not its own inverse.
    domain = rs.Domain.of_sizes({"a": 2, "b": 3, "c": 4})
    plan = rs.plan(rs.marginals(domain, ways=[1, 3]), rs.GDP(mu=1.0))
    coefficients = np.random.default_rng(7).normal(size=(2, 3, 4))
    turned = coefficients.transpose(["abc".index(name) for name in names])
    expected = coefficients.ravel() @ plan.covariance(("a", "b", "c")) @ coefficients.ravel()
    assert plan.combination_variance({names: turned}) == pytest.approx(expected, rel=1e-10)
    assert turned.ravel() @ plan.covariance(names) @ turned.ravel() == pytest.approx(expected, rel=1e-10)


def test_labels_pick_the_right_cells():
    domain = rs.Domain({"sex": ["F", "M"], "age": rs.Integers(17, 19), "x": rs.Bins([0, 1, 2], ["lo", "hi"])})
    plan = rs.plan(rs.marginals(domain, ways=range(4)), rs.GDP(mu=1.0))
    matrix = plan.covariance(("sex", "age", "x"))
    at = {"sex": "M", "age": 18, "x": "lo"}, {"sex": "F", "age": 18, "x": "hi"}
    assert plan.covariance(*at) == pytest.approx(matrix[1 * 6 + 1 * 2 + 0, 0 * 6 + 1 * 2 + 1], rel=1e-12)


@settings(max_examples=150)
@given(plans())
def test_replacement_cost_is_the_worst_pair_of_cells(plan):
    expected = dense.replacement(dense.gamma(plan))
    cost, exact = plan.residual_costs.replacement
    assert exact
    assert cost == pytest.approx(expected, rel=1e-10, abs=1e-10)


@given(plans())
def test_the_bound_on_replacement_cost_is_safe(plan):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replacement, "MOST_ENUMERATED", 0)
        cost, exact = replacement.replacement_cost(plan.lattice, plan.precisions, plan.strategies)
    if not any(np.any(level) or level.size for level in plan.lattice.levels[1:]) or (plan.domain.sizes == 1).all():
        assert exact  # nothing to enumerate
    assert cost >= plan.residual_costs.replacement[0] * (1 - 1e-12) - 1e-12
    assert cost <= 4 * plan.pcost * (1 + 1e-12)


def test_more_attributes_than_can_be_enumerated_get_a_bound():
    domain = rs.Domain.of_sizes(range(3, 24))  # all different: 2^21 patterns
    plan = rs.plan(rs.marginals(domain, ways=1), rs.GDP(mu=1.0), unit=rs.ReplaceOne())
    cost, exact = plan.residual_costs.replacement
    assert not exact
    assert plan.unit_pcost == pytest.approx(cost) == pytest.approx(1.0, rel=1e-10)


@given(workloads(), st.sampled_from([rs.AddRemove(), rs.AddRemove(3), rs.ReplaceOne()]), st.booleans())
def test_a_plan_spends_its_budget_on_its_unit_and_no_more(workload, unit, baseline):
    assume(
        not isinstance(unit, rs.ReplaceOne) or any((workload.domain.sizes[list(s)] > 1).any() for s in workload.lattice)
    )
    guarantee = rs.ZCDP(rho=0.3)
    make = rs.independent if baseline else rs.plan
    plan = make(workload, guarantee, unit=unit)
    gamma = dense.gamma(plan)
    replaced = isinstance(unit, rs.ReplaceOne)
    spent = dense.replacement(gamma) if replaced else unit.records**2 * gamma.diagonal().max()
    # The total, free where records are replaced, is so precise that matrices of floats lose digits.
    assert plan.unit_pcost == pytest.approx(spent, rel=1e-7 if replaced else 1e-10)
    assert plan.unit_pcost == pytest.approx(0.6, rel=1e-10)
    assert plan.unit_pcost <= 0.6


@given(workloads())
def test_independent_noise_is_gamma_of_noise_on_every_cell(workload):
    plan = rs.independent(workload, rs.GDP(mu=1.0))
    sizes = sizes_of(plan)
    Q = np.vstack([dense.marginal_matrix(sizes, members) for members in dense.asked_of(workload)])
    assert np.allclose(dense.gamma(plan), Q.T @ Q / len(workload), atol=1e-10)


@given(st.data())
def test_the_order_of_attributes_and_sets_does_not_matter(data):
    workload = data.draw(workloads())
    domain = workload.domain
    names = data.draw(st.permutations(domain.names))
    other = rs.Domain({name: domain[name] for name in names})
    asked = data.draw(st.permutations(list(zip(workload.sets, workload.weights, strict=True))))
    again = None
    for attributes, weight in asked:
        term = rs.marginals(other, [attributes], weight=float(weight))
        again = term if again is None else again + term
    for objective in (rs.TotalVariance(), rs.MaxVariance()):
        first = rs.plan(workload, rs.GDP(mu=1.0), minimise=objective, tolerance=1e-6)
        second = rs.plan(again, rs.GDP(mu=1.0), minimise=objective, tolerance=1e-6)
        rel = 1e-9 if isinstance(objective, rs.TotalVariance) else 2e-3
        for attributes in workload.sets:
            assert second.variance(attributes) == pytest.approx(first.variance(attributes), rel=rel)


@given(workloads(), st.floats(1e-3, 1e3))
def test_scaling_the_budget_scales_every_variance(workload, factor):
    one, other = rs.plan(workload, rs.ZCDP(rho=0.5)), rs.plan(workload, rs.ZCDP(rho=0.5 * factor))
    assert np.allclose(other.variances(workload) * factor, one.variances(workload), rtol=1e-9)
    assert other.pcost == pytest.approx(one.pcost * factor, rel=1e-9)
    half = rs.plan(workload, rs.GDP(mu=0.5))
    assert np.allclose(half.variances(workload), 4 * one.variances(workload), rtol=1e-9)


@pytest.mark.parametrize("weight", [1e-11, 1e-30, 1e-120, 1e-300])
@pytest.mark.parametrize("objective", [rs.TotalVariance(), rs.MaxVariance(), rs.PNormVariance(3)])
def test_a_tiny_weight_means_much_noise_never_none(weight, objective):
    domain = rs.Domain.of_sizes({"a": 4, "b": 3})
    workload = rs.marginals(domain, [("a",)]) + rs.marginals(domain, [("b",), ("a", "b")], weight=weight)
    plan = rs.plan(workload, rs.GDP(mu=1.0), minimise=objective)
    assert (plan.precisions > 0).all()
    assert np.isfinite(plan.noise_variances).all()
    variances = plan.variances(workload, per="term")
    assert np.isfinite(variances).all()
    assert (variances > 0.9).all()  # a cell of a marginal cannot be better than the whole budget makes it
    assert variances[2] > variances[0]
    assert plan.pcost <= 1


def test_two_attributes_of_equal_size_do_not_share_state():
    domain = rs.Domain.of_sizes({"a": 5, "b": 5})
    workload = 100 * rs.marginals(domain, [("a",)]) + rs.marginals(domain, [("b",)])
    plan = rs.plan(workload, rs.GDP(mu=1.0))
    assert the_one(plan.variance(("b",))) > 2 * the_one(plan.variance(("a",)))


def test_a_plan_is_frozen_and_copies_its_arrays():
    domain = rs.Domain.of_sizes([2, 2])
    workload = rs.marginals(domain, ways=1)
    mine = np.ones(3)
    plan = ProductPlan(domain, workload.lattice, mine)
    mine[:] = 7
    assert plan.precisions.tolist() == [1, 1, 1]
    for array in (plan.precisions, workload.numbers, workload.weights, domain.sizes, plan.lattice.levels[1]):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 3
    with pytest.raises(AttributeError):
        plan.gap = 0.0


@given(st.data())
def test_workloads_add_and_weigh(data):
    domain = data.draw(domains())
    first, second = data.draw(workloads(domain)), data.draw(workloads(domain))
    weights: dict = {}
    for term, factor in ((first, 1.0), (second, 2.5)):
        for names, weight in zip(term.sets, term.weights, strict=True):
            weights[names] = weights.get(names, 0.0) + factor * weight
    total = first + 2.5 * second
    assert list(total.sets) == list(weights)
    assert np.allclose(total.weights, list(weights.values()))
    assert list(total.lattice) == dense.closure_of([domain.positions(s) for s in weights])


@given(domains(), st.integers(1, 120), st.data())
def test_small_marginals_are_those_with_few_cells(domain, cells, data):
    everything = [s for s in dense.all_subsets(range(len(domain))) if math.prod(domain.sizes[list(s)]) <= cells]
    found = rs.marginals(domain, max_cells=cells)
    assert set(dense.asked_of(found)) == set(everything)
    assert len(found) == len(everything)
    assert found.queries == sum(math.prod(domain.sizes[list(s)].tolist()) for s in everything)
    ways = data.draw(st.sets(st.integers(0, len(domain)), min_size=1))
    wanted = {s for s in everything if len(s) in ways}
    if wanted:
        assert set(dense.asked_of(rs.marginals(domain, ways=ways, max_cells=cells))) == wanted


@given(domains(), st.data())
def test_listed_sets_keep_their_order(domain, data):
    sets = data.draw(st.lists(subsets_of(len(domain)), min_size=1, max_size=6, unique=True))
    asked = rs.marginals(domain, [names_of(domain, s) for s in sets])
    assert dense.asked_of(asked) == sets
    assert asked.sets == tuple(names_of(domain, s) for s in sets)


def test_query_labels_name_the_cells_in_order():
    domain = rs.Domain({"sex": ["F", "M"], "age": rs.Integers(17, 18)})
    asked = rs.marginals(domain, [("age", "sex"), (), ("age",)])
    assert list(asked.query_labels()) == [
        "sex=F, age=17", "sex=F, age=18", "sex=M, age=17", "sex=M, age=18", "total", "age=17", "age=18",
    ]  # fmt: skip


def test_workloads_too_large_for_floats_count_their_cells_exactly():
    domain = rs.Domain.of_sizes([2**20 + 1] * 5)
    assert rs.marginals(domain, ways=5).queries == (2**20 + 1) ** 5
