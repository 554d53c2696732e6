"""A query over other sources: each is a table that DuckDB reads through us, so that the query reaches nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any

from residua.errors import SourceError
from residua.source.database import QueriedSource, checked_query, places
from residua.source.options import NO_OPTIONS, Options
from residua.source.records import Records
from residua.sql import sandbox


class QuerySource(QueriedSource):
    """One SELECT over named tables.

    Args:
        tables: name → where its records come from.
        query: one SELECT, or the name of a table.
    """

    def __init__(self, tables: Mapping[str, Records], query: str, options: Options = NO_OPTIONS) -> None:
        super().__init__(options)
        self._tables = dict(tables)
        self.query = checked_query(query)

    def __str__(self) -> str:
        return f"the query {self.query[:60]!r} over {', '.join(map(repr, self._tables))}"

    def _described(self) -> Sequence[str]:
        with self._connected() as connection:
            return list(connection.sql(self.query).columns)

    @contextmanager
    def _asked(self, select: str, columns: int) -> Iterator[Any]:
        with self._connected() as connection:
            yield connection.sql(f"{select} ({self.query}\n) AS records({places(columns)})")

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        streams = {name: _Stream(name, source) for name, source in self._tables.items()}
        try:
            with self._explained(), sandbox() as connection:
                for name, stream in streams.items():
                    connection.register(name, stream)
                yield connection
        except SourceError as problem:
            # What went wrong while a table was read says more than that the query failed.
            raise next((one.problem for one in streams.values() if one.problem), problem) from None


class _Stream:
    """A source that can be read again and again as a stream of Arrow batches of one schema."""

    def __init__(self, name: str, source: Records) -> None:
        self._name, self._source = name, source
        self._columns = source.columns()
        self.problem: SourceError | None = None
        folded: dict[str, str] = {}
        for column in self._columns:
            other = folded.setdefault(column.lower(), column)
            if other != column:
                named = f" {other!r} and {column!r}" if source.show_values else ""
                raise SourceError(f"table {name!r} has columns{named} that differ in case only; rename one for SQL.")

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        import pyarrow as pa

        batches = self._noted(self._source.batches(self._columns))
        first = next(batches, None)
        if first is None:
            schema = pa.schema([(name, pa.string()) for name in self._columns])
        else:
            schema = pa.schema([(field.name, _plain(field.type)) for field in first.schema])
        given = self._cast(chain([first] if first is not None else [], batches), schema)
        return pa.RecordBatchReader.from_batches(schema, given).__arrow_c_stream__(requested_schema)

    def _noted(self, batches: Iterator[Any]) -> Iterator[Any]:
        try:
            yield from batches
        except SourceError as problem:  # DuckDB would wrap it
            self.problem = problem
            raise

    def _cast(self, batches: Iterator[Any], schema: Any) -> Iterator[Any]:
        import pyarrow as pa

        try:
            for batch in batches:
                yield batch if batch.schema.equals(schema) else batch.cast(schema)
        except pa.ArrowException:
            self.problem = SourceError(f"table {self._name!r} has a column of several types; convert it to one.")
            raise


def _plain(kind: Any) -> Any:
    import pyarrow as pa

    return kind.value_type if pa.types.is_dictionary(kind) else kind
