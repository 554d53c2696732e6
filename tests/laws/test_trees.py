"""Plans over trees: against dense matrices and the dense optimum; exact, priced, and refused when altered."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import residua as rs
from residua.errors import PlanError, VerificationError
from residua.linalg.roots import inverse_root
from residua.linalg.tree import NestedTree, root_diagonal, spectrum
from residua.measurement.noisy import with_noise
from residua.plans import ProductPlan
from residua.plans.measurements import Batch
from residua.testing import check_plan
from tests.laws.trees import domain, records, tables, workload


@st.composite
def trees(draw):
    """A tree with leaves kept once, its dense indicators level by level, and the leaf that each is kept for."""
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    parents, size = [], 1
    for _ in range(draw(st.integers(1, 3))):
        more = size + int(random.integers(0, 6))
        parents.insert(0, np.sort(np.concatenate([np.arange(size), random.integers(0, size, more - size)])))
        size = more
    many = random.integers(1, 5, size)
    kept = np.repeat(np.arange(size), many)
    tree = NestedTree((np.arange(size), *parents), many.astype(float))
    dense, at = [np.eye(len(kept))], kept
    for level in range(1, tree.depth):
        dense.append((at == np.arange(tree.sizes[level])[:, None]).astype(float))
        at = tree.parents[level][at] if level < tree.depth - 1 else at
    return tree, dense, kept, random


@given(trees())
@settings(max_examples=60, deadline=None)
def test_passes_over_the_tree_are_the_matrices(made):
    tree, dense, kept, random = made
    tau, weights = ([random.uniform(0.1, 2, n) for n in tree.sizes] for _ in range(2))
    own = [each[kept] if level == 0 else each for level, each in enumerate(tau)]
    asked = [each[kept] if level == 0 else each for level, each in enumerate(weights)]
    gamma = sum((T.T * t) @ T for t, T in zip(own, dense, strict=True))
    gram = sum((T.T * w) @ T for w, T in zip(asked, dense, strict=True))
    sigma = np.linalg.inv(gamma)
    solved = tree.solved(tau)
    for level, T in enumerate(dense):
        found = solved.V[level][kept] if level == 0 else solved.V[level]
        assert found == pytest.approx(np.diag(T @ sigma @ T.T), rel=1e-8)
    assert tree.total(weights, solved.V) == pytest.approx(np.trace(gram @ sigma), rel=1e-9)
    for level, (slopes, T) in enumerate(zip(solved.slopes(weights), dense, strict=True)):
        wanted = np.diag(T @ sigma @ gram @ sigma @ T.T)
        assert slopes == pytest.approx(np.bincount(kept, weights=wanted) if level == 0 else wanted, rel=1e-7)
    q = random.uniform(0.1, 2, tree.sizes[0])
    S = np.sqrt(q[kept])[:, None] * gram * np.sqrt(q[kept])
    values, vectors = np.linalg.eigh(S)
    low, high = spectrum(tree, weights, q)
    assert low <= values[0] * (1 + 1e-9)
    assert high >= values[-1] * (1 - 1e-9)
    root = root_diagonal(tree, weights, q, inverse_root(low, high, 1e-8))
    assert root[kept] == pytest.approx(np.diag((vectors * np.sqrt(values)) @ vectors.T), rel=1e-6)


@pytest.fixture(scope="module", params=["node", "level"])
def made(request):
    asked = workload(domain(60))
    return rs.plan(asked, rs.GDP(1.0), form=rs.Tree(request.param)), asked


@pytest.mark.parametrize("strategy", ["node", "level"])
def test_the_law_of_every_plan_holds(strategy):
    check_plan(rs.plan(workload(domain(20)), rs.GDP(1.0), form=rs.Tree(strategy)))


def test_nobody_does_better_than_the_bound_says(made):
    plan, asked = made
    best = rs.plan(asked, rs.GDP(1.0), form=rs.Matrix(), tolerance=1e-5)
    loss, least = plan.total_variance(asked), best.total_variance(asked.listed())
    assert loss / (1 + plan.gap) <= least * (1 + 1e-7)
    assert loss <= least * (1 + plan.gap)
    assert plan.gap < (1e-3 if len(plan.parts[()].precisions[0]) > 1 else 2e-2)


def test_releases_have_the_stated_means_variances_and_covariances(made):
    """False alarm: each of about 300 figures beyond 6.5 standard errors, below 1e-7."""
    plan, asked = made
    given, releases = plan.domain, 300
    table = tables(given, records(given, 500)).ravel().astype(np.int64)
    found = np.array(
        [
            plan.estimator(plan.measurements, with_noise(plan.measurements, table)).answers(asked)[0]
            for _ in range(releases)
        ]
    )
    off = found - asked.listed().over((0, 1, 2)) @ table
    sigma = plan.covariance(asked)
    stddev = np.sqrt(np.diag(sigma))
    assert (np.abs(off.mean(axis=0)) < 6.5 * stddev / math.sqrt(releases)).all()
    seen = off.T @ off / releases
    errors = np.sqrt((np.outer(stddev, stddev) ** 2 + sigma**2) / releases)
    assert (np.abs(seen - sigma) < 6.8 * errors).all()
    assert np.abs(np.diag(seen) / np.diag(sigma) - 1).mean() < 0.1


def test_an_altered_plan_is_not_measured_and_not_loaded(made, tmp_path):
    plan, _ = made
    louder = plan.scaled(1.001)
    ledger = rs.Ledger(tmp_path / "l", rs.GDP(1.0))
    with pytest.raises(VerificationError, match="more than"):
        rs.measure(louder, records(plan.domain, 10), ledger=ledger)
    assert not ledger.entries
    with pytest.raises(ValueError, match="more than it claims"):
        ProductPlan.of_body(louder.to_body())
    first, *others = plan.measurements.pieces
    cut = replace(plan.measurements, pieces=(replace(first, scales=(*first.scales[:-1], np.full(7, 99.0))), *others))
    with pytest.raises(VerificationError, match="do not fit"):
        cut.price(rs.AddRemove())


def test_it_is_measured_saved_read_and_projected(made, tmp_path):
    plan, _ = made
    given, data = plan.domain, records(plan.domain, 900)
    ledger = rs.Ledger(tmp_path / "l", rs.GDP(1.0))
    release = rs.measure(plan, data, ledger=ledger, out=tmp_path / "out")
    assert len(ledger.entries) == 1
    table = release.table(["block", "sex"], queries={"block": "county within state=s1"})
    whole = release.table(["block", "sex"], queries={"block": "county"})
    names = whole.columns["block"]
    place = [names.index(label) for label in table.columns["block"][::2]]
    assert table.estimates == pytest.approx(whole.estimates[[i // 2 for i in place]])
    inside = release.table(["block"], queries={"block": "identity within county=c2"})
    assert set(inside.columns["block"]) < set(release.table(["block"]).columns["block"])
    assert inside.estimates.sum() == pytest.approx(
        float(
            release.table(["block"], queries={"block": "county"}).estimates[
                list(given["block"].level("county").labels).index("c2")
            ]
        )
    )
    projected = rs.project(release, total=900)
    projected.save(tmp_path / "projected")
    counts = rs.Projected.load(tmp_path / "projected").estimates(["block", "sex"])
    assert counts.min() >= 0
    assert counts.sum() == pytest.approx(900)
    states = projected.table(["block"], queries={"block": "state"}).estimates
    assert np.bincount(given["block"].level("state").codes, weights=counts.sum(axis=1)) == pytest.approx(states)
    assert projected.estimates(["sex"]) == pytest.approx(counts.sum(axis=0))
    with pytest.raises(rs.ResiduaError, match="no group of level"):
        release.table(["block"], queries={"block": "identity within county=nowhere"})


def test_each_level_meets_its_target_with_little_to_spare():
    given = domain(60)
    asked = rs.product(given, {"block": "hierarchy", "sex": "identity"}) + rs.hierarchy(given, "block")
    targets = {("state",): 3.0, ("county",): 4.0, ("block",): 6.0, ("block", "sex"): 8.0, ("state", "sex"): 3.5}
    plan = rs.plan(asked, targets=targets, form=rs.Tree())
    assert isinstance(plan, ProductPlan)
    found = []
    for names, target in {**targets, ("county", "sex"): 8.0}.items():
        level = "identity" if "block" in names else names[0]
        rows = {"block": level, **({"sex": "identity"} if "sex" in names else {})}
        found.append(float(plan.variances(rs.product(given, rows)).max()) / target)
    assert max(found) <= 1
    assert max(found) > 1 - 1e-6
    assert plan.gap < 0.06
    with pytest.raises(PlanError, match=r"names \('tract',\), which .* asks for \('state', 'sex'\)"):
        rs.plan(asked, targets={("tract",): 3.0}, form=rs.Tree())
    with pytest.raises(PlanError, match="no variance for"):
        rs.plan(asked, targets={("state",): 3.0}, form=rs.Tree())
    means = rs.plan(asked, rs.GDP(1.0), minimise=rs.MaxVariance(over="terms"), form=rs.Tree())
    assert means.gap < 2e-3


def test_targets_listed_query_by_query_are_those_by_name():
    given = domain(60)
    asked = rs.product(given, {"block": "hierarchy", "sex": "identity"}) + rs.hierarchy(given, "block")
    asked = asked + rs.product(given, {"block": "county"})
    variances = {"state": 3.0, "county": 4.0, "block": 6.0}
    listed = []
    for label in asked.query_labels():
        level = next((name for name in ("state", "county") if f"block.{name}=" in label), "block")
        listed.append(variances[level] + (2.0 if "sex=" in label else 0.0))
    named = {(level, *more): v + 2.0 * len(more) for level, v in variances.items() for more in ((), ("sex",))}
    by_name = rs.plan(asked, targets=named, form=rs.Tree())
    assert rs.plan(asked, targets=listed, form=rs.Tree()).guarantee == by_name.guarantee
    assert (by_name.variances(asked) <= np.array(listed) * (1 + 1e-9)).all()
    stricter = [*listed[:-1], listed[-1] / 2]
    with pytest.raises(PlanError, match=r"differ between cells of \('county',\); give all .* of a level"):
        rs.plan(asked, targets=stricter, form=rs.Tree())
    last = len(listed) - len(given["block"].level("county"))
    twice = listed[:last] + [1.0] * (len(listed) - last)  # counties are asked for by two terms: the stricter one counts
    alike = rs.plan(asked, targets={**named, ("county",): 1.0}, form=rs.Tree())
    assert rs.plan(asked, targets=twice, form=rs.Tree()).guarantee == alike.guarantee
    for wrong in (listed[:-1], [*listed[:-1], "few"]):
        with pytest.raises(PlanError, match="targets"):
            rs.plan(asked, targets=wrong, form=rs.Tree())
    for number in (0.0, float("nan")):
        with pytest.raises(PlanError, match=r"\('county',\) is not a positive finite"):
            rs.plan(asked, targets=listed[:last] + [number] * (len(listed) - last), form=rs.Tree())


def test_many_values_get_a_tree_by_themselves_and_few_do_not():
    long = rs.Domain({"block": rs.Integers(0, 1999, levels={"ten": list(range(0, 2001, 10)), "all": [0, 1000, 2000]})})
    plan = rs.plan(rs.hierarchy(long, "block"), rs.GDP(1.0))
    assert plan.shared == "nodes"
    assert plan.gap < 1e-3
    short = rs.Domain({"block": rs.Integers(0, 99, levels={"ten": list(range(0, 101, 10))})})
    assert rs.plan(rs.hierarchy(short, "block"), rs.GDP(1.0)).shared == "strategies"
    with pytest.raises(PlanError, match="leave the form out"):
        rs.plan(rs.prefixes(short, "block"), rs.GDP(1.0), form=rs.Tree())


def test_any_matrix_on_a_long_axis_is_refused_with_the_size_that_fits():
    long = rs.Domain({"minute": rs.Integers(0, 10**6 - 1)})
    with pytest.raises(PlanError, match=r"fit for up to about \d+,\d+ of them"):
        rs.plan(rs.product(long, {"minute": np.ones((2, 10**6))}), rs.GDP(1.0))


def test_batches_hold_no_count():
    plan = rs.plan(workload(domain(20)), rs.GDP(1.0), form=rs.Tree())
    assert all(isinstance(batch, Batch) for batch in plan.measurements.batches())
    assert set(vars(plan.measurements)) & {"tables", "counts"} == set()
