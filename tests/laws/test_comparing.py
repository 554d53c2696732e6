"""A comparison with a constant counts the cells that meet it with all they hold; one that cuts a cell is refused."""

import operator
from collections.abc import Callable
from datetime import date, timedelta
from functools import reduce
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import residua as rs
from residua.errors import WorkloadError
from residua.workload import plain_condition
from tests.cli.command import inside

COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "=": operator.eq,
    "!=": operator.ne,
}


def answered(domain: rs.Domain, text: str) -> list[bool] | None:
    """Which cells a query counts; nothing where it is refused because a cell is cut, or no cell meets it."""
    try:
        return [bool(value) for value in rs.queries(domain, [text]).matrix.toarray()[0]]
    except WorkloadError as problem:
        if "zero on every cell" in str(problem):
            return []
        if "cuts through" in str(problem):
            return None
        raise


def expected(cells: list[list[Any]], met: Callable[[Any], bool]) -> list[bool] | None:
    """By what each cell may hold, value by value."""
    told = [{met(value) for value in values} for values in cells]
    if any(len(each) > 1 for each in told):
        return None
    chosen = [each == {True} for each in told]
    return chosen if any(chosen) else []


EDGES = [-2.5, 0.0, 18.0, 30.0, 65.0]
NUMBERS = [-3, -2.5, -1, 0, 18, 29.5, 30, 40, 64.5, 65, 66]
HELD = [[a, np.nextafter(b, a), *(n for n in NUMBERS if a <= n < b)] for a, b in pairwise(EDGES)]
HELD[-1].append(65)  # the last bin holds both of its ends


@pytest.mark.parametrize("has_other", [False, True])
def test_bins_are_compared_with_numbers_as_what_they_hold(has_other: bool) -> None:
    bins = rs.Bins(EDGES, ("a", "b's", "c", "d"), unknown="other" if has_other else "error")
    domain = rs.Domain({"Alter": bins, "x": [1, 2]})
    for sign, compare in COMPARE.items():
        for number in NUMBERS:
            right = expected(HELD, lambda held, c=compare, n=number: c(held, n))  # type: ignore[misc]
            chosen = right if right is None or not right or not has_other else [*right, False]
            assert answered(domain, f"Alter {sign} {number}") == chosen, (sign, number)
            turned = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}.get(sign, sign)
            assert answered(domain, f"{number} {turned} Alter") == chosen
    for low, high in ((0, 30), (-3, 65), (18, 66), (0, 29.5)):
        right = expected(HELD, lambda held: low <= held <= high)  # noqa: B023
        text = answered(domain, f"Alter BETWEEN {low} AND {high}")
        assert text is None or text[:4] == right  # an end that cuts a cell is refused, whatever the other
    assert answered(domain, "NOT (Alter < 18)") == [False, False, True, True, *([False] if has_other else [])]
    assert answered(domain, "Alter IN ('a', 'b''s')") == [True, True, False, False, *([False] if has_other else [])]
    with pytest.raises(WorkloadError, match=r"cuts through a bin of 'Alter'; its bins can .* by < and >= .* 0, 18, 30"):
        rs.queries(domain, ["Alter < 25"])


@pytest.mark.parametrize("unit", ["week", "month", "quarter", "year"])
def test_units_are_compared_with_days_as_what_they_hold_and_with_their_labels(unit: Any) -> None:
    when = rs.Dates("2023-01-15", "2024-02-10", unit)
    domain, day = rs.Domain({"Monat": when}), timedelta(days=1)
    starts = [*when.starts, when.last + day]
    cells = [[a + k * day for k in range((b - a).days)] for a, b in pairwise(starts)]
    second = starts[1]
    days = [date(2022, 1, 1), starts[0], second - day, second, second + day, when.last, date(2025, 1, 1)]
    for sign, compare in COMPARE.items():
        for each in days:
            right = expected(cells, lambda held, c=compare, n=each: c(held, n))  # type: ignore[misc]
            assert answered(domain, f"Monat {sign} '{each}'") == right, (sign, each)
        for place in (0, 1, when.size - 1):
            right = [compare(k, place) for k in range(when.size)]
            label = when.declared_labels[place]
            assert answered(domain, f"Monat {sign} '{label}'") == (right if any(right) else [])
    first, last = when.declared_labels[0], when.declared_labels[-1]
    assert answered(domain, f"Monat BETWEEN '{first}' AND '{when.last}'") == [True] * when.size
    assert sum(answered(domain, f"Monat IN ('{first}', '{last}')") or []) == 2
    with pytest.raises(WorkloadError, match=f"cuts through a {unit} of 'Monat'; compare it with '.*', or by < and >="):
        rs.queries(domain, [f"Monat < '{second + day}'"])


def test_bare_words_and_names_stand_for_values() -> None:
    sex = rs.Categories([1, 2]).described(meanings={"1": "männlich", "2": "weiblich"})
    domain = rs.Domain({"sex": sex, "Wohnort": ["Kiel", "Köln", "sex"]})
    for text in ("sex = weiblich", "sex = 'weiblich'", "sex = 2", "sex IN (weiblich)", "sex != männlich"):
        assert answered(domain, text) == [False, True], text
    assert answered(domain, "Wohnort NOT IN (Kiel, 'Köln')") == [False, False, True]
    assert answered(domain, "Wohnort = Kiel OR Wohnort = 'sex'") == [True, False, True]
    with pytest.raises(
        WorkloadError, match="'Bonn' is neither a value of 'Wohnort' nor an attribute; there are 'Kiel'"
    ):
        rs.queries(domain, ["Wohnort = Bonn"])
    with pytest.raises(WorkloadError):
        rs.queries(domain, ["Wohnort = sex"])  # an attribute before a value


@pytest.mark.parametrize(("unit", "example"), [("day", "1950-01-01"), ("year", "1950")])
def test_a_date_is_not_compared_with_a_number(unit: str, example: str) -> None:
    domain = rs.Domain({"born": rs.Dates("1950-01-01", "1999-12-31", unit)})
    for text in ("born < 1960", "1960 > born", "born BETWEEN 1960 AND 1970", "born IN (1960)"):
        with pytest.raises(WorkloadError, match=f"compare 'born' with a date in quotes, such as '{example}'"):
            rs.queries(domain, [text])


def test_the_command_counts_by_such_conditions(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text(
        "Alter,Geschlecht\n" + "12,weiblich\n" * 3 + "29.5,weiblich\n" * 4 + "40,männlich\n" * 5
    )
    (tmp_path / "spec.toml").write_text(
        '[source]\npath = "people.csv"\n[privacy]\nrho = 1e6\n[[workload]]\nways = [2]\n[domain.Alter]\n'
        'edges = [0, 18, 30, 65]\n[domain.Geschlecht]\nvalues = ["männlich", "weiblich"]\n'
    )
    assert inside("release", "spec.toml", "--out", "out", cwd=tmp_path).code == 0
    # rho is 1e6: noise reaches 0.05 with a chance below 10^-60
    for condition, count in (("Alter < 30", 7), ("Geschlecht=weiblich", 7), ("Alter>=18 and Geschlecht=weiblich", 4)):
        done = inside("count", "out", condition, cwd=tmp_path)
        assert f": {count}.0 (" in done.out, (done.out, done.err)
    refused = inside("count", "out", "Alter < 25", cwd=tmp_path)
    assert refused.code == 2
    assert "their edges, such as 0, 18, 30, 65" in refused.err


def test_what_is_read_without_an_engine_is_read_as_the_engine_reads_it() -> None:
    """Every kind of attribute × operator × value, and all pairs joined by AND: the same cells, or nothing is said."""
    domain = rs.Domain({
        "n": rs.Integers(-2, 4, unknown="other"),
        "bin": rs.Bins([0, 18, 30, 65], unknown="other"),
        "Kind of": rs.Categories(["it's", "b", "7"], unknown="other"),
        "code": rs.Categories([3, 5]),
        "day": rs.Dates("2024-01-01", "2024-03-31", "month"),
    })  # fmt: skip
    values = ["-2", "0", "18", "3", "64", "2.5", "'b'", "'it''s'", "'7'", "'(other)'", "'bee'", "'2024-02-01'"]
    names = ["n", "bin", '"Kind of"', "code", "day", "N"]
    texts = [f"{name} {sign} {value}" for name in names for sign in (*COMPARE, "<>") for value in values]
    texts += [f"{name} BETWEEN {a} and {b}" for name in names for a, b in (("0", "3"), ("'b'", "'b'"))]
    texts += [f"{name} in ({a}, {b})" for name in names for a in values for b in values[:3]]
    single = {text: meant for text in texts if (meant := plain_condition(domain, text)) is not None}
    assert len(single) > 80
    several = [f"{a}  AND {b}" for a, b in list(pairwise(single))[::3]]
    for chosen in (list(single), [text for text in several if plain_condition(domain, text) is not None]):
        asked = rs.queries(domain, {str(i): text for i, text in enumerate(chosen)})
        for one, text in zip(asked.each(), chosen, strict=True):
            meant = plain_condition(domain, text) or {}
            every = (meant.get(name, np.ones(domain[name].size)) for name in one.names)
            np.testing.assert_array_equal(reduce(np.multiply.outer, every).ravel(), one.matrix.toarray()[0], text)
    for text in (
        "n = 1 or n = 2",
        "not n = 1",
        "n = 1 and",
        "n = 1; n = 2",
        "n + 1 = 2",
        "n = 1.0",
        "n = 1 -- x",
        "n=1e0",
    ):
        assert plain_condition(domain, text) is None
