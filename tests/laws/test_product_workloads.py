"""Workloads of products: they add, weigh, name every query, and refuse what means nothing."""

import numpy as np
import pytest

import residua as rs
from residua.errors import PlanError, WorkloadError
from residua.workload.asking import Prefixes, Ranges


def test_workloads_add_and_weigh():
    domain = rs.Domain.of_sizes({"a": 4, "b": 2})
    both = rs.marginals(domain, ways=1) + 2 * rs.prefixes(domain, "a", by=["b"])
    assert both.with_rows
    assert both.sets == (("a",), ("b",), ("a", "b"))
    assert both.weights.tolist() == [1.0, 1.0, 2.0]
    assert len(both.families) == 2  # `a` is asked in two ways
    twice = rs.prefixes(domain, "a") + rs.prefixes(domain, "a")
    assert (len(twice), twice.weights.tolist()) == (1, [2.0])
    explicit = both + rs.queries(domain, ["a <= 1"])
    assert explicit.queries == both.queries + 1
    assert (rs.queries(domain, ["a <= 1"]) + both).queries == both.queries + 1
    assert list(rs.ranges(domain, "a", listed=[(1, 2)], by=["b"]).query_labels()) == ["a=1..2, b=0", "a=1..2, b=1"]


def test_workloads_can_be_listed_query_by_query():
    small = rs.Domain.of_sizes({"a": 12, "b": 6})
    workload = rs.prefixes(small, "a", by=["b"]) + rs.prefixes(small, "b", by=["a"])
    listed = rs.explicit(small, workload, weight=2.0)
    assert list(listed.labels) == list(workload.query_labels())
    assert listed.weights.tolist() == [2.0] * workload.queries
    assert rs.explicit(small, rs.marginals(small, ways=1)).queries == 18
    with pytest.raises(WorkloadError, match="another domain"):
        rs.explicit(rs.Domain.of_sizes([3]), workload)
    with pytest.raises(WorkloadError, match="its own attributes"):
        rs.explicit(small, workload, labels=["x"])


def test_other_values_have_no_place_in_an_order():
    domain = rs.Domain({"age": rs.Integers(0, 3, unknown="other"), "b": ["x", "y"]})
    assert list(rs.prefixes(domain, "age").query_labels()) == ["age<=0", "age<=1", "age<=2", "age<=3", "age=(other)"]
    ranges = rs.ranges(domain, "age")
    assert (ranges.queries, list(ranges.query_labels())[-1]) == (11, "age=(other)")
    asked = ranges.families[0].queries[0]
    W, K = asked.matrix(), np.arange(25.0).reshape(5, 5) + np.arange(25.0).reshape(5, 5).T + 50 * np.eye(5)
    p = np.arange(1.0, 12.0)
    assert asked.gram() == pytest.approx(W.T @ W)
    assert asked.gram(p) == pytest.approx(W.T @ np.diag(p) @ W)
    assert asked.times(np.arange(5.0)) == pytest.approx(W @ np.arange(5.0))
    assert asked.diagonal(K) == pytest.approx(np.diag(W @ K @ W.T))


BAD = [
    (lambda d: rs.product(d, {"a": "quantiles"}), WorkloadError, "an unknown kind; use .identity"),
    (lambda d: rs.product(d, {"z": "ranges"}), WorkloadError, "unknown attribute"),
    (lambda d: rs.product(d, {}), WorkloadError, "empty"),
    (lambda d: rs.product(d, {"a": np.ones((2, 3))}), WorkloadError, "3 columns"),
    (lambda d: rs.product(d, {"a": [[1, 2, 3, np.nan]]}), WorkloadError, "NaN"),
    (lambda d: rs.product(d, {"a": [[0, 0, 0, 0]]}), WorkloadError, "row 0"),
    (lambda d: rs.product(d, {"a": [["x"] * 4]}), WorkloadError, "numbers"),
    (lambda d: rs.product(d, "a"), WorkloadError, "mapping"),
    (lambda d: rs.product("d", {"a": "ranges"}), WorkloadError, "Domain"),
    (lambda d: rs.product(d, {"a": "ranges"}, ways=[9]), WorkloadError, "ways"),
    (lambda d: rs.product(d, {"a": "ranges"}, weight=-1.0), WorkloadError, "weight"),
    (lambda d: rs.hierarchy(d, "a"), WorkloadError, "no levels"),
    (lambda d: rs.prefixes(d, "a", by=["a"]), WorkloadError, "twice"),
    (lambda d: rs.ranges(d, "a", listed=[(0, 7)]), WorkloadError, "leaves the attribute"),
    (lambda d: rs.ranges(d, "a", listed=[(2, 1)]), WorkloadError, "exchange them"),
    (lambda d: rs.ranges(d, "a", listed=[3]), WorkloadError, "not a range"),
    (lambda d: rs.ranges(d, "a", listed=[]), WorkloadError, "no ranges"),
    (lambda d: rs.ranges(d, "a") + rs.ranges(rs.Domain.of_sizes({"a": 3}), "a"), WorkloadError, "different domains"),
    (lambda d: rs.plan(rs.ranges(d, "a")), PlanError, "say what to spend"),
    (
        lambda d: rs.plan(rs.product(d, {"a": np.diag([1e-6, 1e-2, 1e2, 1e5])}), rs.GDP(1.0)),
        PlanError,
        "differ in size",
    ),
    (lambda d: rs.MaxVariance(over="cells"), PlanError, "cells"),
    (lambda d: rs.plan(rs.ranges(d, "a"), targets={("b",): 1.0}), PlanError, "does not ask"),
    (lambda d: rs.plan(rs.ranges(d, "a"), targets=float("nan")), PlanError, "positive finite"),
]


@pytest.mark.parametrize(("make", "error", "words"), BAD)
def test_bad_input(make, error, words):
    with pytest.raises(error, match=words):
        make(rs.Domain.of_sizes({"a": 4, "b": 2}))


def test_prefixes_and_ranges_of_bins_are_named_by_their_edges() -> None:
    inf = float("inf")
    bins, named, other = (
        rs.Bins([0, 700, 750.5, inf]),
        rs.Bins([0, 1, 2], ("low", "high")),
        rs.Bins([0, 5, 9], unknown="other"),
    )
    assert list(Prefixes(3).labels(bins)) == ["<700", "<750.5", "<=inf"]
    assert list(Prefixes(2).labels(named)) == ["<=low", "<=high"]
    assert list(Prefixes(3, other=True).labels(other)) == ["<5", "<=9", "=(other)"]
    ranges = ["=[0, 700)", "=[0, 750.5)", "=[0, inf]", "=[700, 750.5)", "=[700, inf]", "=[750.5, inf]"]
    assert list(Ranges(3).labels(bins)) == ranges
    assert list(Ranges(2).labels(named)) == ["=low", "=low..high", "=high"]
