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
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, Self

import numpy as np

from residua.domain import Domain
from residua.errors import VerificationError
from residua.linalg.arrays import Booleans, Floats, Integers
from residua.linalg.conductances import AxisNoise, simulated_along
from residua.linalg.lattice import Group, SetFamily
from residua.plans.measurements import Batch
from residua.plans.noise import NORMAL, ORDERED, Noise
from residua.plans.operators.correlated import Ordered
from residua.plans.operators.path import ROUNDING, drawn_along, held_along, least_drawn, on_grid
from residua.plans.product import set_price as price
from residua.plans.product.set_measurements import ResidualMeasurements, compile_residuals
from residua.plans.strategy import Strategy
from residua.plans.verifier import POINT, WORD, Profile, even, share
from residua.privacy.costs import Reach

_NOTHING = 1e-12  # of what is known of a block: not worth a measurement of its own


@dataclass(frozen=True, eq=False)
class CrossedMeasurements(ResidualMeasurements):
    """Integer measurements, with noise correlated along the axes of those that have one.

    Args:
        scales: of each, the noise scale s, or the factor f of the noise's variance along an axis, (blocks,).
        Others as for `ResidualMeasurements`.
    """

    noise: ClassVar[Noise] = ORDERED  # normal, correlated along axes

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
    def independent(self) -> Booleans:
        """Which blocks have no axis, (blocks,)."""
        return ~np.isin(self.measured, list(self.along))

    # ---- accuracy

    @cached_property
    def noise_variances(self) -> Floats:
        """`σ²_S` of what is really measured, rounding included, (blocks,)."""
        along = self.scales * (1 + ROUNDING) * self.grids.astype(np.float64) ** 2
        return np.asarray(np.where(self.independent, NORMAL.variance(self.scales), along) / self.units**2)

    @cached_property
    def precisions(self) -> Floats:
        """What is known of every set of the family by all that is really measured, (sets,)."""
        return known(self.lattice, self.own_precisions, tells_of(self.strategies))

    def simulated(self, random: np.random.Generator) -> Floats:
        """Noise like that of the measurements, in floats, (cells,): for forecasts, never for a release."""
        noisy = super().simulated(random)
        for number, (grid, _, members, axes) in self.along.items():
            place, noises = self.where(number)[0], self.sampled(number)
            fibres = math.prod(int(self.sizes[i]) for i in members) // math.prod(noise.size for noise in noises)
            drawn = np.stack([simulated_along(noises, random) for _ in range(fibres)]) * grid
            noisy[place] = self._placed(drawn, members, axes)
        return noisy

    # ---- price

    @cached_property
    def costs(self) -> list[int]:
        """What a record costs each block at most, in whole numbers of 2^-200; along axes from what is drawn."""
        costs = []
        listed = zip(self.measured.tolist(), self.grids.tolist(), self.scales.tolist(), strict=True)
        for (number, grid, scale), norm in zip(listed, price.norms_of(self), strict=True):
            if number in self.along:
                costs.append(math.ceil(POINT * norm / least_drawn(self._axes(number), scale, grid)))
            else:
                costs.append(share(grid * grid * norm, scale))
        return costs

    def _axes(self, number: int) -> list[Ordered]:
        """The strategies along the axes of a block."""
        _, _, members, places = self.along[number]
        return [axis for at in places if isinstance(axis := self.strategies[members[at]], Ordered)]

    @classmethod
    def limited(cls, several: Sequence[Self], reach: Reach) -> Fraction | None:
        """By pairs of records that agree; limits along axes make it no cheaper."""
        along = {i for each in several for i, one in enumerate(each.strategies) if one.tells}
        limits = {i: most for i, most in reach.limits.items() if i not in along}
        return price.limited(several, replace(reach, limits=limits))

    def profile(self) -> Profile:
        """Nearly the same in every cell: the most expensive one stands for all."""
        return even(price.added([self]))

    @property
    def most_records(self) -> int:
        """How many records may be counted before a measurement could leave 64 bits."""
        along = (WORD - 2**56) // max((grid for grid, *_ in self.along.values()), default=1)
        return min(super().most_records, along)

    # ---- measuring

    def sampled(self, number: int) -> tuple[AxisNoise, ...]:
        """The noise along each axis of a block, as it is drawn; the first has the factor."""
        return drawn_along(self._axes(number), self.along[number][1])

    def batches(self) -> Sequence[Batch]:
        """Blocks without an axis some at a time; those with one by one, on its grid."""
        listed = [(batch, self._correlated(batch)) for batch in super().batches()]
        return [
            batch if number is None else replace(batch, scales=batch.work[2].astype(np.float64))
            for batch, number in listed
        ]

    def _alike(self, group: Group) -> Sequence[Integers]:
        """Blocks with an axis by themselves: each has a noise of its own."""
        single = np.isin(group.numbers, list(self.along))
        own, places = np.flatnonzero(single), np.arange(len(single))
        others = [places[alike][~single[alike]] for alike in super()._alike(group)]
        return [*(alike for alike in others if len(alike)), *own[:, None]]

    def _correlated(self, batch: Batch) -> int | None:
        """The set that a batch measures, if it has an axis."""
        group, places, _ = batch.work
        number = int(group.numbers[places[0]])
        return number if number in self.along else None

    def correlation(self, batch: Batch) -> tuple[AxisNoise, ...] | None:
        """The noise along the fibres of a batch; None where it is independent."""
        number = self._correlated(batch)
        return None if number is None else self.sampled(number)

    def integers(self, batch: Batch, tables: Integers) -> Integers:
        """Running sums along the axes of a block come fibre by fibre, (fibres, cells of a fibre)."""
        number, y = self._correlated(batch), super().integers(batch, tables)
        if number is None:
            return y
        _, _, members, axes = self.along[number]
        y = np.moveaxis(y.reshape(self.where(number)[1]), axes, range(-len(axes), 0))
        return np.ascontiguousarray(y).reshape(-1, math.prod(int(self.sizes[members[at]]) for at in axes))

    def store(self, batch: Batch, measured: Integers, out: Integers) -> None:
        """Each where it belongs, fibres in the order of their attributes."""
        number = self._correlated(batch)
        if number is not None:
            _, _, members, axes = self.along[number]
            measured = self._placed(measured, members, axes)
        super().store(batch, measured.reshape(len(batch.scales), -1), out)

    def _placed(self, fibres: np.ndarray, members: tuple[int, ...], axes: tuple[int, ...]) -> np.ndarray:
        """Numbers of a block fibre by fibre, in the order of its attributes, flat."""
        moved = [i for at, i in enumerate(members) if at not in axes] + [members[at] for at in axes]
        return np.moveaxis(fibres.reshape([int(self.rows[i]) for i in moved]), range(-len(axes), 0), axes).ravel()

    @property
    def drawn_at_once(self) -> int:
        """The most that is held for a block along axes."""
        return max((held_along(self._axes(number)) for number in self.along), default=0)


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
