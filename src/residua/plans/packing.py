"""Arrays in files, as text: what they are, exactly, in a quarter of the room of decimals; each kept once."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import numpy as np

from residua.linalg.arrays import Floats

_LONG = 64  # letters: shorter texts are not worth a place of their own


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
