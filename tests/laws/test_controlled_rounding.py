"""Controlled rounding: whole numbers within one of the values, and margins within one of the margins."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import residua as rs
from residua.projection.rounding import controlled_rounding

values = st.one_of(
    st.just(0.0),
    st.floats(0, 50),
    st.integers(0, 5).map(float),
    st.sampled_from([0.5, 1.5, 1e-9, 1 - 1e-9, 1 / 3, 2 / 3]),
)
flat = hnp.arrays(np.float64, hnp.array_shapes(min_dims=0, max_dims=2, max_side=7), elements=values)
deep = hnp.arrays(np.float64, hnp.array_shapes(min_dims=3, max_dims=4, max_side=4), elements=values)
SLACK = 1 + 1e-6


def margins(table):
    for size in range(table.ndim + 1):
        for axes in combinations(range(table.ndim), size):
            yield table.sum(axis=axes)


def near(counts, table):
    """Cells within one, whole cells (zero among them) unchanged, the nearest total."""
    assert counts.dtype == np.int64
    assert counts.min(initial=0) >= 0
    assert (np.abs(counts - table) < SLACK).all()
    whole = table == np.rint(table)
    np.testing.assert_array_equal(counts[whole], table[whole])


@given(flat)
def test_every_cell_and_every_margin_of_small_tables_goes_to_a_next_whole_number(table):
    found = controlled_rounding(table)
    near(found.counts, table)
    for rounded, exact in zip(margins(found.counts), margins(table), strict=True):
        assert (np.abs(rounded - exact) < SLACK).all()
        whole = np.abs(exact - np.rint(exact)) < 1e-12
        np.testing.assert_allclose(rounded[whole], np.rint(exact)[whole])
    assert abs(found.counts.sum() - table.sum()) <= 0.5 + 1e-6  # the nearest total
    assert found.margin_error < SLACK


@given(deep)
def test_with_more_axes_cells_and_total_are_within_one_and_the_worst_margin_is_told(table):
    found = controlled_rounding(table)
    near(found.counts, table)
    assert abs(found.counts.sum() - table.sum()) < SLACK
    for axes in (0, tuple(range(1, table.ndim))):  # the table of all other axes, and the first axis
        assert (np.abs(found.counts.sum(axis=axes) - table.sum(axis=axes)) < SLACK).all()
    worst = max(np.abs(a - b).max() for a, b in zip(margins(found.counts), margins(table), strict=True))
    assert worst <= max(found.margin_error, 1.0) + 1e-9


@given(st.integers(0, 2**32))
def test_it_is_the_nearest_such_table(seed):
    """Against all 0/1 choices of a 3 × 3 table."""
    rng = np.random.default_rng(seed)
    table = rng.uniform(0, 3, (3, 3))
    low = np.floor(table)
    steps = (np.arange(2**9)[:, None] >> np.arange(9) & 1).reshape(-1, 3, 3)
    candidates = low + steps
    good = np.ones(len(candidates), dtype=bool)
    for axis in (1, 2):
        sums = candidates.sum(axis=axis)
        good &= (np.abs(sums - table.sum(axis=axis - 1)) < 1).all(axis=1)
    good &= np.abs(candidates.sum(axis=(1, 2)) - np.rint(table.sum())) < 1e-9
    best = np.abs(candidates[good] - table).sum(axis=(1, 2)).min()
    assert np.abs(controlled_rounding(table).counts - table).sum() == pytest.approx(best, abs=1e-6)


def test_public_margins_stay_exactly_what_they_are():
    table = np.array([[10.4, 9.6, 0.0], [5.3, 5.3, 9.4]])  # rows add up to 20
    assert controlled_rounding(table).counts.sum(axis=1).tolist() == [20, 20]


def test_bad_tables_are_refused():
    for table in (np.array([-1.0]), np.array([np.nan]), np.array([np.inf]), np.array([1e300])):
        with pytest.raises(rs.ResiduaError, match="rounded"):
            controlled_rounding(table)


def test_tables_of_many_cells():
    table = np.random.default_rng(0).gamma(0.3, 3, (200, 100))
    found = controlled_rounding(table)
    assert found.margin_error < 1
