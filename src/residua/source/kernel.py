"""Compiled loops over records: adding rows of codes to many tables, and hashing values for the digest.

For one table at a time, a tile of rows is turned into cell numbers (vectorised by the compiler, in the first-level
cache), then the cells are incremented: about 0.6 ns per increment where the table fits that cache too. FlatTables are
shared out among threads; each table belongs to one thread, so that no two write the same cell.
"""

from __future__ import annotations

from concurrent.futures import Executor
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from residua.machine import compiled, processors

if TYPE_CHECKING:
    from residua.source.accumulate import Codes, FlatTables

_TILE = 2048  # rows; their cell numbers take 8 kB
_THREAD_WORTH = 2_000_000  # increments; below, starting a second thread costs more than it brings


@compiled
def _number_cells(
    columns: Codes, attributes: NDArray[np.int32], sizes: NDArray[np.int64], places: NDArray[np.uint32]
) -> None:
    """Writes the cell number of each row into places; numbers lie below 2^32."""
    width = attributes.shape[0]
    if width >= 3:  # three columns in one pass: a third faster than one by one
        a, b, c = columns[attributes[0]], columns[attributes[1]], columns[attributes[2]]
        n_b, n_c = np.uint32(sizes[attributes[1]]), np.uint32(sizes[attributes[2]])
        for i in range(places.shape[0]):
            places[i] = np.uint32(np.uint32(np.uint32(a[i] * n_b) + b[i]) * n_c) + c[i]
    else:
        for i in range(places.shape[0]):
            places[i] = 0
    for j in range(3 if width >= 3 else 0, width):
        size = np.uint32(sizes[attributes[j]])
        column = columns[attributes[j]]
        for i in range(places.shape[0]):
            places[i] = places[i] * size + column[i]


@compiled
def _add(
    codes: Codes,
    weights: NDArray[np.int64],
    rows: int,
    members: NDArray[np.int32],
    widths: NDArray[np.int64],
    starts: NDArray[np.int64],
    cells: NDArray[np.int64],
    sizes: NDArray[np.int64],
    out: NDArray[np.int64],
) -> None:
    """Adds each row as often as its count says, or once where there are no weights at all."""
    buffer, weighted = np.empty(_TILE, np.uint32), weights.shape[0] > 0
    for table in range(members.shape[0]):
        counts = out[starts[table] : starts[table] + cells[table]]
        attributes = members[table, : widths[table]]
        for low in range(0, rows, _TILE):
            places = buffer[: min(_TILE, rows - low)]
            _number_cells(codes[:, low : low + places.shape[0]], attributes, sizes, places)
            if weighted:
                part = weights[low : low + places.shape[0]]
                for i in range(places.shape[0]):
                    counts[places[i]] += part[i]
            else:
                for i in range(places.shape[0]):
                    counts[places[i]] += 1


def add_compiled(
    tables: FlatTables,
    codes: Codes,
    rows: int,
    weights: NDArray[np.int64] | None,
    out: NDArray[np.int64],
    pool: Executor,
) -> None:
    """Adds rows to every table in the buffer `out`.

    Args:
        tables: where the tables lie.
        codes: (attributes, capacity), C-contiguous; the first `rows` columns are used. Every code lies below its
            attribute's size: nothing is checked here.
        rows: how many rows there are.
        weights: how many records each row stands for, one when not given.
        out: the buffer.
        pool: threads to share the tables among.
    """
    parts = processors() if rows * len(tables) >= _THREAD_WORTH else 1
    bounds = np.linspace(0, len(tables), parts + 1).astype(int)
    each = np.empty(0, np.int64) if weights is None else weights[:rows]
    shares = [tables.part(int(a), int(b)) for a, b in pairwise(bounds) if b > a]
    jobs = [
        pool.submit(_add, codes, each, rows, one.members, one.widths, one.starts, one.cells, one.sizes, out)
        for one in shares
    ]
    for job in jobs:
        job.result()


_DIGITS = 20  # of a 64-bit number and its sign


@compiled
def _mixed(x: Any, multiplier: Any) -> Any:
    half = np.uint64(32)
    x ^= x >> half
    x *= multiplier
    x ^= x >> half
    x *= multiplier
    return x ^ (x >> half)


@compiled
def _hash(content: Any, start: Any, length: Any, constants: Any, out: Any) -> None:
    """Writes both lanes of one text; constants are (2, 3): multiplier, seed and key of each lane."""
    for lane in range(2):
        multiplier, seed, key = constants[lane, 0], constants[lane, 1], constants[lane, 2]
        state = np.uint64(length) * multiplier + seed
        for low in range(start, start + length, 8):
            word = np.uint64(0)
            for i in range(min(8, start + length - low)):
                word |= np.uint64(content[low + i]) << np.uint64(8 * i)
            state = _mixed(state ^ word, multiplier)
        out[lane] = _mixed(state ^ key, multiplier)


@compiled
def hash_texts(
    content: NDArray[np.uint8],
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
    constants: NDArray[np.uint64],
    out: NDArray[np.uint64],
) -> None:
    """Writes the hashes of texts, (rows, 2), zero where there is none."""
    for row in range(starts.shape[0]):
        if lengths[row]:
            _hash(content, starts[row], lengths[row], constants, out[row])
        else:
            out[row, 0] = out[row, 1] = 0


@compiled
def hash_integers(
    values: NDArray[np.int64], present: NDArray[np.bool_], constants: NDArray[np.uint64], out: NDArray[np.uint64]
) -> None:
    """Writes the hashes of whole numbers, spelled in digits, (rows, 2), zero where there is none."""
    digits = np.empty(_DIGITS, np.uint8)
    for row in range(values.shape[0]):
        if not present[row]:
            out[row, 0] = out[row, 1] = 0
            continue
        value = values[row]
        left = np.uint64(value) if value >= 0 else np.uint64(0) - np.uint64(value)
        place = _DIGITS
        while True:
            place -= 1
            digits[place] = np.uint8(48) + np.uint8(left % np.uint64(10))
            left //= np.uint64(10)
            if left == 0:
                break
        if value < 0:
            place -= 1
            digits[place] = 45  # the sign
        _hash(digits, place, _DIGITS - place, constants, out[row])


@compiled
def add_lookups(total: NDArray[np.uint64], table: NDArray[np.uint64], places: NDArray[np.int64]) -> None:
    """Adds the row of a table that each record has a place in, (rows, 2), to its hash; nothing for the place after."""
    last = table.shape[0]
    for row in range(places.shape[0]):
        place = places[row]
        if place < last:
            total[row, 0] += table[place, 0]
            total[row, 1] += table[place, 1]


@compiled
def sum_records(records: NDArray[np.uint64], constants: NDArray[np.uint64], out: NDArray[np.uint64]) -> None:
    """Adds the mixed hashes of records, (rows, 2), to the two sums; constants are (2, 2): multiplier and seed."""
    first, second = out[0], out[1]
    for row in range(records.shape[0]):
        one, two = records[row, 0], records[row, 1]
        first += _mixed(one ^ _mixed(two + constants[0, 1], constants[0, 0]), constants[0, 0])
        second += _mixed(two ^ _mixed(one + constants[1, 1], constants[1, 0]), constants[1, 0])
    out[0], out[1] = first, second
