"""Columns as CSV text: by PyArrow, or without it, to the same bytes."""

from __future__ import annotations

import io
from collections.abc import Mapping
from itertools import chain
from typing import Any

import numpy as np

from residua.machine import pyarrow, there
from residua.showing import inert


def csv_text(columns: Mapping[str, Any]) -> str:
    """Columns as CSV: text in quotes, every number as short as it comes back equal, nothing where there is none."""
    if there("pyarrow"):  # much quicker
        buffer = io.BytesIO()
        blank = {name: pyarrow.array(values, from_pandas=True) for name, values in columns.items()}  # what is no number
        pyarrow.csv.write_csv(pyarrow.table(blank), buffer)
        return buffer.getvalue().decode()
    told = [values.tolist() if isinstance(values, np.ndarray) else values for values in columns.values()]
    return "".join(",".join(map(_field, row)) + "\n" for row in chain([columns], zip(*told, strict=True)))


def _field(value: Any) -> str:
    """A field of CSV."""
    if isinstance(value, str):
        return '"' + value.replace('"', '""') + '"'
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None or value != value else repr(value).removesuffix(".0")


def inert_columns(columns: dict[str, Any]) -> dict[str, Any]:
    """Columns without text that a spreadsheet would take for a formula."""
    return {
        inert(name): [inert(cell) if isinstance(cell, str) else cell for cell in cells]
        if isinstance(cells, list)
        else cells
        for name, cells in columns.items()
    }
