"""What Spark's executors do: records in, partial tables and tallies out, all as Arrow data.

Nothing here needs Spark. A task is plain values that pickle anywhere; what goes wrong with the data comes back as data,
never as an exception, which Spark would write into its logs together with values.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from residua.domain import Domain
from residua.domain.toml import domain_of_settings
from residua.errors import SourceError
from residua.linalg.layout import Layout
from residua.source.accumulate import Accumulator
from residua.source.counting import _MOST_RECORDS as MOST_RECORDS
from residua.source.counting import _Buffer as Buffer
from residua.source.counting import _encoded as encoded
from residua.source.counting import _tally as tallied
from residua.source.counting import _total as total_of
from residua.source.counting import _weights as weights_of
from residua.source.options import Options
from residua.source.problems import Problems
from residua.source.source import Source
from residua.source.tables import Codes, Tables, add_plainly, processors

PARTIAL = pa.schema([("block", pa.int32()), ("counts", pa.binary()), ("note", pa.binary())])
PARTIAL_SQL = "block int, counts binary, note binary"
NOTE = -1  # the block of what is no table: tallies and problems
_CODE_BYTES = 1 << 27  # that codes of rows may take before they are counted
_PLAIN_WORK = 2e8  # increments that NumPy does in about the time Numba takes to load


@dataclass(frozen=True)
class Task:
    """What every executor is told.

    Args:
        version: of the residua that asks; another one on an executor is refused.
        domain: the settings of the domain, as JSON.
        names: the columns of the batches that will come.
        expressions: computed columns, as `Source.with_columns` takes them.
        options: the source's options.
        layout: the tables to count, whole (small ones).
        tables: the tables to count, block by block (large ones).
        bounds: the first table of each block, and the number of tables at the end.
        digest: whether every partial table comes with the digest of the records it counts.
    """

    version: str
    domain: str
    names: tuple[str, ...]
    expressions: tuple[tuple[str, str], ...]
    options: Options
    layout: Layout | None = None
    tables: Tables | None = None
    bounds: tuple[int, ...] = ()
    digest: bool = False

    @property
    def block_starts(self) -> tuple[int, ...]:
        """Where each block begins in the buffer of all tables."""
        return (0,) if self.tables is None else tuple(int(self.tables.starts[first]) for first in self.bounds[:-1])

    @property
    def block_cells(self) -> tuple[int, ...]:
        """How many cells each block has."""
        if self.tables is None:
            return ()
        return tuple(int(self.tables.cells[a:b].sum()) for a, b in pairwise(self.bounds))


@dataclass
class Tally:
    """What was seen on the way, of one partition or of all; confidential."""

    domain: Domain
    show_values: bool
    rows: int = 0
    records: int = 0
    dropped: dict[str, int] = field(default_factory=dict)
    other: dict[str, int] = field(default_factory=dict)
    problems: Problems = field(init=False)

    def __post_init__(self) -> None:
        self.dropped, self.other = dict.fromkeys(self.domain.names, 0), dict.fromkeys(self.domain.names, 0)
        self.problems = Problems(self.domain.names, self.show_values)

    def to_bytes(self) -> bytes:
        """As JSON, with which it travels."""
        plain = {name: getattr(self, name) for name in ("rows", "records", "dropped", "other")}
        return json.dumps({**plain, "problems": self.problems.to_plain()}).encode()

    def add(self, note: bytes) -> None:
        """Adds what another one says."""
        plain = json.loads(note)
        self.rows += plain["rows"]
        self.records = min(self.records + plain["records"], MOST_RECORDS)
        for mine, theirs in ((self.dropped, plain["dropped"]), (self.other, plain["other"])):
            for name, count in theirs.items():
                mine[name] += count
        self.problems.add_plain(plain["problems"])


class Partition(Source):
    """The batches that reach one task, as a source that can be read once."""

    def __init__(self, batches: Iterator[Any], names: Sequence[str], options: Options) -> None:
        super().__init__(options)
        self._batches, self._names = batches, tuple(names)

    def __str__(self) -> str:
        return "the Spark frame"

    def columns(self) -> tuple[str, ...]:
        """The columns asked for."""
        return self._names

    def fingerprint(self) -> str:
        """A part has none."""
        raise SourceError("a part of the data has no fingerprint.")

    def _read(self, columns: Sequence[str]) -> Iterator[Any]:
        for batch in self._batches:
            yield batch.rename_columns(list(self._names)).select(list(columns))


def counted_partition(task: Task, batches: Iterator[Any]) -> Iterator[Any]:
    """The partial tables of one partition: rows (block, counts, note), the tallies last, or problems and nothing else.

    Guarantee: no exception leaves this function that could quote a value; what it finds wrong is in the note.
    """
    domain = _domain(task.domain)
    tally = Tally(domain, task.options.show_values)
    try:
        _require_same_version(task)
        digest = RecordsDigest(task.names) if task.digest else None
        read = batches if digest is None else digest.seen(batches)
        source = Partition(read, task.names, task.options).with_columns(dict(task.expressions))
        for block, counts in _counted(task, domain, source, tally, digest):
            yield row_of(block, counts, digest.part if digest else b"")
    except SourceError as problem:
        tally.problems.say(str(problem))
    except MemoryError:
        tally.problems.say("an executor had not enough memory to count; use smaller partitions, or more memory.")
    yield row_of(NOTE, b"", tally.to_bytes())


def _counted(
    task: Task, domain: Domain, source: Source, tally: Tally, digest: RecordsDigest | None
) -> Iterator[tuple[int, bytes]]:
    with ThreadPoolExecutor(max_workers=processors()) as pool:
        if task.layout is not None:
            accumulator = Accumulator(task.layout, None, pool)
            buffer = Buffer(domain, task.layout, accumulator)
            for codes, kept, weights in coded(domain, source, tally, pool):
                buffer.add(codes, kept, weights)
            buffer.flush()
            if not tally.problems:
                yield 0, packed(accumulator.finish())
        elif task.tables is not None:
            rows = _Rows(domain, source.weight is not None)
            for codes, kept, weights in coded(domain, source, tally, pool):
                for _ in rows.fill(codes, kept, weights):
                    yield from _blocks(task.tables, task.bounds, rows, pool)
                    if digest is not None:
                        digest.begin()
            if (rows.count or digest is not None) and not tally.problems:
                yield from _blocks(task.tables, task.bounds, rows, pool)


def coded(
    domain: Domain, source: Source, tally: Tally, pool: ThreadPoolExecutor
) -> Iterator[tuple[list[NDArray[np.int32]], NDArray[np.intp] | None, NDArray[np.int64] | None]]:
    """The codes of every batch, which rows are kept, and their weights; nothing more after the first problem."""
    weight, problems = source.weight, tally.problems
    for batch in source.batches([*domain.names, *([weight] if weight is not None else [])]):
        weights = weights_of(batch.column(len(domain)), weight, problems) if weight is not None else None
        tally.rows += batch.num_rows
        tally.records = min(tally.records + (batch.num_rows if weights is None else total_of(weights)), MOST_RECORDS)
        codes = encoded(batch, domain, pool, problems)
        if not problems:  # after the first one, the rest is read only to name every bad column at once
            yield codes, tallied(codes, weights, domain, tally.dropped, tally.other), weights


class _Rows:
    """Codes of rows, held until there are so many that counting all blocks pays."""

    def __init__(self, domain: Domain, weighted: bool) -> None:
        most = int(domain.sizes.max())
        kind = np.uint8 if most <= 2**8 else np.uint16 if most <= 2**16 else np.uint32
        self._capacity = max(_CODE_BYTES // (len(domain) * np.dtype(kind).itemsize), 1)
        self.codes: Codes = np.empty((len(domain), self._capacity), dtype=kind)
        self.weights = np.empty(self._capacity, dtype=np.int64) if weighted else None
        self.count = 0

    def fill(
        self, codes: list[NDArray[np.int32]], kept: NDArray[np.intp] | None, weights: NDArray[np.int64] | None
    ) -> Iterator[None]:
        """Adds rows; gives way whenever it is full, to be counted, and begins anew."""
        if kept is not None:
            codes = [column[kept] for column in codes]
            weights = None if weights is None else weights[kept]
        low = 0
        while low < len(codes[0]):
            high = min(len(codes[0]), low + self._capacity - self.count)
            room = slice(self.count, self.count + high - low)
            for target, column in zip(self.codes, codes, strict=True):
                target[room] = column[low:high]
            if self.weights is not None and weights is not None:
                self.weights[room] = weights[low:high]
            self.count, low = room.stop, high
            if self.count == self._capacity:
                yield
                self.count = 0


def _blocks(
    tables: Tables, bounds: Sequence[int], rows: _Rows, pool: ThreadPoolExecutor
) -> Iterator[tuple[int, bytes]]:
    """The counts of every block in turn, so that no more than one is held."""
    plain = rows.count * len(tables) < _PLAIN_WORK
    for block in range(len(bounds) - 1):
        if not rows.count:  # a digest travels with no counts
            yield block, b""
            continue
        part = tables.part(bounds[block], bounds[block + 1]).moved()
        counts = np.zeros(int(part.cells.sum()), dtype=np.int64)
        if plain:
            add_plainly(part, rows.codes, rows.count, rows.weights, counts)
        else:
            from residua.source.kernel import add_compiled

            add_compiled(part, rows.codes, rows.count, rows.weights, counts, pool)
        yield block, packed(counts)


def summed_blocks(cells: Sequence[int], batches: Iterator[Any]) -> Iterator[Any]:
    """Adds up the partial tables of each block; blocks arrive one after the other. Notes pass unchanged."""
    for block, counts, notes in blocks_of(cells, batches):
        if block == NOTE:
            yield from (row_of(NOTE, b"", note) for note in notes)
        else:
            yield row_of(block, packed(counts))


def blocks_of(cells: Sequence[int], batches: Iterator[Any]) -> Iterator[tuple[int, NDArray[np.int64], list[bytes]]]:
    """Block by block (they arrive sorted): its number, its sum, and what was noted; one block is held at a time."""
    current: int | None = None
    total, notes = np.zeros(0, dtype=np.int64), list[bytes]()
    for batch in batches:
        for block, counts, note in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            if block != current:
                if current is not None:
                    yield current, total, notes
                current, total, notes = block, np.zeros(cells[block] if block != NOTE else 0, dtype=np.int64), []
            if note:
                notes.append(note)
            if counts:
                total += unpacked(counts)
    if current is not None:
        yield current, total, notes


def packed(counts: NDArray[np.int64]) -> bytes:
    """Counts in as few bytes each as hold the largest."""
    most = int(counts.max()) if counts.size else 0
    kind = next(kind for kind in "BHIq" if most <= np.iinfo(kind).max)
    return kind.encode() + counts.astype(kind).tobytes()


def unpacked(counts: bytes) -> NDArray[Any]:
    """The counts again, (cells,)."""
    return np.frombuffer(counts, dtype=chr(counts[0]), offset=1)


def row_of(block: int, counts: bytes, note: bytes = b"") -> Any:
    """One partial table, or one note, as Arrow data."""
    return pa.record_batch([[block], [counts], [note]], schema=PARTIAL)


@lru_cache(maxsize=4)
def _domain(settings: str) -> Domain:
    return domain_of_settings(json.loads(settings))


def _require_same_version(task: Task) -> None:
    from residua import __version__

    if __version__ != task.version:
        raise SourceError(
            f"the executors have residua {__version__}, this is {task.version}; install the same version there."
        )


DIGEST_SQL = "part binary"


class RecordsDigest:
    """The digest of the records that pass, in parts that add up to that of all, whatever their order."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = tuple(names)
        self.begin()

    def begin(self) -> None:
        """Begins a new part."""
        self._total = 0

    def seen(self, batches: Iterator[Any]) -> Iterator[Any]:
        """The same batches, noted as they pass."""
        import hashlib

        for batch in batches:
            for row in batch.to_pylist():
                self._total += int.from_bytes(hashlib.sha256(repr(list(row.values())).encode()).digest()[:8])
            yield batch

    @property
    def part(self) -> bytes:
        """What was seen since the part began."""
        return str(self._total).encode()


def digested_partition(names: Sequence[str], batches: Iterator[Any]) -> Iterator[Any]:
    """One partition's part of the digest of all records."""
    digest = RecordsDigest(names)
    for _ in digest.seen(batches):
        pass
    yield pa.record_batch([[digest.part]], names=["part"])


def joined_digest(names: Sequence[str], parts: Iterable[bytes]) -> str:
    """The digest of all records from that of the parts."""
    return f"records:{names}{sum(int(part) for part in parts)}"


def sent_batches(batches: Iterator[Any]) -> Iterator[Any]:
    """Every batch as one value, in Arrow's own format, so that it reaches the driver as it is."""
    for batch in batches:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        yield pa.record_batch([pa.array([sink.getvalue().to_pybytes()], pa.binary())], names=["batch"])


def received_batch(sent: bytes, names: Sequence[str]) -> Any:
    """The batch again."""
    (batch,) = pa.ipc.open_stream(sent)
    return batch.rename_columns(list(names))
