"""CSV, with a Frictionless Data Package and CSVW metadata beside it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from residua.formats.about import About
from residua.formats.behind import Behind
from residua.formats.beside import Beside
from residua.formats.cube import Cube
from residua.formats.lines import Lines, OtherForm
from residua.formats.writer import Writer
from residua.machine import processors
from residua.printable import inert
from residua.published.streaming import ROWS

_WAITING = 4  # jobs
_JOB_CELLS, _JOB_FILES = 1 << 16, 64  # of a job: threads are handed several small tables at a time
_WORTH_LOADING = 200_000  # cells: below, importing the compiled loops costs more than they save
_BESIDE = {"csv": ("datapackage", "csvw"), "datapackage": ("datapackage",), "csvw": ("csvw",)}


def opened(folder: Path, about: About, *, format: str = "csv", spreadsheet: bool = False) -> Delimited:
    """A writer of CSV files."""
    return Delimited(folder, about, _BESIDE[format], spreadsheet)


class Delimited(Writer):
    """Writes one CSV file per table, by several threads, and what stands beside them table by table too."""

    def __init__(self, folder: Path, about: About, beside: tuple[str, ...], spreadsheet: bool) -> None:
        super().__init__(folder, about)
        self.spreadsheet = spreadsheet
        self.beside = Beside(about, spreadsheet=spreadsheet)
        self.behind = Behind(processors(), _WAITING)
        self.lines = Lines(spreadsheet=spreadsheet)
        self.job: list[tuple[Path, Cube]] = []
        self.cells = self.cells_of_job = 0
        self.package = self.group = None
        if "datapackage" in beside:
            head: dict[str, Any] = {
                "profile": "tabular-data-package",
                "name": "tables",
                "title": about.title,
                "description": "\n\n".join(about.notes),
                "residua": about.plain(),
            }
            self.package = Listing(folder / "datapackage.json", head, "resources")
        if "csvw" in beside:
            head = {
                "@context": ["http://www.w3.org/ns/csvw", {"@language": about.language or "en"}],
                "dc:title": about.title,
                "dc:description": " ".join(about.notes),
            }
            self.group = Listing(folder / "csv-metadata.json", head, "tables")

    def add(self, cube: Cube) -> Path:
        """Writes a table."""
        path = self.folder / f"{cube.name}.csv"
        if self.package is not None:
            self.package.add(self.beside.resource(cube, path.name))
        if self.group is not None:
            self.group.add(self.beside.csvw(cube, path.name))
        self.job.append((path, cube))
        self.cells += len(cube)
        self.cells_of_job += len(cube)
        if self.cells_of_job >= _JOB_CELLS or len(self.job) >= _JOB_FILES:
            self._hand_over()
        if len(cube) > ROWS:  # no other beside it in memory
            self.behind.wait()
        return path

    def _hand_over(self) -> None:
        compiled = "numba" in sys.modules or self.cells >= _WORTH_LOADING
        self.behind.do(_write, self.job, self.lines if compiled else None, self.spreadsheet)
        self.job, self.cells_of_job = [], 0

    def close(self) -> None:
        """Ends `datapackage.json` and `csv-metadata.json`, when all tables are written."""
        self._hand_over()
        self.behind.wait()
        self.behind.abandon()
        for listing in filter(None, (self.package, self.group)):
            listing.close()

    def abandon(self) -> None:
        """Closes the two files, and lets no more be written."""
        self.behind.abandon()
        for listing in filter(None, (self.package, self.group)):
            listing.file.close()


def _write(job: Sequence[tuple[Path, Cube]], lines: Lines | None, spreadsheet: bool) -> None:
    """Writes some tables, by compiled loops if they are given and can, else by Arrow: the bytes are the same."""
    for path, cube in job:
        if lines is None or not _by_loops(path, lines.of(cube)):
            _by_arrow(path, iter([_inert_batch(cube)]) if spreadsheet else cube.batches())


def _by_loops(path: Path, parts: Iterator[memoryview] | None) -> bool:
    """Writes lines that were made; whether it could."""
    if parts is None:
        return False
    try:
        first = next(parts)  # before the file is there: small tables are all in it
        with path.open("wb") as file:
            file.write(first)
            for part in parts:
                file.write(part)
    except OtherForm:
        return False
    return True


def _by_arrow(path: Path, batches: Iterator[Any]) -> None:
    """Writes the batches of a table."""
    import pyarrow.csv

    first = next(batches)
    with pyarrow.csv.CSVWriter(path, first.schema) as writer:
        writer.write_batch(first)
        for batch in batches:
            writer.write_batch(batch)


class Listing:
    """A JSON document that ends in a long list, written entry by entry."""

    def __init__(self, path: Path, head: dict[str, Any], name: str) -> None:
        self.file = path.open("w", encoding="utf-8")
        text = json.dumps(head, ensure_ascii=False, indent=1)
        self.file.write(f"{text[:-2]},\n {json.dumps(name)}: [")
        self.first = True

    def add(self, entry: str) -> None:
        """Writes an entry, which is JSON already."""
        self.file.write(("\n" if self.first else ",\n") + entry)
        self.first = False

    def close(self) -> None:
        """Ends the document, and waits until the disk has it."""
        self.file.write("\n]}\n")
        self.file.flush()
        os.fsync(self.file.fileno())
        self.file.close()


def _inert_batch(cube: Cube) -> Any:
    import pyarrow

    columns = {inert(name): _inert_cells(values) for name, values in cube.tidy.items()}
    return pyarrow.table(columns).combine_chunks().to_batches()[0]


def _inert_cells(values: Any) -> Any:
    return [inert(x) if isinstance(x, str) else x for x in values] if isinstance(values, list) else values
