"""A digest of records that does not depend on how they are cut into batches, nor on the width of their types."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def digest_of_records(names: Sequence[str], batches: Iterable[Any]) -> str:
    """SHA-256 over the columns' names, kinds, absent places and values, in the order of the rows.

    Each column feeds its own three hashes (which rows are absent, the lengths of text, the values), so that
    the cuts between batches leave no trace.
    """
    columns = [_ColumnDigest() for _ in names]
    for batch in batches:
        for digest, column in zip(columns, batch.columns, strict=True):
            digest.add(column)
    whole = hashlib.sha256()
    for name, digest in zip(names, columns, strict=True):
        whole.update(f"{len(name)}:{name}:{digest.hexdigest()}".encode())
    return whole.hexdigest()


class _ColumnDigest:
    def __init__(self) -> None:
        self._kinds: set[str] = set()
        self._present = hashlib.sha256()
        self._lengths = hashlib.sha256()
        self._values = hashlib.sha256()

    def add(self, column: Any) -> None:
        kind, column = _canonical(column)
        present = column.is_valid().to_numpy(zero_copy_only=False)
        self._present.update(present.astype(np.uint8).tobytes())
        values = pa.concat_arrays([column.drop_null()])
        if not len(values):
            return
        self._kinds.add(kind)
        if kind == "text":
            self._lengths.update(pc.binary_length(values).to_numpy().astype(np.int64).tobytes())
            offsets = np.frombuffer(values.buffers()[1], dtype=np.int64)
            first, last = offsets[values.offset], offsets[values.offset + len(values)]
            self._values.update(values.buffers()[2][first:last] if last > first else b"")
        else:
            self._values.update(values.to_numpy(zero_copy_only=False).tobytes())

    def hexdigest(self) -> str:
        parts = (self._present, self._lengths, self._values)
        return "+".join(sorted(self._kinds)) + ":" + ":".join(part.hexdigest() for part in parts)


def _canonical(column: Any) -> tuple[str, Any]:
    """The column as one of few types: whole numbers, numbers with NaN absent, or text for all else."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _canonical(column.dictionary_decode())
    if pa.types.is_boolean(kind):
        return "boolean", column.cast(pa.uint8())
    if pa.types.is_integer(kind):
        return "integer", column.cast(pa.int64(), safe=False)
    if pa.types.is_floating(kind):
        column = column.cast(pa.float64())
        return "float", pc.if_else(pc.is_nan(column), pa.scalar(None, pa.float64()), column)
    try:
        return "text", column.cast(pa.large_string())
    except pa.ArrowException:  # nested values
        texts = [None if value is None else repr(value) for value in column.to_pylist()]
        return "text", pa.array(texts, type=pa.large_string())
