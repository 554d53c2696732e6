"""A projection: tables that some dataset could have given, all consistent. Estimates only, since they are biased."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from residua.bars import with_bar
from residua.domain import impossible_cells
from residua.errors import PlanError
from residua.linalg.arrays import Floats
from residua.plans.contract import Plan
from residua.projection.accuracy import Bound, SimulatedError, simulated_error
from residua.projection.folder import load_projection, save_projection
from residua.projection.problem import Fit, Metric, Progress, Terms
from residua.projection.problems import problem_of
from residua.projection.statement import BIASED, projection_statement
from residua.projection.tables import Tabled
from residua.showing import Exported
from residua.workload import AttributeQueries, Workload


@dataclass(frozen=True, eq=False, repr=False)
class Projected(Exported, Tabled):
    """A release's nearest tables that meet what is known: non-negative, consistent, with public facts met exactly.

    Guarantee: computed from the release alone; no data is touched and no privacy is spent. All tables agree with each
    other, impossible cells are exactly zero, and no cell is negative (if asked). The estimates are biased: there are
    no standard deviations, covariances or intervals. `bound` holds whatever the data; `simulated` is an indication.

    Args:
        plan: the release's plan.
        terms: what the tables must meet.
        fit: what was found.
        distance: how far it is from the release, squared, in the metric's unit.
        bound: how far from the truth it can be; None where the release is biased itself, its noise not normal, or
            interactions were shrunk.
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
    def nonnegative(self) -> bool:
        """Whether no cell is negative."""
        return self.terms.nonnegative

    @property
    def biased(self) -> str:
        """What is said of its numbers."""
        return BIASED

    @property
    def metric(self) -> Metric:
        """In which sense the tables are the nearest: "margins", "covariance" or "plain"; see `rs.project`."""
        return self.terms.metric

    @property
    def shrunk(self) -> bool:
        """Whether interactions were shrunk by their noise first; see `rs.project`."""
        return self.terms.shrunk

    @property
    def gap(self) -> float:
        """How far `distance` is above the least possible, proven, in the metric's unit; infinite if nothing is."""
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
        table = np.array(self.fit.marginal(members))
        if self.terms.nonnegative:
            np.maximum(table, 0.0, out=table)  # what is left below zero is `infeasibility` at most
        mask = impossible_cells(self.domain, [self.domain.names[i] for i in members])
        if mask is not None and self.terms.nonnegative:
            table[mask] = 0.0
        return np.array(table.transpose(np.argsort(np.argsort(positions))), order="C")

    def _of_term(self, term: Sequence[tuple[int, AttributeQueries]]) -> Floats:
        answers = self.fit.of_term(term)
        return super()._of_term(term) if answers is None else answers

    def _of_queries(self, workload: Workload) -> Floats:
        answers = self.fit.of_queries(workload)
        return super()._of_queries(workload) if answers is None else answers

    @property
    def histogram(self) -> Floats:
        """The synthetic histogram of a matrix plan's release: counts of all cells of its attributes, one axis each.

        Raises:
            PlanError: the plan is not a matrix; its tables are consistent, but no histogram was formed.
        """
        return self.fit.histogram

    # ---- accuracy

    @with_bar("simulating")
    def simulated_error(self, simulations: int = 10, *, progress: Progress | bool | None = None) -> SimulatedError:
        """The mean absolute error over what was asked, if these tables were the truth: an indication, not a bound.

        Releases are simulated from the plan with the projection as the data, and projected. It touches no real data.

        Args:
            simulations: how many releases to simulate; each is projected, which takes as long as the projection did.
            progress: `True` draws a bar on a terminal or in a notebook; or a function, called
                with how many are done, and the error so far.
        """
        if isinstance(simulations, bool) or not isinstance(simulations, int) or simulations < 1:
            raise PlanError(f"simulations={simulations!r} is not a positive whole number; 10 is a good one.")
        return simulated_error(
            problem_of(self.plan, self.terms),
            self.fit,
            simulations,
            done=None if isinstance(progress, bool) else progress,
        )

    # ---- files

    def save(self, path: str | Path) -> None:
        """Writes the projection as a folder, whole or not at all; the folder must not exist."""
        save_projection(self, Path(path))

    @staticmethod
    def load(path: str | Path) -> Projected:
        """Reads a saved projection, refusing one that was changed. Needs neither data nor ledger nor the release.

        Raises:
            FileError: missing, damaged, changed, or of another version.
        """
        return Projected(*load_projection(Path(path)))

    def __repr__(self) -> str:
        gap = f", gap={self.gap:.2g}" if math.isfinite(self.gap) else ""
        return f"Projected({self.plan.guarantee!r}, metric={self.metric!r}{gap}; {BIASED})"
