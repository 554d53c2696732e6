"""Every kind of release can be projected: nearest by a general solver, consistent, idempotent, total kept, saved."""

from itertools import combinations

import cvxpy as cp
import numpy as np
import pytest

import residua as rs
from residua.domain import impossible_cells
from residua.linalg.arrays import centred
from residua.projection.accuracy import bound_of
from residua.projection.problem import Terms
from residua.projection.problems import problem_of
from residua.workload import applied
from tests.laws.projections import IMPOSSIBLE, domain_of_three, people
from tests.laws.test_projected import SETS, consistent

ASKED = {
    "residual": lambda domain: rs.marginals(domain, ways=[1, 2]),
    "dense": lambda domain: rs.queries(domain, ["1", "age <= 1", "age >= 2 and sex = 'F'", "work = 'yes'"]),
    "product": lambda domain: rs.product(domain, {"age": "prefixes"}, ways=[1, 2]),
    "pure": lambda domain: rs.queries(domain, ["1", "age <= 1", "age <= 2", "sex = 'F' and work = 'yes'"]),
    "pure marginals": lambda domain: rs.marginals(domain, ways=[1, 2]),
}
POSES = {
    "residual": "marginals",
    "dense": "a histogram",
    "product": "products",
    "pure": "a histogram",
    "pure marginals": "marginals",
}
CROSSED = {
    "prefixes": lambda domain: rs.product(domain, {"age": "prefixes"}, ways=[1, 2]),
    "ranges and prefixes": lambda domain: rs.product(domain, {"age": "ranges", "work": "prefixes"}, ways=[1, 2]),
    "a negative spread": lambda domain: rs.product(domain, {"age": np.array(SKEWED)}, ways=[1, 2]),
}
SKEWED = [[0, 4, 3, 0, 0], [5, -1, -3, -1, 0], [7, 2, 8, 6, 2], [4, 0, 0, -2, 9], [-3, 0, 0, 0, 4], [0, 3, -1, -2, 0]]
KINDS = list(ASKED)
TABLES = ["residual", "product", "pure marginals"]


class Silence:
    """In place of a random generator: a release without noise."""

    def standard_normal(self, size):
        return np.zeros(size)

    def laplace(self, mean, scale, size):
        return np.zeros(size)


class One(Silence):
    """In place of a random generator: noise of one standard deviation on one measurement."""

    def __init__(self, place):
        self.place = place

    def standard_normal(self, size):
        found = np.zeros(size)
        found[self.place] = 1.0
        return found


def release_of(tmp_path, kind, *, workload=None, impossible=()):
    """A noisy release of one kind: many cells below zero, a total above."""
    guarantee = rs.PureDP(0.2) if kind.startswith("pure") else rs.ZCDP(0.02)
    asked = workload or ASKED[kind](domain_of_three(impossible=impossible))
    for attempt in range(20):
        ledger = rs.Ledger(tmp_path / f"{kind} {attempt} {len(list(tmp_path.iterdir()))}", guarantee)
        release = rs.measure(rs.plan(asked, guarantee), people(np.random.default_rng(0)), ledger=ledger)
        assert release.plan.poses == POSES[kind]
        if float(release.estimates(())) > 10:
            return release
    raise AssertionError("twenty totals far below the truth")


@pytest.mark.parametrize("kind", KINDS)
def test_by_default_every_kind_gives_tables_that_could_be_true(tmp_path, kind):
    release = release_of(tmp_path, kind, impossible=IMPOSSIBLE)
    projected = rs.project(release)
    released = release.table(()).columns
    if released["estimate"][0] > 3 * released["stddev"][0]:
        assert projected.count() == pytest.approx(float(released["estimate"][0]))
    assert projected.count() > 0
    assert projected.metric == ("margins" if kind in TABLES else "covariance")
    if kind in TABLES:
        consistent(projected)
        assert (projected.estimates(["age", "work"])[:2, 1:] == 0).all()
    else:
        assert projected.histogram.min() >= 0
        assert (projected.histogram[:2, :, 1:] == 0).all()
    assert len(projected.answers()) == projected.plan.workload.queries
    projected.save(tmp_path / "projected")
    again = rs.Projected.load(tmp_path / "projected")
    assert (again.metric, again.bound) == (projected.metric, projected.bound)
    np.testing.assert_allclose(again.answers().estimates, projected.answers().estimates, rtol=1e-13)


@pytest.mark.parametrize("kind", KINDS)
def test_projecting_what_a_projection_would_observe_changes_nothing(tmp_path, kind):
    """Without shrinking: that takes from what is there, however often it is done."""
    release = release_of(tmp_path, kind)
    projected = rs.project(release, total=60, tolerance=1e-10, shrink=False)
    problem = problem_of(projected.plan, projected.terms)
    observed = problem.simulated(projected.fit, Silence())
    assert problem.moved(observed, projected.fit) < 1e-6 * max(1.0, problem.size(projected.fit))
    assert problem.moved(observed, problem.solve(observed)) < 1e-6 * max(1.0, problem.size(projected.fit))
    if kind in TABLES:  # some cell was below zero
        assert problem.moved(problem.observed(release), projected.fit) > 0


MIXED = {
    "prefixes and values": lambda domain: rs.prefixes(domain, "age") + rs.marginals(domain, ways=2),
    "two ways round": lambda domain: rs.prefixes(domain, "age", by=["work"]) + rs.prefixes(domain, "work", by=["age"]),
    "groups": lambda domain: rs.ranges(domain, "age", listed=[(0, 1), (2, 4)]) + rs.product(
        domain, {"age": "identity", "work": "prefixes"}
    ),
}  # fmt: skip


def three_tables(domain):
    """Variables for the three tables of two attributes, any marginal of theirs, and the rules that make them agree."""
    sizes = [int(n) for n in domain.sizes]
    tables = {pair: cp.Variable([sizes[i] for i in pair], nonneg=True) for pair in combinations(range(3), 2)}

    def marginal(members):
        if len(members) == 2:
            return tables[members]
        pair = next(pair for pair in tables if set(members) <= set(pair))
        return cp.sum(tables[pair], axis=1 - pair.index(members[0])) if members else cp.sum(tables[pair])

    rules = [cp.sum(table) == cp.sum(tables[0, 1]) for table in tables.values()]
    for pair, table in tables.items():
        rules += [cp.sum(table, axis=1 - pair.index(i)) == marginal((i,)) for i in pair]
    return tables, marginal, rules


@pytest.mark.parametrize("asked", list(CROSSED))
def test_product_tables_are_the_nearest_over_all_queries_asked_by_a_general_solver(tmp_path, asked):
    release = release_of(tmp_path, "product", workload=CROSSED[asked](domain_of_three()))
    projected = rs.project(release, total=60, metric="plain", tolerance=1e-10)
    names = release.domain.names
    tables, marginal, rules = three_tables(release.domain)
    loss = 0
    for term in release.plan.workload.terms():
        seen = marginal(tuple(i for i, _ in term)) - release.estimates([names[i] for i, _ in term])
        for axis, (_, rows) in enumerate(term):
            seen = rows.matrix() @ seen if axis == 0 else seen @ rows.matrix().T
        loss += cp.sum_squares(seen)
    rules.append(cp.sum(tables[0, 1]) == 60)
    problem = cp.Problem(cp.Minimize(loss), rules)
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11)
    assert problem.value * (1 - 1e-7) <= projected.distance <= problem.value * (1 + 1e-7) + projected.gap
    assert projected.gap < 0.01 * projected.distance  # far less for most draws
    far = 0.0
    for term in release.plan.workload.terms():
        members = tuple(i for i, _ in term)
        found = projected.estimates([names[i] for i in members])
        far += float((applied(term, found - np.asarray(marginal(members).value).reshape(found.shape)) ** 2).sum())
    assert far <= projected.gap + 1e-6 * problem.value  # as near as the proven gap says


def queries_of(plan, tables):
    """The answers of tables to all queries asked that they answer, (queries,)."""
    terms = (term for term in plan.workload.terms() if tables.supports([i for i, _ in term]))
    return np.concatenate([applied(term, tables.marginal([i for i, _ in term])).ravel() for term in terms])


@pytest.mark.parametrize("asked", list(MIXED))
def test_where_an_attribute_is_asked_in_several_ways_the_metric_is_nowhere_less_than_all_queries_asked(tmp_path, asked):
    release = release_of(tmp_path, "product", workload=MIXED[asked](domain_of_three()))
    problem = problem_of(release.plan, Terms(metric="plain"))
    rng, ratios = np.random.default_rng(0), []
    for _ in range(50):
        residuals = rng.normal(size=problem.layout.cells)
        for group in problem.layout:
            group.view(residuals)[:] = centred(group.view(residuals), 1)
        tables = problem.unprojected(residuals)
        ratios.append(problem.size(tables) / (queries_of(release.plan, tables) ** 2).sum())
    assert min(ratios) >= 1 - 1e-9
    assert np.median(ratios) < 10
    assert problem.cells == len(queries_of(release.plan, tables))


@pytest.mark.parametrize("asked", ["prefixes by sex", "two ways round"])
def test_the_plain_bound_holds_for_all_queries_asked(tmp_path, asked):
    """It fails in at most one of a thousand releases: that three of eight do has odds below 1e-7."""
    domain, rng = domain_of_three(), np.random.default_rng(2)
    workload = rs.prefixes(domain, "age", by=["sex"]) if asked == "prefixes by sex" else MIXED[asked](domain)
    release = release_of(tmp_path, "product", workload=workload)
    problem = problem_of(release.plan, Terms(metric="plain"))
    truth = rs.project(release, metric="plain", total=60).fit
    exact, failures, stated = queries_of(release.plan, truth), 0, []
    for _ in range(8):
        observed = problem.simulated(truth, rng)
        fit = problem.solve(observed)
        bound = bound_of(problem, observed, fit)
        errors = [
            np.sqrt(((queries_of(release.plan, one) - exact) ** 2).mean())
            for one in (fit, problem.unprojected(observed))
        ]
        failures += errors[0] > bound.projected or errors[1] > bound.released
        stated.append(bound.projected / errors[0])
    assert failures <= 2
    assert np.median(stated) < 10  # and says something


@pytest.mark.parametrize("metric", ["margins", "covariance"])
@pytest.mark.parametrize("facts", ["total", "free", "known", "zeros"])
@pytest.mark.parametrize("asked", list(CROSSED))
def test_product_tables_are_the_nearest_in_their_own_metric_by_a_general_solver(tmp_path, asked, facts, metric):
    """The measured integers themselves and their noise, with no coordinates of ours: `Σ (y − (⊗R) m)²/σ²`."""
    domain = domain_of_three(impossible=IMPOSSIBLE if facts == "zeros" else ())
    release = release_of(tmp_path, "product", workload=CROSSED[asked](domain))
    assert (release.plan.strategies[0].spread.min() < 0) == (asked == "a negative spread")
    terms = {"total": 60, "free": "free", "known": None, "zeros": 60}[facts]
    known = {("sex", "work"): [[20, 5, 5], [10, 10, 10]]} if facts == "known" else None
    projected = rs.project(release, total=terms, known=known, metric=metric, tolerance=1e-11)
    assert (projected.metric, projected.bound is None) == (metric, False)
    tables, marginal, rules = three_tables(domain)
    for pair, table in tables.items() if facts == "zeros" else ():
        mask = impossible_cells(domain, [domain.names[i] for i in pair])
        rules += [] if mask is None else [cp.multiply(table, mask) == 0]
    if facts in ("total", "zeros"):
        rules.append(cp.sum(tables[0, 1]) == 60)
    if facts == "known":
        rules.append(tables[1, 2] == np.array([[20, 5, 5], [10, 10, 10]]))
    measurements, loss = release.measurements, 0
    for group in measurements.layout:
        for j, (number, members) in enumerate(zip(group.numbers, group.members.tolist(), strict=True)):
            at = int(np.searchsorted(measurements.measured, number))
            seen = marginal(tuple(members))
            for axis, i in enumerate(members):
                R = measurements.strategies[i].matrix / measurements.strategies[i].unit
                seen = R @ seen if axis == 0 else seen @ R.T
            y = group.view(release.noisy)[j] / measurements.units[at]
            for axis, i in enumerate(members):  # rows of a plain residual add up to zero, and so must what they saw
                y = y - y.mean(axis=axis, keepdims=True) if measurements.strategies[i].plain else y
            factor = {0: 4, 1: 256, 2: 1}[len(members)] if metric == "margins" else 1
            loss += factor * cp.sum_squares((seen - y) / np.sqrt(measurements.noise_variances[at]))
    cp.Problem(cp.Minimize(loss), rules).solve(solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11)
    for pair, table in tables.items():
        found = projected.estimates([domain.names[i] for i in pair])
        variance = float(release.plan.variance([domain.names[i] for i in pair]).max())
        near = 1e-4 + 2.0 * np.sqrt(projected.gap * variance)  # as near as the proven gap says
        np.testing.assert_allclose(found, table.value, atol=near)
        assert near < 0.02
        assert found.min() >= -1e-7


def test_pure_marginals_are_the_nearest_to_the_measured_tables_by_a_general_solver(tmp_path):
    """By precision: the pooled tables and the measured ones, each with its own noise, have the same nearest tables."""
    release = release_of(tmp_path, "pure marginals", workload=rs.marginals(domain_of_three(), ways=[1, 2, 3]))
    projected = rs.project(release, total=60, metric="covariance", shrink=False, tolerance=1e-10)
    measurements, numbers = release.measurements, np.arange(30).reshape(5, 2, 3)
    h, loss = cp.Variable(30, nonneg=True), 0
    for group in measurements.layout:
        for j, (number, members) in enumerate(zip(group.numbers, group.members.tolist(), strict=True)):
            rest = tuple(i for i in range(3) if i not in members)
            one_hot = np.eye(30)[numbers].sum(axis=rest).reshape(-1, 30)
            at = int(np.searchsorted(measurements.measured, number))
            y = group.view(release.noisy)[j].ravel() / measurements.grids[at]
            loss += float(release.plan.tables.cell_precisions[number]) * cp.sum_squares(one_hot @ h - y)
    cp.Problem(cp.Minimize(loss), [cp.sum(h) == 60]).solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10)
    np.testing.assert_allclose(projected.estimates(release.domain.names).ravel(), h.value, atol=2e-3)


@pytest.mark.parametrize("metric", ["covariance", "plain"])
def test_pure_releases_go_to_the_histogram_whose_answers_are_nearest(tmp_path, metric):
    release = release_of(tmp_path, "pure")
    projected = rs.project(release, total=60, metric=metric)
    plan, asked = release.plan, release.plan.workload
    W = asked.over(plan.attributes).toarray()
    h = cp.Variable(W.shape[1], nonneg=True)
    apart = W @ h - release.answers(asked).estimates
    if metric == "covariance":  # measurements have equal variances
        told = np.where(plan.columns >= 0, plan.strategy[:, plan.columns], 0)
        apart = (told @ h - release.noisy) / np.sqrt(plan.noise_variance)
    cp.Problem(cp.Minimize(cp.sum_squares(apart)), [cp.sum(h) == 60]).solve(
        solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10
    )
    np.testing.assert_allclose(projected.answers().estimates, W @ h.value, atol=2e-3)


@pytest.mark.parametrize("kind", TABLES)
def test_what_is_projected_are_the_estimates_of_the_release(tmp_path, kind):
    release = release_of(tmp_path, kind)
    problem = problem_of(release.plan, Terms(metric="plain"))
    tables = problem.unprojected(problem.observed(release))
    for members in SETS:
        names = [release.domain.names[i] for i in members]
        np.testing.assert_allclose(tables.marginal(members), release.estimates(names), atol=1e-7)


def test_the_noise_of_products_adds_up_to_what_the_bound_is_made_of(tmp_path):
    """Block by block, every measurement's noise is sent through: exact eigenvalues of the covariance of all queries."""
    release = release_of(tmp_path, "product")
    problem = problem_of(release.plan, Terms(metric="plain"))
    nothing = problem.unprojected(np.zeros(problem.layout.cells))
    columns = []
    for place in range(release.measurements.cells):
        tables = problem.unprojected(problem.simulated(nothing, One(place)))
        columns.append(queries_of(release.plan, tables))
    a = np.linalg.svd(np.array(columns), compute_uv=False) ** 2
    total, squares, largest = problem.noise_sums
    assert total == pytest.approx(a.sum(), rel=1e-9)
    assert total == pytest.approx(release.plan.variances(release.plan.workload).sum(), rel=1e-9)
    assert squares >= (a**2).sum() * (1 - 1e-9)
    assert largest >= a.max() * (1 - 1e-9)
    assert squares < 20 * (a**2).sum()
    assert largest < 5 * a.max()


@pytest.mark.parametrize("kind", ["pure", "pure marginals"])
def test_laplace_noise_is_simulated_with_the_variance_that_the_plan_states(tmp_path, kind):
    """The mean of 200 squared lengths is within six of its standard deviations: odds of 2e-9, if it were normal."""
    release = release_of(tmp_path, kind)
    problem = problem_of(release.plan, Terms())
    truth = rs.project(release, total=60).fit
    rng = np.random.default_rng(3)
    lengths = [problem.moved(problem.simulated(truth, rng), truth) for _ in range(200)]
    spread = np.std(lengths) / np.sqrt(len(lengths))
    assert abs(np.mean(lengths) - problem.noise_sums[0]) < 6 * spread
    assert spread < 0.15 * problem.noise_sums[0]


@pytest.mark.parametrize("kind", ["product", "pure", "pure marginals"])
def test_accuracy_is_a_bound_or_a_simulation_and_says_which(tmp_path, kind):
    projected = rs.project(release_of(tmp_path, kind), total=60)
    assert (projected.bound is None) == (kind != "product")
    assert ("No bound is given" in projected.statement) == (kind != "product")
    if projected.bound is not None:
        assert 0 <= projected.bound.projected <= projected.bound.released
        assert projected.bound.unit == "standard deviations, small tables weighing more"
    assert (projected.simulated is None) == (kind == "product")
    assert ("Simulated:" in projected.statement) == (kind != "product")
    error = projected.simulated_error(2)
    assert 0 <= error.projected < np.inf
    assert error.released > 0


@pytest.mark.parametrize("kind", ["dense", "pure"])
def test_a_histogram_does_not_answer_what_nothing_that_was_measured_tells(tmp_path, kind):
    """It has cells of which nothing was measured: their numbers would be anyone's guess, from 0 to infinity."""
    domain = domain_of_three()
    projected = rs.project(release_of(tmp_path, kind))
    untold = rs.queries(domain, ["age <= 1 and work = 'yes'"])
    for act in (
        lambda: projected.table(["age", "work"]),
        lambda: projected.estimates(["age"]),
        lambda: projected.answers(untold),
        lambda: projected.answers(untold, confidence=None),
        lambda: projected.table(["age"], queries={"age": "prefixes"}),
        lambda: projected.share(["work"]),
    ):
        with pytest.raises(rs.ResiduaError, match="does not tell all of these numbers"):
            act()
    assert np.isfinite(projected.answers(rs.queries(domain, ["age <= 1"]))["upper"]).all()
    assert (projected.answers()["upper"] < np.inf).all()
    public = rs.project(release_of(tmp_path, kind), total=100)
    assert public.table(["age", "work"])["upper"].max() <= 100, "a public total bounds every cell, and is said"


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("dense", "pure")])
def test_prefixes_ranges_and_levels_are_read_off_the_projected_tables(tmp_path, kind):
    domain = domain_of_three()
    release = release_of(tmp_path, kind)
    projected = rs.project(release)
    for asked in (rs.prefixes(domain, "age", by=["sex"]), rs.ranges(domain, "age", by=["work"])):
        written = asked.listed()
        found = projected.answers(asked)
        np.testing.assert_allclose(found.estimates, projected.answers(written).estimates, atol=1e-9)
        assert found.columns["query"][0] == next(asked.query_labels())
    table = projected.table(["sex", "age"], queries={"age": "prefixes"})
    np.testing.assert_allclose(table.estimates, projected.estimates(["sex", "age"]).cumsum(axis=1), atol=1e-9)
    assert table.columns["age"][:2] == ["<=0", "<=1"]
    assert table.columns["sex"][:2] == ["F", "F"]
    with pytest.raises(rs.ResiduaError, match="'work' is not among the table's attributes"):
        projected.table(["sex", "age"], queries={"work": "prefixes"})


def test_a_metric_that_there_is_not_is_refused(tmp_path):
    with pytest.raises(rs.ResiduaError, match="metric='other'"):
        rs.project(release_of(tmp_path, "product"), metric="other")


def test_tables_that_a_product_release_tells_too_little_about_are_left_out(tmp_path):
    domain = domain_of_three()
    halves = np.array([[1, 1, 0, 0, 0], [0, 0, 1, 1, 1]])
    asked = rs.product(domain, {"age": halves, "sex": "identity"}) + rs.marginals(domain, [("sex", "work")])
    release = release_of(tmp_path, "product", workload=asked)
    projected = rs.project(release, metric="covariance")
    assert projected.estimates(["sex", "work"]).min() >= 0
    with pytest.raises(rs.ResiduaError, match="does not answer the marginal"):
        projected.estimates(["age"])
    assert projected.left_out == ((0,), (0, 1))
    assert "('age'), ('age', 'sex')" in projected.statement
    assert rs.project(release_of(tmp_path, "product")).left_out == ()
    assert projected.bound is not None
    assert projected.simulated_error(1).released > 0
