"""What every release is: noisy integers and how they were made, from which answers are read without data."""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from numpy.typing import ArrayLike

from residua.domain import Domain
from residua.domain.facts import Facts
from residua.errors import PlanError
from residua.linalg.arrays import Floats, Integers
from residua.linalg.lattice import Group
from residua.plans.contract import Plan, Uncertainty
from residua.plans.estimator import Estimator
from residua.plans.measurements import Measurements
from residua.plans.quotes import ReleaseAnswers
from residua.privacy.costs import stated
from residua.published.table import Table, domain_of_queries, protects
from residua.quoting import Answering, Quotable
from residua.release import tables
from residua.release.advice import advice_on
from residua.release.left_out import Completeness
from residua.release.tables import TermTable
from residua.showing import Exported, shown_by
from residua.workload import AskedRows, Term, Where, Workload, plain_condition, queries, selected

if TYPE_CHECKING:
    from residua.plans.product.set_estimator import FamilyEstimator

Simultaneous = Literal["table", "release"]


@dataclass(frozen=True)
class Estimate:
    """One published number with its error bar."""

    estimate: float
    stddev: float
    lower: float
    upper: float


class Answered(Exported, Quotable, Completeness, ABC):
    """Whatever a plan was measured for, answered with error bars: a release, or one beside known facts.

    Shares, means, quantiles and other numbers people quote are the methods of `Quotable`; see docs/quoting.md.
    """

    planned: Plan  # as it was made
    receipt: Mapping[str, Any]  # what the ledger recorded when it was debited
    estimator: Estimator  # how estimates are read off the measurements
    left_out: Release | None = None  # the records that a bound on each person's left out, if that was measured
    biased = ""  # what is said of numbers that are biased
    nonnegative = False  # noise takes small counts below zero

    @property
    def domain(self) -> Domain:
        """What the table may hold."""
        return self.planned.domain

    @property
    def plan(self) -> Uncertainty:
        """How all its numbers err: the plan as it was really measured; beside facts, less."""
        return cast("Uncertainty", self.estimator.plan)

    @property
    def asked_cells(self) -> float:
        """How many numbers were asked for."""
        return float(self.planned.workload.as_read.queries) if self.planned.workload is not None else 1.0

    @property
    def sets(self) -> tuple[tuple[str, ...], ...]:
        """The attribute sets that were asked for, if tables were."""
        workload = None if self.planned.workload is None else self.planned.workload.tables
        return () if workload is None else tuple(workload.sets)

    @property
    def summary(self) -> str:
        """What was measured, in a sentence."""
        return self.estimator.summary

    @cached_property
    def advice(self) -> str:
        """What to read instead where the tables that were asked for are mostly noise, with a figure; else nothing."""
        try:
            return advice_on(self.planned, float(self.estimates(())))
        except PlanError:
            return ""

    def estimates(self, attributes: Sequence[str]) -> Floats:
        """Unbiased estimates of the marginal on these attributes, an array with one axis each, in this order.

        Raises:
            PlanError: the release cannot answer this marginal.
        """
        names = self.domain.listed(attributes)
        self.plan.variance(names)  # says so, if it cannot
        positions = self.domain.positions(names)
        table = self.estimator.marginal(tuple(sorted(positions)))
        return np.array(table.transpose(np.argsort(np.argsort(positions))), order="C")

    def all_estimates(self) -> Iterator[tuple[Group, slice, Floats]]:
        """Every marginal of the family measured, in batches of equal shape, streamed; see `Estimator.all_marginals`."""
        return self.estimator.all_marginals()

    def __repr__(self) -> str:
        workload = self.planned.workload
        what, count = ("tables", 0) if workload is None else (workload.noun, len(workload))
        whole = "left_out_most" in self.receipt
        promised = stated(self.planned.guarantee, self.receipt) if whole else self.planned.guarantee
        noise = "; mostly noise, see .advice" if self.advice else ""
        return f"Release({count:,.0f} {what}, {promised}, {protects(self.planned.unit, self.receipt)}{noise})"

    def table(
        self,
        attributes: Sequence[str],
        *,
        queries: Mapping[str, AskedRows] | None = None,
        confidence: float = 0.95,
        simultaneous: Simultaneous | None = None,
    ) -> Table:
        """The marginal on these attributes, or a table of prefixes, ranges or levels of them, with error bars.

        Args:
            attributes: which attributes, in the order of the columns; `[]` for the total.
            queries: attribute → `"prefixes"`, `"ranges"`, `"hierarchy"`, the name of one of its levels, or a matrix;
                the other attributes by their values.
            confidence: how often an interval holds the truth.
            simultaneous: `"table"` for intervals that all hold together with that confidence over this table,
                `"release"` over all numbers that were asked for.

        Raises:
            PlanError: the release cannot answer this table.
        """
        names = self.domain.listed(attributes)
        if queries or self.domain.holds_amounts(names):
            queries = queries or {}
            workload = tables.term_of(self.domain, names, queries)
            tables.require_listable(workload)
            [term] = workload.terms()
            order = np.argsort(np.argsort(self.domain.positions(names))).tolist()
            whole = tables.whole_part(self.domain, [term[i] for i in order])
            return next(self._of_term(workload, term, [whole], order, confidence, simultaneous))
        estimates = self.estimates(names)
        reach = self.estimator.widths(names, confidence, self._together(simultaneous, estimates.size))
        stddev = np.sqrt(self.plan.variance(names))
        if (stddev == stddev.flat[0]).all():  # one number, that takes no memory
            stddev = np.broadcast_to(stddev.flat[0], stddev.shape)
        said = (confidence, simultaneous, self.counted, *self.missing_records(names, estimates, confidence))
        return Table(self.domain, names, estimates, stddev, reach, None, "", *said)

    def tables(
        self, *, confidence: float = 0.95, simultaneous: Simultaneous | None = None, most: int | None = None
    ) -> Iterator[Table]:
        """Every table that was asked for: one per term, and of a hierarchy one per level, each with its title.

        Levels add up: all are read off the same estimates.

        Args:
            confidence: how often an interval holds the truth.
            simultaneous: as for `table`.
            most: terms of more prefixes, ranges or groups than this are passed over; if left out, one that is too long
                to list is refused.

        Raises:
            PlanError: nothing was asked, queries that make no tables (see `answers`), or a term too long to list.
        """
        workload = None if self.planned.workload is None else self.planned.workload.published
        if workload is None:
            raise PlanError("this release was not asked for tables; use answers(workload) for single queries.")
        if workload.plain and tables.streams(self.estimator, workload):
            yield from self._streamed(workload, confidence, simultaneous)
            return
        if most is None:
            tables.require_listable(workload)
        for term, alone in zip(workload.terms(), workload.each(), strict=True):
            if most is None or tables.is_listable(term, most):
                parts = tables.parts_of(self.domain, term)
                yield from self._of_term(alone, term, parts, range(len(term)), confidence, simultaneous)

    def _of_term(
        self,
        workload: Workload,
        term: Term,
        parts: Iterable[TermTable],
        order: Sequence[int],
        confidence: float,
        simultaneous: Simultaneous | None,
    ) -> Iterator[Table]:
        """Tables that a term, alone in a workload, makes, with its attributes in some order."""
        shape = [asked.rows for _, asked in term]
        names = tuple(self.domain.names[term[i][0]] for i in order)
        by_value = names if all(asked.plain for _, asked in term) else None
        estimates, variances = (np.reshape(each, shape).transpose(order) for each in self.estimator.answers(workload))
        for part in parts:
            cells, stddev = np.array(estimates[part.rows], order="C"), np.sqrt(variances[part.rows])
            reach = self.estimator.widths(workload, confidence, self._together(simultaneous, cells.size))
            if np.ndim(reach):
                reach = np.reshape(reach, shape).transpose(order)[part.rows].ravel()
            counted = "; ".join(filter(None, (self.counted, self.domain.clipping(names))))
            said = (part.labels, part.title, confidence, simultaneous, counted)
            yield Table(
                self.domain, names, cells, stddev, reach, *said, *self.missing_records(by_value, cells, confidence)
            )

    def _streamed(self, workload: Workload, confidence: float, simultaneous: Simultaneous | None) -> Iterator[Table]:
        """What `tables` gives for marginals, rebuilt many at a time."""
        alike, widths = self.planned.noise.gaussian, dict[float, float | Floats]()  # by how many intervals hold at once
        for members, estimates, stddev in tables.rebuilt_tables(cast("FamilyEstimator", self.estimator), workload):
            names = tuple(self.domain.names[i] for i in members)
            together = self._together(simultaneous, estimates.size)
            if not alike or together not in widths:
                widths[together] = self.estimator.widths(names, confidence, together)
            labels = tuple(self.domain[name].labels for name in names)
            said = (labels, " × ".join(names) or "(total)", confidence, simultaneous, self.counted)
            lacks = self.missing_records(names, estimates, confidence)
            yield Table(self.domain, names, estimates, stddev, widths[together], *said, *lacks)

    def answers(
        self, workload: Workload | None = None, *, confidence: float = 0.95, simultaneous: Simultaneous | None = None
    ) -> Table:
        """The answers to every query of a workload with error bars; of what was asked, if none is given.

        Raises:
            PlanError: a query cannot be answered from what was measured; or nothing was asked, and none is given.
        """
        workload = self.planned.workload if workload is None else workload
        if workload is None:
            raise PlanError("this release was measured without a workload; give one, or ask it for single tables.")
        tables.require_listable(workload)
        estimates, variances = self.estimator.answers(workload)
        reach = self.estimator.widths(workload, confidence, self._together(simultaneous, len(estimates)))
        said = ((tuple(workload.query_labels()),), "queries", confidence, simultaneous, self.counted)
        lacks = self.missing_records(None, estimates, confidence)
        return Table(domain_of_queries(len(estimates)), ("query",), estimates, np.sqrt(variances), reach, *said, *lacks)

    def combination(self, combination: Mapping[Sequence[str], ArrayLike], *, confidence: float = 0.95) -> Estimate:
        """A linear combination of cells with its exact standard deviation: attribute set → coefficients.

        Coefficients are by label, `{("sex",): {"Female": 1, "Male": -1}}`, or an array over the cells.
        """
        if not isinstance(combination, Mapping):
            raise PlanError(f"combination={combination!r} is not a mapping; write {{('sex',): [1, -1], …}}.")
        combination = tables.by_position(self.domain, combination)
        value, variance = self.estimator.combination(combination)
        stddev = float(np.sqrt(variance))
        reach = float(np.max(self.estimator.widths(combination, confidence, 1.0))) * stddev
        return Estimate(value, stddev, value - reach, value + reach)

    def count(self, where: Where | str | None = None, *, confidence: float = 0.95) -> Estimate:
        """How many records have these values: a dictionary, or a condition in SQL; nothing for the total.

        Args:
            where: attribute → a label, a list of labels, or `rs.between(first, last)`; or text, as for `rs.queries`.
            confidence: how often the interval holds the truth.

        Example: `release.count({"sex": "Female", "age": rs.between(18, 64)})`, and the same by
        `release.count("sex = 'Female' and age between 18 and 64")`.

        Raises:
            PlanError: the release cannot answer it, or the dictionary means nothing, or two things.
            WorkloadError: the text is not a condition over the attributes.
        """
        where = (plain_condition(self.domain, where) or where) if isinstance(where, str) else where
        if isinstance(where, str):
            row = self.answers(queries(self.domain, [where]), confidence=confidence).columns
            return Estimate(*(float(row[name][0]) for name in ("estimate", "stddev", "lower", "upper")))
        chosen = selected(self.domain, {} if where is None else where)
        coefficients = reduce(np.multiply.outer, chosen.values(), np.ones(()))
        return self.combination({tuple(chosen): coefficients}, confidence=confidence)

    def _answering(self) -> Answering:
        return ReleaseAnswers(self.plan, self.estimator)

    def _together(self, simultaneous: Simultaneous | None, cells: int) -> float:
        """How many intervals must hold at once."""
        if simultaneous not in (None, "table", "release"):
            raise PlanError(f"simultaneous={simultaneous!r} is not 'table', 'release' or None.")
        if simultaneous is None:
            return 1.0
        return float(cells) if simultaneous == "table" else max(self.asked_cells, float(cells))


@dataclass(frozen=True, eq=False, repr=False)
class Release(Answered):
    """What was measured, once. Holds no true count; all answers are post-processing and agree with each other.

    Guarantee: estimates are unbiased, with exactly the variances and covariances that `release.plan` states. Where a
    plan was asked for with a bias, they are unbiased for the nearby queries `release.plan.workload`, and no intervals
    are given.

    Args:
        planned: the plan as it was made.
        measurements: what was really measured.
        noisy: the noisy integers, (cells,).
        receipt: what the ledger recorded when it was debited.
        left_out: the records that a bound on each person's left out, their total and one-way tables with noise; of one
            person no more than its own unit says. None where that was not measured.
    """

    planned: Plan
    measurements: Measurements
    noisy: Integers
    receipt: Mapping[str, Any] = field(default_factory=dict)
    left_out: Release | None = None

    def __post_init__(self) -> None:
        if self.noisy.dtype != np.int64 or self.noisy.shape != (self.measurements.cells,):
            raise PlanError("the measurements do not fit the plan; they belong to another one.")
        if isinstance(self.noisy, np.ndarray) and self.noisy.flags.writeable:
            self.noisy.setflags(write=False)

    @cached_property
    def estimator(self) -> Estimator:  # type: ignore[override]
        """How estimates are read off the measurements, in the form of the plan."""
        return self.planned.estimator(self.measurements, self.noisy)

    @property
    def plan(self) -> Plan:
        """The plan as it was really measured, the rounding of noise to integers included."""
        return cast("Plan", self.estimator.plan)

    def given(self, facts: Facts) -> Answered:
        """The same release beside facts that are known from elsewhere: the best estimates that meet them exactly.

        Guarantee: estimates are unbiased and of least variance among those linear in the measurements and the facts;
        variances and covariances are exact. Facts that follow from others change nothing; facts that contradict each
        other are refused. Structural zeros of the domain (`impossible`) count as facts.

        Args:
            facts: what → how many, a dictionary or a list of pairs. What is known of: the names of attributes, `()` for
                the total, `"sex"`, `("county", "sex")`, or levels of them, `"county.state"` (how many: an array, a
                frame with a column `count`, or label(s) → count for all cells or some); a condition in SQL, or a
                dictionary as for `count` (how many: a number); or a workload (an array).

        Raises:
            PlanError: facts that mean nothing, contradict each other, or are of what was not measured.

        Example: `release.given({(): 32_561, "sex": {"Female": 10_771}, "age >= 65 and sex = 'Male'": 843})`.
        """
        return cast("Answered", shown_by("given")(self, facts))

    def save(self, path: str | Path) -> None:
        """Writes the release as a folder, whole or not at all; the folder must not exist."""
        from residua.release.folder import reserve

        with reserve(Path(path), self.planned, self.measurements) as place:
            place.commit(self)

    @staticmethod
    def load(path: str | Path) -> Release:
        """Reads a saved release, refusing one that was changed. Needs neither data nor ledger.

        Raises:
            FileError: missing, damaged, changed, or of another version.
        """
        from residua.release.folder import load_release

        return load_release(Path(path), Release)

    def __reduce__(self) -> tuple[Any, ...]:
        from residua.release.copying import files_of, release_of_files

        return release_of_files, (files_of(self), Release)  # what is saved, and nothing else

    def __deepcopy__(self, memo: object) -> Release:
        return self  # it cannot be changed

    def __copy__(self) -> Release:
        return self
