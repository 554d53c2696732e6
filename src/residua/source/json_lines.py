"""JSON lines: one object per line, one column per key."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from residua.errors import SourceError
from residua.source.files import FilesSource
from residua.source.paths import File, opened
from residua.source.records import BATCH_ROWS, missing_columns

if TYPE_CHECKING:
    from residua.source.digest import Digest

_SAMPLE = 1000  # lines that are looked at for keys, before all are


class JsonLinesSource(FilesSource):
    """Files of JSON lines."""

    def _names(self, path: File) -> tuple[str, ...]:
        return _keys(path, _SAMPLE)

    def check(self, columns: Sequence[str]) -> None:
        """Refuses keys that are in no line of any file; a file without lines has zero records, whatever their keys."""
        there: dict[str, None] = {}
        for most in (_SAMPLE, None):  # a rare key may come late
            for path in self.files:
                there.update(dict.fromkeys(_keys(path, most)))
            if all(name in there for name in columns):
                return
        if there:
            missing = [name for name in columns if name not in there]
            raise SourceError(missing_columns(missing, tuple(there), str(self)))

    def _read_one(self, path: File, columns: Sequence[str]) -> Iterator[Any]:
        with _lines(path) as lines:
            while rows := list(islice(lines, BATCH_ROWS)):
                arrays = [_array([row.get(name) for row in rows], name, path) for name in columns]
                yield pa.RecordBatch.from_arrays(arrays, names=list(columns))

    def digested(self, columns: Sequence[str], digest: Digest) -> Iterator[Any]:
        """Batches of these keys; all others go into the digest. A key that no line has is noticed at the end."""
        there: dict[str, None] = {}
        for path in self.files:
            with _lines(path) as lines:
                while rows := list(islice(lines, BATCH_ROWS)):
                    keys = dict.fromkeys(chain.from_iterable(rows))
                    there.update(keys)
                    others = [name for name in keys if name.strip() and name not in columns]
                    arrays = [_array([row.get(name) for row in rows], name, path) for name in columns]
                    arrays += [_array([_flat(row.get(name)) for row in rows], name, path) for name in others]
                    batch = pa.RecordBatch.from_arrays(arrays, names=[*columns, *others])
                    digest.add(batch)
                    yield batch.select(list(columns))
        missing = [name for name in columns if name not in there]
        if there and missing:
            raise SourceError(missing_columns(missing, tuple(there), str(self)))


def _flat(value: Any) -> Any:
    """A value that nobody counts, nested ones as text, for the digest alone."""
    return msgspec.json.encode(value, order="sorted").decode() if isinstance(value, list | dict) else value


def _keys(path: File, most: int | None) -> tuple[str, ...]:
    keys: dict[str, None] = {}
    with _lines(path) as lines:
        for row in islice(lines, most):
            keys.update(dict.fromkeys(row))
    return tuple(keys)


def _array(values: list[Any], name: str, path: File) -> Any:
    """The values as one type: truth values, whole numbers or numbers where they are all that, else text."""
    kinds = {type(value) for value in values} - {type(None)}
    if kinds & {dict, list}:
        raise SourceError(f"{str(path)!r}: the key {name!r} holds lists or objects; flatten them first.")
    if kinds <= {str}:
        return pa.array(values, pa.string())
    if kinds == {bool}:
        return pa.array(values, pa.bool_())
    if kinds == {int} and all(value is None or -(2**63) <= value < 2**63 for value in values):
        return pa.array(values, pa.int64())
    if kinds <= {int, float} and all(type(value) is not int or abs(value) <= 2**53 for value in values):
        return pa.array([None if value is None else float(value) for value in values], pa.float64())
    texts = [value if value is None or isinstance(value, str) else _spelled(value) for value in values]
    return pa.array(texts, pa.string())


def _spelled(value: bool | int | float) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@contextmanager
def _lines(path: File) -> Iterator[Iterator[dict[str, Any]]]:
    decoder = msgspec.json.Decoder(dict[str, Any])
    try:
        with opened(path, stream=True) as raw:
            yield (decoder.decode(line) for line in io.BufferedReader(raw) if line.strip())
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise SourceError(
            f"{str(path)!r} has a line that is not one JSON object; repair it (the file may be truncated)."
        ) from None
    except RecursionError:
        raise SourceError(f"{str(path)!r} has a line that is nested too deeply; flatten it.") from None
    except OSError:
        raise SourceError(
            f"{str(path)!r} cannot be unpacked or read; it is damaged or truncated: copy it again."
        ) from None
