"""Compiled loops over persons: SipHash-2-4, a keyed hash of texts and numbers, and the choice of records by it.

Reference: Aumasson and Bernstein (2012), "SipHash: a fast short-input PRF", INDOCRYPT 2012; 128-bit outputs as in the
    authors' own reference implementation.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from residua.machine import compiled, compiled_inline

Words = NDArray[np.uint64]
_V0, _V1 = np.uint64(0x736F6D6570736575), np.uint64(0x646F72616E646F6D)
_V2, _V3 = np.uint64(0x6C7967656E657261), np.uint64(0x7465646279746573)


@compiled_inline
def _turned(x: Any, b: int) -> Any:
    return (x << np.uint64(b)) | (x >> np.uint64(64 - b))


@compiled_inline
def _round(v0: Any, v1: Any, v2: Any, v3: Any) -> Any:
    v0 = v0 + v1
    v1 = _turned(v1, 13) ^ v0
    v0 = _turned(v0, 32)
    v2 = v2 + v3
    v3 = _turned(v3, 16) ^ v2
    v0 = v0 + v3
    v3 = _turned(v3, 21) ^ v0
    v2 = v2 + v1
    v1 = _turned(v1, 17) ^ v2
    v2 = _turned(v2, 32)
    return v0, v1, v2, v3


@compiled_inline
def begun(k0: Any, k1: Any) -> Any:
    """The state before the first word, for a 64-bit result."""
    return k0 ^ _V0, k1 ^ _V1, k0 ^ _V2, k1 ^ _V3


@compiled_inline
def taken(v0: Any, v1: Any, v2: Any, v3: Any, word: Any) -> Any:
    """The state after one more word of eight bytes."""
    v3 = v3 ^ word
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return v0 ^ word, v1, v2, v3


@compiled_inline
def ended(v0: Any, v1: Any, v2: Any, v3: Any, words: int) -> Any:
    """The 64-bit hash of what was taken, so many whole words."""
    v0, v1, v2, v3 = taken(v0, v1, v2, v3, np.uint64(words * 8 % 256) << np.uint64(56))
    v2 = v2 ^ np.uint64(0xFF)
    for _ in range(4):
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return v0 ^ v1 ^ v2 ^ v3


@compiled
def hash_texts(values: NDArray[np.uint8], offsets: NDArray[np.int64], k0: Any, k1: Any, out: Words) -> None:
    """The 128-bit hash of each text, (texts, 2); text i is `values[offsets[i] : offsets[i + 1]]`."""
    for i in range(out.shape[0]):
        start, length = offsets[i], offsets[i + 1] - offsets[i]
        v0, v1, v2, v3 = begun(k0, k1)
        v1 = v1 ^ np.uint64(0xEE)
        for w in range(length // 8):
            word = np.uint64(0)
            for b in range(8):
                word = word | (np.uint64(values[start + 8 * w + b]) << np.uint64(8 * b))
            v0, v1, v2, v3 = taken(v0, v1, v2, v3, word)
        word = np.uint64(length % 256) << np.uint64(56)
        for b in range(length % 8):
            word = word | (np.uint64(values[start + length - length % 8 + b]) << np.uint64(8 * b))
        v0, v1, v2, v3 = taken(v0, v1, v2, v3, word)
        v2 = v2 ^ np.uint64(0xEE)
        for _ in range(4):
            v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        out[i, 0] = v0 ^ v1 ^ v2 ^ v3
        v1 = v1 ^ np.uint64(0xDD)
        for _ in range(4):
            v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        out[i, 1] = v0 ^ v1 ^ v2 ^ v3


Numbers = NDArray[np.int64]
_FEW = 24  # rows that are sorted by insertion


@compiled
def _before(rows: Words, a: int, b: int, last: int) -> bool:
    """Whether row a comes before row b: by the second half of the person, then by the codes."""
    for w in range(1, last):
        if rows[a, w] != rows[b, w]:
            return bool(rows[a, w] < rows[b, w])
    return False


@compiled
def _same(rows: Words, a: int, b: int, first: int, last: int) -> bool:
    same = True
    for w in range(first, last):
        same = same and rows[a, w] == rows[b, w]
    return same


@compiled
def _sort(rows: Words, part: Numbers, last: int) -> None:
    """Sorts row numbers of one first half of a person in place: O(m log m) at worst, whatever the data."""
    if part.shape[0] > _FEW:
        for w in range(last - 1, 0, -1):
            part[:] = part[np.argsort(rows[:, w][part], kind="mergesort")]
        return
    for i in range(1, part.shape[0]):
        moved, j = part[i], i
        while j > 0 and _before(rows, moved, part[j - 1], last):
            part[j] = part[j - 1]
            j -= 1
        part[j] = moved


@compiled
def _weight(rows: Words, row: int, weighted: bool) -> Any:
    return np.int64(rows[row, rows.shape[1] - 1]) if weighted else np.int64(1)


@compiled
def _least_hashes(rows: Words, row: int, last: int, ordinals: int, k0: Any, k1: Any, least: Words) -> None:
    """The least hashes of so many records that are alike, as many as there is room for, in order.

    A record is hashed by its person, its codes and its ordinal.
    """
    hashes = np.empty(ordinals, np.uint64)
    v0, v1, v2, v3 = begun(k0, k1)
    for w in range(last):
        v0, v1, v2, v3 = taken(v0, v1, v2, v3, rows[row, w])
    for ordinal in range(ordinals):
        a, b, c, d = taken(v0, v1, v2, v3, np.uint64(ordinal))
        hashes[ordinal] = ended(a, b, c, d, last + 1)
    least[:] = np.sort(hashes)[: least.shape[0]]


@compiled
def _value(rows: Words, row: int, limit: Numbers) -> Any:
    """The code of the attribute that a limit is about."""
    return np.int64(rows[row, 2 + limit[0]] // np.uint64(limit[1]) % np.uint64(limit[2]))


@compiled
def _walk(rows: Words, at: Numbers, kinds: Numbers, most: int, limited: Numbers, used: Numbers, counts: Numbers) -> Any:
    """Takes candidates in their order while no limit is broken, and says how many; `used` is all 0 again afterwards."""
    total = np.int64(0)
    for kind in kinds:
        fits = True
        for i in range(limited.shape[0]):
            fits = fits and used[i, _value(rows, at[kind], limited[i])] < limited[i, 3]
        if fits:
            counts[kind] += 1
            total += 1
            for i in range(limited.shape[0]):
                used[i, _value(rows, at[kind], limited[i])] += 1
            if total == most:
                break
    for kind in range(counts.shape[0]):
        for i in range(limited.shape[0]):
            used[i, _value(rows, at[kind], limited[i])] = 0
    return total


@compiled
def _chosen(
    rows: Words,
    last: int,
    most: int,
    each: int,
    limited: Numbers,
    used: Numbers,
    k0: Any,
    k1: Any,
    at: Numbers,
    counts: Numbers,
) -> Any:
    """Chooses among one person's records, which are `counts` of each kind; writes how many of each are taken."""
    candidates = np.int64(0)
    for kind in range(at.shape[0]):
        candidates += min(counts[kind], each)
    hashes, kinds = np.empty(candidates, np.uint64), np.empty(candidates, np.int64)
    begin = np.int64(0)
    for kind in range(at.shape[0]):
        end = begin + min(counts[kind], each)
        kinds[begin:end] = kind
        _least_hashes(rows, at[kind], last, counts[kind], k0, k1, hashes[begin:end])
        counts[kind], begin = 0, end
    order = np.argsort(hashes, kind="mergesort")  # of equal hashes the lower kind first
    return _walk(rows, at, kinds[order], most, limited, used, counts)


@compiled
def choose(
    rows: Words,
    order: Numbers,
    words: int,
    weighted: bool,
    most: int,
    limited: Numbers,
    most_equal: int,
    k0: Any,
    k1: Any,
    at: Numbers,
    counts: Numbers,
    held: Numbers,
    lost: Numbers,
    spare: int,
    left_at: Numbers,
    left_counts: Numbers,
) -> Any:
    """Chooses for every person; see `bound.chosen`.

    Args:
        rows: packed rows, (rows, 2 + words [+ 1]).
        order: row numbers by the first half of the person; sorted further here.
        words: how many 64-bit numbers the codes take.
        weighted: whether the last column says how many records a row stands for.
        most: the most records of a person.
        limited: word, factor, size and most of each limit, (limits, 4).
        most_equal: as many records alike are refused.
        k0: one half of the key.
        k1: the other.
        at: gets the numbers of rows that are counted, (rows,).
        counts: gets how often each, (rows,).
        held: persons by how many records they have; added to.
        lost: persons by how many of them are not counted; added to.
        spare: the most records of a person that are noted as left out; of more, a choice by the other half of the key.
        left_at: gets the numbers of rows that stand for records left out, (rows,); nothing if `spare` is 0.
        left_counts: gets how many records each, (rows,).

    Returns:
        How many rows were written (-1: too many records alike), how many records were left out, and how many rows
        stand for those of them that are noted.
    """
    last = 2 + words
    widest, each = 1, most  # of each kind of record no more than `each` can be taken
    for i in range(limited.shape[0]):
        widest, each = max(widest, limited[i, 2]), min(each, limited[i, 3])
    used = np.zeros((limited.shape[0], widest), np.int64)
    written, dropped, left, begin, n = 0, np.int64(0), 0, 0, order.shape[0]
    while begin < n:
        end = begin + 1
        while end < n and rows[order[end], 0] == rows[order[begin], 0]:
            end += 1
        _sort(rows, order[begin:end], last)
        while begin < end:
            stop = begin + 1
            while stop < end and rows[order[stop], 1] == rows[order[begin], 1]:
                stop += 1
            part = order[begin:stop]  # one person
            begin = stop
            kinds, total = 0, np.int64(0)
            for i in range(part.shape[0]):
                weight = _weight(rows, part[i], weighted)
                if weight == 0:
                    continue
                if kinds == 0 or not _same(rows, part[i], at[written + kinds - 1], 2, last):
                    at[written + kinds], counts[written + kinds] = part[i], 0
                    kinds += 1
                counts[written + kinds - 1] += weight
                total += weight
            kept: Any = total
            if limited.shape[0] or total > most:
                own, own_counts = at[written : written + kinds], counts[written : written + kinds]
                for kind in range(kinds):
                    if own_counts[kind] >= most_equal:
                        return -1, np.int64(0), 0
                rest = own_counts.copy() if spare else own_counts
                kept = _chosen(rows, last, most, each, limited, used, k0, k1, own, own_counts)
                if spare and kept < total:
                    rest -= own_counts
                    if total - kept > spare:
                        _chosen(rows, last, spare, spare, limited[:0], used, k1, k0, own, rest)
                    for kind in range(kinds):
                        if rest[kind]:
                            left_at[left], left_counts[left] = own[kind], rest[kind]
                            left += 1
            for kind in range(written, written + kinds):  # what is taken moves up
                if counts[kind]:
                    at[written], counts[written] = at[kind], counts[kind]
                    written += 1
            dropped += total - kept
            if total:
                held[min(total, held.shape[0] - 1)] += 1
                lost[min(total - kept, lost.shape[0] - 1)] += 1
    return written, dropped, left
