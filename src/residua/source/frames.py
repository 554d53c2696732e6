"""Frames in memory (pandas, Polars, Arrow, whatever speaks Arrow's stream interface) and tables of lakes.

Tables of Delta Lake and Apache Iceberg are read by their own libraries. Their version is pinned when the source is
made: whoever writes to the table meanwhile changes nothing of what is checked and counted. Credentials of stores and
catalogues come from the environment, or from those libraries' own files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from residua.errors import SourceError, kind_of, named
from residua.files import is_uri
from residua.machine import missing, pyarrow as pa
from residua.source.options import NO_OPTIONS, Options, explained
from residua.source.records import BATCH_ROWS, Records, distinct
from residua.source.remote import parse_uri

_UNREADABLE = (TypeError, ValueError, OverflowError, NotImplementedError)  # Arrow's own errors are such as well


class FrameSource(Records):
    """A frame in memory, cut into batches when read.

    Args:
        frame: the frame.
        names: its columns.
        cut: yields record batches of the columns at these positions.
        rows: how many rows there are, if known.
        shown: what messages call it, by its type when not given.
    """

    def __init__(
        self,
        frame: Any,
        names: Sequence[Any],
        cut: Callable[[Any, list[int]], Iterator[Any]],
        rows: int | None,
        options: Options = NO_OPTIONS,
        shown: str | None = None,
    ) -> None:
        super().__init__(options)
        self._frame = frame
        self._shown = shown or f"the {type(frame).__module__.split('.')[0]} {type(frame).__name__}"
        self._names = tuple(str(name) for name in names)
        self._cut = cut
        self._rows = rows
        distinct(self._names, str(self))

    def __str__(self) -> str:
        return self._shown

    def columns(self) -> tuple[str, ...]:
        """The frame's columns."""
        return self._names

    def rows_hint(self) -> int | None:
        """The frame's length, if it is known."""
        return self._rows

    def _read(self, columns: Sequence[str]) -> Iterator[Any]:
        positions = [self._names.index(name) for name in columns]
        with _read_from(str(self)):
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
    if isinstance(frame, pa.dataset.Dataset):
        return LazySource(frame, frame.schema.names, _cut_dataset, None, options)
    if isinstance(frame, pa.RecordBatch):
        frame = pa.Table.from_batches([frame])
    elif isinstance(frame, pa.RecordBatchReader):
        with _read_from("the Arrow reader"):
            frame = frame.read_all()
    if isinstance(frame, pa.Table):
        return FrameSource(frame, frame.column_names, _cut_table, frame.num_rows, options)
    module, kind = type(frame).__module__.split(".")[0], type(frame).__name__
    if module == "pandas" and kind == "DataFrame":
        return FrameSource(frame, list(frame.columns), _cut_pandas, len(frame), options)
    if module == "polars" and kind == "DataFrame":
        return FrameSource(frame, frame.columns, _cut_polars, frame.height, options)
    if module == "polars" and kind == "LazyFrame":
        with _read_from("the Polars LazyFrame"):
            return LazySource(frame, frame.collect_schema().names(), _cut_lazy, None, options)
    if hasattr(frame, "__arrow_c_stream__"):
        with _read_from(f"the {kind}"):
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
    for start in range(0, len(frame), BATCH_ROWS):
        part = frame.iloc[start : start + BATCH_ROWS, positions]
        part.columns = [str(i) for i in positions]
        try:
            # Through a table: a column of text may come in several chunks, which a batch has no room for.
            table = pa.Table.from_pandas(part, preserve_index=False)
        except _UNREADABLE:
            mixed = ", ".join(repr(str(frame.columns[i])) for i in positions if not _converts(part[[str(i)]]))
            raise SourceError(
                f"the pandas DataFrame mixes types in {mixed} (or has unknown ones); convert to text or to numbers."
            ) from None
        yield from table.combine_chunks().to_batches()


def _converts(part: Any) -> bool:
    try:
        pa.Table.from_pandas(part, preserve_index=False)
    except _UNREADABLE:
        return False
    return True


def _cut_polars(frame: Any, positions: list[int]) -> Iterator[Any]:
    for part in frame.select([frame.columns[i] for i in positions]).iter_slices(BATCH_ROWS):
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


def _read_from(what: str) -> AbstractContextManager[None]:
    def sentence(problem: Exception) -> str | None:
        if isinstance(problem, pa.ArrowInvalid | pa.ArrowTypeError):
            return f"{what} has a column that mixes types; convert it to text or to numbers."
        if isinstance(problem, pa.ArrowException | OSError | ValueError):
            return f"{what} cannot be read; its data are damaged or of an unknown type."
        of_polars = type(problem).__module__.startswith("polars")
        return f"{what} cannot be read; run its .collect() to see why." if of_polars else None

    return explained(sentence, Exception)


_DELTA_FEATURES = {"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"}  # of readers; others change which rows count
_WORDS = "check that it is whole and that the credentials in the environment may read it"


class LakeSource(FrameSource):
    """One snapshot of a table, read by its own library."""

    def _read(self, columns: Sequence[str]) -> Iterator[Any]:
        with read_by_library(str(self)):
            yield from super()._read(columns)


def delta_source(path: object, version: object = None, options: Options = NO_OPTIONS) -> LakeSource:
    """The source of a Delta table.

    Raises:
        SourceError: no such table or version, a table whose rows the library cannot tell, or no library.
    """
    deltalake = needed("deltalake", "Delta tables", "deltalake", "delta")
    if not isinstance(path, str | Path) or not str(path):
        raise SourceError(f"path is {kind_of(path)}, no path of a Delta table; give its folder or its URI.")
    _check_whole("version", version)
    given = str(path)
    shown = str(parse_uri(given)) if is_uri(given) else given
    with read_by_library(f"the Delta table {shown!r}"):
        table = deltalake.DeltaTable(given, version=cast("int | None", version))
        name = f"the Delta table {shown!r} at version {table.version()}"
        protocol = table.protocol()
        odd = set(protocol.reader_features or ()) - _DELTA_FEATURES
        if odd or (protocol.min_reader_version == 2 and not protocol.reader_features and _mapped(table)):
            listed = ", ".join(sorted(odd)) or "columnMapping"
            raise SourceError(f"{name} uses {listed}, which cannot be streamed; write it anew without, or as Parquet.")
        dataset = table.to_pyarrow_dataset()
    return LakeSource(dataset, dataset.schema.names, _cut_dataset, None, options, name)


def _mapped(table: Any) -> bool:
    return bool(table.metadata().configuration.get("delta.columnMapping.mode", "none") != "none")


def iceberg_source(table: Any, snapshot: object = None, options: Options = NO_OPTIONS) -> LakeSource:
    """The source of an Iceberg table: `"catalogue.namespace.table"`, the path of its metadata file, or an open table.

    Raises:
        SourceError: no such table, catalogue or snapshot, or no library.
    """
    parts = ("pyiceberg.catalog", "pyiceberg.table")
    catalogs, tables = (needed(part, "Iceberg tables", "pyiceberg", "iceberg") for part in parts)
    _check_whole("snapshot", snapshot)
    if isinstance(table, tables.Table):
        opened, shown = table, "the Iceberg table " + repr(".".join(table.name()))
    elif not isinstance(table, str | Path) or str(table).count(".") < 1:
        raise SourceError(
            f"table is {named(table)}, no Iceberg table; write CATALOGUE.NAMESPACE.TABLE, or the path of its "
            "metadata file."
        )
    else:
        given = str(table)
        remote = is_uri(given) and not given.startswith("file://")
        shown = f"the Iceberg table {str(parse_uri(given)) if remote else given!r}"
        with read_by_library(shown):
            if given.endswith(".metadata.json"):
                opened = tables.StaticTable.from_metadata(given)
            else:
                catalogue, _, name = given.partition(".")
                opened = catalogs.load_catalog(catalogue).load_table(name)
    with read_by_library(shown):
        return _pinned(opened, snapshot, shown, options)


def _pinned(table: Any, snapshot: object, shown: str, options: Options) -> LakeSource:
    current = table.current_snapshot()
    number = snapshot if snapshot is not None else None if current is None else current.snapshot_id
    if snapshot is not None and table.snapshot_by_id(snapshot) is None:
        raise SourceError(f"{shown} has no snapshot {snapshot}; look at its history.")
    names = [field.name for field in table.scan(snapshot_id=number).projection().fields]

    def cut(table: Any, positions: list[int]) -> Iterator[Any]:
        if number is None:  # a table that nothing was ever written to
            return
        scan = table.scan(selected_fields=tuple(names[i] for i in positions), snapshot_id=number)
        for batch in scan.to_arrow_batch_reader():
            ordered = batch.select([names[i] for i in positions])
            for start in range(0, ordered.num_rows, BATCH_ROWS):
                yield ordered.slice(start, BATCH_ROWS)

    return LakeSource(table, names, cut, None, options, f"{shown} at snapshot {number}")


def _check_whole(name: str, value: object) -> None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
        raise SourceError(
            f"{name}={named(value)} is not a number of a {name}; give one, or leave it out for the latest."
        )


def needed(module: str, what: str, library: str, extra: str) -> Any:
    """A module of a library that not everyone has.

    Raises:
        SourceError: it is not installed; the command that does so.
    """
    sentence = f'{what} are read by {library}, which is not installed; run: pip install "residua[{extra}]"'
    try:
        return import_module(module)
    except ImportError:
        raise missing(sentence, SourceError) from None


def read_by_library(shown: str) -> AbstractContextManager[None]:
    """Turns whatever a library says of data into one sentence, which names the kind of the problem and no value."""

    def sentence(problem: Exception) -> str | None:
        kind = type(problem).__name__
        return None if isinstance(problem, MemoryError) else f"{shown} cannot be read ({kind}); {_WORDS}."

    return explained(sentence, Exception)
