"""Public facts: read from any form, and refused by name when they contradict."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import residua as rs
from residua.domain.facts import facts_of
from tests.laws.projections import IMPOSSIBLE, all_two_way, domain_of_three, queries_release, released

DOMAIN = domain_of_three(impossible=IMPOSSIBLE)
AGES = [12.0, 12.0, 12.0, 12.0, 12.0]


def test_arrays_mappings_and_frames_state_the_same_fact():
    rows = [("F", age, 6.0) for age in range(5)] + [("M", age, 6.0) for age in range(5)]
    frame = {"sex": [r[0] for r in rows], "age": [r[1] for r in rows], "count": [r[2] for r in rows]}
    forms = {
        ("sex", "age"): [
            np.full((2, 5), 6),
            {(sex, age): count for sex, age, count in rows},
            pa.table(frame),
            pd.DataFrame(frame),
            pl.DataFrame(frame),
            pa.table({**frame, "age": [str(age) for age in frame["age"]]}),
        ]
    }
    for names, given in forms.items():
        for form in given:
            (fact,) = facts_of(DOMAIN, None, {names: form})
            assert fact.members == (0, 1)
            np.testing.assert_array_equal(fact.values, np.full((5, 2), 6.0))
    (fact,) = facts_of(DOMAIN, None, {"sex": {"M": 1, "F": 2}})
    assert fact.values.tolist() == [2.0, 1.0]


def test_impossible_cells_need_not_be_listed():
    given = {(age, work): 1 for age in range(5) for work in ("no", "yes", "both") if age > 1 or work == "no"}
    (fact,) = facts_of(DOMAIN, None, {("age", "work"): given})
    assert fact.values.sum() == 11


@pytest.mark.parametrize(
    ("total", "known", "told"),
    [
        (-1, None, "total=-1 is not a count"),
        (float("nan"), None, "not a count"),
        ("all", None, "total='all' is not a count"),
        (True, None, "not a count"),
        (None, [1], "not a mapping"),
        (None, {("aeg",): AGES}, "did you mean 'age'"),
        (None, {("age", "age"): AGES}, "twice"),
        (None, {("age",): [1, 2]}, r"shape \(2,\); give an array of shape \(5,\)"),
        (None, {("age",): [1, 2, 3, 4, -5]}, "negative at age = 4"),
        (None, {("age",): [1, 2, 3, 4, np.nan]}, "not a number"),
        (None, {("age",): ["a", "b", "c", "d", "e"]}, "give an array"),
        (None, {("age",): {0: 1, 1: 1}}, "no count for age = 2"),
        (None, {("age",): {0: 1, 9: 1}}, "9 is not a value of 'age'"),
        (None, {("age",): {(0, 1): 1}}, "does not name a value of each"),
        (None, {("sex",): {"F": "many", "M": 1}}, "a text, which is not a count"),
        (None, {("sex",): pa.table({"sex": ["F", "F"], "count": [1, 2]})}, "gives sex = 'F' twice"),
        (None, {("sex",): pa.table({"sex": ["F", "M"], "n": [1, 2]})}, "give sex and count"),
        (None, {("age",): AGES, "age": AGES}, "given twice"),
        (None, {(): 60, ("sex",): [30, 31]}, "the total and the marginal on .*differ in total, 60 against 61"),
        (61, {("age",): AGES}, "the total and the marginal on .'age'. differ in total, 61 against 60"),
        (
            None,
            {("age", "sex"): np.full((5, 2), 6), ("sex", "work"): [[10, 10, 11], [10, 10, 9]]},
            "differ at sex = 'F', 30 against 31",
        ),
        (None, {("age", "work"): np.full((5, 3), 4)}, "counts 4 at age = 0, work = 'yes', which is impossible"),
    ],
)
def test_facts_that_mean_nothing_or_contradict_are_named(total, known, told):
    with pytest.raises(rs.ResiduaError, match=told):
        facts_of(DOMAIN, total, known)


def test_rules_that_together_leave_nobody_possible_are_named():
    rules = [{"age": [0], "sex": "F"}, {"age": [0], "sex": "M"}]
    with pytest.raises(rs.ResiduaError, match="counts 3 at age = 0, which is impossible"):
        facts_of(domain_of_three(impossible=rules), None, {("age",): [3, 0, 0, 0, 0]})
    everyone = [{"sex": "F"}, {"sex": "M"}]
    with pytest.raises(rs.ResiduaError, match="contradict the structural zeros: the total"):
        facts_of(domain_of_three(impossible=everyone), None, None)


def test_facts_the_solver_finds_to_contradict_are_refused(tmp_path):
    """Pairwise margins agree, and no table of non-negative numbers has them: everybody is in two places."""
    release = all_two_way(tmp_path, impossible=[{"age": 0, "sex": "F"}, {"age": [1, 2, 3, 4], "sex": "M"}])
    with pytest.raises(rs.ResiduaError, match=r"no consistent non-negative tables|no tables meet"):
        rs.project(release, known={("age",): [10, 50, 0, 0, 0], ("sex",): [40, 20]})


def test_a_release_must_have_the_tables_that_facts_are_about(tmp_path):
    release = all_two_way(tmp_path)
    with pytest.raises(rs.ResiduaError, match=r"no table on .'age', 'sex', 'work'.*leave the fact out"):
        rs.project(release, known={("age", "sex", "work"): np.full((5, 2, 3), 2)})
    dense = rs.queries(DOMAIN, ["age > 1"])
    with pytest.raises(rs.ResiduaError, match=r"about age and cannot be made to agree with .'sex'"):
        rs.project(released(tmp_path, dense), known={("sex",): [30, 30]})


def test_arguments_that_mean_nothing_are_refused(tmp_path):
    release = queries_release(tmp_path)
    for arguments, told in (
        ({"metric": "l1"}, "metric='l1'"),
        ({"tolerance": 0}, "tolerance=0"),
        ({"total": "none"}, "total='none'"),
    ):
        with pytest.raises(rs.ResiduaError, match=told):
            rs.project(release, **arguments)
    with pytest.raises(rs.ResiduaError, match="is not a release"):
        rs.project("out/")
