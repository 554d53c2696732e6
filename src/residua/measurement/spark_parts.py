"""What Spark's executors do for a release too large for one machine: sum a block of tables, measure it, write it once.

A block is some tables that follow each other in the buffer of all measurements. Its partial tables come together on one
executor, which adds the same exact noise as one machine would, from its own operating system, and writes one file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from residua.errors import ResiduaError, VerificationError
from residua.linalg.arrays import Integers
from residua.linalg.lattice import Lattice
from residua.measurement.noisy import with_noise
from residua.measurement.once import write_once
from residua.measurement.rehearsal import rehearse
from residua.plans.lattice.blocks import SetBlocks
from residua.release.parts import part_bytes, part_name
from residua.source.spark_rows import NOTE, proven, row_of, sums_of
from residua.source.spark_tasks import own_version


@dataclass(frozen=True, eq=False)
class BlockTask:
    """What every executor is told.

    Args:
        version: of the residua that asks; another one on an executor is refused.
        folder: where parts are written; all executors and the driver see it under this path.
        fingerprint: of the records that were checked.
        bounded: whether the records of each person were bounded.
        blocks: all that is measured.
        order: the numbers of the measured sets in the order of their tables, (tables,).
        bounds: the first table of each block, and the number of tables at the end.
        cells: how many cells each block has.
    """

    version: str
    folder: str
    fingerprint: str
    bounded: bool
    blocks: SetBlocks
    order: Integers
    bounds: tuple[int, ...]
    cells: tuple[int, ...]

    def path(self, block: int) -> Path:
        """Where one block is written."""
        return Path(self.folder) / Path(part_name(block)).name

    def part(self, block: int) -> SetBlocks:
        """What one block measures; its layout is the same stretch of tables."""
        numbers = np.sort(self.order[self.bounds[block] : self.bounds[block + 1]])
        places = np.searchsorted(self.blocks.measured, numbers)
        return replace(
            self.blocks, measured=numbers, grids=self.blocks.grids[places], scales=self.blocks.scales[places]
        )


def bare(blocks: SetBlocks) -> SetBlocks:
    """The same blocks without anything computed from them, so that little travels."""
    return replace(blocks, lattice=Lattice(blocks.lattice.attributes, blocks.lattice.levels))


def order_of(blocks: SetBlocks) -> Integers:
    """The numbers of the measured sets in the order of their tables, (tables,)."""
    return np.concatenate([np.empty(0, np.int64), *(group.numbers for group in blocks.layout)])


def measured_partition(task: BlockTask, batches: Iterator[Any]) -> Iterator[Any]:
    """Measures every block that arrives; what comes out are digests of files, and notes, never a number measured.

    Guarantee: a block is measured only if the records it counts are those that were checked; under its name there is
    one noisy copy, whichever attempt was first.
    """
    for block, counts, notes in sums_of(task.cells, batches):
        if block == NOTE:
            yield from (row_of(NOTE, b"", note) for note in notes)
            continue
        yield row_of(block, b"", json.dumps(_measured(task, block, counts, notes)).encode())


def _measured(task: BlockTask, block: int, counts: Integers, notes: list[bytes]) -> dict[str, str]:
    if unlike := _unlike(task):
        return {"failed": unlike}
    if proven(notes, bounded=task.bounded) != task.fingerprint:
        return {"changed": "other records"}
    path = task.path(block)
    try:
        if not path.exists():  # else another attempt wrote it, and no noise is drawn again
            write_once(path, part_bytes(with_noise(task.part(block), counts)))
        with path.open("rb") as file:
            return {"sha256": hashlib.file_digest(file, "sha256").hexdigest()}
    except OSError as problem:
        return {"failed": problem.strerror or "it cannot be written"}
    except Exception as problem:  # Spark tries again, and logs what it is told
        raise VerificationError(f"an executor cannot measure ({type(problem).__name__}).") from None


def _unlike(task: BlockTask) -> str | None:
    """Why this residua is not the one that asks, if it is another."""
    if own_version() == task.version:
        return None
    return f"an executor has residua {own_version()}, this is {task.version}: install the same version there"


def probed_partition(task: BlockTask, batches: Iterator[Any]) -> Iterator[Any]:
    """Rehearses on an executor, before the debit: what measuring needs is tried on nothing, and a file is written."""
    numbers = [number for batch in batches for number in batch.column(0).to_pylist()]
    if numbers:
        yield row_of(numbers[0], b"", json.dumps(_probed(task, numbers[0])).encode())


def probe_name(number: int | str) -> str:
    """The file that one task writes on trial."""
    return f"probe-{number}"


def _probed(task: BlockTask, place: int) -> dict[str, str]:
    if unlike := _unlike(task):
        return {"unfit": unlike}
    try:
        rehearse(task.part(place % len(task.cells)), None)
        return {"written": str(write_once(Path(task.folder) / probe_name(place), b"residua"))}
    except ResiduaError as problem:
        return {"unfit": str(problem)}
    except OSError as problem:
        return {"failed": problem.strerror or "it cannot be written"}
