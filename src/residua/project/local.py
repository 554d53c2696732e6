"""Consistent tables nearest to a release, in residual space, without ever forming the cells of the whole domain.

Minimise `Σ_S w_S ‖r_S − r̂_S‖²` such that every maximal table `m_A = Σ_{S⊆A} spread(r_S)/Π_{i∈A∖S} n_i` is non-negative
(then so are all margins), some residuals are given, and some cells are zero. The alternating direction method splits
the tables z_A ≥ 0 from the residuals: with penalties ρ_A the residuals follow in closed form, because
`Σ_{A⊇S} ρ_A C_S margin_S(spread(r_S))/Π n² = c_S r_S`; a step is one sweep over the maximal tables. Its multipliers
`λ_A = −ρ_A u_A ≥ 0` are feasible for the dual at every step:
`−Σ_S ‖p_S‖²/w_S − 2 Σ_S ⟨p_S, r̂_S⟩`, `p_S = C_S Σ_{A⊇S} margin_S(λ_A)/Π_{i∈A∖S} n_i`, bounds the optimum from below.

The tables are asked to stay above a tiny floor, the table of `floor_share` of all records spread evenly, so that what
has nearly converged is strictly feasible, and the certificate is that of the problem without the floor.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from residua.errors import PlanError
from residua.linalg.lattice import Lattice
from residua.linalg.layout import layout_of
from residua.project import kernels
from residua.project.arrangement import Arrangement, Part

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Progress = Callable[[int, float], object]

_RELAXATION = 1.85
_FIRST_PENALTY = 12.0  # ρ_A / w_A
_CHECK_EVERY = 25
_NO_FLOOR = -1e300  # compiled loops assume finite numbers


@dataclass(frozen=True, eq=False)
class LocalFit:
    """The nearest consistent tables, as residuals.

    Guarantee: no feasible tables have a squared distance below `distance − gap`, to within rounding.

    Args:
        residuals: r_S of every set in the order of `layout_of(lattice, sizes)`, centred, (cells,).
        gap: proven bound on how far `distance` is above the least possible.
        distance: `Σ_S w_S ‖r_S − r̂_S‖²`.
        infeasibility: the largest violation of non-negativity or of a zero, in counts.
        rounds: how many steps were made.
        converged: whether the gap and the violation are within what was asked.
    """

    residuals: Floats
    gap: float
    distance: float
    infeasibility: float
    rounds: int
    converged: bool


def nearest_consistent(
    lattice: Lattice,
    sizes: Integers,
    residuals: Floats,
    weights: Floats,
    *,
    fixed: Mapping[tuple[int, ...], ArrayLike] | None = None,
    zeros: NDArray[np.bool_] | None = None,
    nonnegative: bool = True,
    tolerance: float = 1e-6,
    rounds: int = 5000,
    progress: Progress | None = None,
) -> LocalFit:
    """The consistent tables of a family that are nearest to given residuals and meet the constraints.

    Args:
        lattice: the family of attribute sets.
        sizes: how many values each attribute has, (attributes,).
        residuals: one table for every set in the order of `layout_of(lattice, sizes)`, (cells,); only the centred part
            counts, so that estimated marginals will do.
        weights: w_S > 0 of each set, (sets,): the precisions of the release.
        fixed: attribute positions (increasing) → table whose centred part is the residual's; `()` fixes the total.
        zeros: which cells of the maximal tables must be zero, in the order of
            `layout_of(lattice, sizes, lattice.is_maximal)`.
        nonnegative: whether no cell may be negative.
        tolerance: the gap that is good enough, relative to the squared distance (or to one, if that is smaller).
        rounds: how many steps at most.
        progress: called with the step and the relative gap now and then.

    Returns:
        The fit. Feasible residuals come back as they are, after no steps.

    Raises:
        PlanError: arguments that do not fit, or constraints that nothing can meet.
    """
    came = layout_of(lattice, sizes)
    residuals = np.asarray(residuals, dtype=np.float64)
    weights = np.asarray(weights, dtype=np.float64)
    if residuals.shape != (came.cells,) or not np.isfinite(residuals).all():
        raise PlanError(f"residuals must be {came.cells:,} finite numbers, one a cell of every table.")
    if weights.shape != (len(lattice),) or not (np.isfinite(weights).all() and (weights > 0).all()):
        raise PlanError(f"weights must be {len(lattice):,} positive numbers, one a set.")
    given = {members: np.asarray(table, dtype=np.float64) for members, table in (fixed or {}).items()}
    if len(lattice) == 1:
        return _total_only(residuals, weights, given, nonnegative, zeros)
    arrangement = Arrangement(lattice, np.asarray(sizes, dtype=np.int64))
    solver = _Solver.of(arrangement, residuals, weights, given, zeros, nonnegative)
    try:
        return solver.solve(tolerance, rounds, progress, residuals)
    finally:
        solver.pool.shutdown()


@dataclass(eq=False)
class _Certificate:
    """What one look at the tables told."""

    distance: float
    bound: float
    least: float  # the least cell, relative to nothing
    infeasibility: float
    slope: float  # how fast the floor raises the distance, per share
    residuals: Floats  # of the lower sets

    @property
    def gap(self) -> float:
        return max(self.distance - self.bound, 0.0)


class _Solver:
    """The state of the method: the only mutable thing here, and it does not leave this module."""

    def __init__(
        self,
        arrangement: Arrangement,
        wanted: Floats,
        wanted_low: Floats,
        weights: Floats,
        is_fixed: NDArray[np.bool_],
        zeros: NDArray[np.bool_],
        nonnegative: bool,
    ) -> None:
        self.arrangement, self.wanted, self.wanted_low = arrangement, wanted, wanted_low
        self.weights, self.is_fixed, self.zeros, self.nonnegative = weights, is_fixed, zeros, nonnegative
        self.cells = arrangement.lattice.products(arrangement.sizes.astype(np.float64))
        self.w = np.zeros(arrangement.top.cells)
        self.own = np.zeros(arrangement.owned_cells)
        self.floor_share = self.tolerance = 0.0
        self.floors = self._floors()
        self.pool = ThreadPoolExecutor(os.cpu_count())
        self._set_penalties(_FIRST_PENALTY)

    @classmethod
    def of(
        cls,
        arrangement: Arrangement,
        residuals: Floats,
        weights: Floats,
        fixed: Mapping[tuple[int, ...], Floats],
        zeros: NDArray[np.bool_] | None,
        nonnegative: bool,
    ) -> _Solver:
        """Arranges what came, with the fixed residuals in their places."""
        given, sizes = arrangement.given, arrangement.given_sizes
        came = layout_of(given, sizes)
        is_fixed = np.zeros(len(given), dtype=bool)
        if fixed:
            residuals = residuals.copy()
        for members, table in fixed.items():
            number = int(given.find(np.array([members], dtype=np.int32).reshape(1, -1))[0])
            shape = tuple(int(sizes[i]) for i in members)
            if number < 0 or table.shape != shape or not np.isfinite(table).all():
                raise PlanError(f"fixed[{members!r}] must be a finite table of shape {shape} of a set of the family.")
            residuals[came.starts[number] : came.starts[number] + table.size] = table.ravel()
            is_fixed[number] = True
        mask = np.zeros(0, dtype=bool)
        if zeros is not None and zeros.any():
            given_top = layout_of(given, sizes, given.is_maximal)
            if zeros.shape != (given_top.cells,):
                raise PlanError(f"zeros must be {given_top.cells:,} truth values, one a cell of every maximal table.")
            mask = arrangement.gather(arrangement.top, zeros, given_top)
        wanted = arrangement.gather(arrangement.top, residuals, came)
        wanted_low = arrangement.gather(arrangement.low, residuals, came)
        arrangement.centre_top(wanted)
        arrangement.centre(wanted_low)
        renumbered = np.argsort(arrangement.numbers)
        return cls(arrangement, wanted, wanted_low, weights[renumbered], is_fixed[renumbered], mask, nonnegative)

    # ---- the loop

    def solve(self, tolerance: float, rounds: int, progress: Progress | None, came: Floats) -> LocalFit:
        """Steps until the certificate is good enough."""
        found = self._unprojected()
        total = max(found.residuals[self.arrangement.low.starts[0]], 0.0)
        if found.infeasibility <= 1e-10 * total:
            return LocalFit(_read_only(self._as_they_came(found, came)), 0.0, 0.0, found.infeasibility, 0, True)
        most = self._most()
        self.tolerance = tolerance
        self._set_floor(tolerance)
        done, converged = 0, False
        while done < rounds and not converged:
            for _ in range(min(_CHECK_EVERY, rounds - done)):
                norms = self._step()
                done += 1
            found = self._certificate()
            allowed = tolerance * max(found.distance, 1.0)
            if progress:
                progress(done, abs(found.distance - found.bound) / max(found.distance, 1.0))
            if found.bound > most:
                raise PlanError(
                    "no consistent non-negative tables meet the total, the fixed tables and the zeros (proven: the "
                    "dual exceeds the distance to anything feasible); leave one of them out."
                )
            total = max(found.residuals[self.arrangement.low.starts[0]], 0.0)
            share = self._repair_share(found)  # what mixing would cost is known to first order
            exact = found.infeasibility <= 1e-11 * total or 0.0 < share <= 100.0 * tolerance
            converged = exact and abs(found.distance - found.bound) + 2.0 * share * found.slope <= allowed
            if not converged:
                self._adapt(norms, found, allowed)
        return self._finished(done, converged, tolerance)

    def _adapt(self, norms: Floats, found: _Certificate, allowed: float) -> None:
        """Keeps both residuals of the method alike, and the floor's share of the gap within a quarter of it."""
        wanted = min(10.0 * self.tolerance, allowed / 4.0 / max(found.slope, 1e-300))
        if not 0.5 < wanted / self.floor_share < 2.0:
            self._set_floor(wanted)
        apart, moved = (float(x) for x in np.sqrt(self.penalties_of_parts @ norms))
        ratio = apart / max(moved, 1e-300)
        if ratio > 0.0 and not 0.45 < ratio < 1.2:  # below about 0.4 it does not fall, however large the penalty
            factor = 0.6 if ratio <= 0.45 else min(2.0, ratio / 0.8)
            self._rescale(self.floors, 1.0 / factor)
            self._set_penalties(self.penalty * factor)

    def _finished(self, done: int, converged: bool, tolerance: float) -> LocalFit:
        arrangement = self.arrangement
        came = layout_of(arrangement.given, arrangement.given_sizes)
        top = np.empty(arrangement.top.cells)
        found = self._certificate(top)
        share = self._repair_share(found)
        distance, infeasibility = found.distance, found.infeasibility
        low = found.residuals
        if share > 0:
            # Mixed with the same total spread evenly: consistent, because everything is linear.
            distance = self._mixed_distance(top, low, share)
            start = arrangement.low.starts[0]
            total = low[start]
            top *= 1.0 - share
            low = low * (1.0 - share)
            low[start] = total
            infeasibility = 0.0
        out = np.empty(came.cells)
        arrangement.scatter(arrangement.top, top, came, out)
        arrangement.scatter(arrangement.low, low, came, out)
        gap = max(distance - found.bound, 0.0)
        converged = converged and gap <= 2.0 * tolerance * max(distance, 1.0)
        return LocalFit(_read_only(out), gap, distance, infeasibility, done, converged)

    # ---- one step

    def _set_penalties(self, penalty: float) -> None:
        """`c_S = Σ_{A⊇S} ρ_A/Π_{i∈A∖S} n_i`, and how far each residual follows the tables."""
        lattice = self.arrangement.lattice
        self.penalty = penalty
        self.penalties = penalty * self.weights
        self.penalties_of_parts = np.concatenate([self.penalties[part.numbers] for part in self.arrangement.parts])
        c = lattice.sum_over_supersets(np.where(lattice.is_maximal, self.penalties, 0.0), 1.0 / self.arrangement.sizes)
        self.blends = np.where(self.is_fixed, 0.0, c / (self.weights + c))
        sets = self.arrangement.low_sets
        self._low_blend, self._low_factor = self.blends[sets], (self.blends / c)[sets]

    def _floors(self) -> Floats:
        if not self.nonnegative:
            return np.full(len(self.cells), _NO_FLOOR)
        total = float(self.wanted_low[self.arrangement.low.starts[0]])
        return np.asarray(self.floor_share * max(total, 0.0) / self.cells)

    def _set_floor(self, share: float) -> None:
        if share != self.floor_share:
            before = self.floors
            self.floor_share = share
            self.floors = self._floors()
            self._rescale(before, 1.0)

    def _rescale(self, before: Floats, factor: float) -> None:
        def work(part: Part) -> None:
            kernels.rescale(
                self.w, self.zeros, part.starts, part.shape, before[part.numbers], self.floors[part.numbers], factor,
                self.own, part.owned,
            )  # fmt: skip

        list(self.pool.map(work, self.arrangement.parts))

    def _low_residuals(self) -> Floats:
        q = self.arrangement.summed_down(self.own, self.penalties)
        self.arrangement.centre(q)
        return (1.0 - self._low_blend) * self.wanted_low + self._low_factor * q

    def _step(self) -> Floats:
        """One step; the squared residuals of the method, (tables, 2)."""
        lower = self.arrangement.rebuild(self._low_residuals())

        def work(part: Part) -> Floats:
            norms = np.empty((len(part.numbers), 2))
            kernels.sweep(
                self.w, self.wanted, self.zeros, part.starts, part.shape, self.blends[part.numbers],
                self.floors[part.numbers], _RELAXATION, lower, part.facets, self.own, part.owned, norms,
            )  # fmt: skip
            return norms

        return np.concatenate(list(self.pool.map(work, self.arrangement.parts)))

    # ---- the certificate

    def _certificate(self, out: Floats | None = None) -> _Certificate:
        """Distance, dual bound and feasibility of the residuals that the next step would start from."""
        residuals = self._low_residuals()
        lower = self.arrangement.rebuild(residuals)
        cut = np.empty_like(self.own)
        written = np.empty(0) if out is None else out

        def work(part: Part) -> Floats:
            facts = np.empty((len(part.numbers), 6))
            kernels.inspect(
                self.w, self.wanted, self.zeros, part.starts, part.shape, self.blends[part.numbers],
                self.floors[part.numbers], lower, part.facets, self.own, part.owned, cut, facts, written,
            )  # fmt: skip
            return facts

        facts = np.concatenate(list(self.pool.map(work, self.arrangement.parts)))
        numbers = np.concatenate([part.numbers for part in self.arrangement.parts])
        rho, w, blend = self.penalties[numbers], self.weights[numbers], self.blends[numbers]
        free = ~self.is_fixed[numbers]
        sets = self.arrangement.low_sets
        w_low, free_low = self.weights[sets], ~self.is_fixed[sets]
        p = -self.arrangement.summed_down(cut, self.penalties)
        self.arrangement.centre(p)
        distance = float((w * blend**2 * facts[:, 2]).sum() + (w_low * (residuals - self.wanted_low) ** 2).sum())
        bound = float(
            (2.0 * rho * facts[:, 4] - free * rho**2 / w * facts[:, 3]).sum()
            - (free_low * p**2 / w_low + 2.0 * p * self.wanted_low).sum()
        )
        total = max(float(residuals[self.arrangement.low.starts[0]]), 0.0)
        slope = float(-2.0 * (rho * facts[:, 5] / self.cells[numbers]).sum() * total)
        least = float(facts[:, 0].min()) if self.nonnegative else np.inf
        infeasibility = max(-least, float(facts[:, 1].max()), 0.0)
        self._least = np.column_stack([facts[:, 0], total / self.cells[numbers]])
        return _Certificate(distance, bound, least, infeasibility, max(slope, 0.0), residuals)

    def _unprojected(self) -> _Certificate:
        """The same of the residuals as they came: no penalty, nothing cut off."""
        penalty = self.penalty
        self.blends = np.zeros_like(self.blends)
        self._low_blend = self._low_factor = np.zeros(1)
        found = self._certificate()
        self._set_penalties(penalty)
        return found

    def _most(self) -> float:
        """No feasible tables are further away: no residual of n records is longer than n. Infinite without a total."""
        start = self.arrangement.low.starts[0]
        if not (self.nonnegative and self.is_fixed[0]):
            return np.inf
        total = max(float(self.wanted_low[start]), 0.0)
        squares = np.bincount(self.arrangement.low_sets, self.wanted_low**2, len(self.weights))
        for part in self.arrangement.parts:
            cells = int(part.shape.prod())
            for number, begin in zip(part.numbers.tolist(), part.starts.tolist(), strict=True):
                squares[number] = float(self.wanted[begin : begin + cells] @ self.wanted[begin : begin + cells])
        return float(self.weights[1:] @ (np.sqrt(squares[1:]) + total) ** 2) * (1.0 + 1e-9)

    # ---- exact feasibility

    def _repair_share(self, found: _Certificate) -> float:
        """How much of the evenly spread total must be mixed in so that no cell is negative; 0 if that is not open."""
        if not self.nonnegative or self.zeros.size or self.is_fixed[1:].any() or found.least >= 0:
            return 0.0
        least, even = self._least.T
        short = np.maximum(-least, 0.0)
        return float((short / np.maximum(short + even, 1e-300)).max()) * (1.0 + 1e-9) if even.max() > 0 else 0.0

    def _mixed_distance(self, top: Floats, low: Floats, share: float) -> float:
        sets = self.arrangement.low_sets
        kept = np.where(sets == 0, 1.0, 1.0 - share)
        distance = float((self.weights[sets] * (kept * low - self.wanted_low) ** 2).sum())
        for part in self.arrangement.parts:
            cells = int(part.shape.prod())
            for number, begin in zip(part.numbers.tolist(), part.starts.tolist(), strict=True):
                apart = (1.0 - share) * top[begin : begin + cells] - self.wanted[begin : begin + cells]
                distance += float(self.weights[number] * (apart @ apart))
        return distance

    def _as_they_came(self, found: _Certificate, came: Floats) -> Floats:
        """The residuals as given, centred, with the fixed ones in place."""
        layout = layout_of(self.arrangement.given, self.arrangement.given_sizes)
        out = np.empty(layout.cells)
        self.arrangement.scatter(self.arrangement.top, self.wanted, layout, out)
        self.arrangement.scatter(self.arrangement.low, self.wanted_low, layout, out)
        return out


def _total_only(
    residuals: Floats,
    weights: Floats,
    fixed: Mapping[tuple[int, ...], Floats],
    nonnegative: bool,
    zeros: NDArray[np.bool_] | None,
) -> LocalFit:
    """The family of the empty set alone: one number."""
    total = float(fixed[()]) if () in fixed else float(residuals[0])
    if () not in fixed:
        total = max(total, 0.0) if nonnegative else total
        total = 0.0 if zeros is not None and zeros.any() else total
    elif nonnegative and total < 0:
        raise PlanError(f"fixed[()]={total} is negative; a total of counts is not.")
    distance = 0.0 if () in fixed else float(weights[0]) * (total - float(residuals[0])) ** 2
    return LocalFit(_read_only(np.array([total])), 0.0, distance, 0.0, 0, True)


def _read_only(array: Floats) -> Floats:
    array.setflags(write=False)
    return array
