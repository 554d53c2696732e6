"""What a plan of fibres really measures, and what that costs.

The same measurements as those of a lattice with a long axis (`lattice/crossed.py`), but with noise of its own for each
set of the other attributes. The price is found cell by cell: sets may be expensive in different cells of the axis, and
what all of them together cost in the most expensive one is what a record costs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from residua.domain import Domain
from residua.errors import VerificationError
from residua.linalg.arrays import Floats
from residua.linalg.lattice import Lattice
from residua.plans.axis.price import costs
from residua.plans.axis.strategy import Ordered
from residua.plans.blocks import rounded_up
from residua.plans.lattice.blocks import compile_blocks
from residua.plans.lattice.crossed import GRID_FINENESS, CrossedBlocks
from residua.plans.lattice.price import price_together
from residua.plans.strategy import Plain, Strategy
from residua.privacy import AddRemove, Unit

_UP = 1.0 + 2.0**-40


@dataclass(frozen=True, eq=False)
class FibreBlocks(CrossedBlocks):
    """Running sums along the fibres of each set, with its own noise; sets without the axis as they are.

    Args:
        noises: the noise of each measured set with the axis, by its number.
        Others as for `CrossedBlocks`; the strategy of the axis there stands for all.
    """

    noises: Mapping[int, Ordered] = field(default_factory=dict)

    def _axes(self, number: int) -> list[Ordered]:
        return [self.noises[number]]

    def price(self, unit: Unit) -> Fraction:
        """The verifier: exact for records added or removed, k² times that for persons; replacing costs four times.

        Each set costs `Γ_kk/f Π ‖R_j e‖²` in cell k of the axis, f the least ratio of what is drawn to what is priced;
        the sum over sets is taken in floats, enlarged by its own rounding.
        """
        if len(self.measured) != len(self.grids) or len(self.measured) != len(self.scales) or not len(self.measured):
            raise VerificationError("the blocks are incomplete; each needs a set, a grid factor and a noise scale.")
        if not self.noises or set(self.noises) != set(self.along):
            raise VerificationError("the noise along the axis does not fit what is measured; plan again.")
        white = Fraction(0) if self.white is None else price_together([self.white], AddRemove())
        total: Floats = np.zeros(next(iter(self.noises.values())).size)
        error = Fraction(0)
        known = {noise: costs(noise.noise) for noise in set(self.noises.values())}  # sets that ask alike share theirs
        for number, noise in self.noises.items():
            each, own = known[noise]
            ratio = self._cost(number) / noise.price  # checks all the rest, too
            total += each * (float(ratio) * (1 + 2.0**-50))
            error = max(error, own)
        found = Fraction(float(total.max())) * (1 + error) * (1 + Fraction(len(self.noises) + 4, 2**52))
        cost = white + found
        return rounded_up(unit.scaled(cost, 4 * cost))


def compile_fibres(
    domain: Domain,
    lattice: Lattice,
    attribute: int,
    noises: Mapping[tuple[int, ...], tuple[Ordered | None, float]],
) -> FibreBlocks:
    """The measurements that realise noise along fibres.

    Raises:
        VerificationError: noise too large or too small for exact sampling.
    """
    grids, scales = np.ones(len(lattice), dtype=np.int64), np.zeros(len(lattice))
    rest, own, any_noise = np.zeros(len(lattice)), {}, None
    for members, (noise, factor) in noises.items():
        whole = tuple(sorted((*members, attribute))) if noise is not None else members
        number = int(lattice.find(np.array([whole], dtype=np.int32).reshape(1, -1))[0])
        if noise is None:
            rest[number] = 1.0 / factor
            continue
        any_noise = noise
        own[number] = noise
        scales[number] = factor * math.prod(float(domain.sizes[j]) ** 2 for j in members) * _UP
        if not math.isfinite(scales[number]) or scales[number] <= 0:
            raise VerificationError("the noise along the axis is larger than can be sampled; give a larger budget.")
        finest = math.sqrt(noise.noise.finest * scales[number])
        grids[number] = 2 ** min(max(math.ceil(math.log2(GRID_FINENESS / finest)), 0), 40)
    if any_noise is None:
        raise VerificationError("the plan measures nothing along its axis; plan again.")
    strategies: list[Strategy] = [Plain(int(n)) for n in domain.sizes]
    if rest.any():
        white = compile_blocks(domain, lattice, rest, tuple(strategies))
        grids[white.measured], scales[white.measured] = white.grids, white.scales
    strategies[attribute] = any_noise
    measured = np.union1d(np.flatnonzero(rest > 0), np.array(sorted(own), dtype=np.int64)).astype(np.int64)
    return FibreBlocks(
        *(lattice, domain.sizes, measured, grids[measured], scales[measured], tuple(strategies)),
        *(domain.drops, domain.names, own),
    )


def saved_fibres(made: FibreBlocks, arrays: Mapping[str, NDArray[Any]]) -> FibreBlocks:
    """What was measured, from what a file keeps, by the noise that the plan says."""
    parts = (arrays["measured"], arrays["grids"], arrays["scales"])
    return FibreBlocks(made.lattice, made.sizes, *parts, made.strategies, made.drops, made.names, made.noises)
