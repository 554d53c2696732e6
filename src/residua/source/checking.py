"""Data that was checked and can be counted: one snapshot for both, and one reading where memory suffices, else two.

The reading that checks sees that the records fit, and digests them. Their codes (and whose records they are, where
persons are bounded) are kept in memory and counted after the debit: what is counted is what was checked. Only where
they are too many for that is the source read again; then both are digested, and another digest means that the data
changed, and nothing is counted. An engine that counts by itself keeps nothing, and counts twice.

Codes are kept small. Attributes that stand side by side share a word where that is shorter: the codes of 73,000 groups
with 10, 10 and 20 values take 4 bytes of a record, not 7.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from residua.domain import Domain
from residua.errors import SourceError
from residua.linalg.lattice import Layout, closure, layout_of
from residua.machine import free_bytes, pyarrow as pa
from residua.source.accumulate import Codes, Columns, Weights, smallest
from residua.source.counting import Coded, Counted, Counting, count
from residua.source.options import Problems, Tallies

if TYPE_CHECKING:
    from residua.source.bound import PersonBound
    from residua.source.counting import Progress
    from residua.source.records import Records

_MOST_KEPT = 1 << 30  # bytes
_WORD = 2**32


class Checked:
    """Records that were read once and fit a domain, until they are forgotten; what is printed holds none.

    Attributes:
        records: how many there are; confidential.
        fingerprint: of the dataset they are.

    Args:
        source: the records.
        domain: what they may hold.
        progress: called after each batch.
        bound: how many records of each person are counted.
        keep: whether codes are kept; an engine that counts by itself has none to keep.
    """

    def __init__(
        self, source: Records, domain: Domain, progress: Progress | None, bound: PersonBound | None, *, keep: bool
    ) -> None:
        total = layout_of(closure([], len(domain)), domain.sizes)  # one table of one cell: how many records there are
        room = min(_MOST_KEPT, (free_bytes() or _MOST_KEPT) // 4)
        self._source: Records | None = source
        self._domain = domain
        # Which records of a person are counted is decided by the ledger's key, after the debit: ids are kept as is.
        self._codes = KeptCodes(domain, room) if keep else None
        if self._codes is None:
            first = source.count(domain, total, progress, bound)
        else:
            first = count(source, domain, total, progress, bound, keep=self._codes)
        self.records, self.fingerprint = int(first.tables[0]), first.fingerprint
        self._tallies = first.tallies

    @property
    def kept(self) -> bool:
        """Whether the codes are kept, so that counting again reads nothing."""
        return self._codes is not None and self._codes.whole

    def count(
        self,
        layout: Layout,
        progress: Progress | None,
        bound: PersonBound | None,
        only: SomeGroups | None = None,
        *,
        parts: int = 1,
    ) -> Counted:
        """Counts the tables of a layout; where the codes are kept of some groups alone, if asked.

        `parts` is the domain's: whoever counts must know that counts, and then noise, are in parts of a record.

        Raises:
            SourceError: the data is no longer what was checked.
        """
        source = self._source
        assert source is not None, "what was checked is forgotten"
        if parts != self._domain.parts:
            raise SourceError("amounts are measured by rs.measure alone; leave them out of the domain here.")
        if not self.kept:
            assert only is None  # asked for where records are kept alone
            return self._count_again(source, layout, progress, bound)
        assert self._codes is not None
        rows, done, problems = self._codes.rows, 0, Problems(self._domain.names, False)
        with Counting(layout, self._domain, source.options, bound, rows, only=only) as counting:
            for codes, weights, ids in self._codes.batches():
                counting.add(codes, weights, ids, problems)
                done += len(codes[0])
                if progress is not None:
                    progress(done, rows)
            problems.stop()
            tables = counting.finish()
            # The policies did what they did when the codes were read.
            tallies = replace(self._tallies, no_person=counting.nobody, loss=counting.loss)
            return Counted(tables, tallies, self.fingerprint)

    def _count_again(
        self, source: Records, layout: Layout, progress: Progress | None, bound: PersonBound | None
    ) -> Counted:
        try:
            counted = source.count(self._domain, layout, progress, bound)
        except SourceError as problem:
            raise SourceError(f"the data changed after it was checked: {problem}") from None
        if counted.fingerprint != self.fingerprint:
            hint = "" if source.repeatable else " (or it gives other records at every reading: leave out chance)"
            raise SourceError(f"the data changed after it was checked{hint}.")
        return counted

    def forget(self) -> None:
        """Gives up all but the fingerprint: the frames of an error may keep this object for long."""
        if self._codes is not None:
            self._codes.forget()
        self.records, self._source, self._tallies = 0, None, Tallies({}, {})

    def __repr__(self) -> str:
        return "Checked(confidential)"


class KeptCodes:
    """The codes of counted records, as long as there is room for them; what is printed of it holds none.

    Args:
        domain: of the codes.
        room: how many bytes may be kept; with more, all are given up.
    """

    def __init__(self, domain: Domain, room: int) -> None:
        self._sizes = [attribute.coded for attribute in domain.attributes.values()]
        self._words = _words(self._sizes)
        self._room = room
        self.whole = True
        self.rows = 0
        self._parts: list[tuple[list[Codes], Weights, Any]] = []

    def add(self, codes: Columns, weights: Weights, ids: Any) -> None:
        """Keeps rows."""
        if not self.whole:
            return
        ids = None if ids is None else _own(ids)
        packed = [self._packed(word, codes) for word in self._words]
        self._room -= sum(column.nbytes for column in packed) + (0 if weights is None else weights.nbytes)
        self._room -= 0 if ids is None else ids.nbytes
        if self._room < 0:
            self.forget()
        else:
            self.rows += len(codes[0])
            self._parts.append((packed, weights, ids))

    def batches(self) -> Iterator[Coded]:
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
