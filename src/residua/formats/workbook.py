"""An Excel workbook as offices publish it: notes first, then one sheet per table with units, errors and flags."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import xlsxwriter
from xlsxwriter.exceptions import XlsxWriterException

from residua.errors import FileError
from residua.formats.about import TITLES, About
from residua.formats.cube import Cube
from residua.formats.writer import Writer
from residua.published.quality import FLAGS, meaning
from residua.showing import printable

FILE = "tables.xlsx"
_MOST_ROWS, _LONGEST, _LONGEST_NAME = 2**20 - 8, 32_000, 31


class Workbook(Writer):
    """Writes all tables into one workbook, row by row: what is written is not kept in memory."""

    def __init__(self, folder: Path, about: About, **options: Any) -> None:
        super().__init__(folder, about, **options)
        path = self.path = folder / FILE
        # No text becomes a formula, a link or a number; rows go to disk as they come.
        options = {"constant_memory": True, "strings_to_formulas": False, "strings_to_urls": False,
                   "strings_to_numbers": False, "nan_inf_to_errors": True, "tmpdir": str(path.parent)}  # fmt: skip
        self.book = xlsxwriter.Workbook(str(path), options)
        self.book.set_properties({"title": _cell(about.title), "comments": _cell(" ".join(about.notes))})
        formats = {"title": {"bold": True, "font_size": 14}, "head": {"bold": True, "bottom": 1, "text_wrap": True},
                   "note": {"text_wrap": True, "valign": "top"}, "link": {"font_color": "#0a5ea8", "underline": 1},
                   "label": {"align": "left", "num_format": "0"},
                   "grey": {"font_color": "#57606a", "italic": True}}  # fmt: skip
        self.styles: dict[str, Any] = {name: self.book.add_format(style) for name, style in formats.items()}
        self.styles |= {
            f"n{i}": self.book.add_format({"num_format": "#,##0" + (f".{'0' * i}" if i else "")}) for i in range(7)
        }
        self.names: set[str] = {"notes"}
        self.notes = self.book.add_worksheet("Notes")
        self.row = 0
        self._write_notes()

    def _write_notes(self) -> None:
        self.notes.set_column(0, 0, 24)
        self.notes.set_column(1, 1, 90)
        self._note(_cell(self.about.title), style="title")
        self.row += 1
        for words in self.about.notes:
            head, _, rest = words.partition(": ")
            self._note(head, rest) if rest else self._note("", words)
        for name, words in self.about.measures.items():
            self._note(TITLES[name], words)
        if not self.about.biased:
            for flag, words in meaning().items():
                self._note(flag, words)
        self.row += 1
        self._note("Sheet", "Table", style="head")

    def _note(self, first: str, second: str = "", *, style: str = "note") -> None:
        self.notes.write_string(self.row, 0, _cell(first), self.styles[style])
        if second:
            self.notes.write_string(self.row, 1, _cell(second), self.styles["note" if style == "note" else style])
        self.row += 1

    def add(self, cube: Cube) -> Path:
        """Writes a table on a sheet of its own."""
        if len(cube) > _MOST_ROWS:
            raise FileError(
                f"the table {cube.title!r} has {len(cube):,} rows, too many for a sheet; use csv or parquet."
            )
        name = self._sheet_name(cube)
        sheet = self.book.add_worksheet(name)
        self.notes.write_url(self.row, 0, f"internal:'{name}'!A1", self.styles["link"], string=name)
        self.notes.write_string(self.row, 1, _cell(cube.title))
        self.row += 1
        keys = len(cube.dimensions)
        heads = [each.title for each in cube.dimensions] + [TITLES[m] for m in cube.measures]
        heads += ["Quality"] if cube.has_bars else []
        sheet.set_column(0, max(keys - 1, 0), 22)
        sheet.set_column(keys, len(heads), 14)
        sheet.freeze_panes(4, keys)
        sheet.write_string(0, 0, _cell(cube.title), self.styles["title"])
        sheet.write_string(1, 0, _cell(f"Unit: {self.about.counts}. {self.about.protection}"), self.styles["grey"])
        for j, head in enumerate(heads):
            sheet.write_string(3, j, _cell(head), self.styles["head"])
        self._rows(sheet, cube, keys)
        return self.path

    def _rows(self, sheet: Any, cube: Cube, keys: int) -> None:
        titles = [[_label(*each) for each in zip(axis.labels, axis.titles, strict=True)] for axis in cube.dimensions]
        columns = [values.tolist() for values in cube.measures.values()]
        flags = cube.flags(FLAGS)
        style = self.styles[f"n{min(cube.decimals, 6)}"]
        for i, cell in enumerate(np.ndindex(*cube.shape)):
            for j, along in enumerate(cell):
                title = titles[j][along]
                if isinstance(title, int):
                    sheet.write_number(4 + i, j, title, self.styles["label"])
                else:
                    sheet.write_string(4 + i, j, title)
            for j, values in enumerate(columns):
                if math.isfinite(values[i]):
                    sheet.write_number(4 + i, keys + j, values[i], style)
            if flags[i] is not None:
                sheet.write_string(4 + i, keys + len(columns), flags[i])

    def close(self) -> None:
        """Writes the file."""
        try:
            self.book.close()
        except XlsxWriterException as problem:
            raise FileError(f"cannot write the workbook: {str(problem).rstrip('.')}; nothing was written.") from None

    def abandon(self) -> None:
        """Keeps the library from writing the file when it is thrown away."""
        self.book.fileclosed = 1
        for sheet in self.book.worksheets():
            rows = getattr(sheet, "row_data_fh", None)  # where rows wait
            if rows is not None:
                rows.close()

    def _sheet_name(self, cube: Cube) -> str:
        """A sheet's name: at most 31 characters, none of `[]:*?/\\`, no two the same."""
        plain = re.sub(r"[\[\]:*?/\\'\x00-\x1f]+", " ", printable(cube.title)).strip() or "Table"
        name = f"{cube.number} {plain}"[:_LONGEST_NAME].strip()
        assert name.lower() not in self.names  # it begins with the table's number
        self.names.add(name.lower())
        return name


def _label(label: Any, title: str) -> str | int:
    """A value as a cell: a whole number is a number, unless it has a title of its own or Excel would change it."""
    plain = isinstance(label, int) and not isinstance(label, bool) and title == str(label) and abs(label) < 10**15
    return label if plain else _cell(title)


def _cell(text: str) -> str:
    return printable(text)[:_LONGEST]
