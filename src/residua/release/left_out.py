"""What a bound on each person's records left out, said at the numbers: in words, and where it exceeds an interval."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, cast

import numpy as np

from residua.errors import PlanError
from residua.language import mark, say
from residua.linalg.arrays import Floats
from residua.published.quality import THRESHOLDS
from residua.published.table import LEFT_OUT, what_is_counted

if TYPE_CHECKING:
    from residua.privacy import Person
    from residua.release.base import Answered


def counts_of(release: Answered) -> str:
    """What the tables of a release count, in words, where that is not every record, and how much that leaves out."""
    if "weights" in release.receipt:
        column, most, step = (release.receipt[name] for name in ("weights", "weights_most", "weights_step"))
        if "weights_squared" in release.receipt:
            words = mark("counts squares of the survey weights of column {column}, in steps of {step:g}")
            return say(words, column=repr(column), step=most * step)
        words = mark(
            "counts survey weights of column {column}, up to {most:g}, in steps of {step:g}; without sampling error"
        )
        return say(words, column=repr(column), most=most, step=step)
    counted = what_is_counted(release.planned.unit)
    if release.left_out is None:
        unknown = say("how many that leaves out was not measured: numbers are too low by an unknown amount")
        return f"{counted}; {unknown}"
    lacking = say("leaves out {records}, which no interval here covers", records=in_figures(release))
    most = release.receipt["left_out_most"]
    seen = say("of each person at most {most} of these are seen", most=most) if open_ended(release.left_out) else ""
    return "; ".join(filter(None, (counted, lacking, seen)))


def open_ended(left: Answered) -> bool:
    """Whether some person may have more records left out than are seen of one, so that their number has no upper end.

    Such a person adds as many as are seen of one to what was measured in all.
    """
    return left.count().upper >= cast("Person", left.planned.unit).records


def in_figures(release: Answered) -> str:
    """How many records were left out, with an interval or from what on, and which share of all that is."""
    assert release.left_out is not None
    left, shares, least = release.left_out.count(), release.left_out_share, open_ended(release.left_out)
    ends = {name: getattr(left, name) for name in ("estimate", "lower", "upper")}
    words = mark("about {estimate:,.0f} records ({lower:,.0f} to {upper:,.0f})")
    of_all = mark("{share:.3g} % of all ({lower:.3g} to {upper:.3g} %)")
    if least:
        ends = {name: max(end, 0.0) for name, end in ends.items()}
        words = mark("at least about {estimate:,.0f} records ({lower:,.0f} or more)")
        of_all = mark("{share:.3g} % of all ({lower:.3g} % or more)")
    figures = say(words, **ends)
    if shares is None:
        return figures
    share = dict(zip(("share", "lower", "upper"), (100 * each for each in shares), strict=True))
    return f"{figures}, {say(of_all, **share)}"


def share_of(release: Answered) -> tuple[float, float, float] | None:
    """Which share of all records was left out, and its 95 % interval; None where the release does not tell its total.

    The interval is for the noise of what was left out, beside which that of what was counted is small. It ends at 1
    where some person may have more records than are seen.
    """
    if release.left_out is None:
        return None
    try:
        counted = max(release.count().estimate, 1.0)
    except PlanError:
        return None
    left = release.left_out.count()
    share, lower, upper = (each / (counted + each) for each in np.maximum([left.estimate, left.lower, left.upper], 0.0))
    return float(share), float(lower), 1.0 if open_ended(release.left_out) else float(upper)


def lacking(
    release: Answered, names: tuple[str, ...] | None, estimates: Floats, confidence: float
) -> tuple[dict[str, Floats], Floats | float]:
    """See `Answered.missing_records`."""
    left = release.left_out
    if left is None or names not in (*left.sets, ()):
        return {}, _missing(release, None, estimates)
    columns = left_out_columns(left, names, confidence)
    return columns, _missing(release, columns, estimates)


def left_out_columns(left: Answered, names: tuple[str, ...], confidence: float) -> dict[str, Floats]:
    """The records left out of each cell of a table that was measured of them, with intervals, flat.

    An upper end that is none is blank.
    """
    table = left.table(names, confidence=confidence)
    columns = {name: table.columns[own] for name, own in zip(LEFT_OUT, ("estimate", "lower", "upper"), strict=True)}
    return columns | ({LEFT_OUT[2]: np.full(len(table), np.nan)} if open_ended(left) else {})


def lacks_of(release: Answered) -> float:
    """Which share of itself every number lacks, by the share of all records: infinite if unknown.

    Unknown is what was not measured, or so that the share of all records could be larger by 16.5 % and more; and the
    sampling error of survey weights. 0 where noise alone explains what was measured.
    """
    shares = release.left_out_share
    if shares is None or shares[2] - shares[0] > THRESHOLDS[0]:
        return math.inf
    share, lower, _ = shares
    return share / (1 - share) if lower > 0 else 0.0


def _missing(release: Answered, columns: dict[str, Floats] | None, estimates: Floats) -> Floats | float:
    """About how many records each number lacks: by its own cell, where that was measured and noise does not explain it;
    else in proportion to the numbers."""
    if math.isinf(release.lacks):
        return math.inf
    evenly = np.abs(estimates) * release.lacks
    if columns is None:
        return evenly
    left, lower, _ = (columns[name].reshape(estimates.shape) for name in LEFT_OUT)
    return np.where(lower > 0, left, evenly)
