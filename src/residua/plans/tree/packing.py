"""Precisions of millions of nodes as text in a plan's file."""

from __future__ import annotations

import base64
import zlib

import numpy as np

from residua.linalg.arrays import Floats


def packed(array: Floats) -> str:
    """Numbers as text, exactly; neighbouring bytes are alike once transposed."""
    raw = np.ascontiguousarray(array, dtype="<f8").view(np.uint8).reshape(-1, 8).T
    return base64.b64encode(zlib.compress(np.ascontiguousarray(raw).tobytes(), 1)).decode()


def unpacked(text: str) -> Floats:
    """The numbers behind packed text, all of them finite and none negative."""
    raw = zlib.decompressobj().decompress(base64.b64decode(text, validate=True), 2**30)
    if len(raw) % 8:
        raise ValueError("its precisions are not whole")
    found = np.ascontiguousarray(np.frombuffer(raw, dtype=np.uint8).reshape(8, -1).T).view("<f8").ravel()
    if not (np.isfinite(found).all() and (found >= 0).all()):
        raise ValueError("a precision is no number")
    return found.astype(np.float64)
