"""What a product plan with one noise along long axes really measures, and what that costs.

Block S without an axis is measured like every other (`set_measurements.py`). A block with the axis i is, along every
fibre, `t · prefix sums of (⊗_{j≠i} R_j) m_S + round(t · prefix sums of N)`, N normal with a multiple f of the
strategy's covariance Σ: a post-processing of `(⊗R_j) m_S + N`, whatever t is. Adding a record changes one fibre per row
of ⊗R_j, each in the same cell of the axis, so that it costs `Γ_aa/f Π ‖R_j e‖²` at most: the price of Σ by its own
verifier (`operators/correlated_price.py`), over f, times whole numbers. Along two axes the covariance is `f Σ₁ ⊗ Σ₂`
and its price the product.

Along an axis the counts themselves are measured, their total included: a block U measured at precision τ_U tells every
block `T = U without some axes` at precision `τ_U Π tells_i` over the axes left out. What is known of T is the sum,
`τ'_T = Σ_{U⊇T} τ_U Π_{i∈U∖T} tells_i`; all facts of a plan are those of τ'.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from residua.domain import Domain
from residua.errors import VerificationError
from residua.linalg.arrays import Floats, Integers
from residua.linalg.lattice import Layout, SetFamily, layout_of
from residua.linalg.nested_noise import AxisNoise, simulated_along
from residua.plans.measurements import Batch
from residua.plans.noise import ORDERED, Noise
from residua.plans.operators.correlated import Ordered
from residua.plans.operators.path import ROUNDING, drawn_along, held_along, least_drawn, on_grid
from residua.plans.product import set_price as price
from residua.plans.product.set_measurements import ResidualMeasurements, SetMeasurements, compile_residuals
from residua.plans.strategy import Plain, Strategy
from residua.plans.verifier import FEWEST_RECORDS, WORD, Profile, even

_NOTHING = 1e-12  # of what is known of a block: not worth a measurement of its own


@dataclass(frozen=True, eq=False)
class _White(ResidualMeasurements):
    """The blocks without an axis; their counts lie among those of all blocks.

    Args:
        whole: where all counted tables lie.
        Others as for `ResidualMeasurements`.
    """

    whole: Layout | None = None

    @property
    def plain(self) -> bool:
        """Never in place: the tables are those of other blocks too."""
        return False

    @property
    def counted(self) -> Layout:
        """Where all counted tables lie."""
        assert self.whole is not None
        return self.whole


@dataclass(frozen=True, eq=False)
class CrossedMeasurements(SetMeasurements):
    """Integer measurements, with noise correlated along the axes of those that have one.

    Args:
        scales: of each, the noise scale s, or the factor f of the noise's variance along an axis, (blocks,).
        strategies: how each attribute is measured.
        drops: whether changing a record may remove it from every table (a policy `drop`).
        names: what the attributes are called.
        Others as for `SetMeasurements`.
    """

    strategies: tuple[Strategy, ...]
    drops: bool = False
    names: tuple[str, ...] = ()

    @property
    def in_place(self) -> bool:
        """Prefix sums do not take the place of tables."""
        return False

    @property
    def noise(self) -> Noise:
        """Normal, correlated along axes."""
        return ORDERED

    @cached_property
    def along(self) -> dict[int, tuple[int, float, tuple[int, ...], tuple[int, ...]]]:
        """Of every measured set with an axis: t, f, its attributes, and the places of its axes among them."""
        measurements = {}
        for number, grid, scale in zip(self.measured.tolist(), self.grids.tolist(), self.scales.tolist(), strict=True):
            members = self.lattice.members(number)
            axes = tuple(place for place, i in enumerate(members) if isinstance(self.strategies[i], Ordered))
            if len(axes) > 2:
                raise VerificationError("three axes with correlated noise are crossed in one block; plan again.")
            if axes:
                measurements[number] = (grid, scale, members, axes)
        return measurements

    @cached_property
    def white(self) -> _White | None:
        """The blocks without an axis, which lie first among the measurements."""
        own = ~np.isin(self.measured, list(self.along))
        if not own.any():
            return None
        integer = tuple(Plain(each.size) if isinstance(each, Ordered) else each for each in self.strategies)
        parts = (self.measured[own], self.grids[own], self.scales[own])
        return _White(self.lattice, self.sizes, *parts, integer, self.drops, self.names, self.counted)

    @cached_property
    def counted(self) -> Layout:
        """The tables behind all blocks."""
        return layout_of(self.lattice, self.sizes, self.chosen)

    @cached_property
    def _rows(self) -> Integers:
        return np.array([strategy.count for strategy in self.strategies], dtype=np.int64)

    @cached_property
    def starts(self) -> dict[int, int]:
        """Where the measurements of each set with an axis begin; its axis comes last."""
        start, starts = self.white.cells if self.white else 0, {}
        for number, (_, _, members, _) in self.along.items():
            starts[number] = start
            start += math.prod(int(self._rows[i]) for i in members)
        starts[-1] = start
        return starts

    @property
    def cells(self) -> int:
        """How many integers are measured."""
        return self.starts[-1]

    # ---- accuracy

    @cached_property
    def own_precisions(self) -> Floats:
        """The precision of every set by its own measurement, rounding included; 0 where there is none, (sets,)."""
        own = np.zeros(len(self.lattice)) if self.white is None else self.white.precisions.copy()
        units = np.array([strategy.unit for strategy in self.strategies])
        for number, (_, factor, members, _) in self.along.items():
            own[number] = math.prod(float(units[i]) ** 2 for i in members) / (factor * (1 + ROUNDING))
        return own

    @cached_property
    def precisions(self) -> Floats:
        """What is known of every set of the family by all that is really measured, (sets,)."""
        return known(self.lattice, self.own_precisions, tells_of(self.strategies))

    def where(self, number: int) -> tuple[slice, list[int], int]:
        """Where a measured set lies among the measurements, its shape there (an axis last), and its grid."""
        if number not in self.along:
            assert self.white is not None
            return self.white.where(number)
        grid, _, members, axes = self.along[number]
        shape = [int(self._rows[i]) for i in members]
        shape = [n for at, n in enumerate(shape) if at not in axes] + [shape[at] for at in axes]
        return slice(self.starts[number], self.starts[number] + math.prod(shape)), shape, grid

    # ---- price

    def check(self) -> None:
        """Refuses blocks that are incomplete, and those without an axis that cannot be measured exactly."""
        if len(self.measured) != len(self.grids) or len(self.measured) != len(self.scales) or not len(self.measured):
            raise VerificationError("the blocks are incomplete; each needs a set, a grid factor and a noise scale.")
        if self.white is not None:
            self.white.check()
        _ = self._costs  # made once, and checked as they are made

    @classmethod
    def added(cls, several: Sequence[CrossedMeasurements]) -> Fraction:
        """Exact: one cell is the most expensive of every block."""
        white = [price.added([each.white]) for each in several if each.white is not None]
        return sum((cost for each in several for cost in each._costs.values()), sum(white, Fraction(0)))

    @classmethod
    def replaced(cls, several: Sequence[CrossedMeasurements]) -> Fraction:
        """Two columns share no less than the most negative ratio of a strategy, or of Γ, times the norms."""
        total = Fraction(0)
        for each in several:
            if each.white is not None:
                total += min(price.replaced([each.white]), 4 * price.added([each.white]))
            for number, (_, _, members, axes) in each.along.items():
                apart = [price.least_ratio(each.strategies[i]) for at, i in enumerate(members) if at not in axes]
                apart += [Fraction(-axis.opposed) for axis in each._axes(number)]
                total += 2 * each._costs[number] * (1 - min(apart))
        return total

    @cached_property
    def _costs(self) -> dict[int, Fraction]:
        """What one record costs each block along axes, from what is drawn."""
        return {number: self._along_axes(number) for number in self.along}

    def _along_axes(self, number: int) -> Fraction:
        grid, factor, members, places = self.along[number]
        axes = self._axes(number)
        if any(axis.size != int(self.sizes[members[at]]) for axis, at in zip(axes, places, strict=True)):
            raise VerificationError("the noise along an axis does not fit the attribute; plan again.")
        least = least_drawn(axes, factor, grid)
        if self.most_records < FEWEST_RECORDS:
            raise VerificationError("the grid is so fine that numbers could overflow; plan again.")
        whole = math.prod(price.heaviest(self.strategies[i]) for at, i in enumerate(members) if at not in places)
        return math.prod((axis.price for axis in axes), start=Fraction(1)) / least * whole

    def _axes(self, number: int) -> list[Ordered]:
        """The strategies along the axes of a block."""
        _, _, members, places = self.along[number]
        return [axis for at in places if isinstance(axis := self.strategies[members[at]], Ordered)]

    def profile(self) -> Profile:
        """Nearly the same in every cell: the most expensive one stands for all."""
        return even(self.added([self]))

    @cached_property
    def most_records(self) -> int:
        """How many records may be counted before a measurement could leave 64 bits."""
        largest = [
            grid * math.prod(self.strategies[i].largest for i in members) for grid, _, members, _ in self.along.values()
        ]
        fewest = (WORD - 2**56) // max(largest, default=1)
        return fewest if self.white is None else min(fewest, self.white.most_records)

    # ---- measuring

    def sampled(self, number: int) -> tuple[AxisNoise, ...]:
        """The noise along each axis of a block, as it is drawn; the first has the factor."""
        return drawn_along(self._axes(number), self.along[number][1])

    def batches(self) -> Sequence[Batch]:
        """Blocks without an axis some at a time, those with one by one."""
        white = [] if self.white is None else list(self.white.batches())
        along = [
            Batch(self.starts[number], np.array([float(grid)]), number) for number, (grid, *_) in self.along.items()
        ]
        return [*white, *along]

    def correlation(self, batch: Batch) -> tuple[AxisNoise, ...] | None:
        """The noise along the fibres of a batch; None where it is independent."""
        return self.sampled(batch.work) if isinstance(batch.work, int) else None

    def integers(self, batch: Batch, tables: Integers) -> Integers:
        """Running sums along the axes of a block, (fibres, cells of a fibre)."""
        if not isinstance(batch.work, int):
            assert self.white is not None
            return self.white.integers(batch, tables)
        grid, _, members, axes = self.along[batch.work]
        shape = [int(self.sizes[i]) for i in members]
        start = int(self.counted.starts[batch.work])
        y = tables[start : start + math.prod(shape)].reshape(shape)
        for at, i in enumerate(members):
            if at not in axes:
                y = self.strategies[i].apply(y, at)
        y = np.moveaxis(y, axes, range(-len(axes), 0))
        for axis in range(-len(axes), 0):
            y = np.cumsum(y, axis=axis)
        y = y.reshape(-1, math.prod(shape[at] for at in axes))
        y *= grid
        return y

    @property
    def drawn_at_once(self) -> int:
        """The most that is held for a block along axes."""
        return max((held_along(self._axes(number)) for number in self.along), default=0)

    def simulated(self, random: np.random.Generator) -> Floats:
        """Noise like that of the measurements, in floats, (cells,): for forecasts, never for a release."""
        noisy = np.empty(self.cells)
        if self.white is not None:
            noisy[: self.white.cells] = self.white.simulated(random)
        for number in self.along:
            at, shape, grid = self.where(number)
            noises = self.sampled(number)
            cells = math.prod(noise.size for noise in noises)
            fibres = noisy[at].reshape(math.prod(shape) // cells, cells)
            for fibre in fibres:
                fibre[:] = simulated_along(noises, random).ravel() * grid
        return noisy

    def store(self, batch: Batch, measured: Integers, out: Integers) -> None:
        """Each where it belongs."""
        if isinstance(batch.work, int):
            super().store(batch, measured, out)
        else:
            assert self.white is not None
            self.white.store(batch, measured, out)


# ---- for planners


def compile_crossed(
    domain: Domain, lattice: SetFamily, precisions: Floats, strategies: tuple[Strategy, ...]
) -> CrossedMeasurements:
    """The measurements that realise precisions, with noise rounded up.

    Raises:
        VerificationError: nothing to measure, or noise too large or too small for exact sampling.
    """
    own = to_measure(lattice, precisions, tells_of(strategies))
    measured = np.flatnonzero(own > 0)
    if not len(measured):
        raise VerificationError("the plan has nothing to measure; what it answers is already known.")
    grids, scales = np.ones(len(lattice), dtype=np.int64), np.zeros(len(lattice))
    has_axis = np.zeros(len(lattice), dtype=bool)
    for number in measured.tolist():
        members = lattice.members(number)
        axes = [axis for i in members if isinstance(axis := strategies[i], Ordered)]
        if not axes:
            continue
        has_axis[number] = True
        scales[number], grids[number] = on_grid(axes, math.prod(strategies[i].unit ** 2 for i in members) / own[number])
    rest = np.where(has_axis, 0.0, own)
    if rest.any():
        white = compile_residuals(domain, lattice, rest, strategies)
        grids[white.measured], scales[white.measured] = white.grids, white.scales
    return CrossedMeasurements(
        lattice, domain.sizes, measured, grids[measured], scales[measured], strategies, domain.drops, domain.names
    )


def tells_of(strategies: Sequence[Strategy]) -> Floats:
    """`tells` of every attribute, (attributes,)."""
    return np.array([strategy.tells for strategy in strategies])


def known(lattice: SetFamily, measured: Floats, tells: Floats) -> Floats:
    """τ' of every set from τ, (sets,)."""
    return lattice.sum_over_supersets(measured, tells)


def to_measure(lattice: SetFamily, precisions: Floats, tells: Floats) -> Floats:
    """The least τ ≥ 0 with which every set is known at least as precisely as wanted, (sets,)."""
    axes = np.concatenate([(tells[level] > 0).sum(axis=1) for level in lattice.levels])
    measured = np.zeros(len(lattice))
    for count in range(int(axes.max(initial=0)), -1, -1):  # the sets with most axes tell of the others
        here = axes == count
        lacking = precisions - known(lattice, measured, tells)
        measured[here] = np.where(lacking > _NOTHING * precisions, lacking, 0.0)[here]
    return measured


def feasible(lattice: SetFamily, precisions: Floats, strategies: Sequence[Strategy]) -> Floats:
    """The precisions, raised where blocks along axes tell more than is wanted, (sets,)."""
    tells = tells_of(strategies)
    return np.maximum(precisions, known(lattice, to_measure(lattice, precisions, tells), tells))
