"""Labels: millions as one array of bytes, looked up by a sorted index and packed for files."""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

from residua.errors import DomainError, named
from residua.machine import compute as pc, pyarrow as pa

if TYPE_CHECKING:
    from residua.domain.values import Lookup


Bytes = NDArray[np.bytes_]
_MOST_BYTES = 2**31  # of all labels together
_MOST_PACKED = 2**31  # that text from a file may unpack to
_CHUNK = 2**16


class LabelArray(Sequence[str]):
    """Distinct labels, as UTF-8 in an array of fixed width. Behaves as a tuple of text that is never made.

    Args:
        array: the labels, (labels,), of dtype `S`.
        last: one label more at the end, such as that of other values.

    Raises:
        DomainError: a label that is empty, no text in UTF-8, or stands twice.
    """

    def __init__(self, array: Bytes, last: str | None = None) -> None:
        self.array = np.ascontiguousarray(array)
        self.array.setflags(write=False)
        self.last = last
        if self.array.nbytes > _MOST_BYTES:
            raise DomainError(f"labels take {self.array.nbytes / 1e9:.1f} GB; use shorter codes.")
        if not (self.array != b"").all():
            raise DomainError("a label is empty; give every value a code.")
        _require_text(self.array)
        ordered = self.array[self._order]
        twice = np.flatnonzero(ordered[1:] == ordered[:-1])
        if len(twice):
            raise DomainError("a code is listed twice; list every code once.")
        if last is not None and self.codes(np.array([last.encode()]))[0] >= 0:
            raise DomainError(f"{named(last)} is the name of the cell for other values; rename it.")

    @cached_property
    def _order(self) -> NDArray[np.int32]:
        """Places in sorted order; most lists are in order already."""
        if (self.array[1:] > self.array[:-1]).all():
            return np.arange(len(self.array), dtype=np.int32)
        return np.argsort(self.array, kind="stable").astype(np.int32)

    @cached_property
    def _sorted(self) -> Bytes:
        return self.array[self._order]

    @cached_property
    def digest(self) -> bytes:
        """What two equal lists have in common, and no others."""
        return hashlib.sha256(f"{self.array.dtype.itemsize} {self.last!r} ".encode() + self.array.tobytes()).digest()

    @cached_property
    def lookup(self) -> Lookup:
        """What finds labels in Arrow data by a table that is made once."""
        from residua.domain.values import Lookup

        return Lookup(pa.array(self.array, pa.large_binary()).cast(pa.large_string()))

    def codes(self, wanted: Bytes) -> NDArray[np.int32]:
        """The place of each label, −1 for one that is none of these, (wanted,)."""
        if wanted.dtype.itemsize > self.array.dtype.itemsize:  # longer than any: compare at the longer width
            fits = np.char.str_len(wanted) <= self.array.dtype.itemsize
            wanted = np.where(fits, wanted, b"").astype(self.array.dtype)
        at = np.minimum(np.searchsorted(self._sorted, wanted), len(self.array) - 1)
        return np.where(self._sorted[at] == wanted, self._order[at], np.int32(-1)).astype(np.int32)

    def __len__(self) -> int:
        return len(self.array) + (self.last is not None)

    @overload
    def __getitem__(self, place: int) -> str: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[str]: ...

    def __getitem__(self, place: int | slice) -> str | Sequence[str]:
        if isinstance(place, slice):
            return [self[i] for i in range(*place.indices(len(self)))]
        place = range(len(self))[place]
        return self.last if self.last is not None and place == len(self.array) else text_of(self.array[place])

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self.array), _CHUNK):
            yield from map(text_of, self.array[start : start + _CHUNK].tolist())
        if self.last is not None:
            yield self.last

    def __contains__(self, label: object) -> bool:
        return isinstance(label, str) and (label == self.last or bool(self.codes(np.array([label.encode()]))[0] >= 0))

    def index(self, label: Any, start: int = 0, stop: int | None = None) -> int:
        """The place of a label.

        Raises:
            ValueError: there is none such.
        """
        if label not in self:
            raise ValueError(f"{named(label)} is no label")
        return len(self.array) if label == self.last else int(self.codes(np.array([label.encode()]))[0])

    def __eq__(self, other: object) -> bool:
        if isinstance(other, LabelArray):
            return self is other or self.digest == other.digest
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"LabelArray({len(self):,}: {self[0]!r} … {self[-1]!r})"


def _require_text(labels: Bytes) -> None:
    """Refuses labels that are not UTF-8, which readers of Parquet do not look at."""
    if len(labels) and int(labels.view(np.uint8).max()) < 128:
        return
    try:
        np.char.decode(labels, "utf-8")
    except UnicodeDecodeError:
        raise DomainError("a label is not encoded in UTF-8; save the codes as UTF-8.") from None


def text_of(label: bytes) -> str:
    """A label as text."""
    return bytes(label).decode()


def labels_of(given: Any, what: str) -> Bytes:
    """Labels as bytes, from an Arrow or NumPy array or any sequence of text.

    Raises:
        DomainError: something that is not text, or absent.
    """
    if hasattr(given, "combine_chunks") or hasattr(given, "buffers"):
        return _of_arrow(given, what)
    array = np.asarray(given)
    if array.dtype.kind == "S":
        return array
    if array.dtype.kind in "iu":
        return array.astype("S")
    try:
        return np.char.encode(array.astype("U"), "utf-8") if all(isinstance(x, str) for x in given) else _refused(what)
    except TypeError:
        return _refused(what)


def _refused(what: str) -> Bytes:
    raise DomainError(f"{what} are not text; give every value a code as text.")


def _of_arrow(given: Any, what: str) -> Bytes:

    column = given.combine_chunks() if isinstance(given, pa.ChunkedArray) else given
    if isinstance(column, pa.ChunkedArray):  # several chunks remain where offsets would not fit
        column = pa.concat_arrays(column.cast(pa.large_binary()).chunks)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_integer(column.type):
        column = column.cast(pa.string())
    if column.null_count or column.type not in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary()):
        return _refused(what)
    column = column.cast(pa.large_binary())
    if not len(column):
        return np.zeros(0, dtype="S1")
    widths = pc.binary_length(column)
    width = pc.max(widths).as_py()
    if not width or pc.min(widths).as_py() < width:
        return np.array(column.to_pylist(), dtype=f"S{max(width, 1)}")
    offsets, data = column.buffers()[1], column.buffers()[2]
    first = np.frombuffer(offsets, dtype=np.int64, count=1, offset=8 * column.offset)[0]
    return np.frombuffer(data, dtype=f"S{width}", count=len(column), offset=int(first))


def packed_labels(labels: Bytes) -> dict[str, Any]:
    """Labels as plain values; letter by letter, since neighbours begin alike."""
    letters = np.ascontiguousarray(labels.view(np.uint8).reshape(len(labels), -1).T)
    return {"number": len(labels), "width": labels.dtype.itemsize, "packed": _packed(letters.tobytes())}


def unpacked_labels(body: Any) -> Bytes:
    """The labels that plain values describe."""
    number, width = int(body["number"]), int(body["width"])
    letters = np.frombuffer(_unpacked(body["packed"], number * width), dtype=np.uint8).reshape(width, number)
    return np.ascontiguousarray(letters.T).view(f"S{width}").ravel()


def packed_codes(codes: NDArray[np.int32]) -> dict[str, Any]:
    """Whole numbers as plain values; their steps, since neighbours are alike."""
    return {"number": len(codes), "packed": _packed(np.diff(codes, prepend=np.int32(0)).astype("<i4").tobytes())}


def unpacked_codes(body: Any) -> NDArray[np.int32]:
    """The whole numbers that plain values describe."""
    steps = np.frombuffer(_unpacked(body["packed"], 4 * int(body["number"])), dtype="<i4")
    return np.cumsum(steps, dtype=np.int64).astype(np.int32)


def _packed(raw: bytes) -> str:
    return base64.b64encode(zlib.compress(raw, 1)).decode()


def _unpacked(text: str, size: int) -> bytes:
    """The bytes behind packed text, no more than were announced."""
    if not 0 <= size <= _MOST_PACKED:
        raise ValueError("a list of labels is too long")
    raw = zlib.decompressobj().decompress(base64.b64decode(text, validate=True), size + 1)
    if len(raw) != size:
        raise ValueError("a list of labels is not as long as it says")
    return raw
