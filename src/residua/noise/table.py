"""Quantiles in floating point with a proven error bound, from a table of Taylor polynomials.

A 64-bit word w is read as a sign (its lowest bit) and the upper 63 bits v, the beginning of the binary
expansion of a tail probability `p = ξ / 2⁶⁴` with ξ in [v, v + 1]; the bits of ξ after the point have not
been drawn yet. For `g(ξ) = f(ξ / 2⁶⁴)`, f the quantile of the tail, `Table.evaluate` returns floats ẑ and B
such that for every scale s in [1/2, 2⁴⁰] with nearest float ŝ, every such ξ, and `y = fl(ŝ ẑ)`,

    |y − rint(y)| < fl(1/2 − fl(ŝ B))   implies   s·g(ξ) and y round to the same integer.          (*)

**Proof of the bound.** Let u = 2⁻⁵³, the unit roundoff of binary64 (rounding to nearest), and x = fl(v). The
floats of a binade [2ᵉ, 2ᵉ⁺¹] are cut into 32 segments [L, L + 2h] with h = 2ᵉ⁻⁶ and centre c. On a segment:

1. *Unknown bits.* |ξ − x| ≤ w = 1 + 2ᵉ⁻⁵³, so |g(ξ) − g(x)| ≤ w |g′(L − w)|: |g′| decreases.
2. *Truncation.* The Taylor polynomial of degree 8 at c errs by at most h⁹ |g⁽⁹⁾(L)| / 9! (Lagrange; |g⁽⁹⁾|
   decreases too).
3. *Coefficients.* They are rounded to floats A₀ … A₈; the differences are measured in balls, Σ |aₙ − Aₙ| hⁿ.
4. *Evaluation.* t = x − c is exact (both are multiples of 2ᵉ⁻⁵² and |t| ≤ h). Horner's rule, from q₈ = A₈
   down to q₀ = ẑ, errs by at most eᵢ = h eᵢ₊₁ + u h Q + u (|Aᵢ| + (1 + u) h Q), where Q ≥ |qᵢ₊₁| as
   computed. A fused multiply-add only makes this smaller. Nothing underflows: t is 0 or at least 2⁻⁶, and
   |Aₙ| > 2⁻⁶⁰⁰.
5. *Scale.* |ŝ − s| ≤ uŝ and |y − ŝẑ| ≤ uŝ|ẑ|, so |y − s g(ξ)| ≤ ŝ (E + 2uZ) with E the sum of 1 to 4 and Z a
   bound on both |ẑ| and g(ξ).
6. *Comparison.* y − rint(y) is exact. fl(ŝB) ≥ (1 − u) ŝB and the subtraction errs by at most u/2 ≤ uŝ. So
   B = (1 + 4u)(E + 2uZ) + u, rounded upwards, gives (*).

Items 1 to 6 are added up in ball arithmetic for every segment when the table is made: the bound is computed,
not guessed. It is below 2⁻⁴⁹ (1 + ẑ) everywhere. Below v = 2⁴⁶ (one draw in 131,072) the table ends and B is
infinite. No mathematical library takes part, so nothing rests on the accuracy of somebody's `log` or `ndtri`.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from threading import RLock
from typing import Any

import numpy as np
from flint import arb, ctx
from numpy.typing import NDArray

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
STEP_BITS = 48  # with second words, positions are evaluated in units of 2⁴⁸ (`long_table.py`)

_BITS = 192  # of the balls in the proof: their own radius is far below every term
_UNIT = arb(2) ** -53


@dataclass(frozen=True)
class Table:
    """Polynomials and bounds of one tail, shape (segments, 11): centre, A₀ … A₈, B."""

    rows: NDArray[np.float64]

    def evaluate(self, words: NDArray[np.uint64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return (ẑ, B) as the module's head defines them, each of the shape (n,) of `words`."""
        positions = (words >> np.uint64(1)).view(np.int64).astype(np.float64)
        magnitudes, bounds = np.empty_like(positions), np.empty_like(positions)
        _kernel()(positions, positions.view(np.int64), self.rows, magnitudes, bounds)
        return magnitudes, bounds


@lru_cache(maxsize=8)
def table(tail: Tail) -> Table:
    """Make the table of `tail` and prove its bounds, once per process (about a tenth of a second)."""
    with precision(_BITS):
        rows = np.array([_segment(tail, binade, start) for binade, start in segments()])
    rows.flags.writeable = False
    return Table(rows)


def segments() -> list[tuple[int, int]]:
    """The binade and the least position L of every segment."""
    return [
        (binade, (1 << binade) + part * (1 << (binade - SEGMENT_BITS)))
        for binade in range(FIRST_BINADE, LAST_BINADE + 1)
        for part in range(1 << SEGMENT_BITS)
    ]


def _segment(tail: Tail, binade: int, start: int) -> list[float]:
    """Return centre, coefficients and bound for the floats from `start` (L) to L + 2h."""
    half = 1 << (binade - SEGMENT_BITS - 1)
    h = arb(half)
    exact = coefficients(tail, arb(start + half), DEGREE)
    A = [float(a) for a in exact]

    width = 1 + arb(2) ** (binade - 53)
    largest, slope = coefficients(tail, start - width, 1)
    unknown = width * abs(slope)
    truncation = h ** (DEGREE + 1) * abs(coefficients(tail, arb(start), DEGREE + 1)[-1])
    rounded = sum((abs(a - arb(b)) * h**n for n, (a, b) in enumerate(zip(exact, A, strict=True))), arb(0))

    E = unknown + truncation + rounded + _horner_error(A, h)
    B = (1 + 4 * _UNIT) * (E + 2 * _UNIT * (largest + E)) + _UNIT
    return [float(start + half), *A, _upwards(B)]


def coefficients(tail: Tail, position: arb, order: int) -> list[arb]:
    """Return the Taylor coefficients gⁿ(ξ)/n! of `g(ξ) = f(ξ / 2⁶⁴)`, with their signs."""
    terms = tail.taylor(position * arb(2) ** -64, order)
    return [a * (-1) ** n * arb(2) ** (-64 * n) for n, a in enumerate(terms)]


def _horner_error(A: list[float], h: arb) -> arb:
    """Bound what rounding does to Horner's rule at |t| ≤ h (item 4 of the proof)."""
    size, error = abs(arb(A[-1])), arb(0)
    for coefficient in reversed(A[:-1]):
        Q = size + error
        error = h * error + _UNIT * h * Q + _UNIT * (abs(arb(coefficient)) + (1 + _UNIT) * h * Q)
        size = abs(arb(coefficient)) + h * size
    return error


def _upwards(value: arb) -> float:
    """Return a float that is certainly not below `value`."""
    result = float(value.upper())
    while not arb(result) >= value:
        result = math.nextafter(result, math.inf)
    return result


def _evaluate(
    positions: NDArray[np.float64],
    bits: NDArray[np.int64],
    rows: NDArray[np.float64],
    magnitudes: NDArray[np.float64],
    bounds: NDArray[np.float64],
) -> None:
    # The exponent and leading mantissa bits of a float number its segment. A position that was rounded up to
    # 2⁶³ belongs to the last segment, whose right end it is.
    shift, first, last = 52 - SEGMENT_BITS, (1023 + FIRST_BINADE) << SEGMENT_BITS, rows.shape[0] - 1
    for i in range(positions.size):
        j = min((bits[i] >> shift) - first, last)
        if j < 0:
            magnitudes[i], bounds[i] = 0.0, np.inf
            continue
        r = rows[j]
        t = positions[i] - r[0]
        q = r[DEGREE + 1]
        for n in range(DEGREE, 0, -1):
            q = r[n] + t * q
        magnitudes[i], bounds[i] = q, r[DEGREE + 2]


@lru_cache(maxsize=1)
def _kernel() -> Callable[..., Any]:
    """Compile `_evaluate` on first use (importing does nothing), without `fastmath`, as the proof asks."""
    from residua.compiling import compiled

    return compiled(_evaluate)
