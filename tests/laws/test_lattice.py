"""Downward-closed families and buffers of tables, against naive loops over Python sets."""

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from residua.linalg.lattice import SetFamily, all_sets, batches, closure, distinct_rows, layout_of, row_keys
from tests.laws import dense

D = 6
families = st.lists(st.sets(st.integers(0, D - 1), max_size=4), max_size=6)


def rows_of(sets):
    """One (1, k) array a set; repetitions and any order of sizes allowed."""
    return [np.array([sorted(s)], dtype=np.int32).reshape(1, len(s)) for s in sets]


def lattice_of(sets) -> SetFamily:
    return closure(rows_of(sets), D)


def naive(sets):
    return dense.closure_of([*sets, ()])


@given(families)
def test_closure_is_all_subsets_in_order(sets):
    lattice = lattice_of(sets)
    assert list(lattice) == naive(sets)
    assert len(lattice) == len(naive(sets))
    assert [lattice.members(i) for i in range(len(lattice))] == naive(sets)
    assert lattice.set_sizes.tolist() == [len(s) for s in naive(sets)]
    assert lattice.used == {i for members in sets for i in members}
    assert all(not level.flags.writeable for level in lattice.levels)


@given(families)
def test_find_numbers_every_set_and_no_other(sets):
    lattice, held = lattice_of(sets), naive(sets)
    for size in range(D + 1):
        rows = all_sets(D, size)
        expected = [held.index(s) if (s := tuple(row)) in held else -1 for row in rows.tolist()]
        assert lattice.find(rows).tolist() == expected


def test_a_family_given_with_empty_levels_has_no_empty_level():
    lattice = closure([np.empty((1, 0), np.int32), np.array([[0], [1]], np.int32), np.empty((0, 2), np.int32)], 3)
    assert len(lattice.levels) == 2
    assert lattice.find(np.array([[0, 1]], np.int32)).tolist() == [-1]


@given(families)
def test_covers_lists_each_set_with_each_member_once(sets):
    lattice = lattice_of(sets)
    for i, (upper, lower) in enumerate(lattice.covers):
        assert sorted(upper.tolist()) == [k for k, s in enumerate(lattice) if i in s]
        for a, b in zip(upper, lower, strict=True):
            assert set(lattice.members(int(b))) == set(lattice.members(int(a))) - {i}


@given(families, st.randoms(use_true_random=False))
def test_sums_over_subsets_and_supersets(sets, random):
    lattice, held = lattice_of(sets), naive(sets)
    weights = np.array([random.uniform(-2, 2) for _ in range(D)])
    values = np.array([random.uniform(-1, 1) for _ in held])
    M = np.array(
        [[math.prod(weights[i] for i in set(A) - set(S)) if set(S) <= set(A) else 0.0 for S in held] for A in held]
    )
    assert np.allclose(lattice.sum_over_subsets(values, weights), M @ values, atol=1e-12)
    assert np.allclose(lattice.sum_over_supersets(values, weights), M.T @ values, atol=1e-12)


@given(families, st.integers(0, 2**32 - 1))
def test_the_two_sums_are_adjoint(sets, seed):
    lattice, rng = lattice_of(sets), np.random.default_rng(seed)
    x, y, w = rng.normal(size=len(lattice)), rng.normal(size=len(lattice)), rng.normal(size=D)
    assert lattice.sum_over_subsets(x, w) @ y == pytest.approx(x @ lattice.sum_over_supersets(y, w), abs=1e-10)


@given(families, st.integers(0, 2**32 - 1))
def test_products_maxima_and_maximal_sets(sets, seed):
    lattice, held = lattice_of(sets), naive(sets)
    values = np.random.default_rng(seed).normal(size=D)
    assert np.allclose(lattice.products(values), [math.prod(values[list(s)]) for s in held])
    assert lattice.maxima(values).tolist() == [max(values[list(s)], default=-np.inf) for s in held]
    assert lattice.is_maximal.tolist() == [not any(set(s) < set(t) for t in held) for s in held]


@given(families, families)
def test_union_and_equality(first, second):
    a, b = lattice_of(first), lattice_of(second)
    assert list(a.union(b)) == naive([*first, *second])
    assert a.same_sets(b) == (naive(first) == naive(second))
    assert a.union(a) is a


@pytest.mark.parametrize("attributes", range(8))
def test_all_sets_is_itertools_combinations(attributes):
    for size in range(attributes + 3):
        assert list(map(tuple, all_sets(attributes, size).tolist())) == list(combinations(range(attributes), size))


@pytest.mark.parametrize(("attributes", "size"), [(5, 3), (10_000, 6), (2**31 - 1, 4), (40, 30)])
def test_row_keys_order_rows_even_where_plain_keys_overflow(attributes, size):
    assert attributes**size > 2**63 or size < 4
    rng = np.random.default_rng(1)
    # Few distinct values far apart, so that rows repeat and share prefixes.
    choices = rng.integers(0, attributes, size=3)
    rows = choices[rng.integers(0, 3, size=(300, size))].astype(np.int32)
    keys = row_keys(rows, attributes)
    listed = list(map(tuple, rows.tolist()))
    ranks = {row: rank for rank, row in enumerate(sorted(set(listed)))}
    assert np.unique(keys, return_inverse=True)[1].tolist() == [ranks[row] for row in listed]
    assert list(map(tuple, distinct_rows(rows, attributes).tolist())) == sorted(set(listed))


@settings(max_examples=50)
@given(families, st.integers(0, 2**32 - 1))
def test_layout_covers_the_buffer_exactly_once(sets, seed):
    lattice, rng = lattice_of(sets), np.random.default_rng(seed)
    sizes = rng.integers(1, 4, size=D)
    for chosen in (None, rng.random(len(lattice)) < 0.5):
        layout = layout_of(lattice, sizes, chosen)
        wanted = np.ones(len(lattice), bool) if chosen is None else chosen
        buffer = np.zeros(layout.cells, dtype=np.int64)
        seen = []
        for group in layout:
            view = group.view(buffer)
            assert np.shares_memory(view, buffer) or not view.size
            assert view.shape == (len(group.numbers), *group.shape)
            view += 1
            for number, members in zip(group.numbers.tolist(), group.members.tolist(), strict=True):
                assert tuple(members) == lattice.members(number)
                assert tuple(sizes[members]) == group.shape
                seen.append(number)
        assert (buffer == 1).all()
        assert sorted(seen) == np.flatnonzero(wanted).tolist()
        assert layout.cells == sum(math.prod(sizes[list(lattice.members(k))]) for k in seen)
        # `starts` says where each table lies.
        assert ((layout.starts >= 0) == wanted).all()
        for group in layout:
            for place, number in enumerate(group.numbers):
                buffer[:] = 0
                group.view(buffer)[place] = 1
                start = layout.starts[number]
                assert np.flatnonzero(buffer).tolist() == list(range(start, start + group.cells))


@given(st.integers(0, 50), st.integers(0, 20), st.integers(0, 60))
def test_batches_cover_everything_once_within_the_budget(count, each, budget):
    slices = batches(count, each, budget)
    assert [i for part in slices for i in range(part.start, part.stop)] == list(range(count))
    assert all((s.stop - s.start) * each <= budget or s.stop - s.start == 1 for s in slices)
