"""SipHash-2-4: a keyed hash of short texts and of a few numbers, compiled.

Reference: Aumasson and Bernstein (2012), "SipHash: a fast short-input PRF", INDOCRYPT 2012; 128-bit outputs as in the
    authors' own reference implementation.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from residua.compiling import compiled, compiled_inline

Words = NDArray[np.uint64]
_V0, _V1 = np.uint64(0x736F6D6570736575), np.uint64(0x646F72616E646F6D)
_V2, _V3 = np.uint64(0x6C7967656E657261), np.uint64(0x7465646279746573)


@compiled_inline
def _turned(x: Any, b: int) -> Any:
    return (x << np.uint64(b)) | (x >> np.uint64(64 - b))


@compiled_inline
def _round(v0: Any, v1: Any, v2: Any, v3: Any) -> Any:
    v0 = v0 + v1
    v1 = _turned(v1, 13) ^ v0
    v0 = _turned(v0, 32)
    v2 = v2 + v3
    v3 = _turned(v3, 16) ^ v2
    v0 = v0 + v3
    v3 = _turned(v3, 21) ^ v0
    v2 = v2 + v1
    v1 = _turned(v1, 17) ^ v2
    v2 = _turned(v2, 32)
    return v0, v1, v2, v3


@compiled_inline
def begun(k0: Any, k1: Any) -> Any:
    """The state before the first word, for a 64-bit result."""
    return k0 ^ _V0, k1 ^ _V1, k0 ^ _V2, k1 ^ _V3


@compiled_inline
def taken(v0: Any, v1: Any, v2: Any, v3: Any, word: Any) -> Any:
    """The state after one more word of eight bytes."""
    v3 = v3 ^ word
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return v0 ^ word, v1, v2, v3


@compiled_inline
def ended(v0: Any, v1: Any, v2: Any, v3: Any, words: int) -> Any:
    """The 64-bit hash of what was taken, so many whole words."""
    v0, v1, v2, v3 = taken(v0, v1, v2, v3, np.uint64(words * 8 % 256) << np.uint64(56))
    v2 = v2 ^ np.uint64(0xFF)
    for _ in range(4):
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return v0 ^ v1 ^ v2 ^ v3


@compiled
def hash_texts(values: NDArray[np.uint8], offsets: NDArray[np.int64], k0: Any, k1: Any, out: Words) -> None:
    """The 128-bit hash of each text, (texts, 2); text i is `values[offsets[i] : offsets[i + 1]]`."""
    for i in range(out.shape[0]):
        start, length = offsets[i], offsets[i + 1] - offsets[i]
        v0, v1, v2, v3 = begun(k0, k1)
        v1 = v1 ^ np.uint64(0xEE)
        for w in range(length // 8):
            word = np.uint64(0)
            for b in range(8):
                word = word | (np.uint64(values[start + 8 * w + b]) << np.uint64(8 * b))
            v0, v1, v2, v3 = taken(v0, v1, v2, v3, word)
        word = np.uint64(length % 256) << np.uint64(56)
        for b in range(length % 8):
            word = word | (np.uint64(values[start + length - length % 8 + b]) << np.uint64(8 * b))
        v0, v1, v2, v3 = taken(v0, v1, v2, v3, word)
        v2 = v2 ^ np.uint64(0xEE)
        for _ in range(4):
            v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        out[i, 0] = v0 ^ v1 ^ v2 ^ v3
        v1 = v1 ^ np.uint64(0xDD)
        for _ in range(4):
            v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        out[i, 1] = v0 ^ v1 ^ v2 ^ v3
