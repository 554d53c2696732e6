"""Whose a record is: ids as one text in every engine, and the keyed hash that stands for them from then on.

An id is text, a whole number, a date or a time (as `spelling` writes them). The whole number 7, the text "7", and 7.0
(whole numbers with gaps are such in pandas, and in what it writes as text) are one id; so are texts that differ in the
space around them only. Null, NaN, blank text and what programs write for null ("NA", "NULL", …) are absent: taken for
ids, they would make one person of many. Nothing else is changed: "007" is not 7, and "n1" is not "N1".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from residua.domain.numbers import is_null, is_text
from residua.errors import SourceError
from residua.source.spelling import spelled

Words = NDArray[np.uint64]
_TEXT = pa.large_string()
_ABSENT = ("", "NA", "N/A", "#N/A", "<NA>", "NaN", "nan", "NaT", "None", "none", "NULL", "null", "\\N")
_EXACT = 2.0**53  # whole numbers beyond are no longer told apart in floating point


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
    found = [_hashes(columns[i], names[i], key) for i in order]
    absent = np.logical_or.reduce([gone for _, gone in found])
    if len(found) == 1:
        return found[0][0], absent
    together = np.ascontiguousarray(np.concatenate([words for words, _ in found], axis=1))
    offsets = np.arange(len(together) + 1, dtype=np.int64) * (16 * len(found))
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
    offsets = np.frombuffer(texts.buffers()[1], dtype=np.int64)[texts.offset : texts.offset + len(texts) + 1]
    held = texts.buffers()[2]
    values = np.frombuffer(held, dtype=np.uint8) if held is not None and held.size else np.zeros(1, np.uint8)
    return _hashed(values, offsets, key), gone


def _hashed(values: NDArray[np.uint8], offsets: NDArray[np.int64], key: tuple[Any, Any]) -> Words:
    from residua.source.siphash import hash_texts  # loads Numba

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
        return _trimmed(column)
    if pa.types.is_integer(kind):
        return column.cast(_TEXT)
    if pa.types.is_floating(kind):
        return _of_floats(column, name)
    if pa.types.is_decimal(kind):
        texts = _trimmed(column.cast(_TEXT))
        if pc.any(pc.match_substring_regex(texts, r"[^-0-9]")).as_py():
            raise _not_whole(name)
        return texts
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return spelled(column.cast(pa.date32()) if pa.types.is_date(kind) else column)
    raise SourceError(
        f"column {name!r} has the type {kind}; convert it to text, whole numbers or dates, to tell persons."
    )


def _trimmed(column: Any) -> Any:
    texts = pc.utf8_trim_whitespace(column.cast(_TEXT))
    if pc.any(pc.match_substring(texts, ".0")).as_py():
        texts = pc.replace_substring_regex(texts, r"^(-?[0-9]+)\.0+$", r"\1")
    return pc.if_else(pc.is_in(texts, pa.array(_ABSENT, _TEXT)), pa.scalar(None, _TEXT), texts)


def _of_floats(column: Any, name: str) -> Any:
    numbers = column.cast(pa.float64()).fill_null(np.nan).to_numpy(zero_copy_only=False)
    gone = np.isnan(numbers)
    plain = np.where(gone, 0.0, numbers)
    if not ((np.abs(plain) <= _EXACT) & (np.floor(plain) == plain)).all():
        raise _not_whole(name)
    return pa.array(plain.astype(np.int64), mask=gone).cast(_TEXT)


def _not_whole(name: str) -> SourceError:
    return SourceError(
        f"column {name!r} holds numbers that are not whole, or too large to be told apart; give ids as text."
    )
