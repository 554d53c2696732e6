"""Consistent tables nearest to a release, in residual space, without ever forming the cells of the whole domain.

Coordinates are the residuals r_S, one weight per set; every maximal table is `m_A = Σ_{S⊆A} spread(r_S)/Π_{i∈A∖S} n_i`.
The residuals follow the tables in closed form: `Σ_{A⊇S} ρ_A C_S margin_S(spread(r_S))/Π n² = c_S r_S`. A step is
one sweep over the maximal tables. The dual's p is `p_S = C_S Σ_{A⊇S} margin_S(λ_A)/Π_{i∈A∖S} n_i`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from residua.errors import PlanError
from residua.linalg.arrays import Floats, centred
from residua.linalg.lattice import layout_of
from residua.projection import table_kernels
from residua.projection.alternating import NO_FLOOR, RELAXATION, Alternating, Posed, TableCertificate
from residua.projection.arrangement import Arrangement, TableBatch, repair_of

_FIRST_PENALTY = 12.0  # ρ_A / w_A


class Residuals(Alternating[TableBatch]):
    """The method with residuals for coordinates; z, u and their sum w as in `table_kernels`."""

    def __init__(self, arrangement: Arrangement, posed: Posed) -> None:
        given, given_layout, mask = arrangement.given, arrangement.given_layout, np.zeros(0, dtype=bool)
        if posed.zeros is not None and posed.zeros.any():
            given_top = layout_of(given, arrangement.given_sizes, given.is_maximal)
            if posed.zeros.shape != (given_top.cells,):
                raise PlanError(f"zeros must be {given_top.cells:,} truth values, one per cell of the maximal tables.")
            mask = arrangement.gather(arrangement.top, posed.zeros, given_top)
        top, low = (
            arrangement.gather(layout, posed.wanted, given_layout) for layout in (arrangement.top, arrangement.low)
        )
        for part in arrangement.parts:
            part.view(top)[...] = centred(part.view(top), 1)
        arrangement.centre(low)
        renumbered = np.argsort(arrangement.numbers)
        posed = replace(posed, weights=posed.weights[renumbered], is_fixed=posed.is_fixed[renumbered])
        super().__init__(posed, arrangement.parts, arrangement.low_sets, (top, low), mask)
        self.arrangement = arrangement
        self.cells = arrangement.lattice.products(arrangement.sizes.astype(np.float64))
        self.numbers = np.concatenate([part.numbers for part in self.parts])
        self.own = np.zeros(arrangement.owned_cells)
        self.set_penalty(_FIRST_PENALTY)

    @property
    def total(self) -> float:
        """How many records are wanted."""
        return max(float(self.wanted_low[self.arrangement.low.starts[0]]), 0.0)

    @property
    def longest(self) -> Floats:
        """1: no residual of one record is longer."""
        return np.ones(len(self.weights))

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

    @property
    def floors(self) -> Floats:
        """The least that the cells of each set may hold, (sets,)."""
        return self.floor_share * self.total / self.cells if self.nonnegative else np.full(len(self.cells), NO_FLOOR)

    def allowed(self, part: TableBatch) -> Floats:
        """The nearest tables to w that keep the floor and the zeros, (tables, cells)."""
        z = np.maximum(part.rows(self.w), self.floors[part.numbers, None])
        if self.has_zeros:
            z[part.rows(self.zeros)] = 0.0
        return np.asarray(z)

    def shift(self, share: float, factor: float) -> None:
        """Puts the floor at another share, and multiplies what was cut off at the floor by a factor."""
        super().shift(share, factor)

        def work(part: TableBatch) -> None:
            part.store_means(2.0 * self.allowed(part) - part.rows(self.w), self.own)

        self.on_parts(work)

    def _low_residuals(self) -> Floats:
        """What the residuals below are to be, but for what is not centred of them."""
        q = self.arrangement.summed_down(self.own, self.penalties)
        return (1.0 - self._low_blend) * self.wanted_low + self._low_factor * q

    def step(self) -> tuple[float, float]:
        """One step: how far tables and residuals are apart, and how far the tables moved."""
        lower, floors, zeros = self._low_residuals(), self.floors, self.zeros if self.has_zeros else None
        self.arrangement.consistent(lower, self.arrangement.even)

        def work(part: TableBatch) -> Floats:
            norms = np.empty((len(part.numbers), 2))
            table_kernels.sweep(
                self.w, self.wanted, zeros, part.starts, part.sides, self.blends[part.numbers],
                floors[part.numbers], RELAXATION, lower, part.facets, self.own, part.owned, norms,
            )  # fmt: skip
            return norms

        norms = np.concatenate(self.on_parts(work))
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
        residuals, floors, zeros = self._low_residuals(), self.floors, self.zeros if self.has_zeros else None
        self.arrangement.centre(residuals)
        lower = residuals.copy()
        self.arrangement.consistent(lower, self.arrangement.even)
        cut = np.empty_like(self.own)

        def work(part: TableBatch) -> Floats:
            facts = np.empty((len(part.numbers), 7))
            table_kernels.inspect(
                self.w, self.wanted, zeros, part.starts, part.sides, self.blends[part.numbers],
                floors[part.numbers], lower, part.facets, self.own, part.owned, cut, facts, top,
            )  # fmt: skip
            return facts

        facts = np.concatenate(self.on_parts(work))
        self._kept = top, residuals
        numbers, sets = self.numbers, self.low_sets
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
        arrangement = self.arrangement
        least, margins = table_kernels.RAISED * self.floors, self._fixed_margins()
        repair = repair_of(arrangement, top, low, least, margins, self.on_parts)
        if repair is None:
            return None
        s, total = repair.share, float(low[arrangement.low.starts[0]])
        top *= 1.0 - s
        top += (s * total) * repair.top
        low = (1.0 - s) * low + (s * total) * repair.low
        low = np.where(self.is_fixed[self.low_sets], self.wanted_low, low)  # as they were but for rounding
        for part in self.parts:
            fixed = self.is_fixed[part.numbers]
            part.rows(top)[fixed] = part.rows(self.wanted)[fixed]
        self._kept = top, low
        return self._distance(top, low)

    def _fixed_margins(self) -> dict[int, Floats]:
        """The shares of single attributes that are given, by attribute."""
        lattice, shares = self.arrangement.lattice, {}
        for number in np.flatnonzero(self.is_fixed & (lattice.set_sizes == 1)).tolist():
            (i,) = lattice.members(number)
            residual = self.arrangement.single(i, self.wanted, self.wanted_low)
            assert residual is not None
            shares[i] = residual / max(self.total, 1e-300) + 1.0 / len(residual)
        return shares

    def scattered(self, top: Floats, low: Floats) -> Floats:
        """Residuals in the order in which they came."""
        out = np.empty(self.arrangement.given_layout.cells)
        self.arrangement.scatter(self.arrangement.top, top, self.arrangement.given_layout, out)
        self.arrangement.scatter(self.arrangement.low, low, self.arrangement.given_layout, out)
        return out
