"""`rs.estimate`: tables of any attributes, measured or not, that borrow strength from all that was measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np

from residua.domain.facts import facts_of
from residua.errors import PlanError, named
from residua.estimation.fit import Fitted, Progress, fitted
from residua.estimation.folder import load_estimates, save_estimates
from residua.estimation.intervals import estimated_ends
from residua.estimation.observed import Members, Observed, Public, copies_in, observed_of, simulated
from residua.estimation.rows import SyntheticRows, rows_of
from residua.estimation.statement import BOUNDED, MODEL_BASED, estimation_statement
from residua.estimation.tables import ODD, EstimatedTables, TableAccuracy, accuracy_of
from residua.language import mark, say
from residua.linalg.arrays import Floats, centred
from residua.projection.problem import Progress as Steps, Terms
from residua.projection.tables import MadeFrom
from residua.projection.total import estimated_total
from residua.published.replicates import Replicates, check_count
from residua.published.table import Table
from residua.release.base import Release
from residua.showing import Exported, with_bar
from residua.workload import Workload

_MOST_WAYS = 6  # up to which the strength of interactions is learned
MOST_CELLS = 4_000_000
_UNKNOWN = 0.5  # of the total: a standard deviation above this leaves it unknown
MOST_ATTRIBUTES = 8


@dataclass(frozen=True, eq=False, repr=False)
class EstimatedTable(Table):
    """A table of estimates, tidy: attributes, estimate, lower, upper; the estimates are biased towards a model.

    Args:
        accuracy: how accurate the table of cells is said to be, and on what grounds.
        bounded: which intervals are bounds by smaller tables, 1 or 0.
        unknown: what is said where the total is hardly known.
        Others as for `Table`.
    """

    accuracy: TableAccuracy | None = None
    bounded: Floats | float = 0.0
    unknown: str = ""

    @property
    def note(self) -> str:
        """What the intervals mean, what they rest on, and what is counted if that is not every record."""
        warning = say(BOUNDED) if np.any(self.bounded) else ""
        return "; ".join(filter(None, [super().note, warning, self.unknown]))


@dataclass(frozen=True, eq=False, repr=False)
class Estimated(Exported, MadeFrom):
    """Model-based tables of any attributes, made from a release alone. Made by `rs.estimate`.

    Guarantee: no data is touched and no privacy is spent. No cell is negative, impossible cells are exactly zero, and
    public facts are met. Tables agree on the margins they share, up to `accuracy(…).apart` counts: for up to three
    attributes a few millionths of the total, or a ten-thousandth where there is little but noise; more, where tables of
    three were measured that no table of four has. They are biased towards a model; `accuracy` says how accurate a table
    is estimated to be, which is not a bound. What was measured keeps its exact variances and intervals in the release.

    Args:
        release: what was measured.
        public: what is known besides.
        fitted: the tables of single attributes and pairs.
        total_given: whether the total is public.
        simulated: what it was made from instead of the release, if it is a replicate.
    """

    table_type: ClassVar[type[Table]] = EstimatedTable

    release: Release
    public: Public
    fitted: Fitted
    total_given: bool
    simulated: Observed | None = None

    @property
    def nonnegative(self) -> bool:
        """Always."""
        return True

    @property
    def biased(self) -> str:
        """What is said of its numbers."""
        return MODEL_BASED

    @cached_property
    def _tables(self) -> EstimatedTables:
        observed = self.simulated or observed_of(self.release)
        return EstimatedTables(observed.telling(self.total), self.public, self.fitted)

    @property
    def total(self) -> float:
        """The number of records, public or estimated."""
        return self.fitted.total

    def _members(self, attributes: Sequence[str]) -> tuple[Members, list[int]]:
        names = self.domain.listed(attributes)
        positions = list(self.domain.positions(names))
        cells = self.domain.cells(names)
        if cells > MOST_CELLS or len(positions) > MOST_ATTRIBUTES:
            raise PlanError(
                f"the table on {names!r} has {cells:,} cells of {len(positions)} attributes; ask for at "
                f"most {MOST_CELLS:,} cells of {MOST_ATTRIBUTES} attributes."
            )
        return tuple(sorted(positions)), positions

    def estimates(self, attributes: Sequence[str]) -> Floats:
        """The table of these attributes, measured or not, an array with one axis each, in this order.

        Raises:
            PlanError: too many cells or attributes.
        """
        members, positions = self._members(attributes)
        return np.array(self._tables.table(members).transpose(np.argsort(np.argsort(positions))), order="C")

    def accuracy(self, attributes: Sequence[str]) -> TableAccuracy:
        """How accurate the table of these attributes is estimated to be, and what it rests on."""
        members, tables = self._members(attributes)[0], self._tables
        interactions = tables.interactions(tables.copies.originals(members))
        return accuracy_of(self.domain, self.domain.listed(attributes), interactions, self.fitted, tables.copies)

    def _product(self, names: tuple[str, ...], *asked: Any) -> EstimatedTable:
        return replace(cast("EstimatedTable", super()._product(names, *asked)), accuracy=self.accuracy(names))

    def _made(self, *what: Any) -> EstimatedTable:
        return replace(cast("EstimatedTable", super()._made(*what)), unknown=self.unknown)

    def ends(self, workload: Workload, estimates: Floats, confidence: float, together: float) -> Mapping[str, Any]:
        """Of the release's own intervals, or of bounds by smaller tables; see `estimation/intervals.py`.

        None of them rests on the model: they are the release's own where it answers the table, else what its smaller
        tables prove.
        """
        return estimated_ends(self.release, Terms(facts=self.public.facts), workload, estimates, confidence, together)

    @property
    def unknown(self) -> str:
        """What is said where the release hardly tells how many records there are; nothing where it does."""
        stddev = math.sqrt(self.fitted.total_error)
        if stddev <= _UNKNOWN * self.total:
            return ""
        words = mark(
            "the total is not known, {total:,.0f} ± {stddev:,.0f}: at this budget the tables say little but that "
            "they are small; give total=… if it is public"
        )
        return say(words, total=self.total, stddev=stddev)

    def rows(
        self,
        n: int | None = None,
        *,
        attributes: Sequence[str] | None = None,
        random: np.random.Generator | None = None,
    ) -> SyntheticRows:
        """Synthetic rows whose tables are near the estimates: frames, Arrow batches, Parquet, CSV.

        Attribute by attribute: the chances of each value are raked to the estimated tables of pairs and triples with
        the attributes before it, over the rows themselves, and turned into values so that counts stay near their
        expectations. No junction tree is needed, and any number of attributes and rows is taken. No data is touched
        and nothing is spent, however many rows are made.

        Args:
            n: how many rows; None is the estimated total, to the next whole number.
            attributes: the columns; all by default.
            random: where the choices among equally good rows come from; a fresh generator by default. They are no
                noise: they protect nothing, and may be repeated (`np.random.default_rng(7)`) or published.

        Raises:
            PlanError: no number of rows, or an unknown attribute.

        Example:
            >>> import pyarrow as pa, residua as rs, tempfile
            >>> domain = rs.Domain({"sex": ["F", "M"], "age": rs.Integers(0, 4), "job": ["no", "yes"]})
            >>> job = ["no"] * 300 + ["yes"] * 700
            >>> data = pa.table({"sex": ["F", "M"] * 500, "age": [0, 1, 2, 1, 0] * 200, "job": job})
            >>> plan = rs.plan(rs.marginals(domain, ways=[1, 2]), rs.ZCDP(0.1))
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     release = rs.measure(plan, data, ledger=rs.Ledger(f"{folder}/l", rs.ZCDP(0.1)))
            >>> rows = rs.estimate(release, total=1000, known={("sex",): [500, 500]}).rows().to_arrow()
            >>> rows.num_rows, rows.column_names, rows["sex"].to_pylist().count("F")
            (1000, ['sex', 'age', 'job'], 500)
        """
        return rows_of(self, n, attributes, random)

    @with_bar("replicating")
    def replicates(self, n: int = 50, *, progress: Steps | bool | None = None) -> Replicates[Estimated]:
        """Estimates from releases simulated as if these tables were the data, for whoever computes on.

        Each is this estimate, had it been the truth and been measured and estimated again: how far they are from it is
        about how far it is from the truth. `rows()` of each is a synthetic set; `combined` turns any number computed
        from all of them into one with an interval. No data is touched and nothing is spent.

        Args:
            n: how many; each takes as long as the estimate did.
            progress: `True` draws a bar on a terminal or in a notebook; or a function, called with how many are done,
                and of how many.

        Raises:
            PlanError: no number of replicates, or an attribute that is called as a column of the file.
        """
        tables, steps = self._tables, progress if callable(progress) else None
        drawn = [*self._estimated_again(check_count(n), cache(lambda members: centred(tables.table(members))), steps)]
        replicates = self._replicated(drawn, "simulated as if the estimated tables were the truth")
        measured = observed_of(self.release).residual
        return replace(replicates, redrawn=cache(lambda: tuple(self._estimated_again(n, measured, None))))

    def _estimated_again(
        self, n: int, truth: Callable[[Members], Floats], progress: Steps | None
    ) -> Iterator[Estimated]:
        """Estimates from so many releases, simulated as if these were the true residuals."""
        random, observed = np.random.default_rng(), observed_of(self.release)
        for done in range(n):
            error = math.sqrt(self.fitted.total_error)
            total = max(self.total + error * float(random.standard_normal()), 1.0) if error else self.total
            again = simulated(self.domain, observed.variances, truth, int(random.integers(2**62)))
            fit = fitted_of(again.telling(total), self.public, total, self.fitted.total_error)
            yield replace(self, fitted=fit, simulated=again)
            if progress is not None:
                progress(done + 1, n)

    @property
    def contradicted(self) -> tuple[tuple[str, ...], ...]:
        """The pairs whose measurements the model does not explain; there the measurements decide."""
        names = self.domain.names
        return tuple((names[i], names[j]) for i, j in np.argwhere(np.triu(self.fitted.doubt > ODD, 1)).tolist())

    @property
    def statement(self) -> str:
        """What was done and how accurate it is, in Markdown, for people."""
        return estimation_statement(self)

    def save(self, path: str | Path) -> None:
        """Writes the estimates as a folder, whole or not at all; the folder must not exist."""
        save_estimates(self, Path(path))

    @staticmethod
    def load(path: str | Path) -> Estimated:
        """Reads saved estimates, refusing ones that were changed. Needs neither data nor ledger.

        Raises:
            FileError: missing, damaged, changed, or of another version.
        """
        return Estimated(*load_estimates(Path(path)))

    def __repr__(self) -> str:
        return f"Estimated({self.plan.guarantee!r}, total={self.total:,.1f}; biased towards a model)"


def estimate(
    release: Release,
    *,
    total: float | None = None,
    known: Mapping[Sequence[str], Any] | None = None,
    progress: Progress | None = None,
) -> Estimated:
    """Tables of any attributes, measured or not, that borrow strength from everything the release measured.

    A mixture of independent attributes is fitted to all that was measured of single attributes and pairs; each
    measured interaction is shrunk towards it, by as much as its own evidence says; larger tables are raked from their
    margins, and shrunk towards that where their own interaction was measured. Reads the release alone: no data is
    touched and nothing is spent.

    Guarantee: no cell is negative, impossible cells are zero, public facts are met, and tables agree on the margins
    they share up to `apart` counts (`Estimated.accuracy`). The estimates are biased towards the model. Their errors are
    estimated, not bounded; unbiased estimates with exact variances stay in the release.

    Args:
        release: what was measured; `rs.Release.load` reads a saved one, `rs.pooled` makes one of several.
        total: a public total, met exactly. None is the total of the known marginals if there are any, else one
            estimated from what was measured and from its being positive.
        known: public marginals, met exactly: attributes → counts, as for `rs.project`.
        progress: called with what is being done, how much is done, and of how much.

    Raises:
        PlanError: not a release, one with a bias, no total measured or given, facts that contradict each other or
            the structural zeros, or more values of all attributes than can be estimated together.

    Example:
        >>> import pyarrow as pa, residua as rs, tempfile
        >>> domain = rs.Domain({"sex": ["F", "M"], "age": rs.Integers(0, 4), "job": ["no", "yes"]})
        >>> job = ["no"] * 300 + ["yes"] * 700
        >>> data = pa.table({"sex": ["F", "M"] * 500, "age": [0, 1, 2, 1, 0] * 200, "job": job})
        >>> plan = rs.plan(rs.marginals(domain, ways=[1, 2]), rs.ZCDP(0.1))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     release = rs.measure(plan, data, ledger=rs.Ledger(f"{folder}/l", rs.ZCDP(0.1)))
        >>> estimated = rs.estimate(release, total=1000)
        >>> table = estimated.estimates(["sex", "age", "job"])             # three attributes: not measured
        >>> table.shape, bool(table.min() >= 0), round(float(table.sum()), 3)
        ((2, 5, 2), True, 1000.0)
        >>> estimated.accuracy(["sex", "age", "job"]).unmeasured
        (('sex', 'age', 'job'),)
    """
    if not isinstance(release, Release):
        raise PlanError(f"release={named(release)} is not a release; measure one, or load it with rs.Release.load.")
    if total is not None and (isinstance(total, bool) or not isinstance(total, int | float | np.number)):
        raise PlanError(
            f"total={named(total)} is not a count; give a public total, or leave it out to have it estimated."
        )
    public = Public(release.domain, facts_of(release.domain, total, known))
    count, variance = total_of(release, public)
    observed = observed_of(release).telling(count)
    return Estimated(release, public, fitted_of(observed, public, count, variance, progress), variance == 0.0)


def fitted_of(
    observed: Observed, public: Public, total: float, variance: float, progress: Progress | None = None
) -> Fitted:
    """Singles and pairs, and how strong larger interactions are."""
    copies = copies_in(observed, public, total)
    fit = fitted(copies.without(observed), public, total, variance, progress)
    fit.copy(copies)
    tables = EstimatedTables(observed, public, fit)
    for size in range(3, _MOST_WAYS + 1):
        prior = tables.prior(size)
        if prior is not None:
            fit.priors[size] = prior
    return fit


def total_of(release: Release, public: Public) -> tuple[float, float]:
    """The total and the variance of what is not known of it."""
    known = public.known(())
    if known is not None:
        if float(known) <= 0:
            raise PlanError("total=0: there is nobody to estimate tables of.")
        return float(known), 0.0
    total = estimated_total(release, relative=True)
    if total is None:
        raise PlanError("the release does not tell the total; give total=…, or measure it, too: ways=[0, …].")
    return max(total[0], 1.0), total[1] ** 2
