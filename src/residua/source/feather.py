"""Feather files (Arrow IPC), one record batch after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from residua.errors import SourceError
from residua.source.files import FilesSource
from residua.source.paths import readable


class FeatherSource(FilesSource):
    """Feather files, version 2."""

    def _names(self, path: Path) -> tuple[str, ...]:
        with _opened(path) as file:
            return tuple(file.schema.names)

    def _read_one(self, path: Path, columns: Sequence[str]) -> Iterator[Any]:
        with _opened(path) as file:
            for i in range(file.num_record_batches):
                batch = file.get_batch(i).select(list(columns))
                batch.validate(full=True)  # damaged offsets would be followed out of memory
                yield batch


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    try:
        with readable(path), pa.OSFile(str(path)) as raw, pa.ipc.open_file(raw) as file:
            yield file
    except SourceError:
        raise
    except (pa.ArrowException, OSError, EOFError, UnicodeDecodeError, ValueError):
        raise SourceError(
            f"{str(path)!r} is not a sound Feather file; it is damaged, truncated or of version 1: write it again."
        ) from None
