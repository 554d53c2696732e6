"""Whether some dataset has projected tables: proofs that are checked here without the solver."""

from importlib import import_module
from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest

import residua as rs
from residua.errors import PlanError
from residua.projection.column_generation import elimination, least_cell
from residua.projection.realisable import is_tree, realisable_tables

PAIRS = ((0, 1), (0, 2), (1, 2))
THREE = rs.Domain.of_sizes({"a": 2, "b": 2, "c": 2})


def margins(histogram, sets):
    return {each: histogram.sum(axis=tuple(i for i in range(histogram.ndim) if i not in each)) for each in sets}


def check(domain, tables, answer):
    """What an answer claims, recomputed: the dataset's tables, or that no cell allows what the weights find."""
    if answer.verdict:
        if answer.histogram is not None:
            assert answer.histogram.min() >= 0
            for members, table in margins(answer.histogram, tables).items():
                assert np.abs(table - tables[members]).max() <= answer.distance + 1e-12
        return
    assert answer.verdict is False
    names = domain.names
    weights = {members: answer.inequality[tuple(names[i] for i in members)] for members in tables}
    found = sum(float((weights[members] * table).sum()) for members, table in tables.items())
    total = next(iter(tables.values())).sum()
    size = sum(np.abs(each).sum() for each in weights.values())
    cells = np.ndindex(*domain.sizes)
    least = min(sum(weights[members][tuple(cell[i] for i in members)] for members in tables) for cell in cells)
    assert total * least - found >= 0.999 * answer.missed * size > 0


def test_pairs_that_always_differ_belong_to_no_dataset():
    table = np.array([[0.0, 5.0], [5.0, 0.0]])
    tables = dict.fromkeys(PAIRS, table)
    answer = realisable_tables(THREE, tables)
    assert answer.verdict is False
    assert not answer
    assert answer.missed == pytest.approx(5 / 3, rel=2e-4)  # two of three pairs differ at most
    check(THREE, tables, answer)


@pytest.mark.parametrize("seed", range(5))
def test_tables_of_a_dataset_are_recognised(seed):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 5, 4).tolist()
    domain = rs.Domain.of_sizes(sizes)
    tables = margins(rng.poisson(2.0, sizes).astype(float), list(combinations(range(4), 2)))
    answer = realisable_tables(domain, tables)
    assert answer.verdict is True
    check(domain, tables, answer)


def test_projections_of_pairs_are_told_apart_with_proofs(tmp_path):
    """Some fit a dataset and some none (of forty, about half): each answer is proven, none is left open."""
    rows = np.array([(0, 1, 0), (1, 0, 1), (0, 1, 1), (1, 0, 0), (0, 0, 1), (1, 1, 0)] * 40)
    data = pa.table({name: rows[:, i] for i, name in enumerate("abc")})
    plan = rs.plan(rs.marginals(THREE, ways=2), rs.ZCDP(0.1))
    ledger = rs.Ledger(tmp_path / "l", rs.ZCDP(100.0))
    verdicts = []
    for _ in range(40):
        release = rs.measure(plan, data, ledger=ledger)
        projected = rs.project(release, total=240.0)
        answer = projected.realisable()
        tables = {each: projected.estimates([THREE.names[i] for i in each]) for each in PAIRS}
        check(THREE, tables, answer)
        verdicts.append(answer.verdict)
        of_a_dataset = rs.project(release, total=240.0, realisable=True, simulations=0)
        assert of_a_dataset.realisable().verdict is True
        assert of_a_dataset.gap <= 2e-6 * of_a_dataset.distance + 1e-6
        for each in PAIRS:
            names = [THREE.names[i] for i in each]
            assert of_a_dataset.estimates(names).min() >= 0
            assert of_a_dataset.estimates(names).sum() == pytest.approx(240.0)
        if answer.verdict:
            continue
        # The nearest in the release's own metric that no dataset has is nearer than the nearest that one has.
        free = rs.project(release, total=240.0, metric="covariance", shrink=False, simulations=0)
        assert free.distance <= of_a_dataset.distance * (1 + 1e-5) + 1e-5
    # Each fits none with a chance of about one half; that all forty agree has one of less than one in 10⁹.
    assert set(verdicts) == {True, False}


def test_a_tree_of_tables_always_belongs_to_a_dataset():
    assert is_tree([(0,), (1,), (2,)])
    assert is_tree([(0, 1), (1, 2), (2, 3)])
    assert is_tree([(0, 1, 2), (1, 2, 3), (3, 4)])
    assert not is_tree(list(PAIRS))
    domain = rs.Domain.of_sizes([100] * 30)
    chain = {(i, i + 1): np.full((100, 100), 1.0) for i in range(29)}
    assert realisable_tables(domain, chain).verdict is True
    ring = chain | {(0, 29): np.full((100, 100), 1.0)}
    answer = realisable_tables(domain, ring)
    assert answer.verdict is None
    assert "not known" in answer.reason


def test_structural_zeros_and_negative_cells_count():
    domain = rs.Domain({"a": ["x", "y"], "b": ["u", "v"]}, impossible=[{"a": "x", "b": "u"}])
    single = {(0,): np.array([5.0, 5.0]), (1,): np.array([8.0, 2.0])}
    answer = realisable_tables(domain, single)  # x goes with v alone, of which there are too few
    assert answer.verdict is False
    assert answer.missed > 0.5
    assert realisable_tables(THREE, {(0, 1): np.array([[-1.0, 2.0], [3.0, 4.0]])}).verdict is False


def test_a_histogram_is_a_dataset(tmp_path):
    domain = rs.Domain.of_sizes({"a": 3, "b": 2})
    plan = rs.plan(rs.explicit(domain, np.tril(np.ones((6, 6)))), rs.ZCDP(0.5))
    data = pa.table({"a": [0, 1, 2, 2], "b": [0, 1, 1, 0]})
    projected = rs.project(rs.measure(plan, data, ledger=rs.Ledger(tmp_path / "l", rs.ZCDP(0.5))), total=4.0)
    assert projected.realisable().verdict is True


def released(domain, folder, rows, rho=0.1, **wanted):
    data = pa.table(dict(zip(domain.names, rows.T, strict=True)))
    plan = rs.plan(rs.marginals(domain, **wanted), rs.ZCDP(rho))
    return rs.measure(plan, data, ledger=rs.Ledger(folder / "l", rs.ZCDP(rho)))


def test_more_cells_than_are_searched_are_refused_with_a_remedy(tmp_path, monkeypatch):
    monkeypatch.setattr(import_module("residua.projection.project"), "MOST_LISTED", 5000)
    release = released(rs.Domain.of_sizes([2] * 13), tmp_path, np.zeros((3, 13), dtype=np.int64), ways=1)
    with pytest.raises(PlanError, match=r"at most 5,000 cells.*about 8,192: leave it out"):
        rs.project(release, realisable=True)


@pytest.mark.parametrize("sizes", [[3, 2, 4], [2, 2, 2, 2, 3]])
@pytest.mark.parametrize("metric", ["covariance", "margins"])
def test_the_nearest_dataset_is_that_of_one_histogram(sizes, metric, tmp_path, monkeypatch):
    """Found cell by cell or all at once: the same distance, in the metric that both know."""
    rng = np.random.default_rng(len(sizes))
    domain = rs.Domain.of_sizes(sizes)
    release = released(domain, tmp_path, np.stack([rng.integers(0, n, 40) for n in sizes], axis=1), ways=[1, 2])
    terms = {"realisable": True, "total": 40.0, "simulations": 0}
    at_once = rs.project(release, metric="covariance", **terms)
    monkeypatch.setattr(import_module("residua.projection.project"), "MOST_COLUMNS", 1)
    by_cells = rs.project(release, metric=metric, **terms)
    assert by_cells.gap <= 1e-6 * max(by_cells.distance, 256 * 100)  # of small tables, precisions weigh so much more
    assert by_cells.realisable().verdict is True
    assert all(by_cells.estimates(names).min() >= -1e-9 for names in rs.marginals(domain, ways=2).sets)
    if metric == "covariance":
        assert by_cells.distance == pytest.approx(at_once.distance, rel=1e-5, abs=1e-4)
    by_cells.save(tmp_path / "p")
    assert rs.Projected.load(tmp_path / "p").terms.realisable
    with pytest.raises(PlanError, match="takes a total"):
        rs.project(release, realisable=True, total="free")


def test_pairs_that_no_dataset_has_are_moved_to_those_of_one_among_many_cells(tmp_path):
    """Three attributes whose pairs always differ cannot be; beside four more, of 6,912 cells in all."""
    sizes = [2, 2, 2, 6, 6, 6, 4]
    domain = rs.Domain.of_sizes(sizes, impossible=[{"a0": 0, "a1": 0}])
    rows = np.array([(0, 1, 0), (1, 0, 1), (0, 1, 1), (1, 0, 0), (0, 1, 1), (1, 1, 0)] * 40)
    rows = np.hstack([rows, np.stack([np.arange(240) % n for n in sizes[3:]], axis=1)])
    projected = rs.project(released(domain, tmp_path, rows, rho=0.02, ways=2), realisable=True, total=240.0)
    assert projected.gap <= 1e-6 * max(projected.distance, 256 * 100)
    assert projected.realisable().verdict is True
    assert projected.estimates(["a0", "a1"])[0, 0] == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("moved", [False, True])
def test_beyond_cells_that_can_be_listed_both_proofs_hold(moved, monkeypatch):
    # By elimination on few cells, so that brute force can judge; the same code serves more than can be listed.
    monkeypatch.setattr("residua.projection.column_generation.MOST_LISTED", 10)
    rng = np.random.default_rng(4)
    domain = rs.Domain.of_sizes([2, 3, 2, 3])
    sets = list(combinations(range(4), 2))
    tables = margins(rng.poisson(3.0, [2, 3, 2, 3]).astype(float), sets)
    if moved:  # what agrees and is not negative, but is far from any dataset
        for members in ((0, 1), (0, 2), (1, 2)):
            n, m = tables[members].shape
            tables[members] = np.full((n, m), tables[members].sum() / (n * m))
        for members in ((0, 2), (0, 3), (2, 3), (1, 3)):
            tables[members] = np.full(tables[members].shape, tables[members].sum() / tables[members].size)
        half = tables[0, 2].sum() / 2
        tables[0, 2] = np.array([[0.0, half], [half, 0.0]])
        tables[0, 1] = np.outer([1, 1], [1, 1, 1]) * half / 3 + np.array([[1, -1, 0], [-1, 1, 0]]) * half / 3
        tables[1, 2] = np.outer([1, 1, 1], [1, 1]) * half / 3 + np.array([[1, -1], [-1, 1], [0, 0]]) * half / 3
    answer = realisable_tables(domain, tables)
    assert answer.verdict is not moved
    if moved:
        check(domain, tables, answer)
    histogram = np.zeros([2, 3, 2, 3])
    for cell, count in answer.records.items():
        histogram[cell] = count
    own = margins(histogram, sets)
    assert histogram.min() >= 0
    assert max(np.abs(own[each] - tables[each]).max() for each in sets) == pytest.approx(answer.distance, abs=1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_the_least_cell_is_that_of_all_cells(seed):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 4, 5).tolist()
    sets = [tuple(sorted(rng.choice(5, rng.integers(1, 4), replace=False).tolist())) for _ in range(5)]
    weights = {each: rng.normal(size=[sizes[i] for i in each]) for each in sets}
    least, cell = least_cell(weights, sizes, elimination(list(weights), sizes))
    sums = {c: sum(w[tuple(c[i] for i in each)] for each, w in weights.items()) for c in np.ndindex(*sizes)}
    assert least == pytest.approx(min(sums.values()))
    assert sums[tuple(cell.tolist())] == pytest.approx(least)
