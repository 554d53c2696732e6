"""A bound on each person's records on Spark: records travel as codes to where their person's are gathered and chosen.

Neither an id nor a value of the data is in what is shuffled: a record is a keyed hash of its person and its codes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from residua.source import spark_tasks as tasks
from residua.source.accumulate import Columns, Weights
from residua.source.bound import Loss, PersonBound, Words, chosen_packed, packed, unpacked
from residua.source.options import Tally
from residua.source.persons import Gathering, Persons, by_part

_HELD_BYTES = 1 << 26


class _Buckets(Gathering):
    """Packed rows by bucket, until they are sent."""

    def __init__(self, bound: PersonBound, *, weighted: bool) -> None:
        super().__init__(bound, weighted=weighted)
        self._packed: list[Words] = []
        self._apart: list[Words] = []
        self.bytes = 0

    def add(self, persons: Words, codes: Columns, weights: Weights) -> None:
        """Adds rows of persons."""
        self._packed.append(packed(persons, codes, weights, self._bound))
        self.bytes += self._packed[-1].nbytes

    def add_apart(self, codes: Columns, weights: NDArray[np.int64]) -> None:
        """Adds rows of nobody's that are counted as they are."""
        self._apart.append(packed(np.zeros((len(weights), 2), np.uint64), codes, weights, self._bound))
        self.bytes += self._apart[-1].nbytes

    def sent(self) -> Iterator[Any]:
        """All rows held, a row of Arrow data for each bucket; then none are."""
        if self._packed:
            for bucket, rows in by_part(np.concatenate(self._packed)):
                yield tasks.row_of(bucket, rows.tobytes())
        for rows in self._apart:
            yield tasks.row_of(tasks.APART, rows.tobytes())
        self._packed, self._apart, self.bytes = [], [], 0


def bucketed_partition(task: tasks.SparkTask, batches: Iterator[Any]) -> Iterator[Any]:
    """The records of one partition as codes by bucket of persons; at the end their digest to each, and the tally."""
    assert task.bound is not None
    tally = Tally(tasks.domain_of(task.domain), task.options.show_values)
    buckets = _Buckets(task.bound, weighted=task.options.counts is not None)
    persons = Persons(task.options, task.bound, buckets)
    with tasks.noted(tally.problems), tasks.pool_of() as pool:
        tasks.require_same_version(task.version)
        for rows in tasks.coded_partition(task, batches, tally, pool):
            persons.add(*rows, tally.problems, buckets.add_apart)
            if buckets.bytes >= _HELD_BYTES:
                yield from buckets.sent()
        if not tally.problems:
            yield from buckets.sent()
            proof = tasks.proof_of(tally.digest.parts)
            yield from (tasks.row_of(bucket, b"", proof) for bucket in range(tasks.BUCKETS + 1))
    tally.no_person, tally.loss = persons.nobody, persons.loss
    yield tasks.row_of(tasks.NOTE, b"", tally.to_bytes())


def chosen_partition(task: tasks.SparkTask, batches: Iterator[Any]) -> Iterator[Any]:
    """Buckets of persons in, which arrive sorted; partial tables of the records that were chosen out.

    The proof of a table says how many buckets it counts, and of which data: each got the digests of all partitions.
    """
    assert task.bound is not None
    bound, weighted = task.bound, task.options.counts is not None
    tally = Tally(tasks.domain_of(task.domain), task.options.show_values)
    tally.loss, seen = Loss.none(), Counter[str]()

    def prove() -> bytes:
        proof = tasks.proof_of(seen)
        seen.clear()
        return proof

    with tasks.noted(tally.problems), tasks.pool_of() as pool:
        tasks.require_same_version(task.version)
        counting = tasks.counting_of(task, pool)
        for bucket, run in tasks.runs_of(batches):
            if bucket == tasks.NOTE:
                yield from (tasks.row_of(tasks.NOTE, b"", note) for _, note in run)
                continue
            width = 2 + bound.words + (weighted or bucket == tasks.APART)
            pieces, notes = [np.empty((0, width), dtype=np.uint64)], list[bytes]()
            for piece, note in run:
                if note:
                    notes.append(note)
                if piece:
                    pieces.append(np.frombuffer(piece, dtype=np.uint64).reshape(-1, width))
            seen[tasks.proven(notes, bounded=False) or ""] += 1
            rows = np.concatenate(pieces)
            if bucket == tasks.APART:
                counts = rows[:, -1].astype(np.int64)
            else:
                at, counts, loss = chosen_packed(rows, bound, weighted=weighted)
                rows, tally.loss = rows[at], tally.loss + loss
            yield from counting.add(unpacked(rows, bound), counts, prove)
        yield from counting.finish(prove)
    yield tasks.row_of(tasks.NOTE, b"", tally.to_bytes())
