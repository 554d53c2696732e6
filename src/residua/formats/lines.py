"""The lines of a table's CSV file as bytes, by compiled loops: the same bytes that Arrow writes, in less time.

Labels are made into text once, quoted as Arrow quotes them: text is in quotes, whole numbers are not. What these loops
do not write (all digits, numbers that are not told, exponents) is left to Arrow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from residua.formats.cube import Cube, Dimension
from residua.published.quality import FLAGS, THRESHOLDS, places_of
from residua.published.streaming import decimals, of_one_type
from residua.published.table import Table
from residua.showing import inert

Bytes = NDArray[np.uint8]
_NUMBER = 28  # bytes of a number at most: a sign, ten digits, a point and fifteen more, a comma
_BUFFER = 1 << 23  # bytes of lines that are made at once
_MOST_KEPT = 1 << 26  # bytes of labels
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


class AxisTexts(NamedTuple):
    """Where the labels of an axis are among all labels."""

    first: int
    values: int
    longest: int  # bytes


class LabelTexts:
    """The labels of all axes that came so far, each with a comma, behind each other: thousands of tables share them.

    Args:
        spreadsheet: whether text must not start a formula.
    """

    def __init__(self, *, spreadsheet: bool) -> None:
        self.shown = inert if spreadsheet else str
        self._lock = Lock()
        self._forget()

    def _forget(self) -> None:
        self._axes: dict[tuple[Any, ...], AxisTexts | None] = {}
        self._parts: list[bytes] = []
        self._texts = texts_of([])

    def of(self, dimensions: Sequence[Dimension]) -> tuple[list[AxisTexts], Texts] | None:
        """The axes of a table, and the labels; None if some are neither text nor whole numbers.

        Raises:
            UnicodeEncodeError: labels that are no text.
        """
        with self._lock:
            if len(self._texts.text) > _MOST_KEPT:
                self._forget()
            places = [self._axis(each.labels) for each in dimensions]
            if len(self._texts.ends) <= len(self._parts):
                self._texts = texts_of(self._parts)
            axes = [each for each in places if each is not None]
            return (axes, self._texts) if len(axes) == len(places) else None

    def _axis(self, labels: tuple[Any, ...]) -> AxisTexts | None:
        known = (labels, *map(type, labels))  # 1, 1.0 and True are told apart by their types
        if known not in self._axes:
            parts = self._encoded(of_one_type(labels).tolist())
            self._axes[known] = None
            if parts is not None:
                self._axes[known] = AxisTexts(len(self._parts), len(parts), max(map(len, parts), default=0))
                self._parts += parts
        return self._axes[known]

    def _encoded(self, values: list[Any]) -> list[bytes] | None:
        if all(isinstance(value, str) for value in values):
            return [f"{quoted(self.shown(value))},".encode() for value in values]
        if all(type(value) is int and -_MOST_INTEGER <= value < _MOST_INTEGER for value in values):
            return [b"%d," % value for value in values]
        return None


class Lines:
    """Makes the lines of tables, one after the other.

    Args:
        spreadsheet: whether text must not start a formula.
    """

    def __init__(self, *, spreadsheet: bool) -> None:
        self._labels = LabelTexts(spreadsheet=spreadsheet)

    def of(self, cube: Cube) -> Iterator[memoryview] | None:
        """The lines of a table, some at a time, each valid until the next; None if Arrow must write it.

        Raises:
            OtherForm: a number that these loops do not write.
        """
        table, bars = cube.table, cube.has_bars
        names = [*table.keys, *cube.measure_names, *([cube.flag_column] if bars else [])]
        if cube.full or (bars and len(cube.measure_names) != 4) or len(set(names)) != len(names):
            return None
        try:
            labels = self._labels.of(cube.dimensions)
            header = header_of([self._labels.shown(name) for name in names])
        except UnicodeEncodeError:
            return None
        return None if labels is None else _lines(table, bars, header, *labels)


class OtherForm(Exception):  # noqa: N818 – nothing is wrong
    """A number that has to be written in another form than plain decimals."""


def _lines(table: Any, bars: bool, header: bytes, axes: Sequence[AxisTexts], labels: Texts) -> Iterator[memoryview]:
    """See `Lines.of`."""
    from residua.formats.lines_kernel import shortened_lines

    estimates = np.ascontiguousarray(table.estimates).reshape(-1)
    estimates.flags.writeable = False  # the loops are compiled for what cannot be written to
    stddevs, reaches = _bars(table) if bars else (np.empty(0), np.empty(0))
    places = decimals(table) if bars else places_of({"estimate": estimates})
    firsts = np.array([each.first for each in axes], dtype=np.int64)
    sizes = np.array([each.values for each in axes], dtype=np.int64)
    longest = sum(each.longest for each in axes) + (4 * _NUMBER + _LONGEST_FLAG if bars else _NUMBER)
    rows = max(min(len(estimates), _BUFFER // longest), 1)
    out = np.empty(len(header) + rows * longest, dtype=np.uint8)
    out[: len(header)] = np.frombuffer(header, dtype=np.uint8)
    ahead = len(header)
    for first in range(0, len(estimates), rows):
        part = slice(first, first + rows)
        one, reach = (each if each.size <= 1 else each[part] for each in (stddevs, reaches))
        length = shortened_lines(
            estimates[part], one, reach, places, labels.text, labels.ends, firsts, sizes, first, _FLAGS.text,
            _FLAGS.ends, _THRESHOLDS, out[ahead:],
        )  # fmt: skip
        if length < 0:
            raise OtherForm
        yield out[: ahead + length].data
        ahead = 0


def _bars(table: Table) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Standard deviations and how far intervals reach, of each cell or one of all."""
    one = np.asarray(table.stddev, dtype=np.float64)
    alike = not any(one.strides)
    stddevs = np.array([one.flat[0]]) if alike else np.broadcast_to(one, table.estimates.shape).reshape(-1)
    reaches = np.reshape(np.asarray(table.width, dtype=np.float64), -1) * stddevs
    return np.ascontiguousarray(stddevs), np.ascontiguousarray(reaches)


_FLAGS = texts_of([f"{quoted(flag)}\n".encode() for flag in FLAGS])
_LONGEST_FLAG = int(np.diff(_FLAGS.ends).max())
_THRESHOLDS = np.array(THRESHOLDS)
