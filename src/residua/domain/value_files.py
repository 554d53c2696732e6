"""Lists of categories in a file of their own: a code list, one value per line or in a column of a CSV file."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

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
