"""Discovery: its rule against brute force over all outcomes, its tosses, its ledger, and that nothing else leaves."""

from __future__ import annotations

import pickle
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from flint import arb, ctx, fmpq

import residua as rs
from residua.errors import LedgerError, PrivacyError, SourceError
from residua.measurement.discover import GRID, _Persons, selected
from residua.privacy.exact import delta_of, rational, root_up, round_up
from residua.privacy.selection import ONE, release_chances
from tests.exact_noise import rounded_laplace_pmf, rounded_normal_pmf
from tests.secrets import says

DELTA = Fraction(1, 1000)
# price, k, pure, once: one record; a person's five values; a record of four in one value; a replaced record
CASES = {
    "Laplace": (Fraction(1, 2), 1, True, True),
    "Laplace, a person": (Fraction(1), 3, True, True),
    "Laplace, records": (Fraction(1), 3, True, False),
    "normal": (Fraction(1, 4), 1, False, True),
    "normal, a person": (Fraction(1, 2), 3, False, True),
    "normal, records": (Fraction(1, 2), 3, False, False),
}


def chance(chances: tuple[int, ...], n: int) -> Fraction:
    return Fraction(0) if n <= 0 else Fraction(chances[min(n, len(chances)) - 1], ONE)


def outcomes(counts: tuple[int, ...], chances: tuple[int, ...]) -> list[Fraction]:
    """The probability of every set of released values."""
    each = [(1 - chance(chances, n), chance(chances, n)) for n in counts]
    probabilities = []
    for released in product((0, 1), repeat=len(counts)):
        whole = Fraction(1)
        for pair, which in zip(each, released, strict=True):
            whole *= pair[which]
        probabilities.append(whole)
    return probabilities


def changes(k: int, once: bool) -> list[tuple[int, ...]]:
    """What one unit may add to up to k values."""
    ways = range(2 if once else k + 1)
    return [added for added in product(ways, repeat=k) if 0 < sum(added) <= k]


@pytest.mark.parametrize("name", CASES)
def test_the_price_covers_every_change_of_one_unit_and_every_set_of_outcomes(name: str) -> None:
    """By brute force: `Σ max(0, P − e^ε P') ≤ δ` at the stated ε, or on the Gaussian curve at many ε, both ways."""
    price, k, pure, once = CASES[name]
    chances = release_chances(price, DELTA, k, pure=pure, once=once)
    epsilons = [float(price)] if pure else [0.1, 1.0, 3.0]
    for epsilon in epsilons:
        with ctx.workprec(200):
            factor = rational(arb(epsilon).exp().lower())
        curve = Fraction(0) if pure else Fraction(delta_of(root_up(price), epsilon))
        allowed = (DELTA + (1 - DELTA) * curve) + Fraction(1, 2**120)
        bases = [*range(4), len(chances) // 2, len(chances) - 2, len(chances) - 1]
        for base in product(bases, repeat=min(k, 2)):
            counts = (*base, *([0] * (k - len(base))))
            before = outcomes(counts, chances)
            for added in changes(k, once):
                after = outcomes(tuple(n + c for n, c in zip(counts, added, strict=True)), chances)
                for one, other in ((before, after), (after, before)):
                    excess = sum(
                        (max(Fraction(0), p - factor * q) for p, q in zip(one, other, strict=True)), Fraction(0)
                    )
                    assert excess <= allowed, (counts, added)


@pytest.mark.parametrize("name", CASES)
def test_a_value_that_one_unit_alone_holds_is_released_with_probability_at_most_delta(name: str) -> None:
    """Exactly, all of its values together, however it spreads what it may add over them."""
    price, k, pure, once = CASES[name]
    for delta in (DELTA, Fraction(1, 10**9), Fraction(1e-30)):
        chances = release_chances(price, delta, k, pure=pure, once=once)
        worst = max(1 - outcomes(added, chances)[0] for added in changes(k, once))
        assert 0 < worst <= delta
        assert worst > delta * Fraction(9, 10) / (1 if once else k), "and no less often than it may"


def test_no_value_is_released_less_often_than_by_noise_and_a_threshold() -> None:
    """At the same price and delta: rounded Laplace noise, and rounded normal noise, each with its exact threshold."""
    for pure, price, pmf in ((True, Fraction(1, 2), rounded_laplace_pmf), (False, Fraction(1, 16), rounded_normal_pmf)):
        scale = 1 / price if pure else Fraction(root_up(1 / price))
        tail, threshold, tails = arb(0), 400, {}
        for noise in range(400, -400, -1):  # what lies beyond is less than the delta by far
            tail = tail + pmf(scale, noise)
            tails[noise] = tail
        while bool(tails[threshold - 2] <= arb(fmpq(DELTA.numerator, DELTA.denominator))):
            threshold -= 1  # a value that one holds passes where the noise is threshold − 1 or more
        chances = release_chances(price, DELTA, 1, pure=pure, once=True)
        ours = [chance(chances, n) for n in range(1, 60)]
        theirs = [Fraction(float(tails[threshold - n].lower())) for n in range(1, 60)]
        assert all(p >= q - Fraction(1, 10**12) for p, q in zip(ours, theirs, strict=True))
        assert sum(ours) > sum(theirs) + Fraction(1, 2), "and many far more often"


def test_a_toss_releases_exactly_below_its_chance() -> None:
    """Words of a fake source, at and around the edge; 0 never, and from the last chance on always."""

    class Words:
        def __init__(self, *numbers: int) -> None:
            self.numbers = numbers

        def words(self, count: int) -> np.ndarray:
            pairs = [(number >> 64, number & (2**64 - 1)) for number in self.numbers]
            return np.array(pairs, dtype=np.uint64).ravel()

    chances = release_chances(Fraction(1), DELTA, 1, pure=True, once=True)
    p = chances[2]
    counts = np.array([3, 3, 3, 0, len(chances), 10**9])
    words = Words(p - 1, p, p + 1, 0, ONE - 1, ONE - 1)
    assert selected(counts, chances, _entropy=words).tolist() == [True, False, False, False, True, True]


def test_tosses_come_out_as_often_as_stated() -> None:
    """200,000 tosses at each of two chances; a false alarm in less than one of a million (5.2 standard deviations)."""
    chances = release_chances(Fraction(1), Fraction(1, 4), 1, pure=True, once=True)
    for n in (1, 2):
        p, tosses = float(chance(chances, n)), 200_000
        times = int(selected(np.full(tosses, n), chances).sum())
        assert abs(times - tosses * p) < 5.2 * (tosses * p * (1 - p)) ** 0.5


def ledger(folder: Path, budget: rs.ZCDP | rs.PureDP | rs.GDP | rs.ApproxDP | None = None, **more: object) -> rs.Ledger:
    return rs.Ledger(folder / "people.ledger", budget or rs.ZCDP(0.5), **{"discovery_delta": 1e-6, **more})


JOBS = pa.table({"job": ["nurse"] * 500 + ["clerk"] * 300 + [None, "", "  "] * 100 + ["astronaut"]})


@pytest.mark.parametrize(
    ("budget", "whole"),
    [
        (rs.ZCDP(0.05), rs.ZCDP(0.5)),
        (rs.ZCDP(0.05), rs.GDP(1.0)),
        (rs.GDP(0.3), rs.ApproxDP(2.0, 1e-6)),
        (rs.PureDP(0.5), rs.PureDP(1.0)),
        (rs.PureDP(0.5), rs.ZCDP(1.0)),
    ],
)
def test_values_are_found_and_the_ledger_adds_up_cost_and_delta(tmp_path: Path, budget, whole) -> None:
    account = ledger(tmp_path, whole)
    for number in (1, 2):
        found = rs.discover(JOBS, "job", budget, delta=2.0**-30, ledger=account)
        assert found.attribute.labels == ("clerk", "nurse", "(other)")
        assert account.discovery_delta_spent == number * 2.0**-30
        assert "except with probability" in account.meaning
    assert account.entries[0].cost == account.entries[1].cost
    assert account.spent_exactly == 2 * account.entries[0].cost
    assert pickle.loads(pickle.dumps(found)).statement == found.statement


def test_half_of_the_delta_of_a_budget_that_has_one_is_spent(tmp_path: Path) -> None:
    found = rs.discover(JOBS, "job", rs.ApproxDP(1.0, 1e-7), ledger=ledger(tmp_path))
    assert found.delta == Fraction(1e-7) / 2
    assert found.cost == rs.ApproxDP(1.0, 0.5e-7).pcost_allowed()


def test_what_a_ledger_does_not_allow_is_refused_before_anything_is_spent(tmp_path: Path) -> None:
    account = rs.Ledger(tmp_path / "strict.ledger", rs.ZCDP(0.5))
    with pytest.raises(LedgerError, match=r"allows no delta .*discovery_delta=1e-9"):
        rs.discover(JOBS, "job", rs.ZCDP(0.05), delta=1e-9, ledger=account)
    small = ledger(tmp_path)
    with pytest.raises(LedgerError, match=r"delta 1e-06 left .* not 1e-05; nothing was spent"):
        rs.discover(JOBS, "job", rs.ZCDP(0.05), delta=1e-5, ledger=small)
    with pytest.raises(LedgerError, match="exhausted"):
        rs.discover(JOBS, "job", rs.ZCDP(5.0), delta=1e-9, ledger=small)
    with pytest.raises(PrivacyError, match="delta must be a number between 0 and 1"):
        rs.discover(JOBS, "job", rs.ZCDP(0.05), ledger=small)
    with pytest.raises(PrivacyError, match="too small"):
        rs.discover(JOBS, "job", rs.PureDP(1e-6), delta=1e-9, ledger=small)
    with pytest.raises(SourceError, match="no column"):
        rs.discover(JOBS, "jib", rs.ZCDP(0.05), delta=1e-9, ledger=small)
    with pytest.raises(SourceError, match="kind='text' is not known"):
        rs.discover(JOBS, "job", rs.ZCDP(0.05), delta=1e-9, ledger=small, kind="text")
    with pytest.raises(PrivacyError, match="values_per_person is for ledgers of persons"):
        rs.discover(JOBS, "job", rs.ZCDP(0.05), delta=1e-9, ledger=small, values_per_person=2)
    assert account.entries == small.entries == ()
    other = rs.Ledger(tmp_path / "pure.ledger", rs.PureDP(1.0), discovery_delta=1e-6)
    with pytest.raises(LedgerError, match="Gaussian noise cannot keep"):
        rs.discover(JOBS, "job", rs.ZCDP(0.05), delta=1e-9, ledger=other)


@pytest.mark.parametrize(("numbers", "kind", "attribute"), [
    ([*range(18, 90)] * 30, "whole numbers", rs.Integers(10, 99, unknown="other", missing="other")),
    ([*map(str, range(18, 90)), "x", ""] * 30, "whole numbers", rs.Integers(10, 99, unknown="other", missing="other")),
    ([-0.3, 0.0, 7.5, float("nan"), None] * 200 + [1e9], "numbers", (-0.5, 10.0)),
    ([1e300, -1e300, 3.0] * 200, "numbers", (2.0, 5.0)),
])  # fmt: skip
def test_a_range_is_found_on_the_grid_and_one_number_beyond_it_does_not_show(
    tmp_path, numbers, kind, attribute
) -> None:
    found = rs.discover(pa.table({"x": numbers}), "x", rs.ZCDP(0.05), delta=1e-9, ledger=ledger(tmp_path), kind=kind)
    if isinstance(attribute, tuple):
        assert found.range == attribute
        assert (found.attribute.edges[0], found.attribute.edges[-1]) == attribute
        assert set(found.attribute.edges) <= set(GRID)
    else:
        assert found.attribute == attribute


def test_of_a_person_so_many_different_values_count_each_once_whatever_else_is_there(tmp_path: Path) -> None:
    """One person with a thousand records in a thousand values finds none; which of them count is the person's own."""
    many = 1_000
    data = {"id": [0] * many + [*range(1, 301)] * 3, "job": [f"job {i}" for i in range(many)] + ["nurse"] * 900}
    people = rs.Source.frame(pa.table(data), person="id")
    account = ledger(tmp_path, unit=rs.Person(records=5))
    found = rs.discover(people, "job", rs.ZCDP(0.1), delta=1e-9, ledger=account)
    assert found.values == ("nurse",)
    assert "at most 5 different" in found.statement
    held = _Persons(b"k" * 32, 3)
    texts = pa.array(data["job"], pa.large_string())
    ids = np.array([[number, 7] for number in data["id"]], dtype=np.uint64)
    held.add(texts, np.ones(len(ids), np.int64), (ids, np.zeros(len(ids), bool)))
    names, counts = held.counts()
    assert sum(counts[i] for i, name in enumerate(names) if name != "nurse") == 3
    assert counts[names.index("nurse")] == 300
    alone = _Persons(b"k" * 32, 3)
    alone.add(texts[:many], np.ones(many, np.int64), (ids[:many], np.zeros(many, bool)))
    assert set(alone.counts()[0]) == set(names) - {"nurse"}
    with pytest.raises(SourceError, match="does not say whose"):
        rs.discover(JOBS, "job", rs.ZCDP(0.1), delta=1e-9, ledger=account)


def test_counts_multiply_and_data_that_changes_between_check_and_count_releases_nothing(tmp_path: Path) -> None:
    counted = rs.Source.frame(pa.table({"job": ["nurse", "clerk", "nobody"], "n": [500, 1, 0]}), counts="n")
    account = ledger(tmp_path)
    assert rs.discover(counted, "job", rs.ZCDP(0.1), delta=1e-9, ledger=account).values == ("nurse",)
    path = tmp_path / "jobs.csv"
    path.write_text("job\n" + "nurse\n" * 500)
    source = rs.Source.csv(path)

    def changed(step: str, done: int, total: int | None) -> None:
        if step == "checking":
            path.write_text("job\n" + "clerk\n" * 500)

    fresh = rs.Ledger(tmp_path / "fresh.ledger", rs.ZCDP(1.0), discovery_delta=1e-6)
    with pytest.raises(SourceError, match=r"changed while it was read.*Debit 1 of the ledger stands"):
        rs.discover(source, "job", rs.ZCDP(0.1), delta=1e-9, ledger=fresh, progress=changed)
    assert len(fresh.entries) == 1


def test_what_is_kept_shows_no_count_and_no_other_value(tmp_path: Path) -> None:
    found = rs.discover(JOBS, "job", rs.ZCDP(0.05), delta=1e-9, ledger=ledger(tmp_path))
    shown = f"{found!r} {found.statement} {vars(found)} {found.settings()}"
    assert "astronaut" not in shown
    assert not says(500, shown)
    assert not says(300, shown)
    assert len(found.values) == 2
    assert round_up(found.delta) == 1e-9


def test_counts_beyond_all_bounds_are_refused_before_anything_is_spent(tmp_path):
    data = pa.table({"j": ["secret"] * 1025, "c": [2**53 - 1] * 1025})
    ledger = rs.Ledger(tmp_path / "l", rs.ZCDP(5.0), discovery_delta=1e-6)
    with pytest.raises(rs.ResiduaError, match=r"add up to 2\^62 or more"):
        rs.discover(rs.Source.frame(data, counts="c"), "j", rs.ZCDP(0.5), delta=1e-9, ledger=ledger)
    assert ledger.entries == ()
