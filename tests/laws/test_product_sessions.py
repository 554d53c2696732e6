"""Product plans among others: composed costs, pools, the algebra of mixtures and sessions, against dense matrices."""

from fractions import Fraction
from functools import cache, reduce

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import residua as rs
from residua.errors import LedgerError, PlanError
from residua.plans import MatrixPlan
from residua.plans.product.algebra import agree
from residua.plans.product.plan import ProductPlan
from residua.plans.verifier import composed_cost, composed_profile, priced
from residua.release import Release, pooled
from residua.session.recommend import answerable
from tests.laws.product_plans import block_matrix, gamma, random_plan

DOMAIN = rs.Domain.of_sizes({"a": 4, "b": 3, "c": 2})
SIZES = (4, 3, 2)
CELLS = 24
seeds = st.integers(0, 2**32 - 1)


def wide(plan):
    """What a plan's blocks measure over all cells, integers, and the noise scale of each row."""
    measurements = plan.compile()
    if isinstance(plan, MatrixPlan):
        own = [n if i in plan.attributes else 1 for i, n in enumerate(SIZES)]
        columns = np.broadcast_to(plan.columns.reshape(own), SIZES).ravel()
        rows = np.append(plan.strategy, np.zeros((len(plan.strategy), 1), dtype=np.int64), axis=1)[:, columns]
        return measurements, rows, np.full(len(rows), plan.scale)
    grids, scales = (
        dict(zip(measurements.measured.tolist(), each, strict=True))
        for each in (measurements.grids, measurements.scales)
    )
    rows, noise = [], []
    for group in measurements.layout:
        for number, members in zip(group.numbers.tolist(), group.members.tolist(), strict=True):
            block = np.rint(block_matrix(plan, members, scaled=False)).astype(np.int64)
            rows.append(block * int(grids[number]))
            noise.append(np.full(len(block), scales[number]))
    return measurements, np.vstack(rows), np.concatenate(noise)


PLANNED = ["ranges", "prefixes", "marginals", "queries"]


SETS = ([("a",)], [("a", "b")], [("a",), ("b", "c")], [("a", "b", "c")], [("c",), ()])
# Plans are made while examples are drawn, which is slow on a busy machine.
patient = settings(suppress_health_check=[HealthCheck.too_slow])


@cache
def planned(kind, rho, which):
    if kind == "marginals":
        return rs.plan(rs.marginals(DOMAIN, SETS[which]), rs.ZCDP(rho))
    if kind == "queries":
        rows = np.random.default_rng(which).integers(-1, 2, (3, CELLS))
        return rs.independent(rs.explicit(DOMAIN, rows), rs.ZCDP(rho))
    return rs.plan(rs.product(DOMAIN, {"a": kind}, sets=SETS[which]), rs.ZCDP(rho))


@st.composite
def any_plan(draw, kinds=(*PLANNED, "random")):
    """A plan of products, marginals or queries; products often by the same strategies."""
    kind = draw(st.sampled_from(kinds))
    if kind == "random":
        return random_plan(draw(seeds), full=True, domain=DOMAIN)
    return planned(kind, draw(st.sampled_from([0.25, 0.5, 2.0])), draw(st.integers(0, len(SETS) - 1)))


plans = any_plan()


def matrix(plan):
    _, rows, noise = wide(plan)
    B = rows / noise[:, None]
    return B.T @ B


def below(a, b, slack=1e-5):
    """Whether a ⪯ b, up to what rounding to integers and tolerances give away."""
    return np.linalg.eigvalsh(b * (1 + slack) - a).min() > -1e-7 * max(np.abs(b).max(), 1.0)


# ---- costs


@given(st.lists(plans, min_size=1, max_size=3))
@settings(patient, max_examples=60)
def test_the_composed_cost_is_the_largest_diagonal_entry_of_the_sum_exactly(several):
    exact = [Fraction(0)] * CELLS
    for plan in several:
        _, rows, noise = wide(plan)
        for scale in np.unique(noise):
            norms = (rows[noise == scale].astype(object) ** 2).sum(axis=0)
            exact = [old + norm / Fraction(scale) ** 2 for old, norm in zip(exact, norms, strict=True)]
    found = composed_cost(several)
    assert max(exact) <= found <= max(exact) + Fraction(100, 2**200)
    assert found <= sum(priced(plan)[1] for plan in several)
    assert composed_profile(several).largest == found
    assert composed_cost(several[:1]) == priced(several[0])[1]


@given(seeds, st.integers(2, 3))
@settings(max_examples=20)
def test_products_by_the_same_strategies_add_up_exactly(seed, count):
    first = random_plan(seed, domain=DOMAIN)
    several = [random_plan(seed + k, domain=DOMAIN, strategies=first.strategies) for k in range(count)]
    assert composed_cost(several) == sum(priced(plan)[1] for plan in several)


def test_cells_that_cannot_be_listed_are_added_up_by_the_dearest_but_dense_ones_still_cell_by_cell():
    sizes = {"a": 100, "b": 100, "c": 100, "age": 20}
    domain = rs.Domain.of_sizes(sizes)
    products = rs.plan(rs.prefixes(domain, ["a", "b", "c"]), rs.ZCDP(0.5))
    young = rs.plan(rs.queries(domain, ["age < 5"]), rs.ZCDP(0.5))
    old = rs.plan(rs.queries(domain, ["age >= 5"]), rs.ZCDP(0.5))
    assert composed_cost([products, young]) == priced(products)[1] + priced(young)[1]
    assert composed_cost([products, young, old]) == priced(products)[1] + composed_cost([young, old])
    assert composed_cost([young, old]) < 1.001


def test_replacements_are_never_undercharged():
    several = [
        rs.plan(rs.ranges(DOMAIN, "a", by=["b"]), rs.ZCDP(0.5), unit=rs.ReplaceOne()),
        rs.plan(rs.marginals(DOMAIN, ways=2), rs.ZCDP(0.5), unit=rs.ReplaceOne()),
        rs.plan(rs.queries(DOMAIN, ["a < 2"]), rs.ZCDP(0.5), unit=rs.ReplaceOne()),
    ]
    total = sum(matrix(plan) for plan in several)
    diagonal = np.diag(total)
    truth = (diagonal[:, None] + diagonal - 2 * total).max()
    found = composed_cost(several)
    assert truth * (1 - 1e-12) <= found <= sum(priced(plan)[1] for plan in several)
    assert composed_cost(several[:1]) == priced(several[0])[1]


def worst_pair(several):
    """The largest cost of a replacement, from dense matrices."""
    total = sum(matrix(plan) for plan in several)
    return (np.diag(total)[:, None] + np.diag(total) - 2 * total).max()


@given(seeds, st.integers(1, 3))
@settings(max_examples=30)
def test_replacements_of_products_are_bounded_and_exact_where_strategies_are_plain(seed, count):
    """And plans by the same strategies are priced together: in two parts they cost what they cost as one."""
    first = random_plan(seed, domain=DOMAIN).replaced(unit=rs.ReplaceOne())
    several = [random_plan(seed + k, domain=DOMAIN, strategies=first.strategies) for k in range(count)]
    several = [plan.replaced(unit=rs.ReplaceOne()) for plan in several]
    whole = reduce(lambda a, b: a + b, several)
    found = float(composed_cost(several))
    assert found >= worst_pair(several) * (1 - 1e-9)
    assert found == pytest.approx(whole.unit_pcost, rel=1e-9)
    plain = rs.plan(rs.marginals(DOMAIN, ways=2), rs.ZCDP(0.5), unit=rs.ReplaceOne())
    mixed = [plain, plain.scaled(0.5)]
    assert float(composed_cost(mixed)) == pytest.approx(worst_pair(mixed), rel=1e-9)


# ---- pools


def test_a_session_for_replaced_records_writes_releases_that_can_be_loaded(tmp_path):
    """What answers products may have been measured as marginals, whose cost is known more exactly."""
    rng, unit = np.random.default_rng(3), rs.ReplaceOne()
    data = pa.table({name: rng.integers(0, n, 300) for name, n in zip(DOMAIN.names, SIZES, strict=True)})
    session = rs.Session(data, rs.ZCDP(2.0), ledger=tmp_path / "l", unit=unit)
    marginals = rs.plan(rs.marginals(DOMAIN, ways=2), rs.ZCDP(0.5), unit=unit)
    session.release(marginals)
    prefixes = rs.plan(rs.marginals(DOMAIN, ways=1), rs.ZCDP(0.05), unit=unit)
    assert session.price(prefixes) == 0
    release = session.release(prefixes)
    release.save(tmp_path / "out")
    again = rs.Release.load(tmp_path / "out")
    assert again.planned.lattice.same_sets(release.planned.lattice)
    assert again.planned.guarantee.pcost_allowed() <= 1.0


def test_a_pool_for_replaced_records_says_by_how_much_its_variances_are_overstated():
    """Plans for replaced records know the number of records a thousand times better than the rest."""
    rng, x, unit = np.random.default_rng(1), np.arange(CELLS) * 7, rs.ReplaceOne()
    for seed in range(6):
        queries = [rs.explicit(DOMAIN, np.random.default_rng(seed + k).integers(-1, 2, (3, CELLS))) for k in (0, 9)]
        several = [
            rs.plan(queries[0], rs.ZCDP(0.25), unit=unit),
            rs.plan(queries[1], rs.ZCDP(50.0), unit=unit),
            rs.plan(rs.product(DOMAIN, {"a": "ranges"}, sets=SETS[seed % 4]), rs.ZCDP(0.5), unit=unit),
        ]
        parts = [pretended(plan, x, rng) for plan in several]
        pool = pooled([part[0] for part in parts])
        _, s, Vt = np.linalg.svd(np.vstack([part[1] for part in parts]), full_matrices=False)
        kept = s > s[0] * 1e-11
        W = several[0].workload.over((0, 1, 2)).toarray()
        truth = ((W @ Vt[kept].T / s[kept]) ** 2).sum(axis=1)
        ratios = pool.plan.variances(several[0].workload) / truth
        assert ratios.min() >= 1 - 1e-9
        assert ratios.max() <= 1 + pool.receipt["overstated"] < 1.001


def pretended(plan, x, rng):
    """A release of a plan with pseudo-random noise; its whitened rows and measurements."""
    measurements, rows, noise = wide(plan)
    stddevs = np.sqrt(noise**2 + 1 / 12)
    y = np.rint(rows @ x + rng.normal(size=len(rows)) * noise).astype(np.int64)
    return Release(plan, measurements, y), rows / stddevs[:, None], y / stddevs


@given(st.lists(plans, min_size=1, max_size=3), seeds)
@settings(patient, max_examples=50)
def test_pooling_is_generalised_least_squares(several, seed):
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 200, CELLS)
    parts = [pretended(plan, x, rng) for plan in several]
    pool = pooled([release for release, _, _ in parts])
    same = agree(several)
    assert isinstance(pool.planned, ProductPlan) == same
    assert not same or pool.planned.plain == all(plan.plain for plan in several)
    B = np.vstack([rows for _, rows, _ in parts])
    inverse = np.linalg.pinv(B, rcond=1e-9)
    # Integers of 33 bits follow directions that differ in strength, as random strategies have them, less closely: what
    # is stated may then be too large, never too small.
    loss = 2e-6 + 5e-10 * np.linalg.norm(B, 2) * np.linalg.norm(inverse, 2)
    truth = inverse @ np.concatenate([y for _, _, y in parts])
    for plan in several:
        W = plan.workload.listed().over((0, 1, 2)).toarray()
        spread = np.linalg.norm(W @ inverse, axis=1)
        found = pool.answers(plan.workload).columns
        assert np.abs((found["estimate"] - W @ truth) / (spread + 1e-12)).max() < 1e-4
        assert np.allclose(found["stddev"], spread, rtol=loss, atol=1e-12)
        assert (found["stddev"] >= spread * (1 - 1e-8)).all()
    assert pool.planned.guarantee.pcost_allowed() >= composed_cost(several)


def test_pooled_products_keep_their_terms_and_survive_the_disk(tmp_path):
    rng, x = np.random.default_rng(5), np.arange(CELLS) * 10
    plan = rs.plan(rs.prefixes(DOMAIN, "a", by=["c"]), rs.ZCDP(0.5))
    pool = pooled([pretended(plan, x, rng)[0] for _ in range(3)], plan.workload)
    assert pool.planned.workload.with_rows
    assert pool.plan.variances(plan.workload) == pytest.approx(plan.variances(plan.workload) / 3, rel=1e-9)
    pool.save(tmp_path / "pool")
    again = rs.Release.load(tmp_path / "pool")
    assert [len(table) for table in again.tables()] == [8]
    assert np.array_equal(
        again.answers(plan.workload).columns["estimate"], pool.answers(plan.workload).columns["estimate"]
    )


# ---- algebra


@given(seeds)
@settings(max_examples=30)
def test_rows_of_a_product_plan_have_its_privacy_cost_matrix(seed):
    plan = random_plan(seed)
    grouping, rows = plan.over_cells()
    own = [int(n) if i in grouping.attributes else 1 for i, n in enumerate(plan.domain.sizes)]
    columns = np.broadcast_to(grouping.columns.reshape(own), plan.domain.sizes).ravel()
    np.testing.assert_allclose((rows.T @ rows)[np.ix_(columns, columns)], gamma(plan), rtol=1e-9, atol=1e-9)


@given(any_plan(PLANNED), any_plan(PLANNED))
@settings(patient, max_examples=25)
def test_the_algebra_of_mixtures_is_that_of_privacy_cost_matrices(p, q):
    P, Q = matrix(p), matrix(q)
    both = p + q
    assert below(matrix(both), P + Q)
    assert below(P + Q, matrix(both))
    assert both.can_answer(p)
    assert both.can_answer(q)
    assert p.can_answer(q) == below(Q, P)
    missing = rs.top_up(p, given=q)
    assert below(P, Q + (matrix(missing) if missing.pcost else 0 * Q))
    assert rs.top_up(p, given=[q, p]).pcost == 0
    shared = rs.common([p, q])
    if not shared.pcost:
        return
    C = matrix(shared)
    for plan, whole in ((p, P), (q, Q)):
        assert below(C, whole)
        left = rs.residual(plan, given=shared)
        L = matrix(left) if left.pcost else 0 * C
        assert below(whole, C + L)
        assert below(C + L, whole)
        assert composed_cost([shared, left]) <= composed_cost([plan])


# ---- sessions

DATA = pa.table(
    {
        name: np.unravel_index(np.repeat(np.arange(CELLS), np.arange(CELLS) * 20 + 30), SIZES)[i]
        for i, name in enumerate(DOMAIN.names)
    }
)
CANDIDATES = {
    "tables": rs.plan(rs.marginals(DOMAIN, ways=1), rs.ZCDP(0.5)),
    "prefixes": rs.plan(rs.prefixes(DOMAIN, "a", by=["b"]), rs.ZCDP(0.5)),
    "ranges": rs.plan(rs.product(DOMAIN, {"a": "ranges"}, ways=[1, 2]), rs.ZCDP(0.5)),
    "queries": rs.plan(rs.queries(DOMAIN, {"low": "a < 2", "b": "b = 1"}), rs.ZCDP(0.5)),
}


def near_the_truth(release, workload):
    """Estimates are within 6.5 standard deviations: 1e-10 false alarms a query."""
    found = release.answers(workload).columns
    truth = workload.listed().over((0, 1, 2)) @ (np.arange(CELLS) * 20 + 30)
    assert (abs(found["estimate"] - truth) < 6.5 * found["stddev"]).all()


def opened(folder, rho=0.5):
    return rs.Session(DATA, rs.ZCDP(rho), ledger=folder / "a.ledger")


@pytest.mark.parametrize("name", ["prefixes", "ranges"])
def test_releasing_products_twice_costs_nothing_the_second_time(tmp_path, name):
    plan, session = CANDIDATES[name], opened(tmp_path)
    first = session.release(plan)
    assert session.ledger.spent_exactly == priced(plan)[1]
    again = session.release(plan)
    assert session.ledger.spent_exactly == priced(plan)[1]
    assert len(session.ledger.entries) == 1
    assert np.array_equal(
        first.answers(plan.workload).columns["estimate"], again.answers(plan.workload).columns["estimate"]
    )
    half = plan.replaced(precisions=plan.precisions / 2, guarantee=rs.ZCDP(0.25))
    assert session.price(half) == 0
    with pytest.raises(LedgerError, match="costs more than the budget"):
        session.release((plan + plan).replaced(guarantee=rs.ZCDP(1.0 + 1e-9)))


def test_a_top_up_of_products_pays_the_difference_only(tmp_path):
    whole, session = CANDIDATES["ranges"], opened(tmp_path)
    half = whole.replaced(precisions=whole.precisions / 2, guarantee=rs.ZCDP(0.25))
    session.release(half)
    assert session.ledger.spent_exactly == priced(half)[1]
    release = session.release(whole)
    assert session.ledger.spent_exactly == priced(whole)[1]
    assert release.planned.strategies == whole.strategies
    assert not release.planned.plain
    assert release.plan.variances(whole.workload) == pytest.approx(whole.variances(whole.workload), rel=1e-9)
    near_the_truth(release, whole.workload)


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        (("prefixes", "ranges"), "prefixes"),
        (("prefixes", "ranges"), "ranges"),
        (("tables", "ranges"), "tables"),
        (("tables", "ranges"), "ranges"),
        (("queries", "prefixes"), "prefixes"),
        (("queries", "prefixes"), "queries"),
        (("tables", "prefixes", "ranges"), "ranges"),
    ],
)
def test_a_finished_choice_costs_exactly_the_chosen_plan_and_is_as_accurate(tmp_path, names, chosen):
    session, plan = opened(tmp_path), CANDIDATES[chosen]
    choice = session.choose({name: CANDIDATES[name] for name in names})
    look = session.ledger.spent_exactly
    assert 0 < look < priced(plan)[1]
    if len(choice.estimates()):
        for name in names:
            signal = choice.signal(name, choice.release.planned.workload or plan.workload)
            assert (signal.lower < signal.upper).all()
    release = choice.finish(chosen)
    assert session.ledger.spent_exactly == priced(plan)[1]
    found = release.answers(plan.workload).columns
    assert found["stddev"] ** 2 == pytest.approx(plan.variances(plan.workload), rel=1e-5)
    near_the_truth(release, plan.workload)
    assert session.price(plan) == 0


def test_a_product_after_tables_and_queries_is_pooled_with_them(tmp_path):
    session = opened(tmp_path, rho=1.5)
    alone = {}
    for name in ("tables", "queries", "prefixes"):
        release = session.release(CANDIDATES[name])
        alone[name] = priced(CANDIDATES[name])[1]
    held = [part.planned for part in session._standing().parts.values()]
    assert session.ledger.spent_exactly == composed_cost(held) < sum(alone.values())
    for name in alone:
        asked = CANDIDATES[name].workload
        assert (release.plan.variances(asked) <= CANDIDATES[name].variances(asked) * (1 + 1e-5)).all()
        assert session.price(CANDIDATES[name]) == 0


def test_the_answerable_part_of_products_is_whole_terms_or_else_single_queries():
    asked = rs.product(DOMAIN, {"a": "prefixes"}, ways=[1, 2])
    total = rs.plan(rs.marginals(DOMAIN, ways=0), rs.ZCDP(0.5))
    one = rs.plan(rs.product(DOMAIN, {"a": "prefixes"}, ways=1), rs.ZCDP(0.5))
    for known in (one, one + rs.plan(rs.queries(DOMAIN, ["a < 2"]), rs.ZCDP(0.5))):
        part = answerable(known, asked)
        assert part.with_rows
        assert part.sets == (("a",), ("b",), ("c",))
        assert list(part.query_labels()) == list(asked.query_labels())[: part.queries]
        assert np.isfinite(known.variances(part)).all()
    last = answerable(total, asked)
    assert last.labels == ("a<=3",)
    assert answerable(rs.plan(rs.queries(DOMAIN, ["a = 1"]), rs.ZCDP(0.5)), asked) is None


def test_compatible_datasets_fit_the_measured_products(tmp_path):
    choice = opened(tmp_path).choose({n: CANDIDATES[n] for n in ("tables", "ranges")})
    found = choice.compatible("ranges", samples=4)
    estimates = choice.estimates().columns
    assert found.answers.shape == (4, CANDIDATES["ranges"].workload.queries)
    everyone = found.labels.index("a=0..3")
    total = reduce(lambda a, b: a + b, estimates["estimate"][:4])
    assert (abs(found.answers[:, everyone] - total) < 40).all()


def test_many_cells_by_other_strategies_are_refused_before_anything_is_spent(tmp_path):
    domain = rs.Domain.of_sizes({"a": 80, "b": 80})
    data = pa.table({"a": np.arange(80), "b": np.arange(80)})
    session = rs.Session(data, rs.ZCDP(2.0), ledger=tmp_path / "b.ledger")
    session.release(rs.plan(rs.marginals(domain, ways=2), rs.ZCDP(0.5)))
    spent = session.ledger.spent_exactly
    with pytest.raises(PlanError, match="another strategy"):
        session.release(rs.plan(rs.prefixes(domain, ["a", "b"]), rs.ZCDP(0.5)))
    assert session.ledger.spent_exactly == spent
