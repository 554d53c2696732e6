"""Quantiles in floating point with a proven error bound, from a table of Taylor polynomials.

A 64-bit word w is read as a sign (its lowest bit) and the upper 63 bits v, the beginning of the binary
expansion of a tail probability `p = ξ / 2⁶⁴` with ξ in [v, v + 1]; the bits of ξ after the point have not
been drawn yet. For `g(ξ) = f(ξ / 2⁶⁴)`, f the quantile of the tail, `QuantileTable.evaluate` returns floats ẑ and B
such that for every scale s in [1/2, 2⁴⁰] with nearest float ŝ, every such ξ, and `y = fl(ŝ ẑ)`,

    |y − rint(y)| < fl(1/2 − fl(ŝ B))   implies   s·g(ξ) and y round to the same integer.          (*)

**Proof of the bound.** Let u = 2⁻⁵³, the unit roundoff of binary64 (rounding to nearest), and x = fl(v). The
floats of a binade [2ᵉ, 2ᵉ⁺¹] are cut into 32 segments [L, L + 2h] with h = 2ᵉ⁻⁶ and centre c. On a segment:

1. *Unknown bits.* |ξ − x| ≤ w = 1 + 2ᵉ⁻⁵³, so |g(ξ) − g(x)| ≤ w |g′(L − w)|: |g′| decreases.
2. *Truncation.* The Taylor polynomial of degree 8 at c errs by at most h⁹ |g⁽⁹⁾(L − w)| / 9! (Lagrange; |g⁽⁹⁾|
   decreases too; h is taken w larger, here and below).
3. *Coefficients.* They are rounded to floats A₀ … A₈; the differences are measured in balls, Σ |aₙ − Aₙ| hⁿ.
4. *Evaluation.* t = x − c is exact (both are multiples of 2ᵉ⁻⁵² and |t| ≤ h). Horner's rule, from q₈ = A₈
   down to q₀ = ẑ, errs by at most eᵢ = h eᵢ₊₁ + 3u h Q + u (1 + u) |Aᵢ|, where Q ≥ |qᵢ₊₁| as
   computed. A fused multiply-add only makes this smaller. Nothing underflows: t is 0 or at least 2⁻⁶, and
   |Aₙ| > 2⁻⁶⁰⁰.
5. *Scale.* |ŝ − s| ≤ uŝ and |y − ŝẑ| ≤ uŝ|ẑ|, so |y − s g(ξ)| ≤ ŝ (E + 2uZ) with E the sum of 1 to 4 and Z a
   bound on both |ẑ| and g(ξ).
6. *Comparison.* y − rint(y) is exact. fl(ŝB) ≥ (1 − u) ŝB and the subtraction errs by at most u/2 ≤ uŝ. So
   B = (1 + 4u)(E + 2uZ) + u, rounded upwards, gives (*).

Items 1 to 6 are added up in ball arithmetic for every segment when the table is made: the bound is computed,
not guessed. It is below 2⁻⁴⁹ (1 + ẑ) everywhere. Below v = 2⁴⁶ (one draw in 131,072) the table ends and B is
infinite. No mathematical library takes part, so nothing rests on the accuracy of somebody's `log` or `ndtri`.

**In pairs of floats, for twice as many random bits.**
A normal whose first word left a rounding open gets a second one, which continues its tail probability: `p = ξ / 2⁶⁴`
with ξ in `v + [w, w + 1] / 2⁶⁴`. `LongTable.evaluate` returns a pair ẑ and B with |ẑ − g(ξ)| ≤ B for every such ξ.

**Proof of the bound.** As above, with the segments [L, L + 2h] of a binade [2ᵉ, 2ᵉ⁺¹] and centres c:

1. *Position.* x = fl(v), and `x + l` with `l = fl((v − x) + fl(w)/2⁶⁴)` is within `W = 2⁻⁵² + 2ᵉ⁻¹⁰⁵` of every ξ; so
   |g(ξ) − g(x + l)| ≤ W |g′(M)|, where M = L − 2 − 2ᵉ⁻⁵² is left of both.
2. *Truncation.* `t = x − c` is exact, |t + l| ≤ H = h + 2 + 2ᵉ⁻⁵²; Taylor's polynomial of degree 17 errs by at most
   H¹⁸ |g⁽¹⁸⁾(M)| / 18!. (Rounding may put x + l right of 2⁶³, where |g⁽ⁿ⁾| is what it is as far to the left.)
3. *Coefficients.* A₀ … A₈ are pairs, A₉ … A₁₇ floats; the differences are measured in balls, Σ |aₙ − Aₙ| Hⁿ.
4. *Evaluation.* Horner's rule in floats down to A₉, with t + l rounded: each step errs by at most
   H eᵢ₊₁ + 3u H Q + u |Aᵢ|; then in pairs, each by H eᵢ₊₁ + 2⁻⁹⁹ (|Aᵢ| + H Q) (`kernels.py`). |t + l| is less than
   H (1 − 2⁻⁴⁷), which covers u². All that in units of 2⁴⁸, so that nothing underflows: |Aₙ| > 2⁻³⁰⁰.

Their sum is computed in ball arithmetic for every segment when the table is made.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from threading import RLock

import numpy as np
from flint import arb, ctx

from residua.linalg.arrays import Floats, Integers, Words
from residua.machine import compiled
from residua.noise.kernels import evaluate

_PRECISION_LOCK = RLock()


@dataclass(frozen=True)
class Tail:
    """A distribution symmetric about zero, by its upper tail `T(x) = P(X > x)` for x ≥ 0.

    Every function maps balls to balls that hold all true values (`arb`), at the working precision.

    Attributes:
        name: What the distribution is called.
        survival: `T`, from x ≥ 0 to the probability in (0, 1/2].
        quantile: `f = T⁻¹`, from p in (0, 1/2] to x ≥ 0.
        taylor: `taylor(p, order)` is the list of `|f⁽ⁿ⁾(p)| / n!` for n = 0 … order. The sign of the n-th
            derivative must be (−1)ⁿ on all of (0, 1/2], so that each of them is largest at the smallest p.
    """

    name: str
    survival: Callable[[arb], arb]
    quantile: Callable[[arb], arb]
    taylor: Callable[[arb, int], list[arb]]


@contextmanager
def precision(bits: int) -> Iterator[None]:
    """Work in balls of `bits` bits; one thread at a time, because python-flint has one precision for all."""
    with _PRECISION_LOCK, ctx.workprec(bits):
        yield


DEGREE = 8
FIRST_BINADE = 46
LAST_BINADE = 62
SEGMENT_BITS = 5
STEP_BITS = 48  # with second words, positions are evaluated in units of 2⁴⁸

# The exponent and leading mantissa bits of a float number its segment.
_SHIFT, _FIRST = 52 - SEGMENT_BITS, (1023 + FIRST_BINADE) << SEGMENT_BITS
_BITS = 192  # of the balls in the proof: their own radius is far below every term
_UNIT, _PAIR = arb(2) ** -53, arb(2) ** -99


@dataclass(frozen=True)
class QuantileTable:
    """Polynomials and bounds of one tail, shape (segments, 11): centre, A₀ … A₈, B."""

    rows: Floats

    def evaluate(self, words: Words) -> tuple[Floats, Floats]:
        """Return (ẑ, B) as the module's head defines them, each of the shape (n,) of `words`."""
        positions = (words >> np.uint64(1)).view(np.int64).astype(np.float64)
        magnitudes, bounds = np.empty_like(positions), np.empty_like(positions)
        _evaluate(positions, positions.view(np.int64), self.rows, magnitudes, bounds)
        return magnitudes, bounds


@lru_cache(maxsize=8)
def table(tail: Tail) -> QuantileTable:
    """Make the table of `tail` and prove its bounds, once per process (about a tenth of a second)."""
    with precision(_BITS):
        rows = np.array([_segment(tail, binade, start) for binade, start in segments()])
    rows.flags.writeable = False
    return QuantileTable(rows)


def segments() -> list[tuple[int, int]]:
    """The binade and the least position L of every segment."""
    return [
        (binade, (1 << binade) + part * (1 << (binade - SEGMENT_BITS)))
        for binade in range(FIRST_BINADE, LAST_BINADE + 1)
        for part in range(1 << SEGMENT_BITS)
    ]


def _segment(tail: Tail, binade: int, start: int) -> list[float]:
    """Return centre, coefficients and bound for the floats from `start` (L) to L + 2h."""
    width = 1 + arb(2) ** (binade - 53)
    centre, A, _, E, largest = _expanded(tail, binade, start, DEGREE, 0, 0, width, width)
    B = (1 + 4 * _UNIT) * (E + 2 * _UNIT * (largest + E)) + _UNIT
    return [centre, *A, _upwards(B)]


def _expanded(
    tail: Tail, binade: int, start: int, degree: int, paired: int, step_bits: int, near: arb, beyond: arb
) -> tuple[float, list[float], list[float], arb, arb]:
    """Taylor's polynomial on a segment, and the sum of items 1 to 4 of either proof.

    Args:
        tail: whose quantiles.
        binade: in which the segment lies.
        start: L.
        degree: of the polynomial.
        paired: how many of its coefficients are pairs.
        step_bits: positions are evaluated in units of 2 to this.
        near: how far from ξ the position is at most.
        beyond: how far outside the segment ξ and the position lie at most.

    Returns:
        The centre, the coefficients' high and low parts, the error, and the largest value.
    """
    half, step = 1 << (binade - SEGMENT_BITS - 1), arb(2) ** step_bits
    H, M = half + beyond, start - beyond
    exact = [a * step**n for n, a in enumerate(coefficients(tail, arb(start + half), degree))]
    high = [float(a.mid()) for a in exact]
    low = [float((a - arb(b)).mid()) if n < paired else 0.0 for n, (a, b) in enumerate(zip(exact, high, strict=True))]
    A = [arb(a) + arb(b) for a, b in zip(high, low, strict=True)]
    edge = coefficients(tail, M, degree + 1)
    error = near * abs(edge[1]) + H ** (degree + 1) * abs(edge[-1])  # position and truncation
    H = H / step
    error += sum((abs(a - b) * H**n for n, (a, b) in enumerate(zip(exact, A, strict=True))), arb(0))
    return float(start + half), high, low, error + _horner_error(A, H, paired), edge[0]


def coefficients(tail: Tail, position: arb, order: int) -> list[arb]:
    """Return the Taylor coefficients gⁿ(ξ)/n! of `g(ξ) = f(ξ / 2⁶⁴)`, with their signs."""
    terms = tail.taylor(position * arb(2) ** -64, order)
    return [a * (-1) ** n * arb(2) ** (-64 * n) for n, a in enumerate(terms)]


def _horner_error(A: list[arb], H: arb, paired: int) -> arb:
    """Bound what rounding does to Horner's rule (item 4 of the proofs), in floats and then in pairs."""
    size, error = abs(A[-1]), arb(0)
    for n in range(len(A) - 2, -1, -1):
        Q = size + error
        if n >= paired:
            error = H * error + 3 * _UNIT * H * Q + _UNIT * (1 + _UNIT) * abs(A[n])
        else:
            error = H * error + _PAIR * (abs(A[n]) + H * Q)
        size = abs(A[n]) + H * size
    return error


def _upwards(value: arb) -> float:
    """Return a float that is certainly not below `value`."""
    result = float(value.upper())
    while not arb(result) >= value:
        result = math.nextafter(result, math.inf)
    return result


@compiled  # without `fastmath`, as the proof asks
def _evaluate(positions: Floats, bits: Integers, rows: Floats, magnitudes: Floats, bounds: Floats) -> None:
    # A position that was rounded up to 2⁶³ belongs to the last segment, whose right end it is.
    last = rows.shape[0] - 1
    for i in range(positions.size):
        j = min((bits[i] >> _SHIFT) - _FIRST, last)
        if j < 0:
            magnitudes[i], bounds[i] = 0.0, np.inf
            continue
        r = rows[j]
        t = positions[i] - r[0]
        q = r[DEGREE + 1]
        for n in range(DEGREE, 0, -1):
            q = r[n] + t * q
        magnitudes[i], bounds[i] = q, r[DEGREE + 2]


LONG_DEGREE = 17
PAIRED = 9  # coefficients that are pairs
_LONG_BITS = 320  # of the balls in the proof


@dataclass(frozen=True)
class LongTable:
    """Polynomials and bounds of one tail, shape (segments, 29): centre, nine pairs, nine floats, B."""

    rows: Floats

    def evaluate(self, words: Words, seconds: Words) -> tuple[Floats, ...]:
        """Return ẑ, its low part and B, each of the shape (n,) of `words`; B is infinite beyond the table."""
        positions = (words >> np.uint64(1)).view(np.int64).astype(np.float64)
        high, low, bounds = np.empty((3, len(words)))
        known = (positions.view(np.int64), self.rows, _SHIFT, _FIRST, 2.0**-STEP_BITS)
        evaluate(words, seconds, positions, *known, high, low, bounds)
        return high, low, bounds


@lru_cache(maxsize=2)
def long_table(tail: Tail) -> LongTable:
    """Make the table of `tail` and prove its bounds, once per process (about half a second)."""
    with precision(_LONG_BITS):
        rows = np.array([_long_segment(tail, binade, start) for binade, start in segments()])
    rows.flags.writeable = False
    return LongTable(rows)


def _long_segment(tail: Tail, binade: int, start: int) -> list[float]:
    near, beyond = arb(2) ** -52 + arb(2) ** (binade - 105), 2 + arb(2) ** (binade - 52)
    centre, high, low, E, _ = _expanded(tail, binade, start, LONG_DEGREE, PAIRED, STEP_BITS, near, beyond)
    pairs = [each for n in range(PAIRED) for each in (high[n], low[n])]
    return [centre, *pairs, *high[PAIRED:], float(E.upper()) * (1 + 2.0**-50)]
