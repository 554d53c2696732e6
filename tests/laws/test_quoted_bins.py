"""Numbers of values in bins: intervals hold wherever in its bin a value lies, or the output says what is assumed."""

import numpy as np
import pytest

import residua as rs
from residua.demo_data import demo_folder
from residua.errors import PlanError
from residua.quoting.distributions import extreme_placement
from tests.statistics.many_releases import ManyReleases, Truth

EDGES = [17, 25, 35, 45, 55, 65, 91]
README = {"sex": ["Female", "Male"], "income": ["<=50K", ">50K"]}
SURE = 1 - 1e-7  # of every interval below: a false alarm in fewer than one of a million runs
ADULT = {"mean": 38.58164675532078, "records": 32_561}


def planned(*edges: float) -> rs.Plan:
    domain = rs.Domain({"age": rs.Bins(list(edges)), **README})
    return rs.plan(rs.marginals(domain, ways=[1, 2]), rs.ZCDP(rho=0.5))


def measured(plan: rs.Plan, folder) -> rs.Release:
    return rs.measure(plan, demo_folder() / "adult.parquet", ledger=rs.Ledger(folder / "l", rs.ZCDP(rho=0.5)))


@pytest.fixture(scope="module")
def release(tmp_path_factory) -> rs.Release:
    return measured(planned(*EDGES), tmp_path_factory.mktemp("adult"))


@pytest.fixture(scope="module")
def ages():
    import pyarrow.parquet as pq

    table = pq.read_table(demo_folder() / "adult.parquet", columns=["age", "sex"])
    return table["age"].to_numpy().astype(float), table["sex"].to_numpy(zero_copy_only=False)


def gini_of(values) -> float:
    ranks = np.arange(1, len(values) + 1)
    return float((2 * ranks - len(values) - 1) @ np.sort(values) / len(values) / values.sum())


def test_intervals_of_the_readmes_ages_hold_the_true_numbers(release, ages):
    age, sex = ages
    assert age.mean() == pytest.approx(ADULT["mean"])
    means = {label: age[sex == label].mean() for label in README["sex"]}
    by_sex = release.mean("age", by=["sex"], confidence=SURE, simultaneous="table")
    standard = {"Female": 1, "Male": 3}
    held = {
        "mean": (release.mean("age", confidence=SURE), age.mean()),
        "mean of a public number": (release.mean("age", confidence=SURE, total=len(age)), age.mean()),
        "sum": (release.sum("age", confidence=SURE), age.sum()),
        "gini": (release.gini("age", confidence=SURE), gini_of(age)),
        "median": (release.median("age", confidence=SURE), np.median(age)),
        "difference": (release.difference("sex", of="age", confidence=SURE), means["Female"] - means["Male"]),
        "relative": (
            release.relative_difference("sex", "Male", "Female", of="age", confidence=SURE),
            means["Male"] / means["Female"] - 1,
        ),
        "standardised": (
            release.standardised("age", "sex", standard, confidence=SURE),
            (means["Female"] + 3 * means["Male"]) / 4,
        ),
        **{label: (by_sex.at(sex=label), mean) for label, mean in means.items()},
    }
    for what, (quoted, truth) in held.items():
        assert quoted.lower < truth < quoted.upper, what
        assert quoted.flagged().columns["quality"] != ["reliable"], what
    assert "wherever in them values lie" in release.mean("age").note


def test_the_interval_is_from_all_at_the_lower_edges_to_all_at_the_upper_ones(release):
    low, high = (release.mean("age", values=list(ends)) for ends in (EDGES[:-1], EDGES[1:]))
    mean = release.mean("age")
    assert (mean.lower, mean.upper) == pytest.approx((low.lower, high.upper), rel=1e-12)
    assert mean.stddev == pytest.approx(max(mean.estimate - low.estimate, high.estimate - mean.estimate), rel=1e-4)
    low, high = (release.sum("age", values=list(ends)) for ends in (EDGES[:-1], EDGES[1:]))
    assert (release.sum("age").lower, release.sum("age").upper) == pytest.approx((low.lower, high.upper), rel=1e-12)


def test_given_values_are_named_and_exact(release):
    given = release.mean("age", values=[21, 30, 40, 50, 60, 70])
    assert given.upper - given.lower < 0.1
    assert (
        "assumes the given values of age: [17, 25) = 21, [25, 35) = 30, [35, 45) = 40, [45, 55) = 50, …" in given.note
    )
    assert "wherever" not in given.note
    assert given.flagged().columns["quality"] == ["reliable"]
    some = release.mean("age", values={"[65, 91]": 70})
    assert "assumes the given values of age: [65, 91] = 70" in some.note
    assert "wherever" in some.note
    whole = release.mean("age")
    assert given.upper - given.lower < some.upper - some.lower < whole.upper - whole.lower
    assert "assumes the given values" in release.median("age", values={"[65, 91]": 70}).note


def test_a_bin_without_an_end_has_an_interval_without_one(tmp_path, ages):
    release = measured(planned(17, 25, 35, 45, 55, 65, np.inf), tmp_path)
    for quoted in (release.mean("age", confidence=SURE), release.sum("age", confidence=SURE)):
        assert np.isnan(quoted.estimate)
        assert quoted.stddev == quoted.upper == np.inf
        assert "a bin has no end" in quoted.note
        assert quoted.flagged().columns["quality"] == ["unreliable"]
    assert 17 < release.mean("age", confidence=SURE).lower < ADULT["mean"]
    assert (release.gini("age").lower, release.gini("age").upper) == (0.0, 1.0)
    apart = release.difference("sex", of="age")
    assert (apart.lower, apart.upper) == (-np.inf, np.inf)
    assert release.relative_difference("sex", "Female", "Male", of="age").upper == np.inf
    assert "a bin has no end" in planned(17, 65, np.inf).assuming(1000).mean("age").note
    known = release.mean("age", values={"[65, inf]": 70.0}, confidence=SURE)
    assert known.lower < ADULT["mean"] < known.upper < np.inf


def test_forecasts_reach_as_far_as_releases_and_say_what_they_assume():
    forecast = planned(*EDGES).assuming(20_000).mean("age")
    middles, widths = (np.array(EDGES[1:]) + EDGES[:-1]) / 2, np.diff(EDGES)
    assert forecast.estimate == pytest.approx(middles.mean())
    assert forecast.upper - forecast.lower > widths.mean()
    assert "before any data: 20,000 records are assumed, spread evenly" in forecast.note
    assert forecast.flagged().columns["quality"] == ["use with caution"]
    given = planned(*EDGES).assuming(5e4, {"sex": {"Female": 1, "Male": 3}}).share(["sex"])
    assert "50,000 records are assumed, spread evenly but for sex" in given.note


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_no_placement_has_a_gini_beyond_the_extreme_ones(seed, largest):
    rng = np.random.default_rng(seed)
    low, high = np.array([0.0, 3, 10, 12]), np.array([3.0, 10, 12, 40])
    x = rng.integers(0, 8, size=4) + (np.arange(4) == seed % 4)
    share = extreme_placement(x.astype(float), low, high, largest=largest)
    many = 1000 * x  # so that any share of a bin is a number of records
    ends = [
        np.repeat([b, a], [round(p * n), n - round(p * n)]) for a, b, p, n in zip(low, high, share, many, strict=True)
    ]
    extreme = gini_of(np.concatenate(ends))
    for pull in (0.05, 0.3, 1.0, 5.0):
        for _ in range(50):
            at = [rng.beta(pull, pull * rng.random() + 0.01, size=n) for n in x]
            values = np.concatenate([a + (b - a) * part for a, b, part in zip(low, high, at, strict=True)])
            if values.sum() > 0:
                other = gini_of(values)
                assert other <= extreme + 2e-3 if largest else other >= extreme - 1e-9


def test_means_of_bins_hold_however_small_the_counts():
    domain = rs.Domain({"pay": rs.Bins([-5, 0, 10, 30]), "sex": ["F", "M"]})
    plan = rs.plan(rs.marginals(domain, ways=[1, 2]), rs.ZCDP(0.5))
    x = np.array([[2, 0], [3, 1], [4, 1]])
    many = ManyReleases(plan, x, 4000)
    for end, values in (("lower", [-5.0, 0, 10]), ("upper", [0.0, 10, 30])):
        truth = values @ x / x.sum(axis=0)  # the least, or the most, that the mean may be
        quoted = many.mean("pay", by=["sex"])
        held = (quoted.lower <= truth + 1e-9) & (truth <= quoted.upper + 1e-9)
        # At most 2.5 % of the ends are missed; six standard errors of 4,000 releases are 1.5 %.
        assert (held.mean(axis=0) > 0.975 - 0.015).all(), end
        assert (quoted.lower <= quoted.upper).all()


def test_months_leave_days_open():
    domain = rs.Domain({"day": rs.Dates("2024-01-15", "2024-03-10", unit="month"), "sex": ["F", "M"]})
    plan = rs.plan(rs.marginals(domain, ways=[1, 2]), rs.ZCDP(0.5))
    columns = plan.assuming(1e9).mean("day", where={"sex": "F"}).columns
    assert columns["lower"][0] in ("2024-02-04", "2024-02-05")  # the mean of 15 January, 1 February and 1 March
    assert columns["upper"] == ["2024-02-22"]
    assert "first day" in plan.assuming(1e9).mean("day").note


def test_numbers_without_intervals_name_what_they_assume_and_need_a_value_of_endless_bins():
    domain = rs.Domain({"pay": rs.Bins([0, 10, 20])})
    assert "middle of their bins" in Truth(domain, np.array([1, 1])).mean("pay").note
    endless = Truth(rs.Domain({"pay": rs.Bins([0, 10, float("inf")]), "sex": ["F", "M"]}), np.ones((2, 2), dtype=int))
    for ask in (endless.mean, endless.sum, endless.gini, lambda of: endless.difference("sex", of=of)):
        with pytest.raises(PlanError, match="no midpoint"):
            ask("pay")
    with pytest.raises(PlanError, match="in the bin of others"):
        planned(*EDGES).assuming(100).gini("age", values={"[17, 25)": 30})


def test_a_quantile_in_the_first_bin_is_interpolated_too():
    true = Truth(rs.Domain({"pay": rs.Bins([0, 10, 20])}), np.array([10, 10]))
    assert true.quantile("pay", 0.25).estimate == pytest.approx(5.0)
