"""Intervals of estimates: the release's own where it answers, else what its smaller tables prove."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

import residua as rs
from tests.laws.estimations import SIZES, records, released, truth

DATA = records(np.random.default_rng(1))
SURE = 1 - 1e-9  # no interval of these few hundred cells fails, but for one run in a million


def test_where_the_release_answers_the_interval_is_its_own_cut_at_what_is_known(tmp_path):
    release = released(tmp_path, DATA, rho=0.01)
    for total in (None, 3000):
        for names in (["a"], ["b", "a"], ["c", "d"]):
            table = rs.estimate(release, total=total).table(names, confidence=0.9)
            own = release.table(names, confidence=0.9).columns
            lower, upper = np.clip([own["lower"], own["upper"]], 0, np.inf if total is None else total)
            np.testing.assert_allclose(table.columns["lower"], np.minimum(lower, table.columns["estimate"]), atol=1e-9)
            np.testing.assert_allclose(table.columns["upper"], np.maximum(upper, table.columns["estimate"]), atol=1e-9)
            assert table.note == "lower to upper: 90 % intervals, each by itself"


@pytest.mark.parametrize("rho", [0.0003, 1.0])
def test_what_smaller_tables_prove_holds_whatever_the_data(tmp_path, rho):
    """Uneven, exactly dependent, independent: with sure margins no cell is outside; with little noise, it is narrow."""
    random = np.random.default_rng(3)
    copied = {**DATA, "b": DATA["a"] % SIZES["b"], "c": (DATA["a"] + DATA["d"]) % SIZES["c"]}
    shuffled = {name: random.permutation(column) for name, column in DATA.items()}
    for data in (DATA, copied, shuffled):
        estimated = rs.estimate(released(tmp_path, data, rho=rho, ways=(0, 1, 2)))
        for names in combinations(SIZES, 3):
            columns, true = estimated.table(names, confidence=SURE).columns, truth(data, names).ravel()
            assert (columns["lower"] <= true).all()
            assert (true <= columns["upper"]).all()
            assert (columns["lower"] <= columns["estimate"]).all()
            assert (columns["estimate"] <= columns["upper"]).all()
        if rho == 1.0 and data is copied:  # b is what a says: the lower bound is the pair's own, nearly
            columns = estimated.table(["a", "b", "d"]).columns
            assert (columns["upper"] - columns["lower"]).mean() < 30
            assert columns["lower"].max() > 100


def test_sums_of_cells_are_bounded_as_cells_are_and_the_table_says_what_it_rests_on(tmp_path):
    estimated = rs.estimate(released(tmp_path, DATA, rho=0.1, ways=(0, 1, 2)), total=3000)
    table = estimated.table(["a", "b", "c"], queries={"a": "prefixes"}, confidence=SURE)
    true = truth(DATA, ("a", "b", "c")).cumsum(axis=0).ravel()
    assert (table.columns["lower"] <= true).all()
    assert (true <= table.columns["upper"]).all()
    assert table.columns["upper"].max() < 3000
    assert "what its smaller tables prove" in table.note
    assert "rest on the model" in repr(table)
