"""A dictionary of attributes and values means one thing everywhere, and what could mean two is refused."""

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import residua as rs
from residua.errors import PlanError
from residua.workload import coefficients, selected

DOMAIN = rs.Domain({"hour": rs.Integers(0, 9, unknown="other"), "origin": ["EWR", "JFK", "LGA"]})
HOURS = 11  # and the other values


@pytest.mark.parametrize(
    ("chosen", "places"),
    [
        (3, [3]),
        ("(other)", [10]),
        ([0, 8], [0, 8]),
        ({8, 0}, [0, 8]),
        (range(0, 8), list(range(8))),
        (rs.between(0, 8), list(range(9))),
        (rs.between(None, 2), [0, 1, 2]),
        (rs.between(8, None), [8, 9]),
        (np.int64(3), [3]),
        (np.arange(HOURS) == 4, [4]),
        (np.array([8, 0], dtype=object), [0, 8]),
    ],
)
def test_a_choice_of_values(chosen: Any, places: list[int]) -> None:
    assert np.flatnonzero(coefficients(DOMAIN, "hour", chosen)).tolist() == places


def test_an_array_of_fractions_is_coefficients() -> None:
    given = np.linspace(-1, 1, HOURS)
    np.testing.assert_array_equal(selected(DOMAIN, {"hour": given})["hour"], given)


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        ((0, 8), "rs.between"),
        (slice(0, 8), "rs.between"),
        (np.arange(HOURS), "labels or coefficients"),
        (np.ones(4), "11 finite numbers"),
        (np.full(HOURS, np.nan), "11 finite numbers"),
        ([], "names no value"),
        ([1, 1], "distinct labels"),
        (True, "not a value"),
        (1.0, "1.0 is not a value of"),
        ({"a": 1}, "not a value"),
        (rs.between(8, 0), "exchange"),
        (rs.between(8, "(other)"), "no place in its order"),
        (rs.between(8, 77), "77 is not a value"),
    ],
)
def test_what_is_ambiguous_or_means_nothing_is_refused(chosen: Any, said: str) -> None:
    with pytest.raises(PlanError, match=said):
        coefficients(DOMAIN, "hour", chosen)


@pytest.mark.parametrize("kind", ["residual", "product", "dense", "pure", "projected"])
def test_counts_read_dictionaries_and_sql_alike(tmp_path: Path, kind: str) -> None:
    domain = rs.Domain({"hour": rs.Integers(0, 3), "origin": ["EWR", "JFK"]})
    pairs = rs.marginals(domain, [("hour", "origin")])
    workload = {"product": rs.prefixes(domain, "hour", by=["origin"]), "dense": rs.explicit(domain, pairs)}.get(
        kind, pairs
    )
    plan = rs.plan(workload, rs.PureDP(1.0) if kind == "pure" else rs.ZCDP(0.5))
    data = pa.table({"hour": [0, 1, 1, 3] * 50, "origin": ["EWR", "JFK"] * 100})
    budget = rs.PureDP(1.0) if kind == "pure" else rs.ZCDP(0.5)
    answered: Any = rs.measure(plan, data, ledger=rs.Ledger(tmp_path / "l", budget))
    if kind == "projected":
        answered = rs.project(answered)
    by_values = answered.count({"hour": rs.between(0, 2), "origin": "EWR"})
    for same in ("hour <= 2 and origin = 'EWR'", "origin = 'EWR' and not hour = 3"):
        found = answered.count(same)
        if kind == "projected":
            assert found == pytest.approx(by_values)
        else:
            assert (found.estimate, found.stddev) == pytest.approx((by_values.estimate, by_values.stddev))
            assert (found.lower, found.upper) == pytest.approx((by_values.lower, by_values.upper), rel=1e-3)
    with pytest.raises(PlanError, match=r"rs\.between"):
        answered.count({"hour": (0, 2)})


def test_a_day_is_written_as_the_domain_writes_it():
    domain = rs.Domain({"day": rs.Dates("2024-01-01", "2024-01-09")})
    chosen = rs.between(datetime.date(2024, 1, 3), datetime.date(2024, 1, 4))
    assert np.flatnonzero(selected(domain, {"day": chosen})["day"]).tolist() == [2, 3]
    assert np.flatnonzero(selected(domain, {"day": datetime.date(2024, 1, 9)})["day"]).tolist() == [8]
    for same in (np.datetime64("2024-01-09"), datetime.datetime(2024, 1, 9)):
        assert np.flatnonzero(selected(domain, {"day": same})["day"]).tolist() == [8]
    for wrong in (datetime.date(2024, 2, 1), datetime.datetime(2024, 1, 3, 7), np.datetime64("NaT"), np.bool_(True)):
        with pytest.raises(PlanError, match="is not a value of 'day'"):
            selected(domain, {"day": wrong})
