"""What is kept of records comes back as it was."""

import numpy as np
import pytest

import residua as rs
from residua.source.checking import KeptCodes


@pytest.mark.parametrize(
    "sizes",
    [[1], [256], [1, 256, 1], [10, 10, 20, 73_000], [200, 200, 200], [2] * 40, [65_536, 65_536], [70_000, 3, 70_000]],
    ids=str,
)
def test_codes_come_back_whatever_words_they_share(sizes):
    random = np.random.default_rng(1)
    domain = rs.Domain.of_sizes(sizes)
    kept = KeptCodes(domain, 1 << 30)
    batches = [[random.integers(0, n, rows).astype(np.int32) for n in sizes] for rows in (1, 1000)]
    for codes in batches:
        for column, n in zip(codes, sizes, strict=True):
            column[-1] = n - 1  # the largest code of all attributes at once
        kept.add(codes, None, None)
    assert kept.rows == 1001
    for codes, (found, weights, ids) in zip(batches, kept.batches(), strict=True):
        assert weights is None
        assert ids is None
        for column, back in zip(codes, found, strict=True):
            assert np.array_equal(column, back)
    kept.forget()
    assert not list(kept.batches())
