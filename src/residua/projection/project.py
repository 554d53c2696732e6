"""`rs.project`: from a release to the nearest tables that agree, are not negative, and meet public facts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from residua.domain import impossible_cells
from residua.domain.facts import facts_of
from residua.errors import PlanError, listing, named
from residua.linalg.arrays import Floats
from residua.plans.cells import MOST_COLUMNS
from residua.projection.accuracy import BIASED, Bound, SimulatedError, bound_of, projection_statement, simulated_error
from residua.projection.assisted import ASSISTED, assisted_ends, require_assistable
from residua.projection.column_generation import MOST_LISTED
from residua.projection.folder import load_projection, save_projection
from residua.projection.intervals import proven, safe_ends
from residua.projection.problem import Fit, Metric, Progress, Terms
from residua.projection.problems import kind_of, metric_of, problem_of
from residua.projection.realisable import Realisable, realisable_tables
from residua.projection.tables import MadeFrom
from residua.projection.total import keeps_own, met_total
from residua.published.replicates import Replicates, check_count
from residua.release.base import Release
from residua.release.pooled import over_cells
from residua.release.tabled import Errors
from residua.showing import Exported, with_bar
from residua.workload import AttributeQueries, Workload, applied, marginals

_CLEAR = 3.0  # standard deviations of the released total: below, tables are mostly noise
_CONFLICT = 1e-4  # of the total: a violation that no more rounds would remove


@dataclass(frozen=True, eq=False, repr=False)
class Projected(Exported, MadeFrom):
    """A release's nearest tables that meet what is known: non-negative, consistent, with public facts met exactly.

    Guarantee: computed from the release alone; no data is touched and no privacy is spent. All tables agree with each
    other, impossible cells are exactly zero, and no cell is negative (if asked). The estimates are biased: there are
    no standard deviations or covariances. Intervals hold the truth at least as often as the release's own, if public
    facts are true; `bound` holds whatever the data; `simulated` is an indication.

    Args:
        release: what was measured.
        terms: what the tables must meet.
        fit: what was found.
        distance: how far it is from the release, squared, in the metric's unit.
        bound: how far from the truth it can be; None where the release is biased itself, its noise not normal, or
            interactions were shrunk.
        simulated: the error that simulations indicated, if any were made.
        assisted: whether intervals are the narrower ones; see `narrower`.
    """

    biased: ClassVar[str] = BIASED  # what is said of its numbers

    release: Release
    terms: Terms
    fit: Fit
    distance: float
    bound: Bound | None
    simulated: SimulatedError | None = None
    assisted: bool = False

    nonnegative = property(attrgetter("terms.nonnegative"), doc="Whether no cell is negative.")
    metric = property(attrgetter("terms.metric"), doc="In which sense the tables are the nearest; see `rs.project`.")
    shrunk = property(attrgetter("terms.shrunk"), doc="Whether interactions were shrunk first; see `rs.project`.")
    gap = property(attrgetter("fit.gap"), doc="How far `distance` is above the least possible, proven; or infinite.")
    infeasibility = property(attrgetter("fit.infeasibility"), doc="The largest violation that was left, in counts.")

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
            PlanError: the projection does not answer this marginal, or nothing tells it.
        """
        names = self.domain.listed(attributes)
        table = self._nearest(names)
        self._require_told(marginals(self.domain, [names]))
        return table

    def _nearest(self, names: tuple[str, ...]) -> Floats:
        positions = self.domain.positions(names)
        members = tuple(sorted(positions))
        if not self.fit.supports(members):
            raise PlanError(
                f"this projection does not answer the marginal on {listing(names)}; the release it is made from must "
                "tell all its cells. A model estimates any table: residua estimate, rs.estimate."
            )
        table = np.array(self.fit.marginal(members))
        if self.terms.nonnegative:
            np.maximum(table, 0.0, out=table)  # what is left below zero is `infeasibility` at most
        mask = impossible_cells(self.domain, [self.domain.names[i] for i in members])
        if mask is not None and self.terms.nonnegative:
            table[mask] = 0.0
        return np.array(table.transpose(np.argsort(np.argsort(positions))), order="C")

    def _require_told(self, workload: Workload) -> None:
        """Refuses what neither the release nor a fact tells: a histogram has numbers there that follow from nothing."""
        if not self.fit.fills or self.plan.by_names or self.plan.bias or self.plan.supports(workload):
            return
        if not np.isfinite(proven(self.terms, workload)[1]).all():
            raise PlanError(
                "the release does not tell all of these numbers, and how the nearest histogram fills cells of which "
                "nothing was measured means nothing; ask for what the release answers, or take rs.estimate."
            )

    def _told(self, workload: Workload, confidence: float | None) -> tuple[Floats, Errors]:
        told = super()._told(workload, confidence)
        self._require_told(workload)
        return told

    def _of_term(self, term: Sequence[tuple[int, AttributeQueries]]) -> Floats:
        answers = self.fit.of_term(term)
        return (
            applied(term, self._nearest(tuple(self.domain.names[i] for i, _ in term))) if answers is None else answers
        )

    def _of_queries(self, workload: Workload) -> Floats:
        answers = self.fit.of_queries(workload)
        return np.asarray(workload.matrix @ self._nearest(workload.names).ravel()) if answers is None else answers

    def ends(self, workload: Workload, estimates: Floats, confidence: float, together: float) -> Mapping[str, Any]:
        """Safe ones, of the release's own cut at what the constraints prove, or narrower ones, if asked for."""
        given = (self.release, self.terms, workload, estimates, confidence, together)
        return assisted_ends(*given) if self.assisted else safe_ends(*given)

    def _counted(self, names: tuple[str, ...]) -> str:
        return "; ".join(filter(None, (ASSISTED if self.assisted else "", super()._counted(names))))

    def narrower(self) -> Projected:
        """The same tables with narrower intervals, the shortest on average that hold each number as often as they say.

        Small numbers have 5 to 15 % narrower ones (docs/uncertainty.md); for normal noise and no negative cells alone.
        """
        require_assistable(self.release, self.terms)
        return replace(self, assisted=True)

    @property
    def histogram(self) -> Floats:
        """The synthetic histogram of a matrix plan's release: counts of all cells of its attributes, one axis each.

        Raises:
            PlanError: the plan is not a matrix; its tables are consistent, but no histogram was formed.
        """
        return self.fit.histogram

    def realisable(self) -> Realisable:
        """Whether some dataset has these tables, with a proof: a histogram that has them, or an inequality.

        Tables that agree and are not negative need not belong to any dataset, unless their attributes form a tree. The
        nearest dataset is found cell by cell, from tables of at most 4,096 cells in all.

        Returns:
            True, False or None as `verdict`, with the `reason` in words; the nearest dataset found (`records`);
            weights of the tables' cells (`inequality`) whose sum no dataset can have; and by how much every dataset
            must miss some cell (`missed`).
        """
        names, sets = self.domain.names, self.fit.largest
        return realisable_tables(self.domain, {each: self.estimates([names[i] for i in each]) for each in sets})

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
            raise PlanError(f"simulations={named(simulations)} is not a positive whole number; 10 is a good one.")
        return simulated_error(
            problem_of(self.plan, self.terms),
            self.fit,
            simulations,
            done=None if isinstance(progress, bool) else progress,
        )

    @with_bar("replicating")
    def replicates(self, n: int = 50, *, progress: Progress | bool | None = None) -> Replicates[Projected]:
        """Projections of releases simulated from the plan as if these tables were the data, for whoever computes on.

        Each is this projection, had it been the truth and been measured and projected again: the spread of any number
        computed from them is about its standard error from the protection, and the distance of their mean from the
        projection's own number about its bias. No data is touched and nothing is spent.

        Args:
            n: how many; each takes as long as the projection did.
            progress: `True` draws a bar on a terminal or in a notebook; or a function, called with how many are done,
                and of how many.

        Raises:
            PlanError: no number of replicates, or an attribute that is called as a column of the file.
        """
        check_count(n)
        problem, random = problem_of(self.plan, self.terms), np.random.default_rng()
        drawn = []
        for i in range(n):
            fit = problem.solve(problem.simulated(self.fit, random))
            drawn.append(replace(self, fit=fit, bound=None, simulated=None))
            if callable(progress):
                progress(i + 1, n)
        return self._replicated(drawn, "simulated as if the projected tables were the truth")

    # ---- files

    def save(self, path: str | Path) -> None:
        """Writes the projection as a folder, whole or not at all; the folder must not exist."""
        save_projection(self, Path(path))

    @staticmethod
    def load(path: str | Path) -> Projected:
        """Reads a saved projection, refusing one that was changed. Needs neither data nor ledger.

        Raises:
            FileError: missing, damaged, changed, or of another version.
        """
        return Projected(*load_projection(Path(path)))

    def __repr__(self) -> str:
        gap = f", gap={self.gap:.2g}" if math.isfinite(self.gap) else ""
        return f"Projected({self.plan.guarantee!r}, metric={self.metric!r}{gap}; {BIASED})"


@with_bar("projecting")
def project(
    release: Release,
    *,
    nonnegative: bool = True,
    total: float | Literal["released", "free"] | None = None,
    known: Mapping[Sequence[str], Any] | None = None,
    metric: Metric | None = None,
    shrink: bool | None = None,
    realisable: bool = False,
    tolerance: float | None = None,
    simulations: int | None = None,
    progress: Progress | bool | None = None,
) -> Projected:
    """The tables nearest to a release that agree with each other, are not negative, and meet the facts.

    Tables of several attributes each can do so and still belong to no dataset; `projected.realisable()` tells, and
    `realisable=True` asks for those of one. A histogram (of a plan of one matrix, of one ordered attribute) is one.

    Reads the release alone: no data is touched, nothing is spent, and it can be done on any machine, later.

    Guarantee: in the metric chosen, the projection is never further from the truth than the release, if the facts and
    structural zeros are true and the total is public or free. (A released total is noisy, so that the truth need not
    have it; `projected.bound` allows for that.) The estimates are biased, and have no standard deviations. Intervals of
    tables are the release's own, cut at what the facts prove, and hold the truth at least as often.

    Args:
        release: what was measured; `rs.Release.load` reads a saved one.
        nonnegative: whether no cell may be negative.
        total: a public total to be met exactly; `"released"` keeps the release's own; `"free"` lets it move, and it
            then moves up: negative cells are raised and nothing else need be lowered. None is the total of the
            known marginals if there are any; else the release's own if it is three standard deviations above zero; else
            one estimated from it, from what is measured of single attributes, and from its being positive; `"free"`
            where the release tells none. Of groups and combined populations each has its own, as released where that
            is clear, else estimated from it and from its being positive.
        known: public marginals to be met exactly, attributes → counts: an array with one axis per attribute, a mapping
            value (or tuple of values) → count, or a frame with a column `count`.
        metric: in which sense nearest. "covariance" is the release's own: every direction by its precision. Raising
            the negative cells of many large tables then distorts small tables, so that those of one attribute can
            become several times worse (docs/figures.md). In "margins", the usual metric for releases of marginals and
            products, small tables weigh more: those of one attribute 256 times, others below the largest 4 times.
            "plain" is squares over all that was asked: cells of marginals, the prefixes, ranges or groups of products
            (attributes asked in several ways: a metric nowhere less than that).
        shrink: whether each set's interaction (its residual) is first shrunk by as much as noise explains of it, so
            that tables which are noise become what smaller tables say, and all of them even ones where nothing else
            is known. None does so for releases of marginals where a third of the total is less than the noise
            of the released total: there the nearest tables are further from the truth than even ones. A shrunk
            projection has no bound, and the guarantee above is then no longer one, but true on average.
        realisable: whether some dataset must have the tables: the nearest is found, of marginals with a total over up
            to eight million cells of all attributes together, else of at most 4,096 cells with normal noise.
        tolerance: how small the proven gap must be, relative to the squared distance; None is 1e-6, or 1e-4 for tables
            of more than a million cells in all. It stops after 5,000 rounds; `projected.gap` says how far it got.
        simulations: how many releases to simulate to indicate the error; None is one where there is no bound, or none
            below the release's own and at most a million cells.
        progress: `True` draws a bar on a terminal or in a notebook; or a function, called
            with how many rounds were done, and the gap or violation left.

    Raises:
        PlanError: a metric that this kind of release lacks; facts that contradict each other, the structural zeros,
            or non-negativity; facts about tables that the release lacks; a released total that is negative.

    Reference: factorization-and-projection, sections 2.3 and 3.

    Example:
        >>> import pyarrow as pa, residua as rs, tempfile
        >>> domain = rs.Domain({"sex": ["F", "M"], "age": rs.Integers(0, 4)})
        >>> data = pa.table({"sex": ["F", "M"] * 50, "age": [0, 1, 2, 1, 0] * 20})
        >>> plan = rs.plan(rs.marginals(domain, ways=[1, 2]), rs.ZCDP(0.1))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     release = rs.measure(plan, data, ledger=rs.Ledger(f"{folder}/l", rs.ZCDP(0.1)))
        >>> projected = rs.project(release, total=100, known={("sex",): [50, 50]})
        >>> bool(projected.estimates(["sex", "age"]).min() >= 0), projected.estimates(["sex"]).round(6).tolist()
        (True, [50.0, 50.0])
    """
    report = None if isinstance(progress, bool) else progress  # a bar has become a function
    if not isinstance(release, Release):
        raise PlanError(f"release={named(release)} is not a release; measure one, or load it with rs.Release.load.")
    cells = math.prod(int(release.domain.sizes[i]) for i in release.plan.measured_attributes)
    if realisable:
        release = _of_a_dataset(release, cells)
    elif release.plan.poses == "blocks" and cells <= MOST_COLUMNS:
        release = over_cells(release)  # few enough for one histogram
    if metric is not None and metric not in get_args(Metric):
        raise PlanError(
            f"metric={named(metric)} is not 'margins', 'covariance' or 'plain'; use one of them, or leave it out."
        )
    if tolerance is None:
        tolerance = 1e-6 if kind_of(release.plan).is_small(release.plan) else 1e-4
    if not isinstance(tolerance, int | float) or not 0 < tolerance < 1:
        raise PlanError(f"tolerance={named(tolerance)} is not a number between 0 and 1, such as 1e-6.")
    if simulations is not None and (
        isinstance(simulations, bool) or not isinstance(simulations, int) or simulations < 0
    ):
        raise PlanError(f"simulations={named(simulations)} is not a whole number of releases; 0 makes none.")
    count, stddev = met_total(release, total) if total is not None or not known else (None, 0.0)
    facts = facts_of(release.domain, count, known)
    plan = release.plan
    terms = Terms(bool(nonnegative), facts, metric_of(plan, metric), float(tolerance), stddev)
    of_one = bool(realisable) and plan.poses == "marginals"
    terms = replace(terms, shrunk=_shrunk(release, terms, shrink), realisable=of_one)
    terms = replace(terms, own_totals=keeps_own(release, total))
    problem = problem_of(plan, terms)
    observed = problem.observed(release)
    fit = problem.solve(observed, report)
    if fit.infeasibility > _CONFLICT * max(1.0, abs(float(fit.marginal(())))):
        raise PlanError(
            f"no tables meet all the facts: one is missed by {fit.infeasibility:,.3g} counts whatever the tables; "
            "some of total, known and the structural zeros contradict each other (or tolerance is too coarse)."
        )
    bounded = problem.bounded and plan.noise.gaussian and not plan.bias and not terms.shrunk
    bound = bound_of(problem, observed, fit) if bounded else None
    if simulations is None:
        simulations = int(bound is None or (bound.projected >= bound.released and problem.is_small(plan)))
    simulated = simulated_error(problem, fit, simulations, progress=report) if simulations else None
    return Projected(release, terms, fit, problem.moved(observed, fit), bound, simulated)


def _of_a_dataset(release: Release, cells: int) -> Release:
    """The release, if the nearest dataset can be found: over all cells of its attributes, where these are few.

    Raises:
        PlanError: too many cells, or tables that are not of values.
    """
    plan = release.plan
    if plan.poses not in ("a histogram", "an axis") and cells <= MOST_COLUMNS and plan.noise.gaussian:
        return over_cells(release)
    if plan.poses in ("a histogram", "an axis") or (plan.poses == "marginals" and cells <= MOST_LISTED):
        return release
    raise PlanError(
        f"realisable=True is for marginals of at most {MOST_LISTED:,} cells of all attributes, or {MOST_COLUMNS:,} and "
        f"normal noise; this release is about {cells:,}: leave it out, and see projected.realisable()."
    )


def _shrunk(release: Release, terms: Terms, wanted: bool | None) -> bool:
    """Whether to shrink: as wanted, or where the noise of the released total is large beside the total."""
    plain = release.plan.family is not None and release.plan.family.plain
    if wanted is not None:
        if not isinstance(wanted, bool):
            raise PlanError(f"shrink={named(wanted)} is not True, False or None; leave it out if in doubt.")
        if wanted and not (plain and terms.nonnegative):
            raise PlanError("shrink=True is for releases of marginals, projected to non-negative tables; leave it out.")
        return wanted
    known = [float(fact.margin(())) for fact in terms.facts]
    if not plain or not terms.nonnegative or not known or not release.plan.supports(()):
        return False
    return known[0] < _CLEAR * math.sqrt(float(release.plan.variance(())))
