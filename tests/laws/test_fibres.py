"""Noise of its own for each set of the attributes that an axis is crossed with: against dense matrices of what is
really measured, against the dense optimum, priced never below the truth, and refused when altered."""

from __future__ import annotations

import json
from functools import cache

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import chi2

import residua as rs
from residua.errors import FileError, PlanError
from residua.plans.product.plan import ProductPlan
from residua.plans.statements import packed
from residua.testing import check_plan
from residua.testing.case import measured_by
from tests.resealed import body_of, reseal_document

MINUTES = rs.Integers(0, 11, levels={"quarter": [0, 3, 4, 9, 12], "half": [0, 4, 12]})
DOMAIN = rs.Domain({"sex": ["F", "M"], "minute": MINUTES, "one": ["only"], "region": ["a", "b", "c"]})


def by(kind, *names):
    return rs.product(DOMAIN, {"minute": kind}, sets=[("minute", *names)])


WORKLOADS = {
    "prefixes, quarters by region": by("prefixes") + by("quarter", "region"),
    "prefixes, levels by both": by("prefixes") + 3 * by("hierarchy", "region", "sex"),
    "prefixes by sex, values by region": by("prefixes", "sex") + by("identity", "region"),
    "ranges by region, halves by sex": 0.1 * by("ranges", "region") + by("half", "sex"),
    "and tables without it": by("prefixes", "sex") + 9 * rs.marginals(DOMAIN, [("sex", "region"), ("one",), ()]),
    "ranges, and totals by region": by("ranges") + 40 * rs.marginals(DOMAIN, [("region",)]),
}


@cache
def planned(kind):
    return rs.plan(WORKLOADS[kind], rs.GDP(1.0), form=rs.Axis(apart=True))


def over_all(workload):
    listed = workload.listed()
    return listed.over(tuple(range(len(DOMAIN)))).toarray()


@pytest.mark.parametrize("kind", WORKLOADS)
def test_the_law_of_every_plan_holds_and_it_is_the_dense_optimum(kind):
    plan, workload = planned(kind), WORKLOADS[kind]
    check_plan(plan)
    assert plan.cost <= 1.0
    best = rs.plan(workload, rs.GDP(1.0), form=rs.Matrix(), tolerance=1e-4)
    ours, theirs = plan.total_variance(workload), best.total_variance(workload)
    assert plan.gap < 2e-3
    assert plan.comparison_class == "the best possible"
    assert ours <= theirs * (1 + plan.gap)
    assert ours / (1 + plan.gap) <= theirs * (1 + 1e-6)


def test_a_record_costs_what_all_sets_cost_in_its_own_cell():
    """Sets that are expensive in different cells are not added up by their most expensive ones."""
    saved = []
    for kind in WORKLOADS:
        plan = planned(kind)
        by_sets = sum(plan.with_parts({members: each}).pcost for members, each in plan.parts.items())
        saved.append(by_sets / plan.pcost - 1)
    assert min(saved) > -1e-9
    assert max(saved) > 1e-3


@pytest.mark.parametrize("kind", ["prefixes, quarters by region", "and tables without it"])
def test_releases_have_the_stated_errors_and_are_kept_exactly(kind, tmp_path):
    plan, workload = planned(kind), WORKLOADS[kind]
    rng = np.random.default_rng(0)
    columns = {"sex": ["F", "M"], "minute": list(range(12)), "one": ["only"], "region": ["a", "b", "c"]}
    data = pa.table({name: rng.choice(values, 500) for name, values in columns.items()})
    codes = [np.array([values.index(each) for each in data[name].to_pylist()]) for name, values in columns.items()]
    x = np.bincount(np.ravel_multi_index(codes, [len(values) for values in columns.values()]), minlength=72)
    truth = over_all(workload) @ x
    errors = []
    for k in range(120):
        ledger = rs.Ledger(tmp_path / f"{k}.ledger", rs.GDP(1.0))
        release = rs.measure(plan, data, ledger=ledger)
        errors.append(release.answers(workload).estimates - truth)
    found, stated = np.array(errors), plan.covariance(workload)
    energies, U = np.linalg.eigh(stated)
    seen = energies > 1e-6 * energies.max()
    squares = ((found @ U[:, seen]) ** 2 / energies[seen]).sum()
    count = found.shape[0] * int(seen.sum())
    assert chi2.ppf(5e-7, count) < squares < chi2.ppf(1 - 5e-7, count)  # one false alarm in a million
    release.save(tmp_path / "out")
    loaded = rs.Release.load(tmp_path / "out")
    assert isinstance(loaded.plan, ProductPlan)
    assert np.array_equal(loaded.answers(workload).estimates, release.answers(workload).estimates)
    for names in ([], ["region"], ["sex"], ["minute"]):
        if loaded.plan.supports(names):
            assert loaded.estimates(names).sum() == pytest.approx(float(loaded.estimates([])))


@pytest.mark.parametrize("change", ["factor", "pole", "weight", "q", "members", "attribute", "twice", "axis inside"])
def test_altered_plans_are_refused(change, tmp_path):
    plan = planned("prefixes, quarters by region")
    plan.save(path := tmp_path / "plan.json")
    assert rs.Plan.load(path).variances(WORKLOADS["prefixes, quarters by region"]) == pytest.approx(
        plan.variances(WORKLOADS["prefixes, quarters by region"])
    )
    body = json.loads(body_of(path.read_bytes()))
    first = body["parts"][0]
    noise = body["axes"][first["operator"]["axis"]]
    if change == "factor":
        first["operator"]["factor"] *= 0.9
    elif change in ("pole", "weight"):
        noise[f"{change}s"][1] *= {"pole": 1.5, "weight": 0.5}[change]
    elif change == "q":
        noise["q"] = packed(np.full(11, 1 / 11))
    elif change == "members":
        first["members"] = [9]
    elif change == "attribute":
        body["attribute"] = 7
    elif change == "twice":
        body["parts"].append(json.loads(json.dumps(first)))
    else:
        first["members"] = [1]
    reseal_document(path, json.dumps(body).encode())
    with pytest.raises(FileError):
        rs.Plan.load(path)


def test_it_is_chosen_by_itself_where_one_noise_is_far_from_the_best():
    days = rs.Integers(0, 1_499, levels={"month": [*range(0, 1_500, 30), 1_500]})
    domain = rs.Domain({"day": days, "region": ["a", "b", "c", "d"]})
    workload = rs.prefixes(domain, "day") + rs.product(domain, {"day": "month"}, sets=[("day", "region")])
    plan = rs.plan(workload, rs.GDP(1.0))
    assert isinstance(plan, ProductPlan)
    assert plan.gap < 1e-3
    one = rs.plan(workload, rs.GDP(1.0), form=rs.Axis())
    assert one.gap > 0.1
    assert plan.total_variance(workload) < one.total_variance(workload) / 1.1
    least = rs.plan(workload, at_most=1e5)
    assert least.total_variance(workload) == pytest.approx(1e5, rel=1e-4)
    assert rs.common([plan, plan]).equivalent(plan)
    assert (plan + plan).pcost == pytest.approx(2 * plan.pcost)
    for combined in (lambda: rs.top_up(plan, given=[one]), lambda: plan + one):
        with pytest.raises(PlanError, match="at most 4,096"):
            combined()
    with pytest.raises(PlanError, match="apart=True is for one axis"):
        rs.plan(workload, rs.GDP(1.0), form=rs.Axis(apart=True), minimise=rs.MaxVariance())
    person = rs.plan(workload, rs.GDP(1.0), unit=rs.Person(records=3))
    assert person.variances(workload) == pytest.approx(
        9 / 0.98 * plan.variances(workload), rel=1e-6
    )  # 2 % are for what is left out


def test_releases_are_projected_quoted_and_pooled(tmp_path):
    kind = "prefixes, levels by both"
    plan, workload = planned(kind), WORKLOADS[kind]
    rng = np.random.default_rng(1)
    columns = {"sex": ["F", "M"], "minute": list(range(12)), "one": ["only"], "region": ["a", "b", "c"]}
    data = pa.table({name: rng.choice(values, 60) for name, values in columns.items()})
    release = rs.measure(plan, data, ledger=rs.Ledger(tmp_path / "ledger", rs.GDP(1.0)))
    projected = rs.project(release)
    table = projected.estimates(["minute", "region", "sex"])
    assert table.min() >= 0
    assert table.sum(axis=(0, 2)) == pytest.approx(projected.estimates(["region"]), abs=1e-3)
    assert projected.estimates(["minute"]).sum() == pytest.approx(float(projected.estimates([])), abs=1e-3)
    running = release.estimator.running(1, 0.5)
    assert running is not None
    each = np.tril(np.ones((12, 12))) - 0.5
    rows = {("minute",): each[4]}
    assert running[1][4] == pytest.approx(plan.combination_variance(rows), rel=1e-9)
    assert running[0][4] == pytest.approx(release.combination(rows).estimate)
    assert release.quantile("minute", 0.5).lower <= release.quantile("minute", 0.5).upper
    assert release.share({"sex": "F"}).stddev > 0
    again = rs.measure(plan, data, ledger=rs.Ledger(tmp_path / "again", rs.GDP(1.0)))
    both = rs.pooled([release, again], same_people=True).answers(workload)
    assert both.stddev == pytest.approx(release.answers(workload).stddev / np.sqrt(2), rel=1e-5)
    mean = (release.answers(workload).estimates + again.answers(workload).estimates) / 2
    assert np.abs(both.estimates - mean).max() < 0.01 * both.stddev.min()  # rounded to the grid once more
    assert workload.queries == len(release.answers(workload).estimates)


def test_whatever_is_answered_is_unbiased_and_what_is_not_is_told():
    plan = planned("and tables without it")
    rows = measured_by(plan.measurements, plan.domain.sizes.tolist()).rows
    x = np.random.default_rng(0).integers(0, 99, rows.shape[1])
    estimator = plan.estimator(plan.compile(), rows @ x)
    listed = rs.queries(
        DOMAIN, ["minute < 4 and sex = 'F'", "region = 'a'", "minute < 4", "region = 'a' and sex = 'M'"]
    )
    assert estimator.answers(listed)[0] == pytest.approx(over_all(listed) @ x)
    cells = np.zeros((12, 3))
    cells[:, 1] = 1.0
    assert estimator.combination({("minute", "region"): cells})[0] == pytest.approx(float(estimator.marginal((3,))[1]))
    assert not plan.supports({"minute": rs.between(0, 3), "region": np.array([1e-9, 0.0, 0.0])})
    assert plan.supports({"minute": rs.between(0, 3), "region": np.full(3, 0.1)})
    assert plan.variance({"sex": np.array([1e-9, 0.0])}) == pytest.approx(1e-18 * plan.variance({"sex": "F"}))


def test_projection_does_not_make_what_was_asked_worse(tmp_path):
    """Where levels alone were asked, noise between their groups is huge, and moves nothing."""
    n, cuts = 120, [*range(0, 120, 10), 120]
    domain = rs.Domain({"day": rs.Integers(0, n - 1, levels={"month": cuts}), "region": list("abcd"), "one": ["only"]})
    months = rs.product(domain, {"day": "month"}, sets=[("day", "region", "one")])
    workload = rs.product(domain, {"day": "prefixes"}, sets=[("day", "one")]) + months
    plan = rs.plan(workload, rs.GDP(1.0), form=rs.Axis(apart=True))
    rng = np.random.default_rng(1)
    days = np.minimum(rng.geometric(6 / n, 2_000) - 1, n - 1)
    data = pa.table({"day": days, "region": rng.choice(list("abcd"), 2_000, p=[0.7, 0.2, 0.08, 0.02])})
    data = data.append_column("one", pa.array(["only"] * 2_000))
    codes = np.array(["abcd".index(each) for each in data["region"].to_pylist()])
    table = np.histogram2d(days, codes, (range(n + 1), range(5)))[0]
    truth = np.concatenate([table.sum(axis=1).cumsum(), np.add.reduceat(table, cuts[:-1], axis=0).ravel()])
    before = after = 0.0
    for k in range(6):
        release = rs.measure(plan, data, ledger=rs.Ledger(tmp_path / f"{k}.ledger", rs.GDP(1.0)))
        before += np.abs(release.answers(workload).estimates - truth).mean()
        after += np.abs(rs.project(release).answers(workload).estimates - truth).mean()
    assert after < 1.1 * before
