"""Lists of labels in files: one value per line or in a column, names beside them, a column per level, or parents."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import repeat
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from residua.domain.described import described_column, is_description
from residua.domain.labels import Bytes, LabelArray, labels_of, text_of
from residua.errors import DomainError, named
from residua.machine import parquet as pq, pyarrow as pa

_TABLES = (".csv", ".tsv", ".parquet")
_KEYS = ("file", "column", "names", "encoding")


def values_of_file(
    path: str | Path, column: str | None = None, names: str | None = None, encoding: str | None = None
) -> dict[Any, Any]:
    """The values that a file lists, in its order, each with its name, "" where it has none.

    Args:
        path: text with one value per line, or a table (`.csv`, `.tsv`, `.parquet`) with a header; blanks are skipped.
            Or a Data Package, a DDI codebook or an SDMX structure (`.json`, `.xml`).
        column: which column of a table, the first by default; or which variable, dimension or code list.
        names: the column of their names; the second, where a table has two columns and no column is asked for.
        encoding: of text, UTF-8 by default.

    Raises:
        DomainError: a file that cannot be read, has no such column, or lists a value twice.
    """
    if is_description(path):
        said = described_column(path, column)
        return {value: said.get("meanings", {}).get(str(value), "") for value in said["values"]}
    if Path(str(path)).suffix.lower() not in _TABLES:
        if column is not None or names is not None:
            raise DomainError(f"values: {str(path)!r} has one value per line and no columns; leave column out.")
        with _opened(path, encoding) as file:
            return _once([(line.strip("\r\n"), "") for line in file if line.strip()])
    table = _table(path, encoding)
    if names is None and column is None and table.num_columns == 2:
        names = table.column_names[1]
    values, *named = columns_of(table, path, [column, *([names] if names else [])], blank=True)
    titles = map(text_of, named[0]) if named else repeat("")
    return _once([(text, title) for text, title in zip(map(text_of, values), titles, strict=False) if text.strip()])


def _once(pairs: list[tuple[str, str]]) -> dict[str, str]:
    each = {value: name.strip() for value, name in pairs}
    if len(each) < len(pairs):
        twice = next(value for value, times in Counter(value for value, _ in pairs).items() if times > 1)
        raise DomainError(f"category {twice!r} is listed twice; list every category once.")
    return each


def values_of_settings(declared: Mapping[str, Any], folder: Path) -> dict[Any, Any]:
    """The values, and their names, that `values = { file = "codes.csv", column = "code", names = "name" }` lists."""
    if "file" not in declared or set(declared) - {*_KEYS}:
        raise DomainError(
            f'values has the keys {sorted(declared)}; write {{ file = "codes.csv", column = "code", names = "name" }}.'
        )
    if not isinstance(declared["file"], str) or not all(isinstance(value, str) for value in declared.values()):
        shown = ", ".join(f"{key} = {value!r}" for key, value in declared.items())
        raise DomainError(f"values: {shown} are not text; name the file and the column.")
    rest = {key: value for key, value in declared.items() if key != "file"}
    return values_of_file(folder / declared["file"], **rest)


def columns_of_file(
    path: str | Path, wanted: Sequence[str | None], *, blank: bool = False, encoding: str | None = None
) -> list[Bytes]:
    """Columns of a CSV or Parquet file as labels; None for the column at that place.

    Args:
        path: the file.
        wanted: the columns.
        blank: whether a label may be absent; it is empty then.
        encoding: of text, UTF-8 by default.

    Raises:
        DomainError: a file that cannot be read, has no such column, or blanks where there may be none.
    """
    if is_description(path):
        raise DomainError(f"{str(path)!r} lists codes with their parents; give levels, and child = its code list.")
    return columns_of(_table(path, encoding), path, wanted, blank=blank)


def columns_of(table: Any, path: str | Path, wanted: Sequence[str | None], *, blank: bool = False) -> list[Bytes]:
    """The same of a table that was read from the file."""
    columns = []
    for place, name in enumerate(wanted):
        if name is None and place < table.num_columns:
            name = table.column_names[place]
        if name not in table.column_names:
            there = ", ".join(repr(each) for each in table.column_names[:8]) or "none"
            raise DomainError(f"{str(path)!r} has no column {named(name)}; it has {there}.")
        column = table.column(name)
        if column.null_count and not blank:
            raise DomainError(f"column {named(name)} of {str(path)!r} has blanks; give every code a group.")
        columns.append(labels_of(column.fill_null("") if column.null_count else column, f"column {name!r}"))
    return columns


@contextmanager
def _opened(path: str | Path, encoding: str | None = None) -> Iterator[TextIO]:
    """A file of public text.

    Raises:
        DomainError: it cannot be opened or, while it is read, turns out not to be sound.
    """
    if not isinstance(path, str | Path) or not str(path) or "\0" in str(path):
        raise DomainError(f"file = {named(path)} is not a path; name the file.")
    if not Path(path).is_file():
        raise DomainError(f"{str(path)!r} is not a file; check the path.")
    try:
        with Path(path).open(encoding=encoding or "utf-8-sig", newline="") as file:
            yield file
    except UnicodeError:
        known = encoding or "UTF-8"
        raise DomainError(f"{str(path)!r} is not encoded in {known}; save it as UTF-8, or name its encoding.") from None
    except LookupError:
        raise DomainError(f"encoding={encoding!r} is not known; write 'cp1252', for example.") from None
    except OSError as problem:
        raise DomainError(f"cannot read {str(path)!r}: {problem.strerror or problem}; check the path.") from None
    except (ValueError, NotImplementedError, csv.Error) as problem:  # Arrow's errors among them
        fields = re.search(r"Expected (\d+) columns, got (\d+)", str(problem))
        why = f"has a row of {fields[2]} fields where the first has {fields[1]}" if fields else "is not sound"
        raise DomainError(
            f"{str(path)!r} {why}; repair it, and put names that hold the delimiter into quotes."
        ) from None


def _table(path: str | Path, encoding: str | None = None) -> Any:

    with _opened(path, encoding) as file:
        suffix = Path(path).suffix.lower()
        if suffix == ".parquet":
            return pq.read_table(path)
        first = file.readline()
        delimiter = "\t" if suffix == ".tsv" else max(";\t|,", key=first.count)  # names hold commas
        header = next(csv.reader([first], delimiter=delimiter), [])
        text = pa.csv.ConvertOptions(  # codes are text, whatever they look like: 01 is not 1
            column_types=dict.fromkeys(header, pa.string()), strings_can_be_null=True, null_values=[""]
        )
        return pa.csv.read_csv(
            path,
            read_options=pa.csv.ReadOptions(encoding=encoding or "utf8"),
            parse_options=pa.csv.ParseOptions(delimiter=delimiter),
            convert_options=text,
        )


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
                f"codes: {named(children[leaves[np.flatnonzero(ends)[0]]].decode())} has {step} levels above it, not "
                f"{depth}; name as many levels as there are, and let all codes lie equally deep."
            )
        groups.append(parents[at])
        unlisted = above[at] < 0
        if unlisted.any() and (step < depth - 1 or not unlisted.all()):
            missing = parents[at[np.flatnonzero(unlisted)[0]]].decode()
            raise DomainError(f"codes: the parent {named(missing)} is not listed as a code itself; add a row for it.")
        if not unlisted.any():
            at = above[at]
        elif step == depth - 1:
            return children[leaves], groups
    if (parents[at] != b"").any():
        deeper = children[leaves[np.flatnonzero(parents[at] != b"")[0]]].decode()
        raise DomainError(f"codes: {named(deeper)} has more than {depth} levels above it; name them all.")
    return children[leaves], groups
