"""The lines of a table's CSV file as bytes, by compiled loops: the same bytes that Arrow writes, in less time.

Labels are made into text once, quoted as Arrow quotes them: text is in quotes, whole numbers are not. What these loops
do not write (all digits, numbers that are not told, exponents) is left to Arrow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from residua.formats.cube import Cube
from residua.published.quality import FLAGS, grades, in_units
from residua.published.streaming import code_batches, decimals, of_one_type
from residua.showing import inert

Bytes = NDArray[np.uint8]
_NUMBER = 28  # bytes of a number at most: a sign, ten digits, a point and fifteen more, a comma
_BUFFER = 1 << 23  # bytes of lines that are made at once
_MOST_KEPT = 4096  # labels of an axis whose texts are kept for the next table
_MOST_INTEGER = 2**63


class Texts(NamedTuple):
    """Texts behind each other, and where each ends: the i-th is `text[ends[i] : ends[i + 1]]`."""

    text: Bytes
    ends: NDArray[Any]


def texts_of(parts: Sequence[bytes]) -> Texts:
    """Texts behind each other."""
    ends = np.zeros(len(parts) + 1, dtype=np.int64)
    np.cumsum([len(part) for part in parts], out=ends[1:])
    return Texts(np.frombuffer(b"".join(parts), dtype=np.uint8), ends)


def quoted(text: str) -> str:
    """Text as a field of CSV, as Arrow writes it.

    Example:
        >>> quoted('5" pipe, new')
        '"5"" pipe, new"'
    """
    return '"' + text.replace('"', '""') + '"'


def header_of(names: Sequence[str]) -> bytes:
    """The first line of a file."""
    return (",".join(map(quoted, names)) + "\n").encode()


def axis_texts(labels: tuple[Any, ...], types: tuple[type, ...], spreadsheet: bool) -> Texts | None:
    """The labels of an axis, each with a comma; None if some are neither text nor whole numbers.

    Raises:
        UnicodeEncodeError: labels that are no text.
    """
    values, shown = of_one_type(labels).tolist(), inert if spreadsheet else str
    if all(isinstance(value, str) for value in values):
        return texts_of([f"{quoted(shown(value))},".encode() for value in values])
    if all(type(value) is int and -_MOST_INTEGER <= value < _MOST_INTEGER for value in values):
        return texts_of([b"%d," % value for value in values])
    return None


_kept_texts = lru_cache(maxsize=1024)(
    axis_texts
)  # thousands of tables share axes; 1, 1.0 and True differ by their types


def lines_of(cube: Cube, *, spreadsheet: bool) -> Iterator[memoryview] | None:
    """The lines of a table, some at a time, each valid until the next; None if Arrow must write it.

    Args:
        cube: the table.
        spreadsheet: whether text must not start a formula.

    Raises:
        OtherForm: a number that these loops do not write.
    """
    names = [*cube.table.keys, *cube.measure_names, *([cube.flag_column] if cube.has_bars else [])]
    if cube.full or (cube.has_bars and len(cube.measure_names) != 4) or len(set(names)) != len(names):
        return None
    axes = []
    try:
        for each in cube.dimensions:
            make = _kept_texts if len(each.labels) <= _MOST_KEPT else axis_texts
            axes.append(make(each.labels, tuple(map(type, each.labels)), spreadsheet))
        header = header_of(list(map(inert, names)) if spreadsheet else names)
    except UnicodeEncodeError:
        return None
    known = [each for each in axes if each is not None]
    return _lines(cube, header, known) if len(known) == len(axes) else None


class OtherForm(Exception):  # noqa: N818 – nothing is wrong
    """A number that has to be written in another form than plain decimals."""


def _lines(cube: Cube, header: bytes, axes: Sequence[Texts]) -> Iterator[memoryview]:
    """See `lines_of`."""
    from residua.formats.lines_kernel import write_lines

    places, numbers, bars = decimals(cube.table), len(cube.measure_names), int(cube.has_bars)
    texts = [*axes, _FLAGS]
    starts, counts = ([0, *accumulate(map(len, each))] for each in zip(*texts, strict=True))
    firsts = np.array([*counts[: len(axes)], *[-1] * numbers, *counts[len(axes) :][:bars]])
    text = np.concatenate([each.text for each in texts])
    ends = np.concatenate([each.ends + start for each, start in zip(texts, starts, strict=False)])
    longest = sum(int(np.diff(each.ends).max(initial=0)) for each in texts) + _NUMBER * numbers
    rows = max(min(len(cube), _BUFFER // longest), 1)
    out = np.empty(len(header) + rows * longest, dtype=np.uint8)
    out[: len(header)] = np.frombuffer(header, dtype=np.uint8)
    ahead = len(header)
    doubtful, first = cube.table.doubtful, 0
    for codes, exact in code_batches(cube.table, rows):
        columns = [*codes, *(in_units(name, exact[name], places) for name in cube.measure_names)]
        if bars:
            own = slice(first, first := first + len(exact["estimate"]))
            columns.append(
                grades(exact["estimate"], exact["stddev"], doubtful=None if doubtful is None else doubtful[own])
            )
        length = write_lines(np.stack(columns, dtype=np.float64), firsts, text, ends, places, out[ahead:])
        if length < 0:
            raise OtherForm
        yield out[: ahead + length].data
        ahead = 0


_FLAGS = texts_of([f"{quoted(flag)},".encode() for flag in FLAGS])
