"""Noisy integers in many Parquet files, of which only those are read that are asked for.

measurements/part-00000.parquet    one column `measurement` (64-bit integers, no nulls), the cells from starts[0] on

Integers are packed into as many bits as each run of 32 needs (Parquet's DELTA_BINARY_PACKED): about a bit and a half
above the entropy of their noise, which no format goes below.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from residua.errors import FileError
from residua.files import open_regular
from residua.machine import parquet as pq, pyarrow as pa

COLUMN = "measurement"
FOLDER = "measurements"
OPEN_FOLDER = "measuring"  # what it is called while parts are written
PART_CELLS = 1 << 20
_HELD = 16  # parts that are kept once they were read
_SLACK = 1 << 16  # bytes of a file beside its numbers


def part_name(part: int) -> str:
    """The file of one part."""
    return f"{FOLDER}/part-{part:05d}.parquet"


def part_bytes(integers: NDArray[np.int64]) -> Any:
    """The content of the file of one part."""
    sink = pa.BufferOutputStream()
    table = pa.table([pa.array(integers)], pa.schema([pa.field(COLUMN, pa.int64(), nullable=False)]))
    pq.write_table(table, sink, compression="none", use_dictionary=False, column_encoding="DELTA_BINARY_PACKED")
    return sink.getvalue()


def part_room(cells: int) -> int:
    """The most bytes that the file of a part of so many cells may have."""
    return 9 * cells + _SLACK


def part_starts(cells: int) -> list[int]:
    """Where the parts of so many cells begin, and where the last one ends."""
    return [*range(0, cells, PART_CELLS), cells]


class PartedIntegers:
    """An array of integers, (cells,), that is read part by part; an index or a slice of it is a plain array.

    Args:
        folder: the release.
        starts: where each part begins, and the number of cells at the end, (parts + 1,).
        digests: file → SHA-256, as the release states them; each is compared when its file is first read.

    Raises:
        FileError: when a part is read that was changed, or is not what it should be.
    """

    dtype = np.dtype(np.int64)
    ndim = 1

    def __init__(self, folder: Path, starts: Sequence[int], digests: Mapping[str, str]) -> None:
        self.folder, self._digests = folder, digests
        self._starts = np.array(starts, dtype=np.int64)
        if self._starts.ndim != 1 or len(self._starts) < 2 or self._starts[0] or (np.diff(self._starts) <= 0).any():
            raise ValueError("its parts do not follow each other")
        self.size = int(self._starts[-1])
        self.shape = (self.size,)
        self.part = lru_cache(maxsize=_HELD)(self._read)

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: Any) -> NDArray[np.int64]:
        if isinstance(index, slice):
            first, stop, step = index.indices(self.size)
            return self._between(first, max(first, stop))[::step] if step > 0 else np.asarray(self)[index]
        places = np.asarray(index)
        if places.dtype == bool:
            places = np.flatnonzero(places)
        flat = places.ravel()
        integers = np.empty(flat.shape, dtype=np.int64)
        flat = np.where(flat < 0, flat + self.size, flat)
        parts = np.searchsorted(self._starts, flat, side="right") - 1
        for part in np.unique(parts).tolist():
            here = parts == part
            integers[here] = self.part(part)[flat[here] - self._starts[part]]
        return integers.reshape(places.shape)

    def _between(self, first: int, stop: int) -> NDArray[np.int64]:
        low, high = (int(np.searchsorted(self._starts, at, side="right")) - 1 for at in (first, max(first, stop - 1)))
        if low == high:  # a view
            return self.part(low)[first - self._starts[low] : stop - self._starts[low]]
        integers = np.concatenate([self.part(part) for part in range(low, high + 1)])
        return integers[first - self._starts[low] : stop - self._starts[low]]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        whole = np.empty(self.size, dtype=np.int64)
        for part in range(len(self._starts) - 1):
            whole[self._starts[part] : self._starts[part + 1]] = self._read(part)
        return whole if dtype is None else whole.astype(dtype)

    def _read(self, part: int) -> NDArray[np.int64]:
        name, cells = part_name(part), int(self._starts[part + 1] - self._starts[part])
        where = f"{name!r} in {str(self.folder)!r}"
        with open_regular(self.folder / name) as file:
            if os.fstat(file.fileno()).st_size > part_room(cells):
                raise FileError(f"{name!r} in {str(self.folder)!r} is longer than it can be; do not trust the release.")
            content = file.read()
        if hashlib.sha256(content).hexdigest() != self._digests.get(name):
            raise FileError(f"{where} was changed after it was written; do not trust the release.")
        try:
            opened = pq.ParquetFile(pa.BufferReader(content))
            kind, groups = opened.schema_arrow, range(opened.metadata.num_row_groups)
            bytes_claimed = sum(opened.metadata.row_group(i).total_byte_size for i in groups)
            fits = kind.names == [COLUMN] and kind.field(0).type == pa.int64() and opened.metadata.num_rows == cells
            if not fits or bytes_claimed > part_room(cells):
                raise ValueError
            column = opened.read().column(0).combine_chunks()
            if column.null_count or len(column) != cells:
                raise ValueError
        except (pa.ArrowException, OSError, ValueError):
            raise FileError(f"{where} does not hold its measurements; copy it again.") from None
        # Not `to_numpy`, which imports pandas where that is installed: half a second, for nothing.
        integers: NDArray[np.int64] = np.frombuffer(column.buffers()[1], dtype=np.int64)
        return integers[column.offset : column.offset + cells]
