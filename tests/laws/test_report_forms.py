"""Reports of every form of plan: groups that are not told, what levels pay, sessions, estimates, words for gaps."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pyarrow as pa
import pytest

import residua as rs
from residua.plans.tolerances import nearness
from residua.privacy.costs import brief
from residua.report.accuracy import accuracy
from residua.report.budget import budget, paid_by_level
from residua.report.charts import draw_heat, draw_lines
from residua.report.contents import page_of, report_html
from residua.report.pictures import picture
from residua.report.series import UNTOLD, Series
from tests.laws import trees

BUDGET = rs.ZCDP(0.5)
PEOPLE = rs.Domain({"age": rs.Integers(0, 9), "sex": ["F", "M"], "region": ["north", "south", "east"]})


def ledger(budget: rs.ZCDP = BUDGET) -> rs.Ledger:
    return rs.Ledger(Path(mkdtemp()) / "people.ledger", budget)


def people(n: int = 3_000) -> pa.Table:
    place = np.random.default_rng(3)
    sex, region = np.array(["F", "M"]), np.array(["north", "south", "east"])
    columns = {"age": place.integers(0, 10, n), "sex": sex[place.integers(0, 2, n)]}
    return pa.table({**columns, "region": region[place.integers(0, 3, n)]})


@cache
def grouped() -> rs.Release:
    plans = {
        "one": rs.plan(rs.marginals(PEOPLE, [("age",), ("sex",)]), BUDGET),
        "two": rs.plan(rs.marginals(PEOPLE, [("age", "sex")]), BUDGET),
    }
    plan = rs.by_group(plans, by=["region"], chosen={("north",): "one", ("south",): "two"})
    return rs.measure(plan, people(), ledger=ledger(rs.ZCDP(0.6)))


def test_errors_of_groups_are_those_of_the_cells_that_are_told():
    page = page_of(grouped())
    assert page.facts("accuracy")["accuracy"].partial
    for one, table in zip(page.facts("accuracy")["accuracy"].listed, grouped().tables(), strict=True):
        told = np.isfinite(table["stddev"])
        assert 0 < told.sum() < len(table)
        assert one.counted == f"{told.sum():,} of {len(table):,}"
        assert one.stddev == pytest.approx(np.sqrt(np.mean(table["stddev"][told] ** 2)))
    assert "measured in less detail" in report_html(grouped())


def test_what_is_not_told_is_not_drawn():
    drawn = picture(grouped().table(["age", "region"]))
    assert drawn is not None
    assert drawn.drawn.count("<path") == 20  # ten ages in two of three regions
    assert drawn.drawn.count("<polyline") == 2
    assert f">{UNTOLD}<" in drawn.drawn
    bars = picture(grouped().table(["sex", "region"]))
    assert bars is not None
    assert len(re.findall('class="bar ', bars.drawn)) == 4
    assert bars.drawn.count(f">{UNTOLD}<") == 2
    holes = np.array([3.0, 4.0, np.nan, 5.0, 6.0, np.nan, 7.0, 8.0, 9.0])
    line = str(draw_lines(Series(("x",), (tuple("abcdefghi"),), holes, holes - 1, holes + 1), "x"))
    assert [len(run.split()) for run in re.findall(r'<polyline points="([^"]*)"', line)] == [2, 2, 3]
    heat = str(draw_heat(Series(("x", "y"), (("a", "b"), ("c", "d")), np.array([[1.0, np.nan], [2.0, 3.0]])), "x"))
    assert heat.count("<td>–") == 1


def test_what_levels_pay_adds_up_to_the_price():
    for form in (rs.Tree(), rs.Tree("level")):
        plan = rs.plan(trees.workload(trees.domain(60)), BUDGET, form=form)
        assert paid_by_level(plan).sum() == pytest.approx(plan.pcost, rel=1e-6)
        found = budget(plan)
        assert found is not None
        assert sum(one.share for one in found.ways) == pytest.approx(1.0)
        assert {one.title for one in found.ways} <= {"block", "county", "state", "the total"}


@pytest.mark.parametrize("operator", ["axis", "apart", "buckets"])
def test_plans_along_an_attribute_say_what_their_budget_goes_to(operator):
    domain = rs.Domain({"minute": rs.Integers(0, 4999), "sex": ["F", "M"], "town": ["a", "b", "c"]})
    crossed = rs.prefixes(domain, "minute", by=["sex"]) + rs.prefixes(domain, "minute", by=["town"])
    plan = {
        "axis": lambda: rs.plan(rs.prefixes(domain, "minute"), BUDGET, form=rs.Axis()),
        "apart": lambda: rs.plan(crossed, BUDGET, form=rs.Axis(apart=True)),
        "buckets": lambda: rs.plan(rs.prefixes(domain, "minute"), rs.PureDP(1.0)),
    }[operator]()
    spent = budget(plan)
    assert spent is not None
    assert sum(one.share for one in spent.ways) == pytest.approx(1.0)
    assert sum(one.share for one in spent.largest) == pytest.approx(1.0)
    assert sum(one.parts for one in spent.ways) == spent.parts == (3 if operator == "apart" else 1)
    assert {one.title for one in spent.largest} >= ({"minute × sex"} if operator == "apart" else {"minute"})
    assert page_of(plan).facts("budget")["ways"]


def test_shares_of_blocks_and_groups():
    domain = rs.Domain.of_sizes(dict.fromkeys("abcd", 6))
    tied = rs.queries(domain, {"first": "a < b", "same": "c = d"}) + rs.marginals(domain, ways=1)
    found = budget(rs.plan(tied, BUDGET, form=rs.Lattice()))
    assert found is not None
    assert sum(one.share for one in found.ways) == pytest.approx(1.0)
    assert {"a", "a × b", "c × d"} <= {one.title for one in found.largest}
    told = budget(grouped().plan)
    assert told is not None
    assert [(one.title, one.parts) for one in told.ways] == [("age, sex", 1), ("age × sex", 1), ("nothing", 1)]
    assert told.ways[0].share == pytest.approx(1.0)


def test_a_session_reports_all_tables_that_were_asked_for(tmp_path: Path):
    session = rs.Session(people(), rs.ZCDP(1.0), ledger=tmp_path / "s.ledger")
    session.release(rs.plan(rs.marginals(PEOPLE, [("age",)]), rs.ZCDP(0.2)))
    session.release(rs.plan(rs.marginals(PEOPLE, [("sex", "region"), ("age",)]), rs.ZCDP(0.3)))
    assert session.known is not None
    assert [table.attributes for table in session.known.tables()] == [("age",), ("sex", "region")]
    page = page_of(session)
    wanted = session.known.plan.variances(rs.marginals(PEOPLE, [("age",)]), per="term")
    assert page.facts("accuracy")["accuracy"].listed[0].stddev == pytest.approx(math.sqrt(float(wanted[0])))
    drawn = [page.facts("headline")["picture"], *page.facts("pictures")["pictures"]]
    assert [each.title for each in drawn] == ["Records by age", "sex × region"]


def test_estimates_tell_their_errors_as_a_table():
    budget = rs.ApproxDP(epsilon=1.0, delta=1e-9)
    plan = rs.plan_estimates(rs.marginals(PEOPLE, ways=[1, 2]), budget)
    estimated = rs.estimate(rs.measure(plan, people(), ledger=rs.Ledger(Path(mkdtemp()) / "l", budget)))
    text = report_html(estimated)
    assert "|---|" not in text
    assert f">{estimated.accuracy(['age']).rmse:,.3g}</td>" in text
    assert "rs.Estimated.load" in text
    assert "error bar:" not in text


@pytest.mark.parametrize("gap", [1e-9, 5.578e-05, 0.00999, 0.1, 0.9999, 1.016, 37.5])
def test_words_for_gaps_are_never_too_small(gap):
    told = nearness(gap, "the best")
    said = float(re.findall(r"[\d.]+", told)[0])
    stated = said - 1 if "times" in told else said / 100
    assert gap * (1 - 1e-9) <= stated <= max(gap, 1e-6) * 1.1 + (0.06 if gap >= 1 else 0)


@pytest.mark.parametrize("rho", [0.49999999999999994, 0.1, 1 / 3, 2 / 3 * 1e-5, 1.2345678e-7, 12.0])
def test_figures_of_guarantees_promise_no_more_than_they_may(rho):
    up, down = (float(re.findall(r"rho=(.*)\)", brief(rs.ZCDP(rho), up=up))[0]) for up in (True, False))
    assert Fraction(down) <= Fraction(rho) <= Fraction(up) <= Fraction(rho) * Fraction(100_002, 100_000)
    assert len(f"{up:g}") <= 12


def test_figures_stand_below_each_other_and_counts_are_whole():
    page = page_of(rs.plan(rs.marginals(PEOPLE, ways=[1, 2]), rs.ZCDP(0.05)))
    found = accuracy(rs.plan(rs.marginals(PEOPLE, ways=[1, 2]), rs.ZCDP(0.05)))
    assert found is not None
    for one, (_, _, error, _, reliable, caution) in zip(found.listed, page.facts("accuracy")["rows"], strict=True):
        assert len(error.replace(".", "")) == 3
        assert one.reliable <= int(reliable.replace(",", "")) < one.reliable + 1
        assert one.caution <= int(caution.replace(",", "")) < one.caution + 1
