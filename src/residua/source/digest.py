"""One digest of records for all engines: the sum of a wide hash per record, so that neither order nor batches matter.

A record is the set of its (column, spelling) pairs; absent values are not in it. With two lanes of 64 bits,
`hash(record) = mix(Σ mix(hash(spelling) ^ key(column)))`, and a dataset's digest is the sum of its records' hashes
modulo 2^64 in each lane, with their number. Sums of parts add up, wherever the parts were read. It notices every
accident; it is no defence against someone who makes up records to that end.

Spelling: one text per value, whatever type holds it. Text is itself. Whole numbers are their digits; 39.0 is 39. Other
numbers have as few digits as tell them apart, decimals no trailing zeros. Truth values are true and false, dates
2024-01-31, timestamps 2024-01-31 12:30:00.5, by their date alone at midnight, with Z where they have a time zone. Null,
NaN and the empty text are absent: CSV cannot tell them apart.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Sequence
from concurrent.futures import Executor
from functools import lru_cache
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from residua.domain.values import is_null, laid_out
from residua.machine import compute as pc, processors, pyarrow as pa
from residua.source.kernel import add_lookups, hash_integers, hash_texts, sum_records

Pairs = NDArray[np.uint64]  # (rows, 2), fast to look up
Lanes = NDArray[np.uint64]  # (2, rows), fast to mix
Places = NDArray[np.int64]
_MULTIPLIERS = np.array([[0xD6E8FEB86659FD93], [0xE7037ED1A0B428DB]], dtype=np.uint64)
_SEEDS = np.array([[0x9E3779B97F4A7C15], [0xC2B2AE3D27D4EB4F]], dtype=np.uint64)
_HALF = np.uint64(32)
_MASKS = np.array([(1 << 8 * n) - 1 for n in range(9)], dtype=np.uint64)
_MOST_RANGE = 1 << 18  # whole numbers whose spellings are hashed once and looked up
_WORTH_THREADS = 1 << 17  # values
_WORTH_COMPILING = 2_000_000  # values: what NumPy does in about the time Numba takes to load
_WORTH_LOOPS = 20_000_000  # values that are looked up, of which loops do four in the time NumPy takes for one
_SAMPLE = 512


class Digest:
    """The digest of the records that were added.

    Args:
        pool: threads to share columns among.
    """

    def __init__(self, pool: Executor | None = None) -> None:
        self.rows = 0
        self._sums = np.zeros(2, dtype=np.uint64)
        self._pool = pool
        self._values = 0
        self._direct = 0  # values that were hashed one by one
        self._ranges: dict[str, tuple[int, Pairs]] = {}

    def add(self, batch: Any, names: Sequence[str] | None = None) -> None:
        """Adds a record batch, whose columns have these names, each once."""
        named = list(zip(batch.schema.names if names is None else names, batch.columns, strict=True))
        self.rows += batch.num_rows
        parts = [named]
        if self._pool is not None and len(named) * batch.num_rows >= _WORTH_THREADS:
            parts = [named[i :: processors()] for i in range(processors())]
        rows = batch.num_rows
        self._values += rows * len(named)
        loops = self._values >= (_WORTH_COMPILING if "numba" in sys.modules else _WORTH_LOOPS)
        mapped = map if self._pool is None or len(parts) == 1 else self._pool.map
        sums = list(mapped(lambda part: self._summed(part, rows, loops), parts))
        record = sums[0]
        for other in sums[1:]:
            record += other
        if loops:
            sum_records(record, np.ascontiguousarray(np.hstack([_MULTIPLIERS, _SEEDS])), self._sums)
            return
        # Each lane is mixed with the other, so that all 128 bits of a record depend on one another before the sum.
        lanes = np.ascontiguousarray(record.T)
        self._sums += _mixed(lanes ^ _mixed(lanes[::-1] + _SEEDS)).sum(axis=1, dtype=np.uint64)

    @property
    def parts(self) -> tuple[int, int, int]:
        """The number of records and the two sums; confidential, as whatever is computed from records."""
        return self.rows, int(self._sums[0]), int(self._sums[1])

    def merge(self, parts: tuple[int, int, int]) -> None:
        """Adds the parts of a digest that was made elsewhere."""
        self.rows += parts[0]
        self._sums += np.array(parts[1:], dtype=np.uint64)

    @property
    def fingerprint(self) -> str:
        """The digest as text."""
        return f"rows:{hashlib.sha256(repr(self.parts).encode()).hexdigest()}"

    def _summed(self, named: Sequence[tuple[str, Any]], rows: int, loops: bool) -> Pairs:
        total = np.zeros((rows, 2), dtype=np.uint64)
        for name, column in named:
            hashes, places = self._hashed(name, plain(column))
            if loops and places is not None:
                add_lookups(total, hashes, places)
            else:
                total += _taken(hashes, places)
        return total

    def _hashed(self, name: str, column: Any) -> tuple[Pairs, Places | None]:
        """The hash of every value of a column, zero where it is absent; or of all it may hold, and the place of each.

        The place after the last is that of absent values.
        """
        kind, rows = column.type, len(column)
        if pa.types.is_null(kind) or column.null_count == rows:
            return np.zeros((rows, 2), dtype=np.uint64), None
        if pa.types.is_dictionary(kind):
            if len(column.dictionary) > rows:
                return self._hashed(name, column.dictionary_decode())
            places = column.indices.cast(pa.int64()).fill_null(len(column.dictionary))
            return _taken(*self._hashed(name, plain(column.dictionary))), places.to_numpy(zero_copy_only=False)
        if pa.types.is_boolean(kind):
            column = column.cast(pa.uint8()).cast(pa.int64())
            return _keyed(name, pa.array(["false", "true"])), column.fill_null(2).to_numpy(zero_copy_only=False)
        if pa.types.is_integer(kind):
            known = self._range(name, column)
            if known is not None:
                start, table = known
                present = column.fill_null(0) if column.null_count else column
                numbers: Places = present.to_numpy(zero_copy_only=False).astype(np.int64)
                numbers -= start
                if column.null_count:
                    numbers[column.is_null().to_numpy(zero_copy_only=False)] = len(table)
                return table, numbers
        elif _repeats(column):
            return self._hashed(name, column.dictionary_encode())
        self._direct += rows
        return (_keyed(name, spelled(column)) if self._direct < _WORTH_COMPILING else _compiled(name, column)), None

    def _range(self, name: str, column: Any) -> tuple[int, Pairs] | None:
        """The first whole number of a range that holds the column, and the hashes of all in it; None if it is wide."""
        ends = pc.min_max(column)
        low, high = ends["min"].as_py(), ends["max"].as_py()
        known = self._ranges.get(name)
        start, stop = (low, low) if known is None else (known[0], known[0] + len(known[1]))
        if start <= low and high < stop:
            return known
        first, last = min(low, start), max(high + 1, stop)
        if last - first > min(_MOST_RANGE, max(4 * len(column), 1024)) or high >= 2**63 - 1:
            return None
        # Only what is new is hashed: where a file is in order, every batch widens the range.
        new = [_keyed(name, _spellings(*ends)) for ends in ((first, start), (stop, last))]
        wider = new[1] if known is None else np.concatenate([new[0], known[1], new[1]])
        self._ranges[name] = first, wider
        return first, wider


def _spellings(first: int, stop: int) -> Any:
    return pa.array(np.arange(first, stop, dtype=np.int64)).cast(pa.large_string())


def _repeats(column: Any) -> bool:
    """Whether values come again so often that each is better hashed once."""
    if len(column) <= _SAMPLE or pa.types.is_nested(column.type):
        return False
    return len(pc.unique(column.slice(0, _SAMPLE))) <= _SAMPLE // 4


def _taken(table: Pairs, places: Places | None) -> Pairs:
    """Rows of a table, and zeros for the place after its last; all rows when no places are given."""
    if places is None:
        return table
    whole = np.concatenate([table, np.zeros((1, 2), dtype=np.uint64)])
    # As one number of 16 bytes, which is three times as fast as two columns.
    return cast("Pairs", whole.view(np.complex128)[:, 0][places].view(np.uint64).reshape(-1, 2))


def _keyed(name: str, texts: Any) -> Pairs:
    """The hash of every text under a column's key, zero where it is absent."""
    starts, lengths, padded = _laid_out(texts)
    words = np.ndarray((len(padded) - 7,), dtype="<u8", buffer=padded.data, strides=(1,))
    lanes = lengths.astype(np.uint64) * _MULTIPLIERS + _SEEDS
    for step in range(0, int(lengths.max(initial=0)), 8):
        active = np.flatnonzero(lengths > step)
        if len(active) == len(lengths):
            lanes = _mixed(lanes ^ (words[starts + step] & _MASKS[np.minimum(lengths - step, 8)]))
        else:
            word = words[starts[active] + step] & _MASKS[np.minimum(lengths[active] - step, 8)]
            lanes[:, active] = _mixed(lanes[:, active] ^ word)
    lanes = _mixed(lanes ^ _key(name))
    lanes[:, lengths == 0] = 0
    return np.ascontiguousarray(lanes.T)


def _compiled(name: str, column: Any) -> Pairs:
    """What `_keyed` gives for the spellings of a column."""
    out = np.empty((len(column), 2), dtype=np.uint64)
    constants = np.ascontiguousarray(np.hstack([_MULTIPLIERS, _SEEDS, _key(name)]))
    if pa.types.is_integer(column.type) and column.type != pa.uint64():
        present = column.is_valid().to_numpy(zero_copy_only=False)
        hash_integers(column.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64), present, constants, out)
    else:
        starts, lengths, padded = _laid_out(spelled(column))
        hash_texts(padded, starts, lengths, constants, out)
    return out


def _laid_out(texts: Any) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint8]]:
    """Where each text begins, how many bytes it has (none if absent), and all bytes, with eight more at the end."""
    texts = spelled(texts)
    offsets, content = laid_out(texts)
    lengths = np.diff(offsets)
    if texts.null_count:
        lengths[is_null(texts)] = 0
    first, last = int(offsets[0]), int(offsets[-1])
    padded = np.zeros(last - first + 8, dtype=np.uint8)
    padded[: last - first] = content[first:last]
    return offsets[:-1] - first, lengths, padded


def _mixed(x: Lanes) -> Lanes:
    """A permutation of each lane in which every bit depends on every bit."""
    x = x ^ (x >> _HALF)
    x *= _MULTIPLIERS
    x ^= x >> _HALF
    x *= _MULTIPLIERS
    x ^= x >> _HALF
    return x


@lru_cache(maxsize=4096)
def _key(name: str) -> Lanes:
    return np.frombuffer(hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()[:16], dtype="<u8")[:, None]


WHOLE = 2.0**53  # below it every whole floating-point number is exact; itself it stands for 2^53 + 1 as well


def plain(column: Any) -> Any:
    """An array without extension types: a UUID as text, anything else as what it is stored in."""
    if not isinstance(column.type, pa.BaseExtensionType):
        return column
    if column.type.extension_name == "arrow.uuid":
        return pa.array([None if value is None else str(value) for value in column.to_pylist()], pa.string())
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
    whole = (numbers == np.trunc(numbers)) & (np.abs(numbers) < WHOLE)
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
