"""CSV, with a Frictionless Data Package and CSVW metadata beside it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from residua.formats.about import About
from residua.formats.behind import Behind
from residua.formats.beside import Beside
from residua.formats.cube import Cube
from residua.formats.writer import Writer
from residua.machine import processors
from residua.printable import inert
from residua.published.streaming import ROWS

_WAITING = 8  # files
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
        if self.spreadsheet:
            self.behind.do(_write, path, iter([_inert_batch(cube)]))
        elif len(cube) <= ROWS:  # one batch, made here: what the table's numbers are kept in may be used again
            self.behind.do(_write, path, iter(list(cube.batches())))
        else:
            self.behind.wait()
            _write(path, cube.batches())
        if self.package is not None:
            self.package.add(self.beside.resource(cube, path.name))
        if self.group is not None:
            self.group.add(self.beside.csvw(cube, path.name))
        return path

    def close(self) -> None:
        """Ends `datapackage.json` and `csv-metadata.json`, when all tables are written."""
        self.behind.wait()
        self.behind.abandon()
        for listing in filter(None, (self.package, self.group)):
            listing.close()

    def abandon(self) -> None:
        """Closes the two files, and lets no more be written."""
        self.behind.abandon()
        for listing in filter(None, (self.package, self.group)):
            listing.file.close()


def _write(path: Path, batches: Iterator[Any]) -> None:
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
