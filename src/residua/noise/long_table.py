"""Quantiles in pairs of floats with a proven error bound: what `table.py` does, for twice as many random bits.

A normal whose first word left a rounding open gets a second one, which continues its tail probability: `p = ξ / 2⁶⁴`
with ξ in `v + [w, w + 1] / 2⁶⁴`. `LongTable.evaluate` returns a pair ẑ and B with |ẑ − g(ξ)| ≤ B for every such ξ.

**Proof of the bound.** As in `table.py`, with its segments [L, L + 2h] of a binade [2ᵉ, 2ᵉ⁺¹] and centres c:

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

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from flint import arb
from numpy.typing import NDArray

from residua.noise.table import SEGMENT_BITS, STEP_BITS, Tail, coefficients, precision, segments

DEGREE = 17
PAIRED = 9  # coefficients that are pairs
_BITS = 320  # of the balls in the proof
_UNIT = arb(2) ** -53
_PAIR = arb(2) ** -99


@dataclass(frozen=True)
class LongTable:
    """Polynomials and bounds of one tail, shape (segments, 29): centre, nine pairs, nine floats, B."""

    rows: NDArray[np.float64]

    def evaluate(self, words: NDArray[np.uint64], seconds: NDArray[np.uint64]) -> tuple[NDArray[np.float64], ...]:
        """Return ẑ, its low part and B, each of the shape (n,) of `words`; B is infinite beyond the table."""
        from residua.noise.kernels import evaluate

        positions = (words >> np.uint64(1)).view(np.int64).astype(np.float64)
        high, low, bounds = np.empty((3, len(words)))
        evaluate(words, seconds, positions, positions.view(np.int64), self.rows, high, low, bounds)
        return high, low, bounds


@lru_cache(maxsize=2)
def long_table(tail: Tail) -> LongTable:
    """Make the table of `tail` and prove its bounds, once per process (about half a second)."""
    with precision(_BITS):
        rows = np.array([_segment(tail, binade, start) for binade, start in segments()])
    rows.flags.writeable = False
    return LongTable(rows)


def _segment(tail: Tail, binade: int, start: int) -> list[float]:
    half = 1 << (binade - SEGMENT_BITS - 1)
    beyond = 2 + arb(2) ** (binade - 52)
    H, M = half + beyond, start - beyond
    step = arb(2) ** STEP_BITS
    exact = [a * step**n for n, a in enumerate(coefficients(tail, arb(start + half), DEGREE))]
    high = [float(a.mid()) for a in exact]
    low = [float((a - arb(b)).mid()) if n < PAIRED else 0.0 for n, (a, b) in enumerate(zip(exact, high, strict=True))]
    A = [arb(a) + arb(b) for a, b in zip(high, low, strict=True)]

    edge = coefficients(tail, M, DEGREE + 1)
    position = (arb(2) ** -52 + arb(2) ** (binade - 105)) * abs(edge[1])
    truncation = H ** (DEGREE + 1) * abs(edge[-1])
    H = H / step
    rounded = sum((abs(a - b) * H**n for n, (a, b) in enumerate(zip(exact, A, strict=True))), arb(0))
    E: Any = position + truncation + rounded + _horner_error(A, H)
    pairs = [each for n in range(PAIRED) for each in (high[n], low[n])]
    return [float(start + half), *pairs, *high[PAIRED:], float(E.upper()) * (1 + 2.0**-50)]


def _horner_error(A: list[arb], H: arb) -> arb:
    """Bound what rounding does to Horner's rule (item 4 of the proof)."""
    size, error = abs(A[-1]), arb(0)
    for n in range(DEGREE - 1, -1, -1):
        Q = size + error
        if n >= PAIRED:
            error = H * error + 3 * _UNIT * H * Q + _UNIT * (1 + _UNIT) * abs(A[n])
        else:
            error = H * error + _PAIR * (abs(A[n]) + H * Q)
        size = abs(A[n]) + H * size
    return error
