"""What stands beside CSV files, as JSON: an entry per table for data packages and for CSVW.

Thousands of tables have the same few axes: what is said of each is made into text once, and put together per table.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import cached_property, lru_cache
from typing import Any

from residua.formats.about import About
from residua.formats.cube import Cube, Dimension
from residua.formats.quality import FLAGS
from residua.printable import inert

_KEPT = 1024  # axes


class Beside:
    """Makes the entries of tables.

    Args:
        about: what stands beside every table.
        spreadsheet: whether the text of the files cannot start a formula.
    """

    def __init__(self, about: About, *, spreadsheet: bool) -> None:
        self.about, self.spreadsheet = about, spreadsheet
        self._field = _kept(self._make_field)
        self._column = _kept(self._make_column)

    def resource(self, cube: Cube, path: str) -> str:
        """A table as a resource of a data package."""
        fields = [self._field(each) for each in cube.dimensions]
        fields += [self._field_of_measure[name] for name in cube.measure_names]
        if cube.has_flags:
            fields.append(_text({"name": self._named(cube.flag_column), "type": "string", "constraints": _FLAGGED}))
        head = {
            "profile": "tabular-data-resource",
            "name": f"table-{cube.number:04d}",
            "path": path,
            "title": cube.title,
            "format": "csv",
            "mediatype": "text/csv",
            "encoding": "utf-8",
        }
        return _entry(head, "schema", "fields", fields, [self._named(each.name) for each in cube.dimensions])

    def csvw(self, cube: Cube, path: str) -> str:
        """A table as CSVW describes it."""
        rest = [self._column(each) for each in cube.dimensions]
        rest += [self._column_of_measure(name, cube.told) for name in cube.measure_names]
        if cube.has_flags:
            flag = {"base": "string", "format": "|".join(FLAGS)}
            rest.append(self._described(cube.flag_column, flag, "how reliable the number is", required=cube.told))
        columns = [f'{{"name": "c{i}", {text[1:]}' for i, text in enumerate(rest, start=1)]
        head = {"url": path, "dc:title": cube.title, "dc:description": self.about.protection}
        return _entry(head, "tableSchema", "columns", columns, [f"c{i + 1}" for i in range(len(cube.dimensions))])

    def _named(self, name: str) -> str:
        return inert(name) if self.spreadsheet else name

    def _make_field(self, each: Dimension) -> str:
        field: dict[str, Any] = {
            "name": self._named(each.name),
            "type": "integer" if each.whole else "string",
            "title": each.title,
        }
        if each.description:
            field["description"] = each.description
        labels = each.labels if each.whole else [self._named(str(label)) for label in each.labels]
        field["categories"] = [
            {"value": label, "label": title, "code": code}
            for label, title, code in zip(labels, each.titles, each.codes, strict=True)
        ]
        field["constraints"] = {"required": True, "enum": list(labels)}
        return _text(field)

    @cached_property
    def _field_of_measure(self) -> dict[str, str]:
        return {
            name: _text({"name": name, "type": "number", "description": words, "unit": self.about.counts})
            for name, words in self.about.measures.items()
        }

    def _make_column(self, each: Dimension) -> str:
        words = ": ".join(filter(None, (each.title if each.title != each.name else "", each.description)))
        meant = [
            f"{label}: {title}" for label, title in zip(each.labels, each.titles, strict=True) if title != str(label)
        ]
        words = ". ".join(filter(None, (words.rstrip("."), "; ".join(meant))))
        return self._described(each.name, "integer" if each.whole else "string", words)

    def _column_of_measure(self, name: str, told: bool) -> str:
        return self._columns_of_measures[name, told]

    @cached_property
    def _columns_of_measures(self) -> dict[tuple[str, bool], str]:
        return {
            (name, told): self._described(name, "number", f"{words}; unit: {self.about.counts}", required=told)
            for name, words in self.about.measures.items()
            for told in (False, True)
        }

    def _described(self, name: str, datatype: Any, words: str, *, required: bool = True) -> str:
        column = {"titles": self._named(name), "datatype": datatype, "required": required}
        return _text(column | ({"dc:description": words} if words else {}))


_FLAGGED = {"enum": list(FLAGS)}


def _kept(make: Callable[[Dimension], str]) -> Callable[[Dimension], str]:
    return lru_cache(maxsize=_KEPT)(make)


_text = json.JSONEncoder(ensure_ascii=False).encode  # json.dumps makes an encoder at every call


def _entry(head: dict[str, Any], schema: str, parts: str, texts: Iterable[str], keys: list[str]) -> str:
    """An object of which one member, the schema, is put together from text."""
    primary = f', "primaryKey": {_text(keys)}' if keys else ""
    return f'{_text(head)[:-1]}, "{schema}": {{"{parts}": [{", ".join(texts)}]{primary}}}}}'
