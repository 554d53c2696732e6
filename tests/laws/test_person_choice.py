"""The choice among a person's records: a function of that person's records and the key, uniform, within every limit."""

from collections import Counter
from fractions import Fraction
from hashlib import sha256
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st
from scipy.stats import chi2

import residua as rs
from residua.errors import SourceError
from residua.measurement.ledger_entries import allowance
from residua.measurement.persons import aside_within
from residua.source import persons as gathering
from residua.source.bound import PersonBound, bound_of, chosen_packed, packed
from residua.source.person_kernel import hash_texts
from residua.source.persons import id_texts, person_hashes
from tests.laws.person_choices import DOMAIN, KEY, Record, chosen_plainly, counted, everyone_plainly, layout, siphash

UNITS = [
    rs.Person(1),
    rs.Person(3),
    rs.Person(4, one_per="month"),
    rs.Person(5, per={"month": 2, "sex": 3}),
    rs.Person(2**40),
]
RECORDS = st.lists(st.tuples(*(st.integers(0, int(n) - 1) for n in DOMAIN.sizes)), max_size=30)
PEOPLE = st.dictionaries(st.text("ab1", min_size=1, max_size=10), RECORDS, max_size=6)


def rows_of(people: dict[str, list[Record]]) -> list[tuple[Any, ...]]:
    return [
        (person, *(DOMAIN[name].labels[code] for name, code in zip(DOMAIN.names, record, strict=True)))
        for person, records in people.items()
        for record in records
    ]


def table_of(rows: list[tuple[Any, ...]], *more: str) -> pa.Table:
    names = ["who", *DOMAIN.names, *more]
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    types = {"who": pa.string(), "month": pa.int32(), "sex": pa.string(), "answer": pa.string(), "n": pa.int64()}
    return pa.table({name: pa.array(column, types[name]) for name, column in zip(names, columns, strict=True)})


def source_of(people: dict[str, list[Record]], shuffled: Any = None) -> rs.Source:
    rows = rows_of(people)
    if shuffled is not None:
        shuffled.shuffle(rows)
    return rs.Source.frame(table_of(rows), person="who")


def chosen(persons: Any, codes: Any, weights: Any, bound: PersonBound) -> tuple[Any, Any]:
    rows = packed(persons, codes, weights, bound)
    return chosen_packed(rows, bound, weighted=weights is not None)[:2]


def test_the_hash_is_siphash_as_published() -> None:
    """The first vectors of the authors' reference implementation: the key 00 01 … 0f, the text 00 01 … of length n."""
    key = bytes(range(16))
    words = np.frombuffer(key, dtype="<u8")
    published = {0: "a3817f04ba25a8e66df67214c7550293", 1: "da87c1d86b99af44347659119b22fc45"}
    for length in (0, 1, 7, 8, 9, 63, 300):
        text = bytes(i % 256 for i in range(length))
        out = np.empty((1, 2), np.uint64)
        hash_texts(np.frombuffer(text + b"\0", np.uint8), np.array([0, length]), *words, out)
        assert out.tobytes() == siphash(key, text, 16)
        assert out.tobytes().hex() == published.get(length, out.tobytes().hex())
    assert siphash(key, bytes(range(15))).hex() == "e545be4961ca29a1"  # appendix A of the paper


@given(PEOPLE, st.sampled_from(UNITS), st.randoms())
@settings(max_examples=60)
def test_what_is_counted_is_what_plain_python_chooses_in_any_order_of_rows(
    people: dict[str, list[Record]], unit: rs.Person, shuffled: Any
) -> None:
    assert counted(source_of(people, shuffled), unit) == everyone_plainly(people, unit)


@given(PEOPLE, RECORDS, st.sampled_from(UNITS), st.randoms())
@settings(max_examples=60)
def test_datasets_that_differ_in_one_person_differ_in_what_is_chosen_of_that_person_alone(
    people: dict[str, list[Record]], records: list[Record], unit: rs.Person, shuffled: Any
) -> None:
    people.pop("b", None)
    with_b, without_b = counted(source_of({**people, "b": records}, shuffled), unit), counted(source_of(people), unit)
    assert not without_b - with_b  # nobody else's record gives way
    change = with_b - without_b
    assert change == counted(source_of({"b": records}), unit)
    assert change.total() <= unit.records
    for name, most in unit.limits.items():
        place = DOMAIN.position(name)
        values = Counter(record[place] for record in change.elements())
        assert all(count <= most for count in values.values())
    if not unit.limits:
        assert change.total() == min(unit.records, len(records))


@given(PEOPLE, RECORDS, st.sampled_from(UNITS[:-1]), st.integers(1, 9))
@settings(max_examples=40)
def test_one_person_changes_one_count_of_persons_by_one_and_what_is_left_out_by_the_cap_at_most(
    people: dict[str, list[Record]], records: list[Record], unit: rs.Person, most: int
) -> None:
    people.pop("b", None)
    bound = bound_of(unit, DOMAIN, KEY)
    more, less = (
        source_of(held).count(DOMAIN, layout(), None, bound).tallies.loss for held in ({**people, "b": records}, people)
    )
    assert more is not None
    assert less is not None
    assert Counter((more.held - less.held).tolist())[1] == (len(records) > 0)
    assert np.abs(more.held - less.held).sum() == (len(records) > 0)
    cut = np.minimum(np.arange(len(more.lost)), most)
    assert 0 <= int((more.lost - less.lost) @ cut) <= most
    assert more.dropped - less.dropped == len(records) - chosen_plainly("b", records, unit).total()


@pytest.mark.parametrize("budget", [rs.ZCDP(0.3), rs.GDP(0.7), rs.ApproxDP(1.0, 1e-6), rs.PureDP(0.3), rs.ZCDP(1e4)])
@pytest.mark.parametrize("most", [1, 7, 600])
def test_noise_beside_a_plan_costs_what_its_budget_allows_and_no_more(budget: Any, most: int) -> None:
    aside = aside_within(budget, most)
    allowed = allowance(budget)
    change, scale = Fraction(most), Fraction(aside.scale)
    assert aside.cost == (change / scale if isinstance(budget, rs.PureDP) else (change / scale) ** 2)
    assert aside.cost <= allowed
    assert aside.cost >= allowed * (1 - Fraction(1, 2**50)) or aside.scale == 0.5  # the least noise there is
    drawn = aside.noisy(np.zeros(4000, np.int64))
    assert drawn.std() == pytest.approx(aside.stddev, rel=0.25)  # one alarm in 10⁹ for normal noise
    assert drawn.dtype == np.int64


@given(st.lists(st.tuples(st.sampled_from("ab"), RECORDS.filter(bool), st.integers(0, 40)), max_size=6))
@settings(max_examples=30)
def test_a_row_that_stands_for_w_records_is_w_rows(rows: list[tuple[str, list[Record], int]]) -> None:
    unit = rs.Person(5, per={"month": 2})
    weighted = [(who, *rows_of({who: [records[0]]})[0][1:], n) for who, records, n in rows]
    expanded = [row[:-1] for row in weighted for _ in range(row[-1])]
    heavy = rs.Source.frame(table_of(weighted, "n"), person="who", counts="n")
    assert counted(heavy, unit) == counted(rs.Source.frame(table_of(expanded), person="who"), unit)


def test_the_choice_is_uniform_and_another_for_every_person_and_key() -> None:
    """20,000 persons with the same six records, two of them alike: every pair is chosen as often. One alarm in 10⁶."""
    codes = np.array([[0, 0, 0], [0, 0, 1], [1, 0, 0], [3, 1, 2], [2, 1, 1], [2, 1, 1]]).T
    persons = 20_000
    for key in (KEY, bytes(32)):
        bound = bound_of(rs.Person(2), DOMAIN, key)
        assert bound is not None
        ids = np.repeat(np.arange(persons), 6)
        hashes, _ = person_hashes([pa.array(ids)], ["who"], bound.person_key)
        rows, counts = chosen(hashes, np.tile(codes, persons), None, bound)
        kinds = np.minimum(rows % 6, 4)
        pairs: Counter[tuple[int, ...]] = Counter()
        for person, taken in zip(*_by_person(ids[rows], np.repeat(kinds, counts), counts), strict=True):
            assert person >= 0
            pairs[tuple(sorted(taken))] += 1
        expected = Counter(tuple(sorted(min(i, 4) for i in pair)) for pair in combinations(range(6), 2))
        statistic = sum((pairs[pair] - persons * n / 15) ** 2 / (persons * n / 15) for pair, n in expected.items())
        assert set(pairs) <= set(expected)
        assert chi2.sf(statistic, len(expected) - 1) > 1e-6


def _by_person(who: Any, kinds: Any, counts: Any) -> tuple[Any, Any]:
    order = np.argsort(np.repeat(who, counts), kind="stable")
    return np.repeat(who, counts)[order][::2], kinds[order].reshape(-1, 2)


def test_one_persons_choice_is_uniform_over_keys() -> None:
    codes, draws = np.array([[0, 1, 2, 3], [0] * 4, [0] * 4]), np.zeros(4)
    for i in range(2000):
        bound = bound_of(rs.Person(1), DOMAIN, sha256(bytes([i % 256, i // 256])).digest())
        assert bound is not None
        rows, _ = chosen(np.ones((4, 2), np.uint64), codes, None, bound)
        draws[rows[0]] += 1
    assert chi2.sf(float(((draws - 500) ** 2 / 500).sum()), 3) > 1e-6


def test_persons_whose_hashes_share_a_half_stay_apart() -> None:
    bound = bound_of(rs.Person(1), DOMAIN, KEY)
    assert bound is not None
    persons = np.array([[7, 1], [7, 2], [7, 1], [8, 1]], dtype=np.uint64)
    _, counts = chosen(persons, np.zeros((3, 4), np.int32), None, bound)
    assert counts.tolist() == [1, 1, 1]


def test_a_domain_of_many_attributes_takes_several_words() -> None:
    wide = rs.Domain.of_sizes({f"a{i:03}": 10 for i in range(100)})
    bound = bound_of(rs.Person(2, one_per="a050"), wide, KEY)
    assert bound is not None
    assert bound.words == 6
    rng = np.random.default_rng(1)
    codes = rng.integers(10, size=(100, 1000)).astype(np.int32)
    persons = np.repeat(np.arange(100, dtype=np.uint64), 10).repeat(2).reshape(-1, 2)
    rows, counts = chosen(persons, codes, None, bound)
    assert len(rows) == 200
    assert (counts == 1).all()
    at = codes[50, rows].reshape(-1, 2)
    assert (at[:, 0] != at[:, 1]).all()
    mixed = rng.permutation(1000)
    again, _ = chosen(persons[mixed], codes[:, mixed], None, bound)
    assert sorted(mixed[again]) == sorted(rows)


def test_how_a_domain_is_ordered_does_not_matter() -> None:
    reversed_domain = rs.Domain({name: DOMAIN[name] for name in reversed(DOMAIN.names)})
    here, there = (bound_of(rs.Person(2), domain, KEY) for domain in (DOMAIN, reversed_domain))
    assert here is not None
    assert there is not None
    rng = np.random.default_rng(2)
    codes = np.array([rng.integers(n, size=300) for n in DOMAIN.sizes])
    persons = np.repeat(np.arange(30, dtype=np.uint64), 10).repeat(2).reshape(-1, 2)
    one, other = chosen(persons, codes, None, here), chosen(persons, codes[::-1], None, there)
    assert sorted(zip(*one, strict=True)) == sorted(zip(*other, strict=True))


def test_records_alike_beyond_a_limit_are_refused() -> None:
    rows = [("a", 1, "F", "no", 2**24)]
    with pytest.raises(SourceError, match="alike"):
        counted(rs.Source.frame(table_of(rows, "n"), person="who", counts="n"), rs.Person(5))
    within = rs.Source.frame(table_of(rows, "n"), person="who", counts="n")
    assert counted(within, rs.Person(2**40)).total() == 2**24  # nothing to choose


@pytest.mark.parametrize("held", [1, 10_000])
def test_out_of_core_counts_the_same(held: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    people = {
        str(i): [tuple(map(int, rng.integers(DOMAIN.sizes))) for _ in range(rng.integers(1, 12))] for i in range(800)
    }
    unit, opened = rs.Person(4, per={"month": 2}), []
    inside = counted(source_of(people), unit)
    monkeypatch.setattr(gathering, "_HELD_BYTES", held)
    make = gathering.tempfile.TemporaryFile

    def noted(**given: Any) -> Any:
        opened.append(make(**given))
        return opened[-1]

    monkeypatch.setattr(gathering.tempfile, "TemporaryFile", noted)
    assert counted(source_of(people), unit) == inside
    (file,) = opened
    assert file.closed


def test_the_file_has_no_name_and_is_the_owners(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(gathering.tempfile, "tempdir", None)
    bound = bound_of(rs.Person(1), DOMAIN, KEY)
    assert bound is not None
    gathered = gathering.Gathering(bound, weighted=False)
    monkeypatch.setattr(gathering, "_HELD_BYTES", 1)
    gathered.add(np.ones((3, 2), np.uint64), [np.zeros(3, np.int32)] * 3, None)
    assert gathered._file is not None
    state = gathering.os.fstat(gathered._file.fileno())
    assert state.st_mode & 0o777 == 0o600
    assert state.st_nlink == 0
    assert not list(tmp_path.iterdir())
    gathered.close()


def test_a_full_disk_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "_HELD_BYTES", 1)

    def full(*_: Any) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(gathering.os, "pwrite", full)
    with pytest.raises(SourceError, match=r"No space left on device.*TMPDIR"):
        counted(source_of({"a": [(0, 0, 0)]}), rs.Person(1))


def test_ids_are_one_text_whatever_holds_them() -> None:
    plain = ["7", "12", None]
    held = [
        pa.array([7, 12, None]),
        pa.array([7, 12, None], pa.uint64()),
        pa.array([7.0, 12.0, float("nan")]),
        pa.array(["7", " 12.0 ", ""]),
        pa.array(["7.000", "12", None], pa.string_view()),
        pa.array([7, 12, None], pa.decimal128(10, 2)),
        pa.array(["7", "12", None]).dictionary_encode(),
    ]
    hashes = [person_hashes([column], ["id"], (np.uint64(1), np.uint64(2))) for column in held]
    for words, absent in hashes:
        assert absent.tolist() == [text is None for text in plain]
        assert np.array_equal(words[:2], hashes[0][0][:2])
    different = id_texts(pa.array(["007", "n1", "N1", "7.5", "-0", "1e3"]), "id").to_pylist()
    assert different == ["007", "n1", "N1", "7.5", "-0", "1e3"]


def test_numbers_that_floats_do_not_tell_apart_are_no_ids() -> None:
    """2^53 + 1 is 2^53 as a float: two persons would be one."""
    assert float(2**53 + 1) == float(2**53)
    for number in (2.0**53, -(2.0**53), 2.0**60, float("inf")):
        with pytest.raises(SourceError, match="too large to be told apart"):
            id_texts(pa.array([7.0, number]), "id")
    assert id_texts(pa.array([2.0**53 - 1, 1 - 2.0**53]), "id").to_pylist() == [str(2**53 - 1), str(1 - 2**53)]


def test_several_columns_are_one_person_in_any_order() -> None:
    key = (np.uint64(1), np.uint64(2))
    a, b = pa.array(["x", "xy", "x", None]), pa.array(["yz", "z", "yz", "q"])
    words, absent = person_hashes([a, b], ["a", "b"], key)
    other, _ = person_hashes([b, a], ["b", "a"], key)
    assert np.array_equal(words, other)
    assert absent.tolist() == [False, False, False, True]
    assert np.array_equal(words[0], words[2])
    assert not np.array_equal(words[0], words[1])  # not just joined


@pytest.mark.parametrize(
    "column",
    [
        pa.array([0.5]),
        pa.array([1e300]),
        pa.array([True]),
        pa.array([b"x"]),
        pa.array([["x"]]),
        pa.array(["1.5"]).cast(pa.decimal128(5, 1)),
    ],
)
def test_what_tells_no_person_is_refused_without_its_values(column: Any) -> None:
    table = pa.table({"who": column, "month": [1], "sex": ["F"], "answer": ["no"]})
    with pytest.raises(SourceError, match="column 'who'") as problem:
        counted(rs.Source.frame(table, person="who"), rs.Person(1))
    assert "0.5" not in str(problem.value)


def test_records_that_are_nobodys_follow_their_policy() -> None:
    rows = [(None, 1, "F", "no"), ("", 1, "F", "no"), ("a", 2, "F", "no"), ("a", 2, "M", "no")]
    unit = rs.Person(1)
    with pytest.raises(SourceError, match="'who' does not say of every record whose it is"):
        counted(rs.Source.frame(table_of(rows), person="who"), unit)
    assert counted(rs.Source.frame(table_of(rows), person="who", no_person="drop"), unit).total() == 1
    apart = counted(rs.Source.frame(table_of(rows), person="who", no_person="apart"), unit)
    assert apart.total() == 3
    assert apart[(0, 0, 0)] == 2


def test_a_record_that_the_domain_drops_is_no_candidate() -> None:
    domain = rs.Domain(
        {"month": rs.Integers(1, 4, unknown="drop"), "sex": ["F", "M"], "answer": ["no", "yes", "unsure"]}
    )
    rows = [("a", 9, "F", "no")] * 50 + [("a", 2, "M", "yes"), (None, 9, "F", "no")]
    bound = bound_of(rs.Person(1), domain, KEY)
    found = rs.Source.frame(table_of(rows), person="who").count(domain, layout(), None, bound)
    assert found.tables.sum() == 1
    assert found.tables.reshape(4, 2, 3)[1, 1, 1] == 1


def test_a_bound_and_what_it_left_out_print_no_secret() -> None:
    bound = bound_of(rs.Person(2), DOMAIN, KEY)
    assert isinstance(bound, PersonBound)
    assert repr(bound) == "Bound(2, confidential)"
    found = source_of({"a": [(0, 0, 0)] * 5}).count(DOMAIN, layout(), None, bound)
    assert found.tallies.loss is not None
    assert (found.tallies.loss.dropped, found.tallies.loss.held[5], found.tallies.loss.lost[3]) == (3, 1, 1)
    assert repr(found.tallies.loss) == "Loss(confidential)"
    assert repr(found.tallies) == "Tallies(confidential)"
