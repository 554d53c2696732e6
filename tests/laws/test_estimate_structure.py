"""What is sharp stays sharp, what is long fits: functions of attributes, and an attribute of ten thousand values."""

import numpy as np
import pyarrow as pa
import pytest

import residua as rs
from residua.estimation.shrinkage import decided, shrunk
from tests.laws.estimations import measured


@pytest.mark.parametrize("shape", [(8, 8), (20, 4), (6, 6, 6)])
def test_a_function_of_the_others_is_found_and_nothing_is_made_one(shape):
    """At noise of a quarter of the mean count of a row; even rows are no function, whatever the noise looks like."""
    random, errors, found = np.random.default_rng(3), np.zeros(2), 0
    for _ in range(20):
        sums = 50.0 * random.gamma(2.0, size=shape[:-1])
        value = random.integers(0, shape[-1], shape[:-1])
        sharp = sums[..., None] * (np.arange(shape[-1]) == value[..., None])
        model = np.broadcast_to(sums[..., None] / shape[-1], shape).copy()
        stddev = 0.25 * float(sums.mean())
        for truth in (sharp, model):
            deviation = truth - model + stddev * random.standard_normal(shape)
            plain = shrunk(deviation, model, stddev**2)
            own = decided(plain, deviation, model, stddev**2)
            assert truth is sharp or not own.decided
            found += own.decided
            if truth is sharp:
                errors += [float(((model + one.mean - truth) ** 2).sum()) for one in (plain, own)]
    assert found >= 15
    assert errors[1] < 0.8 * errors[0]


def test_a_sum_and_a_level_are_empty_where_nobody_is(tmp_path):
    random = np.random.default_rng(4)
    a, b, e = random.integers(0, 4, 20_000), random.integers(0, 4, 20_000), random.integers(0, 12, 20_000)
    data = {"a": a, "b": b, "sum": (a + b) % 4, "e": e, "level": e // 4}
    domain = rs.Domain.of_sizes({"a": 4, "b": 4, "sum": 4, "e": 12, "level": 3})
    plan = rs.plan_estimates(rs.marginals(domain, ways=3), rs.ZCDP(0.05), records=20_000)
    estimated = rs.estimate(measured(tmp_path, pa.table(data), plan))
    for names, rule in (("a b sum", lambda x: (x[0] + x[1]) % 4 == x[2]), ("e level", lambda x: x[0] // 4 == x[1])):
        table = estimated.estimates(names.split())
        assert table[~rule(np.indices(table.shape))].sum() < 0.005 * table.sum()


def test_an_attribute_of_ten_thousand_values_is_estimated(tmp_path):
    random = np.random.default_rng(5)
    place = np.minimum((random.pareto(1.0, 30_000) * 40).astype(int), 9_999)
    data = {"place": place, "kind": place % 3, "other": random.integers(0, 4, 30_000)}
    domain = rs.Domain.of_sizes({"place": 10_000, "kind": 3, "other": 4})
    plan = rs.plan_estimates(rs.marginals(domain, ways=2), rs.ZCDP(0.5), records=30_000)
    estimated = rs.estimate(measured(tmp_path, pa.table(data), plan))
    true = np.bincount(place * 3 + place % 3, minlength=30_000).reshape(10_000, 3)
    table = estimated.estimates(["place", "kind"])
    assert table.min() >= 0
    np.testing.assert_allclose(table.sum(axis=1), estimated.estimates(["place"]), atol=1.0)
    assert np.abs(table - true).sum() < 0.5 * len(place)
    assert np.isfinite(estimated.accuracy(["place", "kind", "other"]).rmse)
    assert estimated.estimates(["place", "kind", "other"]).sum() == pytest.approx(estimated.total, rel=1e-3)
