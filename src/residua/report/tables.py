"""All tables of a release as a report lists them: numbers, for large ones a picture, how to get what is left out."""

from __future__ import annotations

import base64
import shlex
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
from markupsafe import Markup

from residua.domain.words import title_in_words, title_of
from residua.errors import PlanError
from residua.language import say
from residua.report.charts import draw_bars, draw_heat
from residua.report.pictures import every_interval, heading_of, table_series
from residua.report.series import Series, series_of
from residua.report.svg import figure

LISTED = 600  # tables that are named
_BARS = 20  # values of one attribute that are drawn
_CELLS = 1_000  # numbers of a table that is written out
_PAGE = 14_000  # numbers of all tables that are written out: about 300 kB
_LARGEST = 2**16  # cells of a table that is made to be drawn
_LINES = 20_000  # values of attributes that are written line by line: some 500 kB
_LEAST, _COMPARED = 4096, 4_000_000  # cells beyond which the largest of a table are shown, and of all such tables
_TEAL = bytes((31, 138, 156))  # to be seen on light and on dark paper


@dataclass(frozen=True)
class Listed:
    """A table of the list.

    Args:
        title: what it is called.
        size: how many numbers it has.
        note: what a reader should know of its numbers.
        drawn: its numbers, or a picture of them; None where it is left out.
        command: how to get it.
        whole: whether all its numbers are written out.
        reliable: how many of them are reliable; None where they have no flags, or it is left out.
    """

    title: str
    size: int
    note: str
    drawn: Markup | None
    command: str
    whole: bool
    reliable: int | None = None


def every_table(published: Any) -> list[Listed]:
    """The tables of a release or a projection that a report names, each with its numbers or how to get them."""
    room, compared, lines, rows = _PAGE, _COMPARED, _LINES, []
    for names, size, make in islice(_tables(published), LISTED):
        table = make() if size <= _LARGEST else None
        shown = table is not None and size <= min(room, _CELLS)
        room -= size if shown else 0
        listed = _listed(published, names, size, table, shown=shown)
        by_value = table is None or table.title in ("", " × ".join(names))  # not running sums, or groups of a level
        alone = len(names) == 1 and not shown
        if by_value and (_CELLS if alone else _LEAST) < size <= compared:
            compared -= max(size, _LARGEST)  # a page of many tables stays short
            listed = replace(listed, drawn=(listed.drawn or Markup()) + _largest(published, names, listed))
        if alone and table is not None and size <= lines:
            lines -= size
            listed = replace(listed, drawn=(listed.drawn or Markup()) + _by_lines(table_series(table)))
        rows.append(listed)
    return rows


def _largest(published: Any, names: Sequence[str], listed: Listed) -> Markup:
    """The largest counts of a table as bars, with ranks and intervals that allow for the choice; or nothing."""
    try:
        top = published.top(names)
    except PlanError:  # an amount, of which there are sums; or an attribute that is called like a column
        return Markup()
    said = say("The {few} largest of {all} counts.", few=len(top), all=listed.size)
    attributes = [published.domain[name] for name in names]
    places = [" × ".join(map(title_of, attributes, cell)) for cell in zip(*(top[name] for name in names), strict=True)]
    if top.confidence is not None:
        ends = zip(places, top["rank_lower"], top["rank_upper"], strict=True)
        places = [say("{place} (rank {low} to {high})", place=place, low=low, high=high) for place, low, high in ends]
        said += " " + say("Intervals and ranks allow for the choice, in which noise had a part.")
    series = series_of(top, ("",), (places,))
    said += "" if series.every is None else f" {every_interval(series.every)}"
    return Markup("<p>{}</p>").format(said) + draw_bars(series, listed.title)


def _by_lines(series: Series) -> Markup:
    """Every value of a long attribute, a line each, folded: a browser's search looks into it."""
    lines = (f"{label}: {series.value(i)} {series.margin(i)}".rstrip() for i, label in enumerate(series.labels[0]))
    summary = say("All {n} values, line by line; the browser's search finds them.", n=len(series.labels[0]))
    written = Markup('<details class="lines"><summary>{}</summary><pre>{}</pre></details>')
    return written.format(summary, "\n".join(lines))


def _tables(published: Any) -> Iterator[tuple[tuple[str, ...], int, Any]]:
    """Attributes, number of cells, and how to make it, of each table; smaller ones first where all are marginals."""
    asked = published.plan.workload
    tables = None if asked is None else asked.tables
    if tables is None:
        if asked is not None and asked.queries <= _LARGEST:
            yield ("query",), asked.queries, lambda: published.answers(asked)
    elif tables.plain:
        for names in sorted(islice(tables.sets, LISTED), key=len):
            yield names, published.domain.cells(names), lambda names=names: published.table(names)
    else:
        for table in published.tables(most=_LARGEST):
            yield table.attributes, len(table), lambda table=table: table


def _listed(published: Any, names: tuple[str, ...], size: int, table: Any, *, shown: bool) -> Listed:
    command = f"residua table DIR {shlex.join(names)}".rstrip()
    if table is None:
        return Listed(title_in_words(published.domain, " × ".join(names)), size, "", None, command, whole=False)
    title, series = heading_of(table), table_series(table)
    note = "" if series.every is None else f"± {figure(series.every)}"
    flags = None if series.grades is None else int(np.sum(series.grades == 0))
    drawn = _numbers(series, title) if shown else raster(series, title) if len(names) == 2 else None
    return Listed(title, len(table), note, drawn, command, shown, flags)


def _numbers(series: Series, title: str) -> Markup:
    """Few values of one attribute: bars beside the numbers; else a shaded table, its shortest axis across."""
    axes = len(series.labels)
    if axes == 0:
        return draw_bars(replace(series, names=("",), labels=((say("all"),),)).mapped(np.atleast_1d), title)
    if axes == 1 and len(series.labels[0]) <= _BARS:
        return draw_bars(series, title)
    if axes == 1:
        return draw_heat(replace(series, names=(*series.names, ""), labels=(*series.labels, (say("numbers"),))), title)
    across = min(range(axes), key=lambda i: len(series.labels[i]))
    return draw_heat(series.turned([*(i for i in range(axes) if i != across), across]), title)


def raster(series: Series, title: str) -> Markup:
    """A heat map of a large table as a picture, one dot per cell: some kilobytes for thousands of numbers."""
    down, across = series.labels
    sizes = np.nan_to_num(np.clip(series.estimates, 0.0, None))
    shades = np.round(15 * np.sqrt(sizes / max(float(sizes.max()), 1e-9))).astype(np.uint8)
    lines = b"".join(b"\0" + bytes(row) for row in shades)
    head = struct.pack(">IIBBBBB", len(across), len(down), 8, 3, 0, 0, 0)
    chunks = {b"IHDR": head, b"PLTE": _TEAL * 16, b"tRNS": bytes(range(0, 256, 17)), b"IDAT": zlib.compress(lines, 9)}
    png = b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in (*chunks.items(), (b"IEND", b"")))
    words = say(
        "From left to right: {across}, {first} to {last}. Downwards: {down}, {top} to {bottom}. The stronger the "
        "colour, the larger the number.",
        across=series.names[1],
        first=across[0],
        last=across[-1],
        down=series.names[0],
        top=down[0],
        bottom=down[-1],
    )
    picture = Markup('<img class="raster" src="data:image/png;base64,{}" alt="{}" width="{}" height="{}">')
    drawn = picture.format(
        base64.b64encode(png).decode(), say("Heat map of {title}", title=title), len(across), len(down)
    )
    return drawn + Markup("<p>{}</p>").format(words)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
