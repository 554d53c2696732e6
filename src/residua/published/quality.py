"""Quality flags by coefficient of variation, as statistical offices publish them: the one place that says.

The coefficient of variation is `stddev / |estimate|`. At most 16.5 % is `reliable`, at most 33.3 % `use with caution`,
more is `unreliable` (the bands of Statistics Canada; others use 12 and 40, or 15 and 30: the thresholds are settable).
Flags are made from published numbers alone, so that flagging and suppressing cost no privacy and leak nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from residua.errors import PlanError, named
from residua.language import mark, say
from residua.linalg.arrays import Floats

FLAGS = (mark("reliable"), mark("use with caution"), mark("unreliable"))
THRESHOLDS = (0.165, 0.333)
COLUMN = "quality"
SHARE = "protection"  # of the variance of a survey's total: what privacy adds
CODES = ("A", "C", "U")  # for formats whose flags are letters
Flag = Literal["reliable", "use with caution", "unreliable"]


def variation(estimates: ArrayLike, stddevs: ArrayLike) -> Floats:
    """The coefficient of variation, `stddev / |estimate|`; infinite where the estimate is 0 or nothing is known.

    Example:
        >>> variation([100.0, -10.0, 0.0], [5.0, 5.0, 5.0]).tolist()
        [0.05, 0.5, inf]
    """
    sizes, deviations = np.abs(np.asarray(estimates, dtype=np.float64)), np.asarray(stddevs, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = deviations / sizes
    return np.where(np.isnan(shares), np.inf, shares)


def qualities(estimates: ArrayLike, stddevs: ArrayLike, thresholds: Sequence[float] = THRESHOLDS) -> NDArray[Any]:
    """A flag for every number.

    Raises:
        PlanError: thresholds that are not two increasing positive numbers.

    Example:
        >>> qualities([100.0, 20.0, 3.0], [5.0, 5.0, 5.0]).tolist()
        ['reliable', 'use with caution', 'unreliable']
    """
    return np.asarray(np.array(FLAGS, dtype=object)[grades(estimates, stddevs, checked(thresholds))])


def grades(
    estimates: ArrayLike,
    stddevs: ArrayLike,
    thresholds: tuple[float, float] = THRESHOLDS,
    doubtful: NDArray[np.bool_] | None = None,
) -> NDArray[np.int64]:
    """For every number, the place of its flag in `FLAGS`; what is doubtful for other reasons is never the first.

    Example:
        >>> [FLAGS[i] for i in grades([100.0, 20.0, -3.0, 0.0], 5.0)]
        ['reliable', 'use with caution', 'unreliable', 'unreliable']
    """
    shares = variation(estimates, stddevs)
    places = np.asarray((shares > thresholds[0]).astype(np.int64) + (shares > thresholds[1]))
    return places if doubtful is None else np.maximum(places, doubtful.reshape(places.shape))


def check_flag(flag: str) -> None:
    """Refuses what is not a flag of poor numbers.

    Raises:
        PlanError: it is none.
    """
    if flag not in FLAGS[1:]:
        raise PlanError(f"suppress={named(flag)} is not {FLAGS[1]!r} or {FLAGS[2]!r}; use one of them.")


def sizes_for(stddev: float) -> tuple[float, float]:
    """From which size on a count with this standard deviation is reliable, and from which to be used with caution.

    Example:
        >>> [round(size, 1) for size in sizes_for(5.0)]
        [30.3, 15.0]
    """
    return stddev / THRESHOLDS[0], stddev / THRESHOLDS[1]


def meaning() -> dict[str, Any]:
    """What the flags say, for metadata."""
    first, second = (100 * each for each in THRESHOLDS)
    return {
        FLAGS[0]: say("coefficient of variation at most {first} %", first=first),
        FLAGS[1]: say("coefficient of variation above {first} %, at most {second} %", first=first, second=second),
        FLAGS[2]: say("coefficient of variation above {second} %", second=second),
    }


def checked(thresholds: Sequence[float]) -> tuple[float, float]:
    """The two thresholds, once they are known to be two."""
    try:
        first, second = (float(each) for each in thresholds)
    except (TypeError, ValueError):
        first, second = np.nan, np.nan
    if not 0 < first < second < np.inf:
        raise PlanError(
            f"thresholds={named(thresholds)} are not two increasing positive numbers; give them as shares, such as "
            f"{THRESHOLDS}."
        )
    return first, second


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
    """Columns of numbers to some decimals; shares beside numbers of people to six."""
    return {name: _cut(name, values, max(places, 6) if name == SHARE else places) for name, values in fractions.items()}


def places_of(fractions: Mapping[str, NDArray[np.float64]]) -> int:
    """How many decimals the columns of a table are given."""
    if "stddev" in fractions:
        stddevs = fractions["stddev"]
        smallest = float(np.min(stddevs, initial=np.inf, where=np.isfinite(stddevs) & (stddevs > 0)))
        if math.isfinite(smallest):
            return min(max(math.ceil(2 - math.log10(smallest)), 0), _MOST)
    # Without error bars (a projection): hundredths of a count, and six digits of numbers that are all small.
    judged = [fractions["estimate"]] if "estimate" in fractions else fractions.values()
    largest = max([float(np.max(np.abs(v), initial=0.0, where=np.isfinite(v))) for v in judged], default=0.0)
    return min(max(5 - math.floor(math.log10(largest)), _FEWEST), _MOST) if largest > 0 else _FEWEST


def _cut(name: str, values: NDArray[np.float64], places: int) -> NDArray[np.float64]:
    """A column with so many decimals; the ends of intervals are rounded outwards."""
    round_ = {"lower": np.floor, "upper": np.ceil}.get(name.rpartition("_")[2], np.rint)
    return np.asarray(np.round(round_(values * 10.0**places) / 10.0**places, places))
