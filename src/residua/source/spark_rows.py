"""How tables and tallies travel between Spark's tasks: rows (block, counts, note) of Arrow data, and proofs of them.

A block is some tables that follow each other. Its counts take as few bytes each as hold the largest. A note is JSON.

Spark may read some of the data again, when an executor is lost; if the data changed meanwhile, some tables would count
other records than the rest. So a proof travels with each table, and all add up to the records of one reading: the
digest of the records counted, as numbers that add up; or, under a bound on persons, how many buckets of persons were
counted, by the fingerprint of the data that each of them saw.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from residua.source.digest import Digest

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


BUCKETS = 256  # of persons; each is gathered and chosen among alone
APART = BUCKETS  # the bucket of records without a person that count as persons of their own
Parts = tuple[int, int, int]  # of a digest: the number of records, and two sums


def proof_of_records(parts: Parts) -> bytes:
    """The proof of a table that counts the records of a digest."""
    return json.dumps(parts).encode()


def proof_of_buckets(seen: Counter[str]) -> bytes:
    """The proof of a table that counts buckets: how many, by the fingerprint of the data they saw."""
    return json.dumps(seen).encode()


def merged(proofs: Sequence[bytes]) -> bytes:
    """The proof of the sum of tables."""
    plain = [json.loads(proof) for proof in proofs]
    if any(isinstance(each, dict) for each in plain):
        return proof_of_buckets(sum((Counter(each) for each in plain), Counter()))
    digest = Digest()
    for parts in plain:
        digest.merge(tuple(parts))
    return proof_of_records(digest.parts)


def proven(proofs: Sequence[bytes], *, bounded: bool) -> str | None:
    """The fingerprint of the records that tables count together; nothing where they are not those of one reading."""
    together = json.loads(merged(proofs))
    if not bounded:
        digest = Digest()
        digest.merge(tuple(together))
        return digest.fingerprint
    seen = dict(together) if isinstance(together, dict) else {}
    return next(iter(seen)) if list(seen.values()) == [BUCKETS + 1] else None
