"""What Spark's executors do: records in, partial tables and tallies out.

FlatTables are counted all at once where they are small, else block by block. Nothing here needs Spark. A task is plain
values that pickle anywhere; what goes wrong with the data comes back as data, never as an exception, which Spark would
write into its logs together with values.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from residua.domain import Domain
from residua.domain.domain import domain_of_settings
from residua.errors import SourceError
from residua.linalg.layout import Layout
from residua.machine import processors
from residua.source.accumulate import PLAIN_WORK, FlatTables, add_plainly, smallest
from residua.source.bound import Bound
from residua.source.counting import Buffer, Coded, CountedTables, coded, columns_needed
from residua.source.kept import Columns, Weights
from residua.source.options import Options
from residua.source.records import Records
from residua.source.spark_rows import NOTE, Parts, narrowed, proof_of_records, row_of
from residua.source.tallies import Problems, Tally

Rows = NDArray[np.intp] | None  # which rows of a batch, all when not given
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
        layout: the tables to count, whole (small ones).
        tables: the tables to count, block by block (large ones).
        bounds: the first table of each block, and the number of tables at the end.
        bound: how many records of each person are counted.
    """

    version: str
    domain: str
    names: tuple[str, ...]
    expressions: tuple[tuple[str, str], ...]
    options: Options
    layout: Layout | None = None
    tables: FlatTables | None = None
    bounds: tuple[int, ...] = ()
    bound: Bound | None = None

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
    columns = columns_needed(source, tally.domain, task.bound is not None)
    yield from coded(source.batches(columns), source.weight, tally, pool)


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
    tally = Tally(domain_of(task), task.options.show_values)
    proven: Parts = tally.digest.parts

    def proof() -> bytes:
        """The digest of the records since the last one."""
        nonlocal proven
        rows, *sums = ((now - then) % 2**64 for now, then in zip(tally.digest.parts, proven, strict=True))
        proven = tally.digest.parts
        return proof_of_records((rows, sums[0], sums[1]))

    with noted(tally.problems), pool_of() as pool:
        require_same_version(task)
        counting = counting_of(task, tally.domain, pool)
        for _, codes, kept, weights in coded_partition(task, batches, tally, pool):
            yield from counting.add(codes, kept, weights, proof)
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


def domain_of(task: SparkTask) -> Domain:
    """The domain that a task counts."""
    return _domain(task.domain)


@lru_cache(maxsize=4)
def _domain(settings: str) -> Domain:
    return domain_of_settings(json.loads(settings))


def own_version() -> str:
    """The version of residua in this process, installed or sent as a file."""
    return str(vars(sys.modules["residua"])["__version__"])


def require_same_version(task: SparkTask) -> None:
    """Refuses to count for another version of residua.

    Raises:
        SourceError: it is another.
    """
    if own_version() != task.version:
        raise SourceError(
            f"the executors have residua {own_version()}, this is {task.version}; install the same version there."
        )


class Whole:
    """All tables in one buffer, sent once at the end."""

    def __init__(self, layout: Layout, pool: ThreadPoolExecutor) -> None:
        self._tables = CountedTables(layout, None, pool)

    def add(self, codes: Columns, kept: Rows, weights: Weights, prove: Prove) -> Iterator[Any]:
        """Adds rows (those kept); nothing is sent yet."""
        self._tables.add(codes, kept, weights)
        yield from ()

    def finish(self, prove: Prove) -> Iterator[Any]:
        """The tables."""
        yield row_of(0, narrowed(self._tables.finish()), prove())


class InBlocks:
    """Codes of rows, held until they fill a buffer and then counted block by block: one block is held at a time."""

    def __init__(self, sizes: NDArray[np.int64], tables: FlatTables, bounds: Sequence[int], pool: ThreadPoolExecutor):
        self._tables, self._bounds, self._pool = tables, bounds, pool
        each = len(sizes) * np.dtype(smallest(int(sizes.max()))).itemsize
        self._buffer = Buffer(sizes, _HELD_CODES // each)

    def add(self, codes: Columns, kept: Rows, weights: Weights, prove: Prove) -> Iterator[Any]:
        """Adds rows (those kept); blocks are sent whenever the buffer is full."""
        for _ in self._buffer.add(codes, kept, weights):
            yield from self._blocks(prove())

    def finish(self, prove: Prove) -> Iterator[Any]:
        """The blocks of what is left; their digest, if that is nothing."""
        yield from self._blocks(prove())

    def _blocks(self, proof: bytes) -> Iterator[Any]:
        held, rows = self._buffer, self._buffer.rows
        plain = rows * len(self._tables) < PLAIN_WORK
        for block, (first, stop) in enumerate(pairwise(self._bounds)):
            if not rows:
                yield row_of(block, b"", proof)
                continue
            part = self._tables.part(first, stop).moved()
            counts = np.zeros(int(part.cells.sum()), dtype=np.int64)
            if plain:
                add_plainly(part, held.codes, rows, held.weights, counts)
            else:
                from residua.source.kernel import add_compiled

                add_compiled(part, held.codes, rows, held.weights, counts, self._pool)
            yield row_of(block, narrowed(counts), proof)


def counting_of(task: SparkTask, domain: Domain, pool: ThreadPoolExecutor) -> Whole | InBlocks:
    """The way a task counts."""
    if task.tables is not None:
        return InBlocks(domain.sizes, task.tables, task.bounds, pool)
    assert task.layout is not None
    return Whole(task.layout, pool)


def pool_of() -> ThreadPoolExecutor:
    """Threads for one task; Spark runs as many tasks beside each other as it was given cores."""
    return ThreadPoolExecutor(max_workers=processors())
