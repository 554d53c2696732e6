"""Tables of Delta Lake and Apache Iceberg, read by their own libraries from one snapshot.

The version is pinned when the source is made: whoever writes to the table meanwhile changes nothing of what is
checked and counted. Credentials of stores and catalogues come from the environment, or from those libraries' own files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from residua.errors import SourceError
from residua.source.frames import FrameSource
from residua.source.options import NO_OPTIONS, Options
from residua.source.records import BATCH_ROWS
from residua.source.uris import is_uri, parse_uri, shown_value

_DELTA_FEATURES = {"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"}  # of readers; others change which rows count
_WORDS = "check that it is whole and that the credentials in the environment may read it"


class LakeSource(FrameSource):
    """One snapshot of a table.

    Args:
        table: the library's own table.
        names: its columns.
        cut: yields record batches of the columns at these positions.
        shown: what messages call it.
    """

    def __init__(
        self,
        table: Any,
        names: Sequence[str],
        cut: Callable[[Any, list[int]], Iterator[Any]],
        shown: str,
        options: Options,
    ) -> None:
        self._shown = shown
        super().__init__(table, names, cut, None, options)

    def __str__(self) -> str:
        return self._shown

    def _read(self, columns: Sequence[str]) -> Iterator[Any]:
        with _explained(self._shown):
            yield from super()._read(columns)


def delta_source(path: object, version: object = None, options: Options = NO_OPTIONS) -> LakeSource:
    """The source of a Delta table.

    Raises:
        SourceError: no such table or version, a table whose rows the library cannot tell, or no library.
    """
    try:
        from deltalake import DeltaTable
    except ImportError:
        raise _absent("Delta tables", "deltalake", "delta") from None
    if not isinstance(path, str | Path) or not str(path):
        raise SourceError(f"path={shown_value(path)} is no path of a Delta table; give its folder or its URI.")
    _check_whole("version", version)
    given = str(path)
    shown = str(parse_uri(given)) if is_uri(given) else given
    with _explained(f"the Delta table {shown!r}"):
        table = DeltaTable(given, version=cast("int | None", version))
        name = f"the Delta table {shown!r} at version {table.version()}"
        protocol = table.protocol()
        odd = set(protocol.reader_features or ()) - _DELTA_FEATURES
        if odd or (protocol.min_reader_version == 2 and not protocol.reader_features and _mapped(table)):
            listed = ", ".join(sorted(odd)) or "columnMapping"
            raise SourceError(f"{name} uses {listed}, which cannot be streamed; write it anew without, or as Parquet.")
        dataset = table.to_pyarrow_dataset()
    return LakeSource(dataset, dataset.schema.names, _cut_delta, name, options)


def _mapped(table: Any) -> bool:
    return bool(table.metadata().configuration.get("delta.columnMapping.mode", "none") != "none")


def _cut_delta(dataset: Any, positions: list[int]) -> Iterator[Any]:
    names = [dataset.schema.names[i] for i in positions]
    # Little is read ahead, so that memory stays small whatever the files' row groups.
    scanner = dataset.scanner(columns=names, batch_size=BATCH_ROWS, batch_readahead=4, fragment_readahead=1)
    yield from scanner.to_batches()


def iceberg_source(table: Any, snapshot: object = None, options: Options = NO_OPTIONS) -> LakeSource:
    """The source of an Iceberg table: `"catalogue.namespace.table"`, the path of its metadata file, or an open table.

    Raises:
        SourceError: no such table, catalogue or snapshot, or no library.
    """
    try:
        from pyiceberg.catalog import load_catalog
        from pyiceberg.table import StaticTable, Table
    except ImportError:
        raise _absent("Iceberg tables", "pyiceberg", "iceberg") from None
    _check_whole("snapshot", snapshot)
    if isinstance(table, Table):
        found, shown = table, "the Iceberg table " + repr(".".join(table.name()))
    elif not isinstance(table, str | Path) or str(table).count(".") < 1:
        raise SourceError(
            f"table={shown_value(table)} is no Iceberg table; write CATALOGUE.NAMESPACE.TABLE, or the path of its "
            "metadata file."
        )
    else:
        given = str(table)
        remote = is_uri(given) and not given.startswith("file://")
        shown = f"the Iceberg table {str(parse_uri(given)) if remote else given!r}"
        with _explained(shown):
            if given.endswith(".metadata.json"):
                found = StaticTable.from_metadata(given)
            else:
                catalogue, _, name = given.partition(".")
                found = load_catalog(catalogue).load_table(name)
    with _explained(shown):
        return _pinned(found, snapshot, shown, options)


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
        reader = scan.to_arrow_batch_reader()
        for batch in reader:
            ordered = batch.select([names[i] for i in positions])
            for start in range(0, ordered.num_rows, BATCH_ROWS):
                yield ordered.slice(start, BATCH_ROWS)

    return LakeSource(table, names, cut, f"{shown} at snapshot {number}", options)


def _check_whole(name: str, value: object) -> None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
        raise SourceError(f"{name}={value!r} is not a number of a {name}; give one, or leave it out for the latest.")


def _absent(what: str, library: str, extra: str) -> SourceError:
    return SourceError(f"{what} are read by {library}, which is not installed; run: pip install 'residua[{extra}]'")


@contextmanager
def _explained(shown: str) -> Iterator[None]:
    """Turns what a library says into one sentence: its own words may quote values, addresses and keys."""
    try:
        yield
    except SourceError:
        raise
    except MemoryError:
        raise
    except Exception as problem:
        kind = type(problem).__name__
        raise SourceError(f"{shown} cannot be read ({kind}); {_WORDS}.") from None
