"""Draws from the operating system's entropy follow the exact distribution.

Every test rejects a right sampler with probability at most one in a million (`ALARM`); where a test makes several
comparisons they share it. Bins are fixed by the distribution before a draw is made, and each expects at least 25.
"""

from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from flint import arb
from numpy.typing import NDArray
from scipy import stats

from residua.noise import rounded_laplace, rounded_normal
from residua.noise.samplers import LAPLACE, NORMAL
from residua.noise.table import Tail
from tests.exact_noise import rounded_laplace_pmf, rounded_normal_pmf

ALARM = 1e-6
DRAWS = 2_000_000
LEAST = 100  # expected draws in a bin: more than 25, so that chi-square is good as far out as ALARM

Sampler = Callable[..., NDArray[np.int64]]
BOTH = pytest.mark.parametrize(
    ("sampler", "tail"), [(rounded_normal, NORMAL), (rounded_laplace, LAPLACE)], ids=["normal", "Laplace"]
)
LARGE = pytest.mark.parametrize("scale", [1000, 10**6, 2**32 / 3])


def chi_square(counts: NDArray[np.int64], probabilities: NDArray[np.float64]) -> None:
    expected = probabilities * counts.sum()
    assert abs(probabilities.sum() - 1) < 1e-9
    assert expected.min() >= LEAST
    statistic = float(np.sum((counts - expected) ** 2 / expected))
    assert statistic < stats.chi2.isf(ALARM, counts.size - 1)


def upper(tail: Tail, scale: Fraction, k: int) -> float:
    """Return P(draw ≥ k) for k ≥ 1."""
    return float(tail.survival(arb((2 * k - 1) * scale.denominator) / (2 * scale.numerator)))


@pytest.mark.parametrize("scale", [0.5, 0.7, 1.0, 3.3], ids=str)
@pytest.mark.parametrize(
    ("sampler", "pmf"),
    [(rounded_normal, rounded_normal_pmf), (rounded_laplace, rounded_laplace_pmf)],
    ids=["normal", "Laplace"],
)
def test_small_scales_follow_the_exact_pmf(sampler: Sampler, pmf: Callable[..., arb], scale: float) -> None:
    last = 0
    while DRAWS * float(pmf(scale, last + 1)) >= LEAST:
        last += 1
    inner = np.array([float(pmf(scale, k)) for k in range(-last + 1, last)])
    outer = (1 - inner.sum()) / 2
    draws = np.clip(sampler(scale, DRAWS), -last, last)
    chi_square(np.bincount(draws + last, minlength=2 * last + 1), np.concatenate([[outer], inner, [outer]]))


@BOTH
@LARGE
def test_large_scales_follow_the_exact_distribution(sampler: Sampler, tail: Tail, scale: float) -> None:
    """In 241 bins: edges 0.025 s apart from −3 s to 3 s, and the two tails."""
    s = Fraction(scale)
    edges = [int(s * i / 40) for i in range(1, 121)]
    above = np.array([upper(tail, s, k) for k in edges])
    side = np.concatenate([[0.5 - above[0]], above[:-1] - above[1:], [above[-1]]])
    probabilities = np.concatenate([side[:0:-1], [2 * side[0]], side[1:]])
    draws = sampler(scale, DRAWS)
    places = np.where(
        draws < 0,
        len(edges) - np.searchsorted(edges, -draws, side="right"),
        len(edges) + np.searchsorted(edges, draws, side="right"),
    )
    chi_square(np.bincount(places, minlength=probabilities.size), probabilities)


@BOTH
@LARGE
def test_moments(sampler: Sampler, tail: Tail, scale: float) -> None:
    """Mean, variance and fourth moment; rounding changes them by less than s⁻², far below the sampling error."""
    moments = {2: 1, 4: 3, 8: 105} if tail is NORMAL else {2: 2, 4: 24, 8: 40320}
    x = sampler(scale, DRAWS) / float(scale)
    limit = stats.norm.isf(ALARM / 6)
    for order, mean, square in ((1, 0, moments[2]), (2, moments[2], moments[4]), (4, moments[4], moments[8])):
        stddev = np.sqrt((square - mean**2) / DRAWS)
        # The mean of fourth powers is skewed: three quarters more room than a normal law needs.
        room = limit * stddev * (1 if order < 4 else 1.75)
        assert abs(np.mean(x**order) - mean) < room


@BOTH
@LARGE
def test_tails(sampler: Sampler, tail: Tail, scale: float) -> None:
    """The number of draws beyond each of four thresholds, against its binomial law."""
    draws, s = np.abs(sampler(scale, DRAWS)), Fraction(scale)
    for multiple in (2, 3, 4, 5):
        k = int(multiple * s)
        law = stats.binom(DRAWS, 2 * upper(tail, s, k))
        assert law.ppf(ALARM / 8) <= np.count_nonzero(draws >= k) <= law.isf(ALARM / 8)


@BOTH
def test_low_digits_are_uniform(sampler: Sampler, tail: Tail) -> None:
    """At s = 2³⁰ a draw modulo 64 is uniform to within 1e-9: no grid of floats shows through."""
    counts = np.bincount(sampler(2**30, DRAWS) & 63, minlength=64)
    chi_square(counts, np.full(64, 1 / 64))


@BOTH
def test_signs_are_symmetric(sampler: Sampler, tail: Tail) -> None:
    for scale in (0.5, 10**6):
        draws = sampler(scale, DRAWS)
        draws = draws[draws != 0]
        law = stats.binom(draws.size, 0.5)
        assert law.ppf(ALARM / 4) <= np.count_nonzero(draws > 0) <= law.isf(ALARM / 4)


def octiles(draws: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the eighth of its own sample in which each draw lies."""
    ranks = np.empty(draws.size, dtype=np.int64)
    ranks[np.argsort(draws, kind="stable")] = np.arange(draws.size)
    return ranks * 8 // draws.size


def independent(first: NDArray[np.int64], second: NDArray[np.int64], alarm: float) -> None:
    table = np.bincount(octiles(first) * 8 + octiles(second), minlength=64)
    expected = first.size / 64
    assert expected >= LEAST
    assert np.sum((table - expected) ** 2 / expected) < stats.chi2.isf(alarm, 49)


@BOTH
def test_consecutive_draws_are_independent(sampler: Sampler, tail: Tail) -> None:
    """At lags 1, 2 and 2¹⁵ (a block), disjoint pairs."""
    draws = sampler(10**6, DRAWS)
    for lag in (1, 2, 1 << 15):
        pairs = draws[: draws.size // (2 * lag) * 2 * lag].reshape(-1, 2, lag)
        independent(pairs[:, 0].ravel(), pairs[:, 1].ravel(), ALARM / 3)


@BOTH
def test_rows_are_independent(sampler: Sampler, tail: Tail) -> None:
    """Neighbouring tables of a batch, and each is as wide as its own scale says."""
    scales = [1000.0, 50000.0, 123456.0, 1000.0, 2.0**35]
    rows = sampler(np.array(scales), (5, 200_000))
    for first, second in pairwise(rows):
        independent(first, second, ALARM / 8)
    for scale, row in zip(scales, rows, strict=True):
        k = int(scale)
        law = stats.binom(row.size, 2 * upper(tail, Fraction(scale), k))
        assert law.ppf(ALARM / 20) <= np.count_nonzero(np.abs(row) >= k) <= law.isf(ALARM / 20)


@BOTH
def test_two_calls_differ(sampler: Sampler, tail: Tail) -> None:
    """Two equal draws of a hundred have probability below 10⁻⁵⁰⁰."""
    assert not np.array_equal(sampler(10**6, 100), sampler(10**6, 100))
