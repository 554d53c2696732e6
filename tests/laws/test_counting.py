"""Every way of counting against a brute-force count, on random domains, layouts and data, with and without weights."""

import itertools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from residua.domain import Categories, Domain
from residua.errors import SourceError
from residua.linalg.lattice import Layout, all_sets, closure, layout_of
from residua.source import source_of
from residua.source.accumulate import Accumulator, covering_of, sum_down, tables_of_layout
from residua.source.counting import count

WAYS = ["plain", "direct", "covering"]


def layout_of_sets(sizes: list[int], sets: list[tuple[int, ...]]) -> Layout:
    lattice = closure([np.array([members], dtype=np.int32).reshape(1, -1) for members in sets], len(sizes))
    return layout_of(lattice, np.array(sizes, dtype=np.int64), lattice.is_maximal)


def brute_force(layout: Layout, codes: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """One record and one table at a time."""
    buffer = np.zeros(layout.cells, dtype=np.int64)
    for group in layout:
        view = group.view(buffer)
        for table, members in enumerate(group.members):
            for row in range(codes.shape[1]):
                view[(table, *codes[members, row])] += 1 if weights is None else weights[row]
    return buffer


@st.composite
def problems(draw: st.DrawFn) -> tuple[Layout, np.ndarray, np.ndarray | None]:
    sizes = draw(st.lists(st.integers(1, 7), min_size=1, max_size=6))
    subsets = st.sets(st.integers(0, len(sizes) - 1), max_size=4).map(lambda chosen: tuple(sorted(chosen)))
    sets = draw(st.lists(subsets, min_size=1, max_size=8))
    rows = draw(st.integers(0, 40))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    codes = np.array([rng.integers(0, size, rows) for size in sizes]).reshape(len(sizes), rows)
    weights = rng.integers(0, 2**40, rows) if draw(st.booleans()) else None
    return layout_of_sets(sizes, sets), codes, weights


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.uint32])
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=60)
@given(problem=problems(), cut=st.integers(0, 40))
def test_every_way_counts_what_brute_force_counts(
    way: str, kind: type, problem: tuple[Layout, np.ndarray, np.ndarray | None], cut: int
) -> None:
    layout, codes, weights = problem
    with ThreadPoolExecutor(2) as pool:
        accumulator = Accumulator(tables_of_layout(layout), None, pool, way)  # type: ignore[arg-type]
        for part in (slice(0, cut), slice(cut, None)):
            capacity = np.full((len(codes), 64), 255, dtype=kind)  # beyond the rows: never to be read
            rows = codes[:, part].shape[1]
            capacity[:, :rows] = codes[:, part]
            accumulator.add(capacity, rows, None if weights is None else np.resize(weights[part], 64))
        assert np.array_equal(accumulator.finish(), brute_force(layout, codes, weights))


@pytest.mark.parametrize("rows", [1, 2047, 2048, 2049, 70_000, 150_000])
@pytest.mark.parametrize("weighted", [False, True])
def test_all_ways_agree_across_tiles_buffers_and_threads(rows: int, weighted: bool) -> None:
    rng = np.random.default_rng(rows)
    domain = Domain.of_sizes([3, 10, 2, 300, 7, 5])
    layout = layout_of_sets(domain.sizes.tolist(), list(itertools.combinations(range(6), 3)))
    columns = {name: rng.integers(0, size, rows) for name, size in zip(domain.names, domain.sizes, strict=True)}
    weights = {"n": rng.integers(0, 2**30, rows)} if weighted else {}
    source = source_of(pa.table({**columns, **weights}), counts="n" if weighted else None)
    counted = [count(source, domain, layout, way=way).tables for way in [*WAYS, None]]  # type: ignore[list-item]
    for other in counted[1:]:
        assert np.array_equal(counted[0], other)
    first = layout.groups[0]
    total = int(weights["n"].sum()) if weighted else rows
    assert first.view(counted[0])[0].sum() == total
    a, b, c = (columns[domain.names[i]] for i in first.members[0])
    expected = np.zeros(first.shape, dtype=np.int64)
    np.add.at(expected, (a, b, c), weights["n"] if weighted else 1)
    assert np.array_equal(first.view(counted[0])[0], expected)


@given(problem=problems())
@settings(deadline=None)
def test_a_covering_yields_every_wanted_table_once_from_a_set_that_holds_it(
    problem: tuple[Layout, np.ndarray, np.ndarray | None],
) -> None:
    wanted = tables_of_layout(problem[0])
    covering = covering_of(wanted)
    if covering is None:
        assert len(wanted) < 2
        return
    assert sorted(itertools.chain(*covering.yields)) == list(range(len(wanted)))
    for table, places in enumerate(covering.yields):
        assert all(set(wanted.set_of(place)) <= set(covering.tables.set_of(table)) for place in places)


def test_a_covering_saves_most_increments_where_it_should() -> None:
    layout = layout_of_sets([10] * 10, [tuple(row) for row in all_sets(10, 3).tolist()])
    covering = covering_of(tables_of_layout(layout))
    assert covering is not None
    assert len(covering.tables) <= 40
    ones = np.ones(covering.cells, dtype=np.int64)
    out = np.zeros(layout.cells, dtype=np.int64)
    sum_down(covering, ones, tables_of_layout(layout), out)
    assert out.min() >= 1


def test_the_way_is_chosen_by_cost() -> None:
    layout = layout_of_sets([10] * 10, [tuple(row) for row in all_sets(10, 3).tolist()])
    with ThreadPoolExecutor(1) as pool:
        chosen = [Accumulator(tables_of_layout(layout), None, pool)._way(rows) for rows in (1000, 10**7)]
        assert chosen == ["plain", "covering"]
        large = layout_of_sets([100] * 4, [(0, 1, 2), (1, 2, 3)])  # no covering of 10⁸ cells
        assert Accumulator(tables_of_layout(large), None, pool)._way(10**9) == "direct"


def test_the_empty_set_counts_records_and_no_tables_count_nothing() -> None:
    domain = Domain.of_sizes([2])
    total = layout_of_sets([2], [()])
    source = source_of(pa.table({"a0": [0, 1, 1]}))
    for way in WAYS:
        assert count(source, domain, total, way=way).tables.tolist() == [3]  # type: ignore[arg-type]
        nothing = layout_of(total.lattice, domain.sizes, np.zeros(1, dtype=bool))
        assert count(source, domain, nothing, way=way).tables.tolist() == []  # type: ignore[arg-type]


def test_what_is_printed_of_counts_holds_none() -> None:
    domain = Domain({"a": Categories(["x"], unknown="drop")})
    counted = count(source_of(pa.table({"a": ["x"] * 7 + ["y"]})), domain, layout_of_sets([1], [(0,)]))
    assert (repr(counted), str(counted)) == ("Counted(confidential)", "Counted(confidential)")
    assert (dict(counted.tallies.dropped), counted.tables.tolist()) == ({"a": 1}, [7])
    with pytest.raises(ValueError, match="read-only"):
        counted.tables[0] = 0
    with pytest.raises(TypeError):
        counted.tallies.dropped["a"] = 0  # type: ignore[index]


@pytest.mark.parametrize("weights", [[-1], [1.5], [None], ["x"], [float("nan")], [2**63]], ids=str)
def test_counts_that_count_nothing_are_refused(weights: list[object]) -> None:
    domain = Domain.of_sizes({"a": 2})
    column = pa.array(weights, pa.uint64()) if weights == [2**63] else pa.array(weights)
    source = source_of(pa.table({"a": [0], "n": column}), counts="n")
    with pytest.raises(
        SourceError, match="column 'n' does not count records: it holds values that are not whole numbers"
    ):
        count(source, domain, layout_of_sets([2], [(0,)]))


@pytest.mark.parametrize("parts", [1, 2])
def test_counts_that_would_overflow_are_refused(parts: int) -> None:
    domain = Domain.of_sizes({"a": 2})
    table = pa.table({"a": [0, 1], "n": [2**61, 2**61]})
    data = pa.Table.from_batches(table.to_batches(max_chunksize=2 // parts))
    with pytest.raises(SourceError, match="column 'n' add up to 2\\^62 or more"):
        count(source_of(data, counts="n"), domain, layout_of_sets([2], [(0,)]))
    large = pa.table({"a": [0, 1], "n": [2**61, 2**61 - 1]})
    counted = count(source_of(large, counts="n"), domain, layout_of_sets([2], [(0,)]))
    assert counted.tables.tolist() == [2**61, 2**61 - 1]


def test_a_layout_of_another_domain_and_counts_that_are_an_attribute_are_refused() -> None:
    source = source_of(pa.table({"a": [0]}))
    with pytest.raises(SourceError, match="another domain"):
        count(source, Domain.of_sizes({"a": 3}), layout_of_sets([2], [(0,)]))
    with pytest.raises(SourceError, match="both counts and attribute"):
        count(source_of(pa.table({"a": [0]}), counts="a"), Domain.of_sizes({"a": 2}), layout_of_sets([2], [(0,)]))


def test_progress_is_told_rows_and_the_hint() -> None:
    told: list[tuple[int, int | None]] = []
    table = pa.table({"a": np.zeros(200_000, dtype=np.int8)})
    count(source_of(table), Domain.of_sizes({"a": 2}), layout_of_sets([2], [(0,)]), lambda *now: told.append(now))
    assert told[-1] == (200_000, 200_000)
    assert [rows for rows, _ in told] == sorted({rows for rows, _ in told})
    assert len(told) > 1
