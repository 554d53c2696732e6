"""What is asked of tables without error bars, whoever made them: tables, answers, counts, whole numbers, files."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from residua.domain import Domain
from residua.errors import PlanError
from residua.linalg.arrays import Floats
from residua.plans.contract import Plan
from residua.projection.rounding import controlled_rounding
from residua.projection.tables import CountTable, ProjectedAnswers, ProjectedTable, export_long
from residua.published.table import what_is_counted
from residua.quoting import Answering, Points, Quotable
from residua.release.queried import is_listable, parts_of, require_listable, term_of, whole_part
from residua.workload import AskedRows, AttributeQueries, Where, Workload, applied, queries, selected


class Tabled(Quotable):
    """Tables that agree with each other, of the attributes of a plan's domain."""

    plan: Plan
    receipt: Mapping[str, Any]  # what the ledger recorded

    @property
    def domain(self) -> Domain:
        """What the table may hold."""
        return self.plan.domain

    @property
    @abstractmethod
    def nonnegative(self) -> bool:
        """Whether no cell is negative."""

    @property
    @abstractmethod
    def biased(self) -> str:
        """What is said of its numbers."""

    @property
    def _counted(self) -> str:
        return what_is_counted(self.plan.unit)

    def _answering(self) -> Answering:
        return Points(self.domain, self.estimates, self.biased, self._counted)

    @abstractmethod
    def estimates(self, attributes: Sequence[str]) -> Floats:
        """The marginal on these attributes, an array with one axis each, in this order.

        Raises:
            PlanError: it is not answered.
        """

    def table(self, attributes: Sequence[str], *, queries: Mapping[str, AskedRows] | None = None) -> ProjectedTable:
        """The marginal on these attributes, or a table of prefixes, ranges or levels of them; `[]` for the total.

        Args:
            attributes: which attributes, in the order of the columns.
            queries: attribute → `"prefixes"`, `"ranges"`, `"hierarchy"`, the name of one of its levels, or a matrix;
                the other attributes by their values.

        Raises:
            PlanError: the projection does not answer the marginal on these attributes.
        """
        names = self.domain.listed(attributes)
        found = self.estimates(names)
        if not queries:
            return ProjectedTable(self.domain, names, found, counted=self._counted)
        workload = term_of(self.domain, names, queries)
        require_listable(workload)
        asked = dict(next(workload.terms()))
        term = tuple((i, asked[i]) for i in self.domain.positions(names))
        whole = whole_part(self.domain, term)
        found = np.array(applied(term, found), order="C")
        return ProjectedTable(self.domain, names, found, whole.labels, whole.title, self._counted)

    def tables(self, *, most: int | None = None) -> Iterator[ProjectedTable]:
        """Every table that was asked for: one per term, and of a hierarchy one per level, each with its title.

        Args:
            most: terms of more prefixes, ranges or groups than this are passed over; if left out, one that is too long
                to list is refused.

        Raises:
            PlanError: nothing was asked, queries that make no tables (see `answers`), or a term too long to list.
        """
        workload = None if self.plan.workload is None else self.plan.workload.tables
        if workload is None:
            raise PlanError("the release was not asked for tables; use answers() for single queries.")
        if most is None:
            require_listable(workload)
        for term in workload.terms():
            if most is not None and not is_listable(term, most):
                continue
            names = tuple(self.domain.names[i] for i, _ in term)
            found = self._of_term(term)
            for part in parts_of(self.domain, term):
                cells = np.array(found[part.rows], order="C")
                yield ProjectedTable(self.domain, names, cells, part.labels, part.title, self._counted)

    def rounded(self, attributes: Sequence[str]) -> CountTable:
        """The marginal on these attributes in whole numbers, by controlled rounding; zeros stay zero.

        Guarantee: every cell is within one of its estimate, and so is the total; with one or two attributes every
        margin of the table is, too. Margins of the table are sums of its cells, hence whole numbers that add up.
        (Tables rounded apart need not agree with each other.)

        Raises:
            PlanError: unanswerable, or cells may be negative.
        """
        if not self.nonnegative:
            raise PlanError("only tables of non-negative numbers can be rounded; project with nonnegative=True.")
        rounding = controlled_rounding(self.estimates(attributes))
        return CountTable(self.domain, tuple(attributes), rounding.counts, rounding.margin_error, self._counted)

    def answers(self, workload: Workload | None = None) -> ProjectedAnswers:
        """The answers to every query of a workload, by default of the one the release was planned for.

        Raises:
            PlanError: a query is about attributes that the projection does not hold.
        """
        workload = self.plan.workload if workload is None else workload
        if workload is None:
            raise PlanError("workload: the release was measured without one; say which queries to answer.")
        if workload.domain != self.domain:
            raise PlanError("the projection and the workload are over different domains; declare one domain for both.")
        require_listable(workload)
        return ProjectedAnswers(tuple(workload.query_labels()), self._answered(workload), self._counted)

    def _answered(self, workload: Workload) -> Floats:
        """The answers to every query, (queries,); each from the table of its own attributes."""
        if workload.in_parts:
            found = np.empty(workload.queries)
            for part, places in workload.placed():
                found[places] = self._answered(part)
            return found
        if workload.plain:
            return np.concatenate([self.estimates(names).ravel() for names in workload.sets])
        if workload.with_rows:
            return np.concatenate([self._of_term(term).ravel() for term in workload.terms()])
        return self._of_queries(workload)

    def _of_term(self, term: Sequence[tuple[int, AttributeQueries]]) -> Floats:
        """What a product asks, (rows, …)."""
        return np.asarray(applied(term, self.estimates([self.domain.names[i] for i, _ in term])))

    def _of_queries(self, workload: Workload) -> Floats:
        """The answers to queries over the cells of some attributes, (queries,)."""
        return np.asarray(workload.matrix @ self.estimates(workload.names).ravel())

    def count(self, where: Where | str | None = None) -> float:
        """How many records have these values: a dictionary, or a condition in SQL, as `Release.count` takes it."""
        if isinstance(where, str):
            return float(self.answers(queries(self.domain, [where])).estimates[0])
        chosen = selected(self.domain, {} if where is None else where)
        found = self.estimates(tuple(chosen))
        for coefficients in reversed(list(chosen.values())):
            found = found @ coefficients
        return float(found)

    def export_long(
        self,
        folder: str | Path,
        sets: Iterable[Sequence[str]] | None = None,
        *,
        form: str = "csv",
        rounded: bool = False,
    ) -> list[Path]:
        """Writes tables in long form, attributes and a column `count`, and an index."""
        return export_long(self, Path(folder), sets, form=form, rounded=rounded)
