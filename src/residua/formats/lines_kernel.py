"""Compiled loops that write the lines of CSV files into bytes, column by column.

A column is text or numbers. Texts lie behind each other in `text`, each with its comma already: the i-th is
`text[ends[i] : ends[i + 1]]`, and those of a column begin at its place in `firsts`, which is −1 where it has numbers.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from residua.machine import compiled, compiled_inline

_COMMA, _END, _MINUS, _POINT = 44, 10, 45, 46
_TEN, _DIGIT = np.uint64(10), np.uint64(48)

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float64]
Places = NDArray[np.int64]


@compiled_inline
def _decimal(number: float, places: int, least: float, most: float, out: Bytes, at: int) -> int:
    """A whole number of units of 10^-places, as decimals without trailing zeros; −1 if that is not its usual form."""
    size = abs(number)
    if not size < most or 0 < size < least:  # not a number, too
        return -1
    if number < 0 or (size == 0 and math.copysign(1.0, number) < 0):
        out[at] = _MINUS
        at += 1
    whole = np.uint64(size)
    while places > 0:
        above = whole // _TEN
        if above * _TEN != whole:
            break
        whole = above
        places -= 1
    digits, bound = 1, _TEN
    while whole >= bound:
        digits += 1
        bound *= _TEN
    digits = max(digits, places + 1)  # zeros in front of the point, and behind it
    length = digits + (1 if places else 0)
    place = at + length - 1
    for j in range(digits):
        if places and j == places:
            out[place] = _POINT
            place -= 1
        above = whole // _TEN
        out[place] = whole - above * _TEN + _DIGIT
        whole = above
        place -= 1
    return at + length


@compiled
def write_lines(columns: Floats, firsts: Places, text: Bytes, ends: Places, places: int, out: Bytes) -> int:
    """Writes a line for each cell.

    A number is `k / 10^places` for a whole number k. Where `|k| < 10^15`, that is the double nearest to a decimal of at
    most 15 digits, so that these digits are its shortest form. Exponents are written below 10^-6 and from 10^10 on;
    then nothing is written here.

    Args:
        columns: of each column and cell the place of its text, or k, (columns, cells).
        firsts: where the texts of each column begin, or −1, (columns,).
        text, ends: the texts of all columns.
        places: how many decimals the numbers have.
        out: at least as long as the lines can be.

    Returns:
        How many bytes were written, or −1 if a number has to be written in another form.
    """
    least, most = 10.0 ** max(places - 6, 0), min(1e15, 10.0 ** (places + 10))
    at = 0
    for i in range(columns.shape[1]):
        for j in range(columns.shape[0]):
            if firsts[j] >= 0:
                label = firsts[j] + int(columns[j, i])
                first, length = ends[label], ends[label + 1] - ends[label]
                for byte in range(length):
                    out[at + byte] = text[first + byte]
                at += length
            else:
                at = _decimal(columns[j, i], places, least, most, out, at)
                if at < 0:
                    return -1
                out[at] = _COMMA
                at += 1
        out[at - 1] = _END
    return at
