"""Quantiles of a long axis come from its running sums, and are those of the matrices."""

import numpy as np
import pyarrow as pa
import pytest

import residua as rs
from residua.errors import PlanError
from residua.quoting import distributions


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    domain = rs.Domain({"minute": rs.Integers(0, 199), "sex": ["F", "M"]})
    plan = rs.plan(rs.prefixes(domain, "minute"), rs.GDP(1.0), form=rs.Axis())
    minutes = np.random.default_rng(0).integers(0, 200, 300)
    data = pa.table({"minute": minutes, "sex": ["F"] * 300})
    return rs.measure(plan, data, ledger=rs.Ledger(tmp_path_factory.mktemp("l") / "l", rs.GDP(1.0)))


def test_running_sums_beside_the_total_have_the_variances_of_their_rows(release):
    rows = np.tril(np.ones((200, 200))) - 0.3
    listed = rs.explicit(release.plan.domain, np.repeat(rows, 2, axis=1))
    variances = release.plan.correlated.beside_total(0.3)
    assert variances == pytest.approx(np.diag(release.plan.covariance(listed)), rel=1e-6)


@pytest.mark.parametrize("together", [None, "table"])
def test_long_and_short_ways_agree(release, monkeypatch, together):
    shares = [0.05, 0.5, 0.9]
    short = release.quantile("minute", shares, simultaneous=together)
    monkeypatch.setattr(distributions, "_MOST_VALUES", 100)
    long = release.quantile("minute", shares, simultaneous=together)
    for name in ("estimate", "stddev", "lower", "upper"):
        assert getattr(long, name) == pytest.approx(getattr(short, name))
    assert (long.upper > long.lower).all()  # so that there is something to get wrong


def test_what_takes_a_matrix_is_refused_with_the_size_that_works(release, monkeypatch):
    monkeypatch.setattr(distributions, "_MOST_VALUES", 100)
    with pytest.raises(PlanError, match=r"200 values.*100 at most"):
        release.quantile("minute", 0.5, by=["sex"])
    with pytest.raises(PlanError, match=r"200 values.*100 at most"):
        release.plan.assuming(300).quantile("minute", 0.5)
