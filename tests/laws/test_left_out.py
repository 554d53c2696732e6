"""What a bound on each person's records leaves out is measured, priced, kept and said at the numbers."""

import csv
import json
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import residua as rs
from residua.errors import FileError, PlanError
from residua.formats import FORMATS
from residua.linalg.lattice import closure, layout_of
from residua.measurement.left_out import left_out_of
from residua.plans.verifier import priced
from residua.privacy import Guarantee
from residua.report.contents import report_html
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
    assert "leaves out at least about" in table.note
    assert "which no interval here covers" in table.note
    share, lower, upper = release.left_out_share
    assert lower < 1 - counted[0] / every[0] < upper or abs(share - 1 + counted[0] / every[0]) < 0.05
    for names in ([], ["ward"], ["month", "ward"]):
        assert "reliable" not in release.table(names).flagged().columns["quality"]
    assert all("reliable" not in each.flagged().columns["quality"] for each in release.tables())


def test_quoted_numbers_say_what_they_lack_and_are_not_called_reliable(tmp_path: Path) -> None:
    for name in "bc":
        (tmp_path / name).mkdir()
    release = released(tmp_path)
    ward = DOMAIN["ward"].labels[0]
    for quoted in (release.share(["ward"]), release.ratio({"ward": ward}, {}), release.top(["ward"], 2)):
        assert "which no interval here covers" in quoted.note
        assert "reliable" not in quoted.flagged().columns["quality"]
    unknown = released(tmp_path / "b", left_out=0).share(["ward"])
    assert "numbers are too low by an unknown amount" in unknown.note
    assert "reliable" not in unknown.flagged().columns["quality"]
    moved = rs.change(release, released(tmp_path / "c"), by=["ward"])
    assert "before: counts at most" in moved.note
    assert moved.note.count("which no interval here covers") == 2


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
    assert release.left_out_share[2] < 0.1  # less than one record that is seen: nobody has more
    table = release.table(["ward"])
    assert " to " in table.note.partition("leaves out about ")[2]
    assert np.isfinite(table["left_out_upper"]).all()
    assert set(table.flagged()["quality"]) == {"reliable"}


def test_of_persons_with_more_records_than_are_seen_what_was_left_out_is_a_lower_bound(tmp_path: Path) -> None:
    """Two of 2,000 persons have most of the records: at most ten of each are seen, and no end is stated."""
    who = np.concatenate([np.arange(2000), np.repeat([5000, 5001], 10_000)])
    data = pa.table({"who": who, "month": np.full(len(who), 2), "ward": ["a"] * len(who)})
    plan = rs.plan(rs.marginals(DOMAIN, ways=1), rs.ZCDP(5000.0), unit=rs.Person(1))
    ledger = rs.Ledger(tmp_path / "a.ledger", rs.ZCDP(5000.0), unit=rs.Person(1))
    release = rs.measure(plan, rs.Source.frame(data, person="who"), ledger=ledger)
    share, lower, upper = release.left_out_share
    assert lower <= share < 0.1 < 20_000 / 22_002 < upper == 1.0
    quoted = release.share(["ward"])
    for table in (release.table(["ward"]), release.table([]), quoted):
        assert "leaves out at least about" in table.note
        assert table.note.count("or more)") == 2
        assert "of each person at most 10 of these are seen" in table.note
        assert "reliable" not in table.flagged().columns["quality"]
    assert np.isnan(release.table(["ward"])["left_out_upper"]).all()
    (file,) = release.export(tmp_path / "out", "long-csv")
    assert "nan" not in file.read_text()


def test_a_report_says_at_its_numbers_what_is_left_out_and_commands_nobody_who_reads_it(tmp_path: Path) -> None:
    plan = rs.plan(rs.marginals(DOMAIN, ways=[1, 2]), rs.ZCDP(0.2), unit=rs.Person(3))
    ledger = rs.Ledger(tmp_path / "a.ledger", rs.ZCDP(1.0), unit=rs.Person(3))
    source = rs.Source.frame(visits(persons=100), person="who")
    release = rs.measure(plan, source, ledger=ledger, left_out=0.5)  # so much is left out that noise does not hide it
    text = report_html(release)
    assert "Noise moves" in text
    assert "rs.estimate" in release.advice
    assert "rs.estimate" not in text
    for place in ('id="headline"', 'id="accuracy"'):
        start = text.index(place)
        assert "leaves out at least about" in text[start : start + 1500]
    assert "unbiased estimate" not in text


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


def test_projections_and_estimates_say_what_they_lack(tmp_path: Path) -> None:
    release = released(tmp_path)
    for published in (rs.project(release, simulations=0), rs.estimate(release), release.rounded()):
        for table in (published.table([]), published.table(["ward"]), *published.tables()):
            assert "leaves out at least about" in table.note
            assert ("left_out" in table.columns) == (len(table.attributes) < 2)
            assert "reliable" not in table.flagged()["quality"]
        np.testing.assert_allclose(published.table(["ward"])["left_out"], release.left_out.table(["ward"])["estimate"])
        assert "left_out" not in published.table(["month"], queries={"month": "prefixes"}).columns
    assert "leaves out at least about" in rs.project(release, simulations=0).statement


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("format", sorted(FORMATS))
def test_every_format_has_what_was_left_out_beside_the_numbers(tmp_path: Path, format: str, biased: bool) -> None:
    release = released(tmp_path)
    published = rs.project(release, simulations=0) if biased else release
    files = published.export(tmp_path / "out", format)
    wards = release.left_out.table(["ward"])["estimate"]
    if format == "xlsx":
        book = openpyxl.load_workbook(files[0], read_only=True)
        sheet = next(each for each in book if each.title.endswith("ward") and "month" not in each.title)
        rows = list(sheet.iter_rows(min_row=6, values_only=True))
        shown = [row[rows[0].index("Left out")] for row in rows[1:-1]]  # the last is the total
        said = " ".join(str(cell) for row in book["Notes"].iter_rows(values_only=True) for cell in row)
        book.close()
    elif format in ("long", "parquet"):
        tables = [pq.read_table(file).to_pandas() for file in files]
        [table] = [t[t["table"] == "ward"] for t in tables] if format == "long" else [
            t for t in tables if list(t.columns[:2]) == ["ward", "estimate"]
        ]  # fmt: skip
        shown, said = table["left_out"].tolist(), pq.read_schema(files[0]).metadata[b"residua"].decode()
    else:
        said = "".join(path.read_text() for path in sorted((tmp_path / "out").iterdir())).replace('"\n"', "")
        shown = _shown(format, files)
    np.testing.assert_allclose(shown, wards, atol=0.01 * float(np.ptp(wards)) + 0.1)
    assert "leaves out at least about" in said
    if format == "long":  # blank in tables of two attributes, where it was not measured
        assert tables[0].loc[tables[0]["table"] == "month × ward", "left_out"].isna().all()


def _shown(format: str, files: list[Path]) -> list[float]:
    """What is written of the records left out by ward."""
    if format == "jsonstat":
        content = next(c for c in (json.loads(f.read_text()) for f in files) if c["id"][:-1] == ["WARD"])
        measures = content["dimension"]["MEASURE"]["category"]["index"]
        return content["value"][measures.index("left_out") :: len(measures)]
    if format == "px":
        text = next(f.read_text() for f in files if 'STUB="ward"' in f.read_text())
        codes = text.partition('CODES("Measure")=')[2].partition(";")[0].replace('"', "").split(",")
        rows = text.partition("DATA=\n")[2].strip(";\n").splitlines()
        return [float(row.split()[codes.index("left_out")]) for row in rows]
    name = "LEFT_OUT" if format == "sdmx" else "left_out"
    for file in files:
        rows = list(csv.DictReader(file.read_text().splitlines()))
        if format == "long-csv":
            rows = [row for row in rows if row["table"] == "ward"]
        keys = {"ward", "month"} if format != "sdmx" else {"WARD", "MONTH"}
        if format == "long-csv" or keys & set(rows[0]) == ({"ward"} if format != "sdmx" else {"WARD"}):
            return [float(row[name]) for row in rows]
    raise AssertionError(format)
