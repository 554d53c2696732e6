"""Replicates of estimates: as far from the estimate as it is from the truth, one long file, numbers combined."""

from __future__ import annotations

import numpy as np
import pyarrow.parquet
import pytest

import residua as rs
from residua.errors import PlanError
from tests.laws.estimations import SIZES, records, released, truth

DATA = records(np.random.default_rng(1))


def test_replicates_are_as_far_from_the_estimate_as_it_is_from_the_truth(tmp_path):
    """Fourteen cells of singles in five releases: the true error varies by a sixth."""
    true, spread = 0.0, 0.0
    for _ in range(5):
        estimated = rs.estimate(released(tmp_path, DATA, rho=0.005))
        replicates = estimated.replicates(4)
        for name in SIZES:
            own = estimated.estimates([name])
            true += float(((own - truth(DATA, (name,))) ** 2).sum())
            spread += float(np.mean([((one.estimates([name]) - own) ** 2).sum() for one in replicates]))
    assert 0.4 < np.sqrt(spread / true) < 2.5


def test_all_replicates_are_one_long_file_and_public_facts_hold_in_each(tmp_path):
    estimated = rs.estimate(released(tmp_path, DATA, ways=(1, 2)), total=3000)
    replicates = estimated.replicates(3)
    replicates.to_parquet(tmp_path / "replicates.parquet")
    file = pyarrow.parquet.read_table(tmp_path / "replicates.parquet")
    assert file.column_names == ["replicate", "table", *SIZES, "value"]
    assert len(file) == 3 * sum(table.estimates.size for table in estimated.tables())
    for one in replicates:
        assert one.estimates(["a", "b"]).sum() == pytest.approx(3000)
        assert not np.allclose(one.estimates(["a"]), estimated.estimates(["a"]))
    with pytest.raises(PlanError, match="positive whole number"):
        estimated.replicates(0)


def test_numbers_are_combined_by_their_distance_from_what_was_published(tmp_path):
    estimated = rs.estimate(released(tmp_path, DATA, ways=(1,)), total=3000)
    replicates = estimated.replicates(3)
    statistic = {id(estimated): 5.0} | {id(one): value for one, value in zip(replicates, (4.0, 6.0, 9.0), strict=True)}
    assert replicates.redrawn is not None
    statistic |= {id(one): value for one, value in zip(replicates.redrawn(), (5.0, 8.0, 5.0), strict=True)}
    combined = replicates.combined(estimated, lambda one: statistic[id(one)], within=7.0)
    assert float(combined.estimate) == 5.0
    assert float(combined.stddev) == pytest.approx(4.0)  # √((1 + 1 + 16) / 3 + (0 + 9 + 0) / 3 + 7)
    assert float(combined.upper - combined.estimate) == pytest.approx(3.182446 * 4.0)  # t of three degrees of freedom
    with pytest.raises(PlanError, match="confidence"):
        replicates.combined(estimated, lambda one: 0.0, confidence=2)
