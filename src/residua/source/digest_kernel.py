"""The compiled loops of the digest, for values of which few come again: the same hash as in `digest`, faster."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from residua.compiling import compiled

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
def add_looked_up(table: NDArray[np.uint64], values: NDArray[np.int64], first: int, total: NDArray[np.uint64]) -> None:
    """Adds to each row of a total, (rows, 2), the hashes of its value, which stand in a table from `first` on."""
    for row in range(values.shape[0]):
        place = values[row] - first
        total[row, 0] += table[place, 0]
        total[row, 1] += table[place, 1]


@compiled
def sum_mixed(record: NDArray[np.uint64], constants: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The sum of all records' hashes, (2,), from the sums of their values', (rows, 2): each lane mixed with the other.

    Constants are (2, 2): multiplier and seed of each lane.
    """
    out = np.zeros(2, np.uint64)
    for row in range(record.shape[0]):
        for lane in range(2):
            multiplier = constants[lane, 0]
            other = _mixed(record[row, 1 - lane] + constants[lane, 1], multiplier)
            out[lane] += _mixed(record[row, lane] ^ other, multiplier)
    return out
