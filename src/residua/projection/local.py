"""Consistent tables nearest to a release, in residual space, without ever forming the cells of the whole domain.

Coordinates are the residuals r_S, one weight per set; every maximal table is `m_A = Σ_{S⊆A} spread(r_S)/Π_{i∈A∖S} n_i`.
The residuals follow the tables in closed form: `Σ_{A⊇S} ρ_A C_S margin_S(spread(r_S))/Π n² = c_S r_S`. A step is
one sweep over the maximal tables. The dual's p is `p_S = C_S Σ_{A⊇S} margin_S(λ_A)/Π_{i∈A∖S} n_i`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import ArrayLike

from residua.errors import PlanError
from residua.linalg.arrays import Booleans, Floats, Integers
from residua.linalg.lattice import SetFamily
from residua.linalg.layout import layout_of
from residua.projection import table_kernels
from residua.projection.alternating import (
    NO_FLOOR,
    RELAXATION,
    Alternating,
    Interior,
    Nearest,
    Progress,
    TableCertificate,
    checked,
    fix,
    interior_of,
)
from residua.projection.arrangement import Arrangement, TableBatch
from residua.projection.repair import repair_of

_FIRST_PENALTY = 12.0  # ρ_A / w_A


def nearest_consistent(
    lattice: SetFamily,
    sizes: Integers,
    residuals: Floats,
    weights: Floats,
    *,
    fixed: Mapping[tuple[int, ...], ArrayLike] | None = None,
    zeros: Booleans | None = None,
    nonnegative: bool = True,
    tolerance: float = 1e-6,
    rounds: int = 5000,
    progress: Progress | None = None,
) -> Nearest:
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
        The fit, residuals for coordinates. Feasible residuals come back as they are, after no steps.

    Raises:
        PlanError: arguments that do not fit, or constraints that nothing can meet.
    """
    sizes = np.asarray(sizes, dtype=np.int64)
    given_layout = layout_of(lattice, sizes)
    residuals, weights = checked("residuals", residuals, given_layout.cells, weights, len(lattice))
    given = {members: np.asarray(table, dtype=np.float64) for members, table in (fixed or {}).items()}
    if len(lattice) == 1:
        return _total_only(residuals, weights, given, nonnegative, zeros)
    is_fixed = fix(residuals, given_layout, given)
    total = given.get((), np.asarray(0.0))
    margins = {i: table + total / table.size if i else table for i, table in given.items() if len(i) < 2}
    interior = interior_of({**given, **margins}, [np.full(int(n), 1.0 / n) for n in sizes])
    solver = _Residuals(Arrangement(lattice, sizes), residuals, weights, is_fixed, zeros, nonnegative, interior)
    return solver.solve(tolerance, rounds, progress)


class _Residuals(Alternating):
    """The method with residuals for coordinates; z, u and their sum w as in `table_kernels`."""

    def __init__(
        self,
        arrangement: Arrangement,
        residuals: Floats,
        weights: Floats,
        is_fixed: Booleans,
        zeros: Booleans | None,
        nonnegative: bool,
        interior: Interior,
    ) -> None:
        given, sizes = arrangement.given, arrangement.given_sizes
        given_layout = layout_of(given, sizes)
        mask = np.zeros(0, dtype=bool)
        if zeros is not None and zeros.any():
            given_top = layout_of(given, sizes, given.is_maximal)
            if zeros.shape != (given_top.cells,):
                raise PlanError(f"zeros must be {given_top.cells:,} truth values, one per cell of the maximal tables.")
            mask = arrangement.gather(arrangement.top, zeros, given_top)
        top, low = (
            arrangement.gather(layout, residuals, given_layout) for layout in (arrangement.top, arrangement.low)
        )
        arrangement.centre_top(top)
        arrangement.centre(low)
        renumbered = np.argsort(arrangement.numbers)
        super().__init__(
            weights[renumbered], is_fixed[renumbered], (top, low), mask, nonnegative, interior, _FIRST_PENALTY
        )
        self.arrangement, self.given_layout = arrangement, given_layout
        self.cells = arrangement.lattice.products(arrangement.sizes.astype(np.float64))
        self.numbers = np.concatenate([part.numbers for part in arrangement.parts])
        self.own = np.zeros(arrangement.owned_cells)
        self.floors = self._floors()
        self.margins = self._fixed_margins()
        self.set_penalty(_FIRST_PENALTY)

    @property
    def total(self) -> float:
        """How many records are wanted."""
        return max(float(self.wanted_low[self.arrangement.low.starts[0]]), 0.0)

    def wanted_lengths(self) -> tuple[Floats, Floats]:
        """`‖r̂_S‖`, and 1: no residual of one record is longer."""
        squares = np.bincount(self.arrangement.low_sets, self.wanted_low**2, len(self.weights))
        for number, cells in self._tables():
            squares[number] = float(self.wanted[cells] @ self.wanted[cells])
        return np.sqrt(squares), np.ones(len(squares))

    def _tables(self) -> Iterator[tuple[int, slice]]:
        """The number of each maximal set, and where its table lies."""
        for part in self.arrangement.parts:
            cells = int(part.shape.prod())
            for number, begin in zip(part.numbers.tolist(), part.starts.tolist(), strict=True):
                yield number, slice(begin, begin + cells)

    # ---- one step

    def set_penalty(self, penalty: float) -> None:
        """`c_S = Σ_{A⊇S} ρ_A/Π_{i∈A∖S} n_i`, and how far each residual follows the tables."""
        lattice = self.arrangement.lattice
        self.penalty = penalty
        self.penalties = penalty * self.weights
        c = lattice.sum_over_supersets(np.where(lattice.is_maximal, self.penalties, 0.0), 1.0 / self.arrangement.sizes)
        self.blends = np.where(self.is_fixed, 0.0, c / (self.weights + c))
        sets = self.arrangement.low_sets
        self._low_blend, self._low_factor = self.blends[sets], (self.blends / c)[sets]

    def _floors(self) -> Floats:
        if not self.nonnegative:
            return np.full(len(self.cells), NO_FLOOR)
        return np.asarray(self.floor_share * self.total / self.cells)

    def _fixed_margins(self) -> dict[int, Floats]:
        """The shares of single attributes that are given, by attribute."""
        total, shares, lattice = self.total, {}, self.arrangement.lattice
        for number in np.flatnonzero(self.is_fixed & (lattice.set_sizes == 1)).tolist():
            (i,), n = lattice.members(number), int(self.cells[number])
            is_low = self.arrangement.low.starts[number] >= 0
            layout, wanted = (self.arrangement.low, self.wanted_low) if is_low else (self.arrangement.top, self.wanted)
            start = int(layout.starts[number])
            shares[i] = wanted[start : start + n] / max(total, 1e-300) + 1.0 / n
        return shares

    def shift(self, share: float, factor: float) -> None:
        """Puts the floor at another share, and multiplies what was cut off at the floor by a factor."""
        before, self.floor_share = self.floors, share
        self.floors = self._floors()

        def work(part: TableBatch) -> None:
            table_kernels.rescale(
                self.w, self.zeros, part.starts, part.shape, before[part.numbers], self.floors[part.numbers], factor,
                self.own, part.owned,
            )  # fmt: skip

        list(self.pool.map(work, self.arrangement.parts))

    def _low_residuals(self) -> Floats:
        q = self.arrangement.summed_down(self.own, self.penalties)
        self.arrangement.centre(q)
        return (1.0 - self._low_blend) * self.wanted_low + self._low_factor * q

    def step(self) -> tuple[float, float]:
        """One step: how far tables and residuals are apart, and how far the tables moved."""
        lower = self.arrangement.rebuild(self._low_residuals())

        def work(part: TableBatch) -> Floats:
            norms = np.empty((len(part.numbers), 2))
            table_kernels.sweep(
                self.w, self.wanted, self.zeros, part.starts, part.shape, self.blends[part.numbers],
                self.floors[part.numbers], RELAXATION, lower, part.facets, self.own, part.owned, norms,
            )  # fmt: skip
            return norms

        norms = np.concatenate(list(self.pool.map(work, self.arrangement.parts)))
        apart, moved = np.sqrt(self.penalties[self.numbers] @ norms)
        return float(apart), float(moved)

    # ---- the certificate

    def certificate(self) -> TableCertificate:
        """Distance, dual bound and feasibility of the residuals that the next step would start from."""
        return self._certificate(np.empty(0))

    def closing(self) -> TableCertificate:
        """The last certificate; its residuals are kept for `mix`."""
        return self._certificate(np.empty(self.arrangement.top.cells))

    def _certificate(self, top: Floats) -> TableCertificate:
        """The certificate; the residuals of the maximal tables are written to `top` unless that is empty."""
        residuals = self._low_residuals()
        lower = self.arrangement.rebuild(residuals)
        cut = np.empty_like(self.own)

        def work(part: TableBatch) -> Floats:
            facts = np.empty((len(part.numbers), 7))
            table_kernels.inspect(
                self.w, self.wanted, self.zeros, part.starts, part.shape, self.blends[part.numbers],
                self.floors[part.numbers], lower, part.facets, self.own, part.owned, cut, facts, top,
            )  # fmt: skip
            return facts

        facts = np.concatenate(list(self.pool.map(work, self.arrangement.parts)))
        self._kept = top, residuals
        numbers, sets = self.numbers, self.arrangement.low_sets
        rho, w, blend, free = (
            self.penalties[numbers],
            self.weights[numbers],
            self.blends[numbers],
            ~self.is_fixed[numbers],
        )
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
        short = np.maximum(-facts[:, 0], 0.0) if self.nonnegative else np.zeros(len(facts))
        return TableCertificate(
            distance=distance,
            bound=bound,
            infeasibility=max(float(short.max()), float(facts[:, 1].max())),
            slope=max(slope, 0.0),
            total=total,
            short=float(facts[:, 6].sum() / max(facts[:, 6].sum() + total, 1e-300)) if total > 0 else 0.0,
        )

    def unprojected(self) -> TableCertificate:
        """The certificate of the residuals as they came: no penalty, nothing cut off."""
        self.blends = np.zeros_like(self.blends)
        self._low_blend = self._low_factor = np.zeros(1)
        certificate = self.certificate()
        self.set_penalty(self.penalty)
        return certificate

    # ---- what leaves

    def mix(self, share: float) -> float | None:
        """Gives the negative cells of the tables kept mass of their own; the distance then."""
        top, low = self._kept
        arrangement, start = self.arrangement, self.arrangement.low.starts[0]
        total = float(low[start])
        repair = repair_of(arrangement, top, low, table_kernels.RAISED * self.floors, self.margins, self.pool)
        if repair is None:
            return None
        s = repair.share
        top *= 1.0 - s
        top += (s * total) * repair.top
        low = (1.0 - s) * low + (s * total) * repair.low
        kept = self.is_fixed[arrangement.low_sets]
        low[kept] = self.wanted_low[kept]  # as they were but for rounding
        distance = float((self.weights[arrangement.low_sets] * (low - self.wanted_low) ** 2).sum())
        for number, cells in self._tables():
            if self.is_fixed[number]:
                top[cells] = self.wanted[cells]
            apart = top[cells] - self.wanted[cells]
            distance += float(self.weights[number] * (apart @ apart))
        self._kept = top, low
        return distance

    def scattered(self, top: Floats, low: Floats) -> Floats:
        """Residuals in the order in which they came."""
        out = np.empty(self.given_layout.cells)
        self.arrangement.scatter(self.arrangement.top, top, self.given_layout, out)
        self.arrangement.scatter(self.arrangement.low, low, self.given_layout, out)
        return out


def _total_only(
    residuals: Floats,
    weights: Floats,
    fixed: Mapping[tuple[int, ...], Floats],
    nonnegative: bool,
    zeros: Booleans | None,
) -> Nearest:
    """The family of the empty set alone: one number."""
    total = float(fixed[()]) if () in fixed else float(residuals[0])
    if () not in fixed:
        total = max(total, 0.0) if nonnegative else total
        total = 0.0 if zeros is not None and zeros.any() else total
    elif nonnegative and total < 0:
        raise PlanError(f"fixed[()]={total} is negative; a total of counts is not.")
    distance = 0.0 if () in fixed else float(weights[0]) * (total - float(residuals[0])) ** 2
    return Nearest(np.array([total]), 0.0, distance, 0.0, 0, True)
