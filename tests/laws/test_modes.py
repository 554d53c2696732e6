"""Matrices along axes: equal to the dense Kronecker product, and whole numbers without any rounding."""

from functools import reduce

import numpy as np
from hypothesis import given, settings, strategies as st

from residua.linalg.arrays import along, integer_product


@given(st.integers(0, 2**32 - 1), st.integers(0, 34), st.integers(0, 24), st.integers(1, 9))
@settings(max_examples=200)
def test_integer_products_are_exact(seed, x_bits, m_bits, n):
    rng = np.random.default_rng(seed)
    x = rng.integers(-(2**x_bits), 2**x_bits + 1, (2, 3, n))
    m = rng.integers(-(2**m_bits), 2**m_bits + 1, (n, 4))
    assert (integer_product(x, m) == x.astype(object) @ m.astype(object)).all()


@given(st.integers(0, 2**32 - 1), st.lists(st.integers(1, 5), max_size=3))
def test_matrices_along_all_axes_are_the_dense_kronecker_product(seed, sizes):
    rng = np.random.default_rng(seed)
    matrices = [rng.normal(size=(int(rng.integers(1, 5)), n)) for n in sizes]
    x = tables = rng.normal(size=(2, *sizes))
    for axis, matrix in enumerate(matrices, start=1):
        tables = along(matrix, tables, axis)
    dense = reduce(np.kron, matrices, np.ones((1, 1)))
    np.testing.assert_allclose(tables.reshape(2, -1), x.reshape(2, -1) @ dense.T, atol=1e-12)
