"""Which tables are counted and where they lie, and adding batches of codes to them by whichever way is cheapest so far.

Three ways give the same counts: NumPy (slow but ready at once), the compiled kernel on the tables themselves, and the
compiled kernel on covering tables that are summed down at the end. Work starts with the first and moves on when enough
has been seen, or is announced, for the next to pay.

A covering table of attributes {1, 2, 3, 4} holds those of {1, 2, 3}, {1, 2, 4}, … as sums. Counting it takes one
increment per record where the four small ones take four, but summing down takes a pass over its cells: it pays when
records far outnumber cells. The costs are rough measurements in nanoseconds; they steer speed, never a result.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from residua.linalg.lattice import Layout
from residua.source.kernel import add_compiled

Codes = NDArray[np.unsignedinteger[Any]]  # (attributes, rows), of the smallest type that holds every code
Columns = Sequence[NDArray[np.integer[Any]]]  # the codes of each attribute, (rows,)
Weights = NDArray[np.int64] | None  # how many records each row stands for, one when not given


def taken(codes: Columns, weights: Weights, rows: NDArray[Any]) -> tuple[Columns, Weights]:
    """Some of the rows, by their numbers or by a mask."""
    return [column[rows] for column in codes], None if weights is None else weights[rows]


@dataclass(frozen=True, eq=False)
class FlatTables:
    """Tables in one flat buffer, of any shapes.

    Args:
        sizes: how many cells each attribute has, (attributes,).
        members: attribute positions of each table, (tables, k), rows padded at the end.
        widths: how many of them count, (tables,).
        starts: where each table begins in the buffer, (tables,).
        cells: how many cells each has, (tables,).
    """

    sizes: NDArray[np.int64]
    members: NDArray[np.int32]
    widths: NDArray[np.int64]
    starts: NDArray[np.int64]
    cells: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.starts)

    def part(self, first: int, stop: int) -> FlatTables:
        """Some of the tables, in the same buffer."""
        each: Any = (self.members, self.widths, self.starts, self.cells)
        return FlatTables(self.sizes, *(values[first:stop] for values in each))

    def moved(self) -> FlatTables:
        """The same tables one after the other in a buffer of their own."""
        return replace(self, starts=np.cumsum(self.cells) - self.cells)

    def set_of(self, table: int) -> tuple[int, ...]:
        """The attribute positions of one table."""
        return tuple(self.members[table, : self.widths[table]].tolist())


def tables_of_layout(layout: Layout) -> FlatTables:
    """The tables of a layout, where it puts them."""
    return tables_of_sets([group.members for group in layout], layout.sizes)


def tables_of_sets(sets: Sequence[NDArray[np.int32]], sizes: NDArray[np.int64]) -> FlatTables:
    """Tables of these sets, (m, k) in each array, one after the other in a buffer of their own."""
    widest = max((rows.shape[1] for rows in sets), default=0)
    padded = [np.pad(rows, ((0, 0), (0, widest - rows.shape[1]))) for rows in sets]
    cells = np.concatenate([np.empty(0, np.int64), *(np.prod(sizes[rows], axis=1, dtype=np.int64) for rows in sets)])
    return FlatTables(
        np.array(sizes, dtype=np.int64),
        np.concatenate([np.empty((0, widest), np.int32), *padded]).astype(np.int32),
        np.repeat(np.array([rows.shape[1] for rows in sets], dtype=np.int64), [len(rows) for rows in sets]),
        np.cumsum(cells) - cells,
        cells,
    )


def add_plainly(
    tables: FlatTables, codes: Codes, rows: int, weights: NDArray[np.int64] | None, out: NDArray[np.int64]
) -> None:
    """Adds rows to every table with NumPy alone: about 5 ns per increment, but ready at once."""
    prefix: tuple[int, ...] | None = None
    for table in range(len(tables)):
        members = tables.set_of(table)
        if prefix is None or members[:-1] != prefix:
            prefix = members[:-1]
            shared = _cell_numbers(prefix, codes, rows, tables.sizes)
        places = _cell_numbers(members[-1:], codes, rows, tables.sizes, shared)
        start, cells = int(tables.starts[table]), int(tables.cells[table])
        counts = out[start : start + cells]
        if weights is not None:
            np.add.at(counts, places, weights[:rows])  # bincount would weigh in floating point
        elif cells > 4 * rows:
            np.add.at(counts, places, 1)
        else:
            counts += np.bincount(places, minlength=cells)


def _cell_numbers(
    members: tuple[int, ...], codes: Codes, rows: int, sizes: NDArray[np.int64], places: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    places = np.zeros(rows, dtype=np.int64) if places is None else places
    for attribute in members:
        places = places * sizes[attribute] + codes[attribute, :rows]
    return places


def smallest(size: int) -> type[np.unsignedinteger[Any]]:
    """The smallest type that holds every code below a size."""
    return np.uint8 if size <= 2**8 else np.uint16 if size <= 2**16 else np.uint32


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

    tables: FlatTables
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


def covering_of(wanted: FlatTables) -> Covering | None:
    """A covering of the wanted tables by fewer larger ones, or None when none is worth trying.

    Greedy: grow a set from the first uncovered one, always by the attribute that completes most uncovered sets
    per cost, as long as the covering table stays small.
    """
    if not 2 <= len(wanted) <= _MOST_SETS or len(wanted.sizes) > _MOST_ATTRIBUTES:
        return None
    coverings = [covering for most in _MOST_CELLS if (covering := _greedy(wanted, most)) is not None]
    return min(coverings, key=lambda covering: covering.cost_per_row, default=None)


def _greedy(wanted: FlatTables, most_cells: int) -> Covering | None:
    masks = np.array([sum(1 << i for i in wanted.set_of(t)) for t in range(len(wanted))], dtype=np.uint64)
    uncovered = np.ones(len(masks), dtype=bool)
    sets: list[NDArray[np.int32]] = []
    yields: list[tuple[int, ...]] = []
    while uncovered.any():
        grown = _grow(int(masks[uncovered.argmax()]), masks[uncovered], wanted.sizes, most_cells)
        new = uncovered & ((masks & ~np.uint64(grown)) == 0)
        uncovered &= ~new
        sets.append(np.array([[i for i in range(len(wanted.sizes)) if grown >> i & 1]], dtype=np.int32))
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


def sum_down(covering: Covering, counted: NDArray[np.int64], wanted: FlatTables, out: NDArray[np.int64]) -> None:
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


PLAIN_WORK = 2e8  # increments that NumPy does in about the time Numba takes to load
Way = Literal["plain", "direct", "covering"]


class Accumulator:
    """Counts of tables, added to batch by batch.

    Args:
        tables: the tables, one after the other.
        rows_hint: about how many rows will come, if known.
        pool: threads for the kernel.
        way: one of the three ways, for tests and benchmarks; chosen by cost when not given.
    """

    def __init__(self, tables: FlatTables, rows_hint: int | None, pool: Executor, way: Way | None = None) -> None:
        self._tables = tables
        self._counts = np.zeros(int(tables.cells.sum()), dtype=np.int64)
        self._pool = pool
        self._hint = rows_hint or 0
        self._rows = 0
        self._forced = way
        self._covering_counts: NDArray[np.int64] | None = None

    def add(self, codes: Codes, rows: int, weights: NDArray[np.int64] | None) -> None:
        """Adds the first `rows` columns of codes, (attributes, capacity), each `weights` times (or once)."""
        self._rows += rows
        way = self._forced or self._way(max(self._hint, self._rows))
        if way == "plain":
            add_plainly(self._tables, codes, rows, weights, self._counts)
            return
        tables, counts = self._tables, self._counts
        if way == "covering" and self._covering is not None:
            if self._covering_counts is None:
                self._covering_counts = np.zeros(self._covering.cells, dtype=np.int64)
            tables, counts = self._covering.tables, self._covering_counts
        add_compiled(tables, codes, rows, weights, counts, self._pool)

    def finish(self) -> NDArray[np.int64]:
        """The counts, in the tables' buffer. Nothing may be added afterwards."""
        if self._covering_counts is not None and self._covering is not None:
            sum_down(self._covering, self._covering_counts, self._tables, self._counts)
            self._covering_counts = None
        return self._counts

    @cached_property
    def _covering(self) -> Covering | None:
        return covering_of(self._tables)

    def _way(self, rows: int) -> Way:
        if rows * len(self._tables) < PLAIN_WORK:
            return "plain"
        if self._covering is None:
            return "direct"
        saved = cost_per_row(self._tables.cells) - self._covering.cost_per_row
        return "covering" if rows * saved > self._covering.cost_to_sum else "direct"
