"""The exact variance of rounded Laplace noise, in closed form."""

from __future__ import annotations

import math
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Scale = TypeVar("Scale", float, NDArray[np.float64])


def rounded_laplace_variance(scale: Scale) -> Scale:
    """The variance of `round(s·x)`, x standard Laplace: `cosh u / (2 sinh² u)` with `u = 1/(2s)`.

    From `P(±k) = e^(−k/s) sinh u` and `Σ k² r^k = r(1 + r)/(1 − r)³` with `r = e^(−2u)`. It is `2 s² + 1/12` less
    terms of order `1/s²`.

    Example:
        >>> round(rounded_laplace_variance(10.0) - 200, 6)
        0.08326
    """
    u = 0.5 / scale
    if isinstance(u, float):
        return math.cosh(u) / (2 * math.sinh(u) ** 2)
    return np.asarray(np.cosh(u) / (2 * np.sinh(u) ** 2))
