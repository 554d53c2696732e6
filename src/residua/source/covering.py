"""Counting a few larger tables instead of many small ones: sets that cover the wanted ones, and the sums down.

A table of attributes {1, 2, 3, 4} holds those of {1, 2, 3}, {1, 2, 4}, … as sums. Counting it takes one increment
per record where the four small ones take four, but summing down takes a pass over its cells: it pays when records
far outnumber cells. The costs are rough measurements in nanoseconds; they steer speed, never a result.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from residua.source.tables import Tables, tables_of_sets

_MOST_CELLS = (20_000, 100_000)  # of one covering table: small ones are faster to count, large ones are fewer
_MOST_BUFFER = 2**24  # cells of all covering tables
_MOST_SETS = 4096  # beyond, looking for a covering takes longer than it saves
_MOST_ATTRIBUTES = 63
_SUM_COST = 2.0  # ns to sum one cell of a covering table down to one table


@dataclass(frozen=True, eq=False)
class Covering:
    """Covering tables, and which wanted tables each of them yields.

    Args:
        tables: the covering tables, in a buffer of their own.
        yields: for each, the places of the wanted tables that are summed from it.
        cost_per_row: nanoseconds to count one record.
        cost_to_sum: nanoseconds to sum everything down.
    """

    tables: Tables
    yields: tuple[tuple[int, ...], ...]
    cost_per_row: float
    cost_to_sum: float

    @property
    def cells(self) -> int:
        """How long the covering tables' buffer is."""
        return int(self.tables.cells.sum())


def cost_per_row(cells: NDArray[np.int64]) -> float:
    """Nanoseconds to add one record to tables of so many cells: more when they outgrow a cache."""
    return float(np.where(cells <= 4096, 0.5, np.where(cells <= 20_000, 0.9, 1.8)).sum())


def covering_of(wanted: Tables) -> Covering | None:
    """A covering of the wanted tables by fewer larger ones, or None when none is worth trying.

    Greedy: grow a set from the first uncovered one, always by the attribute that completes most uncovered sets
    per cost, as long as the covering table stays small.
    """
    if not 2 <= len(wanted) <= _MOST_SETS or len(wanted.sizes) > _MOST_ATTRIBUTES:
        return None
    found = [covering for most in _MOST_CELLS if (covering := _greedy(wanted, most)) is not None]
    return min(found, key=lambda covering: covering.cost_per_row, default=None)


def _greedy(wanted: Tables, most_cells: int) -> Covering | None:
    masks = np.array([sum(1 << i for i in wanted.set_of(t)) for t in range(len(wanted))], dtype=np.uint64)
    uncovered = np.ones(len(masks), dtype=bool)
    sets: list[tuple[int, ...]] = []
    yields: list[tuple[int, ...]] = []
    while uncovered.any():
        grown = _grow(int(masks[uncovered.argmax()]), masks[uncovered], wanted.sizes, most_cells)
        new = uncovered & ((masks & ~np.uint64(grown)) == 0)
        uncovered &= ~new
        sets.append(tuple(i for i in range(len(wanted.sizes)) if grown >> i & 1))
        yields.append(tuple(np.flatnonzero(new).tolist()))
    tables = tables_of_sets(sets, wanted.sizes)
    if int(tables.cells.sum()) > _MOST_BUFFER:
        return None
    to_sum = _SUM_COST * sum(int(cells) * len(y) for cells, y in zip(tables.cells, yields, strict=True))
    return Covering(tables, tuple(yields), cost_per_row(tables.cells), to_sum)


def _grow(grown: int, masks: NDArray[np.uint64], sizes: NDArray[np.int64], most_cells: int) -> int:
    attributes = np.arange(len(sizes), dtype=np.uint64)
    while True:
        cells = int(np.prod([int(n) for i, n in enumerate(sizes) if grown >> i & 1], dtype=object))
        fits = [cells * int(n) <= most_cells and not grown >> i & 1 for i, n in enumerate(sizes)]
        if not any(fits):
            return grown
        lacking = masks & ~np.uint64(grown)
        has = (lacking[:, None] >> attributes & np.uint64(1)).astype(bool)  # (sets, attributes)
        lacks = has.sum(axis=1)
        # What an attribute completes now, and, to break ties, what it brings within one more attribute.
        gain = has[lacks == 1].sum(axis=0) + 0.01 * has[lacks == 2].sum(axis=0)
        gain = np.where(fits, gain / np.log(np.maximum(sizes, 2)), 0.0)
        if gain.max() <= 0:
            return grown
        grown |= 1 << int(gain.argmax())


def sum_down(covering: Covering, counted: NDArray[np.int64], wanted: Tables, out: NDArray[np.int64]) -> None:
    """Adds what the covering tables hold to the wanted tables in the buffer `out`."""
    for table, places in enumerate(covering.yields):
        members = covering.tables.set_of(table)
        start = int(covering.tables.starts[table])
        shape = tuple(int(covering.tables.sizes[i]) for i in members)
        counts = counted[start : start + int(covering.tables.cells[table])].reshape(shape)
        for place in places:
            kept = wanted.set_of(place)
            axes = tuple(axis for axis, i in enumerate(members) if i not in kept)
            begin = int(wanted.starts[place])
            out[begin : begin + int(wanted.cells[place])] += counts.sum(axis=axes).ravel()
