"""Compiled loops that write the lines of CSV files into bytes.

A line is the labels of a cell, each with its comma already, and then its numbers. The labels of all axes lie behind
each other in `text`: label `c` of an axis is `text[ends[f + c] : ends[f + c + 1]]`, where `f = firsts[axis]`. Cells
come row by row, so that all labels but the last are mostly those of the line before, and are copied from it.
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
def _copied(source: Bytes, first: int, stop: int, out: Bytes, at: int) -> int:
    """Copies bytes; where the next go."""
    for j in range(stop - first):
        out[at + j] = source[first + j]
    return at + stop - first


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
def shortened_lines(
    estimates: Floats,
    stddevs: Floats,
    reaches: Floats,
    places: int,
    text: Bytes,
    ends: Places,
    firsts: Places,
    sizes: Places,
    begin: int,
    flags: Bytes,
    flag_ends: Places,
    thresholds: Floats,
    out: Bytes,
) -> int:
    """The lines of the cells from `begin` on, numbers to some decimals: labels, estimate, stddev, lower, upper, flag.

    Numbers are rounded as `published/quality.py` rounds them, intervals outwards: `k / 10^places` for a whole number k.
    Where `|k| < 10^15`, that is the double nearest to a decimal of at most 15 digits, so that these digits are its
    shortest form. Exponents are written below 10^-6 and from 10^10 on; then nothing is written here.

    Args:
        estimates: of these cells, (m,).
        stddevs, reaches: of each cell, (m,), or one of all, (1,); none, (0,), where there are no error bars.
        places: how many decimals.
        text, ends, firsts, sizes: the labels, and how many each axis has.
        begin: which cell the first is.
        flags, flag_ends: the three flags, each with the end of the line.
        thresholds: of the coefficient of variation, (2,).
        out: at least as long as the lines can be.

    Returns:
        How many bytes were written, or −1 if a number has to be written in another form.
    """
    scale = 10.0**places
    least, most = 10.0 ** max(places - 6, 0), min(1e15, 10.0 ** (places + 10))
    last = sizes.size - 1
    cells, width = np.prod(sizes), sizes[last] if last >= 0 else 1
    at, head, length, known, known_stop = 0, 0, 0, 0, 0
    for i in range(estimates.size):
        code = (begin + i) % width
        if i and code:
            at = _copied(out, head, head + length, out, at)
        else:
            head, stride = at, cells
            for axis in range(last):
                stride //= sizes[axis]
                label = firsts[axis] + (begin + i) // stride % sizes[axis]
                at = _copied(text, ends[label], ends[label + 1], out, at)
            length = at - head
        if last >= 0:
            at = _copied(text, ends[firsts[last] + code], ends[firsts[last] + code + 1], out, at)
        estimate = estimates[i]
        at = _decimal(np.rint(estimate * scale), places, least, most, out, at)
        if at < 0:
            return -1
        if stddevs.size:
            stddev, reach = stddevs[i if stddevs.size > 1 else 0], reaches[i if reaches.size > 1 else 0]
            out[at] = _COMMA
            if i and stddevs.size == 1:
                at = _copied(out, known, known_stop, out, at + 1)
            else:
                known = at + 1
                at = known_stop = _decimal(np.rint(stddev * scale), places, least, most, out, at + 1)
                if at < 0:
                    return -1
            out[at] = _COMMA
            at = _decimal(np.floor((estimate - reach) * scale), places, least, most, out, at + 1)
            if at < 0:
                return -1
            out[at] = _COMMA
            at = _decimal(np.ceil((estimate + reach) * scale), places, least, most, out, at + 1)
            if at < 0:
                return -1
            out[at] = _COMMA
            grade = 2
            if estimate != 0:
                variation = stddev / abs(estimate)
                grade = (1 if variation > thresholds[0] else 0) + (1 if variation > thresholds[1] else 0)
            at = _copied(flags, flag_ends[grade], flag_ends[grade + 1], out, at + 1)
        else:
            out[at] = _END
            at += 1
    return at
