"""Files, of which several are one table; Parquet and Feather, read batch by batch.

Parquet's text stays dictionary-encoded, which is read fastest.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from residua.errors import SourceError
from residua.source.options import NO_OPTIONS, Options
from residua.source.paths import File, Paths, RemoteFile, expand, opened
from residua.source.records import BATCH_ROWS, Records, distinct, missing_columns
from residua.source.uris import is_uri

if TYPE_CHECKING:
    from residua.source.digest import Digest


class FilesSource(Records):
    """Files of one kind, read one after the other."""

    folder_suffixes: ClassVar[tuple[str, ...]] = ()  # of the files that a folder stands for; none: it is refused

    def __init__(self, paths: Paths, options: Options = NO_OPTIONS) -> None:
        super().__init__(options)
        self.files = expand(paths, self.folder_suffixes)

    def __str__(self) -> str:
        return repr(str(self.files[0])) + (" and further files" if len(self.files) > 1 else "")

    @abstractmethod
    def _names(self, path: File) -> tuple[str, ...]:
        """The columns of one file."""

    @abstractmethod
    def _read_one(self, path: File, columns: Sequence[str]) -> Iterator[Any]:
        """Record batches of one file."""

    def columns(self) -> tuple[str, ...]:
        """The columns of the first file; the others must have those that are asked for."""
        return distinct(self._names(self.files[0]), str(self))

    def check(self, columns: Sequence[str]) -> None:
        """Refuses columns that are not in every file."""
        super().check(columns)
        for path in self.files[1:]:
            names = self._names(path)
            missing = [name for name in columns if name not in names]
            if missing:
                raise SourceError(missing_columns(missing, names, repr(str(path))))

    def digested(self, columns: Sequence[str], digest: Digest) -> Iterator[Any]:
        """Batches of these columns; whatever else a file has goes into the digest, though others may lack it."""
        from residua.source.spelling import plain_batch

        asked = list(columns)
        self.check(asked)
        for path in self.files:
            others = [name for name in distinct(self._names(path), repr(str(path))) if name not in asked]
            for batch in ahead(self._read_one(path, [*asked, *others])):
                batch = plain_batch(batch)
                digest.add(batch)
                yield batch.select(asked)

    def _read(self, columns: Sequence[str]) -> Iterator[Any]:
        for path in self.files:
            yield from self._read_one(path, columns)


T = TypeVar("T")


def ahead(items: Iterator[T]) -> Iterator[T]:
    """The items of a generator, in order; one more than was asked for is made, in one thread of its own."""
    end = object()
    with closing(items), ThreadPoolExecutor(max_workers=1) as reader:  # type: ignore[type-var]  # it is a generator
        coming = reader.submit(next, items, end)
        while (item := coming.result()) is not end:
            coming = reader.submit(next, items, end)
            yield item  # type: ignore[misc]


_ABSENT = "__HIVE_DEFAULT_PARTITION__"


class ParquetSource(FilesSource):
    """Parquet files, also a folder of them with hive partitions."""

    folder_suffixes: ClassVar[tuple[str, ...]] = (".parquet", ".pq")

    def __init__(self, paths: Paths, options: Options = NO_OPTIONS) -> None:
        super().__init__(paths, options)
        given = [paths] if isinstance(paths, str | Path) else list(paths)
        folders = [Path(path) for path in given if not is_uri(path) and Path(path).is_dir()]
        self._partitions = {path: _partition(path, folders) for path in self.files}
        if len({tuple(partition) for partition in self._partitions.values()}) > 1:
            raise SourceError(f"{self} are not partitioned alike; every file needs the same NAME=VALUE folders.")

    def rows_hint(self) -> int | None:
        """What the files' footers say."""
        rows = 0
        for path in self.files:
            with _parquet(path) as raw:
                rows += pq.read_metadata(raw).num_rows
        return rows

    def _names(self, path: File) -> tuple[str, ...]:
        names, partition = tuple(_schema(path).names), self._partitions[path]
        both = [name for name in partition if name in names]
        if both:
            raise SourceError(f"{str(path)!r} has the column {both[0]!r} and lies in a folder of that name; drop one.")
        return (*names, *partition)

    def _read_one(self, path: File, columns: Sequence[str]) -> Iterator[Any]:
        partition = self._partitions[path]
        own = [name for name in columns if name not in partition]
        text = [field.name for field in _schema(path) if field.type in (pa.string(), pa.large_string())]
        with _parquet(path) as raw, pq.ParquetFile(raw, read_dictionary=text, pre_buffer=False) as file:
            for batch in file.iter_batches(BATCH_ROWS, columns=own):
                yield _with_partition(batch, partition, columns) if partition else batch


class FeatherSource(FilesSource):
    """Feather files, version 2."""

    def _names(self, path: File) -> tuple[str, ...]:
        with _feather(path) as file:
            return tuple(file.schema.names)

    def _read_one(self, path: File, columns: Sequence[str]) -> Iterator[Any]:
        with _feather(path) as file:
            for i in range(file.num_record_batches):
                batch = file.get_batch(i).select(list(columns))
                batch.validate(full=True)  # damaged offsets would be followed out of memory
                yield batch


def _partition(path: File, folders: Sequence[Path]) -> dict[str, str | None]:
    """The columns that the names of folders below a given folder stand for."""
    pairs = [part.split("=", 1) for part in _folders_below(path, folders) if "=" in part]
    return {unquote(name): None if value == _ABSENT else unquote(value) for name, value in pairs}


def _folders_below(path: File, folders: Sequence[Path]) -> tuple[str, ...]:
    if isinstance(path, RemoteFile):
        return path.below.parts[:-1] if path.below is not None else ()
    return next((path.relative_to(one).parts[:-1] for one in folders if path.is_relative_to(one)), ())


def _with_partition(batch: Any, partition: dict[str, str | None], columns: Sequence[str]) -> Any:
    constant = {
        name: pa.DictionaryArray.from_arrays(
            pa.array([None if value is None else 0] * batch.num_rows, pa.int8()), pa.array([value or ""], pa.string())
        )
        for name, value in partition.items()
    }
    arrays = [constant[name] if name in constant else batch.column(name) for name in columns]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def _schema(path: File) -> Any:
    with _parquet(path) as raw:
        return pq.read_schema(raw)


@contextmanager
def _sound(path: File, kind: str, remedy: str) -> Iterator[Any]:
    """An open file; whatever a reader says of it becomes one sentence."""
    try:
        with opened(path) as raw:
            yield raw
    except SourceError:
        raise
    except (pa.ArrowException, OSError, EOFError, ValueError):
        raise SourceError(f"{str(path)!r} is not a sound {kind} file; it is {remedy}") from None


def _parquet(path: File) -> AbstractContextManager[Any]:
    return _sound(path, "Parquet", "damaged or truncated: copy or write it again.")


@contextmanager
def _feather(path: File) -> Iterator[Any]:
    remedy = "damaged, truncated or of version 1: write it again."
    with _sound(path, "Feather", remedy) as raw, pa.ipc.open_file(raw) as file:
        yield file
