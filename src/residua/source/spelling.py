"""One spelling per value, whatever type holds it, so that the same records are the same in every engine.

Text is itself. Whole numbers are their digits; 39.0 is 39. Other numbers have as few digits as tell them apart,
decimals no trailing zeros. Truth values are true and false, dates 2024-01-31, timestamps 2024-01-31 12:30:00.5, by
their date alone at midnight, with Z where they have a time zone. Null, NaN and the empty text are absent: CSV cannot
tell them apart.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_WHOLE = 2.0**53  # below it every whole floating-point number is exact


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
