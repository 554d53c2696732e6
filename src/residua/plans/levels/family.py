"""Blocks: some attributes, each at a level. Which lie below which, and where their coordinates stand."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import product as crossed

import numpy as np

from residua.linalg.arrays import Floats, Integers
from residua.plans.levels.axes import Axis

Block = tuple[tuple[int, int], ...]  # (attribute, level from 1), attributes increasing; () is the total


def below(block: Block) -> list[Block]:
    """The blocks at most this fine, smallest first, this one last."""
    levels = crossed(*(range(level + 1) for _, level in block))
    found = [tuple((i, new) for (i, _), new in zip(block, row, strict=True) if new) for row in levels]
    return sorted(found, key=rank)


def rank(block: Block) -> tuple[int, int, Block]:
    """An order in which no block comes before one below it."""
    return sum(level for _, level in block), len(block), block


def closed(tops: Iterable[Block]) -> list[Block]:
    """All blocks below some, smallest first."""
    return sorted({one for top in tops for one in below(top)}, key=rank)


def dimensions(axes: Sequence[Axis], block: Block) -> int:
    """How many coordinates a block has."""
    return math.prod(axes[i].starts[level + 1] - axes[i].starts[level] for i, level in block)


def shape_of(axes: Sequence[Axis], block: Block) -> tuple[int, ...]:
    """The shape of the table behind a block: the classes of each of its attributes."""
    return tuple(axes[i].count(level) for i, level in block)


def places(axes: Sequence[Axis], table: Block, block: Block) -> Integers:
    """Where the coordinates of a block stand among those of a table that is at least as fine, flat."""
    levels = dict(block)
    spans = [np.arange(*axes[i].span(levels.get(i, 0))) for i, _ in table]
    shape = shape_of(axes, table)
    return np.ravel_multi_index(np.ix_(*spans), shape).ravel() if table else np.zeros(1, dtype=np.int64)


def functions(axes: Sequence[Axis], table: Block, block: Block) -> Floats:
    """The functions of a block's coordinates on the cells of a table at least as fine, (coordinates, cells)."""
    levels = dict(block)
    found: Floats = np.ones((1, 1))
    for i, level in table:
        rows = axes[i].bases[level][slice(*axes[i].span(levels.get(i, 0)))]
        found = np.asarray(np.kron(found, rows), dtype=np.float64)
    return found


def in_coordinates(axes: Sequence[Axis], table: Block, rows: Floats) -> Floats:
    """Rows over the cells of a table in its coordinates, (rows, coordinates)."""
    tensor = rows.reshape(len(rows), *shape_of(axes, table))
    for axis, (i, level) in enumerate(table, start=1):
        tensor = np.moveaxis(np.moveaxis(tensor, axis, -1) @ axes[i].inverses[level], -1, axis)
    return np.asarray(tensor.reshape(len(rows), -1))
