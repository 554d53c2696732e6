"""The sheet of one table: one attribute across and the others down, totals, and beside every number its error.

How poor a number is stands behind it as a letter, which is part of its format: the cell holds a number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

from residua.formats.about import About, title_of_measure
from residua.formats.crosstab import Crosstab, crosstab
from residua.formats.cube import Cube
from residua.language import say
from residua.published.quality import CODES, FLAGS, meaning
from residua.showing import printable

_LONGEST = 32_000  # characters of a cell
_HEAD = 5  # rows above the table: title, unit, what ± and letters mean, the way back
_GREY = "#57606a"
STYLES: dict[str, dict[str, Any]] = {
    "title": {"bold": True, "font_size": 14},
    "head": {"bold": True, "bottom": 1, "text_wrap": True, "valign": "bottom"},
    "heads": {"bold": True, "bottom": 1, "text_wrap": True, "valign": "bottom", "align": "right"},
    "above": {"bold": True, "align": "center", "bottom": 4, "text_wrap": True},
    "label": {"align": "left", "num_format": "0"},
    "total": {"align": "left", "bold": True},
    "note": {"text_wrap": True, "valign": "top"},
    "term": {"text_wrap": True, "valign": "top", "bold": True},
    "link": {"font_color": "#0a5ea8", "underline": 1},
    "grey": {"font_color": _GREY},
    "": {},
}


def number_style(decimals: int, grade: int = 0, total: bool = False, margin: bool = False) -> dict[str, Any]:
    """Digits, which Excel shows as its reader's language writes them, and the letter of a poor number."""
    letter = f'" {CODES[grade]}"' if grade > 0 else f"_ _{CODES[-1]}"
    digits = "#,##0" + (f".{'0' * decimals}" if decimals else "")
    if margin:
        return {"num_format": f'"± "{digits}', "align": "left", "font_color": _GREY, "bold": total}
    return {"num_format": digits + letter, "bold": total}


def cell(text: str) -> str:
    """A text as a cell may hold it."""
    return printable(text)[:_LONGEST]


@dataclass(frozen=True, eq=False)
class Sheet:
    """Writes a table on a sheet.

    Args:
        sheet: of XlsxWriter, empty; rows are written from the top down.
        cube: the table.
        about: what stands beside it.
        style: the format of a style, kept by the workbook.
        contents: the name of the sheet to go back to.
    """

    sheet: Any
    cube: Cube
    about: About
    style: Callable[..., Any]
    contents: str

    @cached_property
    def table(self) -> Crosstab:
        """The numbers with their totals."""
        return crosstab(self.cube)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """What is shown of each number where one attribute is across: its error, or its interval."""
        wanted = ("estimate", "margin") if "margin" in self.table.numbers else ("estimate", "lower", "upper")
        return tuple(name for name in wanted if name in self.table.numbers)

    def write(self) -> None:
        """Writes all of it."""
        self._write_head()
        titles, across = list(self.table.titles), self.table.across
        keys = [each.title for each in self.cube.dimensions]
        if across is None:
            measures = tuple(name for name in self.table.numbers if name != "margin")
            heads = [title_of_measure(name) for name in measures] + ([say("Quality")] if self.cube.has_bars else [])
            self._begin(_HEAD, keys, titles, heads)
            self._write_rows(_HEAD + 1, titles, measures)
            return
        above, key = titles.pop(across), keys.pop(across)
        self._text(_HEAD, len(keys), key, "term")
        for j, title in enumerate(above):
            first, wide = len(keys) + j * len(self.columns), len(self.columns)
            if wide == 1:
                self._text(_HEAD + 1, first, str(title), "above")
            else:
                self.sheet.merge_range(
                    _HEAD + 1, first, _HEAD + 1, first + wide - 1, cell(str(title)), self.style("above")
                )
        heads = ["±" if name == "margin" else title_of_measure(name) for name in self.columns] * len(above)
        self._begin(_HEAD + 2, keys, titles, heads)
        self._write_rows(_HEAD + 3, titles, self.columns, across)

    def _write_head(self) -> None:
        self._text(0, 0, self.cube.title, "title")
        own = say("Unit: {counts}.", counts=self.cube.unit(self.about.counts))
        self._text(1, 0, self.about.unit_of_numbers if self.cube.counted else own, "grey")
        if self.table.across is not None and "margin" in self.columns:
            level = 100 * (self.about.confidence or math.nan)
            flags = "; ".join(f"{CODES[i]}: {say(FLAGS[i])} ({meaning()[FLAGS[i]]})" for i in (1, 2))
            half = say("±: half the width of the interval, whose confidence is {confidence:.10g} %", confidence=level)
            self._text(2, 0, half, "grey")
            self._text(3, 0, flags, "grey")
        self.sheet.write_url(
            4, 0, f"internal:'{self.contents}'!A1", self.style("link"), string=cell(f"← {say('Contents')}")
        )

    def _begin(self, row: int, keys: Sequence[str], titles: Sequence[Sequence[Any]], heads: Sequence[str]) -> None:
        """The line of heads, widths, and what stays on the screen and on every printed page."""
        for j, key in enumerate(keys):
            longest = max(len(key), *(len(str(title)) for title in titles[j]))
            self.sheet.set_column(j, j, min(max(longest + 2, 12), 48))
            self._text(row, j, key, "head")
        for j, head in enumerate(heads, start=len(keys)):
            self._text(row, j, head, "head" if head == "±" else "heads")
        largest = max((abs(v) for v in self.table.numbers["estimate"].flat if math.isfinite(v)), default=0.0)
        self.sheet.set_column(len(keys), len(keys) + len(heads), max(13, len(f"{largest:,.0f}") + 6))
        self.sheet.freeze_panes(row + 1, len(keys))
        self.sheet.repeat_rows(_HEAD, row)

    def _write_rows(
        self, row: int, titles: Sequence[Sequence[Any]], columns: Sequence[str], across: int | None = None
    ) -> None:
        table, words = self.table, across is None and self.cube.has_bars
        decimals = min(max(self.cube.decimals - 2, 0), 6)  # the last is worth at most a standard error
        places = [None] if across is None else range(len(table.titles[across]))
        for i, down in enumerate(product(*(range(len(along)) for along in titles)), start=row):
            total = table.totals and any(place == len(along) - 1 for along, place in zip(titles, down, strict=True))
            for j, place in enumerate(down):
                self._label(i, j, titles[j][place], total)
            column = len(down)
            for beside in places:
                at = down if across is None else (*down[:across], beside, *down[across:])
                for name in columns:
                    self._number(i, column, name, at, 0 if words else int(table.grades[at]), decimals)
                    column += 1
                if words and table.grades[at] >= 0:
                    self._text(i, column, say(FLAGS[int(table.grades[at])]), "total" if total else "")

    def _number(self, row: int, column: int, name: str, at: Any, grade: int, decimals: int) -> None:
        value = self.table.numbers[name][at]
        if math.isfinite(value):
            poor = grade if name == "estimate" else 0
            style = self.style(decimals, poor, self.table.is_total(at), name == "margin")
            self.sheet.write_number(row, column, value, style)

    def _label(self, row: int, column: int, label: str | int, total: bool) -> None:
        style = self.style("total" if total else "label")
        if isinstance(label, int):
            self.sheet.write_number(row, column, label, style)
        else:
            self.sheet.write_string(row, column, cell(label), style)

    def _text(self, row: int, column: int, text: str, style: str) -> None:
        self.sheet.write_string(row, column, cell(text), self.style(style))
