"""Matrices along axes: equal to the dense Kronecker product, and whole numbers without any rounding."""

from functools import reduce

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from residua.linalg.modes import integer_kronecker, integer_product, kronecker


@given(st.integers(0, 2**32 - 1), st.integers(0, 34), st.integers(0, 24), st.integers(1, 9))
@settings(max_examples=200)
def test_integer_products_are_exact(seed, x_bits, m_bits, n):
    rng = np.random.default_rng(seed)
    x = rng.integers(-(2**x_bits), 2**x_bits + 1, (2, 3, n))
    m = rng.integers(-(2**m_bits), 2**m_bits + 1, (n, 4))
    assert (integer_product(x, m) == x.astype(object) @ m.astype(object)).all()


@given(st.integers(0, 2**32 - 1), st.lists(st.integers(1, 5), max_size=3))
def test_integer_kronecker_is_the_dense_one_with_extreme_entries(seed, sizes):
    rng = np.random.default_rng(seed)
    matrices = [
        None if rng.integers(3) == 0 else rng.integers(-(2**12), 2**12 + 1, (int(rng.integers(1, 5)), n)) for n in sizes
    ]
    x = rng.integers(0, 2**20, (2, *sizes))
    whole = [n * np.eye(n, dtype=int) - 1 if m is None else m for m, n in zip(matrices, sizes, strict=True)]
    dense = reduce(np.kron, (m.astype(object) for m in whole), np.ones((1, 1), dtype=object))
    found = integer_kronecker(matrices, x)
    assert found.dtype == np.int64
    assert found.flags.c_contiguous
    assert (found.reshape(2, -1) == x.reshape(2, -1).astype(object) @ dense.T).all()


@given(st.integers(0, 2**32 - 1), st.lists(st.integers(1, 5), max_size=3))
def test_kronecker_is_the_dense_one(seed, sizes):
    rng = np.random.default_rng(seed)
    matrices = [None if rng.integers(3) == 0 else rng.normal(size=(int(rng.integers(1, 5)), n)) for n in sizes]
    x = rng.normal(size=(2, *sizes))
    dense = reduce(
        np.kron, (np.eye(n) if m is None else m for m, n in zip(matrices, sizes, strict=True)), np.ones((1, 1))
    )
    np.testing.assert_allclose(kronecker(matrices, x).reshape(2, -1), x.reshape(2, -1) @ dense.T, atol=1e-12)
