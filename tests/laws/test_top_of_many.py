"""Lists of the largest of very many counts: ranks are there, and never narrower than with all covariances."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

import residua as rs
from residua.quoting.intervals import Confidence
from residua.quoting.ratios import rank_intervals, wide_rank_intervals
from residua.release import Release
from tests.statistics.copies import measured


def test_ranks_without_covariances_contain_those_with_them() -> None:
    rng = np.random.default_rng(1)
    root = rng.normal(size=(30, 30))
    covariance, estimates = root @ root.T, rng.normal(scale=40, size=30)
    level = Confidence(0.95, 1)
    low, high = rank_intervals(estimates, covariance, level)
    wide_low, wide_high = wide_rank_intervals(estimates, np.sqrt(np.diagonal(covariance)), np.arange(30), level)
    assert (wide_low <= low).all()
    assert (wide_high >= high).all()
    assert (wide_high - wide_low < 29).any(), "and still say something"


def test_the_largest_of_6400_counts_are_listed(tmp_path: Path) -> None:
    places = [f"p{i}" for i in range(80)]
    domain = rs.Domain({"origin": places, "destination": places})
    pairs = {"origin": places + ["p7"] * 500, "destination": places[::-1] + ["p3"] * 500}
    ledger = rs.Ledger(tmp_path / "l", rs.ZCDP(1.0))
    release = rs.measure(rs.plan(rs.marginals(domain, ways=[2]), rs.ZCDP(1.0)), pa.table(pairs), ledger=ledger)
    listed = release.top(["origin", "destination"], 2)
    assert (listed["origin"][0], listed["destination"][0]) == ("p7", "p3")
    assert (listed["rank_lower"][0], listed["rank_upper"][0]) == (1, 1)
    assert listed["rank_upper"][1] > 100


def test_intervals_of_what_noise_chose_hold() -> None:
    """All counts are equal: the largest are those whose noise is, which intervals as in a table miss nearly always.

    Of 240 intervals 5 % may miss on average, whatever is chosen; a fifth would in fewer than one of a million runs.
    """
    domain = rs.Domain({"place": rs.Integers(0, 199)})
    plan = rs.plan(rs.marginals(domain, ways=[1]), rs.ZCDP(0.1))
    held, plainly, ranks = [], [], []
    for row in measured(plan.measurements, np.full(200, 50), 80):
        listed = Release(plan, plan.measurements, row).top(["place"], 3)
        held += ((listed["lower"] <= 50) & (listed["upper"] >= 50)).tolist()
        plainly += (np.abs(listed["estimate"] - 50) <= 1.96 * listed["stddev"]).tolist()
        ranks += [
            low == 1 and high == 200 for low, high in zip(listed["rank_lower"], listed["rank_upper"], strict=True)
        ]
    assert np.mean(held) > 0.8
    assert np.mean(ranks) > 0.8
    assert np.mean(plainly) < 0.3
