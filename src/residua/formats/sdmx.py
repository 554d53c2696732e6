"""SDMX 3.0: for every table its structure as SDMX-JSON 2.0 and its data as SDMX-CSV 2.0, the forms that SDMX 3.0 has.

Codes come from the domain where it declares them, else from each label alone, so that they stay when values come
or go; titles are names in the code lists. The guarantee, the unit and what flags mean are annotations of the dataflow.
"""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from pysdmx import model as sdmx
from pysdmx.io import write_sdmx
from pysdmx.io.format import Format

from residua.folders import write_synced
from residua.formats.about import About
from residua.formats.cube import Cube, Dimension
from residua.formats.writer import Writer
from residua.language import say
from residua.machine import pyarrow
from residua.published.quality import CODES, meaning
from residua.published.table import LEFT_OUT

AGENCY, VERSION = "RESIDUA", "1.0.0"
_ATTRIBUTES = {"stddev": "STD_ERR", "lower": "LOWER", "upper": "UPPER"} | {name: name.upper() for name in LEFT_OUT}
_FLAG, _UNIT, _VALUE = "OBS_QUALITY", "UNIT_MEASURE", "OBS_VALUE"
_NUMBERS = {_VALUE, *_ATTRIBUTES.values()}
_RESERVED = {*_NUMBERS, _FLAG, _UNIT, "STRUCTURE", "STRUCTURE_ID", "ACTION"}


class Sdmx(Writer):
    """Writes two files per table, `….csv` and `….structure.json`."""

    def add(self, cube: Cube) -> Path:
        """Writes a table."""
        cube = with_a_dimension(cube)
        ids = identifiers(cube)
        structure = write_sdmx(structures(cube, self.about.beside(cube.counted), ids), Format.STRUCTURE_SDMX_JSON_2_0_0)
        write_synced(self.folder / f"{cube.name}.structure.json", _valid(str(structure)))
        path = self.folder / f"{cube.name}.csv"
        write_synced(path, data(cube, self.about, ids))
        return path


def with_a_dimension(cube: Cube) -> Cube:
    """A total has no dimension, and SDMX wants one: it gets one with the usual code of a total."""
    if cube.dimensions:
        return cube
    return replace(
        cube, dimensions=(Dimension("total", "TOTAL", say("Total"), "", ("total",), ("_T",), (say("Total"),)),)
    )


def identifiers(cube: Cube) -> list[str]:
    """The identifier of each dimension, none of those that SDMX itself uses."""
    codes = [f"{each.code}_DIM" if each.code in _RESERVED else each.code for each in cube.dimensions]
    return codes if len(set(codes)) == len(codes) else [f"{code}_{i}" for i, code in enumerate(codes)]


def structures(cube: Cube, about: About, ids: list[str]) -> list[Any]:
    """Code lists, concepts, the data structure and the dataflow of a table."""
    name = f"T{cube.number:04d}"
    ours: Any = {"agency": AGENCY, "version": VERSION}
    titled = [
        [sdmx.Code(id=code, name=title) for code, title in zip(each.codes, each.titles, strict=True)]
        for each in cube.dimensions
    ]
    lists = [
        sdmx.Codelist(id=f"CL_{name}_{i}", name=each.title, items=codes, **ours)
        for i, each, codes in zip(ids, cube.dimensions, titled, strict=True)
    ]
    grades = zip(CODES, meaning().items(), strict=True)
    graded = [sdmx.Code(id=code, name=say(flag), description=words) for code, (flag, words) in grades]
    flags = sdmx.Codelist(id="CL_QUALITY", name=say("Quality of a number"), items=graded, **ours)
    urn = f"urn:sdmx:org.sdmx.infomodel.conceptscheme.Concept={AGENCY}:CS_{name}({VERSION})."
    concepts: list[sdmx.Concept] = []
    components: list[sdmx.Component] = []

    def add(i: str, role: sdmx.Role, title: str, words: str = "", codes: sdmx.Codelist | None = None) -> None:
        dtype = sdmx.DataType.DOUBLE if i in _NUMBERS else sdmx.DataType.STRING
        concepts.append(sdmx.Concept(id=i, urn=urn + i, name=title, description=words or None, dtype=dtype))
        more: Any = {} if codes is None else {"local_codes": codes, "local_enum_ref": _urn_of(codes)}
        more |= {"attachment_level": "O"} if role == sdmx.Role.ATTRIBUTE else {}
        components.append(sdmx.Component(i, role != sdmx.Role.ATTRIBUTE, role, concepts[-1], **more))

    for i, each, codes in zip(ids, cube.dimensions, lists, strict=True):
        add(i, sdmx.Role.DIMENSION, each.title, each.description, codes)
    add(_VALUE, sdmx.Role.MEASURE, say("Estimate"), about.measures["estimate"])
    for measure, i in _ATTRIBUTES.items():
        if measure in cube.measures:
            add(i, sdmx.Role.ATTRIBUTE, about.measures[measure])
    if cube.has_bars:
        add(_FLAG, sdmx.Role.ATTRIBUTE, say("Quality of a number"), codes=flags)
    add(_UNIT, sdmx.Role.ATTRIBUTE, say("Unit"))
    scheme = sdmx.ConceptScheme(id=f"CS_{name}", name=cube.title, items=concepts, **ours)
    parts = sdmx.Components(components)
    definition = sdmx.DataStructureDefinition(id=f"DSD_{name}", name=cube.title, components=parts, **ours)
    said: Any = {"name": cube.title, "description": about.protection, "structure": definition}
    notes = [sdmx.Annotation(id=f"NOTE{i}", text=words, type="NOTE") for i, words in enumerate(about.notes)]
    flow = sdmx.Dataflow(id=name, annotations=notes, **said, **ours)
    return [*lists, *([flags] if cube.has_bars else []), scheme, definition, flow]


def _urn_of(codes: sdmx.Codelist) -> str:
    """By which a dimension names its code list; pysdmx writes no other link."""
    return f"urn:sdmx:org.sdmx.infomodel.codelist.Codelist={AGENCY}:{codes.id}({VERSION})"


def _valid(message: str) -> bytes:
    """The message without the empty list of groups that pysdmx writes and the schema of SDMX refuses."""
    content = json.loads(message)
    for definition in content["data"]["dataStructures"]:
        parts = definition["dataStructureComponents"]
        if not parts.get("groups", True):
            del parts["groups"]
    content["meta"]["sender"] = {"id": AGENCY}
    return (json.dumps(content, ensure_ascii=False, indent=1) + "\n").encode()


def data(cube: Cube, about: About, ids: list[str]) -> bytes:
    """The numbers as SDMX-CSV 2.0."""
    count = len(cube)
    columns: dict[str, Any] = {
        "STRUCTURE": ["dataflow"] * count,
        "STRUCTURE_ID": [f"{AGENCY}:T{cube.number:04d}({VERSION})"] * count,
        "ACTION": ["I"] * count,
    }
    for axis, (i, each) in enumerate(zip(ids, cube.dimensions, strict=True)):
        along = [-1 if a == axis else 1 for a in range(len(cube.shape))]
        places = np.broadcast_to(np.arange(len(each.codes)).reshape(along), cube.shape).ravel()
        columns[i] = np.array(each.codes, dtype=object)[places].tolist()
    numbers = {name: pyarrow.array(values, from_pandas=True) for name, values in cube.measures.items()}  # blank if NaN
    columns[_VALUE] = numbers["estimate"]
    columns |= {i: numbers[measure] for measure, i in _ATTRIBUTES.items() if measure in numbers}
    if cube.has_bars:
        columns[_FLAG] = cube.flags(CODES)
    columns[_UNIT] = [cube.unit(about.counts)] * count
    buffer = io.BytesIO()
    pyarrow.csv.write_csv(pyarrow.table(columns), buffer)
    return buffer.getvalue()
