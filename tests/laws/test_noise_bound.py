"""The float quantiles lie within their proven bound, checked in ball arithmetic on a million points a tail."""

import math

import numpy as np
import pytest
from flint import arb, ctx
from numpy.typing import NDArray

from residua.noise.samplers import LAPLACE, NORMAL
from residua.noise.table import FIRST_BINADE, Tail, _horner_error, table

TAILS = pytest.mark.parametrize("tail", [NORMAL, LAPLACE], ids=lambda tail: tail.name)
POINTS = 1_000_000


def adversarial() -> NDArray[np.uint64]:
    """Positions v where something switches: ends and centres of segments, roundings to float, p near 1/2."""
    found = set()
    for binade in range(FIRST_BINADE, 63):
        step = 1 << (binade - 6)
        ulp = max(1, 1 << max(0, binade - 53))
        for edge in range(1 << binade, (1 << (binade + 1)) + 1, step):
            for offset in (-2 * ulp, -ulp - 1, -ulp, -ulp // 2, -1, 0, 1, ulp // 2, ulp, ulp + 1, 2 * ulp):
                found.add(edge + offset)
    for p in (math.exp(-2), 1 - math.exp(-2), 0.02425, 0.25, 0.5 - 2**-30):  # where other codes switch
        centre = int(math.ldexp(min(p, 1 - p), 64))
        found.update(range(centre - 500, centre + 500))
    found.update(range((1 << 63) - 5000, 1 << 63))
    found.update(range(1 << FIRST_BINADE, (1 << FIRST_BINADE) + 5000))
    return np.array([v for v in found if 1 << FIRST_BINADE <= v < 1 << 63], dtype=np.uint64)


def positions() -> NDArray[np.uint64]:
    """A million positions: the adversarial ones, uniform ones, and as many in every binade of the tail."""
    rng = np.random.default_rng(20240229)
    chosen = adversarial()
    spread = (POINTS - chosen.size) // 2
    tails = 2.0 ** rng.uniform(FIRST_BINADE, 63, size=spread)
    uniform = rng.integers(1 << FIRST_BINADE, 1 << 63, size=POINTS - chosen.size - spread, dtype=np.uint64)
    return np.concatenate([chosen, np.minimum(tails.astype(np.uint64), np.uint64((1 << 63) - 1)), uniform])


@TAILS
def test_the_quantile_is_within_its_bound(tail: Tail) -> None:
    """T(ẑ + B) ≤ v/2⁶⁴ and (v + 1)/2⁶⁴ ≤ T(ẑ − B), certainly, at every point."""
    v = positions()
    assert v.size >= POINTS
    z, bound = table(tail).evaluate(v << np.uint64(1))
    wrong = 0
    with ctx.workprec(80):  # the bound is about 2⁻⁵⁰, the balls 2⁻⁷⁵
        unit = arb(2) ** 64
        for position, x, b in zip(v.tolist(), z.tolist(), bound.tolist(), strict=True):
            middle, radius = arb(x), arb(b)
            inside = unit * tail.survival(middle + radius) <= position
            wrong += not (inside and unit * tail.survival(middle - radius) >= position + 1)
    assert wrong == 0


@TAILS
def test_the_bound_is_tight_enough_to_be_fast(tail: Tail) -> None:
    rows = table(tail).rows
    assert rows.shape == (17 * 32, 11)
    assert np.all(rows[:, -1] < 2.0**-49 * (1 + rows[:, 1]))


@TAILS
def test_both_sign_bits_and_the_deep_tail(tail: Tail) -> None:
    """The lowest bit of a word does not touch the magnitude, and below the table nothing is claimed."""
    words = np.array([1 << 60, (1 << 60) + 1, 0, 1, (1 << 47) - 1, 1 << 47], dtype=np.uint64)
    z, bound = table(tail).evaluate(words)
    assert z[0] == z[1]
    assert np.all(np.isinf(bound[2:5]))
    assert np.isfinite(bound[5])


@TAILS
def test_derivatives_are_those_of_the_quantile(tail: Tail) -> None:
    """A Taylor polynomial of degree 40 about p reproduces the quantile at 1.05 p to a hundred bits."""
    with ctx.workprec(400):
        for p in (arb(0.4), arb(0.1), arb(2) ** -17):
            step = p / 20
            terms = tail.taylor(p, 40)
            value = sum((a * (-step) ** n for n, a in enumerate(terms)), arb(0))
            assert abs(value - tail.quantile(p + step)) < arb(2) ** -100
            assert abs(tail.survival(tail.quantile(p)) - p) < arb(2) ** -300


@TAILS
def test_the_kernel_evaluates_the_polynomial_of_the_proof(tail: Tail) -> None:
    """Within item 4 of the proof, at the left end of every segment, where each coefficient counts most."""
    rows = table(tail).rows
    for row, left in zip(rows, np.concatenate([_lefts(e) for e in range(FIRST_BINADE, 63)]), strict=True):
        centre, *A, _ = row.tolist()
        z, _ = table(tail).evaluate(np.array([left << np.uint64(1)]))
        with ctx.workprec(192):
            t = arb(int(left)) - arb(centre)
            exact = sum((arb(a) * t**n for n, a in enumerate(A)), arb(0))
            assert abs(arb(float(z[0])) - exact) <= _horner_error([arb(a) for a in A], abs(t), 0)


def _lefts(binade: int) -> NDArray[np.uint64]:
    return np.uint64(1 << binade) + np.arange(32, dtype=np.uint64) * np.uint64(1 << (binade - 5))
