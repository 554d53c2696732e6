"""Dates: every unit against Python's own calendar, every type of column, levels that nest, files, and workloads."""

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

import residua as rs
from residua.domain import domain_of_settings, settings_of_domain
from residua.domain.codec import encode
from residua.domain.values import MISSING, UNKNOWN
from residua.errors import DomainError, SourceError

UNITS = ("day", "week", "month", "quarter", "year")
OWN = {"a": ["2023-11"], "b": ["2023-12", "2024-01"]}
days = st.dates(dt.date(1600, 1, 1), dt.date(2400, 1, 1))


def spelled(day: dt.date, unit: str) -> str:
    year, week, _ = day.isocalendar()
    quarter = {1: 1, 2: 1, 3: 1, 4: 2, 5: 2, 6: 2, 7: 3, 8: 3, 9: 3, 10: 4, 11: 4, 12: 4}[day.month]
    week_and_quarter = {"week": f"{year}-W{week:02d}", "quarter": f"{day.year}-Q{quarter}"}
    return week_and_quarter.get(unit) or day.strftime({"day": "%Y-%m-%d", "month": "%Y-%m", "year": "%Y"}[unit])


@given(days, st.integers(0, 800), st.sampled_from(UNITS))
def test_every_day_lies_where_the_calendar_says(first: dt.date, length: int, unit: Any) -> None:
    every = [first + dt.timedelta(days=i) for i in range(length + 1)]
    attribute = rs.Dates(first, every[-1], unit)
    assert attribute.labels == tuple(dict.fromkeys(spelled(day, unit) for day in every))
    codes = encode(attribute, pa.array(every))
    assert [attribute.labels[code] for code in codes] == [spelled(day, unit) for day in every]
    outside = pa.array([first - dt.timedelta(days=1), every[-1] + dt.timedelta(days=1), None])
    assert encode(attribute, outside).tolist() == [UNKNOWN, UNKNOWN, MISSING]


def test_columns_of_every_type() -> None:
    attribute = rs.Dates("2024-02-28", "2024-03-01")
    late = dt.datetime(2024, 2, 29, 23, 59, 59, 999_999)
    zone = pa.array([late], pa.timestamp("us", tz="UTC")).cast(pa.timestamp("us", tz="Asia/Tokyo"))
    columns = {
        "date32": (pa.array([late.date()]), [1]),
        "date64": (pa.array([late.date()], pa.date64()), [1]),
        "seconds": (pa.array([late], pa.timestamp("s")), [1]),
        "nanoseconds": (pa.array([late], pa.timestamp("ns")), [1]),
        "before 1970": (pa.array([dt.datetime(1969, 12, 31, 12)], pa.timestamp("ns")), [UNKNOWN]),
        "zone": (zone, [2]),  # March 1 in Tokyo
        "text": (
            pa.array([" 2024-02-29", "2024-02-29 23:59:59.5", "2024-02-29T23:59Z", "2024-02-29T01:00+09:00"]),
            [1] * 4,
        ),
        "no dates": (
            pa.array(["2024-02-30", "2023-02-29", "29.2.2024", "2024-2-29", "2024-02-29x", "x"]),
            [UNKNOWN] * 6,
        ),
        "absent": (pa.array(["", " ", None, "NaT"]), [MISSING] * 4),
        "dictionary": (pa.array(["2024-02-28", None]).dictionary_encode(), [0, MISSING]),
        "view": (pa.array(["2024-02-28"], pa.string_view()), [0]),
    }
    for name, (column, codes) in columns.items():
        assert encode(attribute, column).tolist() == codes, name
    nowhere = pa.array([late], pa.timestamp("us", tz="Nowhere/Land"))
    with pytest.raises(SourceError, match="cannot be told"):
        encode(attribute, nowhere, "c")
    for column in (pa.array([20240229]), pa.array([1.5]), pa.array([True])):
        with pytest.raises(SourceError, match="convert it to dates"):
            encode(attribute, column, "c")


def test_calendar_levels_and_files(tmp_path: Path) -> None:
    domain = rs.Domain(
        {
            "day": rs.Dates("2023-11-15", "2024-02-10", levels=["month", "quarter", "year"], missing="other"),
            "week": rs.Dates(dt.date(2023, 11, 15), dt.date(2024, 2, 10), levels=["week"]),
            "month": rs.Dates("2023-11-15", "2024-01-10", "month", levels={"own": OWN}),
        }
    )
    assert domain["day"].level("quarter").labels == ("2023-Q4", "2024-Q1", "(other)")
    assert len(domain["week"].level("week")) == 13
    assert domain_of_settings(settings_of_domain(domain)) == domain
    assert settings_of_domain(domain)["day"]["levels"] == ["month", "quarter", "year"]
    domain.save(tmp_path / "domain.toml")
    assert rs.Domain.load(tmp_path / "domain.toml") == domain
    (tmp_path / "dates.toml").write_text('[domain.d]\nfirst = 2024-01-01\nlast = 2024-12-31\nunit = "month"\n')
    assert rs.Domain.load(tmp_path / "dates.toml")["d"].size == 12


def test_prefixes_hierarchies_and_queries_over_dates(tmp_path: Path) -> None:
    domain = rs.Domain({"day": rs.Dates("2024-01-30", "2024-02-02", levels=["month"])})
    days = [dt.datetime(2024, 1, 30) + dt.timedelta(hours=7 * i) for i in range(12)]
    expected = {"month": [7, 5], "prefixes": [4, 7, 11, 12]}
    for asked, kind in ((rs.hierarchy(domain, "day"), "month"), (rs.prefixes(domain, "day"), "prefixes")):
        ledger = rs.Ledger(tmp_path / f"{kind}.ledger", rs.ZCDP(rho=1e4))
        release = rs.measure(rs.plan(asked, rs.ZCDP(rho=1e4)), pa.table({"day": days}), ledger=ledger)
        found = release.table(["day"], queries={"day": kind}).to_pandas()["estimate"]
        assert np.allclose(found, expected[kind], atol=0.5)
    feb = rs.queries(domain, ["month(day) = 2", "day >= '2024-02-01'", "day between '2024-02-01' and '2024-02-29'"])
    assert feb.matrix.toarray().tolist() == [[0, 0, 1, 1]] * 3
    listed = rs.ranges(domain, "day", listed=[("2024-01-31", "2024-02-01")])
    assert list(listed.query_labels()) == ["day=2024-01-31..2024-02-01"]


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: rs.Dates("2024-02-30", "2024-03-01"), "first='2024-02-30' is not a date"),
        (lambda: rs.Dates(2024, 2025), "first=2024 is not a date"),
        (lambda: rs.Dates(dt.datetime(2024, 1, 1, 8), "2024-03-01"), "is not a date"),
        (lambda: rs.Dates("2024-03-01", "2024-02-01"), "exchange them"),
        (lambda: rs.Dates("2024-03-01", "2024-04-01", "fortnight"), "no unit of the calendar"),
        (lambda: rs.Dates("2024-03-01", "2024-04-01", levels=["week", "month"]), "weeks do not nest"),
        (lambda: rs.Dates("2024-03-01", "2024-04-01", "week", levels=["year"]), "weeks do not nest"),
        (lambda: rs.Dates("2024-03-01", "2024-04-01", "month", levels=["month"]), "no unit coarser"),
        (lambda: rs.Dates("2024-03-01", "2024-04-01", levels=["mnth"]), "there are week, month, quarter, year"),
        (lambda: rs.Dates("2024-03-01", "2024-04-01", levels=["year", "month"]), "does not nest"),
        (lambda: rs.Dates("2024-03-01", "2024-04-01", levels=["year", "year"]), "twice"),
        (lambda: rs.Dates("2024-03-01", "2024-04-01", levels="year"), "is not a list"),
        (lambda: rs.Dates("2024-03-01", "2024-04-01", levels=3), "not a mapping"),
    ],
)
def test_mistakes(make: Any, told: str) -> None:
    with pytest.raises(DomainError, match=told):
        make()
