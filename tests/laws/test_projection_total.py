"""A projection is no worse than no data: totals are sensible, and tables that are noise become even ones."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import residua as rs
from residua.errors import PlanError
from residua.projection.total import _evidence, estimated_total
from residua.release import Release

SIZES = {"survived": 2, "class": 3, "sex": 2, "age": 9, "siblings": 7, "parents": 8, "fare": 10, "port": 4}
ROWS = 1304


def passengers():
    """A ship's passengers, as in the data that synthetic-data papers use: few records, attributes that matter."""
    random = np.random.default_rng(5)
    ship = random.choice(3, ROWS, p=[0.25, 0.21, 0.54])
    sex = (random.random(ROWS) < 0.64).astype(int)
    chance = np.where(sex == 0, np.array([0.95, 0.88, 0.5])[ship], np.array([0.35, 0.15, 0.15])[ship])
    return {
        "survived": (random.random(ROWS) < chance).astype(int),
        "class": ship,
        "sex": sex,
        "age": np.clip(random.normal(3.5 - 0.6 * ship, 1.5).round(), 0, 8).astype(int),
        "siblings": np.minimum(random.geometric(0.68, ROWS) - 1, 6),
        "parents": np.minimum(random.geometric(0.75, ROWS) - 1, 7),
        "fare": np.clip(random.normal(7 - 2.5 * ship, 1.2).round(), 0, 9).astype(int),
        "port": random.choice(4, ROWS, p=[0.69, 0.21, 0.09, 0.01]),
    }


DATA = passengers()
DOMAIN = rs.Domain.of_sizes(SIZES)


def true_table(names):
    table = np.zeros([SIZES[name] for name in names])
    np.add.at(table, tuple(DATA[name] for name in names), 1.0)
    return table


def releases(tmp_path, ways, epsilon, many):
    plan = rs.plan(rs.marginals(DOMAIN, ways=ways), rs.ApproxDP(epsilon, 1e-9))
    for number in range(many):
        yield rs.measure(
            plan,
            pa.table(DATA),
            ledger=rs.Ledger(tmp_path / f"{ways}-{number}-{len(list(tmp_path.iterdir()))}", plan.guarantee),
        )


def errors(projected, sets):
    """Mean L1 errors over N: of the projection, and of even tables with the same total."""
    found = []
    for names in sets:
        table, true = projected.estimates(names), true_table(names)
        even = np.full(true.shape, projected.count() / true.size)
        found.append([np.abs(one - true).sum() / ROWS for one in (table, even)])
    return np.mean(found, axis=0)


@pytest.mark.parametrize("total", [None, ROWS])
def test_three_way_projections_at_a_tiny_budget_are_no_worse_than_even_tables(tmp_path, total):
    """Without shrinking, 0.3 worse. The mean of six differences varies by 0.02: false alarms below one in a million."""
    sets = rs.marginals(DOMAIN, ways=3).sets[::4]
    found = [errors(rs.project(release, total=total, simulations=0), sets) for release in releases(tmp_path, 3, 0.1, 6)]
    mean, even = np.mean(found, axis=0)
    assert mean < even + 0.1


def test_without_shrinking_three_way_projections_at_a_tiny_budget_are_worse_than_even_tables(tmp_path):
    """So the law before has teeth. 0.2 worse, one release varies by 0.11: one false alarm in ten million."""
    sets = rs.marginals(DOMAIN, ways=3).sets[::4]
    worse = [
        errors(rs.project(release, total=ROWS, shrink=False, simulations=0), sets)
        for release in releases(tmp_path, 3, 0.1, 10)
    ]
    assert np.mean([one[0] for one in worse]) > worse[0][1]


def test_totals_are_positive_near_the_truth_on_average_and_do_not_run_away(tmp_path):
    """The released total is 1,304 ± 1,090; that of its projection was 26,407 once."""
    found = []
    for release in releases(tmp_path, 3, 0.1, 30):
        stddev = float(release.table(()).columns["stddev"][0])
        total, error = estimated_total(release)
        assert 0 < total < ROWS + 7 * stddev
        assert 0 < error < 1.5 * stddev
        found.append(total)
    # The mean of thirty has a standard deviation of about 150; a truncated normal lies 200 above the truth.
    assert 0.4 * ROWS < np.mean(found) < 2.0 * ROWS
    assert np.std(found) < stddev


def test_residuals_say_how_large_a_total_must_be():
    """A residual of length 1,000 cannot come from a total of 10, and may from 1,500; noise alone says nothing."""
    totals = np.array([10.0, 1_500.0])
    small, enough = _evidence(1_000.0**2, 5, 100.0**2, totals)
    assert enough > small + 30
    low, high = _evidence(4 * 100.0**2, 5, 100.0**2, np.array([1.0, 50.0]))
    assert abs(low - high) < 0.1


def test_shrinking_is_said_kept_and_refused_where_it_means_nothing(tmp_path):
    release = next(iter(releases(tmp_path, 2, 0.1, 1)))
    projected = rs.project(release, total=ROWS, shrink=True)
    assert projected.shrunk
    assert projected.bound is None
    assert projected.simulated is not None
    assert "shrunk" in projected.statement
    projected.save(tmp_path / "projected")
    again = rs.Projected.load(tmp_path / "projected")
    assert again.shrunk
    assert again.statement == projected.statement
    plain = rs.project(release, total=10 * ROWS, simulations=0)  # a clear total: as ever
    assert not plain.shrunk
    assert plain.bound is not None
    with pytest.raises(PlanError, match="shrink=1"):
        rs.project(release, shrink=1)  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="non-negative"):
        rs.project(release, shrink=True, nonnegative=False)


@pytest.mark.parametrize("noisy", [0, 1_000_000, -1_000_000])
def test_cells_of_which_nothing_was_measured_are_refused_not_made_up(noisy: int, tmp_path: Path) -> None:
    """Three queries, none of which counts a = 2 or 3: once, measurements of zero had 3e132 people there."""
    domain = rs.Domain({"a": rs.Integers(0, 3), "b": ["x", "y"]})
    asked = rs.queries(domain, ["a = 0 and b = 'x'", "a = 1", "b = 'y' and a < 2"])
    plan = rs.plan(asked, rs.ZCDP(0.5), form=rs.Matrix())
    release = Release(plan, plan.measurements, np.full(plan.measurements.cells, noisy))
    projected = rs.project(release, simulations=0)
    assert "does not tell all their cells: ('a', 'b')" in " ".join(projected.statement.split())
    own = release.answers()
    for answers in (projected.answers(), _saved(projected, tmp_path).answers()):
        assert np.abs(answers.estimates).max() <= np.abs(own.estimates).max() + 1e-6
        assert (answers["upper"] >= answers["lower"]).all()
    for names in (["a", "b"], ["a"], []):
        with pytest.raises(PlanError, match="the release it is made from must tell all its cells"):
            projected.table(names)
    with pytest.raises(PlanError, match=r"cells of which nothing was measured; project with total="):
        projected.answers(rs.queries(domain, ["a + 0 = 2"]))
    assert release.count("a = 1").lower == pytest.approx(own["lower"][1])
    assert rs.project(release, total=50, simulations=0).table(["a", "b"]).estimates.sum() == pytest.approx(50)


def _saved(projected: rs.Projected, folder: Path) -> rs.Projected:
    projected.save(folder / "projected")
    return rs.Projected.load(folder / "projected")
