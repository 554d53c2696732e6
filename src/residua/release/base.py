"""What every release is: noisy integers and how they were made, from which answers are read without data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike

from residua.domain.facts import Facts
from residua.errors import PlanError, named
from residua.linalg.arrays import Floats, Integers
from residua.linalg.lattice import Group
from residua.plans.contract import Plan, Uncertainty
from residua.plans.estimator import Estimator
from residua.plans.measurements import Measurements
from residua.plans.quotes import ReleaseAnswers
from residua.privacy import Person
from residua.privacy.costs import stated
from residua.published.table import Table, protects
from residua.quoting import Answering
from residua.release import tables
from residua.release.advice import advice_on, moved_by_noise, with_commands
from residua.release.left_out import counts_of, lacking, lacks_of, share_of
from residua.release.tabled import Errors, Sure, Tabled
from residua.release.tables import TermTable
from residua.showing import Exported, shown_by
from residua.workload import Where, Workload, plain_condition, queries, selected

if TYPE_CHECKING:
    from residua.plans.product.set_estimator import FamilyEstimator


@dataclass(frozen=True)
class Estimate:
    """One published number with its error bar."""

    estimate: float
    stddev: float
    lower: float
    upper: float


class Answered(Exported, Tabled):
    """Whatever a plan was measured for, answered with error bars: a release, or one beside known facts.

    Shares, means, quantiles and other numbers people quote are the methods of `Quotable`; see docs/quoting.md.
    """

    estimator: Estimator  # how estimates are read off the measurements
    left_out: Release | None = None  # the records that a bound on each person's left out, if that was measured
    biased = ""  # what is said of numbers that are biased
    nonnegative = False  # noise takes small counts below zero

    @property
    def plan(self) -> Uncertainty:
        """How all its numbers err: the plan as it was really measured; beside facts, less."""
        return cast("Uncertainty", self.estimator.plan)

    @property
    def sets(self) -> tuple[tuple[str, ...], ...]:
        """The attribute sets that were asked for, if tables were."""
        workload = None if self.planned.workload is None else self.planned.workload.tables
        return () if workload is None else tuple(workload.sets)

    @property
    def summary(self) -> str:
        """What was measured, in a sentence."""
        return self.estimator.summary

    @property
    def debits(self) -> frozenset[str]:
        """The debits that paid for its noise; of a pool, those of all its parts."""
        return frozenset(filter(None, str(self.receipt.get("debits", self.receipt.get("digest", ""))).split(", ")))

    # ---- what numbers are numbers of: all records, or what a bound on persons or weights make of them

    @property
    def in_part(self) -> bool:
        """Whether numbers are of a part of the records, or of survey weights."""
        return isinstance(self.planned.unit, Person) or "weights" in self.receipt

    @cached_property
    def left_out_share(self) -> tuple[float, float, float] | None:
        """Which share of all records a bound on each person's left out, and its 95 % interval; None if unknown.

        It ends at 1 where some person may have more records than are seen.
        """
        return share_of(self)

    @cached_property
    def lacks(self) -> float:
        """Which share of itself each number lacks, because records were left out; infinite where that is unknown."""
        return lacks_of(self) if self.in_part else 0.0

    @property
    def counted(self) -> str:
        """What the tables count, in words, where that is not every record, and how much that leaves out."""
        return counts_of(self) if self.in_part else ""

    def missing_records(
        self, names: tuple[str, ...] | None, estimates: Floats, confidence: float
    ) -> tuple[dict[str, Floats], Floats | float]:
        """Columns of the records left out of each cell of a table, and about how many each number lacks.

        Args:
            names: its attributes, if its cells are their values.
            estimates: its numbers.
            confidence: of the intervals.
        """
        return lacking(self, names, estimates, confidence) if self.in_part else ({}, 0.0)

    # ---- numbers

    @cached_property
    def _moved(self) -> dict[int, float]:
        try:
            return moved_by_noise(self.planned, float(self.estimates(())))
        except PlanError:
            return {}

    @property
    def advice(self) -> str:
        """What to read instead where the tables that were asked for are mostly noise, with a figure; else nothing."""
        return with_commands(self.moved_by_noise)

    @property
    def moved_by_noise(self) -> str:
        """The same for those who read the numbers, without commands."""
        return advice_on(self._moved)

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

    def _told(self, workload: Workload, confidence: float | None) -> tuple[Floats, Errors]:
        estimates, variances = self.estimator.answers(workload)
        stddev = np.sqrt(variances)
        return estimates, lambda together: {"stddev": stddev, "width": self._width(workload, confidence, together)}

    def _width(self, asked: Any, confidence: float | None, together: float) -> float | Floats:
        """How many standard deviations the intervals of attributes or queries reach."""
        return np.nan if confidence is None else self.estimator.widths(asked, confidence, together)

    def _marginal(self, names: tuple[str, ...], sure: Sure) -> Table:
        """The same as of any workload, without making one."""
        estimates = self.estimates(names)
        stddev = np.sqrt(self.plan.variance(names))
        if (stddev == stddev.flat[0]).all():  # one number, that takes no memory
            stddev = np.broadcast_to(stddev.flat[0], stddev.shape)
        errors = {"stddev": stddev, "width": self._width(names, sure[0], self._together(sure, estimates.size))}
        return self._made(names, estimates, TermTable("", (), None), errors, names, sure)

    def _listed(self, workload: Workload, sure: Sure, most: int | None) -> Iterator[Table]:
        """Marginals are rebuilt many at a time."""
        if not (workload.plain and tables.streams(self.estimator, workload)):
            yield from super()._listed(workload, sure, most)
            return
        alike, widths = self.planned.noise.gaussian, dict[float, float | Floats]()  # by how many intervals hold at once
        for members, estimates, stddev in tables.rebuilt_tables(cast("FamilyEstimator", self.estimator), workload):
            names = tuple(self.domain.names[i] for i in members)
            together = self._together(sure, estimates.size)
            if not alike or together not in widths:
                widths[together] = self._width(names, sure[0], together)
            labels = tuple(self.domain[name].labels for name in names)
            errors = {"stddev": stddev, "width": widths[together]}
            part = TermTable(" × ".join(names) or "(total)", (), labels)
            yield self._made(names, estimates, part, errors, names, sure)

    def combination(self, combination: Mapping[Sequence[str], ArrayLike], *, confidence: float = 0.95) -> Estimate:
        """A linear combination of cells with its exact standard deviation: attribute set → coefficients.

        Coefficients are by label, `{("sex",): {"Female": 1, "Male": -1}}`, or an array over the cells.
        """
        if not isinstance(combination, Mapping):
            raise PlanError(f"combination={named(combination)} is not a mapping; write {{('sex',): [1, -1], …}}.")
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
        return ReleaseAnswers(self.plan, self.estimator, self.counted, self.lacks)


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
