"""Whatever has tables of what a plan measured: a release, a projection, estimates, and all of these rounded.

How the numbers are found, and how they err, is one method of each (`_told`); which tables there are, in which order,
and what is said of them, is the same for all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np

from residua.domain import Domain
from residua.errors import PlanError, named
from residua.linalg.arrays import Floats
from residua.plans.contract import Plan
from residua.plans.targets import USUAL_CONFIDENCE
from residua.published.table import QUERY, Table, domain_of_queries
from residua.quoting import Quotable
from residua.release.tables import MOST_ROWS, TermTable, is_listable, parts_of, require_listable, term_of, whole_part
from residua.workload import AskedRows, Term, Workload

Simultaneous = Literal["table", "release"]
Sure = tuple[float | None, Simultaneous | None]  # how often an interval holds, and which hold together
Errors = Callable[[float], Mapping[str, Any]]  # how many intervals hold at once → arguments of `Table`, flat


class Tabled(Quotable, ABC):
    """Tables that were asked of a plan, made from what was measured."""

    planned: Plan  # as it was made
    receipt: Mapping[str, Any]  # what the ledger recorded when it was debited
    table_type: ClassVar[type[Table]] = Table

    @property
    def domain(self) -> Domain:
        """What the table may hold."""
        return self.planned.domain

    @property
    @abstractmethod
    def nonnegative(self) -> bool:
        """Whether no cell is negative."""

    @property
    @abstractmethod
    def biased(self) -> str:
        """What is said of numbers that are biased; nothing where they are not."""

    @property
    @abstractmethod
    def counted(self) -> str:
        """What the tables count, in words, where that is not every record, and how much that leaves out."""

    @abstractmethod
    def missing_records(
        self, names: tuple[str, ...] | None, estimates: Floats, confidence: float
    ) -> tuple[dict[str, Floats], Floats | float]:
        """Columns of the records left out of each cell of a table, and about how many each number lacks."""

    @abstractmethod
    def estimates(self, attributes: Sequence[str]) -> Floats:
        """The marginal on these attributes, an array with one axis each, in this order.

        Raises:
            PlanError: it is not answered.
        """

    @abstractmethod
    def _told(self, workload: Workload, confidence: float | None) -> tuple[Floats, Errors]:
        """The answers to every query of a workload, (queries,), and how they err.

        Raises:
            PlanError: a query is not answered.
        """

    # ---- tables

    def table(
        self,
        attributes: Sequence[str],
        *,
        queries: Mapping[str, AskedRows] | None = None,
        confidence: float | None = USUAL_CONFIDENCE,
        simultaneous: Simultaneous | None = None,
    ) -> Table:
        """The marginal on these attributes, or a table of prefixes, ranges or levels of them, with intervals.

        Args:
            attributes: which attributes, in the order of the columns; `[]` for the total.
            queries: attribute → `"prefixes"`, `"ranges"`, `"hierarchy"`, the name of one of its levels, or a matrix;
                the other attributes by their values.
            confidence: how often an interval holds the truth, of biased numbers at least; None for no intervals.
            simultaneous: `"table"` for intervals that all hold together with that confidence over this table,
                `"release"` over all numbers that were asked for.

        Raises:
            PlanError: the table is not answered.
        """
        names = self.domain.listed(attributes)
        if queries or self.domain.holds_amounts(names):
            return self._product(names, queries or {}, (confidence, simultaneous))
        return self._marginal(names, (confidence, simultaneous))

    def _marginal(self, names: tuple[str, ...], sure: Sure) -> Table:
        """A table whose rows are the values of its attributes."""
        return replace(self._product(names, {}, sure), labels=None, title="")

    def _product(self, names: tuple[str, ...], queries: Mapping[str, AskedRows], sure: Sure) -> Table:
        """A table of rows with labels of their own."""
        workload = term_of(self.domain, names, queries)
        require_listable(workload)
        [term] = workload.terms()
        order = np.argsort(np.argsort(self.domain.positions(names))).tolist()
        whole = whole_part(self.domain, [term[i] for i in order])
        return next(self._tables_of(workload, term, [whole], order, sure))

    def tables(
        self,
        *,
        confidence: float | None = USUAL_CONFIDENCE,
        simultaneous: Simultaneous | None = None,
        most: int | None = None,
    ) -> Iterator[Table]:
        """Every table that was asked for: one per term, and of a hierarchy one per level, each with its title.

        Levels add up: all are read off the same estimates.

        Args:
            confidence: as for `table`.
            simultaneous: as for `table`.
            most: terms of more prefixes, ranges or groups than this are passed over; if left out, one that is too long
                to list is refused.

        Raises:
            PlanError: nothing was asked, queries that make no tables (see `answers`), or a term too long to list.
        """
        workload = None if self.planned.workload is None else self.planned.workload.published
        if workload is None:
            raise PlanError("the release was not asked for tables; use answers() for single queries.")
        if most is None:
            require_listable(workload)
        yield from self._listed(workload, (confidence, simultaneous), most)

    def _listed(self, workload: Workload, sure: Sure, most: int | None) -> Iterator[Table]:
        """The tables of a workload, without terms that are too long."""
        for term, alone in zip(workload.terms(), workload.each(), strict=True):
            if most is None or is_listable(term, most):
                yield from self._tables_of(alone, term, parts_of(self.domain, term), range(len(term)), sure)

    def asked_tables(self, *, confidence: float | None = USUAL_CONFIDENCE) -> Iterator[Table]:
        """Every table that was asked for and can be listed, then what was asked as single queries, as a table.

        Raises:
            PlanError: nothing was asked.
        """
        workload = self.planned.workload
        if workload is None:
            raise PlanError("the release was measured without a workload, so that there are no tables to list.")
        if workload.tables is not None:
            yield from self.tables(confidence=confidence, most=MOST_ROWS)
        if workload.single_queries is not None:
            yield self.answers(workload.single_queries, confidence=confidence)

    def _tables_of(
        self, workload: Workload, term: Term, parts: Iterable[TermTable], order: Sequence[int], sure: Sure
    ) -> Iterator[Table]:
        """Tables that a term, alone in a workload, makes, with its attributes in some order."""
        shape = [asked.rows for _, asked in term]
        names = tuple(self.domain.names[term[i][0]] for i in order)
        by_value = names if all(asked.plain for _, asked in term) else None
        answers, errors = self._told(workload, sure[0])
        estimates = answers.reshape(shape).transpose(order)
        for part in parts:
            cells = np.array(estimates[part.rows], order="C")
            own = {
                name: each if np.ndim(each) == 0 else np.reshape(each, shape).transpose(order)[part.rows]
                for name, each in errors(self._together(sure, cells.size)).items()
            }
            yield self._made(names, cells, part, own, by_value, sure)

    def answers(
        self,
        workload: Workload | None = None,
        *,
        confidence: float | None = USUAL_CONFIDENCE,
        simultaneous: Simultaneous | None = None,
    ) -> Table:
        """The answers to every query of a workload, with intervals; of what was asked, if none is given.

        Raises:
            PlanError: a query cannot be answered from what was measured; or nothing was asked, and none is given.
        """
        workload = self.planned.workload if workload is None else workload
        if workload is None:
            raise PlanError("workload: the release was measured without one; say which queries to answer.")
        require_listable(workload)
        sure = confidence, simultaneous
        answers, errors = self._told(workload, confidence)
        own = errors(self._together(sure, len(answers)))
        part = TermTable("queries", (), (tuple(workload.query_labels()),))
        return replace(self._made(QUERY, answers, part, own, None, sure), domain=domain_of_queries(len(answers)))

    def _made(
        self,
        names: tuple[str, ...],
        cells: Floats,
        part: TermTable,
        errors: Mapping[str, Any],
        by_value: tuple[str, ...] | None,
        sure: Sure,
    ) -> Table:
        """A table, with what is counted and what is left out of it."""
        confidence, simultaneous = sure
        columns, lacks = self.missing_records(by_value, cells, confidence or USUAL_CONFIDENCE)
        lacks = np.inf if self.domain.clips(names) else lacks
        return self.table_type(
            self.domain, names, cells, labels=part.labels, title=part.title, confidence=confidence,
            simultaneous=simultaneous, counts=self._counted(names), beside=columns, missing=lacks, **errors,
        )  # fmt: skip

    def _counted(self, names: tuple[str, ...]) -> str:
        """What a table of these attributes counts, in words, where that is not every record."""
        return "; ".join(filter(None, (self.counted, self.domain.clipping(names))))

    @property
    def asked_cells(self) -> float:
        """How many numbers were asked for."""
        return float(self.planned.workload.as_read.queries) if self.planned.workload is not None else 1.0

    def _together(self, sure: Sure, cells: int) -> float:
        """How many intervals of a table must hold at once."""
        _, simultaneous = sure
        if simultaneous not in (None, "table", "release"):
            raise PlanError(f"simultaneous={named(simultaneous)} is not 'table', 'release' or None.")
        if simultaneous is None:
            return 1.0
        return float(cells) if simultaneous == "table" else max(self.asked_cells, float(cells))
