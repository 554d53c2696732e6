"""What all files have in common: several of them are one table."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from residua.errors import SourceError
from residua.source.options import NO_OPTIONS, Options
from residua.source.paths import File, Paths, expand
from residua.source.records import Records, distinct, missing_columns

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
