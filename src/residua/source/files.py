"""Files: which ones a path or a pattern means, several as one table; Parquet and Feather, read batch by batch.

Parquet's text stays dictionary-encoded, which is read fastest.
"""

from __future__ import annotations

import glob
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar, TypeVar
from urllib.parse import unquote

from residua.errors import SourceError, kind_of
from residua.files import is_uri
from residua.machine import pyarrow as pa, there
from residua.source.digest import Digest, plain_batch
from residua.source.options import NO_OPTIONS, PACKED, Options, explained, is_like_a_path
from residua.source.records import BATCH_ROWS, Records, distinct, require_columns
from residua.source.remote import RemoteFile, matched, members_of, remote_files, require_source_path

Paths = str | Path | Sequence[str | Path]
File = Path | RemoteFile


def expand(paths: Paths, folder_suffixes: tuple[str, ...] = ()) -> tuple[File, ...]:
    """The files that paths, patterns and URIs mean: patterns in alphabetical order, the rest as given.

    Args:
        paths: a path or URI, a list of them, or a pattern.
        folder_suffixes: a folder stands for all files below it that end so; with none, a folder is refused.

    Raises:
        SourceError: no such file, a folder, or a file named twice (its records would count twice).
    """
    given = [paths] if isinstance(paths, str | Path) else list(paths)
    if not given:
        raise SourceError("paths is empty; name at least one file.")
    files: list[File] = []
    for number, path in enumerate(given, 1):
        if not isinstance(path, str | Path):
            raise SourceError(f"paths holds {kind_of(path)}, which is no path; pass text or pathlib paths.")
        try:
            uri = isinstance(path, str) and is_uri(path)
            files += remote_files(str(path), folder_suffixes) if uri else _local(str(path), folder_suffixes)
        except SourceError:
            if isinstance(paths, str | Path) or is_like_a_path(path):
                raise
            raise SourceError(f"paths: number {number} is no file that can be read; check the path.") from None
    seen: set[object] = set()
    for file in files:
        if (identity := _identity(file)) in seen:
            raise SourceError(f"paths name {str(file)!r} twice, which would count it twice; name it once.")
        seen.add(identity)
    return tuple(files)


def _identity(file: File) -> object:
    if isinstance(file, RemoteFile):
        return file.uri
    status = file.stat()  # the same file under another name, link or not
    return status.st_dev, status.st_ino


def _local(path: str, folder_suffixes: tuple[str, ...]) -> list[Path]:
    folder = Path(path)
    with suppress(OSError):
        if folder.is_file():
            return [folder]
    require_source_path(path)
    if folder.is_dir():
        inside = {file.relative_to(folder): file for file in folder.rglob("*") if file.is_file()}
        return [file for _, file in members_of(path, inside.items(), folder_suffixes)]
    matching = [file for file in map(Path, glob.glob(path, recursive=True)) if file.is_file()]  # noqa: PTH207
    return matched(path, matching, glob.has_magic(path), "check the path.")


@contextmanager
def opened(file: File, *, stream: bool = False) -> Iterator[Any]:
    """The file as Arrow reads it: at any place, or from its beginning and unpacked.

    Raises:
        SourceError: it is not there, or may not be read.
    """
    if isinstance(file, RemoteFile):
        with file.opened(stream=stream) as handle:
            yield handle
        return
    with (
        explained(f"there is no file {str(file)!r}; check the path.", FileNotFoundError),
        explained(f"{str(file)!r} may not be read; change its permissions.", PermissionError),
    ):
        if not there("pyarrow") and file.suffix.lower() not in PACKED:  # the head of text needs no Arrow
            handle = file.open("rb")
        else:
            handle = pa.input_stream(str(file), compression="detect") if stream else pa.OSFile(str(file))
    with handle:
        yield handle


def size_of(file: File) -> int | None:
    """The bytes of a file, if that is known."""
    return file.size() if isinstance(file, RemoteFile) else file.stat().st_size


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
            require_columns(columns, self._names(path), repr(str(path)))

    def digested(self, columns: Sequence[str], digest: Digest) -> Iterator[Any]:
        """Batches of these columns; whatever else a file has goes into the digest, though others may lack it."""
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
                rows += pa.parquet.read_metadata(raw).num_rows
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
        with _parquet(path) as raw, pa.parquet.ParquetFile(raw, read_dictionary=text, pre_buffer=False) as file:
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
        return pa.parquet.read_schema(raw)


@contextmanager
def _sound(path: File, kind: str, remedy: str) -> Iterator[Any]:
    """An open file; whatever a reader says of it becomes one sentence."""
    sentence = f"{str(path)!r} is not a sound {kind} file; it is {remedy}"
    with explained(sentence, pa.ArrowException, OSError, EOFError, ValueError), opened(path) as raw:
        yield raw


def _parquet(path: File) -> AbstractContextManager[Any]:
    return _sound(path, "Parquet", "damaged or truncated: copy or write it again.")


@contextmanager
def _feather(path: File) -> Iterator[Any]:
    remedy = "damaged, truncated or of version 1: write it again."
    with _sound(path, "Feather", remedy) as raw, pa.ipc.open_file(raw) as file:
        yield file
