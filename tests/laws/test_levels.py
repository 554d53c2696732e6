"""Hierarchies on an attribute: levels are partitions, nested, saved and read alike, and refused when they are not."""

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

import residua as rs
from residua.domain import OTHER, Level, domain_of_settings, settings_of_domain

COUNTIES = ["Kern", "Napa", "Erie", "Kings"]
STATES = {"CA": ["Kern", "Napa"], "NY": ["Erie", "Kings"]}


@st.composite
def nested(draw):
    """An attribute of some kind with up to three random nested levels, and the groups each level should have."""
    size = draw(st.integers(1, 12))
    kind = draw(st.sampled_from(["text", "numbers", "integers", "bins", "anonymous"]))
    policy = {"missing": draw(st.sampled_from(["error", "other"]))}
    labels = {
        "text": [f"v{i}" for i in range(size)],
        "numbers": [7 * i for i in range(size)],
        "integers": list(range(2**60, 2**60 + size)),
        "bins": [f"b{i}" for i in range(size)],
        "anonymous": list(range(size)),
    }[kind]
    levels, expected, below = {}, [], np.arange(size)
    for depth in range(draw(st.integers(0, 3))):
        groups = draw(st.integers(1, int(below.max()) + 1))
        merged = np.array(draw(st.lists(st.integers(0, groups - 1), min_size=size, max_size=size)))[below]
        codes = np.unique(merged, return_inverse=True)[1]
        # By members of the values or of the level below, by parent, as the draw has it.
        through = depth > 0 and draw(st.booleans())
        members = [f"g{depth - 1}.{b}" for b in below] if through else labels
        pairs = dict(zip(members, (f"g{depth}.{c}" for c in codes), strict=True))
        if draw(st.booleans()):
            levels[f"level {depth}"] = pairs
        else:
            levels[f"level {depth}"] = {
                f"g{depth}.{c}": [member for member, group in pairs.items() if group == f"g{depth}.{c}"]
                for c in range(int(codes.max()) + 1)
            }
        expected.append(codes)
        below = codes
    made = {
        "text": lambda: rs.Categories(labels, levels=levels, **policy),
        "numbers": lambda: rs.Categories(labels, levels=levels, **policy),
        "integers": lambda: rs.Integers(2**60, 2**60 + size - 1, levels=levels, **policy),
        "bins": lambda: rs.Bins([*range(size), math.inf], labels, levels=levels, **policy),
        "anonymous": lambda: rs.Anonymous(size, levels=levels, **policy),
    }[kind]()
    return made, expected


@given(nested())
def test_levels_are_the_declared_partitions(case):
    attribute, expected = case
    for level, codes in zip(attribute.hierarchy, expected, strict=True):
        groups = [level.labels[code] for code in level.codes]
        assert [group.split(".")[1] for group in groups[: attribute.declared]] == [str(code) for code in codes]
        assert groups[attribute.declared :] == [OTHER] * attribute.has_other
        assert level.matrix().shape == (len(level), attribute.size)
        assert (level.matrix().sum(axis=0) == 1).all()
        assert (level.matrix().sum(axis=1) >= 1).all()


@given(nested())
def test_levels_come_back_equal_from_files(tmp_path_factory, case):
    domain = rs.Domain({"a": case[0], "b": ["x", "y"]})
    assert domain_of_settings(settings_of_domain(domain)) == domain
    path = tmp_path_factory.getbasetemp() / "levels.toml"
    domain.save(path)
    assert rs.Domain.load(path) == domain
    assert hash(rs.Domain.load(path)) == hash(domain)


def test_a_file_without_levels_reads_as_before():
    domain = domain_of_settings({"a": {"values": ["x", "y"]}, "b": {"low": 1, "high": 3}})
    assert domain["a"].hierarchy == domain["b"].hierarchy == ()
    assert "levels" not in settings_of_domain(domain)["a"]


def test_edges_make_nested_levels_of_numbers():
    age = rs.Integers(17, 90, levels={"band": [17, 25, 45, 65, 90], "half": [-math.inf, 45, math.inf]})
    assert age.level("band").labels == ("17 to 24", "25 to 44", "45 to 64", "65 to 90")
    assert [age.level("half").codes[age.labels.index(v)] for v in (17, 44, 45, 90)] == [0, 0, 1, 1]
    one = rs.Integers(0, 2, levels={"l": {"edges": [0, 2, 3], "labels": ["low", "two"]}})
    assert one.level("l") == Level("l", ("low", "two"), (0, 0, 1))
    bins = rs.Bins([0, 10, 20, math.inf], levels={"two": [0, 20, math.inf]})
    assert bins.level("two").labels == ("[0, 20)", "[20, inf]")


@pytest.mark.parametrize(
    ("levels", "named"),
    [
        ({"state": {"CA": ["Kern", "Napa"], "NY": ["Erie"]}}, ["'state'", "'Kings'", "no group"]),
        (
            {"state": {"CA": ["Kern", "Napa", "Cook"], "NY": ["Erie", "Kings"]}},
            ["'state'", "'Kern', 'Napa'", "not a value"],
        ),
        ({"state": {"CA": ["Kern", "Napa"], "NY": ["Erie", "Kings", "Kern"]}}, ["'state'", "'Kern'", "two groups"]),
        (
            {"state": STATES, "coast": {"west": ["Kern"], "east": ["Napa", "Erie", "Kings"]}},
            ["'coast'", "does not nest", "'CA'", "'state'"],
        ),
        ({"nation": {"US": COUNTIES}, "state": STATES}, ["'state'", "does not nest", "finest"]),
        ({"state": STATES, "nation": {"US": ["CA"]}}, ["'nation'", "'NY'", "no group"]),
        ({"state": STATES, "nation": {"US": ["CA", "TX"]}}, ["'nation'", "not a value", "level 'state'"]),
        ({"state": [1, 2]}, ["a level is a list", "mapping"]),
        ({"state": {"CA": []}}, ["'state'", "group number 1 is empty"]),
        ({"state": {"Kern": 1, "Napa": 1, "Erie": 1, "Kings": 1}}, ["group 1", "text"]),
        ({"state": {"CA": [["Kern"]]}}, ["'state'", "not a value"]),
        ({"": STATES}, ["level name"]),
        (["state"], ["levels=", "mapping"]),
    ],
)
def test_what_is_no_hierarchy_is_refused_by_name(levels, named):
    with pytest.raises(rs.ResiduaError) as caught:
        rs.Categories(COUNTIES, levels=levels)
    assert all(part in str(caught.value) for part in named), caught.value


@pytest.mark.parametrize(
    ("edges", "named"),
    [
        ([0, 10], ["'l'", "[20, 30]", "no group"]),
        ([5, 30], ["'l'", "[0, 10)", "no group"]),
        ([0, 15, 30], ["'l'", "15", "[10, 20)"]),
        ([20, 10], ["increasing"]),
        ([0, "x"], ["not numbers"]),
        ({"edges": [0, 30], "labels": ["a", "b"]}, ["1 groups"]),
        ({"edges": [0, 30], "labels": 7}, ["its labels are no list"]),
        ({"edges": [0, 30], "colour": 1}, ["other keys than edges and labels"]),
    ],
)
def test_edges_that_do_not_fit_the_bins_are_refused(edges, named):
    with pytest.raises(rs.ResiduaError) as caught:
        rs.Bins([0, 10, 20, 30], levels={"l": edges})
    assert all(part in str(caught.value) for part in named), caught.value


def test_a_group_without_values_and_an_unknown_level_are_refused():
    with pytest.raises(rs.ResiduaError, match=r"between 4\.5 and 4\.7"):
        rs.Integers(0, 10, levels={"l": [0, 4.5, 4.7, 10]})
    with pytest.raises(rs.ResiduaError, match="'state'"):
        rs.Categories(COUNTIES, levels={"state": STATES}).level("region")


@pytest.mark.parametrize("size", [10, 40])
def test_a_level_is_asked_without_the_values(size):
    cuts = [0, 3, size // 2, size]
    attribute = rs.Integers(0, size - 1, levels={"group": cuts})
    domain = rs.Domain({"a": attribute, "sex": ["F", "M"]})
    for workload in (rs.product(domain, {"a": "group"}), rs.product(domain, {"a": "group"}, sets=[("a", "sex")])):
        plan = rs.plan(workload, rs.GDP(1.0))
        assert plan.variances(workload) == pytest.approx(np.ones(workload.queries), rel=1e-3)  # disjoint: 1 each
        assert not plan.supports(["a"])
