"""Arrays in files, as text: what they are, exactly, in a quarter of the room of decimals."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from residua.linalg.arrays import Floats

_LONG = 64  # letters: shorter texts unpack to little
_MODEST, _PER_LETTER = 2**26, 32  # bytes that a file's texts may unpack to, and how many more for every letter


def packed(values: Floats) -> str:
    """Numbers as text; neighbouring bytes are alike once transposed."""
    raw = np.ascontiguousarray(values, dtype="<f8").view(np.uint8).reshape(-1, 8).T
    return base64.b85encode(zlib.compress(np.ascontiguousarray(raw).tobytes(), 6)).decode()


def unpacked(text: str, most: int) -> Floats:
    """The numbers behind packed text, all of them finite and none negative.

    Args:
        text: what `packed` made.
        most: how many there may be: no more is ever unpacked.

    Raises:
        ValueError: there are more, or they are no such numbers.
    """
    raw = zlib.decompressobj().decompress(base64.b85decode(text), 8 * most + 8)
    if len(raw) % 8 or len(raw) > 8 * most:
        raise ValueError("an array is not as long as it should be")
    values = np.ascontiguousarray(np.frombuffer(raw, dtype=np.uint8).reshape(8, -1).T).view("<f8").ravel()
    if not (np.isfinite(values).all() and (values >= 0).all()):
        raise ValueError("an array holds what is no number, or negative")
    return values.astype(np.float64)


def require_modest(body: Any, letters: int) -> None:
    """Refuses plain values of a small file whose packed texts are not small.

    Noise along an axis counts once for each of its parts, as each takes its time, and once however often it is used.

    Args:
        body: the plain values.
        letters: how large the file is.

    Raises:
        ValueError: they unpack to far more than the file holds.
    """
    left, sizes = _MODEST + _PER_LETTER * letters, dict[str, int]()
    for parts, text in _packed_texts(body, set()):
        if text not in sizes:
            sizes[text] = _inflated(text, left)
        left -= parts * sizes[text]
        if left < 0:
            raise ValueError("its packed numbers are far more than a file of this size may hold")


def _packed_texts(body: Any, known: set[str], parts: int = 1) -> Iterator[tuple[int, str]]:
    """Every long text, as often as it is unpacked, and how many parts the noise has that it describes."""
    if isinstance(body, str) and len(body) > _LONG:
        yield parts, body
    elif isinstance(body, list) and body and not isinstance(body[0], int | float):
        for each in body:
            yield from _packed_texts(each, known, parts)
    elif isinstance(body, dict):
        if "poles" in body:
            key, parts = json.dumps(body, sort_keys=True), len(body["poles"])
            if key in known:
                return
            known.add(key)
        for name, each in body.items():
            if name not in ("domain", "workload", "network"):
                yield from _packed_texts(each, known, parts)


def _inflated(text: str, most: int) -> int:
    """How many bytes a packed text unpacks to, or more than the most; a megabyte is held at a time."""
    try:
        left, size, stream = base64.b85decode(text), 0, zlib.decompressobj()
        while left and not stream.eof and size <= most:
            size += len(stream.decompress(left, 2**20))
            left = stream.unconsumed_tail
        return size
    except (ValueError, zlib.error):
        return 0  # no packed text
