"""The inverse square root as a sum of few simple poles, with the least possible relative error.

Zolotarev's approximation: among all `r(x) = Σ_j a_j / (x + p_j)` with that many terms it has the least largest
relative error against `x^-½` on [least, most]. All a_j and p_j are positive, so that `r` of a positive matrix is a sum
of positive shifted inverses. Its zeros −z_k lie between its poles, so that `1/r(x) = c + b x + Σ_k d_k x/(x + z_k)`:
positive terms again.

Reference: Hale, Higham and Trefethen (2008), "Computing A^α, log(A) and related matrix functions by contour integrals";
    Higham (2008), "Functions of Matrices", §5.9; Akhiezer (1990), "Elements of the Theory of Elliptic Functions".
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from residua.linalg.arrays import Floats

_MOST_TERMS = 64
_PROBES = 4096


@dataclass(frozen=True, eq=False)
class InverseRoot:
    """`r(x) = Σ_j a_j / (x + p_j)`, close to `x^-½`.

    Args:
        poles: p_j > 0, increasing, (terms,).
        weights: a_j > 0, (terms,).
        error: the largest relative difference to `x^-½` on the interval it was made for.
    """

    poles: Floats
    weights: Floats
    error: float

    def __call__(self, x: Floats) -> Floats:
        """`r(x)`, of the shape of x."""
        return np.asarray((self.weights / (np.asarray(x)[..., None] + self.poles)).sum(axis=-1))


def inverse_root(least: float, most: float, error: float) -> InverseRoot:
    """The approximation with the fewest terms that is no further off than `error`, relatively, from `least` to `most`.

    Example:
        >>> root = inverse_root(1e-3, 1e5, error=1e-4)
        >>> len(root.poles), bool(abs(root(np.array([7.0])) * 7**0.5 - 1) < 1e-4)
        (12, True)
    """
    ratio = math.sqrt(least / most)
    # The error of J terms is about 2 exp(−2 π² J / ln(16/ratio²)); one or two more or fewer are tried.
    expected = math.log(2 / error) * math.log(16 / ratio**2) / (2 * math.pi**2)
    for terms in range(max(int(expected) - 1, 1), _MOST_TERMS):
        root = _zolotarev(ratio, terms)
        if root.error <= error:
            return InverseRoot(root.poles * most, root.weights * math.sqrt(most), root.error)
    raise ArithmeticError("no sum of poles is close enough")


def reciprocal_of(poles: Floats, weights: Floats) -> tuple[float, float, Floats, Floats]:
    """c, b, z and d of `1/r(x) = c + b x + Σ_k d_k x/(x + z_k)`, in floats: for searches, never for a price."""
    low, high = np.log(poles[:-1]), np.log(poles[1:])
    for _ in range(60):
        middle = (low + high) / 2
        falls = (weights / (poles - np.exp(middle)[:, None])).sum(axis=1) <= 0
        low, high = np.where(falls, middle, low), np.where(falls, high, middle)
    zeros = np.exp((low + high) / 2)
    factors = 1 / (zeros * (weights / (poles - zeros[:, None]) ** 2).sum(axis=1))
    return 1 / float((weights / poles).sum()), 1 / float(weights.sum()), zeros, factors


def _zolotarev(ratio: float, terms: int) -> InverseRoot:
    """The best approximation on [ratio², 1] with this many terms.

    Poles and zeros alternate among `ratio² tan²(am(i K / 2J))`, i = 1 … 2J−1, of modulus `√(1 − ratio²)`.
    """
    angles = _amplitudes(np.arange(1, terms + 1) / (2 * terms), ratio)
    places = np.empty(2 * terms - 1)
    places[:terms] = (ratio * np.tan(angles)) ** 2
    places[terms - 1] = ratio
    places[terms:] = ratio**2 / places[: terms - 1][::-1]  # they come in pairs with product ratio²
    poles, zeros = places[0::2], places[1::2]
    weights = np.empty(terms)
    for j in range(terms):
        weights[j] = np.prod((zeros - poles[j]) / (np.delete(poles, j) - poles[j]))
    x = np.exp(np.linspace(2 * math.log(ratio), 0.0, _PROBES * terms))
    ratios = InverseRoot(poles, weights, 0.0)(x) * np.sqrt(x)
    low, high = float(ratios.min()), float(ratios.max())
    return InverseRoot(poles, weights * (2 / (low + high)), (high - low) / (high + low))


def _amplitudes(fractions: Floats, complement: float) -> Floats:
    """`am(f K)` for fractions f of the quarter period, of the modulus with this complement, by Landen's descent."""
    a, b = [1.0], complement
    gaps: list[float] = []
    while not gaps or gaps[-1] > 1e-9 * a[-1]:  # the next gap is its square
        gaps.append((a[-1] - b) / 2)
        a, b = [*a, (a[-1] + b) / 2], math.sqrt(a[-1] * b)
    angles = 2.0 ** len(gaps) * fractions * (math.pi / 2)
    for gap, mean in zip(reversed(gaps), reversed(a), strict=False):
        angles = (angles + np.arcsin(gap / mean * np.sin(angles))) / 2
    return np.asarray(angles)
