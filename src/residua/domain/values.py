"""Values from whatever holds them: numbers and dates of text, decimals, floats or integers; places in long lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from residua.domain.lookup_kernel import fill, find
from residua.machine import compute as pc, pyarrow as pa

Codes = NDArray[np.int32]

UNKNOWN = -1
MISSING = -2
LIMIT = 2**62
_WHOLE = r"^(?P<sign>[+-]?)0*(?P<digits>[0-9]{1,19})(?:\.0*)?$"
_DATE = r"^(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})(?:[T ][0-9]{2}:[0-9:.]*(?: ?Z| ?[+-][0-9:]+)?)?$"
_NUMBER = r"^[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|inf(?:inity)?)$"


def whole(column: Any) -> tuple[NDArray[np.int64], Codes]:
    """Whole numbers of a column, and for each value 0, UNKNOWN (no whole number below 2^62) or MISSING."""
    if is_text(column.type) or pa.types.is_decimal(column.type):
        return _whole_of_text(column)
    if pa.types.is_floating(column.type) or pa.types.is_date(column.type):
        numbers, codes = floats(column)
        whole = (np.abs(numbers) < LIMIT) & (np.floor(numbers) == numbers)
        codes[(codes == 0) & ~whole] = UNKNOWN
        return np.where(codes == 0, numbers, 0).astype(np.int64), codes
    codes = np.where(is_null(column), MISSING, 0).astype(np.int32)
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.uint8())
    array = column.fill_null(0).to_numpy(zero_copy_only=False)
    if array.dtype == np.uint64:
        codes[array >= LIMIT] = UNKNOWN
    elif array.dtype == np.int64:
        codes[(array >= LIMIT) | (array <= -LIMIT)] = UNKNOWN
    return np.where(codes == 0, array, 0).astype(np.int64), codes


def _whole_of_text(column: Any) -> tuple[NDArray[np.int64], Codes]:
    text, codes = trimmed(column)
    parts = pc.extract_regex(text, pattern=_WHOLE)
    matched = ~is_null(parts)
    digits = pc.if_else(pa.array(matched), pc.struct_field(parts, "digits"), pa.scalar(None, pa.string()))
    # Nineteen digits always fit 64 bits without a sign.
    size = digits.cast(pa.uint64()).fill_null(0).to_numpy(zero_copy_only=False)
    negative = pc.equal(pc.struct_field(parts, "sign"), "-").fill_null(False).to_numpy(zero_copy_only=False)
    small = size < LIMIT
    numbers = np.where(small, size, 0).astype(np.int64) * np.where(negative, -1, 1)
    codes[matched & ~small] = UNKNOWN
    rest = (codes == 0) & ~matched
    if rest.any():  # fractions and exponents
        floats, states = _floats_of_text(text)
        whole = (states == 0) & (np.abs(floats) <= 2**53) & (np.floor(floats) == floats)
        numbers[rest & whole] = floats[rest & whole].astype(np.int64)
        codes[rest & ~whole] = UNKNOWN
    return numbers, codes


def floats(column: Any) -> tuple[NDArray[np.float64], Codes]:
    """Numbers of a column, and for each value 0, UNKNOWN (no number) or MISSING."""
    if is_text(column.type) or pa.types.is_decimal(column.type):
        return _floats_of_text(column)
    codes = np.where(is_null(column), MISSING, 0).astype(np.int32)
    if pa.types.is_date(column.type):  # a date is no number: every one is outside the domain
        return np.zeros(len(column)), np.where(codes == 0, UNKNOWN, codes).astype(np.int32)
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.uint8())
    array = column.fill_null(0).to_numpy(zero_copy_only=False).astype(np.float64)
    codes[np.isnan(array)] = MISSING
    return array, codes


def _floats_of_text(column: Any) -> tuple[NDArray[np.float64], Codes]:
    text, codes = trimmed(column)
    matched = pc.match_substring_regex(text, pattern=_NUMBER).fill_null(False)
    codes[(codes == 0) & ~matched.to_numpy(zero_copy_only=False)] = UNKNOWN
    numbers = pc.if_else(matched, text, pa.scalar(None, pa.string())).cast(pa.float64())
    return np.array(numbers.fill_null(0.0).to_numpy(zero_copy_only=False)), codes


def days(column: Any) -> tuple[NDArray[np.int64], Codes]:
    """Dates of a column as days since 1970-01-01, and for each value 0, UNKNOWN (no date) or MISSING.

    A timestamp counts by its date, in its own time zone; text by its first ten characters, if what follows them is a
    time of day.
    """
    codes = np.where(is_null(column), MISSING, 0).astype(np.int32)
    if is_text(column.type):
        text = pc.utf8_trim_whitespace(column.cast(pa.string()))
        absent = pc.is_in(text, value_set=pa.array(["", "NaT", "nan", None], type=pa.string()))
        codes[absent.to_numpy(zero_copy_only=False)] = MISSING
        parts = pc.struct_field(pc.extract_regex(text, pattern=_DATE), "date")
        column = pc.strptime(parts, format="%Y-%m-%d", unit="s", error_is_null=True).cast(pa.date32())
        # A day that the calendar lacks, such as February 30, comes back as another day.
        same = pc.equal(column.cast(pa.string()), parts).fill_null(False).to_numpy(zero_copy_only=False)
        codes[(codes == 0) & ~same] = UNKNOWN
    elif pa.types.is_timestamp(column.type):
        column = (pc.local_timestamp(column) if column.type.tz is not None else column).cast(
            pa.timestamp("s"), safe=False
        )
        column = pc.floor_temporal(column, unit="day").cast(pa.date32())
    numbers = column.cast(pa.date32()).cast(pa.int32()).fill_null(0).to_numpy(zero_copy_only=False)
    return np.asarray(numbers, dtype=np.int64), codes


def trimmed(column: Any) -> tuple[Any, Codes]:
    """Text in lower case without the space around it, truth values as digits, and where it is absent."""
    text = pc.utf8_lower(pc.utf8_trim_whitespace(column.cast(pa.string())))
    text = pc.if_else(pc.equal(text, "true"), "1", pc.if_else(pc.equal(text, "false"), "0", text))
    absent = pc.is_in(text, value_set=pa.array(["", "nan", None], type=pa.string()))
    return text, np.where(absent.to_numpy(zero_copy_only=False), MISSING, 0).astype(np.int32)


def is_null(column: Any) -> NDArray[np.bool_]:
    """Which values are absent."""
    return cast("NDArray[np.bool_]", column.is_null().to_numpy(zero_copy_only=False))


def is_text(kind: Any) -> bool:
    """Whether an Arrow type is text."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


_LOAD = 2  # places of the table for each text, at least


class Lookup:
    """The places of distinct texts.

    Args:
        texts: the list, an Arrow array of text without nulls, or a sequence of text.
    """

    def __init__(self, texts: Any) -> None:
        listed = _large(texts if isinstance(texts, pa.Array) else pa.array(texts, pa.large_string()))
        self._offsets, self._content = laid_out(listed)
        size = 1 << max(_LOAD * len(listed) - 1, 1).bit_length()
        self._slots = np.zeros(size, dtype=np.uint64)
        fill(self._offsets, self._content, self._slots)

    def codes(self, column: Any) -> Codes:
        """The place of every text, −1 for one that is not listed, (rows,); of a null that of an empty text."""
        offsets, content = laid_out(_large(column.fill_null("") if column.null_count else column))
        places = np.empty(len(column), dtype=np.int32)
        find(offsets, content, self._offsets, self._content, self._slots, places)
        return places


class NumberLookup:
    """The places of distinct whole numbers; those that no data can hold are never found.

    Args:
        values: the list.
    """

    def __init__(self, values: Sequence[Any]) -> None:
        keys = np.array([value if abs(value) < LIMIT else LIMIT for value in values], dtype=np.int64)
        self._order = np.argsort(keys).astype(np.int32)
        self._keys = keys[self._order]

    def codes(self, numbers: NDArray[np.int64]) -> Codes:
        """The place of every number, −1 for one that is not listed, (rows,)."""
        place = np.minimum(np.searchsorted(self._keys, numbers), len(self._keys) - 1)
        return np.where(self._keys[place] == numbers, self._order[place], np.int32(UNKNOWN))


def laid_out(texts: Any) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Where each text begins and the last one ends, (texts + 1,), and all bytes."""
    _, places, content = texts.buffers()
    offsets = np.frombuffer(places, dtype=np.int64)[texts.offset : texts.offset + len(texts) + 1]
    if content is None or not len(texts):
        return np.zeros(len(texts) + 1, dtype=np.int64), np.zeros(1, dtype=np.uint8)
    return offsets, np.frombuffer(content, dtype=np.uint8)


def _large(column: Any) -> Any:
    return column if pa.types.is_large_string(column.type) else column.cast(pa.large_string())
