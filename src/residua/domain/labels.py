"""Labels: millions as one array of bytes, looked up by a sorted index and packed for files; lists of them in files.

A file has one value per line or in a column, a column per level, or every code with its parent.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, overload

import numpy as np
from numpy.typing import NDArray

from residua.errors import DomainError

if TYPE_CHECKING:
    from residua.domain.values import Lookup


Bytes = NDArray[np.bytes_]
_MOST_BYTES = 2**31  # of all labels together
_MOST_PACKED = 2**31  # that text from a file may unpack to
_CHUNK = 2**16
_TABLES = (".csv", ".tsv", ".parquet")


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
            raise DomainError(f"{_text(ordered[twice[0]])!r} is listed twice; list every code once.")
        if last is not None and self.codes(np.array([last.encode()]))[0] >= 0:
            raise DomainError(f"{last!r} is the name of the cell for other values; rename it.")

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
        import pyarrow as pa

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
        return self.last if self.last is not None and place == len(self.array) else _text(self.array[place])

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self.array), _CHUNK):
            yield from map(_text, self.array[start : start + _CHUNK].tolist())
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
            raise ValueError(f"{label!r} is no label")
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


def _text(label: bytes) -> str:
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
    import pyarrow as pa
    import pyarrow.compute as pc

    column = given.combine_chunks() if isinstance(given, pa.ChunkedArray) else given
    if isinstance(column, pa.ChunkedArray):  # several chunks remain where offsets would not fit
        column = pa.concat_arrays(column.cast(pa.large_binary()).chunks)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_integer(column.type):
        column = column.cast(pa.string())
    if column.null_count or not (
        pa.types.is_string(column.type)
        or pa.types.is_large_string(column.type)
        or pa.types.is_large_binary(column.type)
        or pa.types.is_binary(column.type)
    ):
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


_KEYS = {"file", "column"}


def values_of_file(path: str | Path, column: str | None = None) -> list[str]:
    """The values that a file lists, as text, in its order; blank lines are skipped.

    Args:
        path: text with one value per line, or a table (`.csv`, `.tsv`, `.parquet`) with a header.
        column: which column of a table; the first by default.

    Raises:
        DomainError: a file that cannot be read, or has no such column.
    """
    if Path(str(path)).suffix.lower() in _TABLES:
        return [text for text in map(_text, columns_of_file(path, [column], blank=True)[0]) if text.strip()]
    if column is not None:
        raise DomainError(f"values: {str(path)!r} has one value per line and no columns; leave column out.")
    with _opened(path) as file:
        return [line.strip("\r\n") for line in file if line.strip()]


def values_of_settings(declared: Mapping[str, Any], folder: Path) -> list[str]:
    """The values that `values = { file = "codes.csv", column = "code" }` lists."""
    if "file" not in declared or set(declared) - _KEYS:
        raise DomainError(f'values has the keys {sorted(declared)}; write {{ file = "codes.csv", column = "code" }}.')
    file, column = declared["file"], declared.get("column")
    if not isinstance(file, str) or not isinstance(column, str | None):
        raise DomainError(f"values: file = {file!r}, column = {column!r} are not text; name the file and the column.")
    return values_of_file(folder / file, column)


def columns_of_file(path: str | Path, wanted: Sequence[str | None], *, blank: bool = False) -> list[Bytes]:
    """Columns of a CSV or Parquet file as labels; None for the column at that place.

    Args:
        path: the file.
        wanted: the columns.
        blank: whether a label may be absent; it is empty then.

    Raises:
        DomainError: a file that cannot be read, has no such column, or blanks where there may be none.
    """
    table = _table(path)
    columns = []
    for place, name in enumerate(wanted):
        if name is None and place < table.num_columns:
            name = table.column_names[place]
        if name not in table.column_names:
            there = ", ".join(repr(each) for each in table.column_names[:8]) or "none"
            raise DomainError(f"{str(path)!r} has no column {name!r}; it has {there}.")
        column = table.column(name)
        if column.null_count and not blank:
            raise DomainError(f"column {name!r} of {str(path)!r} has blanks; give every code a group.")
        columns.append(labels_of(column.fill_null("") if column.null_count else column, f"column {name!r}"))
    return columns


@contextmanager
def _opened(path: str | Path) -> Iterator[TextIO]:
    """A file of public text.

    Raises:
        DomainError: it cannot be opened or, while it is read, turns out not to be sound.
    """
    if not isinstance(path, str | Path) or not str(path) or "\0" in str(path):
        raise DomainError(f"file = {path!r} is not a path; name the file.")
    if not Path(path).is_file():
        raise DomainError(f"{str(path)!r} is not a file; check the path.")
    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as file:
            yield file
    except UnicodeDecodeError:
        raise DomainError(f"{str(path)!r} is not encoded in UTF-8; save it as UTF-8.") from None
    except OSError as problem:
        raise DomainError(f"cannot read {str(path)!r}: {problem.strerror or problem}; check the path.") from None
    except (ValueError, NotImplementedError, csv.Error):  # Arrow's errors among them
        raise DomainError(f"{str(path)!r} is not a sound text or Parquet file; convert or repair it.") from None


def _table(path: str | Path) -> Any:
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq

    with _opened(path) as file:
        suffix = Path(path).suffix.lower()
        if suffix == ".parquet":
            return pq.read_table(path)
        first = file.readline()
        delimiter = "\t" if suffix == ".tsv" else ";" if ";" in first and "," not in first else ","
        header = next(csv.reader([first], delimiter=delimiter), [])
        text = pa.csv.ConvertOptions(  # codes are text, whatever they look like: 01 is not 1
            column_types=dict.fromkeys(header, pa.string()), strings_can_be_null=True, null_values=[""]
        )
        return pa.csv.read_csv(path, parse_options=pa.csv.ParseOptions(delimiter=delimiter), convert_options=text)


def levels_of_parents(children: Bytes, parents: Bytes, depth: int) -> tuple[Bytes, list[Bytes]]:
    """The codes that are nobody's parent, and the group of each on every level, finest first.

    Raises:
        DomainError: a parent that is not listed although others of its level are, or codes at different depths.
    """
    width = max(children.dtype.itemsize, parents.dtype.itemsize)
    children, parents = children.astype(f"S{width}"), parents.astype(f"S{width}")
    listed = LabelArray(children)
    above = np.where(parents == b"", -1, listed.codes(parents))
    is_parent = np.zeros(len(children), dtype=bool)
    is_parent[above[above >= 0]] = True
    leaves = np.flatnonzero(~is_parent)
    if not len(leaves):
        raise DomainError("codes: every code is the parent of another; the file goes round in circles.")
    at, groups = leaves, []
    for step in range(depth):
        ends = parents[at] == b""
        if ends.any():
            raise DomainError(
                f"codes: {children[leaves[np.flatnonzero(ends)[0]]].decode()!r} has {step} levels above it, not "
                f"{depth}; "
                "name as many levels as there are, and let all codes lie equally deep."
            )
        groups.append(parents[at])
        unlisted = above[at] < 0
        if unlisted.any() and (step < depth - 1 or not unlisted.all()):
            missing = parents[at[np.flatnonzero(unlisted)[0]]].decode()
            raise DomainError(f"codes: the parent {missing!r} is not listed as a code itself; add a row for it.")
        if not unlisted.any():
            at = above[at]
        elif step == depth - 1:
            return children[leaves], groups
    if (parents[at] != b"").any():
        deeper = children[leaves[np.flatnonzero(parents[at] != b"")[0]]].decode()
        raise DomainError(f"codes: {deeper!r} has more than {depth} levels above it; name them all.")
    return children[leaves], groups
