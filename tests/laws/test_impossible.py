"""Structural zeros in the domain: what is declared, kept in files, and what it leaves alone."""

import json

import numpy as np
import pytest
import tomli_w

import residua as rs
from residua.domain import domain_of_settings, impossible_cells, settings_of_domain
from tests.laws.projections import IMPOSSIBLE, domain_of_three


def test_a_rule_marks_the_cells_that_have_one_of_its_values_in_each_attribute():
    domain = domain_of_three(impossible=IMPOSSIBLE)
    mask = impossible_cells(domain, ["work", "age"])
    expected = np.zeros((3, 5), dtype=bool)
    expected[1:, :2] = True
    np.testing.assert_array_equal(mask, expected)
    wide = impossible_cells(domain, ["age", "sex", "work"])
    np.testing.assert_array_equal(wide, np.broadcast_to(expected.T[:, None, :], (5, 2, 3)))
    assert impossible_cells(domain, ["age", "sex"]) is None
    assert impossible_cells(domain_of_three(), ["work", "age"]) is None


def test_values_come_in_many_forms_and_mean_the_same():
    forms = [
        [{"age": [0, 1], "work": ["yes", "both"]}],
        [{"work": {"both", "yes"}, "age": range(2)}],
        [{"work": rs.between("yes", None), "age": rs.between(0, 1)}],
        [{"age": {"low": 0, "high": 1}, "work": ["yes", "both"], "sex": ["F", "M"]}],
        [{"age": [1, 0, 0], "work": ["yes", "both"]}, {"age": [0, 1], "work": ["yes", "both"]}],
    ]
    domains = {domain_of_three(impossible=form) for form in forms}
    assert len(domains) == 1
    assert domains != {domain_of_three()}
    assert str(domains.pop().impossible[0]) == "age = (0, 1) and work = ('yes', 'both')"


def test_files_keep_rules_and_files_without_them_stay_as_they_were(tmp_path):
    plain, ruled = domain_of_three(), domain_of_three(impossible=IMPOSSIBLE)
    assert "impossible" not in settings_of_domain(plain)
    assert domain_of_settings(json.loads(json.dumps(settings_of_domain(ruled)))) == ruled
    ruled.save(tmp_path / "domain.toml")
    assert rs.Domain.load(tmp_path / "domain.toml") == ruled
    text = '[domain]\nage = { low = 0, high = 4 }\nsex = ["F", "M"]\nwork = ["no", "yes", "both"]\n'
    rule = '[[domain.impossible]]\nage = { low = 0, high = 1 }\nwork = ["yes", "both"]\n'
    (tmp_path / "hand.toml").write_text(text + rule)
    assert rs.Domain.load(tmp_path / "hand.toml") == ruled
    (tmp_path / "hand.toml").write_text(text)
    assert rs.Domain.load(tmp_path / "hand.toml") == plain


def test_an_attribute_may_be_named_impossible_if_there_are_no_rules(tmp_path):
    for declared in (["no", "yes"], rs.Anonymous(2)):
        domain = rs.Domain({"impossible": declared, "sex": ["F", "M"]})
        assert domain_of_settings(settings_of_domain(domain)) == domain
    (tmp_path / "x.toml").write_text(tomli_w.dumps({"domain": {"impossible": ["no", "yes"]}}))
    assert rs.Domain.load(tmp_path / "x.toml").names == ("impossible",)
    with pytest.raises(rs.ResiduaError, match="rename"):
        rs.Domain({"impossible": ["a", "b"], "sex": ["F", "M"]}, impossible=[{"sex": "F", "impossible": "a"}])


def test_rules_change_no_plan_and_travel_with_it(tmp_path):
    plans = [
        rs.plan(rs.marginals(domain_of_three(impossible=rules), ways=[1, 2]), rs.ZCDP(0.5))
        for rules in ([], IMPOSSIBLE)
    ]
    np.testing.assert_array_equal(plans[0].precisions, plans[1].precisions)
    plans[1].save(tmp_path / "plan.json")
    assert rs.Plan.load(tmp_path / "plan.json").domain == plans[1].domain != plans[0].domain


@pytest.mark.parametrize(
    ("rules", "told"),
    [
        ("age", "not a list of rules"),
        ({"age": 0}, "not a list of rules"),
        (["age"], "not a rule"),
        ([{"aeg": 0}], "did you mean 'age'"),
        ([{"age": 7}], "7 is not a value of 'age'"),
        ([{"age": []}], "names no value"),
        ([{"age": True}], "True is not a value"),
        ([{"age": None}], "None is not a value"),
        ([{"age": {"low": 0}}], "low = 0, high"),
        ([{"sex": ["F", "M"]}], "every record impossible"),
        ([{}], "every record impossible"),
    ],
)
def test_rules_that_mean_nothing_are_refused(rules, told):
    with pytest.raises(rs.ResiduaError, match=told):
        domain_of_three(impossible=rules)


def test_a_pair_could_be_a_range_and_is_refused():
    with pytest.raises(rs.ResiduaError, match=r"could mean these values or all between them; write .* rs\.between"):
        domain_of_three(impossible=[{"work": ("both", "yes"), "age": [0, 1]}])
    with pytest.raises(rs.ResiduaError, match="exchange"):
        domain_of_three(impossible=[{"age": rs.between(3, 1)}])
