"""The cells of a public fact as an array, from whatever form they are given in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from residua.domain import Domain, impossible_cells
from residua.errors import PlanError
from residua.linalg.arrays import Floats


def shown(domain: Domain, members: Sequence[int], at: Sequence[int] = ()) -> str:
    """A marginal, or a cell of it, for messages."""
    names = [domain.names[i] for i in members]
    if not names:
        return "the total"
    if not len(at):
        return f"({', '.join(map(repr, names))})"
    return ", ".join(f"{name} = {domain[name].labels[code]!r}" for name, code in zip(names, at, strict=True))


def place(values: NDArray[Any]) -> tuple[int, ...]:
    """Where the largest value of an array is."""
    return tuple(int(i) for i in np.unravel_index(int(values.argmax()), values.shape))


def fact_cells(domain: Domain, names: tuple[str, ...], shape: tuple[int, ...], given: Any, what: str) -> Floats:
    """Cells as an array, from an array, a mapping label(s) → count, or a frame with a column `count`."""
    if isinstance(given, Mapping):
        rows = [(key if isinstance(key, tuple) else (key,), count) for key, count in given.items()]
        return _of_rows(domain, names, shape, rows, what)
    if not hasattr(given, "columns"):
        try:
            values = np.array(given, dtype=np.float64)
        except (TypeError, ValueError):
            raise PlanError(f"{what} is {given!r}; give an array, a mapping, or a frame with 'count'.") from None
        if values.shape != shape:
            raise PlanError(f"{what} has shape {values.shape}; give an array of shape {shape}.")
        return values
    columns = _columns(given)
    missing = [name for name in (*names, "count") if name not in columns]
    if missing or len(columns) > len(names) + 1:
        raise PlanError(f"{what}: the table has the columns {', '.join(columns)}; give {', '.join(names)} and count.")
    rows = [(tuple(columns[name][i] for name in names), count) for i, count in enumerate(columns["count"])]
    return _of_rows(domain, names, shape, rows, what)


def _columns(frame: Any) -> dict[str, list[Any]]:
    """A frame's columns as lists: ours, pandas, Polars, or Arrow."""
    if isinstance(frame.columns, Mapping):
        return {name: list(column) for name, column in frame.columns.items()}
    if hasattr(frame, "column_names"):  # Arrow
        return {name: frame[name].to_pylist() for name in frame.column_names}
    return {str(name): list(frame[name]) for name in frame.columns}


def _of_rows(domain: Domain, names: tuple[str, ...], shape: tuple[int, ...], rows: list[Any], what: str) -> Floats:
    # Labels are compared as text, so that a CSV file's 17 is the label 17.
    codes = [{str(label): code for code, label in enumerate(domain[name].labels)} for name in names]
    values = np.full(shape, np.nan)
    for key, count in rows:
        if len(key) != len(names):
            raise PlanError(f"{what}: {key!r} does not name a value of each attribute; give {len(names)}.")
        for name, label, known in zip(names, key, codes, strict=True):
            if str(label) not in known:
                raise PlanError(f"{what}: {label!r} is not a value of {name!r}; see domain[{name!r}].labels.")
        at = tuple(known[str(label)] for label, known in zip(key, codes, strict=True))
        if not np.isnan(values[at]):
            raise PlanError(f"{what} gives {shown(domain, domain.positions(names), at)} twice; give it once.")
        try:
            values[at] = float(count)
        except (TypeError, ValueError):
            raise PlanError(f"{what} holds {count!r}, which is not a count.") from None
    absent = np.isnan(values)
    mask = impossible_cells(domain, names)
    if mask is not None:
        values[absent & mask] = 0.0  # what cannot be need not be listed
        absent &= ~mask
    if absent.any():
        at = place(absent)
        raise PlanError(
            f"{what} has no count for {shown(domain, domain.positions(names), at)}; list every cell, zeros included."
        )
    return values
