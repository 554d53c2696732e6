"""How accurate what is published is: one row per table asked for, and from which size on its numbers are reliable."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from residua.formats.quality import grades, sizes_for
from residua.linalg.arrays import Floats
from residua.plans.contract import Plan
from residua.plans.tails import width
from residua.release.queried import term_title
from residua.workload import Explicit, Marginals, Products

LISTED = 60
NORMAL_REACH = width(0.95)
LAPLACE_REACH = math.log(1 / 0.05) / math.sqrt(2)  # of one Laplace variable; sums of several reach less far
_MOST_QUERIES = 2**22
_MOST_TERMS = 2**17  # beyond, errors are not worked out for a page that lists forty of them


@dataclass(frozen=True)
class Listed:
    """A table (or a query) and how accurate it is.

    Args:
        title: what it is.
        numbers: how many numbers it has.
        stddev: the standard error of one number, the root mean square where they differ.
        reliable: from which size on a number is reliable.
        caution: from which size on it is to be used with caution, below that size.
        flagged: how many of the published numbers have each flag; None before anything is measured.
        reach: how many standard errors the 95 % margin is.
        told: how many of the numbers are told at all; fewer than all where groups were measured differently.
    """

    title: str
    numbers: int
    stddev: float
    reliable: float
    caution: float
    flagged: tuple[int, int, int] | None = None
    reach: float = NORMAL_REACH
    told: int | None = None

    @property
    def counted(self) -> str:
        """How many numbers there are, and how many of them are told where that is not all."""
        every = f"{self.numbers:,}"
        return every if self.told in (None, self.numbers) else f"{self.told:,} of {every}"

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
    listed: tuple[Listed, ...]
    spread: tuple[float, float] | None

    @property
    def more(self) -> int:
        """How many are not listed."""
        return self.count - len(self.listed)

    @property
    def judged(self) -> bool:
        """Whether the numbers themselves were judged."""
        return any(one.flagged is not None for one in self.listed)

    @property
    def partial(self) -> bool:
        """Whether some tables have numbers that are not told."""
        return any(one.told not in (None, one.numbers) for one in self.listed)


def accuracy(plan: Plan, limit: int = LISTED) -> Accuracy | None:
    """How accurate a plan's answers are, before anything is measured; None where nothing was asked."""
    workload = plan.workload
    if workload is None:
        return None
    titles = list(islice(_titles(workload), limit))
    what = "queries" if isinstance(workload, Explicit) else "tables"
    count = workload.queries if isinstance(workload, Explicit) else len(workload)
    if count > _MOST_TERMS:
        return Accuracy(what, count, workload.queries, (), None)
    variances, told = _told(plan, workload)
    sizes = np.ones(count) if isinstance(workload, Explicit) else workload.cells
    reach = LAPLACE_REACH if plan.noise.currency == "epsilon" else NORMAL_REACH
    rows = zip(titles, sizes, np.sqrt(variances), told, strict=False)
    listed = tuple(listing(*one, reach=reach, told=int(known)) for *one, known in rows)
    stddevs = np.sqrt(variances[np.isfinite(variances)])
    spread = (float(stddevs.min()), float(stddevs.max())) if len(stddevs) else None
    return Accuracy(what, count, workload.queries, listed, spread)


def _told(plan: Plan, workload: Marginals | Products | Explicit) -> tuple[Floats, Floats]:
    """The mean variance of each term's numbers, of those that are told, and how many are."""
    found = plan.variances(workload, per="term")
    sizes = np.ones(len(found)) if isinstance(workload, Explicit) else np.asarray(workload.cells, dtype=np.float64)
    if np.isfinite(found).all() or workload.queries > _MOST_QUERIES or isinstance(workload, Explicit):
        return found, np.where(np.isfinite(found), sizes, 0.0)
    each = plan.variances(workload)  # plans by group: some cells are told, others are not
    starts = np.cumsum([0, *sizes.astype(np.int64)])[:-1]
    known = np.add.reduceat(np.isfinite(each).astype(np.float64), starts)
    sums = np.add.reduceat(np.where(np.isfinite(each), each, 0.0), starts)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(known > 0, sums / known, np.inf), known


def listing(
    title: str,
    numbers: float,
    stddev: float,
    flagged: tuple[int, int, int] | None = None,
    *,
    reach: float = NORMAL_REACH,
    told: int | None = None,
) -> Listed:
    """A table with its standard error, and what that means for its numbers."""
    return Listed(title, int(numbers), float(stddev), *sizes_for(float(stddev)), flagged, reach, told)


def rms(stddevs: Floats | float) -> float:
    """The root mean square of the standard errors that are finite; infinite where none is."""
    known = np.asarray(stddevs)[np.isfinite(stddevs)]
    return float(np.sqrt(np.mean(np.square(known)))) if known.size else math.inf


def tally(estimates: Floats, stddevs: Floats | float) -> tuple[int, int, int]:
    """How many numbers are reliable, to be used with caution, and unreliable; those that are not told are none."""
    told = np.isfinite(np.broadcast_to(stddevs, np.shape(estimates)))
    first, second, third = np.bincount(grades(estimates, stddevs)[told].ravel(), minlength=3).tolist()
    return first, second, third


def curves(found: Accuracy, most: int = 4) -> list[Listed]:
    """Tables whose errors stand for all that are listed: the most accurate, the least, and some between."""
    ordered = sorted((one for one in found.listed if 0 < one.stddev < math.inf), key=lambda one: one.stddev)
    distinct = [one for i, one in enumerate(ordered) if i == 0 or one.stddev > 1.15 * ordered[i - 1].stddev]
    if len(distinct) <= most:
        return distinct
    places = np.unique(np.linspace(0, len(distinct) - 1, most).round().astype(int))
    return [distinct[i] for i in places]


def _titles(workload: Marginals | Products | Explicit) -> Iterator[str]:
    if isinstance(workload, Explicit):
        return iter(workload.labels)
    if isinstance(workload, Marginals):
        return (" × ".join(names) or "(total)" for names in workload.sets)
    return (term_title(workload.domain, term) for term in workload.terms())
