"""Projection of releases of strata: in each stratum, the nearest histogram without negative cells.

Strata have no cell in common, so that each is projected by itself, all strata of one plan at once: accelerated
projected gradients for `‖L h − y‖²` over `h ≥ 0`, L the rows that the plan measures with noise of variance one.
Multipliers that prove a gap come from the gradient, as in `simplex.py`; what is stated is the sum over strata. A
stratum keeps its released total where that is clear, and one estimated from it where it is not: a free one moves up,
since negative cells are raised and nothing else need be lowered. What its plan does not distinguish is spread evenly.
Of a stratum that measured nothing, nothing is said.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from residua.domain import impossible_cells
from residua.errors import PlanError
from residua.linalg.arrays import Booleans, Floats, Integers
from residua.plans.cells import MOST_COLUMNS
from residua.plans.strata.plan import StrataPlan, seen_in_groups
from residua.projection.problem import CLEAR, MANY_CELLS, Fit, Histogram, Progress, ProjectionProblem, spectral_sums

T = TypeVar("T", bound=np.generic)
_MOST_CELLS = 2**27
_MOST_ROUNDS = 5000
_MOST_STEPS = 100  # to the right multiplier of a total; a handful is usual
_LOOK_EVERY = 20  # rounds between two certificates
_BATCH_CELLS = 2**21


class StrataProblem(ProjectionProblem):
    """Projection of releases of strata; observed are the rows of all strata, one stratum after the other."""

    plan: StrataPlan
    by_strata = True
    in_metrics = ("covariance",)
    no_other = "groups are projected by their covariance; leave metric out."

    def __post_init__(self) -> None:
        if self.terms.facts:
            raise PlanError("total, known: groups are projected one by one, without facts about all; leave them out.")
        if not self.terms.nonnegative:
            raise PlanError("nonnegative=False leaves the groups as they were released; publish the release itself.")
        if self._cells > MOST_COLUMNS or self._cells * self.plan.groups > _MOST_CELLS:
            raise PlanError(
                f"{self.plan.groups:,} groups of {self._cells:,} cells are too many to be projected (at most "
                f"{MOST_COLUMNS:,} cells in a group, {_MOST_CELLS:,} in all); publish the release itself."
            )

    @classmethod
    def is_small(cls, plan: StrataPlan) -> bool:
        """By the cells of all groups."""
        return math.prod(int(plan.domain.sizes[i]) for i in plan.measured_attributes) <= MANY_CELLS

    @cached_property
    def attributes(self) -> tuple[int, ...]:
        """The attributes whose cells are counted within a stratum."""
        return tuple(i for i in self.plan.measured_attributes if i not in self.plan.by)

    @cached_property
    def _shape(self) -> tuple[int, ...]:
        return tuple(int(self.plan.domain.sizes[i]) for i in self.attributes)

    @property
    def _cells(self) -> int:
        return math.prod(self._shape)

    @cached_property
    def _places(self) -> list[Integers]:
        return [np.flatnonzero(self.plan.chosen == k) for k in range(len(self.plan.members))]

    @cached_property
    def _rows(self) -> list[Floats]:
        """What each member measures over all cells within a stratum, with noise of variance one, (rows, cells)."""
        measured = []
        for plan in self.plan.members:
            grouping, rows = plan.over_cells()
            sizes = self.plan.domain.sizes
            own = [int(sizes[i]) if i in grouping.attributes else 1 for i in self.attributes]
            columns = np.broadcast_to(grouping.columns.reshape(own), self._shape).ravel()
            measured.append(np.where(columns >= 0, rows[:, columns], 0.0))
        return measured

    @property
    def _order(self) -> tuple[int, ...]:
        """The attributes of strata, then of cells within one."""
        return (*self.plan.by, *self.attributes)

    def _by_stratum(self, cells: NDArray[T]) -> NDArray[T]:
        """Cells of all attributes, one axis each, as (strata, cells of a stratum)."""
        return cells.transpose(np.argsort(np.argsort(self._order))).reshape(self.plan.groups, -1)

    @cached_property
    def _possible(self) -> Booleans | None:
        """Whether each cell of each stratum may hold anyone, (strata, cells); None if all may."""
        mask = impossible_cells(self.plan.domain, [self.plan.domain.names[i] for i in sorted(self._order)])
        return None if mask is None else ~self._by_stratum(mask)

    # ---- the work

    def read(self, estimator: Any) -> Floats:
        """The rows of every stratum, member by member."""
        measurements = estimator.measurements
        parts = []
        for k, plan in enumerate(self.plan.members):
            measured = measurements.of_member(estimator.noisy, k)
            parts.append(seen_in_groups(plan, measurements.members[k], measured)[2].ravel())
        return np.concatenate([np.zeros(0), *parts])

    def noise(self, random: np.random.Generator) -> Floats:
        """Of variance one."""
        return random.standard_normal(sum(len(p) * len(r) for p, r in zip(self._places, self._rows, strict=True)))

    def _split(self, observed: Floats) -> list[Floats]:
        """The rows of the strata of each member, (strata, rows)."""
        sizes = [len(places) * len(rows) for places, rows in zip(self._places, self._rows, strict=True)]
        cut = np.split(observed, np.cumsum(sizes)[:-1])
        return [part.reshape(len(p), -1) for part, p in zip(cut, self._places, strict=True)]

    def solve(self, observed: Floats, progress: Progress | None = None) -> Histogram:
        """The nearest histograms."""
        counts, gap = np.full((self.plan.groups, self._cells), np.nan), 0.0
        for rows, places, seen in zip(self._rows, self._places, self._split(observed), strict=True):
            totals = totals_of(rows, seen) if self.terms.own_totals else np.full(len(seen), np.nan)
            step = max(1, _BATCH_CELLS // self._cells)
            for start in range(0, len(places), step):
                here = places[start : start + step]
                possible = None if self._possible is None else self._possible[here]
                part = slice(start, start + step)
                counts[here], proven = nearest(rows, seen[part], totals[part], possible, self.terms.tolerance)
                gap += proven
                if progress:
                    progress(start, proven)
        return self._fit(counts, gap)

    def unprojected(self, observed: Floats) -> Histogram:
        """Least squares, negative cells included."""
        counts = np.full((self.plan.groups, self._cells), np.nan)
        for rows, places, seen in zip(self._rows, self._places, self._split(observed), strict=True):
            counts[places] = seen @ np.linalg.pinv(rows, rcond=1e-10).T
        return self._fit(counts, 0.0)

    def _fit(self, counts: Floats, gap: float) -> Histogram:
        """The histograms of all strata, (strata, cells), as one."""
        order = self._order
        tensor = counts.reshape([int(self.plan.domain.sizes[i]) for i in order]).transpose(np.argsort(order))
        return self.fit_of(np.ascontiguousarray(tensor), gap, 0.0)

    def fit_of(self, array: Floats, gap: float, infeasibility: float) -> Histogram:
        """The fit that a saved projection keeps."""
        attributes = tuple(sorted(self._order))
        if array.shape != tuple(int(self.plan.domain.sizes[i]) for i in attributes):
            raise ValueError("the counts do not fit the plan; they belong to another projection")
        return Histogram(array, gap, infeasibility, attributes)

    def seen(self, fit: Fit) -> Floats:
        """What a fit says of every row."""
        flat = self._by_stratum(fit.array)
        parts = [(flat[p] @ rows.T).ravel() for p, rows in zip(self._places, self._rows, strict=True)]
        return np.concatenate([np.zeros(0), *parts])

    @property
    def total_sums(self) -> tuple[float, float, float]:
        """A total off by δ moves the truth t, scaled to it, by `|δ| ‖L t‖/n`, at most |δ| times L's longest column.

        Doubled, as one cut at zero is off by at most 0.8 standard deviations more than the released one.
        """
        variances = [4.0 * total_rows(rows)[1] * float((rows**2).sum(axis=0).max(initial=0.0)) for rows in self._rows]
        return spectral_sums(np.array(variances), np.array([float(len(places)) for places in self._places]))

    @property
    def cells(self) -> float:
        """One number for each direction measured."""
        ranks = [np.linalg.matrix_rank(rows) * len(p) for rows, p in zip(self._rows, self._places, strict=True)]
        return float(sum(ranks))


def total_rows(rows: Floats) -> tuple[Floats, float]:
    """What tells the total of a stratum from its rows, (rows,), and its variance; 0 where nothing does."""
    up = np.linalg.lstsq(rows.T, np.ones(rows.shape[1]), rcond=None)[0]
    up = up * np.allclose(rows.T @ up, 1.0, atol=1e-6)
    return np.asarray(up, dtype=np.float64), float(up @ up)


def totals_of(rows: Floats, seen: Floats) -> Floats:
    """The total of each stratum, (strata,): as released where that is clear, else the mean of its normal cut at zero.

    Not a number where nothing tells it.
    """
    up, variance = total_rows(rows)
    if variance == 0.0:
        return np.full(len(seen), np.nan)
    z = seen @ up / math.sqrt(variance)
    cut = z + np.exp(-0.5 * z**2 - log_ndtr(z)) / math.sqrt(2.0 * math.pi)
    return np.asarray(np.where(z > CLEAR, seen @ up, np.maximum(cut, 0.0) * math.sqrt(variance)))


def feasible(cells: Floats, totals: Floats, possible: Booleans | None) -> Floats:
    """The nearest points without negative cells that have the totals, (strata, cells); NaN leaves a total free."""
    kept = np.isfinite(totals)
    if possible is not None:
        cells = np.where(possible, cells, -np.inf)
    lowered = np.where(kept, cells.max(axis=1) - totals, 0.0)[:, None]
    for _ in range(_MOST_STEPS if kept.any() else 0):  # Newton's, from below, of a convex function of straight pieces
        above = np.where(kept, np.maximum(cells - lowered, 0.0).sum(axis=1) - totals, 0.0)
        if not (above > 1e-12 * np.abs(totals)).any():
            break
        lowered += (above / np.maximum((cells > lowered).sum(axis=1), 1))[:, None]
    raised = np.maximum(cells - lowered, 0.0)
    exact = np.where(kept, totals / np.maximum(raised.sum(axis=1), 1e-300), 1.0)
    return np.asarray(raised * exact[:, None])


def nearest(
    rows: Floats, seen: Floats, totals: Floats, possible: Booleans | None, tolerance: float
) -> tuple[Floats, float]:
    """The histograms without negative cells whose rows are nearest to what was seen, and the gap proven for all.

    Args:
        rows: L, (rows, cells).
        seen: y, (strata, rows).
        totals: what the cells of each stratum add up to, (strata,); not a number leaves it free.
        possible: which cells may hold anyone, (strata, cells); None if all may.
        tolerance: the gap that is good enough, relative to the squared distances, or to a row's noise.
    """
    few = 2 * rows.shape[0] < rows.shape[1]  # then twice over them is quicker than once over all cells
    gram, target = np.zeros((0, 0)) if few else rows.T @ rows, seen @ rows
    step = 1.0 / max(float(np.linalg.norm(rows, 2)) ** 2, 1e-300)
    if possible is not None:
        totals = np.where(possible.any(axis=1), totals, np.nan)
    kept = np.isfinite(totals)
    h = feasible(seen @ np.linalg.pinv(rows, rcond=1e-10).T, totals, possible)
    ahead, momentum, squares = h, 1.0, (seen**2).sum(axis=1)
    up = np.linalg.lstsq(rows.T, np.ones(rows.shape[1]), rcond=None)[0]  # rows that raise every cell alike
    lifts = bool((rows.T @ up > 0.5).all())
    gap = np.inf
    for count in range(1, _MOST_ROUNDS + 1):
        after = feasible(ahead - step * ((ahead @ rows.T @ rows if few else ahead @ gram) - target), totals, possible)
        following = (1.0 + math.sqrt(1.0 + 4.0 * momentum**2)) / 2.0
        uphill = ((ahead - after) * (after - h)).sum(axis=1, keepdims=True) > 0  # then the momentum starts anew
        ahead = np.where(uphill, after, after + (momentum - 1.0) / following * (after - h))
        h, momentum = after, following
        if count % _LOOK_EVERY == 0:
            slope = h @ rows.T @ rows
            distance = np.maximum((h * (slope - 2.0 * target)).sum(axis=1) + squares, 0.0)
            s = 2.0 * (slope - target)
            lowest = s.min(axis=1, where=True if possible is None else possible, initial=np.inf)
            if possible is not None:
                s = np.where(possible, s, 0.0)
            short = np.maximum(-s.min(axis=1), 0.0)
            # With a = short/2 and rows y, Lᵀy = 1: s + 2 a 1 ≥ 0 proves sᵀh + 2 a Σh + a² ‖y‖² (simplex.py).
            proven = (s * h).sum(axis=1) + short * h.sum(axis=1) + (short / 2.0) ** 2 * float(up @ up)
            proven = np.minimum(np.maximum(proven, 0.0), distance) if lifts else distance
            if kept.any():  # sᵀ(h − h*) for any other with the total
                proven = np.where(kept, np.minimum((s * h).sum(axis=1) - totals * lowest, distance), proven)
            gap = float(np.maximum(proven, 0.0).sum())
            if gap <= tolerance * max(float(distance.sum()), float(len(seen))):
                break
    return h, gap
