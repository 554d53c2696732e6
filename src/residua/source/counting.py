"""From records to tables of counts: the only code that sees true counts before noise."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from residua.domain import Amount, Domain
from residua.domain.codec import codes_of_clipped, encode, settle, whole_numbers
from residua.errors import SourceError
from residua.linalg.lattice import Layout
from residua.machine import processors
from residua.source import accumulate
from residua.source.bound import Loss, PersonBound
from residua.source.digest import Digest
from residua.source.mixture import RecordParts
from residua.source.options import MOST_RECORDS, Options, Problems, Tallies, Tally
from residua.source.persons import Persons

if TYPE_CHECKING:
    from residua.source.checking import KeptCodes, SomeGroups
    from residua.source.records import Records

Progress = Callable[[int, int | None], None]  # rows read so far, about how many there are
# A column of codes per attribute, how many records each row is, whose they are.
Coded = tuple[accumulate.Columns, accumulate.Weights, Any]
_LEAST_ROWS, _MOST_ROWS = 1 << 16, 1 << 20
_CODE_BYTES = 1 << 26


@dataclass(frozen=True, eq=False, repr=False)
class Counted:
    """True counts. They stay inside the measuring step; what is printed of this object holds none.

    Args:
        tables: the counts in the layout's buffer, (cells,), read-only.
        tallies: what the policies and the bound did.
        fingerprint: of the dataset that was read.
    """

    tables: NDArray[np.int64]
    tallies: Tallies
    fingerprint: str

    def __repr__(self) -> str:
        return "Counted(confidential)"


def count(
    source: Records,
    domain: Domain,
    layout: Layout,
    progress: Progress | None = None,
    bound: PersonBound | None = None,
    *,
    way: accumulate.Way | None = None,
    keep: KeptCodes | None = None,
) -> Counted:
    """Counts every table of the layout in one pass over the records: what `Source.count` does by default.

    Args:
        source: where the records come from.
        domain: what they may hold; all its attributes are read.
        layout: the tables, in the order of the domain's attributes.
        progress: called after each batch with the rows read and the source's guess of how many there are.
        bound: how many records of each person are counted, all when not given.
        way: how to count, for tests and benchmarks; chosen by cost when not given.
        keep: keeps the codes of what is counted, to count other tables from them.

    Raises:
        SourceError: data that cannot be read, values that the domain refuses (all such columns named), or counts of
            2^62 and more.
    """
    require_fitting(source, domain, layout)
    columns, hint = columns_needed(source, domain, bound is not None), source.rows_hint()
    with Counting(layout, domain, source.options, bound, hint, way) as counting:
        tally = Tally(domain, source.show_values, Digest(counting.pool))

        def read() -> Iterator[Any]:
            for batch in source.digested([*dict.fromkeys(columns)], tally.digest):
                yield batch.select(columns)
                if progress is not None:
                    progress(tally.digest.rows, hint if bound is None or hint is None else 2 * hint)

        for rows in coded(read(), source.options, tally, counting.pool, bounded=bound is not None):
            if keep is not None:
                keep.add(*rows)
            counting.add(*rows, tally.problems)
        tally.require_countable(source.counts)
        read_rows = tally.digest.rows
        tables = counting.finish(lambda chosen: progress(read_rows + chosen, 2 * read_rows) if progress else None)
        tally.no_person, tally.loss = counting.nobody, counting.loss
        return Counted(tables, tally.tallies, tally.digest.fingerprint)


def coded(batches: Iterator[Any], options: Options, tally: Tally, pool: Executor, *, bounded: bool) -> Iterator[Coded]:
    """The rows of every batch that no policy drops, with whose they are where persons are bounded.

    After the first problem the rest is only read, to name every bad column at once.
    """
    domain, problems = tally.domain, tally.problems
    for batch in batches:
        weights = weights_of(batch.column(len(domain)), options, problems) if options.multiple is not None else None
        tally.records = min(tally.records + (batch.num_rows if weights is None else total_of(weights)), MOST_RECORDS)
        if tally.too_many:
            return
        codes = encoded(batch, domain, pool, problems)
        if not problems:
            kept, ids = tallied(codes, weights, tally), batch.select(list(options.person)) if bounded else None
            if kept is None:
                yield codes, weights, ids
            else:
                yield *accumulate.taken(codes, weights, kept), None if ids is None else ids.take(kept)


def require_fitting(source: Records, domain: Domain, layout: Layout) -> None:
    """Refuses to count tables of another domain, or the column of counts as an attribute.

    Raises:
        SourceError: so it is.
    """
    if not np.array_equal(layout.sizes, domain.sizes):
        raise SourceError("the layout was made for another domain; plan for the domain that is measured.")
    if source.options.multiple in domain:
        raise SourceError(f"column {source.options.multiple!r} is both counts and attribute; drop one of the two.")


def columns_needed(source: Records, domain: Domain, bounded: bool) -> list[str]:
    """The columns that counting reads: the attributes, the counts, and the person where that is bounded.

    Which amounts were clipped is read off the amounts, where no column of the source says it.
    """
    amounts = {str(domain[name].settings().get("clipped", "")): name for name in domain.amounts}
    there = source.columns() if any(amounts) else ()
    own = [amounts.get(name, name) if name not in there else name for name in domain.names]
    counts = [source.options.multiple] if source.options.multiple is not None else []
    named = source.options.person if bounded else ()
    return [*own, *counts, *(name for name in named if name not in domain)]


class Counting:
    """Rows of codes on their way to the tables of a layout; under a bound, each person's are chosen among first.

    Args:
        layout: the tables.
        domain: of the codes.
        options: what is said of the records.
        bound: how many records of each person are counted, all when not given.
        rows: about how many there will be, if known.
        way: how to count, chosen by cost when not given.
        only: the groups whose rows are counted, all when not given.
    """

    def __init__(
        self,
        layout: Layout,
        domain: Domain,
        options: Options,
        bound: PersonBound | None,
        rows: int | None,
        way: accumulate.Way | None = None,
        only: SomeGroups | None = None,
    ) -> None:
        self.pool = ThreadPoolExecutor(max_workers=processors())
        parts = RecordParts.of(domain) if domain.amounts else None
        self._tables = CountedTables(accumulate.tables_of_layout(layout), rows, self.pool, way, only, parts)
        self._persons: Persons | None = None
        if bound is not None:
            self._persons = Persons(options, bound)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        if self._persons is not None:
            self._persons.close()
        self.pool.shutdown()

    @property
    def nobody(self) -> int:
        """The records that were left out because nobody's."""
        return 0 if self._persons is None else self._persons.nobody

    @property
    def loss(self) -> Loss | None:
        """What the bound left out, once finished."""
        return None if self._persons is None else self._persons.loss

    def add(self, codes: accumulate.Columns, weights: accumulate.Weights, ids: Any, problems: Problems) -> None:
        """Adds rows, and whose they are."""
        if self._persons is None:
            self._tables.add(codes, weights)
        else:
            self._persons.add(codes, weights, ids, problems, self._tables.add)

    def finish(self, progress: Callable[[int], None] = lambda rows: None) -> NDArray[np.int64]:
        """The counts, in the layout's buffer, read-only; says how many rows persons were chosen among."""
        if self._persons is not None:
            self._persons.finish(self._tables.add, progress)
        return self._tables.finish()


class Buffer:
    """Rows of codes, collected until there is no room for more.

    Args:
        sizes: how many values each attribute has, (attributes,).
        capacity: how many rows there is room for.
        used: the attributes whose codes are kept, the others stay zero; all when not given.
        only: the groups whose rows are collected, all when not given.
        mixture: how rows with amounts are divided, if there are some.
    """

    def __init__(
        self,
        sizes: NDArray[np.int64],
        capacity: int,
        used: Sequence[int] | None = None,
        only: SomeGroups | None = None,
        mixture: RecordParts | None = None,
    ) -> None:
        self._capacity = max(capacity, 1)
        self.codes: accumulate.Codes = np.zeros(
            (len(sizes), self._capacity), dtype=accumulate.smallest(int(sizes.max()))
        )
        self._used, self._only, self._mixture = range(len(sizes)) if used is None else used, only, mixture
        self._weights = np.empty(self._capacity, dtype=np.int64)
        self._weighted = False
        self.rows = 0

    @property
    def weights(self) -> accumulate.Weights:
        """How many records each row stands for, one when not given."""
        return self._weights if self._weighted else None

    def add(self, codes: accumulate.Columns, weights: accumulate.Weights) -> Iterator[None]:
        """Adds rows; stops whenever it is full, and is empty when it goes on."""
        for part in [(codes, weights)] if self._mixture is None else self._mixture.divided(codes, weights):
            yield from self._add(*part)

    def _add(self, codes: accumulate.Columns, weights: accumulate.Weights) -> Iterator[None]:
        self._weighted = weights is not None
        if self._only is not None:
            codes, here = self._only.renumbered(codes)
            codes, weights = accumulate.taken(codes, weights, here)
        low = 0
        while low < len(codes[0]):
            high = min(len(codes[0]), low + self._capacity - self.rows)
            room = slice(self.rows, self.rows + high - low)
            for i in self._used:
                self.codes[i, room] = codes[i][low:high]
            if weights is not None:
                self._weights[room] = weights[low:high]
            self.rows, low = room.stop, high
            if self.rows == self._capacity:
                yield
                self.rows = 0


class CountedTables:
    """Tables to which rows are added as soon as there are enough for a pass over all of them to pay.

    Args:
        tables: the tables, one after the other.
        rows: about how many rows there will be, if known.
        pool: threads to count in.
        way: how to count, chosen by cost when not given.
        only: the groups whose rows are counted, all when not given.
        mixture: how rows with amounts are divided, if there are some.
    """

    def __init__(
        self,
        tables: accumulate.FlatTables,
        rows: int | None,
        pool: Executor,
        way: accumulate.Way | None = None,
        only: SomeGroups | None = None,
        mixture: RecordParts | None = None,
    ) -> None:
        self._accumulator = accumulate.Accumulator(tables, rows, pool, way)
        each = int(tables.cells.sum()) // max(len(tables), 1)
        room = _CODE_BYTES if only is None else _CODE_BYTES >> 4
        limit = room // (len(tables.sizes) * np.dtype(accumulate.smallest(int(tables.sizes.max()))).itemsize)
        used = np.unique(tables.members[np.arange(tables.members.shape[1]) < tables.widths[:, None]]).tolist()
        self._buffer = Buffer(tables.sizes, min(max(4 * each, _LEAST_ROWS), _MOST_ROWS, limit), used, only, mixture)

    def add(self, codes: accumulate.Columns, weights: accumulate.Weights) -> None:
        """Adds rows."""
        for _ in self._buffer.add(codes, weights):
            self._count()

    def _count(self) -> None:
        self._accumulator.add(self._buffer.codes, self._buffer.rows, self._buffer.weights)

    def finish(self) -> NDArray[np.int64]:
        """The counts, in the tables' buffer, read-only. Nothing may be added afterwards."""
        if self._buffer.rows:
            self._count()
        tables = self._accumulator.finish()
        tables.setflags(write=False)
        return tables


def encoded(batch: Any, domain: Domain, pool: Executor, problems: Problems) -> list[NDArray[np.int32]]:
    """The codes of a batch, a column per attribute, policies applied; what is refused goes into the problems."""

    def column(i: int) -> NDArray[np.int32]:
        name, given = domain.names[i], batch.schema.names[i]
        attribute, values = domain.attributes[name], batch.column(i)
        amount = domain.attributes[given]
        try:
            if given != name and isinstance(amount, Amount):
                return codes_of_clipped(amount, values)
            codes = encode(attribute, values, name)
        except SourceError as problem:  # a type that holds no values we know
            problems.say(str(problem))
            return np.zeros(batch.num_rows, dtype=np.int32)
        if not len(codes) or codes.min() >= 0:
            return codes
        problems.note(name, attribute, codes, values)
        return settle(attribute, codes)

    return list(pool.map(column, range(len(domain))))


def tallied(codes: accumulate.Columns, weights: accumulate.Weights, tally: Tally) -> NDArray[np.intp] | None:
    """Notes what the policies did, and says which rows are kept (nothing when all are)."""
    domain, gone = tally.domain, np.zeros(len(codes[0]), dtype=bool)
    for name, column in zip(domain.names, codes, strict=True):
        if "drop" in (domain[name].unknown, domain[name].missing):
            out = column < 0
            tally.dropped[name] += _records(out, weights)
            gone |= out
    for name, column in zip(domain.names, codes, strict=True):
        if domain[name].has_other:
            tally.other[name] += _records((column == domain[name].size - 1) & ~gone, weights)
    return np.flatnonzero(~gone) if gone.any() else None


def _records(chosen: NDArray[np.bool_], weights: accumulate.Weights) -> int:
    return int(np.count_nonzero(chosen)) if weights is None else int(weights[chosen].sum())


def weights_of(column: Any, options: Options, problems: Problems) -> NDArray[np.int64]:
    """How many records, or steps of weight, each row stands for; a column that does not say goes into the problems."""
    if options.weights is not None:
        return options.weights.of(column, problems)
    name = str(options.counts)
    weights, states = whole_numbers(column, name)
    if states.any() or (len(weights) and weights.min() < 0):
        problems.say(
            f"column {name!r} does not count records: it holds values that are not whole numbers ≥ 0; correct them, or "
            "leave counts out if these are survey weights, which are not counts, rounded or not."
        )
        return np.zeros_like(weights)
    return weights


def total_of(weights: NDArray[np.int64]) -> int:
    """How many records rows stand for together, 2^62 when there are more."""
    # Far above 2^62 the exact sum would wrap around; the one in floating point does not.
    return int(weights.sum()) if float(weights.sum(dtype=np.float64)) < 1.5 * MOST_RECORDS else MOST_RECORDS
