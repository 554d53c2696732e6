"""Projection of releases that differ by group: in each group, the nearest histogram without negative cells.

Groups have no cell in common, so that each is projected by itself, all groups of one kind at once: accelerated
projected gradients for `‖L h − y‖²` over `h ≥ 0`, L the rows that the group's plan measures with noise of variance one.
Multipliers that prove a gap come from the gradient, as in `simplex.py`; what is stated is the sum over groups. A
group's total is what its cells add up to; what its plan does not tell apart is spread evenly. Of a group that measured
nothing, nothing is said.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from residua.domain import impossible_cells
from residua.errors import PlanError
from residua.linalg.arrays import Booleans, Floats, Integers
from residua.plans.cells import MOST_COLUMNS
from residua.plans.groups.plan import GroupPlan
from residua.plans.groups.reading import seen_in_groups
from residua.projection.problem import Fit, Problem, Progress, Terms
from residua.release.base import Release

_MOST_CELLS = 2**27
_MOST_ROUNDS = 5000
_LOOK_EVERY = 20  # rounds between two certificates
_BATCH_CELLS = 2**21


@dataclass(frozen=True, eq=False)
class GroupHistograms(Fit):
    """What was found: one histogram for each group.

    Args:
        by: positions of the attributes that make groups.
        attributes: positions of those whose cells are counted within a group, increasing.
        counts: (groups' shape …, cells' shape …), the attributes in the order of `by`, then of `attributes`.
        gap: how far the squared distance is from the least possible, proven, summed over groups.
        infeasibility: 0: no cell is negative.
    """

    by: tuple[int, ...]
    attributes: tuple[int, ...]
    counts: Floats
    gap: float
    infeasibility: float = 0.0

    def __post_init__(self) -> None:
        self.counts.setflags(write=False)

    def supports(self, members: Sequence[int]) -> bool:
        """Whether the marginal on these attributes can be read off."""
        return set(members) <= {*self.by, *self.attributes}

    def marginal(self, members: Sequence[int]) -> Floats:
        """The marginal on these attributes (positions, increasing)."""
        order = (*self.by, *self.attributes)
        kept = [i for i in order if i in members]
        found = self.counts.sum(axis=tuple(axis for axis, i in enumerate(order) if i not in members))
        return np.asarray(found.transpose([kept.index(i) for i in sorted(kept)]))

    @property
    def array(self) -> Floats:
        """What a saved projection keeps."""
        return self.counts


@dataclass(frozen=True, eq=False)
class GroupProblem(Problem):
    """Projection of releases of a plan for groups; observed are all groups' rows, one group after the other.

    Args:
        plan: the plan, as measured.
        terms: what the histograms must meet.
    """

    plan: GroupPlan
    terms: Terms

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

    @cached_property
    def attributes(self) -> tuple[int, ...]:
        """The attributes whose cells are counted within a group."""
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
        """What each member measures over all cells within a group, with noise of variance one, (rows, cells)."""
        found = []
        for plan in self.plan.members:
            grouping, rows = plan.over_cells()
            sizes = self.plan.domain.sizes
            own = [int(sizes[i]) if i in grouping.attributes else 1 for i in self.attributes]
            columns = np.broadcast_to(grouping.columns.reshape(own), self._shape).ravel()
            found.append(np.where(columns >= 0, rows[:, columns], 0.0))
        return found

    @cached_property
    def _possible(self) -> Booleans | None:
        """Whether each cell of each group may hold anyone, (groups, cells); None if all may."""
        order = (*self.plan.by, *self.attributes)
        mask = impossible_cells(self.plan.domain, [self.plan.domain.names[i] for i in sorted(order)])
        if mask is None:
            return None
        return np.asarray(~mask.transpose(np.argsort(np.argsort(order))).reshape(self.plan.groups, -1))

    # ---- the work

    def observed(self, release: Release) -> Floats:
        """Every group's rows, member by member."""
        blocks = release.blocks
        parts = []
        for k, plan in enumerate(self.plan.members):
            measured = blocks.of_member(release.measurements, k)  # type: ignore[attr-defined]  # of groups
            parts.append(seen_in_groups(plan, blocks.members[k], measured)[2].ravel())  # type: ignore[attr-defined]
        return np.concatenate([np.zeros(0), *parts])

    def _split(self, observed: Floats) -> list[Floats]:
        """The rows of the groups of each member, (groups, rows)."""
        sizes = [len(places) * len(rows) for places, rows in zip(self._places, self._rows, strict=True)]
        cut = np.split(observed, np.cumsum(sizes)[:-1])
        return [part.reshape(len(p), -1) for part, p in zip(cut, self._places, strict=True)]

    def solve(self, observed: Floats, progress: Progress | None = None) -> GroupHistograms:
        """The nearest histograms."""
        found, gap = np.full((self.plan.groups, self._cells), np.nan), 0.0
        for rows, places, seen in zip(self._rows, self._places, self._split(observed), strict=True):
            step = max(1, _BATCH_CELLS // self._cells)
            for start in range(0, len(places), step):
                here = places[start : start + step]
                possible = None if self._possible is None else self._possible[here]
                found[here], proven = nearest(rows, seen[start : start + step], possible, self.terms.tolerance)
                gap += proven
                if progress:
                    progress(start, proven)
        return self.fit_of(found, gap, 0.0)

    def unprojected(self, observed: Floats) -> GroupHistograms:
        """Least squares, negative cells included."""
        found = np.full((self.plan.groups, self._cells), np.nan)
        for rows, places, seen in zip(self._rows, self._places, self._split(observed), strict=True):
            found[places] = seen @ np.linalg.pinv(rows, rcond=1e-10).T
        return self.fit_of(found, 0.0, 0.0)

    def fit_of(self, array: Floats, gap: float, infeasibility: float) -> GroupHistograms:
        """The fit that a saved projection keeps."""
        by = tuple(int(self.plan.domain.sizes[i]) for i in self.plan.by)
        if array.size != self.plan.groups * self._cells:
            raise ValueError("the counts do not fit the plan; they belong to another projection")
        return GroupHistograms(self.plan.by, self.attributes, array.reshape(*by, *self._shape), gap, infeasibility)

    def _seen(self, fit: Fit) -> Floats:
        """What a fit says of every row."""
        assert isinstance(fit, GroupHistograms)
        flat = fit.counts.reshape(self.plan.groups, -1)
        parts = [(flat[p] @ rows.T).ravel() for p, rows in zip(self._places, self._rows, strict=True)]
        return np.concatenate([np.zeros(0), *parts])

    def moved(self, observed: Floats, fit: Fit) -> float:
        """The squared distance over all rows."""
        apart = observed - self._seen(fit)
        return float(apart @ apart)

    def size(self, fit: Fit) -> float:
        """The squared length over all rows."""
        return float(self._seen(fit) @ self._seen(fit))

    @property
    def spectrum(self) -> tuple[Floats, Floats]:
        """Noise of variance one in every measured direction."""
        ranks = [np.linalg.matrix_rank(rows) * len(p) for rows, p in zip(self._rows, self._places, strict=True)]
        return np.ones(1), np.array([float(sum(ranks))])

    @property
    def cells(self) -> float:
        """One number for each direction measured."""
        return float(self.spectrum[1][0])

    def simulated(self, fit: Fit, random: np.random.Generator) -> Floats:
        """What a release of the plan would observe if a fit were the truth."""
        seen = self._seen(fit)
        return np.asarray(seen + random.standard_normal(seen.shape))

    def error(self, fit: Fit, truth: Fit) -> float:
        """The mean absolute difference over the cells of all groups."""
        assert isinstance(fit, GroupHistograms)
        assert isinstance(truth, GroupHistograms)
        return float(np.nanmean(np.abs(fit.counts - truth.counts)))


def nearest(rows: Floats, seen: Floats, possible: Booleans | None, tolerance: float) -> tuple[Floats, float]:
    """The histograms without negative cells whose rows are nearest to what was seen, and the gap proven for all.

    Args:
        rows: L, (rows, cells).
        seen: y, (groups, rows).
        possible: which cells may hold anyone, (groups, cells); None if all may.
        tolerance: the gap that is good enough, relative to the squared distances, or to a row's noise.
    """
    gram, pull = rows.T @ rows, rows.T @ seen.T
    target, step = pull.T, 1.0 / max(float(np.linalg.eigvalsh(gram)[-1]), 1e-300)
    start = np.maximum(seen @ np.linalg.pinv(rows, rcond=1e-10).T, 0.0)
    h = start if possible is None else start * possible
    ahead, momentum, squares = h, 1.0, (seen**2).sum(axis=1)
    up = np.linalg.lstsq(rows.T, np.ones(rows.shape[1]), rcond=None)[0]  # rows that raise every cell alike
    lifts = bool((rows.T @ up > 0.5).all())
    gap = np.inf
    for count in range(1, _MOST_ROUNDS + 1):
        after = np.maximum(ahead - step * (ahead @ gram - target), 0.0)
        if possible is not None:
            after = after * possible
        following = (1.0 + math.sqrt(1.0 + 4.0 * momentum**2)) / 2.0
        uphill = ((ahead - after) * (after - h)).sum(axis=1, keepdims=True) > 0  # then the momentum starts anew
        ahead = np.where(uphill, after, after + (momentum - 1.0) / following * (after - h))
        h, momentum = after, following
        if count % _LOOK_EVERY == 0:
            slope = h @ gram
            distance = np.maximum((h * (slope - 2.0 * target)).sum(axis=1) + squares, 0.0)
            s = 2.0 * (slope - target)
            if possible is not None:
                s = np.where(possible, s, 0.0)
            short = np.maximum(-s.min(axis=1), 0.0)
            # With a = short/2 and rows y, Lᵀy = 1: s + 2 a 1 ≥ 0 proves sᵀh + 2 a Σh + a² ‖y‖² (simplex.py).
            proven = (s * h).sum(axis=1) + short * h.sum(axis=1) + (short / 2.0) ** 2 * float(up @ up)
            each = np.minimum(np.maximum(proven, 0.0), distance) if lifts else distance
            gap = float(each.sum())
            if gap <= tolerance * max(float(distance.sum()), float(len(seen))):
                break
    return h, gap
