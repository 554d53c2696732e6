"""Long lists of values: what is looked up by hashes or made at once gives what one by one gives."""

from functools import reduce
from itertools import combinations
from operator import add

import numpy as np
import pyarrow as pa
import pytest

import residua as rs
from residua.domain import codec
from residua.domain.codec import encode
from residua.domain.values import Lookup
from residua.errors import DomainError, PlanError
from residua.plans import targets as stated
from residua.workload import added

LABELS = ["", "a", "é", "b" * 8, "b" * 9, "label-1", "label-10", "日本", *(f"v{i:x}" for i in range(500))]
ASKED = [*LABELS[::-1], "c", "b" * 7, "label-", "label-100", " a", "a ", "A", None, "日", *LABELS]


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int16(), pa.string())]
)
@pytest.mark.parametrize("empty", [True, False])
@pytest.mark.parametrize("as_list", [False, True])
def test_text_is_found_in_long_lists_as_in_short_ones(monkeypatch, kind, empty, as_list):
    labels = LABELS[0 if empty and not as_list else 1 :]
    column = pa.array(ASKED).cast(kind)
    attribute = rs.CodeList(labels) if as_list else rs.Categories(labels)
    short = encode(attribute, column)
    monkeypatch.setattr(codec, "_MOST_LISTED", 3)
    np.testing.assert_array_equal(encode(attribute, column), short)
    np.testing.assert_array_equal(encode(attribute, column.slice(7, 300)), short[7:307])
    place = {label: i for i, label in enumerate(labels)}
    wanted = [codec.MISSING if x is None or (x == "" and x not in place) else place.get(x, -1) for x in ASKED]
    assert short.tolist() == wanted


def test_texts_whose_hashes_collide_are_told_apart():
    from residua.domain import lookup_kernel

    labels = [f"value {i}" for i in range(300)]
    lookup = Lookup(labels)
    full = lookup._slots
    assert (full != 0).sum() == len(labels)
    lookup._slots = np.zeros(512, dtype=np.uint64)  # as full as can be: long runs of places that are taken
    lookup_kernel.fill(lookup._offsets, lookup._content, lookup._slots)
    asked = [*labels[::3], "value 300", "value"]
    assert lookup.codes(pa.array(asked)).tolist() == [*range(0, 300, 3), -1, -1]


def test_whole_numbers_are_found_in_long_lists():
    values = [2**70, *np.random.default_rng(1).permutation(5000).tolist(), -(2**70)]
    attribute = rs.Categories(values)
    asked = pa.array([0, 4999, 5000, -1, None, 17])
    assert encode(attribute, asked).tolist() == [values.index(0), values.index(4999), -1, -1, -2, values.index(17)]
    few = rs.Categories(values[1:-1])  # nothing listed is above 4,999
    assert encode(few, asked).tolist() == [
        values.index(0) - 1,
        values.index(4999) - 1,
        -1,
        -1,
        -2,
        values.index(17) - 1,
    ]


def test_a_million_values_with_one_twice_are_refused_at_once():
    with pytest.raises(DomainError, match="category 300,001 is listed twice, as category 8 too"):
        rs.Categories([*map(str, range(300_000)), "7"])


@pytest.fixture
def asked():
    return rs.marginals(rs.Domain.of_sizes([2, 3, 4, 2, 5]), ways=[0, 1, 2, 3])


def test_a_mapping_of_targets_is_read_at_once_as_one_by_one(asked, monkeypatch):
    rng = np.random.default_rng(2)
    kinds = (tuple, frozenset, lambda names: tuple(reversed(names)))
    sets = [kinds[i % 3](names) for i, names in enumerate(asked.sets)]
    mapping = {sets[i]: float(rng.uniform(1, 9)) for i in rng.permutation(len(sets))}
    found = stated.targets_of(asked, mapping)
    monkeypatch.setattr(stated, "_at_once", lambda *_: None)
    np.testing.assert_array_equal(found, stated.targets_of(asked, mapping))
    assert len(set(found)) == len(asked)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda m: m.pop(("a0",)), r"no variance for \('a0',\)"),
        (lambda m: m.update({("a1", "a0"): 1.0}), "twice"),
        (lambda m: (m.pop(("a0",)), m.update({("a1", "a0"): 1.0})), "twice"),
        (lambda m: (m.pop(("a0",)), m.update({("a0", "a1", "a2", "a3"): 1.0})), "does not ask for"),
        (lambda m: (m.pop(("a0",)), m.update({("a0", "a0"): 1.0})), "names an attribute twice"),
        (lambda m: (m.pop(("a0",)), m.update({("nobody",): 1.0})), "unknown attribute; there are"),
        (lambda m: (m.pop(("a0",)), m.update({"a0": 1.0})), "not a set of attributes"),
        (lambda m: m.update({("a0",): "much"}), "is not a"),
        (lambda m: m.update({("a0",): -1.0}), r"for \('a0',\) is not a positive"),
    ],
)
def test_a_wrong_mapping_of_targets_is_told(asked, change, words):
    mapping = dict.fromkeys(asked.sets, 2.0)
    change(mapping)
    with pytest.raises(PlanError, match=words):
        stated.targets_of(asked, mapping)


def test_many_workloads_are_added_at_once_as_one_by_one():
    domain = rs.Domain.of_sizes([2, 3, 4, 2])
    parts = [rs.marginals(domain, [pair], weight=1 + i) for i, pair in enumerate(combinations(domain.names[::-1], 2))]
    parts += [rs.marginals(domain, ways=[1, 3]), 2 * rs.marginals(domain, [("a1", "a2"), ()])]
    together, one_by_one = added(parts), reduce(add, parts)
    assert together.sets == one_by_one.sets == rs.marginals(domain, together.sets).sets
    np.testing.assert_array_equal(together.weights, one_by_one.weights)


def test_levels_of_more_values_than_are_listed_are_told_by_edges(monkeypatch):
    from residua.domain import levels

    declared = {"five": [0, 5, 10, 12], "ten": {"edges": [0, 10, 12], "labels": ["low", "high"]}}
    few = rs.Integers(0, 12, levels=declared, unknown="other")
    monkeypatch.setattr(levels, "_MOST_VALUES", 3)
    many = rs.Integers(0, 12, levels=declared, unknown="other")
    for one, other in zip(few.hierarchy, many.hierarchy, strict=True):
        assert (list(one.labels), list(one.codes)) == (list(other.labels), other.codes.tolist())
    domain = rs.Domain({"a": many})
    assert rs.Domain({"a": rs.Integers(0, 12, levels=many.levels, unknown="other")}) == domain
    assert many.level_settings() == few.level_settings()
    with pytest.raises(DomainError, match="give the edges of their groups"):
        rs.Integers(0, 4, levels={"half": {"x": [0, 1], "y": [2, 3, 4]}})
    with pytest.raises(DomainError, match=r"declare them with rs\.CodeList"):
        rs.Categories(["a", "b", "c", "d"], levels={"half": {"x": ["a", "b"], "y": ["c", "d"]}})
    with pytest.raises(DomainError, match="does not nest"):
        rs.Integers(0, 12, levels={"five": [0, 5, 10, 12], "four": [0, 4, 12]})
