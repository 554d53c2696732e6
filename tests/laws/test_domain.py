"""Domains: sizes, labels, and TOML files that come back equal."""

import pytest
from hypothesis import given, strategies as st

import residua as rs
from residua.domain import OTHER, domain_of_settings, settings_of_domain
from residua.domain.domain import _OF_SURVEYS, _RESERVED

policies = st.fixed_dictionaries(
    {"unknown": st.sampled_from(["error", "other", "drop"]), "missing": st.sampled_from(["error", "other", "drop"])}
)
texts = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1, max_size=5)
edges = st.lists(st.floats(allow_nan=False), min_size=2, max_size=5, unique=True).map(sorted)


@st.composite
def attributes(draw):
    policy = draw(policies)
    kind = draw(st.integers(0, 4))
    if kind == 0:
        return rs.Categories(draw(st.lists(texts, min_size=1, max_size=5, unique=True)), **policy)
    if kind == 1:
        return rs.Categories(
            draw(st.lists(st.integers(-(2**40), 2**40), min_size=1, max_size=5, unique=True)), **policy
        )
    if kind == 2:
        low = draw(st.integers(-(2**60), 2**60))
        return rs.Integers(low, low + draw(st.integers(0, 1000)), **policy)
    if kind == 3:
        bounds = draw(edges)
        return rs.Bins(bounds, [f"bin {i}" for i in range(len(bounds) - 1)], **policy)
    return rs.Anonymous(draw(st.integers(1, 1000)), **policy)


names = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=6).filter(
    lambda name: name.strip() and name not in (*_RESERVED, *_OF_SURVEYS)
)
random_domains = st.dictionaries(names, attributes(), min_size=1, max_size=4).map(rs.Domain)


@given(attributes())
def test_a_cell_and_a_label_for_every_value_and_one_for_others(attribute):
    assert attribute.size == len(attribute.labels) == attribute.declared + attribute.has_other
    assert attribute.has_other == ("other" in (attribute.unknown, attribute.missing))
    assert (attribute.labels[-1] == OTHER) == attribute.has_other
    assert len(set(attribute.labels)) == attribute.size


@given(random_domains)
def test_plain_values_come_back_equal(domain):
    again = domain_of_settings(settings_of_domain(domain))
    assert again == domain
    assert hash(again) == hash(domain)
    assert [again[name].labels for name in again] == [domain[name].labels for name in domain]


@given(random_domains)
def test_toml_files_come_back_equal(tmp_path_factory, domain):
    path = tmp_path_factory.getbasetemp() / "domain.toml"
    domain.save(path)
    assert rs.Domain.load(path) == domain


def test_toml_by_hand(tmp_path):
    path = tmp_path / "d.toml"
    path.write_text(
        """
        [domain]
        sex = ["F", "M"]
        age = { low = 17, high = 90, missing = "drop" }
        [domain.pay]
        edges = [0, 10, inf]
        labels = ["low", "high"]
        unknown = "other"
        [domain.hours]
        intervals = [[0, 20], [20, 40]]
        [domain.code]
        size = 4
        """
    )
    domain = rs.Domain.load(path)
    assert domain.names == ("sex", "age", "pay", "hours", "code")
    assert domain.sizes.tolist() == [2, 74, 3, 2, 4]
    assert domain["pay"].labels == ("low", "high", OTHER)
    assert domain["hours"].labels == ("[0, 20)", "[20, 40]")
    path.write_text('sex = ["F", "M"]')  # the top level will do
    assert rs.Domain.load(path) == rs.Domain({"sex": ["F", "M"]})


def test_domains_compare_by_names_values_and_order():
    one = rs.Domain({"a": ["x", "y"], "b": rs.Integers(0, 1)})
    assert one == rs.Domain({"a": rs.Categories(("x", "y")), "b": rs.Integers(0, 1)})
    assert one != rs.Domain({"b": rs.Integers(0, 1), "a": ["x", "y"]})
    assert one != rs.Domain({"a": ["x", "y"], "b": rs.Integers(0, 1, missing="drop")})
    assert one != "a domain"
    assert "a" in one
    assert "c" not in one
    assert list(one) == ["a", "b"]
    assert one.cells(("b", "a")) == 4
    assert one.cells(()) == 1
    assert one.positions(("b", "a")) == (1, 0)


def test_bins_of_intervals_are_bins_of_edges():
    touching = rs.Bins.of_intervals([(0, 1), (1, 5)], ["a", "b"], missing="other")
    assert touching == rs.Bins([0, 1, 5], ["a", "b"], missing="other")


def test_a_domain_cannot_be_changed():
    domain = rs.Domain({"a": ["x"]})
    with pytest.raises(TypeError):
        domain.attributes["b"] = rs.Anonymous(2)
    with pytest.raises(AttributeError):
        domain.attributes = {}


def test_errors_about_long_domains_stay_short():
    with pytest.raises(rs.ResiduaError, match="and 92 more"):
        rs.Domain.of_sizes([2] * 100).position("zz")
    assert repr(rs.Domain.of_sizes([2] * 100)).endswith("…)")


@pytest.mark.parametrize("name", ["estimate", "left_out", "left_out_upper", "noise", "protection"])
def test_an_attribute_is_not_called_like_a_column_of_published_tables(name):
    """The domain says it: a table would be refused only after it was measured."""
    with pytest.raises(rs.ResiduaError, match="is a column of published tables; rename the attribute"):
        rs.Domain({name: ["x", "y"]})
