"""What files keep of plans over trees: precisions of millions of nodes as text, and what Laplace noise adds."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from residua.linalg.arrays import Floats
from residua.plans.candidates import Candidate, candidates_of_body, candidates_to_body
from residua.plans.noise import LAPLACE


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


def laplace_to_body(
    counts: Sequence[int] | None, candidates: Sequence[Candidate], lower_bound: float
) -> dict[str, Any]:
    """What a plan with Laplace noise keeps beside the rest."""
    return {
        "counts": None if counts is None else list(counts),
        "candidates": candidates_to_body(candidates),
        "lower_bound": lower_bound,
    }


def laplace_of_body(body: dict[str, Any]) -> dict[str, Any]:
    """The fields of a plan with Laplace noise that plain values describe."""
    bound = float(body["lower_bound"])
    if not bound >= 0:
        raise ValueError("its lower bound means nothing")
    counts = None if body["counts"] is None else tuple(int(count) for count in body["counts"])
    return {
        "noise": LAPLACE,
        "counts": counts,
        "candidates": candidates_of_body(body["candidates"]),
        "lower_bound": bound,
    }
