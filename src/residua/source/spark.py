"""A Spark frame: its records are encoded and counted on the executors, and only tables of counts come to the driver."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from residua.domain import Domain, settings_of_domain
from residua.errors import SourceError
from residua.linalg.lattice import Lattice
from residua.linalg.layout import Layout
from residua.source.computed import parsed_expression
from residua.source.files import distinct
from residua.source.options import NO_OPTIONS, Options
from residua.source.source import Source, missing_columns
from residua.source.spark_tasks import (
    DIGEST_SQL,
    MOST_RECORDS,
    NOTE,
    PARTIAL_SQL,
    Partition,
    Tally,
    Task,
    counted_partition,
    digested_partition,
    joined_digest,
    received_batch,
    sent_batches,
    summed_blocks,
    unpacked,
)
from residua.source.tables import Tables, tables_of_layout

if TYPE_CHECKING:
    from residua.source.counting import Counted, Progress

_SMALL_CELLS = 1 << 15  # tables up to here are added up by the driver: 256 kB from each task at most
_BLOCK_CELLS = 1 << 20  # larger layouts are cut into blocks of about 8 MB
_MOST_REDUCERS = 200


class SparkSource(Source):
    """A Spark frame, classic or through Spark Connect. Fingerprint: the records in any order.

    A frame is a recipe: Spark reads the data again for every job, so that two readings may differ.

    Args:
        frame: the frame.
        options: the source's options.
        expressions: computed columns, computed on the executors.
    """

    def __init__(
        self, frame: Any, options: Options = NO_OPTIONS, expressions: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(options)
        if not is_spark_frame(frame):
            raise SourceError(
                f"source is a {type(frame).__name__}, which is no Spark frame; pass what spark.table(…) or "
                "spark.read… returns."
            )
        self._frame = frame
        self._expressions = dict(expressions or {})
        self._parsed = {name: parsed_expression(name, text) for name, text in self._expressions.items()}
        with explained(str(self), self.show_values):
            self._own = tuple(str(name) for name in frame.columns)
        distinct(self._own, str(self))

    def __str__(self) -> str:
        return "the Spark frame"

    def columns(self) -> tuple[str, ...]:
        """The frame's columns, and the computed ones."""
        return tuple(dict.fromkeys([*distinct(self._own, str(self)), *self._parsed]))

    def check(self, columns: Sequence[str]) -> None:
        """Refuses columns that do not exist, whether asked for or used in an expression."""
        needed = self._needed(columns)
        missing = [name for name in needed if name not in self._own]
        if missing and len(missing) < len(needed):
            raise SourceError(missing_columns(missing, self.columns(), str(self)))
        if missing:
            super().check(missing)

    def with_columns(self, expressions: Mapping[str, str]) -> Source:
        """The same records with columns computed on the executors; see `Source.with_columns`."""
        if not expressions:
            return self
        if self._expressions:
            return super().with_columns(expressions)
        return SparkSource(self._frame, self.options, expressions)

    def fingerprint(self) -> str:
        """A digest of the records, whatever their order and however Spark cuts them into partitions."""
        with explained(str(self), self.show_values):
            parts = self.selected(self._own).mapInArrow(partial(digested_partition, self._own), DIGEST_SQL).toArrow()
        return joined_digest(self._own, (bytes(part) for part in parts.column(0).to_pylist()))

    def count(self, domain: Domain, layout: Layout, progress: Progress | None = None) -> Counted:
        """Counted on the executors; see `Source.count`."""
        from residua.source.counting import Counted

        if not np.array_equal(layout.sizes, domain.sizes):
            raise SourceError("the layout was made for another domain; plan for the domain that is measured.")
        if self.weight in domain:
            raise SourceError(f"column {self.weight!r} is both weight and attribute; drop one of the two.")
        task, needed = self.task(domain, layout)
        tally = Tally(domain, self.show_values)
        tables = np.zeros(layout.cells, dtype=np.int64)
        with explained(str(self), self.show_values):
            partials = self.selected(needed).mapInArrow(partial(counted_partition, task), PARTIAL_SQL)
            if task.tables is None:
                rows = iter(partials.toArrow().to_pylist())
            else:
                work = partial(summed_blocks, task.block_cells)
                rows = by_block(partials, task).mapInArrow(work, PARTIAL_SQL).toLocalIterator()
            for row in rows:
                if row["block"] == NOTE:
                    tally.add(bytes(row["note"]))
                    if progress is not None:
                        progress(tally.rows, None)
                else:
                    counts = unpacked(bytes(row["counts"]))
                    start = task.block_starts[row["block"]]
                    tables[start : start + len(counts)] += counts
        require_countable(tally, self.weight)
        tables.setflags(write=False)
        return Counted(tables, MappingProxyType(tally.dropped), MappingProxyType(tally.other))

    def numbers(self, count: int) -> Any:
        """A frame of the numbers 0, 1, …, in the session of this one."""
        return self._frame.sparkSession.range(count).selectExpr("cast(id as int) as block")

    def empty_blocks(self, count: int) -> Any:
        """Partial tables without counts, so that every block comes to an executor, whether or not there are records."""
        nothing = "cast('' as binary)"
        return self.numbers(count).selectExpr("block", f"{nothing} as counts", f"{nothing} as note")

    def task(self, domain: Domain, layout: Layout, *, digest: bool = False) -> tuple[Task, tuple[str, ...]]:
        """What executors are told to count, and the columns they need.

        Args:
            domain: what the records may hold.
            layout: the tables.
            digest: whether to count in blocks, each with the digest of all columns of its records.
        """
        from residua import __version__

        asked = [*domain.names, *([self.weight] if self.weight is not None else [])]
        self.check(asked)
        needed = self._own if digest else self._needed(asked) or self._own[:1]
        used = tuple((name, text) for name, text in self._expressions.items() if name in asked)
        told = (__version__, json.dumps(settings_of_domain(domain)), needed, used, self.options)
        if layout.cells <= _SMALL_CELLS and not digest:
            bare = Layout(Lattice(layout.lattice.attributes, layout.lattice.levels), layout.sizes, layout.groups)
            return Task(*told, layout=bare), needed
        tables = tables_of_layout(layout)
        return Task(*told, tables=tables, bounds=block_bounds(tables, _BLOCK_CELLS), digest=digest), needed

    def _needed(self, columns: Sequence[str]) -> tuple[str, ...]:
        needed: dict[str, None] = {}
        for name in columns:
            needed.update(dict.fromkeys(self._parsed[name].names if name in self._parsed else (name,)))
        return tuple(needed)

    def selected(self, columns: Sequence[str]) -> Any:
        """The frame's own columns, by their place."""
        # By their place: Spark would take names that differ in case only for one.
        places = [f"c{i}" for i in range(len(self._own))]
        return self._frame.toDF(*places).select(*(f"c{self._own.index(name)}" for name in columns))

    def _read(self, columns: Sequence[str]) -> Iterator[Any]:
        needed = self._needed(columns) or self._own[:1]
        used = {name: text for name, text in self._expressions.items() if name in columns}
        with explained(str(self), self.show_values):
            sent = self.selected(needed).mapInArrow(sent_batches, "batch binary")
            batches = (received_batch(bytes(row["batch"]), needed) for row in sent.toLocalIterator())
            yield from Partition(batches, needed, self.options).with_columns(used).batches(columns)


@contextmanager
def explained(what: str, show_values: bool) -> Iterator[None]:
    """Turns Spark's errors into one sentence: their condition, and their words only where values may be shown."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as problem:
        failure = SourceError(_sentence(what, problem, show_values))
    else:
        return
    raise failure  # outside the handler, so that it carries no context


def _sentence(what: str, problem: Exception, show_values: bool) -> str:
    text = str(problem)
    if "No module named 'residua'" in text:
        return (
            "the executors have no residua; install it there, or send it with "
            "spark.addArtifacts('residua.zip', pyfile=True)."
        )
    condition = getattr(problem, "getCondition", lambda: None)() or type(problem).__name__
    words = " ".join(text.split())[:300] if show_values else condition
    return f"{what} failed in Spark ({words}); correct the query that makes it, or the cluster."


def frame_of(named: str | Path, show_values: bool = False) -> Any:
    """The frame that a text names: a table of the session, or a path of Parquet files (anything with a slash).

    The session is the active one, else what Spark's own settings say (SPARK_REMOTE, spark-defaults.conf, spark-submit).

    Raises:
        SourceError: Spark is not installed, or knows no such table or path.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise SourceError("Spark is not installed; run pip install 'residua[spark]'.") from None
    name = str(named)
    with explained(repr(name), show_values):
        session = SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
        path = "/" in name or name.endswith(".parquet")
        return session.read.parquet(name) if path else session.table(name)


def is_spark_frame(data: object) -> bool:
    """Whether something is a Spark frame, classic or of Spark Connect; loads nothing."""
    kinds = {f"{kind.__module__.split('.')[0]}.{kind.__name__}" for kind in type(data).__mro__}
    return "pyspark.DataFrame" in kinds and hasattr(data, "mapInArrow")


def block_bounds(tables: Tables, cells: int) -> tuple[int, ...]:
    """The first table of each block of about that many cells, and the number of tables at the end."""
    ends = np.cumsum(tables.cells)
    blocks = (ends - tables.cells) // cells
    return (*np.flatnonzero(np.diff(blocks, prepend=-1)).tolist(), len(tables))


def by_block(partials: Any, task: Task) -> Any:
    """The same rows, all of one block in one partition and next to each other."""
    reducers = min(len(task.bounds), _MOST_REDUCERS)
    return partials.repartition(reducers, "block").sortWithinPartitions("block")


def require_countable(tally: Tally, weight: str | None) -> None:
    """Refuses what was found wrong, in the words of every engine.

    Raises:
        SourceError: there is a problem, or too many records.
    """
    if tally.records >= MOST_RECORDS:
        raise SourceError(f"the counts in column {weight!r} add up to 2^62 or more; correct them.")
    tally.problems.stop()
