"""One linear number, or two whose ratio is quoted: estimates, covariances, and the interval that fits the noise."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from residua.domain import Domain
from residua.errors import PlanError
from residua.linalg.arrays import Floats
from residua.quoting.answering import Answering
from residua.quoting.fieller import Moments, fieller
from residua.quoting.terms import Axis, Groups, Term


@dataclass(frozen=True)
class Level:
    """How sure intervals are.

    Args:
        confidence: how often an interval holds the truth.
        together: how many must hold at once.
    """

    confidence: float
    together: float = 1.0


@dataclass(frozen=True, eq=False)
class Found:
    """Numbers with their errors, arrays of one shape; errors are NaN where nothing is known of them.

    Args:
        estimate: the numbers.
        stddev: their standard errors.
        lower: lower ends of the intervals.
        upper: upper ends.
        remarks: what a reader must know, in words.
    """

    estimate: Floats
    stddev: Floats
    lower: Floats
    upper: Floats
    remarks: tuple[str, ...] = ()

    def arranged(self, groups: Groups, term: Term, last: int | None = None) -> Found:
        """With the axes of the groups in the order asked; see `Groups.arranged`."""
        return self.mapped(lambda part: groups.arranged(part, term, last))

    def mapped(self, change: Callable[[Floats], Floats]) -> Found:
        """All four arrays changed in the same way."""
        four = [change(part) for part in (self.estimate, self.stddev, self.lower, self.upper)]
        return Found(four[0], four[1], four[2], four[3], self.remarks)

    def shifted(self, by: float) -> Found:
        """All moved by a number."""
        return replace(self, estimate=self.estimate + by, lower=self.lower + by, upper=self.upper + by)


def unknown(estimate: Floats, *remarks: str) -> Found:
    """Numbers of whose errors nothing is known."""
    nothing = np.full(estimate.shape, np.nan)
    return Found(estimate, nothing, nothing, nothing, tuple(filter(None, remarks)))


def linear(answering: Answering, term: Term, level: Level) -> Found:
    """A linear number for each product of rows: exact for its noise, normal or Laplace."""
    estimate = answering.estimates(term)
    variance = answering.covariances(term, term)
    if variance is None:
        return unknown(estimate)
    width = answering.widths(term, None, np.zeros(()), level.confidence, level.together)
    stddev = np.broadcast_to(np.sqrt(np.maximum(variance, 0.0)), estimate.shape)
    return Found(estimate, stddev, estimate - width * stddev, estimate + width * stddev)


@dataclass(frozen=True, eq=False)
class Pair:
    """Two numbers for each place, of terms with the same attributes (one row may stand for all).

    Args:
        answering: where the numbers come from.
        first: the numerators.
        second: the denominators.
    """

    answering: Answering
    first: Term
    second: Term

    @cached_property
    def moments(self) -> Moments | None:
        """Estimates and covariances; None where errors are not known."""
        terms = ((self.first, self.first), (self.first, self.second), (self.second, self.second))
        found = [self.answering.covariances(*both) for both in terms]
        if any(part is None for part in found):
            return None
        v_aa, v_ab, v_bb = (part for part in found if part is not None)
        return Moments(*self.estimates, v_aa, v_ab, v_bb)

    @cached_property
    def estimates(self) -> tuple[Floats, Floats]:
        """Of the numerators and the denominators, of one shape."""
        a, b = np.broadcast_arrays(self.answering.estimates(self.first), self.answering.estimates(self.second))
        return a, b

    def ratio(self, level: Level, lowest: float, highest: float) -> Found:
        """The ratios, with Fieller's intervals."""
        moments = self.moments
        if moments is None:
            with np.errstate(divide="ignore", invalid="ignore"):
                found = np.asarray(self.estimates[0] / self.estimates[1])
            return unknown(np.where(np.isfinite(found), found, np.nan), _empty(int((self.estimates[1] == 0).sum())))
        centre = np.nan_to_num(moments.ratio, nan=0.0, posinf=0.0, neginf=0.0)
        widths = self._widths(centre, level)
        lower, upper, open_ended = fieller(moments, widths, widths, lowest, highest)
        if np.ndim(widths):  # noise that is not normal: the reach of `a − r b` depends on r
            # Ends found with the reach at the estimate have it right to a percent; theirs, then, to a part in 10^4.
            low, high = (self._widths(np.where(np.isfinite(end), end, centre), level) for end in (lower, upper))
            lower, upper, open_ended = fieller(moments, low, high, lowest, highest)
        stddev = np.where(open_ended, np.inf, moments.stddev)
        count = int(open_ended.sum())
        said = (
            f"the noise of {count:,} of {open_ended.size:,} denominators reaches zero: no bounded interval would hold"
        )
        return Found(moments.ratio, stddev, lower, upper, (said,) if count else ())

    def over_known(self, total: Floats, level: Level, lowest: float, highest: float) -> Found:
        """The ratios to public totals: what the release says of the total improves the numerator, and no noise is left
        below. `a − (v_ab/v_bb) (b − total)` is the best unbiased estimate of α, linear, with variance
        `v_aa − v_ab²/v_bb`."""
        a, b = self.estimates
        moments = self.moments
        if moments is None:
            return unknown(a / total)
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = np.where(moments.v_bb > 0, moments.v_ab / moments.v_bb, 0.0)
        estimate = (a - slope * (b - total)) / total
        stddev = np.sqrt(np.maximum(moments.v_aa - slope * moments.v_ab, 0.0)) / total
        width = self._widths(slope, level)
        lower, upper = (np.clip(estimate + sign * width * stddev, lowest, highest) for sign in (-1, 1))
        return Found(estimate, np.broadcast_to(stddev, estimate.shape), lower, upper, ("with a public total",))

    def _widths(self, factors: Floats, level: Level) -> float | Floats:
        return self.answering.widths(self.first, self.second, factors, level.confidence, level.together)


def _empty(count: int) -> str:
    return f"{count:,} groups are empty, and have no ratio" if count else ""


def known_total(total: object, domain: Domain, axes: Sequence[Axis], term: Term) -> Floats | None:
    """A public total, or one for each label of the one attribute that the totals are told apart by, over a term.

    Raises:
        PlanError: not positive, or not one for each label.
    """
    if total is None:
        return None
    if not isinstance(total, Mapping):
        if axes:
            raise PlanError("total: one total is for all records; for groups give {label: total}, or leave it out.")
        return np.full([1] * len(term.rows), _positive(total))
    if len(axes) != 1:
        raise PlanError("total: a total for each label needs groups of exactly one attribute; give one number.")
    [(name, labels)] = axes
    given = {label: _positive(each) for label, each in total.items()}
    if set(given) != set(labels):
        raise PlanError(f"total: give a number for each value of {name!r}, {{{labels[0]!r}: …}}.")
    shape = [len(labels) if i == domain.position(name) else 1 for i in term.rows]
    return np.array([given[label] for label in labels]).reshape(shape)


def _positive(total: object) -> float:
    if isinstance(total, bool) or not isinstance(total, int | float | np.number) or not 0 < float(total) < np.inf:
        raise PlanError(f"total={total!r} is not a positive number; give the public number of records.")
    return float(total)
