"""How many digits of published numbers are given: as many as their standard deviations justify."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

_MOST, _FEWEST = 15, 2


def shortened(columns: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of a published table with their fractions cut: all numbers of a table to the same decimal.

    Guarantee: the last digit is worth at most a hundredth of the smallest standard deviation, so that rounding adds
    less than one part in 10^5 to any variance; intervals are rounded outwards, so that they still hold the truth.

    Example:
        >>> {name: value.tolist() for name, value in shortened({
        ...     "estimate": np.array([1234.56789]), "stddev": np.array([12.3456]), "upper": np.array([1258.76543]),
        ... }).items()}
        {'estimate': [1234.6], 'stddev': [12.3], 'upper': [1258.8]}
    """
    fractions = {
        name: values
        for name, values in columns.items()
        if isinstance(values, np.ndarray) and np.issubdtype(values.dtype, np.floating)
    }
    return {**columns, **shortened_to(fractions, places_of(fractions))}


def shortened_to(fractions: Mapping[str, NDArray[np.float64]], places: int) -> dict[str, NDArray[np.float64]]:
    """Columns of numbers to some decimals."""
    return {name: _cut(name, values, places) for name, values in fractions.items()}


def places_of(fractions: Mapping[str, NDArray[np.float64]]) -> int:
    """How many decimals the columns of a table are given."""
    if "stddev" in fractions:
        stddevs = fractions["stddev"]
        smallest = float(np.min(stddevs, initial=np.inf, where=np.isfinite(stddevs) & (stddevs > 0)))
        if math.isfinite(smallest):
            return min(max(math.ceil(2 - math.log10(smallest)), 0), _MOST)
    # Without error bars (a projection): hundredths of a count, and six digits of numbers that are all small.
    sizes = [float(np.max(np.abs(v), initial=0.0, where=np.isfinite(v))) for v in fractions.values()]
    largest = max(sizes, default=0.0)
    return min(max(5 - math.floor(math.log10(largest)), _FEWEST), _MOST) if largest > 0 else _FEWEST


def _cut(name: str, values: NDArray[np.float64], places: int) -> NDArray[np.float64]:
    if name in ("lower", "upper"):
        scale = 10.0**places
        outwards = np.floor if name == "lower" else np.ceil
        return np.asarray(np.round(outwards(values * scale) / scale, places))
    return np.asarray(np.round(values, places))
