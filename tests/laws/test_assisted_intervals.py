"""Narrower intervals hold every number as often as they say, whatever the tables that they were made for are like."""

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

import residua as rs
from residua.errors import PlanError
from residua.projection.assisted import ASSISTED, _shortest
from residua.release import Release
from tests.statistics.copies import tables_of

SPREADS = {
    "zeros": np.zeros(1000),
    "zeros and a few": np.r_[np.zeros(900), np.linspace(0, 8, 80), np.full(20, 100.0)],
    "large": np.full(50, 7.0),
    "one": np.array([3.3]),
    "two heaps": np.r_[np.full(10, 1.0), np.full(10, 6.0)],
}


@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.999])
def test_every_number_is_held_as_often_as_stated(spread: str, confidence: float) -> None:
    """By integration over all that could be released, so that nothing hangs on a draw."""
    y = np.arange(-9, 40, 0.005)
    lower, upper = _shortest(y, np.resize(SPREADS[spread], len(y)), float(ndtri((1 + confidence) / 2)))
    for x in np.r_[0.0, 0.01, 0.3, 1.0, 2.2, 3.9, 6.1, 8.0, 9.7, 9.99, 10.0, 10.01, 12.5, 25.0]:
        weights = np.exp(-0.5 * (y - x) ** 2) * 0.005 / np.sqrt(2 * np.pi)
        held = float(weights @ ((lower <= x) & (x <= upper)))
        assert held > confidence - 1e-3, (x, held)  # the grid of y
    assert (lower >= 0).all()
    assert (upper >= lower).all()


def test_zeros_in_a_table_of_zeros_have_nearly_the_least_width_that_any_method_has() -> None:
    y = np.arange(-8, 8, 0.005)
    weights = np.exp(-0.5 * y**2) * 0.005 / np.sqrt(2 * np.pi)
    lower, upper = _shortest(y, np.zeros(len(y)), 1.96)
    least = np.trapezoid(ndtr(1.645 - np.arange(0, 9, 0.001)), dx=0.001)  # ∫ P(y above x − 1.645 | 0) dx
    own = float(weights @ (np.maximum(y + 1.96, 0) - np.maximum(y - 1.96, 0)))
    mean = float(weights @ (upper - lower))
    assert least == pytest.approx(1.666, abs=0.002)
    assert least < mean < least + 0.15 < own == pytest.approx(1.96, abs=0.01)


@pytest.mark.parametrize("spread", ["zeros", "zeros and a few"])
def test_no_number_is_paid_for_by_others(spread: str) -> None:
    """In tables of zeros, numbers of every size have intervals at most a tenth wider than the release's, cut at 0."""
    y = np.arange(-9, 40, 0.005)
    lower, upper = _shortest(y, np.resize(SPREADS[spread], len(y)), 1.96)
    own = np.maximum(y + 1.96, 0) - np.maximum(y - 1.96, 0)
    for x in np.arange(0.0, 14.0, 0.5):
        weights = np.exp(-0.5 * (y - x) ** 2) * 0.005 / np.sqrt(2 * np.pi)
        assert weights @ (upper - lower) < 1.1 * (weights @ own), x


def test_a_number_has_no_say_in_its_own_regions() -> None:
    """Whatever it was projected to, the interval of what was released of it is the same."""
    rest = np.r_[np.zeros(20), 2.5, 7.0]
    ends = [_shortest(np.r_[1.3, rest], np.r_[own, rest], 1.96) for own in (0.0, 1.3, 9.0)]
    assert len({(float(lower[0]), float(upper[0])) for lower, upper in ends}) == 1


def test_projections_offer_them_and_say_so() -> None:
    domain = rs.Domain({"a": rs.Integers(0, 19), "b": rs.Integers(0, 9)})
    x = np.zeros((20, 10), dtype=np.int64)
    x[0], x[1:, 0] = 500, 3
    plan = rs.plan(rs.marginals(domain, ways=[1, 2]), rs.ZCDP(0.02))
    noise = plan.measurements.simulated(np.random.default_rng(3))
    true = np.zeros(plan.measurements.cells)
    start = tables_of(plan.measurements, x)
    for batch in plan.measurements.batches():
        own = plan.measurements.integers(batch, start.copy())
        plan.measurements.store(batch, own, true)
    release = Release(plan, plan.measurements, np.rint(true + noise).astype(np.int64))
    safe = rs.project(release, simulations=0)
    narrow = safe.narrower()
    one, other = safe.table(["a", "b"]), narrow.table(["a", "b"])
    assert np.array_equal(one["estimate"], other["estimate"])
    small = x.ravel() < 10
    assert (other["upper"] - other["lower"])[small].mean() < 0.95 * (one["upper"] - one["lower"])[small].mean()
    assert ASSISTED in other.note
    assert ASSISTED not in one.note
    assert ((other["lower"] <= other["estimate"]) & (other["estimate"] <= other["upper"])).all()
    together = narrow.answers()
    assert together["upper"][-200:] == pytest.approx(other["upper"])
    pure = rs.plan(rs.marginals(domain, ways=[1]), rs.PureDP(1.0))
    noisy = np.full(pure.measurements.cells, 900, dtype=np.int64)
    with pytest.raises(PlanError, match="each by itself"):
        narrow.tables(simultaneous="table").__next__()
    with pytest.raises(PlanError, match="normal noise"):
        rs.project(Release(pure, pure.measurements, noisy), simulations=0).narrower()
