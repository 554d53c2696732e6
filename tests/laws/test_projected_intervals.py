"""Intervals of projected numbers: the release's own, cut at what is known; they hold the truth at least as often."""

import numpy as np
import pyarrow.parquet
import pytest
from scipy.stats import binom

import residua as rs
from residua.projection.intervals import proven
from tests.laws.projections import IMPOSSIBLE, all_two_way, domain_of_three, people, released
from tests.laws.test_projected_kinds import ASKED, release_of


@pytest.mark.parametrize("kind", sorted(ASKED))
def test_an_interval_is_the_releases_own_cut_at_what_is_known(tmp_path, kind):
    release = release_of(tmp_path, kind)
    projected = rs.project(release, total=60)
    for together, held in ((None, "each by itself"), ("table", "all of this table together")):
        own, cut = (one.answers(confidence=0.9, simultaneous=together) for one in (release, projected))
        lower, upper = (np.clip(own[end], 0.0, 60.0) for end in ("lower", "upper"))
        np.testing.assert_allclose(cut["lower"], np.minimum(lower, cut["estimate"]), atol=1e-9)
        np.testing.assert_allclose(cut["upper"], np.maximum(upper, cut["estimate"]), atol=1e-9)
        assert 0.0 <= min(cut["lower"]) <= max(cut["upper"]) <= 60.0 + 1e-6
        assert f"90 % intervals, {held}" in cut.note


def test_facts_rules_and_totals_cut_and_a_total_that_was_released_does_not(tmp_path):
    release = all_two_way(tmp_path, impossible=IMPOSSIBLE)
    known = rs.project(release, known={("sex",): [25, 35]})
    np.testing.assert_allclose(known.table(["sex"])["upper"], [25, 35], atol=1e-6)
    np.testing.assert_allclose(known.table(["sex"])["lower"], [25, 35], atol=1e-6)
    by_sex = np.array(known.table(["sex", "age"], confidence=0.999999)["upper"]).reshape(2, -1)
    assert (by_sex <= np.array([[25], [35]]) + 1e-6).all()
    sums = known.table(["age", "sex"], queries={"age": "prefixes"}, confidence=0.999999)
    np.testing.assert_allclose(np.reshape(sums["upper"], (-1, 2))[-1], [25, 35], atol=1e-6)
    nobody = known.table(["age", "work"])
    assert np.reshape(nobody["upper"], (-1, 3))[:2, 1:].max() == 0.0
    free = rs.project(release, total="released")
    assert (proven(free.terms, rs.marginals(release.domain, ways=1))[1] == np.inf).all()
    assert rs.project(release, nonnegative=False).table(["age", "work"])["lower"].min() < 0.0


def test_what_the_release_does_not_tell_lies_anywhere_between(tmp_path):
    workload = rs.queries(domain_of_three(), ["age >= 2 and sex = 'M'", "work = 'yes'"])
    table = rs.project(released(tmp_path, workload), total=60).table(["age"])
    assert (table["lower"] == 0.0).all()
    assert (table["upper"] == 60.0).all()


def test_orders_of_attributes_levels_and_no_intervals_agree(tmp_path):
    projected = rs.project(all_two_way(tmp_path), total=60)
    one, two = projected.table(["age", "sex"]), projected.table(["sex", "age"])
    for column in ("estimate", "lower", "upper"):
        np.testing.assert_array_equal(np.reshape(one[column], (-1, 2)), np.reshape(two[column], (2, -1)).T)
    assert list(projected.table(["age"], confidence=None).columns) == ["age", "estimate"]
    with pytest.raises(rs.ResiduaError, match="confidence=2 is not a probability"):
        projected.table(["age"], confidence=2)


def counted(domain, data, workload):
    """What a workload of marginals asks, by counting, (cells,)."""
    tables = []
    for names in workload.sets:
        labels = [[str(label) for label in domain[name].labels] for name in names]
        table = np.zeros([len(each) for each in labels])
        for row in zip(*(data[name].to_pylist() for name in names), strict=True):
            table[tuple(each.index(str(value)) for each, value in zip(labels, row, strict=True))] += 1
        tables.append(table.ravel())
    return np.concatenate(tables)


def test_safe_intervals_hold_the_truth_as_often_as_they_say(tmp_path):
    """Each number by itself misses with a probability of 5 % at the most, in independent releases.

    So its misses are no more than binomial, and the chance that any number has more than are allowed is at most the
    number of numbers times the tail of that: the false alarm, which is computed below.
    """
    domain, data, releases, allowed = domain_of_three(), people(np.random.default_rng(0)), 40, 15
    workload = rs.marginals(domain, ways=[1, 2])
    truth, plan = counted(domain, data, workload), rs.plan(workload, rs.ZCDP(0.05))
    assert len(truth) * binom.sf(allowed, releases, 0.05) < 1e-6
    misses = np.zeros(len(truth))
    for k in range(releases):
        ledger = rs.Ledger.create(tmp_path / f"{k}", rs.ZCDP(0.05))
        table = rs.project(rs.measure(plan, data, ledger=ledger), simulations=0, tolerance=1e-3).answers()
        misses += (truth < table["lower"] - 1e-6) | (truth > table["upper"] + 1e-6)
    assert misses.max() <= allowed


def test_replicates_are_projections_and_one_long_file(tmp_path):
    projected = rs.project(all_two_way(tmp_path), total=60)
    drawn = projected.replicates(3)
    assert [each.estimates([]).item() for each in drawn] == pytest.approx([60.0] * 3)
    assert min(each.estimates(["age", "work"]).min() for each in drawn) >= 0.0
    assert np.ptp([each.estimates(["sex"])[0] for each in drawn]) > 0.0
    drawn.to_parquet(tmp_path / "drawn.parquet")
    table = pyarrow.parquet.read_table(tmp_path / "drawn.parquet")
    assert table.column_names == ["replicate", "table", *projected.domain.names, "value"]
    rows = [row for row in table.to_pylist() if row["replicate"] == 2 and row["table"] == "age × sex"]
    np.testing.assert_array_equal([row["value"] for row in rows], drawn[1].estimates(["age", "sex"]).ravel())
    assert {row["work"] for row in rows} == {None}
    assert [row["sex"] for row in rows[:2]] == list(map(str, projected.domain["sex"].labels))
    with pytest.raises(rs.ResiduaError, match="exists and is something else"):
        drawn.to_parquet(tmp_path / "drawn.parquet")
    for n in (0, True, 2.5):
        with pytest.raises(rs.ResiduaError, match="positive whole number of replicates"):
            projected.replicates(n)
