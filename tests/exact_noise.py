"""What exact noise is compared with: the probability of every draw, and fields that balls alone decide."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from flint import arb, fmpq

from residua.errors import PrivacyError
from residua.noise.correlated import Across, float_factors, judged
from residua.noise.samplers import LAPLACE, NORMAL, checked_scales
from residua.noise.table import Tail, precision

_ACCURATE_BITS = 64
Scale = int | float | Fraction


def rounded_normal_pmf(scale: Scale, k: int) -> arb:
    """Return P(round(s·z) = k), z standard normal.

    Guarantee:
        A ball that holds the true value; its relative accuracy is 64 bits as far out as |k| = 1000 s.

    Args:
        scale: Standard deviation s before rounding, one number from 1/2 to 2⁴⁰.
        k: An integer.

    Returns:
        A ball; `float()` of it is the probability, `.lower()` and `.upper()` enclose it.

    Raises:
        PrivacyError: `scale` is out of range or has no exact value.

    Example:
        >>> float(rounded_normal_pmf(1, 0))
        0.3829249225480262
    """
    return _pmf(NORMAL, scale, k)


def rounded_laplace_pmf(scale: Scale, k: int) -> arb:
    """Return P(round(s·x) = k), x standard Laplace; otherwise like `rounded_normal_pmf`.

    Example:
        >>> float(rounded_laplace_pmf(1, 0))
        0.3934693402873666
    """
    return _pmf(LAPLACE, scale, k)


def _pmf(tail: Tail, scale: Scale, k: int) -> arb:
    if checked_scales(float(scale) if isinstance(scale, Fraction) else scale).shape:
        raise PrivacyError("one scale at a time: leading axes have no pmf of their own")
    s = Fraction(scale)
    for bits in (128, 256, 512, 1024):
        with precision(bits):
            outer = tail.survival(_edge(s, abs(k)))
            mass = tail.survival(_edge(s, abs(k) - 1)) - outer if k else 1 - 2 * outer
            if mass.rel_accuracy_bits() >= _ACCURATE_BITS:
                break
    return mass


def _edge(s: Fraction, k: int) -> arb:
    """Return (k + 1/2) / s, the upper edge of the cell of k."""
    edge = (k + Fraction(1, 2)) / s
    return arb(fmpq(edge.numerator, edge.denominator))


def exact_field(first, second, grid, *, _entropy):
    """One field of `rounded_field`, all of it in ball arithmetic, (n₁, n₂)."""
    normals = Across(first, second, _entropy, float_factors(second, second.size))
    return np.array([judged(first, grid, normals, column) for column in range(second.size)]).T
