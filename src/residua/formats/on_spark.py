"""All tables of a release in parts, rebuilt and written by Spark's executors, block by block.

A block is some tables that follow each other: the content of one file, with the rows of `long.py`. Every executor opens
the release for itself, and reads no more parts than its block of tables needs. Nothing here is confidential: what was
measured is already published, and rebuilding tables from it costs nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import tomli_w
from numpy.typing import NDArray

from residua.domain import settings_of_domain
from residua.errors import FileError, PlanError, ResiduaError
from residua.folders import whole_folder, write_synced
from residua.formats.about import About
from residua.formats.long import NUMBERS, LongCells, LongRows
from residua.linalg.arrays import Floats, Integers
from residua.linalg.lattice import layout_of
from residua.machine import pyarrow as pa
from residua.measurement.on_spark import watched
from residua.measurement.once import swept, write_once
from residua.plans.tails import check_confidence
from residua.release import Release
from residua.release.parts import PartedIntegers
from residua.release.tables import rebuilt_batches
from residua.showing import with_bar
from residua.source.spark import asked
from residua.source.spark_tasks import ROW_SQL, other_version, own_version, row_of
from residua.workload import Workload

_MOST_TASKS = 10_000
BLOCK_CELLS = 1 << 20  # of one file, unless a table has more
_DOCUMENT = "release.json"
_CODEBOOK = "_codebook.toml"  # readers of datasets pass over names that begin so


@dataclass(frozen=True, eq=False)
class ExportBlocks:
    """The tables that a release was asked for, in blocks.

    Args:
        release: of marginals.
        confidence: how often an interval holds the truth.
        full: every digit.
        block_cells: about how many cells a block has.

    Raises:
        PlanError: tables of another kind, or a confidence that is none.
    """

    release: Release
    confidence: float = 0.95
    full: bool = False
    block_cells: int = BLOCK_CELLS

    def __post_init__(self) -> None:
        family, asked = self.release.plan.family, self.release.planned.workload
        if family is None or not family.plain or asked is None or not asked.plain or asked.domain.amounts:
            raise PlanError("executors rebuild tables of marginals only; leave spark= away, or --on-executors.")
        check_confidence(self.confidence)

    @property
    def _asked(self) -> Workload:
        return cast("Workload", self.release.planned.workload)  # it is plain

    @cached_property
    def blocks(self) -> list[Integers]:
        """The tables of each block, by their places among those that were asked for; of one shape side by side."""
        asked = self._asked
        places = np.full(len(asked.lattice), -1)
        places[asked.numbers] = np.arange(len(asked))
        layout = layout_of(asked.lattice, self.release.domain.sizes, places >= 0)
        terms = places[np.concatenate([group.numbers for group in layout])]
        cells = asked.cells[terms]
        return np.split(terms, np.flatnonzero(np.diff((np.cumsum(cells) - cells) // self.block_cells)) + 1)

    @property
    def ways(self) -> int:
        """How many attributes the largest table has."""
        return int(self._asked.lattice.set_sizes[self._asked.numbers].max(initial=0))

    def block(self, number: int, about: About) -> Any:
        """The content of the file of one block, with what a reader must know in its metadata."""
        rows = LongRows(self.release.domain, self.ways, about, NUMBERS, self.full)
        estimator: Any = self.release.estimator
        sink = pa.BufferOutputStream()
        with rows.writer(sink) as writer:
            for batch in rebuilt_batches(estimator, self._asked, self.blocks[number]):
                widths, stddevs = self._widths(batch.members), self._stddevs[batch.terms]
                cells = LongCells(batch.members, batch.estimates, stddevs, widths=widths, lacks=self.release.lacks)
                for part in rows.batches(cells):
                    writer.write_batch(part)
        return sink.getvalue()

    @cached_property
    def _stddevs(self) -> Floats:
        family: Any = self.release.plan.family
        return np.asarray(np.sqrt(family.variances(self._asked, per="term")))

    def _widths(self, members: NDArray[np.int32]) -> Floats:
        """How many standard deviations the intervals of each table reach, (tables,)."""
        estimator, names = self.release.estimator, self.release.domain.names
        if self.release.planned.noise.currency != "epsilon":  # the same for all
            return np.full(len(members), estimator.widths((), self.confidence, 1.0))
        sets = [tuple(names[i] for i in row) for row in members.tolist()]
        return np.array([estimator.widths(each, self.confidence, 1.0) for each in sets], dtype=np.float64)


@dataclass(frozen=True)
class TablesTask:
    """What every executor is told.

    Args:
        version: of the residua that asks.
        release: the folder of the release, which all see under this path.
        digest: of its document, so that all read the same release.
        target: the folder to write into, which all see under this path.
        about: what stands beside the tables.
        confidence, full, block_cells: as for `ExportBlocks`.
    """

    version: str
    release: str
    digest: str
    target: str
    about: About
    confidence: float
    full: bool
    block_cells: int


@with_bar("writing tables")
def export_on_executors(
    release: Release,
    folder: Path,
    session: Any,
    about: About,
    *,
    confidence: float = 0.95,
    full: bool = False,
    progress: Callable[..., None] | bool | None = None,
) -> list[Path]:
    """Lets executors rebuild and write every table that was asked for, as one Parquet dataset; whole or not at all.

    Args:
        release: in parts, as executors wrote it, in a folder that they share with this machine.
        folder: where the tables go; it must not exist, and its parent is shared likewise.
        session: a Spark session, classic or of Spark Connect.
        about: what stands beside the tables.
        confidence: how often an interval holds the truth.
        full: every digit.
        progress: called with the step, the number of files written, and of all.

    Raises:
        FileError: the folder exists, or executors cannot read the release or write there. Nothing is left behind.
        PlanError: a release that is not in parts, or tables of another kind.
        SourceError: Spark failed.
    """
    integers: object = release.noisy
    if not isinstance(integers, PartedIntegers):
        raise PlanError(
            "executors rebuild releases that are in parts (rs.measure with out= on a Spark frame, loaded with "
            "rs.Release.load); leave spark= away, or --on-executors."
        )
    if not hasattr(session, "range") or not hasattr(session, "createDataFrame"):
        raise PlanError(f"spark={type(session).__name__} is no Spark session; pass what SparkSession.builder made.")
    source, target = integers.folder.absolute(), folder.absolute()
    tables = ExportBlocks(release, confidence, full, BLOCK_CELLS)
    count = len(tables.blocks)
    step = progress if callable(progress) else None
    report = None if step is None else lambda done, total: step("writing tables", done, total)
    with whole_folder(target, "folder of tables") as place:
        task = TablesTask(
            own_version(), str(source), _digest(source), str(place), about, confidence, full, tables.block_cells
        )  # fmt: skip
        blocks = session.range(0, count, 1, min(count, _MOST_TASKS)).selectExpr("cast(id as int) as block")
        written = blocks.mapInArrow(partial(tables_partition, task), ROW_SQL)
        with watched(place, count, report):
            notes = asked("rebuilding the tables", lambda: written.toArrow().column("note").to_pylist(), True)
        failed = next((outcome for note in notes if "failed" in (outcome := json.loads(bytes(note)))), None)
        names = [table_name(block) for block in range(count)]
        swept(place)
        if failed is None and sorted(path.name for path in place.iterdir()) != names:
            failed = {"failed": f"they write into another folder than {str(target.parent)!r}"}
        if failed is not None:
            raise FileError(f"the executors cannot write the tables: {failed['failed'].rstrip('.')}.")
        write_synced(place / _CODEBOOK, tomli_w.dumps({"domain": settings_of_domain(release.domain)}).encode())
    return [target / name for name in names]


def table_name(block: int) -> str:
    """The file of one block."""
    return f"part-{block:05d}.parquet"


def tables_partition(task: TablesTask, batches: Iterator[Any]) -> Iterator[Any]:
    """Rebuilds and writes every block whose number arrives; says of each whether it could."""
    for batch in batches:
        for block in batch.column(0).to_pylist():
            yield row_of(block, b"", json.dumps(_written(task, block)).encode())


def _written(task: TablesTask, block: int) -> dict[str, str]:
    if other := other_version(task.version):
        return {"failed": other}
    path = Path(task.target) / table_name(block)
    try:
        if not path.exists():  # else another attempt wrote it
            tables = _opened(task.release, task.digest, task.confidence, task.full, task.block_cells)
            write_once(path, tables.block(block, task.about))
    except ResiduaError as problem:
        return {"failed": str(problem)}
    except OSError as problem:
        return {"failed": problem.strerror or "they cannot read or write a file"}
    except MemoryError:
        return {"failed": "one has not enough memory; give it more"}
    return {}


@lru_cache(maxsize=1)
def _opened(folder: str, digest: str, confidence: float, full: bool, block_cells: int) -> ExportBlocks:
    """The release, opened once by each process."""
    shared = "use a folder that they share with this machine"
    try:
        same = _digest(Path(folder)) == digest
    except OSError as problem:
        raise FileError(f"they cannot read the release {folder!r} ({problem.strerror}); {shared}") from None
    if not same:
        raise FileError(f"they see another release as {folder!r}; {shared}")
    return ExportBlocks(Release.load(folder), confidence, full, block_cells)


def _digest(folder: Path) -> str:
    return hashlib.sha256((folder / _DOCUMENT).read_bytes()).hexdigest()
