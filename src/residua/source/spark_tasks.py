"""What Spark's executors do, records in, partial tables and tallies out; and how these travel between tasks.

Tables are counted all at once where they are small, else block by block. Nothing here needs Spark. A task is plain
values that pickle anywhere; what goes wrong with the data comes back as data, never as an exception, which Spark would
write into its logs together with values.

What travels are rows (block, counts, note) of Arrow data. A block is some tables that follow each other. Its counts
take as few bytes each as hold the largest. A note is JSON. Spark may read some of the data again, when an executor is
lost; if the data changed meanwhile, some tables would count other records than the rest. So a proof travels with each
table, and all add up to the records of one reading: the digest of the records counted, as numbers that add up; or,
under a bound on persons, how many buckets of persons were counted, by the fingerprint of the data that each of them
saw.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from residua.domain import Domain
from residua.domain.domain import domain_of_settings
from residua.errors import SourceError
from residua.machine import processors
from residua.source.accumulate import PLAIN_WORK, Accumulator, Columns, FlatTables, Way, Weights, smallest
from residua.source.bound import PersonBound
from residua.source.counting import Buffer, Coded, CountedTables, coded, columns_needed
from residua.source.digest import Digest
from residua.source.mixture import RecordParts
from residua.source.options import Options, Problems, Tally
from residua.source.persons import PARTS
from residua.source.records import Records

ROW = pa.schema([("block", pa.int32()), ("counts", pa.binary()), ("note", pa.binary())])
ROW_SQL = "block int, counts binary, note binary"
NOTE = -1  # the block of what is no table: tallies and problems


def row_of(block: int, counts: bytes, note: bytes = b"") -> Any:
    """One partial table, or one note, as Arrow data."""
    return pa.record_batch([[block], [counts], [note]], schema=ROW)


def narrowed(counts: NDArray[np.int64]) -> bytes:
    """Counts in as few bytes each as hold the largest."""
    most = int(counts.max()) if counts.size else 0
    kind = next(kind for kind in "BHIq" if most <= np.iinfo(kind).max)
    return kind.encode() + counts.astype(kind).tobytes()


def widened(counts: bytes) -> NDArray[Any]:
    """The counts again, (cells,)."""
    return np.frombuffer(counts, dtype=chr(counts[0]), offset=1)


def runs_of(batches: Iterator[Any]) -> Iterator[tuple[int, Iterator[tuple[bytes, bytes]]]]:
    """Rows that arrive sorted by block: each block with its counts and notes, streamed."""
    rows = (
        (block, counts, note)
        for batch in batches
        for block, counts, note in zip(*(column.to_pylist() for column in batch.columns), strict=True)
    )
    for block, run in groupby(rows, key=itemgetter(0)):
        yield block, ((counts, note) for _, counts, note in run)


def sums_of(cells: Sequence[int], batches: Iterator[Any]) -> Iterator[tuple[int, NDArray[np.int64], list[bytes]]]:
    """Block by block: its number, the sum of its partial tables, and its notes; one block is held at a time."""
    for block, run in runs_of(batches):
        total, notes = np.zeros(cells[block] if block != NOTE else 0, dtype=np.int64), list[bytes]()
        for counts, note in run:
            if note:
                notes.append(note)
            if counts:
                total += widened(counts)
        yield block, total, notes


def summed_partition(cells: Sequence[int], batches: Iterator[Any]) -> Iterator[Any]:
    """Adds up the partial tables of each block, and their proofs. Notes that are no table's pass unchanged."""
    for block, counts, notes in sums_of(cells, batches):
        if block == NOTE:
            yield from (row_of(NOTE, b"", note) for note in notes)
        else:
            yield row_of(block, narrowed(counts), merged(notes))


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


BUCKETS = PARTS  # of persons; each is gathered and chosen among alone
APART = BUCKETS  # the bucket of records without a person that count as persons of their own
Parts = tuple[int, int, int]  # of a digest: the number of records, and two sums


def proof_of(seen: Parts | Counter[str]) -> bytes:
    """The proof of a table: the digest of its records; or how many buckets it counts, by the fingerprint they saw."""
    return json.dumps(seen).encode()


def merged(proofs: Sequence[bytes]) -> bytes:
    """The proof of the sum of tables."""
    plain = [json.loads(proof) for proof in proofs]
    if any(isinstance(each, dict) for each in plain):
        return proof_of(sum((Counter(each) for each in plain), Counter()))
    digest = Digest()
    for parts in plain:
        digest.merge(tuple(parts))
    return proof_of(digest.parts)


def proven(proofs: Sequence[bytes], *, bounded: bool) -> str | None:
    """The fingerprint of the records that tables count together; nothing where they are not those of one reading."""
    together = json.loads(merged(proofs))
    if not bounded:
        digest = Digest()
        digest.merge(tuple(together))
        return digest.fingerprint
    seen = dict(together) if isinstance(together, dict) else {}
    return next(iter(seen)) if list(seen.values()) == [BUCKETS + 1] else None


Prove = Callable[[], bytes]
_HELD_CODES = 1 << 27  # bytes that codes of rows may take before they are counted


@dataclass(frozen=True, eq=False)
class SparkTask:
    """What every executor is told.

    Args:
        version: of the residua that asks; another one on an executor is refused.
        domain: the settings of the domain, as JSON.
        names: the columns of the batches that will come: all the frame has.
        expressions: computed columns, as `Source.with_columns` takes them.
        options: the source's options.
        tables: the tables to count: whole if they are one block, else block by block.
        bounds: the first table of each block, and the number of tables at the end.
        bound: how many records of each person are counted.
    """

    version: str
    domain: str
    names: tuple[str, ...]
    expressions: tuple[tuple[str, str], ...]
    options: Options
    tables: FlatTables
    bounds: tuple[int, ...]
    bound: PersonBound | None = None

    @property
    def block_starts(self) -> tuple[int, ...]:
        """Where each block begins in the buffer of all tables."""
        return tuple(int(self.tables.starts[first]) for first in self.bounds[:-1])

    @property
    def block_cells(self) -> tuple[int, ...]:
        """How many cells each block has."""
        return tuple(int(self.tables.cells[a:b].sum()) for a, b in pairwise(self.bounds))


class Partition(Records):
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
        """Refused: only the whole data has one."""
        raise SourceError("a part of the data has no fingerprint.")

    def _read(self, columns: Sequence[str]) -> Iterator[Any]:
        for batch in self._batches:
            yield batch.rename_columns(list(self._names)).select(list(columns))


def coded_partition(task: SparkTask, batches: Iterator[Any], tally: Tally, pool: ThreadPoolExecutor) -> Iterator[Coded]:
    """The codes of every batch, while all columns go into the digest (`counting.coded`)."""

    def digested() -> Iterator[Any]:
        for batch in batches:
            tally.digest.add(batch, task.names)
            yield batch

    source = Partition(digested(), task.names, task.options).with_columns(dict(task.expressions))
    bounded = task.bound is not None
    columns = columns_needed(source, tally.domain, bounded)
    read = (batch.select(columns) for batch in source.batches([*dict.fromkeys(columns)]))
    yield from coded(read, source.options, tally, pool, bounded=bounded)


@contextmanager
def noted(problems: Problems) -> Iterator[None]:
    """What goes wrong, as data."""
    try:
        yield
    except SourceError as problem:
        problems.say(str(problem))
    except MemoryError:
        problems.say("an executor has not enough memory to count; use smaller partitions, or more memory.")
    except Exception as problem:  # of Arrow or NumPy, whose words may quote values
        problems.say(f"an executor cannot count the records ({type(problem).__name__}); convert the frame's columns.")


def counted_partition(task: SparkTask, batches: Iterator[Any]) -> Iterator[Any]:
    """The partial tables of one partition, with the digest of the records they count; the tally last.

    Guarantee: no exception leaves this function that could quote a value; what it finds wrong is in the tally.
    """
    tally = Tally(domain_of(task.domain), task.options.show_values)
    proven: Parts = tally.digest.parts

    def proof() -> bytes:
        """The digest of the records since the last one."""
        nonlocal proven
        rows, *sums = ((now - then) % 2**64 for now, then in zip(tally.digest.parts, proven, strict=True))
        proven = tally.digest.parts
        return proof_of((rows, sums[0], sums[1]))

    with noted(tally.problems), pool_of() as pool:
        require_same_version(task.version)
        counting = counting_of(task, pool)
        for codes, weights, _ in coded_partition(task, batches, tally, pool):
            yield from counting.add(codes, weights, proof)
        if not tally.problems:
            yield from counting.finish(proof)
    yield row_of(NOTE, b"", tally.to_bytes())


def digested_partition(names: Sequence[str], batches: Iterator[Any]) -> Iterator[Any]:
    """The digest of the records of one partition, in a tally."""
    tally = Tally(Domain({"none": [""]}), show_values=False)
    with noted(tally.problems):
        for batch in batches:
            tally.digest.add(batch, names)
    yield row_of(NOTE, b"", tally.to_bytes())


@lru_cache(maxsize=4)
def domain_of(settings: str) -> Domain:
    """The domain that a task counts."""
    return domain_of_settings(json.loads(settings))


def own_version() -> str:
    """The version of residua in this process, installed or sent as a file."""
    return str(vars(sys.modules["residua"])["__version__"])


def other_version(version: str) -> str | None:
    """Why this residua is not the one that asks, if it is another."""
    if own_version() == version:
        return None
    return f"the executors have residua {own_version()}, this is {version}; install the same version there"


def require_same_version(version: str) -> None:
    """Refuses to count for another version of residua.

    Raises:
        SourceError: it is another.
    """
    if other := other_version(version):
        raise SourceError(f"{other}.")


class Whole:
    """All tables in one buffer, sent once at the end."""

    def __init__(self, tables: FlatTables, pool: ThreadPoolExecutor, mixture: RecordParts | None) -> None:
        self._tables = CountedTables(tables, None, pool, mixture=mixture)

    def add(self, codes: Columns, weights: Weights, prove: Prove) -> Iterator[Any]:
        """Adds rows; nothing is sent yet."""
        self._tables.add(codes, weights)
        yield from ()

    def finish(self, prove: Prove) -> Iterator[Any]:
        """The tables."""
        yield row_of(0, narrowed(self._tables.finish()), prove())


class InBlocks:
    """Codes of rows, held until they fill a buffer and then counted block by block: one block is held at a time."""

    def __init__(
        self, tables: FlatTables, bounds: Sequence[int], pool: ThreadPoolExecutor, mixture: RecordParts | None
    ) -> None:
        self._tables, self._bounds, self._pool = tables, bounds, pool
        each = len(tables.sizes) * np.dtype(smallest(int(tables.sizes.max()))).itemsize
        self._buffer = Buffer(tables.sizes, _HELD_CODES // each, mixture=mixture)

    def add(self, codes: Columns, weights: Weights, prove: Prove) -> Iterator[Any]:
        """Adds rows; blocks are sent whenever the buffer is full."""
        for _ in self._buffer.add(codes, weights):
            yield from self._blocks(prove())

    def finish(self, prove: Prove) -> Iterator[Any]:
        """The blocks of what is left; their digest, if that is nothing."""
        yield from self._blocks(prove())

    def _blocks(self, proof: bytes) -> Iterator[Any]:
        held = self._buffer
        way: Way = "plain" if held.rows * len(self._tables) < PLAIN_WORK else "direct"
        for block, (first, stop) in enumerate(pairwise(self._bounds)):
            part = Accumulator(self._tables.part(first, stop).moved(), held.rows, self._pool, way)
            if held.rows:
                part.add(held.codes, held.rows, held.weights)
            yield row_of(block, narrowed(part.finish()) if held.rows else b"", proof)


def counting_of(task: SparkTask, pool: ThreadPoolExecutor) -> Whole | InBlocks:
    """The way a task counts."""
    mixture = RecordParts.of(domain_of(task.domain))
    if len(task.bounds) > 2:
        return InBlocks(task.tables, task.bounds, pool, mixture)
    return Whole(task.tables, pool, mixture)


def pool_of() -> ThreadPoolExecutor:
    """Threads for one task; Spark runs as many tasks beside each other as it was given cores."""
    return ThreadPoolExecutor(max_workers=processors())
