"""Maps: the values of one attribute as regions, whose shapes the user gives as GeoJSON.

Longitudes and latitudes are drawn with distances true at the middle latitude; other coordinates are taken as they are.
Shapes are rounded to what can be seen, so that borders of megabytes become kilobytes.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from residua.domain import Domain
from residua.domain.words import OTHER, title_of
from residua.errors import FileError, SpecError
from residua.language import say
from residua.report.charts import shade_of
from residua.report.series import Series
from residua.report.svg import element, hover, number

_MOST = 2**16  # values of an attribute that are looked for
_WIDE = 600.0  # the units of a drawing; shapes are rounded to one of them
Ring = Sequence[Sequence[float]]


@dataclass(frozen=True)
class Geography:
    """The shapes of an attribute's values.

    Args:
        attribute: its name.
        shapes: what each value is called → its shape, as a path.
        size: width and height of a drawing.
    """

    attribute: str
    shapes: Mapping[str, str]
    size: tuple[float, float]


def read_map(path: str | Path, domain: Domain) -> Geography:
    """The shapes of the attribute whose labels, codes or titles a file of GeoJSON has.

    Raises:
        FileError: there is no such file.
        SpecError: it is no GeoJSON of regions, or no attribute has its values in it.
    """
    try:
        content = json.loads(Path(path).read_bytes())
        features = [each for each in content["features"] if str(each["geometry"]["type"]).endswith("Polygon")]
        names = {name: i for i, feature in enumerate(features) for name in _names(feature)}
        rings = [[_ring(ring) for part in _parts(feature["geometry"]) for ring in part] for feature in features]
    except OSError as problem:
        raise FileError(f"map: cannot read {str(path)!r} ({problem.strerror}); give a file of GeoJSON.") from problem
    except (ValueError, TypeError, KeyError, AttributeError, IndexError) as problem:
        raise SpecError(f"map: {Path(path).name} is no GeoJSON with a list of features that are regions.") from problem
    attribute, places = _matched(domain, names, Path(path).name)
    return _drawn(attribute, {title: rings[place] for title, place in places.items()})


def _names(feature: Mapping[str, Any]) -> set[str]:
    """Whatever a feature may be known by."""
    values = [feature.get("id"), *(feature.get("properties") or {}).values()]
    return {str(value) for value in values if isinstance(value, str | int)}


def _parts(geometry: Mapping[str, Any]) -> Sequence[Sequence[Ring]]:
    return [geometry["coordinates"]] if geometry["type"] == "Polygon" else geometry["coordinates"]


def _ring(ring: Ring) -> np.ndarray:
    points = np.array([point[:2] for point in ring], dtype=np.float64)
    if points.ndim != 2 or points.shape[1] != 2 or not np.isfinite(points).all():
        raise ValueError
    return points


def _matched(domain: Domain, names: Mapping[str, int], file: str) -> tuple[str, dict[str, int]]:
    """The attribute of which most values are in the file, and where each is."""
    best: tuple[str, dict[str, int], list[str]] = ("", {}, [])
    for name in domain.names:
        labels = islice((label for label in domain[name].declared_labels if label != OTHER), _MOST)
        places = {title_of(domain[name], label): _place(domain, name, label, names) for label in labels}
        known = {title: place for title, place in places.items() if place is not None}
        if len(known) > max(len(best[1]), 1):
            best = (name, known, [title for title, place in places.items() if place is None])
    name, known, missing = best
    if not name:
        raise SpecError(
            f"map: {file} has the values of no attribute, neither labels nor codes nor titles; check its properties."
        )
    doubled = max(Counter(known.values()).values()) > 1
    if missing or doubled:
        words = f"has no region for {', '.join(map(repr, missing[:3]))}" if missing else "has one region for two values"
        raise SpecError(f"map: {file} {words} of {name!r}; every value needs a region of its own.")
    return name, known


def _place(domain: Domain, name: str, label: Any, names: Mapping[str, int]) -> int | None:
    """The region that has the code of a value, its label or its title."""
    meaning = domain[name].words.meanings.get(str(label))
    known = (meaning.code if meaning else "", str(label), title_of(domain[name], label))
    return next((names[each] for each in known if each in names), None)


def _drawn(attribute: str, rings: Mapping[str, Sequence[np.ndarray]]) -> Geography:
    """Shapes within a drawing, north above."""
    points = np.concatenate([ring for each in rings.values() for ring in each])
    low, high = points.min(axis=0), points.max(axis=0)
    degrees = np.abs(points).max(axis=0) <= (180.0, 90.0)
    shrink = math.cos(math.radians(float(low[1] + high[1]) / 2)) if degrees.all() else 1.0
    across, up = max(float(high[0] - low[0]) * shrink, 1e-9), float(high[1] - low[1])
    scale = _WIDE / across
    at = np.array([low[0], high[1]]), np.array([shrink * scale, -scale])
    shapes = {title: "".join(_path((ring - at[0]) * at[1]) for ring in each) for title, each in rings.items()}
    return Geography(attribute, shapes, (_WIDE, up * scale))


def _path(points: np.ndarray) -> str:
    """A ring as a path in whole units, without points that fall onto the one before; nothing if none is left."""
    whole = np.round(points).astype(int)
    kept = whole[np.r_[True, (np.diff(whole, axis=0) != 0).any(axis=1)]]
    return "M" + "L".join(f"{x},{y}" for x, y in kept) + "Z" if len(kept) > 2 else ""


def draw_map(series: Series, name: str, geography: Geography, span: Sequence[float] | None = None) -> Markup:
    """The numbers of one attribute as shades of its regions; dashed borders are unreliable."""
    largest = max(abs(value) for value in (series.span if span is None else span)) or 1.0
    width, height = geography.size
    regions = list(_regions(series, geography, largest))
    svg = element("svg", *regions, viewBox=f"-2 -2 {width + 4:.0f} {height + 4:.0f}", role="img", aria_label=name)
    ramp = [element("span", class_=f"h{step}") for step in range(1, 9)]
    return element("div", svg, element("p", "0 ", *ramp, f" {number(largest)}", class_="ramp"), class_="chart map")


def _regions(series: Series, geography: Geography, largest: float) -> Iterator[Markup]:
    for i, label in enumerate(series.labels[0]):
        shape = geography.shapes.get(label)
        if shape:
            shade = shade_of(float(series.estimates[i]), largest) if series.known(i) else ""
            kind = f"{shade} poor".strip() if series.grade(i) == 2 else shade
            yield element("path", hover(series.words(i)), d=shape, class_=kind or None)


def map_caption(series: Series, geography: Geography) -> str:
    """What is not on the map is said."""
    missing = [label for label in series.labels[0] if label not in geography.shapes]
    words = say(
        "The stronger the colour of a region, the larger its number. Regions with a dashed border are unreliable."
    )
    return f"{words} {say('Not on the map: {labels}.', labels=', '.join(missing))}" if missing else words
