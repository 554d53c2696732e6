"""Writing all tables of a release or a projection in one of the formats: a folder that is whole or absent.

Tables are made, written and forgotten one by one: no format holds them all in memory.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from residua.errors import PlanError, named
from residua.folders import sync_files, whole_folder
from residua.formats.about import about
from residua.formats.crosstab import margins_of
from residua.formats.cube import Cube, Dimension, cube_of
from residua.formats.long import NAMES, numbered, write_long
from residua.formats.writer import Writer
from residua.language import mark, say, spoken
from residua.machine import missing
from residua.projection.rounded import Rounded
from residua.projection.tables import MadeFrom
from residua.published.quality import Flag, check_flag
from residua.release import Release
from residua.release.tabled import Tabled
from residua.release.tables import MOST_ROWS, refusal, require_listable, too_long
from residua.workload import Workload

TITLE = mark("Queries")  # of answers to single queries
RECORDS, OTHER = mark("records"), mark("as each query says")
# Format → the module and the class that writes it, and the extra that it needs.
FORMATS: dict[str, tuple[str, str, str]] = {
    "csv": ("delimited", "Delimited", ""),
    "parquet": ("parquet", "Parquet", ""),
    "long": ("long", "", ""),
    "long-csv": ("long", "", ""),
    "xlsx": ("workbook", "Workbook", "xlsx"),
    "jsonstat": ("jsonstat", "JsonStat", ""),
    "px": ("px", "Px", ""),
    "sdmx": ("sdmx", "Sdmx", "sdmx"),
    "datapackage": ("delimited", "Delimited", ""),
    "csvw": ("delimited", "Delimited", ""),
}


@spoken
def export(
    published: Any,
    folder: str | Path,
    format: str = "csv",
    *,
    confidence: float | None = None,
    title: str | None = None,
    suppress: Flag | None = None,
    full: bool = False,
    spreadsheet: bool = False,
    listing: Callable[[Cube, Path], None] | None = None,
    spark: Any = None,
    progress: Callable[..., None] | bool | None = None,
) -> list[Path]:
    """Writes every table that was asked for; see `Exported.export`.

    Args:
        published: a release, a projection or estimates, rounded or not.
        folder, format, confidence, title, suppress: as there.
        full: every digit.
        spreadsheet: CSV whose text cannot start a formula.
        listing: called with every table and its file.
        spark, progress: as there.
    """
    if format not in FORMATS:
        raise PlanError(f"format={named(format)} is not known; use one of {', '.join(FORMATS)}.")
    if not isinstance(published, Tabled):
        raise PlanError(f"{type(published).__name__} has no tables; give a release, a projection or estimates.")
    if spreadsheet and FORMATS[format][0] != "delimited":
        raise PlanError(f"spreadsheet is for CSV, not for {format}; leave it out.")
    plan = published.planned
    _pass_over(plan.workload)
    if suppress is not None:
        check_flag(suppress)
    release: Any = published.release if isinstance(published, MadeFrom) else published
    level = 0.95 if confidence is None else confidence
    name = title or (say("Tables of counts and sums") if published.domain.amounts else say("Tables of counts"))
    told_about = about(
        plan, published.receipt, title=name, confidence=level, biased=bool(published.biased),
        counts=unit_of(plan.workload), counted=published.counted, left_out=release.left_out is not None,
        changed=_changed(published, suppress),
    )  # fmt: skip
    target = Path(folder)
    if spark is not None:
        in_parquet = suppress is None and format in ("parquet", "long")  # for executors the same
        if not isinstance(published, Release) or not in_parquet:
            raise PlanError(
                "executors write the tables of a release as they are, as parquet; leave spark= away, or --on-executors."
            )
        from residua.formats.on_spark import export_on_executors

        return export_on_executors(
            published, target, spark, told_about, confidence=level or 0.95, full=full, progress=progress
        )
    if format in NAMES:
        with whole_folder(target, "folder of tables") as partial:
            write_long(published, partial / NAMES[format], told_about, suppress)
            sync_files(partial)
        return [target / NAMES[format]]
    make = writer_of(format)
    written: list[Path] = []

    def changed(table: Any) -> Any:
        return table if suppress is None else table.suppressed(suppress)

    known: dict[str, Dimension] = {}
    with whole_folder(target, "folder of tables") as partial:
        tables = plan.workload.tables if plan.workload is not None else None
        ways = max((len(names) for names in tables.sets), default=0) if tables is not None else 1
        writer = make(partial, told_about, format=format, spreadsheet=spreadsheet, ways=max(ways, 1))
        try:
            for i, table in enumerate(_tables(published, level), start=1):
                margin = margins_of(published, table, changed, confidence=level)
                cube = cube_of(changed(table), i, full=full, known=known, margin=margin)
                path = target / writer.add(cube).name
                written.append(path)
                if listing is not None:
                    listing(cube, path)
            writer.close()
            sync_files(partial)
        except BaseException:
            writer.abandon()
            raise
    return written


def _changed(published: Any, suppress: Flag | None) -> tuple[str, ...]:
    """What was done to the numbers besides, a sentence each."""
    rounded = say(
        "Numbers are rounded to whole ones, once for all tables, so that they add up; intervals allow for it."
    )
    blank = mark("Numbers that are “{flag}” or worse are left blank, and so are counts below zero.")
    blanks = () if suppress is None else (say(blank, flag=say(suppress)),)
    beyond = mark("Sums are of clipped amounts: {clipped}.")
    clipped = published.domain.clipping(published.domain.amounts)
    sums = (say(beyond, clipped=clipped),) if clipped else ()
    return (*([rounded] if isinstance(published, Rounded) else []), *blanks, *sums)


def _pass_over(workload: Workload | None) -> None:
    """Says of each term that is too long to list that it is left out.

    Raises:
        PlanError: there is nothing else to write.
    """
    if workload is None:
        return
    long = too_long(workload)
    if workload.tabular and len(long) == len(workload):
        require_listable(workload)
    for title, numbers in long:
        warnings.warn(refusal(title, numbers, left_out=True), stacklevel=4)


def writer_of(format: str) -> Callable[..., Writer]:
    """The writer of a format.

    Raises:
        ResiduaError: the library that the format needs is not installed.
    """
    module, name, extra = FORMATS[format]
    try:
        writer: Callable[..., Writer] = getattr(import_module(f"residua.formats.{module}"), name)
    except ImportError as problem:
        if not extra:
            raise
        raise missing(f'{problem.name} is not installed; install it with: pip install "residua[{extra}]"') from None
    return writer


def _tables(published: Any, confidence: float) -> Iterator[Any]:
    """Every table that was asked for, then what was asked as single queries."""
    workload = published.plan.workload
    alone = workload is not None and workload.tables is None  # queries, and no table beside them
    tables = () if alone else published.tables(confidence=confidence, most=MOST_ROWS)
    return chain(tables, answered(published, confidence=confidence))


def answered(published: Any, **options: Any) -> Iterator[Any]:
    """What was asked as single queries, as a table of one axis, so that every format can hold it; or nothing."""
    workload: Workload | None = published.plan.workload
    asked = None if workload is None else workload.single_queries
    if asked is None:
        return
    table = published.answers(asked, **options)
    seen: Counter[str] = Counter()
    yield replace(table, labels=(tuple(numbered(label, seen) for label in table.labels[0]),), title=say(TITLE))


def unit_of(workload: Workload | None) -> str:
    """What numbers count: records, or whatever queries add up."""
    parts = () if workload is None else workload.parts
    rows = [part.matrix.data for part in parts if not part.tabular]
    return RECORDS if all(np.isin(each, (0.0, 1.0)).all() for each in rows) else OTHER
