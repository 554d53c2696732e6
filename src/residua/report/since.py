"""What changed since an earlier release: the total, and the main tables of one attribute, with intervals."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np

from residua.errors import PlanError
from residua.language import say
from residua.release import Answered
from residua.release.change import change
from residua.report.charts import draw_bars
from residua.report.page import Section, section
from residua.report.pictures import BARS, Picture, title
from residua.report.series import Series
from residua.report.svg import number

_CHARTS = 6


def since_section(this: Any, last: Any) -> Section:
    """The section about what changed.

    Raises:
        PlanError: one of them is no release, or they are the same.
    """
    if not isinstance(this, Answered) or not isinstance(last, Answered):
        raise PlanError("since: a release can be compared with an earlier release; give two releases.")
    (total,) = change(this, last)
    said = say(
        "The number of records changed by {change} (95 % interval: {low} to {high}).",
        change=number(total["estimate"]),
        low=number(total["lower"]),
        high=number(total["upper"]),
    )
    charts = list(islice(_charts(this, last), _CHARTS))
    return section("since", say("What changed since the earlier release"), said=said, pictures=charts)


def _charts(this: Any, last: Any) -> Iterator[Picture]:
    """Changes by the values of each attribute that both releases tell."""
    for name in this.domain.names:
        if name not in last.domain.names or this.domain[name].size > BARS:
            continue
        try:
            quoted = change(this, last, [name])
        except PlanError:  # one of the two does not tell it, or by other values
            continue
        lower, upper = (np.asarray(quoted[end], dtype=np.float64) for end in ("lower", "upper"))
        unclear = np.where((lower <= 0) & (upper >= 0), 2, 0)
        labels = tuple(map(str, quoted[name]))
        series = Series(
            (title(this.domain, name),), (labels,), np.asarray(quoted["estimate"]), lower, upper, unclear, whole=True
        )
        caption = say("A dashed bar, with its number in brackets: there may have been no change.")
        yield Picture(title(this.domain, name), draw_bars(series, name), caption)
