"""Adding rows of codes to tables on an executor: all tables at once where they are small, else block by block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from residua.domain import Domain
from residua.linalg.layout import Layout
from residua.machine import processors
from residua.source.accumulate import Accumulator
from residua.source.counting import Buffer
from residua.source.spark_rows import narrowed, row_of
from residua.source.spark_tasks import Prove, Task
from residua.source.tables import Codes, Tables, add_plainly, smallest

Columns = Sequence[NDArray[Any]]
Rows = NDArray[np.intp] | None
Weights = NDArray[np.int64] | None
_CODE_BYTES = 1 << 27  # that codes of rows may take before they are counted
_PLAIN_WORK = 2e8  # increments that NumPy does in about the time Numba takes to load


class Whole:
    """All tables in one buffer, sent once at the end."""

    def __init__(self, domain: Domain, layout: Layout, pool: ThreadPoolExecutor) -> None:
        self._accumulator = Accumulator(layout, None, pool)
        self._buffer = Buffer(layout, self._accumulator)

    def add(self, codes: Columns, kept: Rows, weights: Weights, prove: Prove) -> Iterator[Any]:
        """Adds rows (those kept); nothing is sent yet."""
        self._buffer.add(list(codes), kept, weights)
        yield from ()

    def finish(self, prove: Prove) -> Iterator[Any]:
        """The tables."""
        self._buffer.flush()
        yield row_of(0, narrowed(self._accumulator.finish()), prove())


class InBlocks:
    """Codes of rows, held until they fill a buffer and then counted block by block: one block is held at a time."""

    def __init__(
        self, domain: Domain, tables: Tables, bounds: Sequence[int], weighted: bool, pool: ThreadPoolExecutor
    ) -> None:
        self._tables, self._bounds, self._pool = tables, bounds, pool
        kind = smallest(int(domain.sizes.max()))
        self._capacity = max(_CODE_BYTES // (len(domain) * np.dtype(kind).itemsize), 1)
        self._codes: Codes = np.empty((len(domain), self._capacity), dtype=kind)
        self._weights = np.empty(self._capacity, dtype=np.int64) if weighted else None
        self._rows = 0

    def add(self, codes: Columns, kept: Rows, weights: Weights, prove: Prove) -> Iterator[Any]:
        """Adds rows (those kept); blocks are sent whenever the buffer is full."""
        if kept is not None:
            codes = [column[kept] for column in codes]
            weights = None if weights is None else weights[kept]
        low = 0
        while low < len(codes[0]):
            high = min(len(codes[0]), low + self._capacity - self._rows)
            room = slice(self._rows, self._rows + high - low)
            for target, column in zip(self._codes, codes, strict=True):
                target[room] = column[low:high]
            if self._weights is not None and weights is not None:
                self._weights[room] = weights[low:high]
            self._rows, low = room.stop, high
            if self._rows == self._capacity:
                yield from self._blocks(prove())
                self._rows = 0

    def finish(self, prove: Prove) -> Iterator[Any]:
        """The blocks of what is left; their digest, if that is nothing."""
        yield from self._blocks(prove())

    def _blocks(self, proof: bytes) -> Iterator[Any]:
        plain = self._rows * len(self._tables) < _PLAIN_WORK
        for block in range(len(self._bounds) - 1):
            if not self._rows:
                yield row_of(block, b"", proof)
                continue
            part = self._tables.part(self._bounds[block], self._bounds[block + 1]).moved()
            counts = np.zeros(int(part.cells.sum()), dtype=np.int64)
            if plain:
                add_plainly(part, self._codes, self._rows, self._weights, counts)
            else:
                from residua.source.kernel import add_compiled

                add_compiled(part, self._codes, self._rows, self._weights, counts, self._pool)
            yield row_of(block, narrowed(counts), proof)


def counting_of(task: Task, domain: Domain, weighted: bool, pool: ThreadPoolExecutor) -> Whole | InBlocks:
    """The way a task counts."""
    if task.tables is not None:
        return InBlocks(domain, task.tables, task.bounds, weighted, pool)
    assert task.layout is not None
    return Whole(domain, task.layout, pool)


def pool_of() -> ThreadPoolExecutor:
    """Threads for one task; Spark runs as many tasks beside each other as it was given cores."""
    return ThreadPoolExecutor(max_workers=processors())
