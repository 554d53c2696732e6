"""Laws of product plans against dense linear algebra: every fact is that of Γ, formed cell by cell."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import residua as rs
from residua.errors import PlanError
from residua.plans import ProductPlan
from residua.plans.strategy import Plain
from residua.plans.verifier import priced
from tests.laws.dense import kron, replacement
from tests.laws.product_plans import PHASES, SETTINGS, all_cells, dense_variances, gamma, workloads


@given(workloads())
@SETTINGS
def test_every_fact_of_a_plan_is_that_of_gamma(workload):
    plan = rs.plan(workload, rs.GDP(mu=1.0), form=rs.Lattice())
    assert isinstance(plan, ProductPlan)
    G = gamma(plan)
    assert plan.pcost == pytest.approx(np.diag(G).max(), rel=1e-9)
    assert plan.pcost <= 1.0
    assert plan.residual_costs.replacement[0] >= replacement(G) * (1 - 1e-9)
    expected = dense_variances(plan, all_cells(workload))
    assert plan.variances(workload) == pytest.approx(expected, rel=1e-6)
    assert plan.variances(workload.listed()) == pytest.approx(expected, rel=1e-6)
    starts = np.concatenate([[0], np.cumsum(workload.cells[:-1].astype(int))])
    means = np.add.reduceat(expected, starts) / workload.cells
    assert plan.variances(workload, per="term") == pytest.approx(means, rel=1e-6)
    assert len(list(workload.query_labels())) == workload.queries == len(expected)


@given(workloads(), st.data())
@SETTINGS
def test_single_queries_and_their_covariances(workload, data):
    plan = rs.plan(workload, rs.GDP(mu=1.0), form=rs.Lattice())
    domain = plan.domain
    inverse = np.linalg.pinv(gamma(plan), rcond=1e-11, hermitian=True)
    queries, rows = [], []
    for _ in range(2):
        members = data.draw(st.sets(st.sampled_from(domain.names)))
        query, factors = {}, []
        for name in domain.names:
            w = np.ones(domain[name].size)
            if name in members:
                a, b = sorted(data.draw(st.tuples(*[st.integers(0, domain[name].size - 1)] * 2)))
                w = ((np.arange(len(w)) >= a) & (np.arange(len(w)) <= b)).astype(float)
                query[name] = data.draw(st.sampled_from([rs.between(a, b), w])) if a < b else a
            factors.append(w[None, :])
        queries.append(query)
        rows.append(kron(factors)[0])
    inside = [np.allclose(row @ inverse @ gamma(plan), row, atol=1e-6) for row in rows]
    if all(inside):
        expected = rows[0] @ inverse @ rows[1]
        scale = np.sqrt((rows[0] @ inverse @ rows[0]) * (rows[1] @ inverse @ rows[1]))
        assert plan.covariance(*queries) == pytest.approx(expected, abs=1e-6 * scale)
        assert plan.variance(queries[0]) == pytest.approx(rows[0] @ inverse @ rows[0], rel=1e-6)
    else:
        with pytest.raises(PlanError, match="does not answer"):
            plan.covariance(*queries)


def test_marginals_and_combinations_of_a_product_plan():
    domain = rs.Domain.of_sizes({"a": 5, "b": 3, "c": 2})
    plan = rs.plan(rs.ranges(domain, "a", by=["b"]) + rs.marginals(domain, ways=1), rs.GDP(mu=1.0))
    inverse = np.linalg.pinv(gamma(plan), hermitian=True)
    W = all_cells(rs.marginals(domain, [("a", "b")]))
    expected = np.diag(W @ inverse @ W.T).reshape(5, 3)
    assert plan.variance(["a", "b"]) == pytest.approx(expected)
    assert plan.variance(["b", "a"]) == pytest.approx(expected.T)
    x, y = np.arange(15.0).reshape(3, 5), np.array([1.0, -2.0])
    row = np.kron(x.T.ravel(), np.ones(2)) + np.kron(np.ones(15), y)
    assert plan.combination_variance({("b", "a"): x, ("c",): y}) == pytest.approx(row @ inverse @ row)
    assert not plan.supports(["a", "c"])
    assert plan.supports(["a", "b"])
    assert plan.supports(rs.prefixes(domain, "a", by=["b"]))  # not asked, but measured
    with pytest.raises(PlanError, match="does not answer"):
        plan.variance(["a", "c"])
    assert np.isinf(plan.variances(rs.marginals(domain, [("a", "c")]))).all()


@given(st.lists(st.integers(1, 4), min_size=1, max_size=3), st.data())
@SETTINGS
def test_identities_reproduce_marginal_plans_bit_for_bit(sizes, data):
    domain = rs.Domain.of_sizes(sizes)
    ways = data.draw(st.sets(st.integers(0, len(sizes)), min_size=1))
    given_as = [np.eye(n) if data.draw(st.booleans()) else "identity" for n in sizes]
    product = rs.product(domain, dict(zip(domain.names, given_as, strict=True)), ways=sorted(ways))
    plan, usual = (rs.plan(w, rs.ZCDP(rho=0.5)) for w in (product, rs.marginals(domain, ways=sorted(ways))))
    assert isinstance(plan, ProductPlan)
    assert plan.plain
    assert np.array_equal(plan.precisions, usual.precisions)
    assert plan.lattice.same_sets(usual.lattice)


def test_plain_strategies_make_a_residual_plan():
    domain = rs.Domain.of_sizes([4, 3, 2])
    usual = rs.plan(rs.marginals(domain, ways=[1, 2]), rs.ZCDP(rho=0.5))
    plain = tuple(Plain(int(n)) for n in domain.sizes)
    plan = ProductPlan(domain, usual.lattice, usual.precisions, plain, guarantee=usual.guarantee)
    assert plan.pcost == pytest.approx(usual.pcost, rel=1e-14)
    assert plan.variances(usual.workload) == pytest.approx(usual.variances(usual.workload), rel=1e-12)
    _, cost = priced(plan)
    _, usual_cost = priced(usual)
    assert float(cost) == pytest.approx(float(usual_cost), rel=1e-12)


@pytest.mark.parametrize("over", ["queries", "terms"])
def test_both_directions_of_a_maximum_agree(over):
    domain = rs.Domain.of_sizes({"a": 8, "b": 3})
    workload = rs.prefixes(domain, "a", by=["b"]) + rs.ranges(domain, "a") + rs.marginals(domain, ways=1)
    targets = {("a", "b"): 4.0, ("a",): 2.0, ("b",): 3.0}
    objective = rs.MaxVariance(targets, over=over)
    plan = rs.plan(workload, minimise=objective, at_most=1.0)
    variances = plan.variances(workload) if over == "queries" else plan.variances(workload, per="term")
    scales = objective.scales(workload)
    wanted = np.repeat(scales, workload.cells.astype(int)) if over == "queries" else scales
    assert (variances / wanted).max() == pytest.approx(1.0, rel=1e-9)
    assert (variances <= wanted).all()
    back = rs.plan(workload, plan.guarantee, minimise=objective)
    found = back.variances(workload) if over == "queries" else back.variances(workload, per="term")
    assert (found / wanted).max() == pytest.approx(1.0, rel=1e-6)
    assert back.strategies == plan.strategies  # so that one can be topped up to the other


def test_targets_can_be_one_number_a_mapping_or_an_array():
    domain = rs.Domain.of_sizes({"a": 6, "b": 2})
    workload = rs.product(domain, {"a": "prefixes"}, ways=[1, 2])
    plans = [
        rs.plan(workload, targets=given)
        for given in (3.0, {("a",): 3.0, ("b",): 3.0, ("b", "a"): 3.0}, np.full(workload.queries, 3.0))
    ]
    assert plans[0].pcost == plans[1].pcost == plans[2].pcost
    with pytest.raises(PlanError, match="differ between cells"):
        rs.plan(workload, targets=np.arange(1.0, workload.queries + 1))


@given(workloads())
@settings(max_examples=15, deadline=None, phases=PHASES)
def test_files_keep_everything(tmp_path_factory, workload):
    plan = rs.plan(workload, rs.ZCDP(rho=0.1), form=rs.Lattice())
    path = tmp_path_factory.mktemp("plans") / "p.json"
    plan.save(path)
    loaded = rs.Plan.load(path)
    assert isinstance(loaded, ProductPlan)
    assert loaded.strategies == plan.strategies
    assert np.array_equal(loaded.precisions, plan.precisions)
    assert np.array_equal(loaded.variances(loaded.workload), plan.variances(workload))
    assert list(loaded.workload.query_labels()) == list(workload.query_labels())
    assert (loaded.gap, loaded.guarantee, loaded.objective) == (plan.gap, plan.guarantee, plan.objective)


def test_independent_noise_is_a_baseline_where_cells_are_few():
    workload = rs.prefixes(rs.Domain.of_sizes({"a": 6, "b": 2}), "a", by=["b"])
    baseline, plan = rs.independent(workload, rs.GDP(1.0)), rs.plan(workload, rs.GDP(1.0))
    assert plan.variances(workload).sum() < baseline.variances(workload.listed()).sum()


QUERIES = [
    ({"a": rs.between(0, 9)}, "not a value|leaves the attribute"),
    ({"a": 9}, "not a value"),
    ({"z": 1}, "unknown attribute"),
    ({"a": np.ones(3)}, "4 finite numbers"),
    ("a", "is a name, not a set of attributes"),
    ({"a": 1, "b": 1}, "does not answer"),
]


@pytest.mark.parametrize(("query", "words"), QUERIES)
def test_bad_queries(query, words):
    plan = rs.plan(rs.ranges(rs.Domain.of_sizes({"a": 4, "b": 2}), "a"), rs.GDP(1.0))
    with pytest.raises(PlanError, match=words):
        plan.variance(query)
