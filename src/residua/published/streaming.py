"""A large table in Arrow record batches: what is in memory is the estimates and one batch, never lists of labels."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from residua.domain import Label
from residua.linalg.arrays import Floats, Objects
from residua.machine import pyarrow as pa
from residua.published.quality import places_of

ROWS = 1 << 19  # of a batch
_KEPT_CELLS = 4096  # of a table whose columns of labels are kept for the next
_MOST_SMALL = 2**15  # labels that codes of 16 bits tell apart


def of_one_type(labels: Sequence[Label]) -> Objects:
    """Labels for a column, which has one type: numbers beside text, such as `(other)`, become text."""
    mixed = len(set(map(type, labels))) > 1
    return np.array([str(label) for label in labels] if mixed else labels, dtype=object)


def axis_labels(table: Any) -> Sequence[Sequence[Label]]:
    """The labels along each axis of a table: those given, else those of its attributes."""
    return table.labels if table.labels is not None else [table.domain[name].labels for name in table.attributes]


def label_columns(names: Sequence[str], labels: Sequence[Sequence[Label]]) -> dict[str, list[Any]]:
    """A column of labels per axis of a table, one per cell, row by row."""
    columns = {}
    for axis, (name, along, stride) in enumerate(zip(names, labels, _strides(labels), strict=True)):
        columns[name] = np.repeat(of_one_type(along), stride).tolist() * math.prod(map(len, labels[:axis]))
    return columns


def _strides(labels: Sequence[Sequence[Any]]) -> list[int]:
    """How many cells lie between two neighbours along each axis."""
    return [math.prod(map(len, labels[axis + 1 :])) for axis in range(len(labels))]


def label_arrays(labels: Sequence[Sequence[Any]], *, compact: bool) -> Callable[[int, int], list[pa.Array]]:
    """What gives the columns of labels of the cells from one to another of a table, row by row.

    Args:
        labels: those along each axis.
        compact: labels as dictionaries.
    """
    cells, strides = math.prod(map(len, labels)), _strides(labels)
    if cells <= _KEPT_CELLS and not compact:  # whole columns are kept: thousands of small tables have the same few
        pairs = zip(labels, strides, strict=True)
        whole = [_kept_column(tuple(each), tuple(map(type, each)), stride, cells) for each, stride in pairs]
        return lambda first, stop: [column[first:stop] for column in whole]
    arrays = [pa.array(of_one_type(each).tolist()) for each in labels]

    def columns(first: int, stop: int) -> list[pa.Array]:
        pairs = zip(arrays, strides, strict=True)
        codes = [pa.array(codes_along(len(each), stride, first, stop)) for each, stride in pairs]
        make = pa.DictionaryArray.from_arrays if compact else lambda code, each: each.take(code)
        return list(map(make, codes, arrays))

    return columns


@lru_cache(maxsize=1024)
def _kept_column(labels: tuple[Any, ...], _: tuple[type, ...], stride: int, cells: int) -> Any:
    """A column of labels of a table of so many cells; 1, 1.0 and True are told apart by their types."""
    return pa.array(of_one_type(labels).tolist()).take(pa.array(codes_along(len(labels), stride, 0, cells)))


def codes_along(count: int, stride: int, first: int, stop: int) -> NDArray[Any]:
    """The place along one axis, of `count` values, of the cells from one to another of a table, row by row.

    Example:
        >>> codes_along(3, 2, 1, 8).tolist()
        [0, 1, 1, 2, 2, 0, 0]
    """
    low, high = first // stride, -(-stop // stride)
    runs: NDArray[Any] = (np.arange(low, high) % count).astype(np.int16 if count < _MOST_SMALL else np.int32)
    if stride == 1:
        return runs
    edges: NDArray[np.int64] = np.clip(np.arange(low, high + 1) * stride, first, stop)
    return np.repeat(runs, edges[1:] - edges[:-1])


def batches(table: Any, *, rows: int = ROWS, compact: bool = False) -> Iterator[tuple[list[Any], dict[str, Floats]]]:
    """The columns of labels and of numbers, some rows at a time.

    Args:
        table: with error bars, or a projection's.
        rows: how many at a time.
        compact: labels as dictionaries.
    """
    keys = label_arrays(axis_labels(table), compact=compact)
    for first, stop in pairwise([*range(0, len(table), rows), len(table)]):
        yield keys(first, stop), table.numbers(slice(first, stop))


def decimals(table: Any) -> int:
    """How many decimals the table's numbers are given."""
    numbers = {"estimate": table.estimates.reshape(-1)}
    return places_of(numbers if table.stddevs is None else numbers | {"stddev": table.stddevs})
