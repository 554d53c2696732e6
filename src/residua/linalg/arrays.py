"""Arrays: names by what their entries are, arrays that stay, matrices along axes, and exact products.

Shapes are said where they matter, as (m, n). Whole numbers are multiplied by the fast floating-point product, in pieces
so small that every partial sum stays below 2^53 and nothing is rounded; the pieces are put together in 64-bit integers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from residua.machine import csr_array, kron

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]
Objects = NDArray[np.object_]  # whole numbers of any size
Positions = NDArray[np.int32]  # of attributes or nodes: whole numbers that fit 32 bits
Words = NDArray[np.uint64]  # random bits
Array = NDArray[Any]  # of any kind


def keep_fixed(value: object, *names: str, dtype: Any = None) -> None:
    """Gives a frozen value copies of its arrays of these names, which cannot be changed any more."""
    for name in names:
        array = np.array(getattr(value, name), dtype=dtype)
        array.setflags(write=False)
        object.__setattr__(value, name, array)


_EXACT_BITS = 53


def along(matrix: Floats, tables: Floats, axis: int) -> Floats:
    """Each fibre of the tables along an axis multiplied by a matrix (m, n): (…, n, …) becomes (…, m, …)."""
    before, n, after = tables.shape[:axis], tables.shape[axis], tables.shape[axis + 1 :]
    rows = tables.reshape(math.prod(before), n, math.prod(after))
    products = np.matmul(rows[:, :, 0], matrix.T) if rows.shape[2] == 1 else np.matmul(matrix, rows)
    return np.asarray(products.reshape(*before, len(matrix), *after))


def kronecker(matrices: Iterable[Array], factor: float = 1.0) -> Floats:
    """The Kronecker product of matrices, times a factor."""
    return reduce(lambda a, b: np.asarray(np.kron(a, b), dtype=np.float64), matrices, np.full((1, 1), factor))


def sparse_kronecker(matrices: Iterable[csr_array]) -> csr_array:
    """The Kronecker product of sparse matrices."""
    return reduce(lambda a, b: csr_array(kron(a, b, format="csr")), matrices, csr_array(np.ones((1, 1))))


def centred(tables: Floats, first: int = 0) -> Floats:
    """Tables minus their mean along every axis in turn, from the first of them on; axes before it number tables."""
    for axis in range(first, tables.ndim):
        tables = tables - tables.mean(axis=axis, keepdims=True)
    return tables


def integer_product(left: Integers, right: Integers) -> Integers:
    """`X M` for whole X (…, n) and M (n, m): exact modulo 2^64, hence exact when the result fits 64 bits."""
    if left.size == left.shape[-1]:  # one row: converting the matrix takes longer than the product
        return np.asarray(left @ right)
    x_bits, m_bits = _bits(left), _bits(right)
    room = _EXACT_BITS - left.shape[-1].bit_length()  # a sum of n products needs log2 n bits more than each
    if x_bits + m_bits <= room:
        return np.asarray(np.matmul(left.astype(np.float64), right.astype(np.float64)).astype(np.int64))
    m_step = min(max(m_bits, 1), max(room // 2, 1))
    x_step = room - m_step
    total = np.zeros((*left.shape[:-1], right.shape[1]), dtype=np.int64)
    for m_shift, m_piece in _pieces(right, m_bits, m_step):
        for x_shift, x_piece in _pieces(left, x_bits, x_step):
            total += np.matmul(x_piece, m_piece).astype(np.int64) << (x_shift + m_shift)
    return total


def _pieces(values: Integers, bits: int, step: int) -> list[tuple[int, Floats]]:
    """`values = Σ piece · 2^shift` with every piece below 2^step in size, as floats."""
    sign, size = np.sign(values), np.abs(values)
    mask = (1 << step) - 1
    return [(shift, (sign * ((size >> shift) & mask)).astype(np.float64)) for shift in range(0, max(bits, 1), step)]


def _bits(values: Integers) -> int:
    return max(int(values.max(initial=0)), -int(values.min(initial=0))).bit_length()


def contrasts(n: int) -> Floats:
    """Orthonormal rows that sum to 0 (Helmert's), (n − 1, n)."""
    rows = np.tril(np.ones((n, n)), -1)[1:]
    k = np.arange(1, n)
    rows[np.arange(n - 1), k] = -k
    return np.asarray(rows / np.sqrt(k * (k + 1.0))[:, None])


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
