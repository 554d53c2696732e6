"""From a value to its place in a long list, by what is made once and kept with the list: hashes, or a sorted copy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from residua.domain.numbers import LIMIT, UNKNOWN, Codes

_LOAD = 2  # places of the table for each text, at least


class Lookup:
    """The places of distinct texts.

    Args:
        texts: the list, an Arrow array of text without nulls, or a sequence of text.
    """

    def __init__(self, texts: Any) -> None:
        from residua.domain.lookup_kernel import fill

        listed = _large(texts if isinstance(texts, pa.Array) else pa.array(texts, pa.large_string()))
        self._offsets, self._content = laid_out(listed)
        size = 1 << max(_LOAD * len(listed) - 1, 1).bit_length()
        self._slots = np.zeros(size, dtype=np.uint64)
        fill(self._offsets, self._content, self._slots)

    def codes(self, column: Any) -> Codes:
        """The place of every text, −1 for one that is not listed, (rows,); of a null that of an empty text."""
        from residua.domain.lookup_kernel import find

        offsets, content = laid_out(_large(column.fill_null("") if column.null_count else column))
        found = np.empty(len(column), dtype=np.int32)
        find(offsets, content, self._offsets, self._content, self._slots, found)
        return found


class Numbers:
    """The places of distinct whole numbers; those that no data can hold are never found.

    Args:
        values: the list.
    """

    def __init__(self, values: Sequence[Any]) -> None:
        keys = np.array([value if abs(value) < LIMIT else LIMIT for value in values], dtype=np.int64)
        self._order = np.argsort(keys).astype(np.int32)
        self._keys = keys[self._order]

    def codes(self, numbers: NDArray[np.int64]) -> Codes:
        """The place of every number, −1 for one that is not listed, (rows,)."""
        place = np.minimum(np.searchsorted(self._keys, numbers), len(self._keys) - 1)
        return np.where(self._keys[place] == numbers, self._order[place], np.int32(UNKNOWN))


def laid_out(texts: Any) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Where each text begins and the last one ends, (texts + 1,), and all bytes."""
    _, places, content = texts.buffers()
    offsets = np.frombuffer(places, dtype=np.int64)[texts.offset : texts.offset + len(texts) + 1]
    if content is None or not len(texts):
        return np.zeros(len(texts) + 1, dtype=np.int64), np.zeros(1, dtype=np.uint8)
    return offsets, np.frombuffer(content, dtype=np.uint8)


def _large(column: Any) -> Any:
    return column if pa.types.is_large_string(column.type) else column.cast(pa.large_string())
