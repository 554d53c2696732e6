"""An Excel workbook as offices publish it: contents, notes, a sheet per table as people read it, and all as rows."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import xlsxwriter
from xlsxwriter.exceptions import XlsxWriterException

from residua.errors import FileError
from residua.formats.about import About, title_of_measure
from residua.formats.cube import Cube
from residua.formats.sheet import STYLES, Sheet, cell, number_style
from residua.formats.writer import Writer
from residua.language import say
from residua.published.quality import CODES, FLAGS, meaning
from residua.showing import printable

FILE = "tables.xlsx"
_MOST_ROWS, _LONGEST_NAME = 2**20 - 16, 31


class Workbook(Writer):
    """Writes all tables into one workbook, row by row: what is written is not kept in memory."""

    def __init__(self, folder: Path, about: About, **options: Any) -> None:
        super().__init__(folder, about, **options)
        path = self.path = folder / FILE
        # No text becomes a formula, a link or a number; rows go to disk as they come.
        settings = {"constant_memory": True, "strings_to_formulas": False, "strings_to_urls": False,
                    "strings_to_numbers": False, "nan_inf_to_errors": True, "tmpdir": str(path.parent)}  # fmt: skip
        self.book = xlsxwriter.Workbook(str(path), settings)
        self.book.set_properties({"title": cell(about.title), "comments": cell(" ".join(about.notes))})
        self.style = cache(self._style)
        self.contents, self.notes = self._added(say("Contents")), self._added(say("Notes"))
        self.rows = self._added(say("All numbers"))
        self.listed, self.filled = 7, 1
        self._begin_contents()
        self._write_notes()
        self._begin_rows()

    def _style(self, *style: Any) -> Any:
        return self.book.add_format(STYLES[style[0]] if isinstance(style[0], str) else number_style(*style))

    def _added(self, name: str) -> Any:
        sheet = self.book.add_worksheet(name)
        sheet.hide_gridlines(2)
        sheet.set_landscape()
        sheet.set_paper(9)  # A4
        sheet.fit_to_pages(1, 0)
        return sheet

    def _begin_contents(self) -> None:
        sheet = self.contents
        for j, width in enumerate((8, 70, 14)):
            sheet.set_column(j, j, width)
        sheet.write_string(0, 0, cell(self.about.title), self.style("title"))
        sheet.write_string(1, 0, cell(self.about.protection), self.style("grey"))
        links = {
            self.notes: say("Notes: who is protected, and how to read the numbers"),
            self.rows: say("All numbers, one per row, for filters and pivot tables"),
        }
        for row, (other, words) in enumerate(links.items(), start=3):
            sheet.write_url(row, 1, f"internal:'{other.get_name()}'!A1", self.style("link"), string=words)
        for j, words in enumerate((say("No."), say("Table"), say("Numbers"))):
            sheet.write_string(6, j, words, self.style("heads" if j == 2 else "head"))
        sheet.freeze_panes(7, 0)

    def _write_notes(self) -> None:
        self.notes.set_column(0, 0, 26)
        self.notes.set_column(1, 1, 100)
        self.notes.write_string(0, 0, say("Notes"), self.style("title"))
        for row, (term, words) in enumerate(self._notes(), start=2):
            self.notes.set_row(row, 15 * max(math.ceil(len(words) / 95), math.ceil(len(term) / 24)))
            self.notes.write_string(row, 0, cell(term), self.style("term"))
            self.notes.write_string(row, 1, cell(words), self.style("note"))

    def _notes(self) -> Iterator[tuple[str, str]]:
        about = self.about
        yield say("Who is protected"), about.protection
        yield say("Numbers"), about.numbers
        yield from (("", words) for words in about.changed)
        if not about.biased and about.confidence is not None:
            reading = say(
                "A number and its ± make an interval. If the noise were drawn anew many times, {confidence:.10g} of "
                "100 such intervals would hold the count without noise. Mistakes in the data are not in it.",
                confidence=100 * about.confidence,
            )
            yield say("How to read ±"), reading
        if not about.biased:
            yield from ((f"{code}: {say(flag)}", meaning()[flag]) for flag, code in zip(FLAGS, CODES, strict=True))
        yield say("Total"), say("Totals are numbers of the release in their own right, with errors of their own.")
        yield from ((title_of_measure(name), words) for name, words in about.measures.items())
        yield say("Unit"), about.unit_of_numbers
        yield say("Origin"), about.notes[-1]

    def _begin_rows(self) -> None:
        heads = [say("No."), say("Table"), *map(title_of_measure, self.about.measures)]
        heads += [] if self.about.biased else [say("Quality")]
        for i in range(1, self.ways + 1):
            heads += [say("Attribute {i}", i=i), say("Value {i}", i=i), say("Code {i}", i=i)]
        self.rows.set_column(0, 0, 6)
        self.rows.set_column(1, len(heads) - 1, 16)
        self.rows.freeze_panes(1, 2)
        for j, head in enumerate(heads):
            self.rows.write_string(0, j, cell(head), self.style("head"))

    def add(self, cube: Cube) -> Path:
        """Writes a table on a sheet of its own, and its numbers below those of the tables before it."""
        if len(cube) > _MOST_ROWS:
            raise FileError(
                f"the table {cube.title!r} has {len(cube):,} rows, too many for a sheet; use csv or parquet."
            )
        name = _sheet_name(cube)
        self.contents.write_number(self.listed, 0, cube.number, self.style("label"))
        self.contents.write_url(self.listed, 1, f"internal:'{name}'!A1", self.style("link"), string=cell(cube.title))
        self.contents.write_number(self.listed, 2, len(cube), self.style(0))
        self.listed += 1
        Sheet(self._added(name), cube, self.about, self.style, self.contents.get_name()).write()
        self._add_rows(cube)
        return self.path

    def _add_rows(self, cube: Cube) -> None:
        """The numbers of a table as rows; those that no sheet has room for are on their table's own."""
        columns = [cube.measures[name].tolist() for name in self.about.measures if name in cube.measures]
        places = [j for j, name in enumerate(self.about.measures, start=2) if name in cube.measures]
        flags, words = cube.flags(FLAGS), 2 + len(self.about.measures)
        style, title = self.style(min(cube.decimals, 6)), cell(cube.title)
        for i, at in enumerate(np.ndindex(*cube.shape)):
            if self.filled >= _MOST_ROWS:
                self.rows.write_string(
                    self.filled, 1, say("More numbers do not fit here; they are on the sheets of their tables.")
                )
                return
            self.rows.write_number(self.filled, 0, cube.number)
            self.rows.write_string(self.filled, 1, title)
            for j, values in zip(places, columns, strict=True):
                if math.isfinite(values[i]):
                    self.rows.write_number(self.filled, j, values[i], style)
            if (flag := flags[i]) is not None:
                self.rows.write_string(self.filled, words, say(flag))
            for axis, place in enumerate(at):
                each, first = cube.dimensions[axis], words + (not self.about.biased) + 3 * axis
                for j, text in enumerate((each.title, each.titles[place], each.codes[place]), start=first):
                    self.rows.write_string(self.filled, j, cell(text))
            self.filled += 1

    def close(self) -> None:
        """Writes the file; all numbers come last, though they were written along the way."""
        self.rows.autofilter(
            0, 0, self.filled - 1, 1 + len(self.about.measures) + (not self.about.biased) + 3 * self.ways
        )
        sheets = self.book.worksheets_objs
        sheets.append(sheets.pop(sheets.index(self.rows)))
        for i, sheet in enumerate(sheets):
            sheet.index = i
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


def _sheet_name(cube: Cube) -> str:
    """A sheet's name, unlike any other by its number: at most 31 characters, none of `[]:*?/\\`."""
    plain = re.sub(r"[\[\]:*?/\\'\x00-\x1f]+", " ", printable(cube.title)).strip()
    return f"{cube.number} {plain}"[:_LONGEST_NAME].strip()
