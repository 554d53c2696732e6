"""Exact rounded normal noise, for zCDP, GDP and (epsilon, delta) guarantees."""

import numpy as np
from flint import arb, fmpz_poly
from numpy.typing import NDArray

from residua.noise.entropy import Entropy
from residua.noise.rounding import Size, rounded
from residua.noise.scales import ScaleLike
from residua.noise.tail import Tail


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
