"""Laws of product plans against dense linear algebra: every fact is that of Γ, formed cell by cell."""

import re
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

import residua as rs
from residua.errors import GapWarning, PlanError, VerificationError, WorkloadError
from residua.linalg.lattice import closure
from residua.plan import ProductPlan, ResidualPlan
from residua.plan.kinds import priced
from residua.plan.objectives import Effort
from residua.plan.product.blocks import ProductBlocks, compile_product, most_product_records, product_cost
from residua.plan.product.bounds import class_bound
from residua.plan.product.strategy import Strategy
from residua.plan.product.tilting import designed
from residua.workload import Products, as_explicit
from tests.laws.dense import kron, replacement

KINDS = ("identity", "prefixes", "ranges", "matrix")
# Shrinking would plan thousands of times; a workload of a few cells is small enough to read as it is.
PHASES = [Phase.explicit, Phase.generate]
SETTINGS = settings(max_examples=16, deadline=None, suppress_health_check=[HealthCheck.too_slow], phases=PHASES)


def dense_gamma(plan: ProductPlan) -> np.ndarray:
    """Γ of what is measured, from the integer matrices alone."""
    sizes = plan.domain.sizes
    gamma = np.zeros((int(np.prod(sizes)),) * 2)
    for members, tau in zip(plan.lattice, plan.precisions, strict=True):
        factors = [s.matrix / s.unit if i in members else np.ones((1, s.size)) for i, s in enumerate(plan.strategies)]
        B = kron(factors)
        gamma += tau * B.T @ B
    return gamma


def all_cells(workload) -> np.ndarray:
    return as_explicit(workload).over(tuple(range(len(workload.domain)))).toarray()


def dense_variances(plan, W) -> np.ndarray:
    inverse = np.linalg.pinv(dense_gamma(plan), rcond=1e-11, hermitian=True)
    return np.einsum("ij,jk,ik->i", W, inverse, W)


@st.composite
def asked(draw, domain):
    """A kind of query, or a small matrix, for every attribute."""
    found = {}
    for name in domain.names:
        kind = draw(st.sampled_from(KINDS))
        n = domain[name].size
        if kind == "matrix":
            rows = draw(st.lists(st.lists(st.integers(-1, 2), min_size=n, max_size=n), min_size=1, max_size=3))
            assume(all(any(row) for row in rows))
            kind = np.array(rows, dtype=float)
        found[name] = kind
    return found


@st.composite
def workloads(draw):
    """One or two families, so that an attribute may be asked in two ways."""
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=3).filter(lambda s: 1 < np.prod(s) <= 48))
    domain = rs.Domain.of_sizes(sizes)
    total = None
    for _ in range(draw(st.integers(1, 2))):
        ways = draw(st.sets(st.integers(0, len(sizes)), min_size=1, max_size=3).filter(lambda w: w != {0}))
        term = rs.product(domain, draw(asked(domain)), ways=sorted(ways), weight=draw(st.floats(0.1, 10.0)))
        total = term if total is None else total + term
    assume(isinstance(total, Products))
    return total


@given(workloads())
@SETTINGS
def test_every_fact_of_a_plan_is_that_of_gamma(workload):
    plan = rs.plan(workload, rs.GDP(mu=1.0))
    assert isinstance(plan, ProductPlan)
    gamma = dense_gamma(plan)
    assert plan.pcost == pytest.approx(np.diag(gamma).max(), rel=1e-9)
    assert plan.pcost <= 1.0
    assert plan.replacement >= replacement(gamma) * (1 - 1e-9)
    expected = dense_variances(plan, all_cells(workload))
    assert plan.variances(workload) == pytest.approx(expected, rel=1e-6)
    assert plan.variances(as_explicit(workload)) == pytest.approx(expected, rel=1e-6)
    starts = np.concatenate([[0], np.cumsum(workload.cells[:-1].astype(int))])
    means = np.add.reduceat(expected, starts) / workload.cells
    assert plan.term_variances(workload) == pytest.approx(means, rel=1e-6)
    assert len(list(workload.query_labels())) == workload.queries == len(expected)


@given(workloads())
@SETTINGS
def test_no_plan_beats_the_bounds(workload):
    plan = rs.plan(workload, rs.GDP(mu=1.0))
    loss = float((workload.weights * workload.cells) @ plan.term_variances(workload))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GapWarning)
        best = rs.plan(as_explicit(workload), rs.GDP(mu=1.0))
    optimum = float(best.workload.weights @ best.variances(best.workload))
    assert loss >= optimum / (1 + best.gap) * (1 - 1e-9)
    assert loss / (1 + plan.gap_any) <= optimum * (1 + 1e-9)
    assert loss <= 1.35 * optimum  # products are that good even where an attribute is asked in two ways


@given(workloads())
@SETTINGS
def test_the_bound_of_a_class_is_below_what_its_members_reach(workload):
    """Not clipped at zero as a plan's gap is: a bound that were a little too high would show here."""
    design = designed(workload, rs.TotalVariance(), Effort(), [None] * len(workload.domain))
    game = design.game()
    spreads = [
        np.full(int(n), 1 / n) if s is None else s.spread
        for n, s in zip(workload.domain.sizes, design.strategies, strict=True)
    ]
    cells = [None if s is None else s.cells for s in design.strategies]
    bound = class_bound(workload, design.weights, game.dilutions, design.grams, spreads, cells)
    reached = game.value(design.weights)
    assert bound <= reached * (1 + 1e-9)
    if len(workload.families) == 1:
        assert bound >= reached * (1 - 1e-4)


@given(workloads(), st.data())
@SETTINGS
def test_the_gap_holds_within_the_class_of_the_plans_split(workload, data):
    """No other blocks on the same split, however strange, do better than the bound."""
    plan = rs.plan(workload, rs.GDP(mu=1.0))
    weights = workload.weights * workload.cells
    bound = float(weights @ plan.term_variances(workload)) / (1 + plan.gap)
    rng = np.random.default_rng(data.draw(st.integers(0, 2**20)))
    W, inverse = all_cells(workload), np.zeros((int(np.prod(plan.domain.sizes)),) * 2)
    gamma = np.zeros_like(inverse)
    for members, tau in zip(plan.lattice, plan.precisions, strict=True):
        if tau == 0:
            continue
        R = kron(s.matrix / s.unit if i in members else np.ones((1, s.size)) for i, s in enumerate(plan.strategies))
        F = kron(s.recovery * s.unit if i in members else s.spread[:, None] for i, s in enumerate(plan.strategies))
        H = np.eye(len(R)) + 0.3 * rng.standard_normal((len(R), len(R)))
        M = tau * rng.uniform(0.7, 1.4) * (H @ H.T)
        gamma += R.T @ M @ R
        inverse += F @ np.linalg.inv(M) @ F.T
    loss = float(np.repeat(workload.weights, workload.cells.astype(int)) @ np.einsum("ij,jk,ik->i", W, inverse, W))
    assert loss * np.diag(gamma).max() >= bound * (1 - 1e-6)


@given(workloads(), st.data())
@SETTINGS
def test_single_queries_and_their_covariances(workload, data):
    plan = rs.plan(workload, rs.GDP(mu=1.0))
    domain = plan.domain
    inverse = np.linalg.pinv(dense_gamma(plan), rcond=1e-11, hermitian=True)
    queries, rows = [], []
    for _ in range(2):
        members = data.draw(st.sets(st.sampled_from(domain.names)))
        query, factors = {}, []
        for name in domain.names:
            w = np.ones(domain[name].size)
            if name in members:
                a, b = sorted(data.draw(st.tuples(*[st.integers(0, domain[name].size - 1)] * 2)))
                w = ((np.arange(len(w)) >= a) & (np.arange(len(w)) <= b)).astype(float)
                query[name] = data.draw(st.sampled_from([(a, b), w])) if a < b else a
            factors.append(w[None, :])
        queries.append(query)
        rows.append(kron(factors)[0])
    inside = [np.allclose(row @ inverse @ dense_gamma(plan), row, atol=1e-6) for row in rows]
    if all(inside):
        expected = rows[0] @ inverse @ rows[1]
        scale = np.sqrt((rows[0] @ inverse @ rows[0]) * (rows[1] @ inverse @ rows[1]))
        assert plan.query_covariance(*queries) == pytest.approx(expected, abs=1e-6 * scale)
        assert plan.query_variance(queries[0]) == pytest.approx(rows[0] @ inverse @ rows[0], rel=1e-6)
    else:
        with pytest.raises(PlanError, match="does not answer"):
            plan.query_covariance(*queries)


def test_marginals_and_combinations_of_a_product_plan():
    domain = rs.Domain.of_sizes({"a": 5, "b": 3, "c": 2})
    plan = rs.plan(rs.ranges(domain, "a", by=["b"]) + rs.marginals(domain, ways=1), rs.GDP(mu=1.0))
    inverse = np.linalg.pinv(dense_gamma(plan), hermitian=True)
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


@given(workloads(), st.sampled_from([rs.AddRemove(), rs.ReplaceOne()]))
@SETTINGS
def test_the_price_is_that_of_the_integers(workload, unit):
    if isinstance(unit, rs.ReplaceOne) and np.ptp(all_cells(workload), axis=1).max() < 1e-12:
        with pytest.raises(PlanError, match="without noise"):
            rs.plan(workload, rs.GDP(mu=1.0), unit=unit)
        return
    plan = rs.plan(workload, rs.GDP(mu=1.0), unit=unit)
    blocks, cost = priced(plan)
    gamma = np.zeros((int(np.prod(plan.domain.sizes)),) * 2)
    rows = list(blocks.lattice)
    for number, t, s in zip(blocks.measured, blocks.grids, blocks.scales, strict=True):
        B = kron(
            a.matrix.astype(float) if i in rows[number] else np.ones((1, a.size))
            for i, a in enumerate(blocks.strategies)
        )
        gamma += (t / s) ** 2 * B.T @ B
    truth = replacement(gamma) if isinstance(unit, rs.ReplaceOne) else np.diag(gamma).max()
    assert cost >= truth * (1 - 1e-12)
    assert cost <= rs.GDP(mu=1.0).pcost_allowed()
    if isinstance(unit, rs.AddRemove):
        assert float(cost) == pytest.approx(truth, rel=1e-9)
    assert blocks.noise_variances == pytest.approx(plan.noise_variances[blocks.measured], rel=1e-9)
    assert most_product_records(blocks) >= 2**28


def test_an_entry_that_has_no_absolute_value_in_64_bits_is_priced_all_the_same():
    # |−2^63| is negative in 64 bits: taken for small, it would put the parity of a count into the highest bit.
    strategy = Strategy(3, np.array([[-(2**63), 0, 2**25]]))
    assert strategy.norm == 2**126
    assert strategy.largest == 2**63
    lattice = closure([np.array([[0]], dtype=np.int32)], 1)
    blocks = ProductBlocks(lattice, np.array([3]), (strategy,), np.array([1]), np.array([1]), np.array([2.0**26]))
    with pytest.raises(VerificationError):
        product_cost(blocks, rs.GDP(1.0), rs.AddRemove())


def test_altered_blocks_are_refused():
    domain = rs.Domain.of_sizes({"a": 5, "b": 3})
    plan = rs.plan(rs.prefixes(domain, "a", by=["b"]), rs.GDP(mu=1.0))
    blocks = compile_product(plan)

    def price(**changes):
        fields = ("lattice", "sizes", "strategies", "measured", "grids", "scales", "drops")
        altered = ProductBlocks(**({name: getattr(blocks, name) for name in fields} | changes))
        return product_cost(altered, plan.guarantee, plan.unit)

    assert price() <= 1
    with pytest.raises(VerificationError, match="altered"):
        price(scales=blocks.scales * 0.99)
    with pytest.raises(VerificationError, match="altered"):
        price(strategies=(Strategy(5, plan.strategies[0].matrix * 2), plan.strategies[1]))
    with pytest.raises(VerificationError, match="noise scale"):
        price(scales=blocks.scales * np.nan)
    with pytest.raises(VerificationError, match="whole number"):
        price(grids=blocks.grids * 1.5)
    with pytest.raises(VerificationError, match="strategies do not fit"):
        price(strategies=plan.strategies[::-1])
    with pytest.raises(VerificationError, match="overflow"):
        price(grids=blocks.grids * 2**40)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=3), st.data())
@SETTINGS
def test_identities_reproduce_marginal_plans_bit_for_bit(sizes, data):
    domain = rs.Domain.of_sizes(sizes)
    ways = data.draw(st.sets(st.integers(0, len(sizes)), min_size=1))
    given_as = [np.eye(n) if data.draw(st.booleans()) else "identity" for n in sizes]
    product = rs.product(domain, dict(zip(domain.names, given_as, strict=True)), ways=sorted(ways))
    plan, usual = (rs.plan(w, rs.ZCDP(rho=0.5)) for w in (product, rs.marginals(domain, ways=sorted(ways))))
    assert isinstance(plan, ResidualPlan)
    assert np.array_equal(plan.precisions, usual.precisions)
    assert plan.lattice.same_sets(usual.lattice)


def test_plain_strategies_make_a_residual_plan():
    domain = rs.Domain.of_sizes([4, 3, 2])
    usual = rs.plan(rs.marginals(domain, ways=[1, 2]), rs.ZCDP(rho=0.5))
    plain = tuple(Strategy(int(n)) for n in domain.sizes)
    plan = ProductPlan(domain, usual.lattice, usual.precisions, plain, usual.guarantee)
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
    variances = plan.variances(workload) if over == "queries" else plan.term_variances(workload)
    scales = objective.scales(workload)
    wanted = np.repeat(scales, workload.cells.astype(int)) if over == "queries" else scales
    assert (variances / wanted).max() == pytest.approx(1.0, rel=1e-9)
    assert (variances <= wanted).all()
    back = rs.plan(workload, plan.guarantee, minimise=objective)
    found = back.variances(workload) if over == "queries" else back.term_variances(workload)
    assert (found / wanted).max() == pytest.approx(1.0, rel=1e-6)
    assert back.strategies == plan.strategies  # so that one can be topped up to the other


def test_the_largest_variance_is_near_the_fitness_for_use_optimum():
    workload = rs.prefixes(rs.Domain.of_sizes({"a": 16}), "a")
    plan = rs.plan(workload, targets=1.0)
    assert plan.variances(workload).max() <= 1.0
    assert plan.pcost == pytest.approx(2.9054, rel=3e-3)  # fitness-for-use, Table 2
    assert plan.pcost / (1 + plan.gap) <= 2.9055
    total = rs.plan(workload, plan.guarantee)
    assert total.variances(workload).max() > 1.1


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
    plan = rs.plan(workload, rs.ZCDP(rho=0.1))
    path = tmp_path_factory.mktemp("plans") / "p.json"
    plan.save(path)
    loaded = rs.Plan.load(path)
    assert isinstance(loaded, ProductPlan)
    assert loaded.strategies == plan.strategies
    assert np.array_equal(loaded.precisions, plan.precisions)
    assert np.array_equal(loaded.variances(loaded.workload), plan.variances(workload))
    assert list(loaded.workload.query_labels()) == list(workload.query_labels())
    assert (loaded.gap, loaded.guarantee, loaded.objective) == (plan.gap, plan.guarantee, plan.objective)


def test_workloads_add_and_weigh():
    domain = rs.Domain.of_sizes({"a": 4, "b": 2})
    both = rs.marginals(domain, ways=1) + 2 * rs.prefixes(domain, "a", by=["b"])
    assert isinstance(both, Products)
    assert both.sets == (("a",), ("b",), ("a", "b"))
    assert both.weights.tolist() == [1.0, 1.0, 2.0]
    assert len(both.families) == 2  # `a` is asked in two ways
    twice = rs.prefixes(domain, "a") + rs.prefixes(domain, "a")
    assert (len(twice), twice.weights.tolist()) == (1, [2.0])
    explicit = both + rs.queries(domain, ["a <= 1"])
    assert explicit.queries == both.queries + 1
    assert (rs.queries(domain, ["a <= 1"]) + both).queries == both.queries + 1
    assert list(rs.ranges(domain, "a", listed=[(1, 2)], by=["b"]).query_labels()) == ["a=1..2, b=0", "a=1..2, b=1"]


def test_independent_noise_is_a_baseline_where_cells_are_few():
    workload = rs.prefixes(rs.Domain.of_sizes({"a": 6, "b": 2}), "a", by=["b"])
    baseline, plan = rs.independent(workload, rs.GDP(1.0)), rs.plan(workload, rs.GDP(1.0))
    assert plan.variances(workload).sum() < baseline.variances(as_explicit(workload)).sum()


def test_other_values_have_no_place_in_an_order():
    domain = rs.Domain({"age": rs.Integers(0, 3, unknown="other"), "b": ["x", "y"]})
    assert list(rs.prefixes(domain, "age").query_labels()) == ["age<=0", "age<=1", "age<=2", "age<=3", "age=(other)"]
    ranges = rs.ranges(domain, "age")
    assert (ranges.queries, list(ranges.query_labels())[-1]) == (11, "age=(other)")
    asked = ranges.families[0].queries[0]
    W, K = asked.matrix(), np.arange(25.0).reshape(5, 5) + np.arange(25.0).reshape(5, 5).T + 50 * np.eye(5)
    p = np.arange(1.0, 12.0)
    assert asked.gram() == pytest.approx(W.T @ W)
    assert asked.weighted_gram(p) == pytest.approx(W.T @ np.diag(p) @ W)
    assert asked.times(np.arange(5.0)) == pytest.approx(W @ np.arange(5.0))
    assert asked.diagonal(K) == pytest.approx(np.diag(W @ K @ W.T))


BAD = [
    (lambda d: rs.product(d, {"a": "quantiles"}), WorkloadError, "quantiles"),
    (lambda d: rs.product(d, {"z": "ranges"}), WorkloadError, "unknown attribute"),
    (lambda d: rs.product(d, {}), WorkloadError, "empty"),
    (lambda d: rs.product(d, {"a": np.ones((2, 3))}), WorkloadError, "3 columns"),
    (lambda d: rs.product(d, {"a": [[1, 2, 3, np.nan]]}), WorkloadError, "NaN"),
    (lambda d: rs.product(d, {"a": [[0, 0, 0, 0]]}), WorkloadError, "row 0"),
    (lambda d: rs.product(d, {"a": [["x"] * 4]}), WorkloadError, "numbers"),
    (lambda d: rs.product(d, "a"), WorkloadError, "mapping"),
    (lambda d: rs.product("d", {"a": "ranges"}), WorkloadError, "Domain"),
    (lambda d: rs.product(d, {"a": "ranges"}, ways=[9]), WorkloadError, "ways"),
    (lambda d: rs.product(d, {"a": "ranges"}, weight=-1.0), WorkloadError, "weight"),
    (lambda d: rs.hierarchy(d, "a"), WorkloadError, "no levels"),
    (lambda d: rs.prefixes(d, "a", by=["a"]), WorkloadError, "twice"),
    (lambda d: rs.prefixes(d, "a", by="b"), WorkloadError, "one name"),
    (lambda d: rs.ranges(d, "a", listed=[(0, 7)]), WorkloadError, "leaves the attribute"),
    (lambda d: rs.ranges(d, "a", listed=[(2, 1)]), WorkloadError, "ends before"),
    (lambda d: rs.ranges(d, "a", listed=[3]), WorkloadError, "not a range"),
    (lambda d: rs.ranges(d, "a", listed=[]), WorkloadError, "no ranges"),
    (lambda d: rs.ranges(d, "a") + rs.ranges(rs.Domain.of_sizes({"a": 3}), "a"), WorkloadError, "different domains"),
    (lambda d: rs.plan(rs.ranges(d, "a"), rs.GDP(1.0), minimise=rs.PNormVariance(2)), PlanError, "for marginals"),
    (lambda d: rs.plan(rs.ranges(d, "a"), rs.GDP(1.0), bias=0.1), PlanError, "bias"),
    (lambda d: rs.plan(rs.ranges(d, "a")), PlanError, "say what to spend"),
    (lambda d: rs.MaxVariance(over="cells"), PlanError, "cells"),
    (lambda d: rs.plan(rs.ranges(d, "a"), targets={("b",): 1.0}), PlanError, "does not ask"),
    (lambda d: rs.plan(rs.ranges(d, "a"), targets=float("nan")), PlanError, "positive finite"),
]


@pytest.mark.parametrize(("make", "error", "words"), BAD)
def test_bad_input(make, error, words):
    with pytest.raises(error, match=words):
        make(rs.Domain.of_sizes({"a": 4, "b": 2}))


QUERIES = [
    ({"a": (0, 9)}, "leaves the attribute"),
    ({"a": 9}, "not a value"),
    ({"z": 1}, "unknown attribute"),
    ({"a": np.ones(3)}, "4 finite numbers"),
    ("a", "not a query"),
    ({"a": 1, "b": 1}, "does not answer"),
]


@pytest.mark.parametrize(("query", "words"), QUERIES)
def test_bad_queries(query, words):
    plan = rs.plan(rs.ranges(rs.Domain.of_sizes({"a": 4, "b": 2}), "a"), rs.GDP(1.0))
    with pytest.raises(PlanError, match=words):
        plan.query_variance(query)


SMALL = rs.Domain.of_sizes({"a": 12, "b": 6})
MIXED = {
    "prefixes beside values": rs.prefixes(SMALL, "a") + rs.prefixes(SMALL, "b") + rs.marginals(SMALL, ways=2),
    "each way": rs.prefixes(SMALL, "a", by=["b"]) + rs.prefixes(SMALL, "b", by=["a"]),
    "groups beside values": rs.product(SMALL, {"a": np.kron(np.eye(3), np.ones(4)), "b": "identity"})
    + rs.marginals(SMALL, [("a",)]),
}


@pytest.mark.parametrize("name", MIXED)
def test_where_a_dense_plan_is_better_the_plan_says_by_how_much(name):
    workload = MIXED[name]
    plan = rs.plan(workload, rs.GDP(1.0))
    saved = int(re.search(r"over 72 cells .* (\d+)% less variance at most: .*rs\.explicit", plan.advice)[1]) / 100
    listed = rs.explicit(SMALL, workload)
    dense = rs.plan(listed, rs.GDP(1.0))
    loss = float((workload.weights * workload.cells) @ plan.term_variances(workload))
    gain = 1 - float(listed.weights @ dense.variances(listed)) / loss
    assert saved - 0.02 < gain < saved + 0.005


def test_nothing_is_advised_where_little_is_to_be_gained_or_cells_are_many():
    assert rs.plan(rs.prefixes(SMALL, "a", by=["b"]), rs.GDP(1.0)).advice == ""
    wide = rs.Domain.of_sizes({"a": 60, "b": 40})
    plan = rs.plan(rs.prefixes(wide, "a") + rs.marginals(wide, ways=2), rs.GDP(1.0))
    assert plan.gap > 0.01
    assert plan.advice == ""
    largest = rs.plan(MIXED["prefixes beside values"], rs.GDP(1.0), minimise=rs.MaxVariance())
    assert "less variance: list" in largest.advice  # by how much is not known


def test_workloads_can_be_listed_query_by_query():
    workload = MIXED["each way"]
    listed = rs.explicit(SMALL, workload, weight=2.0)
    assert list(listed.labels) == list(workload.query_labels())
    assert listed.weights.tolist() == [2.0] * workload.queries
    assert rs.explicit(SMALL, rs.marginals(SMALL, ways=1)).queries == 18
    with pytest.raises(WorkloadError, match="another domain"):
        rs.explicit(rs.Domain.of_sizes([3]), workload)
    with pytest.raises(WorkloadError, match="its own attributes"):
        rs.explicit(SMALL, workload, labels=["x"])
