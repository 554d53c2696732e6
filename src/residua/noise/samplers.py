"""Exact rounded noise: normal for zCDP, GDP and (epsilon, delta), Laplace for pure DP; and its exact distribution."""

from fractions import Fraction

import numpy as np
from flint import arb, fmpq, fmpz_poly
from numpy.typing import NDArray

from residua.noise.entropy import Entropy
from residua.noise.rounding import Scale, ScaleLike, Size, parse_scales, rounded
from residua.noise.table import Tail, precision


def rounded_normal(scale: ScaleLike, size: Size, *, _entropy: Entropy | None = None) -> NDArray[np.int64]:
    """Draw `round(s·z)`, z standard normal, exactly.

    P(k) = Φ((k + 1/2)/s) − Φ((k − 1/2)/s). An integer plus such a draw is the rounding of the integer plus
    normal noise of standard deviation s: a post-processing of the continuous Gaussian mechanism, with all
    its guarantees.

    Guarantee:
        The distribution is exact for every rational scale, given that the operating system's bits are
        uniform. A scale that is tiny, negative, infinite or NaN is refused: it never means no noise.

    Args:
        scale: Standard deviation s before rounding, from 1/2 to 2⁴⁰: an int, a Fraction, a float (taken as
            the dyadic rational it is), or an array of them that matches the leading axes of `size`, for a
            batch of tables each with its own.
        size: Shape of the result.

    Returns:
        Independent draws, int64, shape `size`.

    Raises:
        PrivacyError: `scale` is out of range or has no exact value, or does not match `size`.

    Reference: Haney, Desfontaines, Hartman, Shrestha, Hay (2022), "Precision-based attacks and interval
        refining"; here the interval is that of the rounded quantile.

    Example:
        >>> rounded_normal(1000, (2, 3)).shape
        (2, 3)
        >>> rounded_normal(float("nan"), 5)
        Traceback (most recent call last):
        ...
        residua.errors.PrivacyError: scale nan is out of range; ...
    """
    return rounded(NORMAL, scale, size, _entropy)


def _survival(x: arb) -> arb:
    return (x / arb(2).sqrt()).erfc() / 2


def _quantile(p: arb) -> arb:
    return arb(2).sqrt() * (2 * p).erfcinv()


def _taylor(p: arb, order: int) -> list[arb]:
    """Return |f⁽ⁿ⁾(p)|/n!: with z = f(p) it is Pₙ(z) / (n! φ(z)ⁿ), P₁ = 1 and Pₙ₊₁ = Pₙ′ + n z Pₙ.

    By induction from f′ = −1/φ(f) and φ′ = −zφ. The Pₙ have no negative coefficient and z ≥ 0, hence the
    signs.
    """
    z = _quantile(p)
    density = (-z * z / 2).exp() / (2 * arb.pi()).sqrt()
    terms, P, power = [z], fmpz_poly([1]), arb(1)
    for n in range(1, order + 1):
        power = power * n * density
        terms.append(P(z) / power)
        P = P.derivative() + fmpz_poly([0, n]) * P
    return terms


NORMAL = Tail("normal", _survival, _quantile, _taylor)


def rounded_laplace(scale: ScaleLike, size: Size, *, _entropy: Entropy | None = None) -> NDArray[np.int64]:
    """Draw `round(s·x)`, x standard Laplace with density exp(−|x|)/2, exactly.

    P(0) = 1 − exp(−1/(2s)) and P(±k) = exp(−k/s) sinh(1/(2s)). An integer plus such a draw is the rounding
    of the integer plus Laplace noise of scale s (standard deviation s√2): a post-processing of the
    continuous mechanism.

    Guarantee:
        The distribution is exact for every rational scale, given that the operating system's bits are
        uniform. A scale that is tiny, negative, infinite or NaN is refused: it never means no noise.

    Args:
        scale: Scale s before rounding, from 1/2 to 2⁴⁰: an int, a Fraction, a float (taken as the dyadic
            rational it is), or an array of them that matches the leading axes of `size`.
        size: Shape of the result.

    Returns:
        Independent draws, int64, shape `size`.

    Raises:
        PrivacyError: `scale` is out of range or has no exact value, or does not match `size`.

    Example:
        >>> rounded_laplace([10, 1000], (2, 3)).shape
        (2, 3)
    """
    return rounded(LAPLACE, scale, size, _entropy)


def _survival_of_laplace(x: arb) -> arb:
    return (-x).exp() / 2


def _quantile_of_laplace(p: arb) -> arb:
    return -(2 * p).log()


def _taylor_of_laplace(p: arb, order: int) -> list[arb]:
    """Return |f⁽ⁿ⁾(p)|/n! = 1/(n pⁿ) for f = −log 2p; the signs alternate."""
    return [_quantile_of_laplace(p), *(1 / (n * p**n) for n in range(1, order + 1))]


LAPLACE = Tail("Laplace", _survival_of_laplace, _quantile_of_laplace, _taylor_of_laplace)


_ACCURATE_BITS = 64


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
    scales = parse_scales(scale)
    scales.cells(())  # one scale only
    s = scales.exact(0)
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
