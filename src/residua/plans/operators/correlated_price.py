"""The verifier of the axis form: what noise correlated along an axis costs, from what is really sampled.

Small and trusted. The noise has covariance `Q^½ r(S) Q^½`, with `r(x) = Σ_j a_j/(x + p_j)` and `S = Q^½ G Q^½`, so that
its privacy cost matrix is `Γ = Q^-½ (1/r)(S) Q^-½`. The zeros −z_k of r lie between its poles, one in each gap, and

    1/r(x) = c + b x + Σ_k d_k x/(x + z_k),   c = 1/Σ a_j/p_j,  b = 1/Σ a_j,  d_k = 1/(z_k Σ_j a_j/(p_j − z_k)²),

all positive. A record in cell i costs `Γ_ii = c/q_i + b G_ii + Σ_k d_k [S(S + z_k)⁻¹]_ii / q_i`. In fractions each z_k
is enclosed by two floats between which r changes its sign; c, b and d_k are rounded up, z_k down (a term falls with
z_k), and the passes along the axis, which add, multiply and divide positive floats only, are enlarged by their proven
error.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np

from residua.errors import VerificationError
from residua.linalg.arrays import Floats
from residua.linalg.conductances import AxisNoise, NestedNoise
from residua.privacy.exact import round_up

_MOST_PARTS = 32  # poles: each takes its time to be enclosed in fractions, and planners use two dozen at most
_LEAST, _MOST = 2.0**-200, 2.0**200  # between these no sum of products of them over- or underflows


def costs(noise: AxisNoise) -> tuple[Floats, Fraction]:
    """What one record added or removed costs in each cell, (n,), and by how much, relatively, that may be too little.

    Raises:
        VerificationError: numbers that are no noise, or beyond what is proven.
    """
    _check(noise)
    constant, slope, zeros, weights = reciprocal(noise.poles, noise.weights)
    shares = noise.queries.shares(noise.q, zeros, weights)
    costs_of_values = constant / noise.q + slope * noise.queries.gram_diagonal + shares / noise.q
    return costs_of_values, Fraction(noise.relative_error) + Fraction(len(zeros) + 8, 2**52)


def opposed(noise: AxisNoise) -> int:
    """How far two columns of `Γ` may point apart, at most, relatively to their norms: 0 or 1.

    Of a path, no entry of Γ is negative: `S (S + z)⁻¹` is a positive diagonal plus the inverse of an M-matrix between
    two positive diagonals. With nested groups entries may be.
    """
    return 1 if isinstance(noise, NestedNoise) else 0


def reciprocal(poles: Floats, weights: Floats) -> tuple[float, float, Floats, Floats]:
    """c, b, z and d of `1/r`: c, b, d rounded up and z down, exactly enclosed.

    Raises:
        VerificationError: the sign of r could not be told from that of a zero.
    """
    p, a = [Fraction(x) for x in poles.tolist()], [Fraction(x) for x in weights.tolist()]
    zeros, factors = [], []
    for low, high in pairwise(poles.tolist()):
        below, above = _enclosed(low, high, p, a)
        largest = sum(
            (each / max(abs(pole - below), abs(pole - above)) ** 2 for pole, each in zip(p, a, strict=True)),
            Fraction(0),
        )
        zeros.append(float(below))
        factors.append(round_up(1 / (below * largest)))
    constant = round_up(1 / sum((each / pole for pole, each in zip(p, a, strict=True)), Fraction(0)))
    return constant, round_up(1 / sum(a, Fraction(0))), np.array(zeros), np.array(factors)


def _enclosed(low: float, high: float, p: list[Fraction], a: list[Fraction]) -> tuple[Fraction, Fraction]:
    """Two floats around the zero of `Σ_j a_j/(p_j − z)` between neighbouring poles; it increases from −∞ to ∞."""
    below, above = low, high
    while True:
        middle = math.sqrt(below) * math.sqrt(above)
        if not below < middle < above:
            middle = below + (above - below) / 2
        if not below < middle < above or above - below < 2.0**-40 * below:
            break
        z = Fraction(middle)
        if sum((each / (pole - z) for pole, each in zip(p, a, strict=True)), Fraction(0)) <= 0:
            below = middle
        else:
            above = middle
    if below == low or above == high:
        raise VerificationError("the poles of the noise are too close to be told apart; plan again.")
    return Fraction(below), Fraction(above)


def _check(noise: AxisNoise) -> None:
    if isinstance(noise, NestedNoise):
        queries = noise.queries
        positive, others = [queries.grounds], [queries.values, queries.held, *queries.arguments[5:]]
        if queries.first != math.inf:
            positive.append(np.array([queries.first]))
        fits = queries.grounds.shape == queries.values.shape == (noise.size,) and noise.size > 1
    else:
        along = noise.queries
        positive, others = [along.links, np.array([along.right])], [np.array([along.left, along.values])]
        fits = True
    if len(noise.poles) > _MOST_PARTS:
        raise VerificationError(f"the noise along the axis has more than {_MOST_PARTS} parts; plan again.")
    for each in (*positive, noise.q, noise.poles, noise.weights):
        if not (len(each) and np.isfinite(each).all() and (each >= _LEAST).all() and (each <= _MOST).all()):
            raise VerificationError(
                "the noise along the axis has numbers that are not positive, or out of range; plan again."
            )
    if (
        not fits
        or noise.q.shape != (noise.size,)
        or noise.poles.shape != noise.weights.shape
        or (np.diff(noise.poles) <= 0).any()
    ):
        raise VerificationError("the noise along the axis is incomplete; plan again.")
    for each in others:
        if not ((each >= 0) & (each <= _MOST) & ((each == 0) | (each >= _LEAST))).all():
            raise VerificationError("the noise along the axis has numbers that are out of range; plan again.")
