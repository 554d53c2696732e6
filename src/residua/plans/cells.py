"""The cells that several plans tell apart: one numbering for all of them, so that their matrices can be compared."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from residua.errors import PlanError
from residua.linalg.arrays import Integers
from residua.machine import csr_array

T = TypeVar("T", bound=np.generic)
MOST_CELLS = 2**20
MOST_COLUMNS = 4096


@dataclass(frozen=True, eq=False)
class Grouping:
    """Which cells of some attributes are distinguished.

    Args:
        attributes: positions of the attributes, increasing.
        columns: the group of each of their cells, −1 for a cell that does not matter, (cells,).
    """

    attributes: tuple[int, ...]
    columns: Integers

    def over(self, attributes: Sequence[int], sizes: Integers) -> Integers:
        """The group of every cell of these attributes, ours among them, increasing, (cells,)."""
        own = [int(sizes[i]) if i in self.attributes else 1 for i in attributes]
        return np.broadcast_to(self.columns.reshape(own), [int(sizes[i]) for i in attributes]).ravel()

    def merged(self, tables: NDArray[T], groups: int) -> NDArray[T]:
        """Sums of the cells of each group, (tables, groups), from several tables of the attributes, (tables, …)."""
        asked = np.flatnonzero(self.columns >= 0)
        ones = np.ones(len(asked), dtype=tables.dtype)
        merging = csr_array((ones, (self.columns[asked], asked)), shape=(groups, len(self.columns)))
        merged: NDArray[T] = (merging @ tables.reshape(len(tables), -1).T).T  # type: ignore[operator]  # of any numbers
        return np.ascontiguousarray(merged)


@dataclass(frozen=True, eq=False)
class Refinement(Grouping):
    """The coarsest grouping in which every given one can be distinguished.

    Args:
        attributes: all attributes of the given groupings.
        columns: the group of each of their cells, −1 where no grouping has one, (cells,).
        sizes: how many cells each group holds, (groups,).
        parents: for each given grouping, which of its groups each group belongs to, −1 for none, (groups,).
    """

    sizes: Integers
    parents: tuple[Integers, ...]

    def lifted(self, rows: NDArray[Any], which: int) -> NDArray[Any]:
        """Rows over the groups of one of the given groupings, over ours, (rows, groups)."""
        nobody = np.zeros((*rows.shape[:-1], 1), dtype=rows.dtype)
        return np.append(rows, nobody, axis=-1)[..., self.parents[which]]  # −1 is the last


def refine(sizes: Integers, groupings: Sequence[Grouping], most_columns: int = MOST_COLUMNS) -> Refinement:
    """One grouping that tells apart whatever one of the given ones does.

    Raises:
        PlanError: too many cells for matrices over them.
    """
    attributes = tuple(sorted({i for grouping in groupings for i in grouping.attributes}))
    cells = math.prod(int(sizes[i]) for i in attributes)
    if cells > MOST_CELLS:
        raise PlanError(
            f"together the plans are over {cells:,} cells; plans other than for marginals can be combined "
            f"over at most {MOST_CELLS:,}, so plan for marginals or combine plans over fewer attributes."
        )
    wide = [grouping.over(attributes, sizes) for grouping in groupings]
    _, first, columns = np.unique(reduce(_paired, wide), return_index=True, return_inverse=True)
    used = np.any([part[first] >= 0 for part in wide], axis=0)
    numbers = np.where(used, np.cumsum(used) - 1, -1)
    columns, first = numbers[columns.ravel()], first[used]
    if len(first) > most_columns:
        raise PlanError(
            f"together the plans tell {len(first):,} groups of cells apart; plans other than for marginals can be "
            f"combined over at most {most_columns:,}, so plan for marginals or combine plans over fewer attributes."
        )
    held = np.bincount(columns[columns >= 0], minlength=len(first))
    return Refinement(attributes, columns, held, tuple(part[first] for part in wide))


def coarsened(
    sizes: Integers, attributes: tuple[int, ...], columns: Integers, rows: Integers
) -> tuple[Grouping, Integers]:
    """The same integer rows with equal columns merged, zero columns left out, and idle attributes dropped."""
    distinct, first, merged = np.unique(rows, axis=1, return_index=True, return_inverse=True)
    zero = ~distinct.any(axis=0)
    # Groups keep the order in which they first appear.
    order = np.argsort(np.where(zero, rows.shape[1], first), kind="stable")
    numbers = np.empty(len(order), dtype=np.int64)
    numbers[order] = np.arange(len(order))
    numbers[zero] = -1
    kept = order[: len(order) - int(zero.sum())]
    cells = np.append(numbers[merged.ravel()], -1)[columns]
    grid = cells.reshape(tuple(int(sizes[i]) for i in attributes))
    names = list(attributes)
    for axis in reversed(range(grid.ndim)):
        if (grid == grid.take([0], axis=axis)).all():
            grid = grid.take(0, axis=axis)
            del names[axis]
    return Grouping(tuple(names), np.ascontiguousarray(grid).ravel()), distinct[:, kept]


def _paired(first: Integers, second: Integers) -> Integers:
    """A number for each pair, equal for equal pairs only; small, so that pairing can go on."""
    _, both = np.unique(first * (int(second.max(initial=-1)) + 2) + second + 1, return_inverse=True)
    return np.asarray(both.ravel())
