"""Reliability flags as formats and reports show them: by the bands of `published/quality.py`, the one place that says.

The coefficient of variation is `stddev / |estimate|`: at most 16.5 % is `reliable`, at most 33.3 % `use with caution`,
more is `unreliable` (the bands of Statistics Canada). Flags are made from published numbers alone, and cost nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from residua.published.quality import COLUMN, FLAGS, THRESHOLDS, variation

__all__ = ["CODES", "COLUMN", "FLAGS", "THRESHOLDS", "flags", "grades", "meaning", "sizes_for"]

CODES = ("A", "C", "U")  # for formats whose flags are letters


def grades(estimates: ArrayLike, stddevs: ArrayLike) -> NDArray[np.int64]:
    """For every number, the place of its flag in `FLAGS`.

    Example:
        >>> [FLAGS[i] for i in grades([100.0, 20.0, -3.0, 0.0], 5.0)]
        ['reliable', 'use with caution', 'unreliable', 'unreliable']
    """
    found = variation(estimates, stddevs)
    return np.asarray((found > THRESHOLDS[0]).astype(np.int64) + (found > THRESHOLDS[1]))


def flags(estimates: ArrayLike, stddevs: ArrayLike) -> list[str]:
    """For every number, its flag."""
    return [FLAGS[i] for i in grades(estimates, stddevs).ravel()]


def sizes_for(stddev: float) -> tuple[float, float]:
    """From which size on a count with this standard deviation is reliable, and from which to be used with caution.

    Example:
        >>> [round(size, 1) for size in sizes_for(5.0)]
        [30.3, 15.0]
    """
    return stddev / THRESHOLDS[0], stddev / THRESHOLDS[1]


def meaning() -> dict[str, Any]:
    """What the flags say, for metadata."""
    first, second = (f"{100 * each:g} %" for each in THRESHOLDS)
    return {
        FLAGS[0]: f"coefficient of variation at most {first}",
        FLAGS[1]: f"coefficient of variation above {first}, at most {second}",
        FLAGS[2]: f"coefficient of variation above {second}",
    }
