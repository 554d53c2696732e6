"""What is kept of records comes back as it was, and is digested alike by the compiled loop and without it."""

import numpy as np
import pyarrow as pa
import pytest

import residua as rs
from residua.source import digest
from residua.source.kept import Kept


@pytest.mark.parametrize(
    "sizes",
    [[1], [256], [1, 256, 1], [10, 10, 20, 73_000], [200, 200, 200], [2] * 40, [65_536, 65_536], [70_000, 3, 70_000]],
    ids=str,
)
def test_codes_come_back_whatever_words_they_share(sizes):
    random = np.random.default_rng(1)
    domain = rs.Domain.of_sizes(sizes)
    kept = Kept(domain, 1 << 30)
    batches = [[random.integers(0, n, rows).astype(np.int32) for n in sizes] for rows in (1, 1000)]
    for codes in batches:
        for column, n in zip(codes, sizes, strict=True):
            column[-1] = n - 1  # the largest code of all attributes at once
        kept.add(None, codes, None, None)
    assert kept.rows == 1001
    for codes, (found, weights, ids) in zip(batches, kept.batches(), strict=True):
        assert weights is None
        assert ids is None
        for column, back in zip(codes, found, strict=True):
            assert np.array_equal(column, back)
    kept.forget()
    assert not list(kept.batches())


def test_a_digest_does_not_depend_on_how_it_is_summed(monkeypatch):
    random = np.random.default_rng(2)
    columns = {
        "sorted": np.sort(random.integers(-50, 90_000, 20_000)),
        "small": random.integers(0, 9, 20_000).astype(np.int8),
        "wide": random.integers(-(2**62), 2**62, 20_000),
        "text": random.choice(["F", "M", ""], 20_000),
    }
    table = pa.table({**columns, "absent": pa.array([None, 3, 4, 5] * 5_000)})
    found = []
    for worth in (1 << 40, 1):  # with NumPy alone; all but the first batch by the compiled loop
        monkeypatch.setattr(digest, "_WORTH_SUMMING", worth)
        made = digest.Digest()
        for batch in table.to_batches(max_chunksize=1_500):
            made.add(batch)
        found.append(made.fingerprint)
    assert found[0] == found[1]
    shuffled = digest.Digest()
    for batch in table.take(random.permutation(len(table))).to_batches():
        shuffled.add(batch)
    assert shuffled.fingerprint == found[0]
