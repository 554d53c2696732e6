"""JSON-stat 2.0: one dataset per table; measures are a dimension of their own, flags the status of each number."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from residua.folders import write_synced
from residua.formats.about import About, title_of_measure
from residua.formats.cube import Cube
from residua.formats.writer import Writer
from residua.language import say
from residua.published.quality import CODES, FLAGS


class JsonStat(Writer):
    """Writes one JSON file per table."""

    def add(self, cube: Cube) -> Path:
        """Writes a table."""
        path = self.folder / f"{cube.name}.json"
        write_synced(
            path, json.dumps(dataset(cube, self.about.beside(cube.counted)), ensure_ascii=False).encode() + b"\n"
        )
        return path


def dataset(cube: Cube, about: About) -> dict[str, Any]:
    """A table as a JSON-stat dataset."""
    measures = list(cube.measures)
    ids = [each.code for each in cube.dimensions]
    metric = "MEASURE" if "MEASURE" not in ids else "MEASURE_"
    dimensions: dict[str, Any] = {}
    for each in cube.dimensions:
        labels = dict(zip(each.codes, each.titles, strict=True))
        dimensions[each.code] = {"label": each.title, "category": {"index": list(each.codes), "label": labels}}
        if each.description:
            dimensions[each.code]["note"] = [each.description]
    places = cube.decimals
    dimensions[metric] = {
        "label": say("Measure"),
        "category": {
            "index": measures,
            "label": {name: title_of_measure(name) for name in measures},
            "unit": {name: {"label": cube.unit(about.counts), "decimals": places} for name in measures},
            "note": {name: [about.measures[name]] for name in measures},
        },
    }
    values = np.stack([cube.measures[name] for name in measures], axis=-1).ravel()
    content: dict[str, Any] = {
        "version": "2.0",
        "class": "dataset",
        "label": cube.title,
        "source": about.title,
        "note": list(about.notes),
        "id": [*ids, metric],
        "size": [*cube.shape, len(measures)],
        "role": {"metric": [metric]},
        "dimension": dimensions,
        "value": [value if np.isfinite(value) else None for value in values.tolist()],
        "extension": {"residua": about.plain()},
    }
    when = str(about.receipt.get("time", ""))
    if when:
        content["updated"] = when
    if cube.has_bars:
        content["status"] = [code for code in cube.flags(CODES) for _ in measures]
        content["extension"]["status"] = {"label": dict(zip(CODES, map(say, FLAGS), strict=True))}
    return content
