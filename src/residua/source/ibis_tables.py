"""Tables and expressions of ibis: on DuckDB through our own reader, on any other engine as ibis streams them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from residua.errors import SourceError
from residua.source.database import DatabaseSource
from residua.source.options import NO_OPTIONS, Options
from residua.source.records import BATCH_ROWS, Records, distinct


def ibis_source(expression: Any, options: Options = NO_OPTIONS) -> Records:
    """The source of what an ibis expression returns.

    Raises:
        SourceError: an expression that is no table, or has no engine.
    """
    import ibis

    if not hasattr(expression, "columns"):
        raise SourceError("the ibis expression is no table; select columns from one.")
    try:
        backend = expression.get_backend()
    except Exception as problem:  # ibis has an error of its own for each reason
        raise SourceError(
            f"the ibis expression has no engine to run on ({type(problem).__name__}); make one."
        ) from None
    if backend.name == "duckdb":
        return DatabaseSource(backend.con, str(ibis.to_sql(expression)), options)
    return IbisSource(expression, backend.name, options)


class IbisSource(Records):
    """What an ibis expression returns; how it is streamed, and which state of the data it sees, is up to ibis."""

    repeatable = False

    def __init__(self, expression: Any, engine: str, options: Options = NO_OPTIONS) -> None:
        super().__init__(options)
        self._expression, self._engine = expression, engine

    def __str__(self) -> str:
        return f"the ibis expression on {self._engine}"

    def columns(self) -> tuple[str, ...]:
        """The expression's columns."""
        return distinct(tuple(self._expression.columns), str(self))

    def _read(self, columns: Sequence[str]) -> Iterator[Any]:
        try:
            yield from self._expression.select(*columns).to_pyarrow_batches(chunk_size=BATCH_ROWS)
        except SourceError:
            raise
        except Exception as problem:  # of ibis or of the engine; its words may quote values
            why = str(problem).strip().splitlines()[:1] if self.show_values else [type(problem).__name__]
            raise SourceError(f"{self} failed ({''.join(why)[:160]}); run it in ibis to see why.") from None
