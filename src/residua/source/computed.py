"""Columns computed from a record's own, by SQL expressions in the sandbox of predicates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from residua.errors import SourceError
from residua.source.source import Source
from residua.sql import Expression, SqlError, engine_words, row_expression, sandbox

if TYPE_CHECKING:
    from residua.source.digest import Digest


class ComputedSource(Source):
    """A source with computed columns. Fingerprint: that of the records as they are.

    Args:
        source: where the records come from.
        expressions: column → SQL over the columns of one record.
    """

    def __init__(self, source: Source, expressions: Mapping[str, str]) -> None:
        super().__init__(source.options)
        self.repeatable = source.repeatable
        self._source, self._expressions = source, dict(expressions)
        self._parsed = {name: parsed_expression(name, text) for name, text in expressions.items()}

    def __str__(self) -> str:
        return str(self._source)

    def columns(self) -> tuple[str, ...]:
        """The source's own columns, and the computed ones."""
        return tuple(dict.fromkeys([*self._source.columns(), *self._parsed]))

    def rows_hint(self) -> int | None:
        """The source's own guess."""
        return self._source.rows_hint()

    def fingerprint(self) -> str:
        """The source's own."""
        return self._source.fingerprint()

    def earlier_fingerprint(self) -> str | None:
        """The source's own."""
        return self._source.earlier_fingerprint()

    @contextmanager
    def snapshot(self) -> Iterator[Source]:
        """The source's own, with the same columns computed from it."""
        with self._source.snapshot() as still:
            yield ComputedSource(still, self._expressions)

    def check(self, columns: Sequence[str]) -> None:
        """Refuses columns that do not exist, whether asked for or used in an expression."""
        self._source.check(self._needed(columns))

    def _needed(self, columns: Sequence[str]) -> list[str]:
        needed: dict[str, None] = {}
        for name in columns:
            needed.update(dict.fromkeys(self._parsed[name].names if name in self._parsed else (name,)))
        return list(needed)

    def _read(self, columns: Sequence[str]) -> Iterator[Any]:
        needed = self._needed(columns)
        yield from self._computed(columns, needed, self._source.batches(needed or self._source.columns()[:1]))

    def digested(self, columns: Sequence[str], digest: Digest) -> Iterator[Any]:
        """Batches of these columns; the records as they are go into the digest."""
        needed = self._needed(columns)
        yield from self._computed(columns, needed, self._source.digested(needed or self._source.columns()[:1], digest))

    def _computed(self, columns: Sequence[str], needed: list[str], batches: Iterator[Any]) -> Iterator[Any]:
        import duckdb
        import pyarrow as pa

        place = {name: f"c{i}" for i, name in enumerate(needed)}  # DuckDB would take A and a for one
        chosen = {name: self._parsed[name].renamed(place) if name in self._parsed else place[name] for name in columns}
        with sandbox() as engine:
            for batch in batches:
                table = pa.Table.from_batches([batch]).rename_columns(list(place.values()) or ["c0"])
                engine.register("records", table)
                # All columns through one SELECT, so that a record stays together whatever the order.
                try:
                    computed = _arrow(engine, chosen.values())
                except duckdb.Error as problem:
                    raise self._failure(engine, chosen, problem) from None
                yield from computed.rename_columns(list(columns)).combine_chunks().to_batches()

    def _failure(self, engine: Any, chosen: Mapping[str, str], problem: Exception) -> SourceError:
        import duckdb

        failed = []
        for name, text in chosen.items():
            try:
                _arrow(engine, [text])
            except duckdb.Error:
                failed.append(name)
        words = engine_words(problem, values=self.show_values)
        listed = ", ".join(repr(name) for name in failed or chosen)
        return SourceError(f"the expression of {listed} failed in DuckDB ({words}); correct it, or use TRY_CAST.")


def parsed_expression(name: str, text: object) -> Expression:
    """An expression that computes a column.

    Raises:
        SourceError: it is not one expression over the columns of one record.
    """
    if not isinstance(text, str) or not text.strip():
        raise SourceError(f"the expression of {name!r} is {text!r}; write SQL over the columns of one record.")
    try:
        return row_expression(text)
    except SqlError as problem:
        raise SourceError(f"the expression of {name!r}, {text[:60]!r}, is refused: {problem}.") from None


def _arrow(engine: Any, texts: Any) -> Any:
    relation = engine.sql(f"SELECT {', '.join(f'({text}) AS x{i}' for i, text in enumerate(texts))} FROM records")
    read = getattr(relation, "to_arrow_table", None) or relation.fetch_arrow_table
    return read()
