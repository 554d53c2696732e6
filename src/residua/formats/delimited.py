"""CSV, with a Frictionless Data Package and CSVW metadata beside it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from residua.formats.about import About
from residua.formats.cube import Cube
from residua.formats.quality import FLAGS
from residua.formats.writer import Writer
from residua.printable import inert

_BESIDE = {"csv": ("datapackage", "csvw"), "datapackage": ("datapackage",), "csvw": ("csvw",)}


def opened(folder: Path, about: About, *, format: str = "csv", spreadsheet: bool = False) -> Delimited:
    """A writer of CSV files."""
    return Delimited(folder, about, _BESIDE[format], spreadsheet)


class Delimited(Writer):
    """Writes one CSV file per table, and what stands beside them table by table too."""

    def __init__(self, folder: Path, about: About, beside: tuple[str, ...], spreadsheet: bool) -> None:
        super().__init__(folder, about)
        self.spreadsheet = spreadsheet
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
        import pyarrow
        import pyarrow.csv

        path = self.folder / f"{cube.name}.csv"
        batches = cube.batches()
        first = next(batches) if not self.spreadsheet else _inert_batch(cube)
        with path.open("wb") as file, pyarrow.csv.CSVWriter(file, first.schema) as writer:
            writer.write_batch(first)
            for batch in batches if not self.spreadsheet else ():
                writer.write_batch(batch)
        if self.package is not None:
            self.package.add(resource(cube, self.about, path.name, spreadsheet=self.spreadsheet))
        if self.group is not None:
            self.group.add(csvw_table(cube, self.about, path.name, spreadsheet=self.spreadsheet))
        return path

    def close(self) -> None:
        """Ends `datapackage.json` and `csv-metadata.json`."""
        for listing in filter(None, (self.package, self.group)):
            listing.close()

    def abandon(self) -> None:
        """Closes the two files."""
        for listing in filter(None, (self.package, self.group)):
            listing.file.close()


class Listing:
    """A JSON document that ends in a long list, written entry by entry."""

    def __init__(self, path: Path, head: dict[str, Any], name: str) -> None:
        self.file = path.open("w", encoding="utf-8")
        text = json.dumps(head, ensure_ascii=False, indent=1)
        self.file.write(f"{text[:-2]},\n {json.dumps(name)}: [")
        self.first = True

    def add(self, entry: dict[str, Any]) -> None:
        """Writes an entry."""
        self.file.write(("\n" if self.first else ",\n") + json.dumps(entry, ensure_ascii=False))
        self.first = False

    def close(self) -> None:
        """Ends the document, and waits until the disk has it."""
        self.file.write("\n]}\n")
        self.file.flush()
        os.fsync(self.file.fileno())
        self.file.close()


def resource(cube: Cube, about: About, path: str, *, spreadsheet: bool = False) -> dict[str, Any]:
    """A table as a resource of a data package."""
    fields: list[dict[str, Any]] = []
    for each in cube.dimensions:
        whole = all(isinstance(label, int) for label in each.labels)
        field: dict[str, Any] = {"name": each.name, "type": "integer" if whole else "string", "title": each.title}
        if each.description:
            field["description"] = each.description
        labels = each.labels if whole else [inert(str(x)) if spreadsheet else str(x) for x in each.labels]
        field["categories"] = [
            {"value": label, "label": title, "code": code}
            for label, title, code in zip(labels, each.titles, each.codes, strict=True)
        ]
        field["constraints"] = {"required": True, "enum": list(labels)}
        fields.append(field)
    fields += [
        {"name": name, "type": "number", "description": about.measures[name], "unit": about.counts}
        for name in cube.measure_names
    ]
    if cube.has_flags:
        fields.append({"name": cube.flag_column, "type": "string", "constraints": {"enum": list(FLAGS)}})
    if spreadsheet:
        for field in fields:
            field["name"] = inert(field["name"])
    keys = [field["name"] for field in fields[: len(cube.dimensions)]]
    schema: dict[str, Any] = {"fields": fields, **({"primaryKey": keys} if keys else {})}
    return {
        "profile": "tabular-data-resource",
        "name": f"table-{cube.number:04d}",
        "path": path,
        "title": cube.title,
        "format": "csv",
        "mediatype": "text/csv",
        "encoding": "utf-8",
        "schema": schema,
    }


def csvw_table(cube: Cube, about: About, path: str, *, spreadsheet: bool = False) -> dict[str, Any]:
    """A table as CSVW describes it."""
    columns: list[dict[str, Any]] = []

    def column(name: str, datatype: Any, words: str, *, required: bool = True) -> None:
        shown = inert(name) if spreadsheet else name
        columns.append({"name": f"c{len(columns) + 1}", "titles": shown, "datatype": datatype, "required": required}
                       | ({"dc:description": words} if words else {}))  # fmt: skip

    for each in cube.dimensions:
        whole = all(isinstance(label, int) for label in each.labels)
        words = ": ".join(filter(None, (each.title if each.title != each.name else "", each.description)))
        meant = [
            f"{label}: {title}" for label, title in zip(each.labels, each.titles, strict=True) if title != str(label)
        ]
        words = ". ".join(filter(None, (words.rstrip("."), "; ".join(meant))))
        column(each.name, "integer" if whole else "string", words)
    for name in cube.measure_names:
        column(name, "number", f"{about.measures[name]}; unit: {about.counts}", required=cube.told)
    if cube.has_flags:
        flag = {"base": "string", "format": "|".join(FLAGS)}
        column(cube.flag_column, flag, "how reliable the number is", required=cube.told)
    keys = [one["name"] for one in columns[: len(cube.dimensions)]]
    schema = {"columns": columns, **({"primaryKey": keys} if keys else {})}
    return {"url": path, "dc:title": cube.title, "dc:description": about.protection, "tableSchema": schema}


def _inert_batch(cube: Cube) -> Any:
    import pyarrow

    columns = {inert(name): _inert_cells(values) for name, values in cube.tidy.items()}
    return pyarrow.table(columns).combine_chunks().to_batches()[0]


def _inert_cells(values: Any) -> Any:
    return [inert(x) if isinstance(x, str) else x for x in values] if isinstance(values, list) else values
