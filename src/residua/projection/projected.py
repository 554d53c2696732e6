"""A projection: tables that some dataset could have given, all consistent. Estimates only, since they are biased."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from residua.domain import Domain, impossible_cells
from residua.errors import PlanError
from residua.linalg.arrays import Floats
from residua.plans.contract import Plan
from residua.projection.accuracy import Bound, SimulatedError, simulated_error
from residua.projection.matrix import Histogram
from residua.projection.problem import Fit, Metric, Progress, Terms
from residua.projection.problems import problem_of
from residua.projection.rounding import controlled_rounding
from residua.projection.statement import BIASED, projection_statement
from residua.projection.tables import CountTable, ProjectedAnswers, ProjectedTable
from residua.published.table import what_is_counted
from residua.quoting import Answering, Points, Quotable
from residua.release.queried import parts_of, term_of, whole_part
from residua.workload import Asked, Explicit, Marginals, Products, Where, applied, as_products, queries, selected


@dataclass(frozen=True, eq=False, repr=False)
class Projected(Quotable):
    """A release's nearest tables that meet what is known: non-negative, consistent, with public facts met exactly.

    Guarantee: computed from the release alone; no data is touched and no privacy is spent. All tables agree with each
    other, impossible cells are exactly zero, and no cell is negative (if asked). The estimates are biased: there are
    no standard deviations, covariances or intervals. `bound` holds whatever the data; `simulated` is an indication.

    Args:
        plan: the release's plan.
        terms: what the tables must meet.
        fit: what was found.
        distance: how far it is from the release, squared, in the metric's unit.
        bound: how far from the truth it can be; None where the release is biased itself, or its noise not normal.
        receipt: what the ledger recorded when the release was paid for.
        simulated: the error that simulations indicated, if any were made.
    """

    plan: Plan
    terms: Terms
    fit: Fit
    distance: float
    bound: Bound | None
    receipt: Mapping[str, Any] = field(default_factory=dict)
    simulated: SimulatedError | None = None

    @property
    def domain(self) -> Domain:
        """What the table may hold."""
        return self.plan.domain

    @property
    def metric(self) -> Metric:
        """In which sense the tables are the nearest: "margins", "covariance" or "plain"; see `rs.project`."""
        return self.terms.metric

    @property
    def gap(self) -> float:
        """How far `distance` is above the least possible, proven, in the metric's unit."""
        return self.fit.gap

    @property
    def infeasibility(self) -> float:
        """The largest violation of non-negativity or of a fact that was left, in counts."""
        return self.fit.infeasibility

    @property
    def left_out(self) -> tuple[tuple[int, ...], ...]:
        """Attributes (positions) of tables that the release is about without telling all their cells."""
        return problem_of(self.plan, self.terms).left_out

    @property
    def statement(self) -> str:
        """What was done and how accurate it is, in Markdown, for people."""
        return projection_statement(self)

    # ---- answers

    def estimates(self, attributes: Sequence[str]) -> Floats:
        """The marginal on these attributes, an array with one axis each, in this order.

        Raises:
            PlanError: the projection does not answer this marginal.
        """
        positions = self.domain.positions(attributes)
        members = tuple(sorted(positions))
        if not self.fit.supports(members):
            raise PlanError(
                f"this projection does not answer the marginal on {tuple(attributes)!r}; the release it is made from "
                "must."
            )
        found = np.array(self.fit.marginal(members))
        if self.terms.nonnegative:
            np.maximum(found, 0.0, out=found)  # what is left below zero is `infeasibility` at most
        mask = impossible_cells(self.domain, [self.domain.names[i] for i in members])
        if mask is not None and self.terms.nonnegative:
            found[mask] = 0.0
        return np.array(found.transpose(np.argsort(np.argsort(positions))), order="C")

    def table(self, attributes: Sequence[str], *, queries: Mapping[str, Asked] | None = None) -> ProjectedTable:
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
        asked = dict(next(term_of(self.domain, names, queries).terms()))
        term = tuple((i, asked[i]) for i in self.domain.positions(names))
        whole = whole_part(self.domain, term)
        found = np.array(applied(term, found), order="C")
        return ProjectedTable(self.domain, names, found, whole.labels, whole.title, self._counted)

    @property
    def _counted(self) -> str:
        return what_is_counted(self.plan.unit)

    def tables(self) -> Iterator[ProjectedTable]:
        """Every table that was asked for: one per term, and of a hierarchy one per level, each with its title.

        Raises:
            PlanError: nothing was asked, or queries that make no tables (see `answers`).
        """
        workload = self.plan.workload
        if not isinstance(workload, Marginals | Products):
            raise PlanError("the release was not asked for tables; use answers() for single queries.")
        for term in as_products(workload).terms():
            names = tuple(self.domain.names[i] for i, _ in term)
            found = applied(term, self.estimates(names))
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
        if not self.terms.nonnegative:
            raise PlanError("only tables of non-negative numbers can be rounded; project with nonnegative=True.")
        rounding = controlled_rounding(self.estimates(attributes))
        return CountTable(self.domain, tuple(attributes), rounding.counts, rounding.margin_error, self._counted)

    def answers(self, workload: Explicit | Marginals | Products | None = None) -> ProjectedAnswers:
        """The answers to every query of a workload, by default of the one the release was planned for.

        Raises:
            PlanError: a query is about attributes that the projection does not hold.
        """
        workload = self.plan.workload if workload is None else workload
        if workload is None:
            raise PlanError("workload: the release was measured without one; say which queries to answer.")
        if workload.domain != self.domain:
            raise PlanError("the projection and the workload are over different domains; declare one domain for both.")
        if isinstance(workload, Marginals):
            found = np.concatenate([self.estimates(names).ravel() for names in workload.sets])
        elif isinstance(workload, Products):
            names = self.domain.names
            terms = [(term, self.estimates([names[i] for i, _ in term])) for term in workload.terms()]
            found = np.concatenate([applied(term, marginal).ravel() for term, marginal in terms])
        else:
            found = np.asarray(workload.matrix @ self.estimates(workload.names).ravel())
        return ProjectedAnswers(tuple(workload.query_labels()), found, self._counted)

    def count(self, where: Where | str | None = None) -> float:
        """How many records have these values: a dictionary, or a condition in SQL, as `Release.count` takes it."""
        if isinstance(where, str):
            return float(self.answers(queries(self.domain, [where])).estimates[0])
        chosen = selected(self.domain, {} if where is None else where)
        found = self.estimates(tuple(chosen))
        for coefficients in reversed(list(chosen.values())):
            found = found @ coefficients
        return float(found)

    def _answering(self) -> Answering:
        return Points(self.domain, self.estimates, BIASED, what_is_counted(self.plan.unit))

    @property
    def histogram(self) -> Floats:
        """The synthetic histogram of a matrix plan's release: counts of all cells of its attributes, one axis each.

        Raises:
            PlanError: the plan is not a matrix; its tables are consistent, but no histogram was formed.
        """
        if not isinstance(self.fit, Histogram):
            raise PlanError("only dense releases have a histogram; ask for tables, or hand over to mbi for rows.")
        return self.fit.counts

    # ---- accuracy

    def simulated_error(self, simulations: int = 10, *, progress: Progress | None = None) -> SimulatedError:
        """The mean absolute error over what was asked, if these tables were the truth: an indication, not a bound.

        Releases are simulated from the plan with the projection as the data, and projected. It touches no real data.

        Args:
            simulations: how many releases to simulate; each is projected, which takes as long as the projection did.
            progress: called with how many are done, and the error so far.
        """
        if isinstance(simulations, bool) or not isinstance(simulations, int) or simulations < 1:
            raise PlanError(f"simulations={simulations!r} is not a positive whole number; 10 is a good one.")
        return simulated_error(problem_of(self.plan, self.terms), self.fit, simulations, done=progress)

    # ---- files

    def export_long(
        self,
        folder: str | Path,
        sets: Iterable[Sequence[str]] | None = None,
        *,
        form: str = "csv",
        rounded: bool = False,
    ) -> list[Path]:
        """Writes tables in long form, attributes and a column `count`, and an index."""
        from residua.projection.tables import export_long

        return export_long(self, Path(folder), sets, form=form, rounded=rounded)

    def save(self, path: str | Path) -> None:
        """Writes the projection as a folder, whole or not at all; the folder must not exist."""
        from residua.projection.folder import save_projection

        save_projection(self, Path(path))

    @staticmethod
    def load(path: str | Path) -> Projected:
        """Reads a saved projection, refusing one that was changed. Needs neither data nor ledger nor the release.

        Raises:
            FileError: missing, damaged, changed, or of another version.
        """
        from residua.projection.folder import load_projection

        return load_projection(Path(path))

    def __repr__(self) -> str:
        return f"Projected({self.plan.guarantee!r}, metric={self.metric!r}, gap={self.gap:.2g}; {BIASED})"
