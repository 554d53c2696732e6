"""Exact rounded Laplace noise, for pure DP."""

import numpy as np
from flint import arb
from numpy.typing import NDArray

from residua.noise.entropy import Entropy
from residua.noise.rounding import Size, rounded
from residua.noise.scales import ScaleLike
from residua.noise.tail import Tail


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


def _survival(x: arb) -> arb:
    return (-x).exp() / 2


def _quantile(p: arb) -> arb:
    return -(2 * p).log()


def _taylor(p: arb, order: int) -> list[arb]:
    """Return |f⁽ⁿ⁾(p)|/n! = 1/(n pⁿ) for f = −log 2p; the signs alternate."""
    return [_quantile(p), *(1 / (n * p**n) for n in range(1, order + 1))]


LAPLACE = Tail("Laplace", _survival, _quantile, _taylor)
