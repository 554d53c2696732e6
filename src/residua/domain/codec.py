"""Values to codes and back, by the declared domain: one codec for every engine, so that all count alike.

A column arrives as Arrow data of any type. A code is the place of a value's cell; a value outside the declared
ones is `UNKNOWN`, an absent one `MISSING`, until `settle` applies the attribute's policies. The rules:

- null and NaN are absent; so is an empty text, unless "" is a declared category;
- text categories match text exactly, without trimming; a typed value matches the category that spells it
  (3 and 3.0 match "3", true matches "true" or "True", a date matches "2024-01-31");
- where the categories are the two truth values, text in upper or lower case matches them: CSV files say "True";
- numbers in text are read after trimming (" 39", "39.0", "3.9e1" are 39); blank text and "nan" are absent,
  "true" is 1 and "false" is 0 as in a column of that type; anything else that is no number is unknown;
- dates are dates, timestamps by their date, or text as 2024-01-31, with a time of day or without;
- a fraction is unknown to whole-number attributes, never rounded;
- an amount is its number of units, clipped and rounded by its decimal spelling; what is infinite is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from residua.domain.amounts import Amount
from residua.domain.attributes import Anonymous, Attribute, Bins, Categories, Integers, Label
from residua.domain.code_lists import CodeList
from residua.domain.dates import Dates
from residua.domain.values import LIMIT, MISSING, UNKNOWN, Codes, Lookup, days, floats, is_null, is_text, trimmed, whole
from residua.errors import DomainError, SourceError
from residua.machine import compute as pc, pyarrow as pa

_SMALL = 2**31
_MOST_SPELLED = 10_000
_MOST_LISTED = 4096  # texts: with more, what Arrow looks them up by takes as long to make as a batch to read
_TRUTH = {"true", "false"}


def encode(attribute: Attribute, column: Any, name: str = "column") -> Codes:
    """The code of every value of an Arrow array, `UNKNOWN` or `MISSING` where it has none, (rows,).

    Args:
        attribute: the declaration.
        column: an Arrow array or chunked array.
        name: the column's name, for error messages.

    Raises:
        SourceError: a column whose type holds neither text, numbers, truth values nor dates.

    Example:
        >>> encode(Integers(17, 90), pa.array(["17", " 18.0", "18.5", ""])).tolist()
        [0, 1, -1, -2]
    """
    column = _one_array(column)
    kind = column.type
    if pa.types.is_null(kind):
        return np.full(len(column), MISSING, dtype=np.int32)
    if pa.types.is_dictionary(kind):
        if len(column.dictionary) > len(column):  # more labels than rows: decoding is the cheaper way
            return encode(attribute, column.dictionary_decode(), name)
        return _through_dictionary(column, lambda values: encode(attribute, values, name))
    if isinstance(attribute, Dates):
        return _codes_of_dates(attribute, column, name)
    _check_type(kind, name)
    if isinstance(attribute, CodeList):  # typed values are spelled as text first
        return _codes_of_text(attribute, column if is_text(kind) else column.cast(pa.string()))
    if isinstance(attribute, Categories) and isinstance(attribute.values[0], str):
        if is_text(kind):
            values = cast("tuple[str, ...]", attribute.values)
            if len(values) == len(_TRUTH) and {value.lower() for value in values} == _TRUTH:
                column = pc.utf8_lower(_viewless(column))
                return _codes_of_few(tuple(value.lower() for value in values), column)
            return _codes_of_text(attribute, column)
        return _through_dictionary(pc.dictionary_encode(column), lambda values: _codes_of_spellings(attribute, values))
    if isinstance(attribute, Amount):
        return _codes_of_amounts(attribute, _viewless(column))
    if is_text(kind) and not isinstance(attribute, Bins) and attribute.declared <= _MOST_SPELLED:
        return _codes_of_plain_numbers(attribute, column)
    if is_text(kind) or pa.types.is_decimal(kind):
        return _through_dictionary(pc.dictionary_encode(column), lambda values: _codes_of_numbers(attribute, values))
    return _codes_of_numbers(attribute, column)


def settle(attribute: Attribute, codes: Codes) -> Codes:
    """Applies the policies: `other` becomes the last cell; what is dropped or refused stays negative."""
    if not len(codes) or codes.min() >= 0:
        return codes
    unknown, missing = codes == UNKNOWN, codes == MISSING
    other = np.int32(attribute.size - 1)
    if attribute.unknown == "other":
        codes = np.where(unknown, other, codes)
    if attribute.missing == "other":
        codes = np.where(missing, other, codes)
    return codes


def whole_numbers(column: Any, name: str = "column") -> tuple[NDArray[np.int64], Codes]:
    """Whole numbers below 2^62 of a column of any type, and for each 0, `UNKNOWN` or `MISSING`."""
    column = _one_array(column)
    kind = column.type
    if pa.types.is_null(kind):
        return np.zeros(len(column), np.int64), np.full(len(column), MISSING, np.int32)
    if pa.types.is_dictionary(kind):
        return whole_numbers(column.dictionary_decode(), name)
    _check_type(kind, name)
    return whole(column)


def _codes_of_numbers(attribute: Attribute, column: Any) -> Codes:
    if isinstance(attribute, Bins):
        return _codes_of_bins(np.array(attribute.edges), column)
    if isinstance(attribute, Categories):
        numbers, codes = whole(column)
        return np.where(codes < 0, codes, attribute.lookup.codes(numbers)).astype(np.int32)
    low, high = (0, attribute.values - 1) if isinstance(attribute, Anonymous) else _bounds(attribute)
    if pa.types.is_integer(column.type) and not column.null_count and low >= -_SMALL and high < _SMALL:
        array = column.to_numpy()
        if len(array) and array.min() >= low and array.max() <= high:  # the usual case, without masks
            small = array.astype(np.int32)
            return cast(Codes, small - np.int32(low) if low else small)
    numbers, codes = whole(column)
    inside = (numbers >= low) & (numbers <= high)
    return np.where(codes < 0, codes, np.where(inside, numbers - low, UNKNOWN)).astype(np.int32)


def _bounds(attribute: Attribute) -> tuple[int, int]:
    if not isinstance(attribute, Integers):
        raise DomainError(f"the codec knows no attribute of kind {attribute.kind!r}.")
    return attribute.low, attribute.high


def _codes_of_dates(attribute: Dates, column: Any, name: str) -> Codes:
    kind = column.type
    if not (is_text(kind) or pa.types.is_date(kind) or pa.types.is_timestamp(kind)):
        raise SourceError(
            f"column {name!r} has the type {kind}; convert it to dates, timestamps, or text as 2024-01-31."
        )
    if is_text(kind):
        return _through_dictionary(pc.dictionary_encode(_viewless(column)), lambda values: _placed(attribute, values))
    try:
        return _placed(attribute, column)
    except pa.ArrowException:  # a time zone that is not known here
        raise SourceError(
            f"column {name!r} has the type {kind}, whose dates cannot be told; convert it to dates."
        ) from None


def _placed(attribute: Dates, column: Any) -> Codes:
    numbers, codes = days(column)
    return np.where(codes < 0, codes, attribute.codes(numbers)).astype(np.int32)


def _codes_of_amounts(attribute: Amount, column: Any) -> Codes:
    numbers, codes = floats(column)
    codes[(codes == 0) & ~np.isfinite(numbers)] = UNKNOWN
    if attribute.largest is not None:
        codes[(codes == 0) & ((numbers < attribute.low) | (numbers > attribute.largest))] = UNKNOWN
    known = np.flatnonzero(codes == 0)

    def spelled(unsure: NDArray[np.bool_]) -> Any:
        texts, _ = trimmed(column.take(pa.array(known[unsure])))
        return texts.to_numpy(zero_copy_only=False).astype(str)

    codes[known] = attribute.codes(numbers[known], spelled)
    return codes


def codes_of_clipped(amount: Amount, column: Any) -> Codes:
    """1 where an amount lies outside its range, else 0; what is no number follows the amount's own policies."""
    column = _viewless(_one_array(column))
    numbers, _ = floats(column.dictionary_decode() if pa.types.is_dictionary(column.type) else column)
    return ((numbers < amount.low) | (numbers > amount.high)).astype(np.int32)


def _codes_of_bins(edges: NDArray[np.float64], column: Any) -> Codes:
    numbers, codes = floats(column)
    place = np.searchsorted(edges, numbers, side="right") - 1
    place[numbers == edges[-1]] = len(edges) - 2  # the last bin is closed on both sides
    inside = (numbers >= edges[0]) & (numbers <= edges[-1])
    return np.where(codes < 0, codes, np.where(inside, place, UNKNOWN)).astype(np.int32)


def _codes_of_text(attribute: Categories | CodeList, column: Any) -> Codes:
    column = _viewless(column)
    if attribute.declared > _MOST_LISTED:
        return _looked_up(attribute.lookup, column)
    return _codes_of_few(tuple(attribute.values), column)


def _codes_of_few(values: tuple[Label, ...], column: Any) -> Codes:
    listed = values if "" in values else (*values, "")
    places = pc.index_in(column, value_set=pa.array(listed, type=column.type), skip_nulls=True)
    codes = np.array(places.fill_null(UNKNOWN).to_numpy(zero_copy_only=False), dtype=np.int32)
    if len(listed) > len(values):
        codes[codes == len(values)] = MISSING
    if column.null_count:
        codes[is_null(column)] = MISSING
    return codes


def _looked_up(lookup: Lookup, column: Any) -> Codes:
    """As `_codes_of_few`, by a table that is made once: making one for every batch would take longer than all rows."""
    codes = lookup.codes(column)
    missing = codes == UNKNOWN  # an empty text too, unless it is listed
    if missing.any():
        codes[missing & pc.equal(column, "").fill_null(False).to_numpy(zero_copy_only=False)] = MISSING
    if column.null_count:
        codes[is_null(column)] = MISSING
    return codes


def _codes_of_plain_numbers(attribute: Attribute, column: Any) -> Codes:
    """Whole numbers in text: those spelled as str() does are looked up, only the others are parsed."""
    column = _viewless(column)
    places = pc.index_in(column, value_set=_spelled(attribute, column.type), skip_nulls=True)
    codes = np.array(places.fill_null(UNKNOWN).to_numpy(zero_copy_only=False), dtype=np.int32)
    if places.null_count:
        rest = codes == UNKNOWN
        others = pc.dictionary_encode(column.filter(pa.array(rest)))
        codes[rest] = _through_dictionary(others, lambda values: _codes_of_numbers(attribute, values))
    return codes


@lru_cache(maxsize=256)
def _spelled(attribute: Attribute, kind: Any) -> Any:
    # Beyond 2^62 nothing matches, here as in the numbers' own path.
    labels = cast("Sequence[int]", attribute.declared_labels)
    return pa.array([str(label) if abs(label) < LIMIT else None for label in labels], type=kind)


def _codes_of_spellings(text: Categories, column: Any) -> Codes:
    """Typed values against text categories: the first spelling that is declared counts."""
    if pa.types.is_floating(column.type):
        plain = column.cast(pa.float64())
        column = pc.if_else(pc.is_nan(plain), pa.scalar(None, pa.float64()), plain)
    shortest = column.cast(pa.string())
    spellings = [shortest]
    if pa.types.is_boolean(column.type):
        spellings += [pc.utf8_capitalize(shortest), pc.utf8_upper(shortest)]
    elif pa.types.is_floating(column.type):
        spellings.append(pc.binary_join_element_wise(shortest, "0", "."))
    codes = _codes_of_text(text, shortest)
    for spelling in spellings[1:]:
        codes = np.where(codes == UNKNOWN, _codes_of_text(text, spelling), codes)
    return codes


def _through_dictionary(column: Any, codes_of: Callable[[Any], Codes]) -> Codes:
    codes = np.append(codes_of(column.dictionary), np.int32(MISSING))
    places = column.indices.cast(pa.int64()).fill_null(len(codes) - 1)
    return cast(Codes, codes[places.to_numpy(zero_copy_only=False)])


def _one_array(column: Any) -> Any:
    if not isinstance(column, pa.ChunkedArray):
        return column
    if pa.types.is_dictionary(column.type):
        column = column.unify_dictionaries()
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], type=column.type)


def _viewless(column: Any) -> Any:
    return column.cast(pa.large_string()) if pa.types.is_string_view(column.type) else column


def _check_type(kind: Any, name: str) -> None:
    known = (
        is_text(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_date(kind)
    )
    if not known:
        raise SourceError(f"column {name!r} has the type {kind}; convert it to text, numbers or dates.")


def examples(column: Any, chosen: NDArray[np.bool_]) -> list[str]:
    """Up to three different values, shortened. They are confidential: for messages that may quote values only."""
    column = _viewless(_one_array(column))
    values = pc.unique(column.filter(pa.array(chosen)))
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    shown = [str(value) if not isinstance(value, str) else repr(value) for value in values[:3].to_pylist()]
    return [text if len(text) <= 40 else text[:37] + "…" for text in shown]
