"""A release too large for one machine: counted, measured and written block by block on Spark's executors.

The order is that of `measure`: verify, check the data, secure the place, debit once, count, add noise. The driver sees
digests of files and tallies; no table, true or noisy, passes through it.

A block is some tables that follow each other in the buffer of all measurements. Its partial tables come together on one
executor, which adds the same exact noise as one machine would, from its own operating system, and writes one file.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np

from residua.errors import FileError, PlanError, ResiduaError, SourceError, VerificationError
from residua.linalg.arrays import Integers
from residua.linalg.lattice import SetFamily
from residua.measurement.job import Job, step_of, told_of_debit
from residua.measurement.noisy import rehearse, with_noise
from residua.measurement.once import closed, same_folder, write_once
from residua.measurement.parts import require_parts
from residua.plans.contract import Plan
from residua.plans.measurements import Measurements
from residua.plans.product.set_measurements import SetMeasurements
from residua.release import Release
from residua.release.folder import Reserved, reserve
from residua.release.parts import FOLDER, OPEN_FOLDER, PartedIntegers, part_bytes, part_name
from residua.source.bound import PersonBound
from residua.source.options import Tally
from residua.source.spark import SparkSource, asked
from residua.source.spark_tasks import NOTE, ROW_SQL, SparkTask, domain_of, other_version, proven, row_of, sums_of

_WATCH_SECONDS = 0.5
_PROBES = 1000  # Spark cuts them into a task for each processor it has


@contextmanager
def place_on_executors(
    out: Path, plan: Plan, measurements: Measurements, data: SparkSource
) -> Iterator[tuple[Reserved, bool]]:
    """Makes sure, before anything is spent, that executors can measure the release and write it where it shall be.

    What measuring needs is tried there on nothing (`noisy.py`), and here, on what they will be sent. Told beside the
    place: whether all of them know its folder by the same inode.

    Raises:
        PlanError: a plan that is not measured table by table.
        VerificationError: an executor has another residua, or libraries that do not work.
        FileError: the folder exists or cannot be made, or is not the same folder for the executors.
    """
    if not measurements.by_table:
        raise PlanError(
            "plans with strategies of their own, or over listed queries, are not measured on executors; leave out="
            " away, and save the release."
        )
    with reserve(out, plan, measurements, by_others=True) as place:
        block_task = _block_task(
            place, cast("SetMeasurements", measurements), data.task(plan.domain, measurements.counted), "none yet"
        )
        rehearse(block_task.part(0), None)
        probes = data.numbers(_PROBES).mapInArrow(partial(probed_partition, block_task), ROW_SQL)
        rows = asked(data, lambda: probes.toArrow().to_pylist())
        outcomes = [json.loads(bytes(row["note"])) for row in rows]
        there = _removed(place.partial / OPEN_FOLDER)
        unfit = next((outcome["unfit"] for outcome in outcomes if "unfit" in outcome), None)
        if unfit is not None:
            raise VerificationError(f"an executor cannot measure: {unfit.rstrip('.')}. Nothing was spent.")
        failed = next((outcome["failed"] for outcome in outcomes if "failed" in outcome), None)
        if failed is not None or there != {probe_name(row["block"]) for row in rows}:
            why = failed or "they write into another folder of that name"
            raise FileError(
                f"out: the executors cannot write into {str(out.absolute().parent)!r} ({why}); choose a folder that "
                "they share with this machine, nothing was spent."
            )
        yield place, {outcome["inode"] for outcome in outcomes} == {_inode(place.partial / OPEN_FOLDER)}


def _inode(folder: Path) -> int:
    return folder.stat().st_ino


def release_by_executors(plan: Plan, job: Job, cost: Fraction, out: Path) -> Release:
    """What `carry_out` does, block by block, into a folder that executors write.

    Args:
        plan: what to measure.
        job: what that comes down to, as priced, of a Spark frame.
        cost: what it costs, by the verifier.
        out: the folder.

    Raises:
        SourceError: the data is not what was checked, or Spark failed. The folder is not released.
        FileError: a part could not be written.
    """
    if job.domain.amounts:
        require_parts(job.measurements, job.domain.parts)
    with place_on_executors(out, plan, job.measurements, cast("SparkSource", job.data)) as (place, known):
        job.rehearse_left_out()
        fingerprint = job.checked(job.data).fingerprint
        entry, ledger = job.paid(fingerprint)
        bound, receipt = job.bound(ledger.choosing_key), job.receipt(entry, ledger, cost)
        return told_of_debit(lambda: _released(plan, job, fingerprint, bound, place, known, receipt), entry)


def _released(
    plan: Plan,
    job: Job,
    fingerprint: str,
    bound: PersonBound | None,
    place: Reserved,
    known: bool,
    receipt: Mapping[str, Any],
) -> Release:
    """Counts and measures; to be called once, after the debit."""
    sets, data = cast("SetMeasurements", job.measurements), cast("SparkSource", job.data)
    task = data.task(job.domain, sets.counted, bound)
    block_task = _block_task(place, sets, task, fingerprint)
    block_task = replace(block_task, inode=_inode(place.partial / OPEN_FOLDER) if known else None)
    tally, digests, parts = Tally(job.domain, data.show_values), dict[str, str](), len(block_task.cells)
    every = data.by_block(data.partials(task).unionByName(data.empty_blocks(parts)), parts)
    measured = every.mapInArrow(partial(measured_partition, block_task), ROW_SQL)
    try:
        with watched(place.partial / OPEN_FOLDER, parts, step_of("measuring", job.progress)):
            outcomes = asked(data, lambda: measured.toArrow().to_pylist())
    finally:  # also where the job failed: an attempt that still runs must not write a part that was removed again
        closed(place.partial / OPEN_FOLDER, place.partial / FOLDER)
        _removed(place.partial / FOLDER)  # of a task that Spark repeated, and that came late
    for outcome in outcomes:
        if outcome["block"] == NOTE:
            tally.add(bytes(outcome["note"]))
        else:
            digests[part_name(outcome["block"])] = _digest(json.loads(bytes(outcome["note"])), place)
    tally.require_countable(data.counts)
    if len(digests) != parts:
        raise FileError(f"the release {str(place.final)!r} lacks a part; nothing of it is kept.")
    starts = [*task.block_starts, sets.cells]
    integers = cast("Integers", PartedIntegers(place.partial, starts, digests))
    place.commit(Release(plan, sets, integers, receipt, job.told(tally.tallies)), (starts, digests))
    return Release.load(place.final)


def _removed(folder: Path) -> set[str]:
    """The files written on trial, which are removed."""
    names = set()
    for path in folder.glob(probe_name("*")):
        path.unlink(missing_ok=True)
        names.add(path.name)
    return names


def _block_task(place: Reserved, measurements: SetMeasurements, task: SparkTask, fingerprint: str) -> BlockTask:
    """What executors are told to measure."""
    given = (task.version, str(place.partial / OPEN_FOLDER), fingerprint, task.bound is not None)
    parts = domain_of(task.domain).parts
    return BlockTask(*given, bare(measurements), order_of(measurements), task.bounds, task.block_cells, parts)


def _digest(outcome: Mapping[str, str], place: Reserved) -> str:
    if "changed" in outcome:
        raise SourceError("the data changed after it was checked.")
    if "failed" in outcome:
        raise FileError(f"cannot write the release {str(place.final)!r}: {outcome['failed']}.")
    return outcome["sha256"]


@contextmanager
def watched(folder: Path, parts: int, progress: Callable[[int, int | None], None] | None) -> Iterator[None]:
    """Says while executors work how many parts are written."""
    if progress is None:
        yield
        return
    done = threading.Event()

    def watch() -> None:
        while not done.wait(_WATCH_SECONDS):
            progress(sum(1 for path in folder.glob("part-*")), parts)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


@dataclass(frozen=True, eq=False)
class BlockTask:
    """What every executor is told.

    Args:
        version: of the residua that asks; another one on an executor is refused.
        folder: where parts are written; all executors and the driver see it under this path.
        fingerprint: of the records that were checked.
        bounded: whether the records of each person were bounded.
        measurements: all that is measured.
        order: the numbers of the measured sets in the order of their tables, (tables,).
        bounds: the first table of each block, and the number of tables at the end.
        cells: how many cells each block has.
        parts: how many a record has, for amounts.
        inode: of the folder, if all executors know it by the same.
    """

    version: str
    folder: str
    fingerprint: str
    bounded: bool
    measurements: SetMeasurements
    order: Integers
    bounds: tuple[int, ...]
    cells: tuple[int, ...]
    parts: int = 1
    inode: int | None = None

    def part(self, block: int) -> SetMeasurements:
        """What one block measures; its layout is the same stretch of tables."""
        numbers = np.sort(self.order[self.bounds[block] : self.bounds[block + 1]])
        places = np.searchsorted(self.measurements.measured, numbers)
        grids, scales = self.measurements.grids[places], self.measurements.scales[places]
        return replace(self.measurements, measured=numbers, grids=grids, scales=scales)


def bare(measurements: SetMeasurements) -> SetMeasurements:
    """The same measurements without anything computed from them, so that little travels."""
    return replace(measurements, lattice=SetFamily(measurements.lattice.attributes, measurements.lattice.levels))


def order_of(measurements: SetMeasurements) -> Integers:
    """The numbers of the measured sets in the order of their tables, (tables,)."""
    return np.concatenate([np.empty(0, np.int64), *(group.numbers for group in measurements.layout)])


def measured_partition(task: BlockTask, batches: Iterator[Any]) -> Iterator[Any]:
    """Measures every block that arrives; what comes out are digests of files, and notes, never a number measured.

    Guarantee: a block is measured only if the records it counts are those that were checked; under its name there is
    one noisy copy, whichever attempt was first; none is written into a folder that was put in the place of theirs.
    """
    for block, counts, notes in sums_of(task.cells, batches):
        if block == NOTE:
            yield from (row_of(NOTE, b"", note) for note in notes)
            continue
        yield row_of(block, b"", json.dumps(_measured(task, block, counts, notes)).encode())


def _measured(task: BlockTask, block: int, counts: Integers, notes: list[bytes]) -> dict[str, str]:
    if unlike := other_version(task.version):
        return {"failed": unlike}
    if proven(notes, bounded=task.bounded) != task.fingerprint:
        return {"changed": "other records"}
    try:
        with same_folder(Path(task.folder), task.inode) as folder:
            path = folder / Path(part_name(block)).name
            if not path.exists():  # else another attempt wrote it, and no noise is drawn again
                write_once(path, part_bytes(with_noise(task.part(block), counts, None, task.parts)))
            with path.open("rb") as file:
                return {"sha256": hashlib.file_digest(file, "sha256").hexdigest()}
    except OSError as problem:
        return {"failed": problem.strerror or "it cannot be written"}
    except Exception as problem:  # Spark tries again, and logs what it is told
        raise VerificationError(f"an executor cannot measure ({type(problem).__name__}).") from None


def probed_partition(task: BlockTask, batches: Iterator[Any]) -> Iterator[Any]:
    """Rehearses on an executor, before the debit: what measuring needs is tried on nothing, and a file is written."""
    numbers = [number for batch in batches for number in batch.column(0).to_pylist()]
    if numbers:
        yield row_of(numbers[0], b"", json.dumps(_probed(task, numbers[0])).encode())


def probe_name(number: int | str) -> str:
    """The file that one task writes on trial."""
    return f"probe-{number}"


def _probed(task: BlockTask, place: int) -> dict[str, Any]:
    if unlike := other_version(task.version):
        return {"unfit": unlike}
    try:
        rehearse(task.part(place % len(task.cells)), None)
        write_once(Path(task.folder) / probe_name(place), b"residua")
        return {"inode": _inode(Path(task.folder))}
    except ResiduaError as problem:
        return {"unfit": str(problem)}
    except OSError as problem:
        return {"failed": problem.strerror or "it cannot be written"}
