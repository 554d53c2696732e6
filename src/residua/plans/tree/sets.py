"""What is measured of a tree, as numbers alone: grids and noise scales of each set of attributes in every node."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from residua.linalg.arrays import Floats, Integers
from residua.plans.blocks import WORD
from residua.plans.noise import NORMAL, Noise
from residua.plans.tree.nesting import Nesting


@dataclass(frozen=True, eq=False)
class SetOfNodes:
    """What is measured of one set of short attributes.

    Args:
        members: their positions in the domain, increasing.
        sizes: how many values each has.
        start: the finest measured level.
        grid: t, a whole number.
        scales: the noise scale of each node, per level from `start` to the root: an array of one number for a whole
            level, of none where a level is not measured; of the finest level one per parent.
    """

    members: tuple[int, ...]
    sizes: tuple[int, ...]
    start: int
    grid: int
    scales: tuple[Floats, ...]

    @property
    def cells(self) -> int:
        """How many integers are measured per node."""
        return math.prod(self.sizes)

    @property
    def unit(self) -> float:
        """What one count is on the integer grid: `t Π n_i`."""
        return float(self.grid * self.cells)

    def inner(self) -> list[int]:
        """The measured levels above the finest."""
        return [self.start + k for k in range(1, len(self.scales)) if len(self.scales[k])]

    def nodes(self, nesting: Nesting) -> int:
        """How many nodes are measured."""
        return nesting.sizes[self.start] + sum(nesting.sizes[level] for level in self.inner())

    def scales_of(self, level: int, nesting: Nesting, nodes: slice) -> Floats:
        """The noise scale of some nodes of a level, (nodes,)."""
        found = self.scales[level - self.start]
        count = len(range(*nodes.indices(nesting.sizes[level])))
        if len(found) == 1:
            return np.full(count, found[0])
        return found[nesting.parents[level][nodes]] if level == self.start else found[nodes]


@dataclass(frozen=True, eq=False)
class Measured:
    """All that is measured.

    Args:
        sizes: how many values each attribute of the domain has, (attributes,).
        attribute: the position of the one with levels.
        nesting: its levels.
        sets: what is measured of each set of short attributes.
        drops: whether changing a record may remove it from every table (a policy `drop`).
        noise: normal; or Laplace, which measures counts of nodes alone, with one scale per level.
        names: what the attributes are called, for units of protection that limit some.
    """

    sizes: Integers
    attribute: int
    nesting: Nesting
    sets: tuple[SetOfNodes, ...]
    drops: bool = False
    noise: Noise = NORMAL
    names: tuple[str, ...] = ()

    @cached_property
    def short(self) -> tuple[int, ...]:
        """The positions of all short attributes."""
        return tuple(sorted({i for each in self.sets for i in each.members}))

    @property
    def most_records(self) -> int:
        """How many records may be counted before a measurement could leave 64 bits."""
        return min((WORD - 2**56) // (each.grid * each.cells) for each in self.sets)
