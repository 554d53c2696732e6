"""Parquet files, read batch by batch; text stays dictionary-encoded, which the codec reads fastest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from residua.errors import SourceError
from residua.source.paths import digest_of_files, expand, readable
from residua.source.source import BATCH_ROWS, Paths, Source, missing_columns


class ParquetSource(Source):
    """Parquet files. Fingerprint: SHA-256 of the files' bytes."""

    def __init__(self, paths: Paths, *, weight: str | None = None) -> None:
        super().__init__(weight)
        self.files = expand(paths)

    def __str__(self) -> str:
        return repr(str(self.files[0])) + (" and further files" if len(self.files) > 1 else "")

    def columns(self) -> tuple[str, ...]:
        """The columns of the first file; the others must have those that are asked for."""
        names = _schema(self.files[0]).names
        twice = [name for i, name in enumerate(names) if name in names[:i]]
        if twice:
            raise SourceError(f"{self} has two columns named {twice[0]!r}; rename one of them.")
        return tuple(names)

    def check(self, columns: Sequence[str]) -> None:
        """Refuses columns that are not in every file."""
        super().check(columns)
        for path in self.files[1:]:
            names = _schema(path).names
            missing = [name for name in columns if name not in names]
            if missing:
                raise SourceError(missing_columns(missing, names, repr(str(path))))

    def rows_hint(self) -> int | None:
        """What the files' footers say."""
        rows = 0
        for path in self.files:
            with _explained(path):
                rows += pq.read_metadata(path).num_rows
        return rows

    def fingerprint(self) -> str:
        """SHA-256 of the files' bytes."""
        return digest_of_files(self.files)

    def _read(self, columns: Sequence[str]) -> Iterator[Any]:
        for path in self.files:
            text = [field.name for field in _schema(path) if _is_text(field.type)]
            with _explained(path), pq.ParquetFile(path, read_dictionary=text, pre_buffer=False) as file:
                yield from file.iter_batches(BATCH_ROWS, columns=list(columns))


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _schema(path: Path) -> Any:
    with _explained(path):
        return pq.read_schema(path)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        with readable(path):
            yield
    except (pa.ArrowException, OSError, EOFError):
        raise SourceError(
            f"{str(path)!r} is not a sound Parquet file; it is damaged or truncated: copy or write it again."
        ) from None
