"""Tables of biased numbers, with intervals and no standard deviations; and whatever has such tables that agree."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from residua.domain import Domain, Label
from residua.errors import PlanError
from residua.language import say
from residua.linalg.arrays import Floats
from residua.plans.contract import Plan
from residua.plans.tails import check_confidence
from residua.plans.targets import USUAL_CONFIDENCE
from residua.projection.assisted import ASSISTED
from residua.published.columns import Columns
from residua.published.quality import Flag
from residua.published.replicates import Replicates
from residua.published.streaming import axis_labels, ends_of, label_columns
from residua.published.table import QUERY, domain_of_queries, how_far
from residua.quoting import Answering, Points, Quotable
from residua.release.base import Release
from residua.release.tables import MOST_ROWS, is_listable, parts_of, require_listable, term_of, whole_part
from residua.workload import AskedRows, AttributeQueries, Where, Workload, applied, queries, selected


class Tabled(Quotable):
    """Tables that agree with each other, of the attributes of a plan's domain."""

    release: Release  # that they were made from
    assisted: bool = False  # whether intervals are the narrower ones

    @property
    def plan(self) -> Plan:
        """The release's plan."""
        return self.release.plan

    @property
    def receipt(self) -> Mapping[str, Any]:
        """What the ledger recorded when the release was paid for."""
        return self.release.receipt

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
    def counted(self) -> str:
        """What the tables count, in words, where that is not every record, and how much that leaves out."""
        return self.release.counted

    def _answering(self) -> Answering:
        return Points(self.domain, self.estimates, self.biased, self.counted)

    @abstractmethod
    def estimates(self, attributes: Sequence[str]) -> Floats:
        """The marginal on these attributes, an array with one axis each, in this order.

        Raises:
            PlanError: it is not answered.
        """

    def ends(self, workload: Workload, estimates: Floats, confidence: float) -> tuple[Floats, ...] | None:
        """The ends of intervals around the answers to every query of a workload, (queries,) each; None: there are none.

        A third array may say which are only bounds.

        Args:
            workload: one term, or queries.
            estimates: the answers, (queries,).
            confidence: how often an interval holds the truth, at least.
        """
        return None

    def _with_ends(self, workload: Workload, cells: Floats, confidence: float | None) -> list[Floats]:
        """The cells of a term, and the ends of their intervals in the same shape, if there are any."""
        if confidence is None:
            return [cells]
        check_confidence(confidence)
        return [cells, *(each.reshape(cells.shape) for each in self.ends(workload, cells.ravel(), confidence) or ())]

    def table(
        self,
        attributes: Sequence[str],
        *,
        queries: Mapping[str, AskedRows] | None = None,
        confidence: float | None = 0.95,
    ) -> ProjectedTable:
        """The marginal on these attributes, or a table of prefixes, ranges or levels of them; `[]` for the total.

        Args:
            attributes: which attributes, in the order of the columns.
            queries: attribute → `"prefixes"`, `"ranges"`, `"hierarchy"`, the name of one of its levels, or a matrix;
                the other attributes by their values.
            confidence: how often an interval holds the truth, at least; None for no intervals.

        Raises:
            PlanError: the projection does not answer the marginal on these attributes.
        """
        names = self.domain.listed(attributes)
        cells, workload = self.estimates(names), term_of(self.domain, names, queries or {})
        require_listable(workload)
        [asked] = workload.terms()
        order = np.argsort(np.argsort(self.domain.positions(names)))
        inside = applied(asked, cells.transpose(np.argsort(order)))
        parts = [np.array(each.transpose(order), order="C") for each in self._with_ends(workload, inside, confidence)]
        whole = whole_part(self.domain, [asked[i] for i in order])
        labelled = queries or self.domain.holds_amounts(names)
        labels, title = (whole.labels, whole.title) if labelled else (None, "")
        return self._made(names, parts, labels, title, confidence)

    def _made(
        self, names: tuple[str, ...], parts: Sequence[Floats], labels: Any, title: str, confidence: float | None
    ) -> ProjectedTable:
        """A table of estimates and, if there are any, the ends of their intervals."""
        ends = (parts[1], parts[2]) if len(parts) > 1 else None
        of_values = labels is None or (names != QUERY and list(labels) == [self.domain[n].labels for n in names])
        by_value = names if of_values else None
        lacking = self.release.missing_records(by_value, parts[0], confidence or USUAL_CONFIDENCE)
        said = "; ".join(filter(None, (ASSISTED if self.assisted else "", self.counted, self.domain.clipping(names))))
        return ProjectedTable(self.domain, names, parts[0], labels, title, said, ends, confidence, *lacking)

    def tables(self, *, confidence: float | None = 0.95, most: int | None = None) -> Iterator[ProjectedTable]:
        """Every table that was asked for: one per term, and of a hierarchy one per level, each with its title.

        Args:
            confidence: how often an interval holds the truth, at least; None for no intervals.
            most: terms of more prefixes, ranges or groups than this are passed over; if left out, one that is too long
                to list is refused.

        Raises:
            PlanError: nothing was asked, queries that make no tables (see `answers`), or a term too long to list.
        """
        workload = None if self.plan.workload is None else self.plan.workload.published
        if workload is None:
            raise PlanError("the release was not asked for tables; use answers() for single queries.")
        if most is None:
            require_listable(workload)
        for term, alone in zip(workload.terms(), workload.each(), strict=True):
            if most is not None and not is_listable(term, most):
                continue
            names = tuple(self.domain.names[i] for i, _ in term)
            whole = self._with_ends(alone, self._of_term(term), confidence)
            for part in parts_of(self.domain, term):
                parts = [np.array(each[part.rows], order="C") for each in whole]
                yield self._made(names, parts, part.labels, part.title, confidence)

    def asked_tables(self, *, confidence: float | None = 0.95) -> Iterator[ProjectedTable]:
        """Every table that was asked for and can be listed, then what was asked as single queries, as a table.

        Raises:
            PlanError: nothing was asked.
        """
        workload = self.plan.workload
        if workload is None:
            raise PlanError("the release was measured without a workload, so that there are no tables to list.")
        if workload.tables is not None:
            yield from self.tables(confidence=confidence, most=MOST_ROWS)
        if workload.single_queries is not None:
            yield self.answers(workload.single_queries, confidence=confidence)

    def _replicated(self, drawn: Sequence[Any], note: str) -> Replicates[Any]:
        """Replicates of these tables, with the columns that their file has."""
        names, workload = tuple(self.domain.names[i] for i in sorted(self.plan.measured_attributes)), self.plan.workload
        names += ("query",) if workload is not None and workload.single_queries is not None else ()
        return Replicates(tuple(drawn), names, note)

    def answers(self, workload: Workload | None = None, *, confidence: float | None = 0.95) -> ProjectedTable:
        """The answers to every query of a workload, by default of the one the release was planned for.

        Args:
            workload: the queries.
            confidence: how often an interval holds the truth, at least; None for no intervals.

        Raises:
            PlanError: a query is about attributes that the projection does not hold.
        """
        workload = self.plan.workload if workload is None else workload
        if workload is None:
            raise PlanError("workload: the release was measured without one; say which queries to answer.")
        if workload.domain != self.domain:
            raise PlanError("the projection and the workload are over different domains; declare one domain for both.")
        require_listable(workload)
        parts = self._with_ends(workload, self.answered(workload), confidence)
        answers = self._made(QUERY, parts, (tuple(workload.query_labels()),), "queries", confidence)
        return replace(answers, domain=domain_of_queries(len(answers)))

    def answered(self, workload: Workload) -> Floats:
        """The answers to every query, (queries,); each from the table of its own attributes."""
        if workload.in_parts:
            answers = np.empty(workload.queries)
            for part, places in workload.placed():
                answers[places] = self.answered(part)
            return answers
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
        total = self.estimates(tuple(chosen))
        for coefficients in reversed(list(chosen.values())):
            total = total @ coefficients
        return float(total)


@dataclass(frozen=True, eq=False, repr=False)
class ProjectedTable(Columns):
    """A table of a projection, tidy: attributes, estimate, lower, upper. No standard deviation: estimates are biased.

    Args:
        domain: where the labels come from.
        attributes: the table's attributes, in the order asked.
        estimates: not negative, consistent with every other table of the projection, (n_1, …, n_k).
        labels: what each row of each axis is, where that is not the attributes' values (prefixes, ranges, levels).
        title: which table this is, in words.
        counted: what is counted, in words, where that is not every record.
        ends: of the intervals, the lower and the upper, each like the estimates; None where none was asked for.
        confidence: how often an interval holds the truth, at least.
        beside: further columns of numbers, flat: how many records were left out of each cell.
        missing: about how many records each number lacks; infinite where that is unknown.
        moved: how far each number is from the estimate that it was rounded from, if it was.
    """

    domain: Domain
    attributes: tuple[str, ...]
    estimates: Floats
    labels: tuple[Sequence[Label], ...] | None = None
    title: str = ""
    counted: str = ""
    ends: tuple[Floats, Floats] | None = None
    confidence: float | None = None
    beside: Mapping[str, Floats] = field(default_factory=dict)
    missing: Floats | float = 0.0
    moved: Floats | None = None

    def __post_init__(self) -> None:
        for each in (self.estimates, *(self.ends or ())):
            each.setflags(write=False)

    def __len__(self) -> int:
        return self.estimates.size

    @property
    def keys(self) -> tuple[str, ...]:
        """The table's attributes."""
        return self.attributes

    @property
    def note(self) -> str:
        """What the intervals mean, and what is counted if that is not every record."""
        if self.ends is None or self.confidence is None or np.isnan(self.ends[0]).all():
            return "; ".join(filter(None, (how_far(self), self.counted)))
        means = say("lower to upper: {confidence:.10g} % intervals, each by itself", confidence=100 * self.confidence)
        return "; ".join(filter(None, (means, how_far(self), self.counted)))

    def rounded_to(self, counts: Floats) -> ProjectedTable:
        """The same in whole numbers near the estimates; intervals hold these as well."""
        ends = self.ends
        if ends is not None:
            ends = (np.minimum(ends[0], counts), np.maximum(ends[1], counts))
        return replace(self, estimates=counts, ends=ends, moved=np.abs(counts - self.estimates))

    @property
    def standard_errors(self) -> Floats | None:
        """As wide as normal noise would have them whose intervals are these; None without intervals."""
        if self.ends is None or self.confidence is None or np.isnan(self.ends[0]).all():
            return None
        lower, upper = (each.ravel() for each in self.ends)
        return (upper - lower) / (2 * NormalDist().inv_cdf(0.5 + self.confidence / 2))

    @property
    def doubtful(self) -> NDArray[np.bool_] | None:
        """Which numbers lack more records than their interval reaches; None where none is known to lack any."""
        if not np.any(self.missing) or self.ends is None:
            return None
        return np.asarray(
            np.broadcast_to(self.missing, self.estimates.shape) > (self.ends[1] - self.ends[0]) / 2
        ).ravel()

    def suppressed(self, flag: Flag) -> ProjectedTable:
        """Without the numbers that have this flag or a worse one, by the width of their intervals.

        Raises:
            PlanError: there are no intervals.
        """
        hidden = self.poor(flag).reshape(self.estimates.shape)
        kept = [np.where(hidden, np.nan, each) for each in (self.estimates, *(self.ends or ()))]
        return replace(self, estimates=kept[0], ends=(kept[1], kept[2]))

    @cached_property
    def columns(self) -> dict[str, Any]:
        """The columns by name: labels as lists, numbers as arrays."""
        labels, numbers = label_columns(self.attributes, axis_labels(self)), {"estimate": self.estimates}
        numbers |= ends_of(self) | dict(self.beside)
        return labels | {name: column.ravel() for name, column in numbers.items()}
