"""All cells of some attributes at their finest levels, where they are few: what each block costs in each of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from residua.linalg.arrays import Floats, Integers
from residua.plans.levels.axes import Axis
from residua.plans.levels.family import Block

MOST_CELLS = 2**16


@dataclass(frozen=True, eq=False)
class Table:
    """The cells of some attributes.

    Args:
        axes: the levels of each attribute of the domain.
        attributes: positions, increasing.
    """

    axes: tuple[Axis, ...]
    attributes: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """How many classes each attribute has at its finest level."""
        return tuple(self.axes[i].starts[-1] for i in self.attributes)

    def classes(self, i: int, level: int) -> Integers:
        """The class at a level of every class of the finest level, (classes,)."""
        return self.axes[i].classes[level - 1][self.axes[i].firsts]

    def spread(self, block: Block, values: Any) -> Any:
        """Values of a block's cells, for every cell of the table: an array that broadcasts to its shape."""
        levels = dict(block)
        found = np.asarray(values).reshape([self.axes[i].count(level) for i, level in block])
        for axis, (i, level) in enumerate(block):
            found = np.take(found, self.classes(i, level), axis=axis)
        return found.reshape([n if i in levels else 1 for i, n in zip(self.attributes, self.shape, strict=True)])

    def margin(self, block: Block, weights: Floats) -> Floats:
        """Weights on the table's cells added up over the cells of a block, flat."""
        levels = dict(block)
        others = tuple(axis for axis, i in enumerate(self.attributes) if i not in levels)
        found = weights.sum(axis=others)
        for axis, (i, level) in enumerate(block):
            own = self.classes(i, level)
            order = np.argsort(own, kind="stable")
            edges = np.searchsorted(own[order], np.arange(self.axes[i].count(level)))
            found = np.add.reduceat(np.take(found, order, axis=axis), edges, axis=axis)
        return np.asarray(found).ravel()


def table_for(axes: Sequence[Axis], blocks: Sequence[Block]) -> Table | None:
    """The cells of all attributes that blocks name; None if they are too many."""
    used = sorted({i for block in blocks for i, _ in block})
    found = Table(tuple(axes), tuple(used))
    return found if math.prod(found.shape) <= MOST_CELLS else None
