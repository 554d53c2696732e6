"""Quoted numbers are those of the records, their errors those of dense algebra, their intervals what they say."""

import numpy as np
import pyarrow as pa
import pytest

import residua as rs
from residua.errors import PlanError, SessionError
from residua.plans.quotes import PlanAnswers, picked
from residua.quoting import Points, Term
from residua.quoting.intervals import Moments, fieller
from residua.quoting.terms import groups_of
from tests.statistics.many_releases import ManyReleases, Truth
from tests.statistics.quoted_cases import PLANS

DOMAIN = rs.Domain(
    {
        "age": rs.Integers(3, 9),
        "sex": ["F", "M"],
        "pay": rs.Bins([0, 10, 20, 50], ("low", "middle", "high")),
        "town": rs.Categories(["a", "b", "c"], unknown="other", levels={"side": {"west": ["a", "b"], "east": ["c"]}}),
    }
)
RNG = np.random.default_rng(7)
X = RNG.integers(0, 9, size=DOMAIN.sizes)
CODES = np.repeat(np.indices(X.shape).reshape(4, -1).T, X.ravel(), axis=0)  # the records
AGE, SEX, PAY, TOWN = (CODES[:, 0] + 3, CODES[:, 1], np.array([5.0, 15, 35])[CODES[:, 2]], CODES[:, 3])
TRUE = Truth(DOMAIN, X)


# ---- numbers


def test_numbers_without_noise_are_those_of_the_records():
    assert TRUE.mean("age", by=["sex"]).estimate == pytest.approx([AGE[s == SEX].mean() for s in (0, 1)])
    assert TRUE.mean("pay").estimate == pytest.approx(PAY.mean())
    assert TRUE.mean("pay", values={"high": 40}).estimate == pytest.approx(np.where(PAY == 35, 40, PAY).mean())
    assert TRUE.sum("age", by=["town"]).estimate == pytest.approx([AGE[t == TOWN].sum() for t in range(4)])
    assert TRUE.share(["sex"]).estimate == pytest.approx([(s == SEX).mean() for s in (0, 1)])
    assert TRUE.share(["sex"], by=["town"]).estimate[2] == pytest.approx([(SEX[TOWN == 2] == s).mean() for s in (0, 1)])
    assert TRUE.share({"sex": "M", "age": rs.between(5, 7)}, by={"town": "side"}).at(town="west").estimate == (
        pytest.approx(((SEX == 1) & (AGE >= 5) & (AGE <= 7))[TOWN < 2].mean())
    )
    assert TRUE.ratio({"sex": "F"}, {"sex": "M"}, where={"town": ["a", "c"]}).estimate == pytest.approx(
        ((SEX == 0) & np.isin(TOWN, [0, 2])).sum() / ((SEX == 1) & np.isin(TOWN, [0, 2])).sum()
    )
    means = [AGE[s == SEX].mean() for s in (0, 1)]
    assert TRUE.difference("sex", of="age").estimate == pytest.approx(means[0] - means[1])
    assert TRUE.difference("town", {"a": 1, "b": -0.5, "c": -0.5}).estimate == pytest.approx(
        (TOWN == 0).sum() - ((TOWN == 1).sum() + (TOWN == 2).sum()) / 2
    )
    assert TRUE.relative_difference("sex", "F", "M", of="age").estimate == pytest.approx(means[0] / means[1] - 1)
    rates = np.array([((SEX == 1) & (a == AGE)).sum() / (a == AGE).sum() for a in range(3, 10)])
    weights = np.arange(1.0, 8)
    assert TRUE.standardised({"sex": "M"}, "age", dict(zip(range(3, 10), weights, strict=True))).estimate == (
        pytest.approx(rates @ weights / weights.sum())
    )


@pytest.mark.parametrize("q", [0.01, 0.25, 0.5, 0.9, 0.99])
def test_quantiles_are_the_inverse_of_the_distribution_function(q):
    wanted = [np.quantile(AGE[s == SEX], q, method="inverted_cdf") for s in (0, 1)]
    assert TRUE.quantile("age", q, by=["sex"]).estimate.tolist() == wanted
    reversed_values = {label: -label for label in range(3, 10)}
    assert TRUE.quantile("age", q, values=reversed_values).estimate == np.quantile(-AGE, q, method="inverted_cdf")


def test_quantiles_of_bins_are_interpolated_between_edges_and_bounded_by_them():
    domain = rs.Domain({"pay": rs.Bins([0, 10, 20, float("inf")])})
    true = Truth(domain, np.array([10, 20, 10]))
    assert true.median("pay").estimate == pytest.approx(15.0)
    assert true.quantile("pay", 0.9).estimate == 20.0  # the last bin has no other end
    many = ManyReleases(rs.plan(rs.marginals(domain, ways=[0, 1]), rs.ZCDP(0.5)), np.array([10, 20, 10]), 50)
    found = many.quantile("pay", 0.9)
    assert set(found.upper) <= {20.0, np.inf}
    assert (found.lower >= 0).all()


def test_gini_is_the_mean_difference_over_twice_the_mean():
    for s in (0, 1):
        ages = AGE[s == SEX].astype(float)
        wanted = np.abs(ages[:, None] - ages[None, :]).mean() / 2 / ages.mean()
        assert TRUE.gini("age", by=["sex"]).estimate[s] == pytest.approx(wanted)


def test_dates_are_quoted_as_dates():
    domain = rs.Domain({"day": rs.Dates("2024-01-01", "2024-01-05")})
    true = Truth(domain, np.array([1, 1, 5, 1, 1]))
    assert true.median("day").columns["estimate"] == ["2024-01-03"]
    assert true.mean("day").columns["estimate"] == ["2024-01-03"]
    with pytest.raises(PlanError, match="sum of dates"):
        true.sum("day")


# ---- errors against dense algebra


def rows(n, size):
    return RNG.normal(size=(n, size))


@pytest.mark.parametrize("form", PLANS)
def test_covariances_place_by_place_are_those_of_all_queries(form):
    plan = PLANS[form]()
    domain = plan.domain
    n = domain.sizes
    first = Term(domain, {0: rows(3, n[0]), 1: np.eye(2), 2: None})
    second = Term(domain, {0: rows(3, n[0]), 1: np.eye(2), 2: rows(1, n[2])})
    whole = plan.covariance(first.workload, second.workload).reshape(3, 2, 3, 2)
    matched = np.einsum("abab->ab", whole)[..., None]
    np.testing.assert_allclose(plan._paired(first, second, ()), matched, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(picked(whole.reshape(6, 6), first, second, ()), matched, rtol=1e-9)
    crossed = np.einsum("abcb->bac", whole)[:, None]
    np.testing.assert_allclose(plan._paired(first, second, (0,)), crossed, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(picked(whole.reshape(6, 6), first, second, (0,)), crossed, rtol=1e-9)
    both = whole.transpose(1, 0, 3, 2).reshape(1, 6, 6)
    np.testing.assert_allclose(plan._paired(first, second, (1, 0)), both, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(picked(whole.reshape(6, 6), first, second, (1, 0)), both, rtol=1e-9)
    one = Term(domain, {**first.rows, 0: first.rows[0][:1]})  # one row stands for all
    np.testing.assert_allclose(
        plan._paired(one, second, ())[..., 0], np.einsum("bab->ab", whole[0]), rtol=1e-7, atol=1e-9
    )


@pytest.mark.parametrize("form", ["Laplace tables", "Laplace matrix"])
def test_widths_that_stand_for_others_or_are_interpolated_are_theirs(form):
    plan = PLANS[form]()
    measurements = plan.compile()
    noise = PlanAnswers(plan, plan.estimator(measurements, np.zeros(measurements.cells, dtype=np.int64)))
    groups = groups_of(plan.domain, ["age"])
    first = groups.term({1: np.array([[1.0, 0.0]])})
    second = groups.term({1: None})
    factors = np.linspace(-2, 3, 10 * 20).reshape(20, 10, 1)
    quick = noise.widths(first, second, factors, 0.95, 1.0)
    slow = noise._each(first, second, factors, 0.95, 1.0)
    np.testing.assert_allclose(quick, slow, rtol=5e-3)  # over a range far wider than groups have
    alone = noise.widths(first, None, np.zeros(()), 0.99, 1.0)
    np.testing.assert_allclose(alone, noise._each(first, None, np.zeros(()), 0.99, 1.0), rtol=1e-6)
    assert np.ptp(slow) > 0.01  # it does depend on the factor


def test_a_public_total_improves_shares_as_dense_least_squares_does():
    plan = PLANS["marginals"]()
    counts = np.array([[5, 3], [2, 1]])[None] * np.ones((10, 1, 1), dtype=int)
    many = ManyReleases(plan, counts, 3)
    found = many.share(["sex"], total=float(counts.sum()))
    cov = plan.covariance(["sex"])
    estimates = many.tables.sum(axis=(1, 3))
    slope = cov.sum(axis=0) / cov.sum()
    wanted = (estimates - slope * (estimates.sum(axis=1, keepdims=True) - counts.sum())) / counts.sum()
    np.testing.assert_allclose(found.estimate, wanted, rtol=1e-9)
    np.testing.assert_allclose(
        found.stddev[0] ** 2, (np.diag(cov) - slope**2 * cov.sum()) / counts.sum() ** 2, rtol=1e-6
    )
    np.testing.assert_allclose(found.estimate.sum(axis=1), 1.0)
    # Beside the share of an estimated total, each times its own total: that one's is a matter of the draw.
    alone = many.share(["sex"]).stddev * estimates.sum(axis=1, keepdims=True)
    assert (found.stddev * counts.sum() <= alone * (1 + 1e-9)).all()


# ---- Fieller


@pytest.mark.parametrize("bounds", [(-np.inf, np.inf), (0.0, 1.0), (0.0, np.inf)])
def test_fieller_is_the_smallest_interval_that_holds_what_is_not_contradicted(bounds):
    rng = np.random.default_rng(3)
    a, b = rng.normal(scale=4, size=(2, 120))
    L = rng.normal(size=(120, 2, 2))
    V = L @ np.swapaxes(L, 1, 2)
    moments = Moments(a, b, V[:, 0, 0], V[:, 0, 1], V[:, 1, 1])
    lower, upper, unbounded = fieller(moments, 1.96, 1.96, *bounds)
    r = np.sort(np.concatenate([np.tan(np.linspace(-1.5706, 1.5706, 8_001)), np.linspace(0, 1, 4_001)]))
    r = r[(r >= bounds[0]) & (r <= bounds[1])]
    fits = np.abs(a[:, None] - r * b[:, None]) <= 1.96 * np.sqrt(moments.spread(r[None, :].T).T)
    for i in np.flatnonzero(fits.any(axis=1)):
        inside = r[fits[i]]
        for end, found in ((inside.min(), lower[i]), (inside.max(), upper[i])):
            near = np.arctan(found) - np.arctan(end)
            assert abs(near) < 2e-3, (i, found, end)
    assert unbounded.any()
    assert not unbounded.all()


# ---- forecasts, sessions, projections


def test_a_plan_forecasts_what_a_release_would_say():
    plan = PLANS["products"]()
    joint = RNG.random((10, 2))
    forecast = plan.assuming(5000, {("age", "sex"): joint, "paid": {"no": 1, "yes": 3}}).mean("age", by=["sex"])
    x = 5000 * (joint / joint.sum())[:, :, None] * np.array([0.25, 0.75])
    truth = Truth(plan.domain, x)
    np.testing.assert_allclose(forecast.estimate, truth.mean("age", by=["sex"]).estimate)
    many = ManyReleases(plan, np.rint(x).astype(int), 4000).mean("age", by=["sex"])
    np.testing.assert_allclose(forecast.stddev, many.stddev.mean(axis=0), rtol=0.01)
    np.testing.assert_allclose(many.estimate.std(axis=0), forecast.stddev, rtol=0.07)  # 6 standard errors
    even = plan.assuming(100).share(["paid"])
    assert even.estimate.tolist() == [0.5, 0.5]
    pure = PLANS["Laplace tables"]().assuming(1000).mean("age")
    assert pure.lower < 4.5 < pure.upper
    with pytest.raises(PlanError, match="a plan has no data"):
        plan.mean("age")


@pytest.fixture
def data():
    labels = {name: DOMAIN[name].labels for name in DOMAIN}
    columns = {name: [labels[name][code] for code in CODES[:, i]] for i, name in enumerate(DOMAIN)}
    columns["pay"] = PAY.tolist()
    return pa.table(columns)


@pytest.fixture
def release(tmp_path, data):
    plan = rs.plan(rs.marginals(DOMAIN, ways=[1, 2]), rs.ZCDP(rho=0.5))
    return rs.measure(plan, data, ledger=rs.Ledger(tmp_path / "l", rs.ZCDP(rho=0.5)))


def test_releases_pools_sessions_and_files_say_the_same(tmp_path, data, release):
    found = release.mean("age", by=["sex"])
    assert abs(found.estimate - TRUE.mean("age", by=["sex"]).estimate).max() < 8 * found.stddev.max()
    release.save(tmp_path / "out")
    assert rs.Release.load(tmp_path / "out").mean("age", by=["sex"]).lower.tolist() == found.lower.tolist()
    again = rs.measure(release.planned, data, ledger=rs.Ledger(tmp_path / "two", rs.ZCDP(rho=0.5)))
    both = rs.pooled([release, again], same_people=True).mean("age", by=["sex"])
    np.testing.assert_allclose(both.stddev * np.sqrt(2), found.stddev, rtol=0.05)
    session = rs.Session(data, rs.ZCDP(rho=0.5), ledger=tmp_path / "three")
    with pytest.raises(SessionError, match="nothing was released yet"):
        session.mean("age")
    session.release(release.planned)
    assert session.median("age").estimate == session.known.median("age").estimate


def test_projections_and_models_quote_numbers_without_intervals(release):
    projected = rs.project(release)
    found = projected.mean("age", by=["sex"])
    tables = projected.estimates(["sex", "age"])
    np.testing.assert_allclose(found.estimate, tables @ np.arange(3, 10) / tables.sum(axis=1))
    assert list(found.columns) == ["sex", "estimate"]
    assert np.isnan(found.lower).all()
    assert "biased" in found.note
    with pytest.raises(PlanError, match="no intervals"):
        projected.mean("age", confidence=0.9)
    with pytest.raises(PlanError, match="no standard deviation"):
        found.flagged()
    model = Points(DOMAIN, projected.estimates, "of a model")
    from residua.quoting.question import Question
    from residua.quoting.ratios import top

    assert top(Question(model), ["town"], 2).columns["estimate"][0] == projected.estimates(["town"]).max()


def test_tables_that_count_some_records_of_each_person_say_so_when_quoted():
    domain = rs.Domain.of_sizes({"a": 3})
    plan = rs.plan(rs.marginals(domain, ways=[0, 1]), rs.ZCDP(rho=0.5), unit=rs.Person(records=2))
    assert "at most 2 records of each person" in plan.assuming(50).share(["a"]).note


def test_a_plan_with_a_bias_quotes_numbers_without_intervals():
    domain = rs.Domain({"a": rs.Integers(0, 7)})
    plan = rs.plan(rs.prefixes(domain, "a"), rs.ZCDP(rho=0.5), form=rs.Matrix(bias=0.1))
    assert plan.bias > 0
    measurements = plan.compile()
    release = rs.Release(plan, measurements, np.zeros(measurements.cells, dtype=np.int64))
    found = release.share({"a": 0})
    assert list(found.columns) == ["estimate"]
    assert "biased" in found.note


def test_combinations_by_label_are_those_by_position(release):
    by_label = release.combination({("sex", "town"): {("F", "b"): 1, ("M", "c"): -2}, ("sex",): {"M": 3}})
    array = np.zeros((2, 4))
    array[0, 1], array[1, 2] = 1, -2
    assert by_label == release.combination({("sex", "town"): array, ("sex",): [0, 3]})
    for wrong, words in (
        ({("sex",): {"X": 1}}, "there are 'F', 'M'"),
        ({("sex",): {"F": "1"}}, "not a finite number"),
        ({("sex", "town"): {"F": 1}}, "not a label for each"),
    ):
        with pytest.raises(PlanError, match=words):
            release.combination(wrong)


# ---- tables


def test_quoted_numbers_are_tidy(release):
    found = release.share(["sex"], by=["town"])
    assert list(found.columns) == ["town", "sex", "estimate", "stddev", "lower", "upper"]
    assert len(found) == 8
    assert found.to_pandas().shape == (8, 6)
    assert found.to_csv().splitlines()[0] == '"town","sex","estimate","stddev","lower","upper"'
    assert found.at(town="a", sex="M").estimate == found.estimate[0, 1]
    assert isinstance(release.mean("age").estimate, float)
    wide, narrow = (release.share(["sex"], by=["town"], simultaneous=how) for how in ("table", None))
    assert (wide.upper >= narrow.upper).all()
    assert "all together" in wide.note


def test_flags_and_suppression(release):
    table = release.table(["town", "sex"])
    flagged = table.flagged(thresholds=(0.01, 0.05))
    variation = table.columns["stddev"] / np.abs(table.columns["estimate"])
    wanted = np.where(variation > 0.05, "unreliable", np.where(variation > 0.01, "use with caution", "reliable"))
    assert flagged.columns["quality"] == wanted.tolist()
    blank = table.flagged((0.01, 0.05), suppress="use with caution")
    hidden = wanted != "reliable"
    assert np.isnan(blank.columns["estimate"]).tolist() == hidden.tolist()
    assert np.isnan(blank.columns["upper"]).tolist() == hidden.tolist()
    assert blank.columns["town"] == table.columns["town"]
    assert len(table.flagged((0.01, 0.05), suppress="use with caution", omit=True)) == (~hidden).sum()
    assert release.mean("age").flagged().columns["quality"] == ["reliable"]
    for thresholds in ((0.3, 0.1), (0.1,), "ab", (0, 1)):
        with pytest.raises(PlanError, match="thresholds"):
            table.flagged(thresholds)
    with pytest.raises(PlanError, match="suppress"):
        table.flagged(suppress="reliable")


def test_lists_of_the_largest(release):
    found = release.top(["town", "sex"], 3)
    assert list(found.columns)[:3] == ["rank", "town", "sex"]
    estimates = found.columns["estimate"]
    assert (np.diff(estimates) <= 0).all()
    assert estimates[0] == release.estimates(["town", "sex"]).max()
    assert all(
        low <= rank <= high
        for low, rank, high in zip(*(found.columns[c] for c in ("rank_lower", "rank", "rank_upper")), strict=True)
    )
    assert all(0 <= p <= 1 for p in found.columns["in_top"])


# ---- mistakes


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda r: r.mean("agee"), "did you mean 'age'"),
        (lambda r: r.mean("sex"), "values of 'sex' are not numbers"),
        (lambda r: r.mean("age", by=3), "by=3 is not a list of attributes"),
        (lambda r: r.mean("age", by=["age"]), "in by or where already"),
        (lambda r: r.mean("age", by=["sex", "town"]), "does not answer .*asked for were: age; sex"),
        (lambda r: r.mean("age", by={"town": "sides"}), "no level 'sides'"),
        (lambda r: r.mean("age", where={"town": "aa"}), "did you mean 'a'"),
        (lambda r: r.mean("age", where="sex = 'F'"), "not a dictionary"),
        (lambda r: r.mean("age", confidence=95), "confidence=95"),
        (lambda r: r.mean("age", simultaneous="all"), "simultaneous='all'"),
        (lambda r: r.mean("age", values={"3": 1}), "is not a value of 'age'"),
        (lambda r: r.mean("age", values=[1, 2]), "not a number per value"),
        (lambda r: r.mean("age", total=0), "not a positive number"),
        (lambda r: r.mean("age", by=["sex"], total=100), "for groups give"),
        (lambda r: r.mean("age", by=["sex"], total={"F": 100}), "for each value of 'sex'"),
        (lambda r: r.sum("town"), "values of 'town' are not numbers"),
        (lambda r: r.quantile("age", 1.5), "not a share between 0 and 1"),
        (lambda r: r.quantile("age", []), "not a share between 0 and 1"),
        (lambda r: r.share([]), "of is empty"),
        (lambda r: r.share({"sex": "X"}), "there are 'F', 'M'"),
        (lambda r: r.ratio({"sex": "F"}, {"sex": "M"}, by=["sex"]), "name each attribute once"),
        (lambda r: r.difference("town"), "not a number per label"),
        (lambda r: r.difference("town", {"a": 1, "z": -1}), "is not a value of 'town'; there are 'a', 'b'"),
        (lambda r: r.difference("town", {"a": 0}), "all coefficients are 0"),
        (lambda r: r.difference("town", {"a": float("nan")}), "not a finite number"),
        (lambda r: r.difference("sex", of="sex"), "what is compared"),
        (lambda r: r.relative_difference("sex", "F", "F"), "name two labels"),
        (lambda r: r.standardised({"sex": "F"}, "age", {3: -1, 4: 2}), "must not be negative"),
        (lambda r: r.gini("age", values=[-1, 0, 1, 2, 3, 4, 5]), "not all positive"),
        (lambda r: r.top(["town"], 0), "k=0"),
        (lambda r: r.top([], 3), "name attributes"),
    ],
)
def test_mistakes_are_answered_with_the_remedy(release, ask, words):
    with pytest.raises(PlanError, match=words):
        ask(release)


def test_an_endless_bin_needs_a_value():
    domain = rs.Domain({"pay": rs.Bins([0, 10, float("inf")])})
    true = Truth(domain, np.array([1, 1]))
    with pytest.raises(PlanError, match="no midpoint"):
        true.mean("pay")
    assert true.mean("pay", values={"[10, inf]": 25}).estimate == 15.0


def test_a_column_that_an_attribute_takes_is_refused():
    domain = rs.Domain({"rank": ["a", "b"], "v": ["x", "y"]})
    true = Truth(domain, np.ones((2, 2), dtype=int))
    with pytest.raises(PlanError, match="rename the attribute"):
        true.top(["rank"])
