"""The codes of records that were read, kept small so that tables can be counted from them without reading again.

Attributes that stand side by side share a word where that is shorter: the codes of 73,000 groups with 10, 10 and 20
values take 4 bytes of a record, not 7.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from residua.domain import Domain
from residua.source.accumulate import Codes, smallest

_WORD = 2**32

Columns = Sequence[NDArray[np.integer[Any]]]
Weights = NDArray[np.int64] | None


class KeptCodes:
    """The codes of counted records, as long as there is room for them; what is printed of it holds none.

    Args:
        domain: of the codes.
        room: how many bytes may be kept; with more, all are given up.
        person: the columns that say whose a record is, where they are kept as well.
    """

    def __init__(self, domain: Domain, room: int, person: Sequence[str] = ()) -> None:
        self._sizes = [int(size) for size in domain.sizes]
        self._words = _words(self._sizes)
        self._room, self._person = room, list(person)
        self.whole = True
        self.rows = 0
        self._parts: list[tuple[list[Codes], Weights, Any]] = []

    def add(self, batch: Any, codes: Columns, kept: NDArray[np.intp] | None, weights: Weights) -> None:
        """Keeps the kept rows of a batch."""
        if not self.whole:
            return
        ids = batch.select(self._person) if self._person else None
        if kept is not None:
            codes = [column[kept] for column in codes]
            weights = None if weights is None else weights[kept]
            ids = None if ids is None else ids.take(kept)
        ids = None if ids is None else _own(ids)
        packed = [self._packed(word, codes) for word in self._words]
        self._room -= sum(column.nbytes for column in packed) + (0 if weights is None else weights.nbytes)
        self._room -= 0 if ids is None else ids.nbytes
        if self._room < 0:
            self.forget()
        else:
            self.rows += len(codes[0])
            self._parts.append((packed, weights, ids))

    def batches(self) -> Iterator[tuple[list[Codes], Weights, Any]]:
        """What was kept, batch by batch: a column of codes for each attribute, weights, and whose the records are."""
        for packed, weights, ids in self._parts:
            codes: list[Any] = [None] * len(self._sizes)
            for word, values in zip(self._words, packed, strict=True):
                self._unpack(word, values, codes)
            yield codes, weights, ids

    def forget(self) -> None:
        """Gives up all of it."""
        self.whole = False
        self._parts.clear()

    def _packed(self, word: Sequence[int], codes: Columns) -> Codes:
        """The codes of some attributes as one number, row by row."""
        kind = smallest(math.prod(self._sizes[i] for i in word))
        number = codes[word[0]].astype(kind)
        for i in word[1:]:
            number = number * kind(self._sizes[i]) + codes[i].astype(kind)
        return number

    def _unpack(self, word: Sequence[int], number: Codes, codes: list[Any]) -> None:
        for i in reversed(word[1:]):
            size = number.dtype.type(self._sizes[i])
            above = number // size
            codes[i] = number - above * size
            number = above
        codes[word[0]] = number


def _words(sizes: Sequence[int]) -> list[tuple[int, ...]]:
    """Attributes that share a word of at most 32 bits, where that is shorter than one by one; those of one value alone.

    A word's later attributes then have fewer values than its type has numbers.
    """
    words: list[tuple[int, ...]] = [(i,) for i, size in enumerate(sizes) if size == 1]
    run: list[int] = []
    for i in (i for i, size in enumerate(sizes) if size > 1):
        if run and math.prod(sizes[k] for k in (*run, i)) > _WORD:
            words += _shorter(run, sizes)
            run = []
        run.append(i)
    return words + _shorter(run, sizes)


def _shorter(run: Sequence[int], sizes: Sequence[int]) -> list[tuple[int, ...]]:
    together = np.dtype(smallest(math.prod(sizes[i] for i in run))).itemsize
    apart = sum(np.dtype(smallest(sizes[i])).itemsize for i in run)
    return [tuple(run)] if run and together < apart else [(i,) for i in run]


def _own(batch: Any) -> Any:
    """A batch in memory of its own: whoever made a frame may change what a batch of it only points at."""
    import pyarrow as pa

    columns = [column.dictionary_decode() if pa.types.is_dictionary(column.type) else column for column in batch]
    plain = pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
    return pa.ipc.read_record_batch(plain.serialize(), plain.schema)


@dataclass(frozen=True, eq=False)
class SomeGroups:
    """Which groups are counted. The first attribute of `by` then holds a group's number among them, the others 0.

    Args:
        sizes: how many values each attribute has, (attributes,).
        by: positions of the attributes that make groups, increasing.
        groups: the groups that are counted, increasing, row by row among all groups.
    """

    sizes: NDArray[np.int64]
    by: tuple[int, ...]
    groups: NDArray[np.int64]

    @cached_property
    def _numbers(self) -> NDArray[np.int32]:
        """The new number of every group, −1 for those that are not counted."""
        numbers = np.full(int(np.prod(self.sizes[list(self.by)])), -1, dtype=np.int32)
        numbers[self.groups] = np.arange(len(self.groups), dtype=np.int32)
        return numbers

    def renumbered(self, codes: Columns) -> tuple[list[NDArray[np.integer[Any]]], NDArray[np.intp]]:
        """The columns of codes with the groups numbered anew, and which rows are in one of the groups."""
        group = codes[self.by[0]].astype(np.int64)
        for i in self.by[1:]:
            group = group * int(self.sizes[i]) + codes[i]
        numbers = self._numbers[group]
        renumbered = list(codes)
        renumbered[self.by[0]] = numbers
        for i in self.by[1:]:
            renumbered[i] = np.zeros(len(numbers), dtype=np.uint8)
        return renumbered, np.flatnonzero(numbers >= 0)
