"""One question, one answer: whatever the form and noise, and however it is asked, facts and estimates agree."""

from __future__ import annotations

import numpy as np
import pytest

import residua as rs
from residua.plans.verifier import composed_cost
from residua.release import Release

DOMAIN = rs.Domain({"a": rs.Integers(0, 6), "b": rs.Integers(0, 4), "one": ["only"]})
APART = rs.marginals(DOMAIN, [("a",), ("b",)])
PLANS = {
    "lattice": rs.plan(APART, rs.ZCDP(0.5)),
    "products": rs.plan(rs.prefixes(DOMAIN, "a") + rs.marginals(DOMAIN, [("b",)]), rs.ZCDP(0.5)),
    "matrix": rs.plan(APART, rs.ZCDP(0.5), form=rs.Matrix()),
    "laplace": rs.plan(APART, rs.PureDP(1.0), form=rs.Matrix()),
    "tables": rs.plan(APART, rs.PureDP(1.0)),
}
WHOLE = np.ones(7)
ASKED = {
    "a value beside all of a": ({"a": rs.between(0, 6), "b": 2}, "b = 2"),
    "all of both": ({"a": rs.between(0, 6), "b": rs.between(0, 4)}, "1"),
    "some of a": ({"a": [0, 2, 5]}, "a in (0, 2, 5)"),
    "coefficients": ({"a": WHOLE, "b": np.array([0.5, 0.5, 0.5, 0.5, 0.5])}, "0.5"),
}


def released(plan: rs.Plan) -> Release:
    """Numbers for measurements, as if they came from the door."""
    numbers = np.random.default_rng(1).integers(-(2**20), 2**20, plan.measurements.cells)
    return Release(plan, plan.measurements, numbers, {"pcost": 1.0, "epsilon": 1.0})


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("form", PLANS)
def test_a_query_is_answered_alike_however_it_is_asked(form, asked):
    plan, (query, sql) = PLANS[form], ASKED[asked]
    listed = rs.queries(DOMAIN, [sql])
    assert plan.supports(query)
    assert plan.supports(listed)
    assert plan.variance(query) == pytest.approx(plan.variances(listed)[0], rel=1e-9)
    assert plan.covariance(query, query) == pytest.approx(plan.variance(query), rel=1e-9)
    assert plan.covariance(listed)[0, 0] == pytest.approx(plan.variance(query), rel=1e-9)
    release = released(plan)
    count = release.answers(listed).columns
    if asked != "coefficients":
        assert release.count(query).estimate == pytest.approx(float(count["estimate"][0]), rel=1e-9)
        assert release.count(query).stddev == pytest.approx(float(count["stddev"][0]), rel=1e-9)
    over_both = rs.explicit(DOMAIN, np.kron(np.ones((1, 7)), np.eye(5)), on=["a", "b"])
    found = release.answers(over_both).columns
    assert found["estimate"] == pytest.approx(release.estimates(["b"]), rel=1e-9)
    assert found["stddev"] ** 2 == pytest.approx(plan.variance(["b"]), rel=1e-9)
    assert (found["lower"] < found["estimate"]).all()


@pytest.mark.parametrize("size", range(2, 12))
def test_the_last_prefix_is_the_total_at_any_length(size):
    domain = rs.Domain({"a": rs.Integers(0, size - 1), "b": ["x", "y"]})
    plan = rs.plan(rs.marginals(domain, [("a",), ("b",)]), rs.ZCDP(0.5))
    found = plan.variances(rs.prefixes(domain, "a", by=["b"])).reshape(size, 2)
    assert found[-1] == pytest.approx(plan.variance(["b"]))
    assert np.isinf(found[:-1]).all()
    assert plan.supports({"a": rs.between(0, size - 1), "b": "x"})


def test_rows_outside_what_is_measured_are_infinite_in_every_sum():
    domain = rs.Domain.of_sizes({"a": 4, "b": 4})
    plan = rs.plan(rs.product(domain, {"a": [[1, 1, 0, 0]]}, sets=[("a", "b")]), rs.ZCDP(0.5))
    asked = rs.product(domain, {"a": [[1, 1, 0, 0], [1, 0, 0, 0]], "b": [[1, 1, 1, 1]]}, sets=[("a", "b")])
    assert np.isfinite(plan.variances(asked)).tolist() == [True, False]
    assert plan.variances(asked, per="term").tolist() == [np.inf]
    assert plan.total_variance(asked) == np.inf


@pytest.mark.parametrize("form", PLANS)
def test_an_attribute_with_one_value_tells_nothing_and_costs_nothing(form):
    plan = PLANS[form]
    total = plan.variance([])
    assert plan.variance(["one"]) == pytest.approx(float(total))
    assert plan.supports({"one": "only"})
    assert plan.supports(rs.marginals(DOMAIN, [("one",), ("a", "one")]))
    assert plan.variances(rs.marginals(DOMAIN, [("one",)])) == pytest.approx(float(total))
    release = released(plan)
    assert release.estimates(["a", "one"]).ravel() == pytest.approx(release.estimates(["a"]))


@pytest.mark.parametrize("form", ["laplace", "tables"])
def test_laplace_noise_counts_as_its_square_beside_others(form):
    for unit in (rs.AddRemove(), rs.ReplaceOne()):
        workload, guarantee = APART, rs.PureDP(1.5)
        own = rs.Matrix() if form == "laplace" else None
        plan = rs.plan(workload, guarantee, unit=unit, form=own)
        assert float(composed_cost([plan])) == pytest.approx(plan.cost**2, rel=1e-9)


@pytest.mark.parametrize("form", PLANS)
def test_all_estimates_are_streamed_or_refused_in_a_sentence(form):
    release = released(PLANS[form])
    if form in ("lattice", "tables"):
        assert sum(tables.size for _, _, tables in release.all_estimates()) >= 7 + 5
    else:
        with pytest.raises(rs.ResiduaError, match="read the tables with"):
            list(release.all_estimates())
