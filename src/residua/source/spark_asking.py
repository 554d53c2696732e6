"""Asking Spark: its errors become one sentence without values, and its own words stay out of this process's logs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from residua.errors import SourceError
from residua.source.source import Source
from residua.source.uris import refuse_keys

T = TypeVar("T")
_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")  # PySpark writes every error there, with values
_WIRES = ("py4j.clientserver", "py4j.java_gateway")  # write all that Java answers, where somebody asks for that


def asked(source: Source | str, work: Callable[[], T], show_values: bool | None = None) -> T:
    """Does what needs Spark.

    Raises:
        SourceError: the condition that Spark names; its words only where values may be shown. It carries no context.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    shown = source.show_values if isinstance(source, Source) else bool(show_values)
    try:
        with _quiet(shown):
            return work()
    except (PySparkException, Py4JError) as problem:
        failure = SourceError(_sentence(str(source), problem, shown))
    raise failure


def streamed(source: Source, frame: Any) -> Iterator[Any]:
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
            "the executors have no residua; install it there, or send it with "
            "spark.addArtifacts('residua.zip', pyfile=True)."
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
        raise SourceError("Spark is not installed; run pip install 'residua[spark]'.") from None
    return asked("Spark", lambda: SparkSession.getActiveSession() or SparkSession.builder.getOrCreate(), True)


def frame_of(named: str | Path, show_values: bool = False) -> Any:
    """The frame that a text names: a table of the session at hand, or a path of Parquet files (anything with a slash).

    Raises:
        SourceError: Spark is not installed, knows no such table or path, or the path holds a credential.
    """
    name = str(named)
    refuse_keys(name)
    session = session_at_hand()

    def found() -> Any:
        path = "/" in name or name.endswith(".parquet")
        return session.read.parquet(name) if path else session.table(name)

    return asked(repr(name), found, show_values)
