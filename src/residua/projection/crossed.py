"""Consistent tables nearest to a product release in its own metric, without forming the cells of the whole domain.

Coordinates are those along the axes (`crossing.py`), in which the noise of set S has one precision w_S. The
penalty weighs squared differences of cells by `ρ_A Π_i d_i`, so that coordinates follow the tables in closed form: the
penalised squares are `Σ_S c_S Π_{i∈S} length_i · y_S²` with `c_S = Σ_{A⊇S} ρ_A Π_{i∈A∖S} total_length_i`. Where a
spread vector is not positive, that is a bound instead, and the step is a proximal one.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from threadpoolctl import threadpool_limits

from residua.linalg.arrays import Booleans, Floats
from residua.linalg.lattice import layout_of
from residua.projection import axis_kernels
from residua.projection.alternating import NO_FLOOR, RELAXATION, Alternating, Posed, TableCertificate
from residua.projection.crossing import Alike, Below, Crossing, weighed
from residua.projection.problem import Nearest, Progress

_FIRST_PENALTY = 6.0
_FIRST_OF_SUMS = 4.0  # in prefix sums, whose own lengths are all alike
_TRIED = 30.0  # times the gap allowed: the allowed table is often nearer to the best than the coordinates are
_NO_ZEROS = np.zeros((0, 0), dtype=bool)


def _arranged(crossing: Crossing, zeros: Booleans | None) -> Booleans:
    """The zeros in the order of the crossing's buffer; empty if there is none."""
    if zeros is None or not zeros.any():
        return np.zeros(0, dtype=bool)
    sizes = np.array([axis.size for axis in crossing.axes], dtype=np.int64)
    starts = layout_of(crossing.lattice, sizes, crossing.chosen).starts
    arranged = np.empty(crossing.cells, dtype=bool)
    for part in crossing.parts:
        part.rows(arranged)[:] = zeros[starts[part.numbers][:, None] + np.arange(part.cells)]
    return arranged


class Crossed(Alternating[Alike]):
    """The method with coordinates along axes; w is the sum of a table z that meets the signs and of what was cut off.

    The own coordinates of maximal tables are kept in the buffer of those tables, all others in `low`.
    """

    def __init__(self, crossing: Crossing, posed: Posed) -> None:
        zeros = _arranged(crossing, posed.zeros)
        if posed.nonnegative:
            crossing = weighed(crossing, posed.wanted, zeros)
        below = Below.of(crossing)
        both = crossing.gather(posed.wanted), posed.wanted[below.places]
        super().__init__(posed, crossing.parts, below.sets, both, zeros)
        self.crossing, self.below = crossing, below
        self._evens = {id(part): part.even_without(part.rows(zeros)) for part in crossing.parts if zeros.size}
        self.top, self.low = self.wanted.copy(), self.wanted_low.copy()
        lattice, axes = crossing.lattice, crossing.axes
        self._mean_lengths = lattice.products(np.array([_geometric_mean(axis.lengths) for axis in axes]))
        self._crossings = lattice.products(np.array([1.0 + axis.crossing for axis in axes]))
        in_sums = any(part.sums_axis is not None for part in crossing.parts)
        self.set_penalty(_FIRST_OF_SUMS if in_sums else _FIRST_PENALTY)
        if in_sums:
            for part in crossing.parts:  # sums are large: to begin at zero would take hundreds of steps
                part.rows(self.w)[:] = part.up(part.rows(self.top))
                part.rows(self.w)[:] = self.allowed(part)

    def solve(self, tolerance: float, rounds: int, progress: Progress | None) -> Nearest:
        """As always; the tables are worked on side by side already."""
        with threadpool_limits(1, user_api="blas"):
            return super().solve(tolerance, rounds, progress)

    @property
    def total(self) -> float:
        """How many records are wanted."""
        return max(float(self.wanted[0]), 0.0)  # the first coordinate of any table is the total

    @property
    def longest(self) -> Floats:
        """How long y_S of a single record can be."""
        return self.crossing.lattice.products(np.array([axis.longest for axis in self.crossing.axes]))

    # ---- one step

    def set_penalty(self, penalty: float) -> None:
        """ρ_A, and how strongly each coordinate follows the tables."""
        lattice = self.crossing.lattice
        self.penalty = penalty
        self.penalties = penalty * self.weights / self._mean_lengths
        self.pulls = self.penalties * self._crossings
        lengths = np.array([axis.total_length for axis in self.crossing.axes])
        c = lattice.sum_over_supersets(np.where(lattice.is_maximal, self.pulls, 0.0), lengths)
        weights, below = self.weights[self.low_sets], self.below
        self._low_gains = np.where(self.is_fixed[below.sets], 0.0, 1.0 / (weights + c[below.sets] * below.lengths))

    @property
    def _floor(self) -> float:
        """The floor of a cell that holds all records."""
        return self.floor_share * self.total if self.nonnegative else NO_FLOOR

    def allowed(self, part: Alike) -> Floats:
        """The nearest tables to w that keep the floor and the zeros, (tables, cells)."""
        w, even, floor = part.rows(self.w), self._even(part), self._floor
        if not self.nonnegative and part.sums_axis is not None:
            return w
        if part.sums_axis is not None:
            rising = axis_kernels.nearest_rising(
                part.fibres(w), self._ties(part), part.fibres(even), floor, part.last_weight
            )
            return np.asarray(rising.reshape(w.shape))
        z = np.maximum(w, floor * even)
        if self.has_zeros:
            z[part.rows(self.zeros)] = 0.0
        return np.asarray(z)

    def _even(self, part: Alike) -> Floats:
        """One record spread evenly over what is possible, more or less, as tables are kept, (tables or 1, cells)."""
        return self._evens.get(id(part), part.even[None])

    def _ties(self, part: Alike) -> Booleans:
        """The zeros of tables kept as prefix sums, (tables, outer, n, inner), or nothing."""
        return part.fibres(part.rows(self.zeros)) if self.has_zeros else axis_kernels.NO_ZEROS

    def step(self) -> tuple[float, float]:
        """One step: how far tables and coordinates are apart, and how far the tables moved."""
        self.below.spread(self.low, self.top)
        pulled = np.empty(len(self.below.here))

        def work(part: Alike) -> Floats:
            tables = part.up(part.rows(self.top))
            norms = np.empty((len(tables), 2))
            self._reflect(part, tables, norms)
            pull = part.down(tables)
            self.below.collect(part, pull, pulled)
            axis_kernels.follow(
                part.rows(self.top), part.rows(self.wanted), pull, self.weights[part.numbers],
                self.pulls[part.numbers], part.lengths, ~self.is_fixed[part.numbers],
            )  # fmt: skip
            return norms

        apart, moved = np.concatenate(self.on_parts(work)).sum(axis=0)
        weights = self.weights[self.low_sets]
        self.low += self._low_gains * (weights * (self.wanted_low - self.low) - self.below.summed(pulled))
        return float(np.sqrt(apart)), float(np.sqrt(moved))

    def _reflect(self, part: Alike, tables: Floats, norms: Floats) -> None:
        """The tables' half of a step, in place; tables become the penalty's gradient."""
        penalties, weights, w = self.penalties[part.numbers], part.cell_weights, part.rows(self.w)
        if part.sums_axis is None:
            zeros = part.rows(self.zeros) if self.has_zeros else _NO_ZEROS
            axis_kernels.reflect(tables, w, zeros, part.even, self._floor, weights, penalties, RELAXATION, norms)
            return
        m, w, even, weights = (part.fibres(each) for each in (tables, w, self._even(part), weights))
        axis_kernels.reflect_rising(
            m, w, self._ties(part), even, self._floor, part.last_weight, weights, penalties, RELAXATION, norms
        )  # fmt: skip

    # ---- the certificate

    def unprojected(self) -> TableCertificate:
        """The certificate of the coordinates as they came: nothing was cut off yet."""
        return self.certificate()

    def certificate(self) -> TableCertificate:
        """Distance, dual bound and feasibility of the present coordinates."""
        self.below.spread(self.low, self.top)
        p = np.empty(len(self.below.here))
        total, floor = max(float(self.top[0]), 0.0), self._floor if self.nonnegative else 0.0

        def work(part: Alike) -> Floats:
            values, allowed = part.values(part.up(part.rows(self.top))), self.allowed(part)
            cut = part.rows(self.w) - allowed
            zeros = part.rows(self.zeros) if self.has_zeros else np.zeros((1, 1), dtype=bool)
            short = np.where(zeros, 0.0, np.maximum(-values, 0.0)) if self.nonnegative else np.zeros((1, 1))
            pressed = self.penalties[part.numbers, None] * part.cell_weights * cut  # −λ, also at the zeros
            slope = -2.0 * float(np.vdot(pressed, np.broadcast_to(self._even(part), pressed.shape)))
            pull = -part.down(pressed)
            # What was cut off is orthogonal to what is above the floor: so no large numbers cancel.
            beside = 2.0 * float((pressed * (part.up(part.rows(self.wanted)) - allowed)).sum()) - floor * slope
            self.below.collect(part, pull, p)
            weights, free = self.weights[part.numbers], ~self.is_fixed[part.numbers]
            bound = beside - float((free / weights) @ (part.own(pull) ** 2).sum(axis=1))
            return np.array(
                [
                    bound,
                    max(float(short.max()), float(np.abs(np.where(zeros, values, 0.0)).max())),
                    total * slope,
                    _mixing_share(short, self.interior.evenness * total * part.even_values),
                ]
            )

        bounds, broken, slopes, shares = np.array(self.on_parts(work)).T
        p_low, weights, free = self.below.summed(p), self.weights[self.low_sets], ~self.is_fixed[self.low_sets]
        bound = float(bounds.sum() - (free * p_low**2 / weights).sum())
        return TableCertificate(
            distance=self._distance(self.top, self.low),
            bound=bound,
            infeasibility=float(broken.max()),
            slope=max(float(slopes.sum()), 0.0),
            total=total,
            short=float(shares.max()),
        )

    # ---- what leaves

    def closing(self) -> TableCertificate:
        """The last certificate; its coordinates are kept for `mix`."""
        certificate = self.certificate()
        self._kept = self.top.copy(), self.low.copy()
        if self._is_fit:
            top = self._of_one_table()
            low = np.empty_like(self.low)
            low[self.below.which] = top[self.below.here]
            self._kept = top, low
            return replace(certificate, distance=self._distance(top, low), infeasibility=0.0, short=0.0)
        return certificate

    @property
    def _is_fit(self) -> bool:
        """Whether there is one table, in prefix sums, and nothing given but the total: what is allowed is a fit."""
        parts = self.parts
        alone = len(parts) == 1 and len(parts[0].numbers) == 1 and parts[0].sums_axis is not None
        return alone and self.nonnegative and not self.is_fixed[1:].any()

    def _of_one_table(self) -> Floats:
        """The coordinates of the table that is allowed, with its total as given, (cells,)."""
        part = self.parts[0]
        table = self.allowed(part)
        coordinates = part.inverse(table)
        if self.is_fixed[0] and coordinates[0, 0] > 0:
            axis_kernels.give_total(part.fibres(table), self._ties(part), self.total / coordinates[0, 0])
            coordinates = part.inverse(table)
        return np.asarray(coordinates.ravel())

    def _worth_closing(self, certificate: TableCertificate, tolerance: float, allowed: float) -> bool:
        """Of one table the allowed one is a fit, and nothing has to be mixed in: it is tried where it may do."""
        if self._is_fit:
            return abs(certificate.distance - certificate.bound) <= _TRIED * allowed
        return super()._worth_closing(certificate, tolerance, allowed)

    def mix(self, share: float) -> float:
        """Mixes the coordinates kept with those of interior tables of the same total; their distance then."""
        axes, (top, low) = self.crossing.axes, self._kept
        total = float(top[0])
        even = [axis.own(axis.even, 0) for axis in axes]
        rests = [axis.own(rest, 0) for axis, rest in zip(axes, self.interior.rests, strict=True)]
        inside = self.interior.coordinates(self.crossing.given_layout, even, rests)
        low = (1.0 - share) * low + share * total * inside[self.below.places]
        top = (1.0 - share) * top + share * total * self.crossing.gather(inside)
        self._kept = top, low
        return self._distance(top, low)

    def scattered(self, top: Floats, low: Floats) -> Floats:
        """Coordinates in the order in which they came."""
        out = np.empty(self.crossing.given_layout.cells)
        out[self.below.places] = low
        for part in self.crossing.parts:
            here, there = self.crossing.own(part)
            out[there] = top[here]
        return out


def _geometric_mean(values: Floats) -> float:
    return float(np.exp(np.log(values).mean())) if len(values) else 1.0


def _mixing_share(short: Floats, even: Floats) -> float:
    """How much must be mixed in of tables not below `even`, to raise cells that fall short by this much to zero."""
    return float((short / np.maximum(short + even, 1e-300)).max()) * (1.0 + 1e-9) if even.max() > 0 else 0.0
