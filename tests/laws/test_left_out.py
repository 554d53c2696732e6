"""What a bound on each person's records leaves out is measured, priced, kept and said at the numbers."""

import json
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import residua as rs
from residua.errors import FileError, PlanError
from residua.linalg.lattice import closure, layout_of
from residua.measurement.left_out import left_out_of
from residua.plans.verifier import priced
from residua.privacy import Guarantee
from residua.source.accumulate import tables_of_layout
from residua.source.bound import bound_of

DOMAIN = rs.Domain({"month": rs.Integers(1, 6), "ward": ["a", "b", "c"]})
KEY = bytes(range(32))
SETS = layout_of(closure([np.array([[0], [1]], dtype=np.int32)], 2), DOMAIN.sizes)  # the total and two one-way tables


def visits(seed: int = 3, persons: int = 400, most: int = 30) -> pa.Table:
    random = np.random.default_rng(seed)
    who = np.repeat(np.arange(persons), random.integers(1, most, persons))
    return pa.table(
        {
            "who": who,
            "month": random.integers(1, 7, len(who)),
            "ward": random.choice(["a", "b", "c"], len(who), p=[0.7, 0.2, 0.1]),
        }
    )


def losses(data: pa.Table, unit: rs.Person, spare: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All records, those counted, and those noted as left out, in the same tables."""
    bound = replace(bound_of(unit, DOMAIN, KEY), spare=spare, left_out=tables_of_layout(SETS))
    every = rs.Source.frame(data).count(DOMAIN, SETS).tables
    counted = rs.Source.frame(data, person="who").count(DOMAIN, SETS, None, bound)
    return every, counted.tables, counted.tallies.loss.tables


@pytest.mark.parametrize("unit", [rs.Person(3), rs.Person(6, one_per="month"), rs.Person(5, per={"ward": 2})])
def test_what_is_left_out_is_all_that_is_not_counted(unit: rs.Person) -> None:
    every, counted, left = losses(visits(), unit, 1000)
    assert np.array_equal(every - counted, left)


@pytest.mark.parametrize("unit", [rs.Person(3), rs.Person(6, one_per="month")])
@pytest.mark.parametrize("spare", [1, 4, 17])
def test_a_person_adds_no_more_to_what_is_left_out_than_the_bound_and_nothing_to_others(
    unit: rs.Person, spare: int
) -> None:
    data = visits()
    _, _, whole = losses(data, unit, spare)
    who = data["who"].to_numpy()
    for person in (0, 7, 399):
        _, _, without = losses(data.filter(pa.array(who != person)), unit, spare)
        added = whole - without
        assert (added >= 0).all()
        assert added[0] == min(spare, added[0]) <= spare  # the first table is the total
        assert [part.sum() for part in np.split(added[1:], [3])] == [added[0]] * 2  # wards and months, in some order
    held = Counter(who.tolist())
    if not unit.limits:
        assert whole[0] == sum(min(max(n - 3, 0), spare) for n in held.values())


@pytest.mark.parametrize("budget", [rs.ZCDP(2.0), rs.GDP(1.5), rs.ApproxDP(2.0, 1e-6), rs.PureDP(3.0)])
@pytest.mark.parametrize("unit", [rs.Person(3), rs.Person(6, one_per="month")])
def test_the_price_is_that_of_both_and_within_the_budget(tmp_path: Path, budget: Guarantee, unit: rs.Person) -> None:
    plan = rs.plan(rs.marginals(DOMAIN, ways=[1, 2]), budget, unit=unit)
    measurements, cost = priced(plan)
    beside = left_out_of(plan, cost, 0.02, None)
    assert beside is not None
    assert beside.cost == beside.measurements.cost(rs.Person(10 * unit.records))
    assert Fraction(199, 10_000) < beside.cost / (cost + beside.cost) <= Fraction(0.02)
    ledger = rs.Ledger(tmp_path / "a.ledger", budget, unit=unit)  # no more than was planned for
    release = rs.measure(plan, rs.Source.frame(visits(), person="who"), ledger=ledger)
    assert ledger.spent_exactly == cost + beside.cost
    assert release.receipt[measurements.currency] >= cost + beside.cost
    assert release.left_out is not None
    assert release.left_out.sets == ((), ("month",), ("ward",))


def released(tmp_path: Path, **options: object) -> rs.Release:
    plan = rs.plan(rs.marginals(DOMAIN, ways=[1, 2]), rs.ZCDP(50.0), unit=rs.Person(3))
    ledger = rs.Ledger(tmp_path / "a.ledger", rs.ZCDP(100.0), unit=rs.Person(3))
    return rs.measure(plan, rs.Source.frame(visits(), person="who"), ledger=ledger, **options)  # type: ignore[arg-type]


def test_numbers_say_what_they_lack_and_are_not_called_reliable(tmp_path: Path) -> None:
    release = released(tmp_path)
    every, counted, left = losses(visits(), rs.Person(3), 30)
    said = release.left_out.count()
    assert abs(said.estimate - left[0]) < 6 * said.stddev  # of normal noise: one false alarm in 5·10⁸
    table = release.table(["ward"])
    assert {"left_out", "left_out_lower", "left_out_upper"} <= set(table.columns)
    assert {"left_out", "left_out_upper"} <= set(table.to_arrow().column_names)
    assert "leaves out about" in table.note
    assert "which no interval here covers" in table.note
    share, lower, upper = release.left_out_share
    assert lower < 1 - counted[0] / every[0] < upper or abs(share - 1 + counted[0] / every[0]) < 0.05
    for names in ([], ["ward"], ["month", "ward"]):
        assert "reliable" not in release.table(names).flagged().columns["quality"]
    assert all("reliable" not in each.flagged().columns["quality"] for each in release.tables())


def test_what_was_not_measured_is_unknown(tmp_path: Path) -> None:
    release = released(tmp_path, left_out=0)
    assert release.left_out is None
    assert "numbers are too low by an unknown amount" in release.table(["ward"]).note
    assert "reliable" not in release.table(["ward"]).flagged().columns["quality"]
    for wrong in (1, -0.1, True, "2 %", rs.ZCDP(0.1)):
        with pytest.raises(PlanError, match="left_out="):
            released(tmp_path, left_out=wrong)


def test_a_bound_that_leaves_nothing_out_makes_no_number_doubtful(tmp_path: Path) -> None:
    plan = rs.plan(rs.marginals(DOMAIN, ways=1), rs.ZCDP(5000.0), unit=rs.Person(40))
    ledger = rs.Ledger(tmp_path / "a.ledger", rs.ZCDP(5000.0), unit=rs.Person(40))
    release = rs.measure(plan, rs.Source.frame(visits(), person="who"), ledger=ledger, left_out_most=1)
    assert abs(release.left_out.count().estimate) < 6 * release.left_out.count().stddev
    assert release.left_out_share[2] < 0.1


def test_a_release_keeps_what_was_left_out_and_notices_changes(tmp_path: Path) -> None:
    release = released(tmp_path)
    release.save(tmp_path / "release")
    again = rs.Release.load(tmp_path / "release")
    assert np.array_equal(again.left_out.noisy, release.left_out.noisy)
    assert again.table(["ward"]).note == release.table(["ward"]).note
    statement = (tmp_path / "release" / "PRIVACY.md").read_text()
    assert "what anybody has beyond that is not seen" in statement
    document = tmp_path / "release" / "left_out" / "release.json"
    content = json.loads(document.read_bytes())
    document.write_text(json.dumps(content | {"version": 1}, indent=1))
    with pytest.raises(FileError, match=r"left_out/release\.json"):
        rs.Release.load(tmp_path / "release")


@pytest.mark.parametrize("who", [[], [None] * 5])
def test_of_nobody_nothing_is_left_out(tmp_path: Path, who: list[None]) -> None:
    data = pa.table({"who": pa.array(who, pa.string()), "month": [1] * len(who), "ward": ["a"] * len(who)})
    plan = rs.plan(rs.marginals(DOMAIN, ways=[1, 2]), rs.ZCDP(50.0), unit=rs.Person(3))
    ledger = rs.Ledger(tmp_path / "a.ledger", rs.ZCDP(50.0), unit=rs.Person(3))
    source = rs.Source.frame(data.cast(pa.schema([("who", pa.string()), ("month", pa.int64()), ("ward", pa.string())])),
                             person="who", no_person="apart")  # fmt: skip
    release = rs.measure(plan, source, ledger=ledger)
    left = release.left_out.count()  # type: ignore[union-attr]
    assert abs(left.estimate) < 6 * left.stddev
