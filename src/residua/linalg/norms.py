"""Lengths of integer columns, exactly."""

from __future__ import annotations

from residua.linalg.arrays import Integers


def column_norms(R: Integers) -> list[int]:
    """`Σ_k R_kj²` for every column, exactly: entries are split into halves whose products stay in 64 bits."""
    high, low = R >> 20, R & (2**20 - 1)  # R = high·2^20 + low
    if largest_entry(high) >= 2**20 or len(R) >= 2**21:
        return [sum(int(entry) * int(entry) for entry in column) for column in R.T]
    parts = ((high * high).sum(axis=0), (high * low).sum(axis=0), (low * low).sum(axis=0))
    return [(int(a) << 40) + (int(b) << 21) + int(c) for a, b, c in zip(*parts, strict=True)]


def largest_entry(R: Integers) -> int:
    """The largest entry in absolute value; `np.abs` would take −2^63 for a negative number."""
    return max(int(R.max(initial=0)), -int(R.min(initial=0)))
