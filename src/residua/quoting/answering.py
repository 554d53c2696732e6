"""What gives numbers that can be quoted: estimates of linear combinations of counts, with their covariances if known.

`Answering` is the seam. Releases, pooled releases and sessions answer with exact covariances; projections and estimates
that borrow strength answer with numbers alone (`Points`), and what is quoted from them has no intervals.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from residua.domain import Domain
from residua.errors import PlanError
from residua.linalg.arrays import Floats
from residua.linalg.modes import along
from residua.quoting.terms import Term


class Answering(Protocol):
    """Estimates of products of rows, and how they err.

    A leading axis in front of those of the term is allowed everywhere: many estimates with one error structure, as of
    many simulated releases.
    """

    @property
    def domain(self) -> Domain:
        """What the table may hold."""
        ...

    @property
    def note(self) -> str:
        """Why nothing is known of errors, in words; nothing where the numbers are unbiased and their noise is known."""
        ...

    @property
    def remark(self) -> str:
        """What else readers must know, in words, such as that at most some records of each person are counted."""
        ...

    def estimates(self, term: Term) -> Floats:
        """An estimate of every product of rows, one axis per attribute of the term.

        Raises:
            PlanError: it cannot be answered; the message says what can.
        """
        ...

    def covariances(self, first: Term, second: Term, crossed: tuple[int, ...] = ()) -> Floats | None:
        """Covariances of the numbers of two terms with the same attributes, place by place; None if nothing is known.

        Rows are matched (or one row stands for all), except of the attributes in `crossed` (positions): of these every
        row of the first is paired with every row of the second, and the pairs are the last two axes.
        """
        ...

    def widths(
        self, first: Term, second: Term | None, factors: Floats, confidence: float, together: float
    ) -> float | Floats:
        """How many standard deviations an interval for `first − factors · second` reaches; one for all if normal."""
        ...


@runtime_checkable
class Running(Protocol):
    """What can answer for all running sums of a long attribute at once."""

    def running(self, position: int, q: float) -> tuple[Floats, Floats] | None:
        """Estimates and variances of `C_j − q N`, C the counts at or below each value, N of all, (n,) each; or None."""
        ...


@dataclass(frozen=True, eq=False)
class Points:
    """Numbers without errors: for whatever has tables, but no covariances.

    Args:
        domain: what the table may hold.
        table: the marginal on some attributes, an array with one axis each, in the order of the names.
        note: why there are no errors, in words.
        remark: what else readers must know, in words.
    """

    domain: Domain
    table: Callable[[Sequence[str]], Floats]
    note: str
    remark: str = ""

    def estimates(self, term: Term) -> Floats:
        """Rows along each axis of the marginal."""
        numbers = self.table(term.attributes)
        shown = [rows for rows in term.rows.values() if rows is not None]
        for axis, rows in enumerate(shown):
            numbers = along(rows, numbers, axis)
        return np.asarray(numbers).reshape(term.shape)

    def covariances(self, first: Term, second: Term, crossed: tuple[int, ...] = ()) -> None:
        """None: nothing is known of errors."""

    def widths(
        self, first: Term, second: Term | None, factors: Floats, confidence: float, together: float
    ) -> float | Floats:
        """Refuses: numbers without errors have no intervals."""
        raise PlanError("these numbers have no errors, hence no intervals; quote those of the release.")
