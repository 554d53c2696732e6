"""Lists of values in files: one per line or in a column, a column per level, or every code with its parent."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from residua.domain.labels import LabelArray, labels_of
from residua.errors import DomainError

_KEYS = {"file", "column"}
_MOST_BYTES = 2**26


def values_of_file(path: str | Path, column: str | None = None) -> list[str]:
    """The values that a file lists, as text, in its order; blank lines are skipped.

    Args:
        path: text with one value per line, or delimited text (`.csv`, `.tsv`) with a header.
        column: which column of delimited text; the first by default.

    Raises:
        DomainError: a file that cannot be read, or has no such column.
    """
    if not isinstance(path, str | Path) or not str(path) or "\0" in str(path):
        raise DomainError(f"values: file = {path!r} is not a path; name the file of values.")
    path = Path(path)
    delimiter = {".csv": ",", ".tsv": "\t"}.get(path.suffix.lower())
    if column is not None and delimiter is None:
        raise DomainError(f"values: {str(path)!r} has one value per line and no columns; leave column out.")
    try:
        if not path.is_file() or path.stat().st_size > _MOST_BYTES:
            raise DomainError(f"values: {str(path)!r} is not a file of values; check the path.")
        with path.open(encoding="utf-8-sig", newline="") as file:
            if delimiter is None:
                return [line.strip("\r\n") for line in file if line.strip()]
            return _column(csv.reader(file, delimiter=delimiter, strict=True), column, path)
    except OSError as problem:
        raise DomainError(f"values: cannot read {str(path)!r}: {problem.strerror}; check the path.") from None
    except (csv.Error, UnicodeDecodeError):
        raise DomainError(f"values: {str(path)!r} is not sound UTF-8 text; convert or repair it.") from None


def values_of_settings(declared: Any, folder: Path) -> Any:
    """What `values = …` declares: the list itself, or what `{ file = "codes.csv", column = "code" }` lists."""
    if not isinstance(declared, Mapping):
        return declared
    if "file" not in declared or set(declared) - _KEYS:
        raise DomainError(f'values has the keys {sorted(declared)}; write {{ file = "codes.csv", column = "code" }}.')
    file, column = declared["file"], declared.get("column")
    if not isinstance(file, str) or not isinstance(column, str | None):
        raise DomainError(f"values: file = {file!r}, column = {column!r} are not text; name the file and the column.")
    return values_of_file(folder / file, column)


def _column(rows: Any, column: str | None, path: Path) -> list[str]:
    header: list[str] = next(rows, [])
    if not header or (column is not None and column not in header):
        there = ", ".join(repr(name) for name in header[:8]) or "none"
        raise DomainError(f"values: {str(path)!r} has no column {column!r}; it has {there}.")
    place = 0 if column is None else header.index(column)
    return [row[place] for row in rows if len(row) > place and row[place].strip()]


Bytes = NDArray[np.bytes_]


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
            raise DomainError(f"codes: {str(path)!r} has no column {name!r}; it has {there}.")
        column = table.column(name)
        if column.null_count and not blank:
            raise DomainError(f"codes: column {name!r} of {str(path)!r} has blanks; give every code a group.")
        columns.append(labels_of(column.fill_null("") if column.null_count else column, f"codes: column {name!r}"))
    return columns


def _table(path: str | Path) -> Any:
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq

    if not isinstance(path, str | Path) or not str(path) or "\0" in str(path):
        raise DomainError(f"codes: file = {path!r} is not a path; name the file of codes.")
    place = Path(path)
    try:
        if not place.is_file():
            raise DomainError(f"codes: {str(path)!r} is not a file; check the path.")
        if place.suffix.lower() == ".parquet":
            return pq.read_table(place)
        delimiter = "\t" if place.suffix.lower() == ".tsv" else ","
        with place.open("rb") as file:  # codes are text, whatever they look like: 01 is not 1
            header = pa.csv.open_csv(file, parse_options=pa.csv.ParseOptions(delimiter=delimiter)).schema.names
        text = pa.csv.ConvertOptions(
            column_types=dict.fromkeys(header, pa.string()), strings_can_be_null=True, null_values=[""]
        )
        return pa.csv.read_csv(place, parse_options=pa.csv.ParseOptions(delimiter=delimiter), convert_options=text)
    except OSError as problem:
        raise DomainError(f"codes: cannot read {str(path)!r}: {problem.strerror or problem}.") from None
    except pa.ArrowException:
        raise DomainError(f"codes: {str(path)!r} is not a sound CSV or Parquet file; convert or repair it.") from None


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
