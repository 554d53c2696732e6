"""How accurate what is published is: one row per table asked for, and from which size on its numbers are reliable."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from residua.domain.words import title_in_words
from residua.language import mark, numeral, say
from residua.linalg.arrays import Floats
from residua.plans.contract import Plan
from residua.plans.tails import width
from residua.published.quality import sizes_for
from residua.workload import Workload

LISTED = 120
NORMAL_REACH = width(0.95)
LAPLACE_REACH = math.log(1 / 0.05) / math.sqrt(2)  # of one Laplace variable; sums of several reach less far
_MOST_QUERIES = 2**22
_MOST_TERMS = 2**17  # beyond, errors are not worked out for a page that lists forty of them


@dataclass(frozen=True)
class ListedTable:
    """A table (or a query) and how accurate it is.

    Args:
        title: what it is.
        numbers: how many numbers it has.
        stddev: the standard error of one number, the root mean square where they differ.
        reliable: from which size on a number is reliable.
        caution: from which size on it is to be used with caution, below that size.
        reach: how many standard errors the 95 % margin is.
        known: how many of the numbers are told at all; fewer than all where groups were measured differently.
    """

    title: str
    numbers: int
    stddev: float
    reliable: float
    caution: float
    reach: float = NORMAL_REACH
    known: int | None = None

    @property
    def counted(self) -> str:
        """How many numbers there are, and how many of them are told where that is not all."""
        if self.known in (None, self.numbers):
            return numeral(f"{self.numbers:,}")
        return say("{known} of {all}", known=self.known, all=self.numbers)

    @property
    def margin(self) -> float:
        """The 95 % margin of error of one number."""
        return self.reach * self.stddev


@dataclass(frozen=True)
class Accuracy:
    """What is published, and how accurate it is.

    Args:
        what: "tables" or "queries".
        count: how many there are.
        numbers: how many numbers in all.
        listed: the first of them.
        spread: the smallest and the largest standard error of all; None where there are too many to say.
    """

    what: str
    count: int
    numbers: int
    listed: tuple[ListedTable, ...]
    spread: tuple[float, float] | None

    @property
    def one(self) -> str:
        """What one of them is called."""
        return mark("table") if self.what == "tables" else mark("query")

    @property
    def more(self) -> int:
        """How many are not listed."""
        return self.count - len(self.listed)

    @property
    def partial(self) -> bool:
        """Whether some tables have numbers that are not told."""
        return any(one.known not in (None, one.numbers) for one in self.listed)


def accuracy(plan: Plan, limit: int = LISTED) -> Accuracy | None:
    """How accurate a plan's answers are, before anything is measured; None where nothing was asked."""
    if plan.workload is None:
        return None
    workload = plan.workload.as_read
    titles = list(islice(titles_of(workload), limit))
    what, count = "queries" if workload.noun == "queries" else "tables", len(workload)
    if count > _MOST_TERMS:
        return Accuracy(what, count, workload.queries, (), None)
    variances, known = _known(plan, workload)
    reach = LAPLACE_REACH if plan.noise.currency == "epsilon" else NORMAL_REACH
    listed = tuple(
        ListedTable(title, int(numbers), float(stddev), *sizes_for(float(stddev)), reach, int(count))
        for title, numbers, stddev, count in zip(titles, workload.cells, np.sqrt(variances), known, strict=False)
    )
    stddevs = np.sqrt(variances[np.isfinite(variances)])
    spread = (float(stddevs.min()), float(stddevs.max())) if len(stddevs) else None
    return Accuracy(what, count, workload.queries, listed, spread)


def titles_of(workload: Workload) -> Iterator[str]:
    """What each table is called, in words."""
    return (title_in_words(workload.domain, title) for title in workload.titles())


def _known(plan: Plan, workload: Workload) -> tuple[Floats, Floats]:
    """The mean variance of each term's numbers, of those that are told, and how many are."""
    means = plan.variances(workload, per="term")
    if np.isfinite(means).all() or workload.queries > _MOST_QUERIES:
        return means, np.where(np.isfinite(means), workload.cells, 0.0)
    each = plan.variances(workload)  # plans by group: some cells are told, others are not
    known = np.add.reduceat(np.isfinite(each).astype(np.float64), workload.starts)
    sums = np.add.reduceat(np.where(np.isfinite(each), each, 0.0), workload.starts)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(known > 0, sums / known, np.inf), known


def curves(accuracy: Accuracy, most: int = 4) -> list[ListedTable]:
    """Tables whose errors stand for all that are listed: the most accurate, the least, and some between."""
    ordered = sorted((one for one in accuracy.listed if 0 < one.stddev < math.inf), key=lambda one: one.stddev)
    distinct = [one for i, one in enumerate(ordered) if i == 0 or one.stddev > 1.15 * ordered[i - 1].stddev]
    if len(distinct) <= most:
        return distinct
    return [distinct[i] for i in np.unique(np.linspace(0, len(distinct) - 1, most).round().astype(int))]
