"""The compiled loops of a lookup: open addressing, with half of each hash beside the place it stands for."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from residua.machine import compiled, compiled_inline

Bytes = NDArray[np.uint8]
Offsets = NDArray[np.int64]
_TILE = 128  # rows


@compiled_inline
def _hash(content: Any, start: Any, stop: Any) -> Any:
    state = np.uint64(stop - start) * np.uint64(0x9E3779B97F4A7C15)
    low = start
    while low < stop:
        word = np.uint64(0)
        for i in range(min(8, stop - low)):
            word |= np.uint64(content[low + i]) << np.uint64(8 * i)
        state = (state ^ word) * np.uint64(0xD6E8FEB86659FD93)
        state ^= state >> np.uint64(32)
        low += 8
    state *= np.uint64(0xE7037ED1A0B428DB)
    return state ^ (state >> np.uint64(29))


@compiled
def fill(offsets: Offsets, content: Bytes, slots: NDArray[np.uint64]) -> None:
    """Writes (half a hash, place + 1) of every text into the table, (slots,), a power of two that starts as zeros."""
    mask = np.uint64(slots.shape[0] - 1)
    upper = np.uint64(0xFFFFFFFF00000000)
    for i in range(offsets.shape[0] - 1):
        hashed = _hash(content, offsets[i], offsets[i + 1])
        at = hashed & mask
        while slots[at] != 0:
            at = (at + np.uint64(1)) & mask
        slots[at] = (hashed & upper) | np.uint64(i + 1)


@compiled_inline
def _same(content: Any, start: Any, known: Any, first: Any, length: Any) -> Any:
    for i in range(length):  # noqa: SIM110 – compiled as it stands
        if known[first + i] != content[start + i]:
            return False
    return True


@compiled_inline
def _probe(
    content: Any, start: Any, stop: Any, hashed: Any, known_offsets: Any, known: Any, slots: Any, at: Any
) -> Any:
    """The place of one text, from some place of the table on."""
    mask = np.uint64(slots.shape[0] - 1)
    while slots[at] != 0:
        if slots[at] >> np.uint64(32) == hashed >> np.uint64(32):
            here = np.int64(slots[at] & np.uint64(0xFFFFFFFF)) - 1
            first = known_offsets[here]
            if known_offsets[here + 1] - first == stop - start and _same(content, start, known, first, stop - start):
                return here
        at = (at + np.uint64(1)) & mask
    return np.int64(-1)


@compiled
def find(
    offsets: Offsets,
    content: Bytes,
    known_offsets: Offsets,
    known: Bytes,
    slots: NDArray[np.uint64],
    codes: NDArray[np.int32],
) -> None:
    """Writes the place of every text, −1 where there is none.

    In tiles, step by step: loads that do not wait for each other overlap, and most of the time is waiting for memory.
    """
    mask = np.uint64(slots.shape[0] - 1)
    hashes = np.empty(_TILE, np.uint64)
    heads = np.empty(_TILE, np.uint64)
    firsts = np.empty(_TILE, np.int64)
    for low in range(0, codes.shape[0], _TILE):
        rows = min(_TILE, codes.shape[0] - low)
        for r in range(rows):
            hashes[r] = _hash(content, offsets[low + r], offsets[low + r + 1])
        for r in range(rows):
            heads[r] = slots[hashes[r] & mask]
        for r in range(rows):
            firsts[r] = -1
            if heads[r] != 0 and heads[r] >> np.uint64(32) == hashes[r] >> np.uint64(32):
                here = np.int64(heads[r] & np.uint64(0xFFFFFFFF)) - 1
                if known_offsets[here + 1] - known_offsets[here] == offsets[low + r + 1] - offsets[low + r]:
                    firsts[r] = known_offsets[here]
        for r in range(rows):
            start, stop = offsets[low + r], offsets[low + r + 1]
            if firsts[r] >= 0 and _same(content, start, known, firsts[r], stop - start):
                codes[low + r] = np.int64(heads[r] & np.uint64(0xFFFFFFFF)) - 1
            elif heads[r] == 0:
                codes[low + r] = -1
            else:
                at = hashes[r] & mask
                codes[low + r] = _probe(content, start, stop, hashes[r], known_offsets, known, slots, at)
