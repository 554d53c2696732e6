"""Blockwise plans in use: releases, files, pools, projections against CVXPY, persons by brute force, the command."""

from itertools import combinations, product

import cvxpy as cp
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import residua as rs
from residua.errors import PlanError
from residua.plans.blockwise.plan import BlockwisePlan
from residua.projection.problems import problem_of
from tests.cli.command import inside
from tests.laws.person_costs import everyone

WIDE = rs.Domain({name: rs.Integers(0, 5) for name in "abcdef"})  # 46,656 cells
PAIRS = list(combinations("abcd", 2))


def asked(domain=WIDE):
    tied = {f"{p} < {q}": f"{p} < {q}" for p, q in PAIRS} | {f"{p} near {q}": f"abs({p} - {q}) <= 1" for p, q in PAIRS}
    return rs.queries(domain, tied) + rs.marginals(domain, [*((name,) for name in domain.names), *PAIRS])


PLAN = rs.plan(asked(), rs.ZCDP(0.02))


def people(count=300):
    random = np.random.default_rng(2)
    return pa.table({name: np.minimum(random.geometric(0.5, count) - 1, 5) for name in WIDE.names})


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    folder = tmp_path_factory.mktemp("joint")
    ledger = rs.Ledger(folder / "l", rs.ZCDP(0.04))
    return folder, [rs.measure(PLAN, people(), ledger=ledger) for _ in range(2)]


def truth():
    data = {name: column.to_numpy() for name, column in zip(WIDE.names, people().columns, strict=True)}
    near = [(np.abs(data[p] - data[q]) <= 1).sum() for p, q in PAIRS]
    return np.array([(data[p] < data[q]).sum() for p, q in PAIRS] + near)


def test_releases_are_saved_loaded_and_pooled(released):
    folder, (one, other) = released
    assert isinstance(PLAN, BlockwisePlan)
    found = one.answers(asked()).columns
    assert (np.abs(found["estimate"][:12] - truth()) < 6 * found["stddev"][:12]).all()
    one.save(folder / "r")
    again = rs.Release.load(folder / "r")
    assert np.array_equal(again.answers(asked()).columns["estimate"], found["estimate"])
    pool = rs.pooled([again, other])
    both = pool.answers(asked()).columns
    assert both["stddev"] == pytest.approx(found["stddev"] / np.sqrt(2), rel=1e-6)
    middle = (found["estimate"] + other.answers(asked()).columns["estimate"]) / 2
    assert both["estimate"] == pytest.approx(middle, abs=1e-3)
    assert one.count({"a": 3}).stddev == pytest.approx(np.sqrt(one.plan.variance({"a": 3})))
    one.report(folder / "r.html")
    assert "blocks" in (folder / "r.html").read_text()


@pytest.mark.parametrize("terms", [{}, {"total": 300}, {"known": {("a",): [150, 75, 40, 20, 15, 0]}}], ids=str)
def test_a_projection_is_the_nearest_tables_that_agree(released, terms):
    """Against CVXPY: a table for each pair, whose margins agree, and the rows that were measured of each table."""
    folder, (release, _) = released
    projected = rs.project(release, simulations=0, **terms)
    problem = problem_of(release.plan, projected.terms)
    tables = {pair: cp.Variable((6, 6), nonneg=True) for pair in combinations("abcd", 2)}
    singles = {name: cp.Variable(6, nonneg=True) for name in "abcdef"}
    total = projected.estimates(())
    limits = [cp.sum(one) == float(total) for one in singles.values()]
    for (p, q), table in tables.items():
        limits += [cp.sum(table, axis=1) == singles[p], cp.sum(table, axis=0) == singles[q]]
    if "known" in terms:
        limits.append(singles["a"] == np.array([150, 75, 40, 20, 15, 0]))
    distance = 0
    for block in release.plan.blocks_of:
        names = tuple("abcdef"[i] for i, _ in block)
        flat = cp.vec(tables[names], order="C") if len(names) == 2 else singles[names[0]] if names else total
        rows = release.plan.value_rows(block)
        seen = rows @ flat if names else rows.ravel() * float(total)
        noise = np.sqrt(release.plan.variance_of[block])
        distance += cp.sum_squares((seen - release.estimator.measured[block]) / noise)
    least = cp.Problem(cp.Minimize(distance), limits).solve(solver="CLARABEL")
    assert projected.distance == pytest.approx(least, rel=2e-4)
    assert projected.distance <= least + projected.gap + 2e-4 * least
    assert projected.gap < 1e-3 * least
    assert problem.moved(problem.observed(release), projected.fit) == pytest.approx(projected.distance)
    pair = projected.estimates(["a", "b"])
    assert pair.min() >= 0
    assert pair.sum(axis=1) == pytest.approx(projected.estimates(["a"]), abs=1e-6)
    assert projected.answers().estimates[0] == pytest.approx(pair[np.triu_indices(6, 1)].sum(), abs=1e-6)
    projected.save(folder / f"p{len(str(terms))}")
    again = rs.Projected.load(folder / f"p{len(str(terms))}")
    assert np.array_equal(again.estimates(["b", "a"]), projected.estimates(["b", "a"]))


def test_tables_at_levels_are_projected_at_their_levels(tmp_path):
    """Groups of a by b, a by groups of b: no table has both finest, and none is negative."""
    domain = rs.Domain({"a": rs.Integers(0, 7), "b": rs.Integers(0, 7), "c": rs.Integers(0, 79)})  # 5,120 cells
    pairs = np.kron(np.eye(4), np.ones(2))
    workload = rs.product(domain, {"a": pairs, "b": "identity"}) + rs.product(domain, {"a": "identity", "b": pairs})
    workload += rs.product(domain, {"a": pairs, "c": "identity"})
    plan = rs.plan(workload, rs.ZCDP(0.05), form=rs.Blockwise())
    random = np.random.default_rng(0)
    data = pa.table({name: random.integers(0, n, 200) for name, n in zip(domain.names, (8, 8, 80), strict=True)})
    projected = rs.project(rs.measure(plan, data, ledger=rs.Ledger(tmp_path / "l", rs.ZCDP(0.05))), simulations=0)
    tables = [np.asarray(table.columns["estimate"]) for table in projected.tables()]
    assert min(table.min() for table in tables) >= -1e-9
    assert [table.sum() for table in tables] == pytest.approx([float(projected.estimates(()))] * 3)
    assert np.concatenate(tables) == pytest.approx(projected.answers().estimates)
    with pytest.raises(PlanError, match="does not tell what is asked"):
        projected.answers(rs.prefixes(domain, "a", by=["b"]))
    with pytest.raises(PlanError, match="does not answer"):
        projected.estimates(["a", "b"])


def test_what_cannot_be_projected_is_refused(released):
    _, (release, _) = released
    with pytest.raises(PlanError, match="leave metric out"):
        rs.project(release, metric="plain")
    with pytest.raises(PlanError, match="no table on"):
        rs.project(release, known={("e", "f"): np.ones((6, 6))})


SMALL = rs.Domain({"a": rs.Integers(0, 2), "b": rs.Integers(0, 2), "c": ["x", "y"]})
UNITS = [rs.Person(2), rs.Person(2, one_per="a"), rs.Person(3, one_per="b"), rs.ReplaceOne(), rs.AddRemove(2)]


@pytest.mark.parametrize("unit", UNITS, ids=str)
def test_no_person_costs_more_than_the_price(unit):
    """Everyone that the unit allows, on every cell, from the integers that are measured."""
    workload = rs.queries(SMALL, ["a < b", "a + b <= 2", "b = 1 and c = 'x'"]) + rs.prefixes(SMALL, "b")
    plan = rs.plan(workload, rs.ZCDP(0.5), unit=unit, form=rs.Blockwise())
    blocks, rows = plan.measurements, []
    for block, own, scale in zip(blocks.measured, blocks.rows, blocks.scales, strict=True):
        at = [
            np.ravel_multi_index(
                [int(plan.axes[i].classes[level - 1][cell[i]]) for i, level in block],
                [plan.axes[i].count(level) for i, level in block],
            )
            if block
            else 0
            for cell in product(range(3), range(3), range(2))
        ]
        rows.append(own.rows[:, at] / scale)
    rows = np.vstack(rows)
    if unit.contribution is None:
        moved = (rows[:, :, None] - rows[:, None, :]).reshape(len(rows), -1)
    else:
        limits = tuple((SMALL.position(name), most) for name, most in unit.contribution.limits)
        moved = rows @ everyone((3, 3, 2), unit.contribution.records, limits).T
    worst = float((moved**2).sum(axis=0).max())
    price = float(blocks.price(unit))
    assert worst <= price * (1 + 1e-12)
    assert price <= 1.0
    if not plan.slack:
        assert worst == pytest.approx(price, rel=1e-9)


def test_groups_take_blockwise_plans():
    """Γ of a group is its plan's own; the same table is told in every group."""
    one = rs.plan(rs.marginals(SMALL, [("a",), ("b",)]), rs.ZCDP(0.5))
    tied = rs.plan(rs.queries(SMALL, ["a < b", "a = b", "a = 0"]), rs.ZCDP(0.5), form=rs.Blockwise())
    plan = rs.by_group({"one": one, "tied": tied}, by=["c"], chosen={"x": "one", "y": "tied"})
    inside_y = rs.queries(SMALL, ["a < b and c = 'y'", "a = 0 and c = 'y'"])
    assert plan.variances(inside_y) == pytest.approx(tied.variances(rs.queries(SMALL, ["a < b", "a = 0"])), rel=1e-9)
    both = rs.queries(SMALL, ["a = 0"])
    assert plan.variances(both) == pytest.approx(one.variances(both) + tied.variances(both), rel=1e-9)
    assert plan.pcost == pytest.approx(1.0)


SPEC = """
[source]
path = "people.parquet"
[privacy]
rho = 0.5
[domain]
{domain}
[[plan.small.workload]]
sets = [["a"], ["b"]]
[[plan.large.workload]]
queries = {{ first = "a < b", near = "abs(c - d) <= 1", far = "abs(e - f) > 3" }}
[[plan.large.workload]]
sets = [["a"], ["b"]]
"""


def test_sessions_of_the_command_over_many_cells(tmp_path):
    pq.write_table(people(), tmp_path / "people.parquet")
    domain = "\n".join(f"{name} = {{ low = 0, high = 5 }}" for name in "abcdef")
    (tmp_path / "spec.toml").write_text(SPEC.format(domain=domain))

    def run(*words):
        done = inside(*words, cwd=tmp_path)
        assert done.code == 0, (done.out, done.err)
        return done.out

    run("session", "open", "spec.toml")
    run("session", "look", "spec.toml", "small", "large")
    run("session", "finish", "spec.toml", "large", "--out", "out")
    release = rs.Release.load(tmp_path / "out")
    assert isinstance(release.plan, BlockwisePlan)
    assert "near" in run("answers", "out")
    run("report", "out", "--out", "r.html")
    run("project", "out", "--out", "projected")
    assert rs.Projected.load(tmp_path / "projected").estimates(["a", "b"]).min() >= 0
