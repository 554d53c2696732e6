"""Frames in memory: pandas, Polars, Arrow, and whatever else speaks Arrow's stream interface."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from residua.errors import SourceError
from residua.source.options import NO_OPTIONS, Options
from residua.source.records import BATCH_ROWS, Records, distinct

_UNREADABLE = (TypeError, ValueError, OverflowError, NotImplementedError)  # Arrow's own errors are such as well


class FrameSource(Records):
    """A frame in memory, cut into batches when read.

    Args:
        frame: the frame.
        names: its columns.
        cut: yields record batches of the columns at these positions.
        rows: how many rows there are, if known.
    """

    def __init__(
        self,
        frame: Any,
        names: Sequence[Any],
        cut: Callable[[Any, list[int]], Iterator[Any]],
        rows: int | None,
        options: Options = NO_OPTIONS,
    ) -> None:
        super().__init__(options)
        self._frame = frame
        self._names = tuple(str(name) for name in names)
        self._cut = cut
        self._rows = rows
        distinct(self._names, str(self))

    def __str__(self) -> str:
        return f"the {type(self._frame).__module__.split('.')[0]} {type(self._frame).__name__}"

    def columns(self) -> tuple[str, ...]:
        """The frame's columns."""
        return self._names

    def rows_hint(self) -> int | None:
        """The frame's length, if it is known."""
        return self._rows

    def _read(self, columns: Sequence[str]) -> Iterator[Any]:
        positions = [self._names.index(name) for name in columns]
        with _explained(str(self)):
            for batch in self._cut(self._frame, positions):
                yield batch.rename_columns(list(columns))


class LazySource(FrameSource):
    """A frame that is computed again at every reading."""

    repeatable = False


def frame_source(frame: Any, options: Options = NO_OPTIONS) -> FrameSource:
    """The source of a frame, by its kind.

    Raises:
        SourceError: something that is no frame.
    """
    import pyarrow as pa
    import pyarrow.dataset as ds

    if isinstance(frame, ds.Dataset):
        return LazySource(frame, frame.schema.names, _cut_dataset, None, options)
    if isinstance(frame, pa.RecordBatch):
        frame = pa.Table.from_batches([frame])
    elif isinstance(frame, pa.RecordBatchReader):
        with _explained("the Arrow reader"):
            frame = frame.read_all()
    if isinstance(frame, pa.Table):
        return FrameSource(frame, frame.column_names, _cut_table, frame.num_rows, options)
    module, kind = type(frame).__module__.split(".")[0], type(frame).__name__
    if module == "pandas" and kind == "DataFrame":
        return FrameSource(frame, list(frame.columns), _cut_pandas, len(frame), options)
    if module == "polars" and kind == "DataFrame":
        return FrameSource(frame, frame.columns, _cut_polars, frame.height, options)
    if module == "polars" and kind == "LazyFrame":
        with _explained("the Polars LazyFrame"):
            return LazySource(frame, frame.collect_schema().names(), _cut_lazy, None, options)
    if hasattr(frame, "__arrow_c_stream__"):
        with _explained(f"the {kind}"):
            return frame_source(pa.table(frame), options)
    raise SourceError(
        f"source is a {kind}, which cannot be read; pass a path, a pandas, Polars or Arrow frame, "
        "or rs.Source.duckdb(…)."
    )


def _cut_table(table: Any, positions: list[int]) -> Iterator[Any]:
    yield from table.select(positions).to_batches(max_chunksize=BATCH_ROWS)


def _cut_dataset(dataset: Any, positions: list[int]) -> Iterator[Any]:
    names = [dataset.schema.names[i] for i in positions]
    # Little is read ahead, so that memory stays small whatever the files' row groups.
    scanner = dataset.scanner(columns=names, batch_size=BATCH_ROWS, batch_readahead=4, fragment_readahead=1)
    yield from scanner.to_batches()


def _cut_pandas(frame: Any, positions: list[int]) -> Iterator[Any]:
    import pyarrow as pa

    for start in range(0, len(frame), BATCH_ROWS):
        part = frame.iloc[start : start + BATCH_ROWS, positions]
        part.columns = [str(i) for i in positions]
        try:
            # Through a table: a column of text may come in several chunks, which a batch has no room for.
            table = pa.Table.from_pandas(part, preserve_index=False)
        except _UNREADABLE:
            mixed = [str(frame.columns[i]) for i in positions if not _converts(part[[str(i)]])]
            raise _mixed_types(mixed) from None
        yield from table.combine_chunks().to_batches()


def _converts(part: Any) -> bool:
    import pyarrow as pa

    try:
        pa.Table.from_pandas(part, preserve_index=False)
    except _UNREADABLE:
        return False
    return True


def _mixed_types(names: Sequence[str]) -> SourceError:
    listed = ", ".join(repr(name) for name in names)
    return SourceError(
        f"the pandas DataFrame mixes types in {listed} (or has unknown ones); convert to text or to numbers."
    )


def _cut_polars(frame: Any, positions: list[int]) -> Iterator[Any]:
    chosen = frame.select([frame.columns[i] for i in positions])
    for part in chosen.iter_slices(BATCH_ROWS):
        yield from part.to_arrow().combine_chunks().to_batches()


def _cut_lazy(frame: Any, positions: list[int]) -> Iterator[Any]:
    names = frame.collect_schema().names()
    chosen = frame.select([names[i] for i in positions])
    stream = getattr(chosen, "collect_batches", None)  # Polars before 1.34 has to collect
    if stream is None:
        yield from _cut_polars(chosen.collect(), list(range(len(positions))))
        return
    for part in stream(chunk_size=BATCH_ROWS, maintain_order=True):
        yield from part.to_arrow().combine_chunks().to_batches()


@contextmanager
def _explained(what: str) -> Iterator[None]:
    import pyarrow as pa

    try:
        yield
    except SourceError:
        raise
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        raise SourceError(f"{what} has a column that mixes types; convert it to text or to numbers.") from None
    except (pa.ArrowException, OSError, ValueError):
        raise SourceError(f"{what} cannot be read; its data are damaged or of an unknown type.") from None
    except Exception as problem:
        if type(problem).__module__.startswith("polars"):
            raise SourceError(f"{what} cannot be read; run its .collect() to see why.") from None
        raise
