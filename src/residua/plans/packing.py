"""Arrays in files, as text: what they are, exactly, in a quarter of the room of decimals; each kept once."""

from __future__ import annotations

import base64
import json
import math
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from residua.linalg.arrays import Floats, Integers

_LONG = 64  # letters: shorter texts are not worth a place of their own
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


def whole_numbers(text: str, shape: tuple[int, ...]) -> Integers:
    """Packed whole numbers, of this shape.

    Raises:
        ValueError: there are more or fewer.
    """
    raw = zlib.decompressobj().decompress(base64.b85decode(text), 8 * math.prod(shape) + 8)
    return np.frombuffer(raw, dtype="<i8").astype(np.int64).reshape(shape)


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
    for parts, text in _packed_texts(body, [], set()):
        if text not in sizes:
            sizes[text] = _inflated(text, left)
        left -= parts * sizes[text]
        if left < 0:
            raise ValueError("its packed numbers are far more than a file of this size may hold")


def _packed_texts(body: Any, texts: list[str], known: set[Any], parts: int = 1) -> Iterator[tuple[int, str]]:
    """Every long text, as often as it is unpacked, and how many parts the noise has that it describes."""
    if isinstance(body, str) and len(body) > _LONG:
        yield parts, body
    elif isinstance(body, list) and body and not isinstance(body[0], int | float):
        for each in body:
            yield from _packed_texts(each, texts, known, parts)
    elif isinstance(body, dict) and body.keys() == {"text"}:
        yield parts, texts[body["text"]]
    elif isinstance(body, dict):
        if "poles" in body:
            key, parts = (id(texts), json.dumps(body, sort_keys=True)), len(body["poles"])
            if key in known:
                return
            known.add(key)
        for name, each in body.items():
            if name not in ("texts", "domain", "workload"):
                yield from _packed_texts(each, body.get("texts", texts), known, parts)


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


def with_texts_once(body: Any, texts: list[str]) -> Any:
    """Plain values in which every long text is the place where it is kept, once."""
    if isinstance(body, dict):
        return {key: with_texts_once(value, texts) for key, value in body.items()}
    if isinstance(body, list):
        return [with_texts_once(value, texts) for value in body]
    if isinstance(body, str) and len(body) > _LONG:
        if body not in texts:
            texts.append(body)
        return {"text": texts.index(body)}
    return body


def with_texts(body: Any, texts: list[str]) -> Any:
    """The plain values that `with_texts_once` was given."""
    if isinstance(body, dict):
        if body.keys() == {"text"}:
            return texts[body["text"]]
        return {key: with_texts(value, texts) for key, value in body.items()}
    return [with_texts(value, texts) for value in body] if isinstance(body, list) else body
