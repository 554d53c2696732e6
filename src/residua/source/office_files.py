"""Files of offices: sheets of Excel (and OpenDocument), and the files of SPSS, Stata and SAS with their dictionaries.

Values are read as they are stored: codes, not their labels. Codes that a file declares to be missing are absent. What
its dictionary declares (labels of variables and of values, missing codes) drafts a domain; it is not needed to read.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from datetime import datetime, time
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

from residua.errors import SourceError, named
from residua.machine import pyarrow as pa
from residua.source.dialect import kind_of
from residua.source.files import File, FilesSource, Paths, opened
from residua.source.frames import needed, read_by_library
from residua.source.options import NO_OPTIONS, Options
from residua.source.records import BATCH_ROWS, Draft
from residua.source.text_files import typed_array

_HEAD_ROWS = 1000


class ExcelSource(FilesSource):
    """One sheet of each workbook; its first row names the columns, and rows without any value are skipped."""

    def __init__(self, paths: Paths, options: Options = NO_OPTIONS, *, sheet: str | None = None) -> None:
        super().__init__(paths, options)
        if not isinstance(sheet, str | None):
            raise SourceError(f"sheet={named(sheet)} is not the name of a sheet; write it as text.")
        self.sheet = sheet

    def _rows(self, path: File) -> Iterator[list[Any]]:
        book = _workbook(path)
        names = book.sheet_names
        if self.sheet is None and len(names) != 1:
            listed = ", ".join(map(repr, names[:8]))
            raise SourceError(f"{str(path)!r} has the sheets {listed}; say which one with sheet = {names[0]!r}.")
        if self.sheet is not None and self.sheet not in names:
            listed = ", ".join(map(repr, names[:8]))
            raise SourceError(f"{str(path)!r} has no sheet {self.sheet!r}; it has {listed}.")
        with read_by_library(repr(str(path))):
            yield from (row for row in book.get_sheet_by_name(self.sheet or names[0]).iter_rows() if any(_held(row)))

    def _names(self, path: File) -> tuple[str, ...]:
        header = next(self._rows(path), None)
        if header is None:
            raise SourceError(f"{str(path)!r} is empty; the first row must name the columns.")
        return tuple(str(_cell(name) if name != "" else "").strip() for name in header)

    def drafted(self) -> Draft:
        """The columns, of the first sheet where there are several."""
        names = _workbook(self.files[0]).sheet_names
        several = self.sheet is None and len(names) > 1
        one = copy(self)
        one.sheet = names[0] if several else self.sheet
        header, *rows = islice(one._rows(self.files[0]), _HEAD_ROWS)
        if 2 * sum(_held(header)) <= (widest := max((sum(_held(row)) for row in rows), default=0)):
            raise SourceError(
                f"the first row of {str(self.files[0])!r} names {sum(_held(header))} of {widest} columns: it may be a "
                "title; remove what is above the names of the columns."
            )
        kinds = {
            str(name).strip(): kind_of([str(cell) for row in rows if (cell := _cell(row[place])) is not None], ".")
            for place, name in enumerate(header)
        }
        return Draft({name: kinds.get(name, "") for name in one.columns()}, {"sheet": names[0]} if several else {})

    def _read_one(self, path: File, columns: Sequence[str]) -> Iterator[Any]:
        rows = self._rows(path)
        next(rows, None)
        names = self._names(path)
        places = [names.index(name) for name in columns]
        while held := list(islice(rows, BATCH_ROWS)):
            yield _batch(held, places, columns, path)


def _batch(rows: list[list[Any]], places: list[int], columns: Sequence[str], path: File) -> Any:
    arrays = [
        typed_array([_cell(row[place]) if place < len(row) else None for row in rows], name, path)
        for place, name in zip(places, columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def _held(row: list[Any]) -> Iterator[bool]:
    return (value != "" and value is not None for value in row)


def _cell(value: Any) -> Any:
    """A value as other files write it: whole numbers without a fraction, days as 2024-01-31."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, datetime):
        return str(value.date() if value.time() == time() else value)
    if isinstance(value, str | bool | int | float):
        return None if value == "" else value
    return None if value is None else str(value)


def _workbook(path: File) -> Any:
    calamine = needed("python_calamine", "Excel files", "python-calamine", "excel")
    with opened(path) as raw, read_by_library(repr(str(path))):
        return calamine.CalamineWorkbook.from_filelike(io.BytesIO(raw.read()))


class DictionarySource(FilesSource):
    """Files of SPSS, Stata and SAS, by their suffix."""

    readers: ClassVar[Mapping[str, str]] = {
        ".sav": "read_sav",
        ".zsav": "read_sav",
        ".por": "read_por",
        ".dta": "read_dta",
        ".sas7bdat": "read_sas7bdat",
        ".xpt": "read_xport",
    }

    def _call(self, path: File, **options: Any) -> tuple[Any, Any]:
        pyreadstat = needed("pyreadstat", "files of SPSS, Stata and SAS", "pyreadstat", "spss")
        reader = self.readers.get(path.suffix.lower())
        if reader is None or not isinstance(path, Path):
            suffixes = ", ".join(self.readers)
            raise SourceError(f"{str(path)!r} is no file of SPSS, Stata or SAS here ({suffixes}); copy or rename it.")
        with opened(path), read_by_library(repr(str(path))):
            return getattr(pyreadstat, reader)(str(path), output_format="dict", **options)  # type: ignore[no-any-return]

    def _names(self, path: File) -> tuple[str, ...]:
        return tuple(self._call(path, metadataonly=True)[1].column_names)

    def rows_hint(self) -> int | None:
        """What the first file says of itself, if it is the only one."""
        return self._call(self.files[0], metadataonly=True)[1].number_rows if len(self.files) == 1 else None

    def _read_one(self, path: File, columns: Sequence[str]) -> Iterator[Any]:
        start, chunk = 0, 4 * BATCH_ROWS  # every chunk is looked for from the beginning of the file
        while True:
            content, _ = self._call(path, usecols=list(columns), row_offset=start, row_limit=chunk)
            arrays = [pa.array(content[name]) for name in columns]
            rows = len(arrays[0]) if arrays else 0
            if rows:
                yield from pa.table(arrays, names=list(columns)).to_batches(BATCH_ROWS)
            if rows < chunk:
                return
            start += chunk

    def drafted(self) -> Draft:
        """The columns with what the dictionary says of them: their labels, those of their values, missing codes."""
        path = self.files[0]
        user_missing = {"user_missing": True} if path.suffix.lower() in (".sav", ".zsav", ".dta") else {}
        _, meta = self._call(path, metadataonly=True, **user_missing)
        names = self.columns()
        declared = {name: said for name in names if (said := _declared(name, meta))}
        return Draft({name: _kind(name, meta) for name in names}, {}, declared)


def _declared(name: str, meta: Any) -> dict[str, Any]:
    """What the dictionary of a file says of a column, as the settings of an attribute."""
    missing = meta.missing_ranges.get(name, [])
    labels = {
        _cell(value): str(label).strip()
        for value, label in meta.variable_value_labels.get(name, {}).items()
        if isinstance(value, int | float | str)
        and value not in meta.missing_user_values.get(name, ())
        and not any(_within(value, span) for span in missing)
    }
    said: dict[str, Any] = {"title": meta.column_names_to_labels.get(name) or ""}
    whole = all(isinstance(value, int) for value in labels)
    if labels and (whole or all(isinstance(value, str) for value in labels)):
        said["values"] = list(labels)
        said["meanings"] = {str(value): label for value, label in labels.items() if label}
    if missing or meta.missing_user_values.get(name):
        said["missing"] = "other"
    return {key: value for key, value in said.items() if value}


def _within(value: Any, span: Mapping[str, Any]) -> bool:
    try:
        return bool(span["lo"] <= value <= span["hi"])
    except TypeError:  # text and numbers
        return False


def _kind(name: str, meta: Any) -> str:
    form = str(meta.original_variable_types.get(name) or "").upper()
    if meta.readstat_variable_types.get(name) == "string":
        return "text"
    if any(word in form for word in ("DATE", "%T", "YYMMDD", "DDMMYY", "MMDDYY")):
        return "dates"
    return "whole numbers" if form.startswith("F") and form.endswith(".0") else "numbers"
