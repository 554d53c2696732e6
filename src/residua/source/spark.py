"""A Spark frame: its records are encoded and counted on the executors, and only tables of counts come to the driver.

Spark's errors become one sentence without values, and its own words stay out of this process's logs.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from residua.domain import Domain, settings_of_domain
from residua.errors import SourceError
from residua.linalg.lattice import Layout
from residua.machine import missing
from residua.source import spark_tasks as tasks
from residua.source.accumulate import FlatTables, tables_of_layout
from residua.source.bound import PersonBound
from residua.source.counting import Counted, columns_needed, require_fitting
from residua.source.options import NO_OPTIONS, Options, Tally
from residua.source.records import Records, distinct, needed_columns, parsed_expression, require_columns
from residua.source.remote import refuse_keys

if TYPE_CHECKING:
    from residua.source.counting import Progress


_SMALL_CELLS = 1 << 15  # tables up to here are added up by the driver: 256 kB from each task at most
_BLOCK_CELLS = 1 << 20  # larger layouts are cut into blocks of about 8 MB
_PARTITIONS = 200  # of a shuffle, where Spark does not say


class SparkSource(Records):
    """A Spark frame, classic or through Spark Connect.

    A frame is a recipe: Spark reads the data again for every job, so that two readings may differ.

    Args:
        frame: the frame.
        options: the source's options.
        expressions: computed columns, computed on the executors.
    """

    has_executors = True
    repeatable = True  # as far as the frame is: what was checked is compared with what was counted

    def __init__(self, frame: Any, options: Options = NO_OPTIONS, expressions: Mapping[str, str] | None = None) -> None:
        super().__init__(options)
        if not is_spark_frame(frame):
            raise SourceError(
                f"source is a {type(frame).__name__}, which is no Spark frame; pass what spark.table(…) or "
                "spark.read… returns."
            )
        self._frame = frame
        self._expressions = dict(expressions or {})
        self._parsed = {name: parsed_expression(name, text) for name, text in self._expressions.items()}
        self._own = tuple(str(name) for name in asked(self, lambda: frame.columns))
        distinct(self._own, str(self))

    def __str__(self) -> str:
        return "the Spark frame"

    def columns(self) -> tuple[str, ...]:
        """The frame's columns, and the computed ones."""
        return tuple(dict.fromkeys([*distinct(self._own, str(self)), *self._parsed]))

    def check(self, columns: Sequence[str]) -> None:
        """Refuses columns that do not exist, whether asked for or used in an expression."""
        needed = needed_columns(self._parsed, columns)
        missing = [name for name in needed if name not in self._own]
        if len(missing) < len(needed):
            require_columns(needed, self._own, str(self))
        elif missing:
            super().check(missing)

    def with_columns(self, expressions: Mapping[str, str]) -> Records:
        """The same records with columns computed on the executors; see `Source.with_columns`."""
        if not expressions:
            return self
        if self._expressions:
            return super().with_columns(expressions)
        return SparkSource(self._frame, self.options, expressions)

    def fingerprint(self) -> str:
        """The digest of the records, found on the executors."""
        tally = Tally(Domain({"none": [""]}), self.show_values)
        jobs = self.selected(self._own).mapInArrow(partial(tasks.digested_partition, self._own), tasks.ROW_SQL)
        for note in asked(self, lambda: jobs.toArrow()).column("note").to_pylist():
            tally.add(note)
        tally.require_countable(self.counts)
        return tally.digest.fingerprint

    def count(
        self, domain: Domain, layout: Layout, progress: Progress | None = None, bound: PersonBound | None = None
    ) -> Counted:
        """Counted on the executors; see `Source.count`."""
        require_fitting(self, domain, layout)
        task = self.task(domain, layout, bound)
        tally, tables = Tally(domain, self.show_values), np.zeros(layout.cells, dtype=np.int64)
        starts = task.block_starts
        proofs: dict[int, list[bytes]] = {block: [] for block in range(len(starts))}
        for row in self._tables(task):
            if row["block"] == tasks.NOTE:
                tally.add(bytes(row["note"]))
                if progress is not None:
                    progress(tally.digest.rows, None)
                continue
            proofs[row["block"]].append(bytes(row["note"]))
            if row["counts"]:
                counts = tasks.widened(bytes(row["counts"]))
                start = starts[row["block"]]
                tables[start : start + len(counts)] += counts
        tally.require_countable(self.counts)
        if any(tasks.proven(notes, bounded=bound is not None) != tally.digest.fingerprint for notes in proofs.values()):
            raise SourceError("the data changed while it was counted; let nobody write to it meanwhile.")
        tables.setflags(write=False)
        return Counted(tables, tally.tallies, tally.digest.fingerprint)

    def _tables(self, task: tasks.SparkTask) -> Iterator[Any]:
        """Rows of tables, whole or added up by block, and of notes."""
        partials = self.partials(task)
        if sum(task.block_cells) <= _SMALL_CELLS:
            return iter(asked(self, lambda: partials.toArrow().to_pylist()))
        summed = self.by_block(partials, len(task.bounds)).mapInArrow(
            partial(tasks.summed_partition, task.block_cells), tasks.ROW_SQL
        )
        return streamed(self, summed)

    def partials(self, task: tasks.SparkTask) -> Any:
        """A frame of the partial tables of a task, of all records, or of those chosen of each person."""
        if task.bound is None:
            return self.selected(self._own).mapInArrow(partial(tasks.counted_partition, task), tasks.ROW_SQL)
        from residua.source.spark_persons import bucketed_partition, chosen_partition

        coded = self.selected(self._own).mapInArrow(partial(bucketed_partition, task), tasks.ROW_SQL)
        buckets = self.by_block(coded.unionByName(self.empty_blocks(tasks.BUCKETS + 1)), tasks.BUCKETS + 1)
        return buckets.mapInArrow(partial(chosen_partition, task), tasks.ROW_SQL)

    def by_block(self, rows: Any, blocks: int) -> Any:
        """The same rows, all of one block in one partition and next to each other."""
        stated = str(asked(self, lambda: self._frame.sparkSession.conf.get("spark.sql.shuffle.partitions")))
        most = int(stated) if stated.isdecimal() else _PARTITIONS  # some clusters say "auto"
        return rows.repartition(max(min(blocks, most), 1), "block").sortWithinPartitions("block")

    def numbers(self, count: int) -> Any:
        """A frame of the numbers 0, 1, …, in the session of this one, in as many tasks as Spark thinks best."""
        return self._frame.sparkSession.range(count).selectExpr("cast(id as int) as block")

    def empty_blocks(self, count: int) -> Any:
        """Partial tables without counts, so that every block comes to an executor, whether or not there are records."""
        nothing = "cast('' as binary)"
        return self.numbers(count).selectExpr("block", f"{nothing} as counts", f"{nothing} as note")

    def task(self, domain: Domain, layout: Layout, bound: PersonBound | None = None) -> tasks.SparkTask:
        """What executors are told to count: what the records may hold, the tables, how many records of each person."""
        wanted = columns_needed(self, domain, bound is not None)
        self.check(wanted)
        used = tuple((name, text) for name, text in self._expressions.items() if name in wanted)
        common = (tasks.own_version(), json.dumps(settings_of_domain(domain)), self._own, used, self.options)
        tables = tables_of_layout(layout)
        return tasks.SparkTask(*common, tables, block_bounds(tables, _BLOCK_CELLS), bound)

    def selected(self, columns: Sequence[str]) -> Any:
        """The frame's own columns, by their place: Spark would take names that differ in case only for one."""
        places = [f"c{i}" for i in range(len(self._own))]
        return self._frame.toDF(*places).select(*(f"c{self._own.index(name)}" for name in columns))

    def _read(self, columns: Sequence[str]) -> Iterator[Any]:
        needed = needed_columns(self._parsed, columns) or self._own[:1]
        used = {name: text for name, text in self._expressions.items() if name in columns}
        sent = self.selected(needed).mapInArrow(tasks.sent_batches, "batch binary")
        batches = (tasks.received_batch(bytes(row["batch"]), needed) for row in streamed(self, sent))
        yield from tasks.Partition(batches, needed, self.options).with_columns(used).batches(columns)


def is_spark_frame(data: object) -> bool:
    """Whether something is a Spark frame, classic or of Spark Connect; loads nothing."""
    kinds = {f"{kind.__module__.split('.')[0]}.{kind.__name__}" for kind in type(data).__mro__}
    return "pyspark.DataFrame" in kinds and hasattr(data, "mapInArrow")


def block_bounds(tables: FlatTables, cells: int) -> tuple[int, ...]:
    """The first table of each block of about that many cells, and the number of tables at the end."""
    blocks = (np.cumsum(tables.cells) - tables.cells) // cells
    return (*np.flatnonzero(np.diff(blocks, prepend=-1)).tolist(), len(tables))


T = TypeVar("T")
_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")  # PySpark writes every error there, with values
_WIRES = ("py4j.clientserver", "py4j.java_gateway")  # write all that Java answers, where somebody asks for that


def asked(source: Records | str, work: Callable[[], T], show_values: bool | None = None) -> T:
    """Does what needs Spark.

    Raises:
        SourceError: the condition that Spark names; its words only where values may be shown. It carries no context.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    shown = source.show_values if isinstance(source, Records) else bool(show_values)
    try:
        with _quiet(shown):
            return work()
    except (PySparkException, Py4JError) as problem:
        failure = SourceError(_sentence(str(source), problem, shown))
    raise failure


def streamed(source: Records, frame: Any) -> Iterator[Any]:
    """The rows of a frame, of which one partition is held at a time."""
    rows = asked(source, frame.toLocalIterator)
    none = object()
    while (row := asked(source, lambda: next(rows, none))) is not none:
        yield row


@contextmanager
def _quiet(show_values: bool) -> Iterator[None]:
    from pyspark.logger import PySparkLogger  # a plain logger of that name would break PySpark's own calls

    loggers: list[logging.Logger] = []
    if not show_values:
        loggers = [*map(PySparkLogger.getLogger, _LOGGERS), *map(logging.getLogger, _WIRES)]
    before = [logger.disabled for logger in loggers]
    try:
        for logger in loggers:
            logger.disabled = True
        yield
    finally:
        for logger, disabled in zip(loggers, before, strict=True):
            logger.disabled = disabled


def _sentence(what: str, problem: Exception, show_values: bool) -> str:
    text = str(problem)
    if "No module named 'residua" in text:
        return (
            "the executors have no residua: their Python is another than this one; set PYSPARK_PYTHON to a Python that "
            "has it, on every node, or install it there, or send it with "
            "spark.addArtifacts('residua.zip', pyfile=True)."
        )
    if "PYTHON_VERSION_MISMATCH" in text or "different minor version than" in text:
        return (
            "the executors run another version of Python than this one; set PYSPARK_PYTHON (and PYSPARK_DRIVER_PYTHON) "
            "to the same version on every node."
        )
    condition = getattr(problem, "getCondition", lambda: None)() or type(problem).__name__
    words = " ".join(text.split())[:300] if show_values else condition
    return f"{what} failed in Spark ({words}); correct the query that makes it, or the cluster."


def session_at_hand() -> Any:
    """The active session, else what Spark's own settings say (SPARK_REMOTE, spark-defaults.conf, spark-submit).

    Raises:
        SourceError: Spark is not installed.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise missing('Spark is not installed; run: pip install "residua[spark]"', SourceError) from None
    return asked("Spark", lambda: SparkSession.getActiveSession() or SparkSession.builder.getOrCreate(), True)


def frame_of(named: str | Path, show_values: bool = False) -> Any:
    """The frame that a text names: a table of the session at hand, or a path of Parquet files (anything with a slash).

    Raises:
        SourceError: Spark is not installed, knows no such table or path, or the path holds a credential.
    """
    name = str(named)
    refuse_keys(name)
    session = session_at_hand()

    def opened() -> Any:
        return session.read.parquet(name) if "/" in name or name.endswith(".parquet") else session.table(name)

    return asked(repr(name), opened, show_values)
