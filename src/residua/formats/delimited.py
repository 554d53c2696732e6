"""CSV, with a Frictionless Data Package and CSVW metadata beside it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

from msgspec import Raw
from msgspec.json import encode

from residua.formats.about import About
from residua.formats.cube import Cube, Dimension
from residua.formats.writer import Behind, Writer
from residua.machine import processors, pyarrow as pa, there
from residua.published.csv_text import csv_text, inert_columns
from residua.published.quality import FLAGS
from residua.published.streaming import ROWS
from residua.showing import inert

_WAITING = 4  # jobs
_JOB_CELLS, _JOB_FILES = 1 << 16, 64  # of a job: threads are handed several small tables at a time


class Delimited(Writer):
    """Writes one CSV file per table, by several threads, and what stands beside them table by table too."""

    def __init__(self, folder: Path, about: About, **options: Any) -> None:
        super().__init__(folder, about, **options)
        self.beside = Beside(about, spreadsheet=self.spreadsheet)
        self.behind = Behind(processors(), _WAITING)
        self.job: list[tuple[Path, Cube]] = []
        self.cells_of_job = 0
        self.listings: list[tuple[Listing, Callable[[Cube, str], dict[str, Any]]]] = []
        if self.format != "csvw":
            head: dict[str, Any] = {
                "profile": "tabular-data-package",
                "name": "tables",
                "title": about.title,
                "description": "\n\n".join(about.notes),
                "residua": about.plain(),
            }
            self.listings.append((Listing(folder / "datapackage.json", head, "resources"), self.beside.resource))
        if self.format != "datapackage":
            head = {
                "@context": ["http://www.w3.org/ns/csvw", {"@language": about.language or "en"}],
                "dc:title": about.title,
                "dc:description": " ".join(about.notes),
            }
            self.listings.append((Listing(folder / "csv-metadata.json", head, "tables"), self.beside.csvw))

    def add(self, cube: Cube) -> Path:
        """Writes a table."""
        path = self.folder / f"{cube.name}.csv"
        for listing, entry in self.listings:
            listing.add(entry(cube, path.name))
        self.job.append((path, cube))
        self.cells_of_job += len(cube)
        if self.cells_of_job >= _JOB_CELLS or len(self.job) >= _JOB_FILES:
            self._hand_over()
        if len(cube) > ROWS:  # no other beside it in memory
            self.behind.wait()
        return path

    def _hand_over(self) -> None:
        self.behind.do(_write, self.job, self.spreadsheet)
        self.job, self.cells_of_job = [], 0

    def close(self) -> None:
        """Ends `datapackage.json` and `csv-metadata.json`, when all tables are written."""
        self._hand_over()
        self.behind.wait()
        self.behind.abandon()
        for listing, _ in self.listings:
            listing.close()

    def abandon(self) -> None:
        """Closes the two files, and lets no more be written."""
        self.behind.abandon()
        for listing, _ in self.listings:
            listing.file.close()


def _write(job: Sequence[tuple[Path, Cube]], spreadsheet: bool) -> None:
    """Writes some tables."""
    for path, cube in job:
        if not there("pyarrow"):
            path.write_text(csv_text(_columns(cube, spreadsheet)), "utf-8", newline="\n")
            continue
        batches = map(_inert, cube.batches()) if spreadsheet else cube.batches()
        first = next(batches)
        with pa.csv.CSVWriter(path, first.schema) as writer:
            for batch in chain([first], batches):
                writer.write_batch(batch)


def _columns(cube: Cube, spreadsheet: bool) -> dict[str, Any]:
    """What the batches of a table hold, by column."""
    keys = {name: cube.table.columns[name] for name in cube.table.keys}
    flags = {cube.flag_column: cube.flags(FLAGS)} if cube.has_bars else {}
    columns = {**keys, **cube.measures, **flags}
    return inert_columns(columns) if spreadsheet else columns


class Listing:
    """A JSON document that ends in a long list, written entry by entry."""

    def __init__(self, path: Path, head: dict[str, Any], name: str) -> None:
        self.file = path.open("wb")
        self.file.write(encode(head)[:-1] + b"," + encode(name) + b":[")
        self.between = b"\n"

    def add(self, entry: dict[str, Any]) -> None:
        """Writes an entry."""
        self.file.write(self.between + encode(entry))
        self.between = b",\n"

    def close(self) -> None:
        """Ends the document, and waits until the disk has it."""
        self.file.write(b"\n]}\n")
        self.file.flush()
        os.fsync(self.file.fileno())
        self.file.close()


def _inert(batch: Any) -> Any:
    """The batch without text that a spreadsheet would take for a formula."""
    columns = [
        pa.array([cell and inert(cell) for cell in each.to_pylist()], pa.string()) if each.type == pa.string() else each
        for each in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, list(map(inert, batch.schema.names)))


# ---- what stands beside the files: what is said of an axis is made once, and put together for each table


_KEPT = 1024  # axes


class Beside:
    """Makes the entries of tables.

    Args:
        about: what stands beside every table.
        spreadsheet: whether the text of the files cannot start a formula.
    """

    def __init__(self, about: About, *, spreadsheet: bool) -> None:
        self.about, self.spreadsheet = about, spreadsheet
        self._field = lru_cache(maxsize=_KEPT)(self._make_field)
        self._column = lru_cache(maxsize=_KEPT)(self._make_column)

    def resource(self, cube: Cube, path: str) -> dict[str, Any]:
        """A table as a resource of a data package."""
        measures = self.about.beside(cube.counted).measures
        fields: list[Any] = [self._field(each) for each in cube.dimensions]
        fields += [
            {"name": name, "type": "number", "description": words, "unit": cube.unit(self.about.counts)}
            for name, words in measures.items()
            if name in cube.measure_names
        ]
        if cube.has_bars:
            fields.append({"name": self._named(cube.flag_column), "type": "string", "constraints": {"enum": FLAGS}})
        return {
            "profile": "tabular-data-resource",
            "name": f"table-{cube.number:04d}",
            "path": path,
            "title": cube.title,
            "format": "csv",
            "mediatype": "text/csv",
            "encoding": "utf-8",
            "schema": {"fields": fields, **_primary([self._named(each.name) for each in cube.dimensions])},
        }

    def csvw(self, cube: Cube, path: str) -> dict[str, Any]:
        """A table as CSVW describes it."""
        columns = [self._column(each) for each in cube.dimensions]
        measures = self.about.beside(cube.counted).measures
        for name in cube.measure_names:
            words = f"{measures[name]}; unit: {cube.unit(self.about.counts)}"
            columns.append(self._described(name, "number", words, required=cube.complete))
        if cube.has_bars:
            flag = {"base": "string", "format": "|".join(FLAGS)}
            columns.append(
                self._described(cube.flag_column, flag, "how reliable the number is", required=cube.complete)
            )
        named = [{"name": f"c{i}", **column} for i, column in enumerate(columns, start=1)]
        keys = _primary([f"c{i + 1}" for i in range(len(cube.dimensions))])
        head = {"url": path, "dc:title": cube.title, "dc:description": self.about.protection}
        return {**head, "tableSchema": {"columns": named, **keys}}

    def _named(self, name: str) -> str:
        return inert(name) if self.spreadsheet else name

    def _make_field(self, each: Dimension) -> Raw:
        labels = each.labels if each.whole else [self._named(str(label)) for label in each.labels]
        field = {
            "name": self._named(each.name),
            "type": "integer" if each.whole else "string",
            "title": each.title,
            **({"description": each.description} if each.description else {}),
            "categories": [
                {"value": label, "label": title, "code": code}
                for label, title, code in zip(labels, each.titles, each.codes, strict=True)
            ],
            "constraints": {"required": True, "enum": labels},
        }
        return Raw(encode(field))

    def _make_column(self, each: Dimension) -> dict[str, Any]:
        words = ": ".join(filter(None, (each.title if each.title != each.name else "", each.description)))
        meant = [
            f"{label}: {title}" for label, title in zip(each.labels, each.titles, strict=True) if title != str(label)
        ]
        words = ". ".join(filter(None, (words.rstrip("."), "; ".join(meant))))
        return self._described(each.name, "integer" if each.whole else "string", words)

    def _described(self, name: str, datatype: Any, words: str, *, required: bool = True) -> dict[str, Any]:
        column = {"titles": self._named(name), "datatype": datatype, "required": required}
        return column | ({"dc:description": words} if words else {})


def _primary(keys: list[str]) -> dict[str, list[str]]:
    return {"primaryKey": keys} if keys else {}
