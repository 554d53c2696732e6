"""One text per value, whatever type holds it: the spelling that a digest hashes, and the id of a record's person.

Spelling: text is itself. Whole numbers are their digits; 39.0 is 39. Other numbers have as few digits as tell them
apart, decimals no trailing zeros. Truth values are true and false, dates 2024-01-31, timestamps 2024-01-31 12:30:00.5,
by their date alone at midnight, with Z where they have a time zone. Null, NaN and the empty text are absent: CSV cannot
tell them apart.

Ids are text, whole numbers, dates or times, spelled so, and from then on a keyed hash stands for them. The whole number
7, the text "7", and 7.0 (whole numbers with gaps are such in pandas, and in what it writes as text) are one id; so are
texts that differ in the space around them only. Null, NaN, blank text and what programs write for null ("NA", "NULL",
…) are absent: taken for ids, they would make one person of many. Nothing else is changed: "007" is not 7, and "n1" is
not "N1".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from residua.domain.values import is_null, is_text, laid_out
from residua.errors import SourceError

_WHOLE = 2.0**53  # below it every whole floating-point number is exact; itself it stands for 2^53 + 1 as well


def plain(column: Any) -> Any:
    """An array without extension types: a UUID as text, anything else as what it is stored in."""
    if not isinstance(column.type, pa.BaseExtensionType):
        return column
    if column.type.extension_name == "arrow.uuid":
        texts = [None if value is None else str(value) for value in column.to_pylist()]
        return pa.array(texts, pa.string())
    if column.type.extension_name == "arrow.opaque" and getattr(column.type, "type_name", "") == "numeric":
        digits = _trimmed(column.storage)  # PostgreSQL sends 39.00
        return pc.if_else(pc.equal(digits, "nan"), pa.scalar(None, digits.type), digits)
    return plain(column.storage)


def plain_batch(batch: Any) -> Any:
    """A record batch without extension types."""
    if not any(isinstance(kind, pa.BaseExtensionType) for kind in batch.schema.types):
        return batch
    return pa.RecordBatch.from_arrays([plain(column) for column in batch.columns], names=batch.schema.names)


def spelled(column: Any) -> Any:
    """The spelling of every value, as text or bytes; the column is no dictionary and has no extension type."""
    kind = column.type
    if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        return column
    if pa.types.is_string(kind) or pa.types.is_string_view(kind):
        return column.cast(pa.large_string())
    if pa.types.is_binary(kind) or pa.types.is_binary_view(kind) or pa.types.is_fixed_size_binary(kind):
        return column.cast(pa.large_binary())
    if pa.types.is_floating(kind):
        return _numbers(column)
    try:
        texts = _timestamps(column) if pa.types.is_timestamp(kind) else column.cast(pa.large_string())
    except pa.ArrowException:  # nested values
        texts = pa.array([None if value is None else repr(value) for value in column.to_pylist()], pa.large_string())
    return _trimmed(texts) if pa.types.is_decimal(kind) or pa.types.is_time(kind) else texts


def _numbers(column: Any) -> Any:
    if pa.types.is_float16(column.type):
        column = column.cast(pa.float32())
    column = pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
    numbers = column.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False)
    whole = (numbers == np.trunc(numbers)) & (np.abs(numbers) < _WHOLE)
    digits = pa.array(np.where(whole, numbers, 0.0).astype(np.int64)).cast(pa.large_string())
    if whole.all():
        return pc.if_else(column.is_valid(), digits, pa.scalar(None, pa.large_string()))
    return pc.if_else(pc.and_(column.is_valid(), pa.array(whole)), digits, column.cast(pa.large_string()))


def _timestamps(column: Any) -> Any:
    texts = _trimmed(column.cast(pa.timestamp(column.type.unit)).cast(pa.large_string()))
    if column.type.tz is not None:
        return pc.binary_join_element_wise(texts, *(pa.scalar(text, pa.large_string()) for text in ("Z", "")))
    return pc.replace_substring_regex(texts, r" 00:00:00$", "")


def _trimmed(texts: Any) -> Any:
    """Without zeros at the end of a fraction."""
    return pc.replace_substring_regex(texts, r"(\.[0-9]*[1-9])0+$|\.0*$", r"\1")


Words = NDArray[np.uint64]
_TEXT = pa.large_string()
_ABSENT = ("", "NA", "N/A", "#N/A", "<NA>", "NaN", "nan", "NaT", "None", "none", "NULL", "null", "\\N")


def person_hashes(columns: Sequence[Any], names: Sequence[str], key: tuple[Any, Any]) -> tuple[Words, Any]:
    """A 128-bit keyed hash of each record's person, (rows, 2), and which rows have none, (rows,).

    Several columns are a person together; a row that lacks one of them has none. Two persons have the same hash with
    probability 2^-128: among n persons with less than n² 2^-129, whatever their ids, to whoever does not have the key.

    Args:
        columns: Arrow arrays, one per column that names the person.
        names: what they are called, for messages.
        key: two 64-bit numbers.

    Raises:
        SourceError: a column whose type tells no person.
    """
    order = sorted(range(len(names)), key=lambda i: names[i])  # in whichever order they were named
    hashes = [_hashes(columns[i], names[i], key) for i in order]
    absent = np.logical_or.reduce([gone for _, gone in hashes])
    if len(hashes) == 1:
        return hashes[0][0], absent
    together = np.ascontiguousarray(np.concatenate([words for words, _ in hashes], axis=1))
    offsets = np.arange(len(together) + 1, dtype=np.int64) * (16 * len(hashes))
    return _hashed(together.view(np.uint8).ravel(), offsets, key), absent


def _hashes(column: Any, name: str, key: tuple[Any, Any]) -> tuple[Words, NDArray[np.bool_]]:
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.unify_dictionaries().chunks) if column.num_chunks else pa.array([], pa.null())
    if pa.types.is_dictionary(column.type):
        if len(column.dictionary) > len(column):
            return _hashes(column.dictionary_decode(), name, key)
        words, gone = _hashes(column.dictionary, name, key)
        words, gone = np.append(words, np.zeros((1, 2), np.uint64), axis=0), np.append(gone, True)
        places = column.indices.cast(pa.int64()).fill_null(len(gone) - 1).to_numpy(zero_copy_only=False)
        return words[places], gone[places]
    texts = id_texts(column, name)
    gone = is_null(texts)
    offsets, values = laid_out(texts)
    return _hashed(values, offsets, key), gone


def _hashed(values: NDArray[np.uint8], offsets: NDArray[np.int64], key: tuple[Any, Any]) -> Words:
    from residua.source.person_kernel import hash_texts  # loads Numba

    out = np.empty((len(offsets) - 1, 2), dtype=np.uint64)
    hash_texts(values, offsets, *key, out)
    return out


def id_texts(column: Any, name: str) -> Any:
    """Ids as texts, null where absent.

    Raises:
        SourceError: the column's type tells no person, or it holds numbers that are not whole.

    Example:
        >>> id_texts(pa.array([7.0, None, float("nan")]), "id").to_pylist()
        ['7', None, None]
        >>> id_texts(pa.array([" N1", "7.0", "007", "", "NA"]), "id").to_pylist()
        ['N1', '7', '007', None, None]
    """
    kind = column.type
    if pa.types.is_null(kind):
        return pa.nulls(len(column), _TEXT)
    if is_text(kind):
        return _without_space(column)
    if pa.types.is_integer(kind):
        return column.cast(_TEXT)
    if pa.types.is_floating(kind):
        return _of_floats(column, name)
    if pa.types.is_decimal(kind):
        texts = _without_space(column.cast(_TEXT))
        if pc.any(pc.match_substring_regex(texts, r"[^-0-9]")).as_py():
            raise _not_whole(name)
        return texts
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return spelled(column.cast(pa.date32()) if pa.types.is_date(kind) else column)
    raise SourceError(
        f"column {name!r} has the type {kind}; convert it to text, whole numbers or dates, to tell persons."
    )


def _without_space(column: Any) -> Any:
    texts = pc.utf8_trim_whitespace(column.cast(_TEXT))
    if pc.any(pc.match_substring(texts, ".0")).as_py():
        texts = pc.replace_substring_regex(texts, r"^(-?[0-9]+)\.0+$", r"\1")
    return pc.if_else(pc.is_in(texts, pa.array(_ABSENT, _TEXT)), pa.scalar(None, _TEXT), texts)


def _of_floats(column: Any, name: str) -> Any:
    numbers = column.cast(pa.float64()).fill_null(np.nan).to_numpy(zero_copy_only=False)
    gone = np.isnan(numbers)
    plain = np.where(gone, 0.0, numbers)
    if not ((np.abs(plain) < _WHOLE) & (np.floor(plain) == plain)).all():
        raise _not_whole(name)
    return pa.array(plain.astype(np.int64), mask=gone).cast(_TEXT)


def _not_whole(name: str) -> SourceError:
    return SourceError(
        f"column {name!r} holds numbers that are not whole, or too large to be told apart; give ids as text."
    )
