"""A toy of Spark that runs the tasks in this process, one after another.

It shuffles by asking every task again for each partition that it makes. A task that is killed is tried again, if the
frame says so; and a task can be run twice, as one that seems slow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from residua.source.spark_tasks import ROW

Task = Callable[[], Iterator[Any]]


@dataclass
class Running:
    """How tasks are run.

    Args:
        killed: what a task raises when it is killed, and is then tried again; nothing by default.
        twice: whether every task is run again after it has ended, and only what it said then counts.
        now: the task that runs.
    """

    killed: tuple[type[BaseException], ...] = ()
    twice: bool = False
    now: Task = field(default=lambda: iter(()))

    def rows(self, task: Task) -> list[Any]:
        """What a task gives."""
        self.now = task
        try:
            rows = list(task())
        except self.killed:
            rows = list(task())
        return list(task()) if self.twice else rows


class DataFrame:
    """As much of a Spark frame as the source asks for."""

    __module__ = "pyspark.toy"

    def __init__(self, parts: list[Task], columns: list[str], running: Running | None = None) -> None:
        self.parts, self.columns, self.sparkSession, self.conf = parts, columns, self, self
        self.running = running or Running()

    def toDF(self, *_: str) -> DataFrame:  # noqa: N802
        return self

    def select(self, *_: str) -> DataFrame:
        return self

    sortWithinPartitions = select  # noqa: N815 (what `repartition` gives is sorted)

    def mapInArrow(self, work: Callable[[Iterator[Any]], Iterator[Any]], _: str) -> DataFrame:  # noqa: N802
        return DataFrame([lambda part=part: work(part()) for part in self.parts], self.columns, self.running)

    def unionByName(self, other: DataFrame) -> DataFrame:  # noqa: N802
        return DataFrame([*self.parts, *other.parts], self.columns, self.running)

    def repartition(self, count: int, _: str) -> DataFrame:
        def shuffled(place: int) -> Iterator[Any]:
            rows = pa.Table.from_batches([batch for part in self.parts for batch in part()], ROW)
            mine = rows.filter(pa.array([block % count == place for block in rows["block"].to_pylist()], pa.bool_()))
            yield from mine.sort_by("block").to_batches()

        return DataFrame([lambda place=place: shuffled(place) for place in range(count)], self.columns, self.running)

    def range(self, count: int) -> DataFrame:
        rows = [pa.array(range(count), pa.int32()), *[pa.array([b""] * count)] * 2]
        return DataFrame([lambda: iter([pa.record_batch(rows, schema=ROW)])], self.columns, self.running)

    selectExpr = select  # noqa: N815

    def toArrow(self) -> Any:  # noqa: N802
        return pa.Table.from_batches([batch for part in self.parts for batch in self.running.rows(part)], ROW)

    def toLocalIterator(self) -> Iterator[Any]:  # noqa: N802
        return iter(self.toArrow().to_pylist())

    def get(self, _: str) -> str:
        return "2"
