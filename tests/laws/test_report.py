"""Reports say what their values say: odds, errors, shares and marks against other computation; labels are text."""

from __future__ import annotations

import re
import tempfile
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from scipy import integrate, stats

import residua as rs
from residua.report.accuracy import accuracy
from residua.report.budget import budget
from residua.report.charts import draw_bars, draw_heat, draw_lines, rooms
from residua.report.contents import page_of, report_html
from residua.report.odds import normal_odds, pure_odds, secret
from residua.report.pictures import PICTURES, picture, pictures
from residua.report.series import Series
from residua.report.svg import number, scale_over, ticks, wide
from tests.published import HOSTILE, LABELS, NAME, RHO, domain, plan, release

WORDS = """html head meta title style body a header h1 p nav ol li main section h2 strong em dl div dt dd small table
caption thead tr th tbody td figure h3 svg g rect line text path polygon polyline figcaption details summary span ul
code pre footer b i label input output script"""
TAGS = set(WORDS.split())


class Reader(HTMLParser):
    """Tags, attributes and text of a page, as a browser would see them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.comments: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data

    def handle_comment(self, data):
        self.comments.append(data)


@cache
def all_reports() -> dict[str, str]:
    half = rs.plan(plan().workload, rs.ZCDP(RHO / 2))
    return {
        "release": report_html(release(), title=HOSTILE),
        "plan": report_html(plan(), title=HOSTILE),
        "two": report_html(plan(), beside=half, title=HOSTILE),
        "projection": report_html(rs.project(release()), title=HOSTILE),
    }


# ---- odds


@pytest.mark.parametrize("mu", [0.05, 0.5, 1.0, 3.0])
def test_the_odds_are_those_of_the_best_test_between_two_normal_laws(mu):
    def best(x: float) -> float:
        return 0.5 * max(stats.norm.pdf(x), stats.norm.pdf(x, loc=mu))

    right = integrate.quad(best, -12, mu / 2)[0] + integrate.quad(best, mu / 2, 15)[0]
    odds = normal_odds(mu)
    assert right <= odds.right <= right + 0.001
    for alarms, found in odds.recognised.items():
        power = stats.norm.sf(stats.norm.isf(alarms), loc=mu)
        assert power <= found <= power + 0.001


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0, 800.0])
def test_the_odds_against_pure_privacy_are_those_of_randomised_response(epsilon):
    """Randomised response reaches them: it tells the truth with probability e^ε/(1 + e^ε)."""
    truth = 1 / (1 + np.exp(-epsilon))
    odds = pure_odds(epsilon)
    assert truth <= odds.right <= truth + 0.001
    for alarms, found in odds.recognised.items():
        power = (
            alarms / (1 - truth) * truth
            if alarms <= 1 - truth
            else truth + (alarms - (1 - truth)) / truth * (1 - truth)
        )
        assert power - 1e-12 <= found <= power + 0.001


def test_what_is_hidden_is_said_for_every_unit():
    from residua.privacy import Person

    units = (rs.AddRemove(), rs.AddRemove(3), rs.ReplaceOne(), Person(records=12, one_per="month"))
    said = [secret(unit) for unit in units]
    assert len(set(said)) == 4
    assert "up to 12 counted records" in said[3]


# ---- accuracy and budget


def test_listed_errors_are_the_plans_own():
    found = accuracy(plan())
    assert found is not None
    wanted = np.sqrt(plan().variances(plan().workload, per="term"))
    assert np.allclose([one.stddev for one in found.listed], wanted)
    assert np.allclose([one.reliable for one in found.listed], wanted / 0.165)
    tables = {table.attributes: table for table in release().tables()}
    for one, names in zip(page_of(release()).facts("tables")["tables"], sorted(tables, key=len), strict=True):
        assert one.reliable == (tables[names]["stddev"] <= 0.165 * np.abs(tables[names]["estimate"])).sum()


def test_margins_under_laplace_noise_are_no_shorter_than_the_intervals(tmp_path: Path):
    """Its tails are heavier: 1.96 standard errors would promise too much."""
    asked = rs.marginals(rs.Domain.of_sizes({"a": 3, "b": 2}), ways=[1, 2])
    made = rs.plan(asked, rs.PureDP(1.0))
    data = {"a": np.array([0, 1, 2] * 10), "b": np.array([0, 1] * 15)}
    got = rs.measure(made, pa.table(data), ledger=rs.Ledger(tmp_path / "l", rs.PureDP(1.0)))
    for names, one in zip(asked.sets, accuracy(made).listed, strict=True):
        columns = got.table(names).columns
        half = (columns["upper"] - columns["lower"]) / 2
        assert (half <= one.margin * 1.001).all()
        assert one.margin > 2.1 * one.stddev


def test_shares_of_the_budget_add_up_and_are_those_of_the_blocks():
    found = budget(plan())
    assert found is not None
    assert np.isclose(sum(one.share for one in found.ways), 1.0)
    shares = {one.title: one.share for one in found.largest}
    row = list(plan().lattice).index(plan().domain.positions(["sex"]))
    cost = plan().precisions[row] * plan().costs[row] / plan().pcost
    assert np.isclose(shares["sex"], cost)
    pure = rs.plan(rs.marginals(domain(), [["sex"], ["age"]]), rs.PureDP(1.0))
    told = budget(pure)
    assert told is not None
    assert np.isclose(sum(one.share for one in told.largest), 1.0)
    assert budget(rs.plan(rs.queries(domain(), ["age <= 3", "sex = 'F'"]), rs.ZCDP(1.0))) is None


def test_halving_the_budget_does_what_the_page_says():
    page = page_of(plan())
    half = rs.plan(plan().workload, rs.ZCDP(RHO / 2))
    ratio = np.sqrt(half.variances(plan().workload) / plan().variances(plan().workload))
    assert np.allclose(ratio, float(page.facts("protection")["what_if"][0][2].removeprefix("× ")), atol=0.005)
    pure = rs.plan(rs.marginals(domain(), [["sex"]]), rs.PureDP(1.0))
    less = rs.plan(rs.marginals(domain(), [["sex"]]), rs.PureDP(0.5))
    told = float(page_of(pure).facts("protection")["what_if"][0][2].removeprefix("× "))
    asked = rs.marginals(domain(), [["sex"]])
    assert np.allclose(np.sqrt(less.variances(asked) / pure.variances(asked)), told, atol=0.01)


# ---- pictures


def test_bars_and_error_bars_lie_where_the_numbers_are():
    estimates = np.array([120.0, -40.0, 0.0])
    series = Series(("x",), (("a", "b", "c"),), estimates, estimates - 15, estimates + 15, np.array([0, 2, 2]))
    svg = str(draw_bars(series, "x"))
    bars = re.findall(r'<rect x="([\d.]+)%" y="4" width="([\d.]+)%" height="14" class="bar (\w+)( below)?"', svg)
    assert [(kind, below != "") for *_, kind, below in bars] == [("sure", False), ("poor", True), ("poor", False)]
    zero = float(bars[0][0])
    per_count = float(bars[0][1]) / 120.0
    assert np.isclose(float(bars[1][0]), zero - 40 * per_count, atol=0.02)
    reaches = re.findall(r'<line x1="([\d.]+)%" y1="([\d.]+)" x2="([\d.]+)%" y2="([\d.]+)" class="reach"', svg)
    lying = [(float(a), float(b)) for a, y, b, z in reaches if y == z]
    for (start, end), estimate in zip(lying, estimates, strict=True):
        assert np.allclose([start, end], zero + per_count * np.array([estimate - 15, estimate + 15]), atol=0.02)


def test_lines_and_bands_lie_where_the_numbers_are():
    estimates = np.linspace(-20, 100, 13)
    series = Series(("x",), (tuple(map(str, range(13))),), estimates, estimates - 9, estimates + 9)
    svg = str(draw_lines(series, "x"))
    path = np.array(
        [point.split(",") for point in re.findall(r'<polyline points="([^"]*)"', svg)[0].split()], dtype=float
    )
    band = np.array(
        [point.split(",") for point in re.findall(r'<polygon points="([^"]*)"', svg)[0].split()], dtype=float
    )
    slope, start = np.polyfit(path[:, 1], estimates, 1)
    assert np.allclose(path[:, 0], np.linspace(0, 1000, 13), atol=0.1)
    assert np.allclose(slope * path[:, 1] + start, estimates, atol=0.5)
    assert np.allclose(slope * band[:13, 1] + start, estimates + 9, atol=0.5)
    assert np.allclose(slope * band[13:, 1][::-1] + start, estimates - 9, atol=0.5)
    assert svg.count('class="dot"') == 13


def test_heat_maps_show_negative_estimates_in_a_colour_of_their_own():
    series = Series(("x", "y"), (("a", "b"), ("c", "d")), np.array([[100.0, 25.0], [-4.0, 0.0]]))
    assert re.findall(r"<td(?: class=(\w+))?>", draw_heat(series, "x")) == ["h8", "h4", "m2", ""]


@pytest.mark.parametrize("letters", [1, 4, 7, 12])
@pytest.mark.parametrize("count", [2, 5, 12, 36, 90, 400])
def test_labels_below_an_axis_never_touch_at_any_width(count, letters):
    """Half a label on either side, at the narrowest width at which each is shown."""
    words = ["m" * letters] * count if letters != 7 else [f"{2000 + i // 12}-{i % 12 + 1:02}" for i in range(count)]
    x, margin = np.linspace(0, 1, count), 70.0
    shown = rooms(words, x, margin)
    for room, width in enumerate((230.0, 400.0, 640.0, 900.0)):
        places = [i for i, least in shown.items() if least <= room]
        assert places, "some label is always shown"
        starts = [(width - margin) * x[i] - wide(words[i]) * (1 if x[i] > 0.97 else 0.5) for i in places]
        ends = [start + wide(words[i]) for start, i in zip(starts, places, strict=True)]
        assert all(start > end for start, end in zip(starts[1:], ends, strict=False))


def test_every_kind_of_table_is_drawn_or_left_out():
    kinds = {tuple(table.attributes): picture(table) for table in release().tables()}
    assert kinds[()] is None
    assert "polyline" in kinds["age",].drawn
    assert "bar sure" in kinds["sex",].drawn
    assert kinds["age", "sex"].drawn.count("<polyline") == 2 + 2  # the cell of other ages stands apart
    assert len(pictures(release())) <= PICTURES
    wide = rs.Domain.of_sizes({"a": 50, "b": 60})
    assert picture(rs.Table(wide, ("a", "b"), np.zeros((50, 60)), 1.0, 2.0)) is None


def test_tables_that_say_little_are_drawn_last():
    """Of pairs, those of which most numbers are unreliable come after the others."""
    sizes = {"a": 30, "b": 20, "c": 2, "d": 2}
    asked = rs.marginals(rs.Domain.of_sizes(sizes), [["a", "b"], ["c", "d"], ["a", "c"]])
    counts = np.random.default_rng(1).integers(0, 2, (30_000, 4)) * [29, 19, 1, 1]  # four cells of the first are full
    with tempfile.TemporaryDirectory() as folder:
        ledger = rs.Ledger(f"{folder}/l", rs.ZCDP(0.5))
        told = rs.measure(
            rs.plan(asked, rs.ZCDP(0.5)), pa.table(dict(zip("abcd", counts.T, strict=True))), ledger=ledger
        )
    drawn = [each.title for each in pictures(told)]
    assert drawn.index("c × d") < drawn.index("a × b")


def test_a_release_is_called_after_its_attributes(tmp_path: Path):
    assert (
        "<h1>Tables by age, Sex, in&#34;come&lt;/title&gt;&lt;img src=x onerror=alert(2)&gt; and quality</h1>"
        in report_html(release())
    )
    wide = rs.plan(rs.marginals(rs.Domain.of_sizes(dict.fromkeys("abcde", 2)), ways=[1]), rs.ZCDP(0.5))
    data = pa.table({name: [0, 1] for name in "abcde"})
    told = rs.measure(wide, data, ledger=rs.Ledger(tmp_path / "l", rs.ZCDP(0.5)))
    assert "<h1>Tables by a, b, c and 2 more</h1>" in report_html(told)
    assert "<h1>Tabellen nach a, b, c und 2 weiteren</h1>" in report_html(told, language="de")


def test_commands_in_the_statement_are_set_as_code():
    text = report_html(release())
    assert "<code>residua audit .</code>" in text
    assert "`" not in text.partition("Privacy statement</h2>")[2].partition("</section>")[0]


def test_many_running_sums_are_a_line_from_the_first_to_the_last():
    minutes = tuple(f"<={i}" for i in range(1_440))
    table = rs.Table(
        rs.Domain({"minute": rs.Integers(0, 1_439)}), ("minute",), np.arange(1_440.0), 1.0, 2.0, (minutes,)
    )
    drawn = picture(table)
    assert drawn.drawn.count("<polyline") == 1
    assert "&lt;=0:" in drawn.drawn
    assert "&lt;=1439:" in drawn.drawn
    assert drawn.caption == "400 of 1,440 values."


def test_one_table_is_spoken_of_as_one(tmp_path):
    domain = rs.Domain({"sex": ["F", "M"]})
    rs.plan(rs.marginals(domain, ways=[1]), rs.ZCDP(0.5)).report(tmp_path / "plan.html")
    assert "One table would be published. That is 2 numbers in all." in (tmp_path / "plan.html").read_text()


def test_numbers_on_hover_are_the_numbers():
    table = release().table(["age"])
    drawn = picture(table)
    assert drawn is not None
    for row in table:
        label = "Other" if row["age"] == "(other)" else row["age"]
        told = f">{label}: {number(row['estimate'])}, {number(row['lower'])} to {number(row['upper'])} ("
        assert told in str(drawn.drawn)


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-3, 97), (0, 1e-9), (-1e12, 5), (0.2, 0.3)])
def test_ticks_are_round_few_and_inside(low, high):
    found = ticks(low, high)
    assert 2 <= len(found) <= 7 or low > 0
    assert all(low - 1e-9 * (high - low) <= tick <= high + 1e-9 * (high - low) for tick in found)
    scale = scale_over([low, high], 0.0, 100.0)
    assert 0 <= scale(low) < scale(high) <= 100


# ---- the page


@pytest.mark.parametrize("kind", ["release", "plan", "two", "projection"])
def test_hostile_labels_are_text(kind):
    page = Reader(all_reports()[kind])
    assert {tag for tag, _ in page.tags} <= TAGS
    assert sum(tag == "script" for tag, _ in page.tags) == (kind in ("release", "projection")), "ours alone"
    for tag, attributes in page.tags:
        assert not [
            name for name in attributes if name.startswith("on") or name in ("style", "src", "srcset", "xlink:href")
        ]
        assert tag != "a" or (attributes["href"] or "").startswith("#")
    assert HOSTILE in page.text
    assert NAME in page.text
    assert page.comments == [" residua report "]
    assert "\u202e" not in page.text
    assert "\x1b" not in page.text
    if kind in ("release", "projection"):
        assert "{{ 7 * 7 }}{% raw %}" in page.text
        assert LABELS[1] in page.text


def test_the_policy_lets_nothing_be_loaded():
    text = all_reports()["plan"]
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    told = policy[1].replace("&#39;", "'")
    assert told.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in told
    for kind, text in all_reports().items():
        assert not re.search(r"https?:|url\(|@import|<script\s|<link|<iframe|<object", text), kind


def test_a_report_needs_nothing_but_the_saved_folder(tmp_path: Path):
    """Whatever is in it was in the release that is published: no data, no ledger, no path."""
    release().save(tmp_path / "out")
    (tmp_path / "out").rename(tmp_path / "moved")
    text = report_html(rs.Release.load(tmp_path / "moved"))
    assert text == report_html(release())
    assert "ledger" not in text.replace("Ledger entry", "").lower() or "people.ledger" not in text
    assert str(tmp_path) not in text


def test_reports_replace_reports_and_nothing_else(tmp_path: Path):
    path = tmp_path / "r.html"
    plan().report(path, title="First")
    release().report(path, title="Second")
    assert "Second" in path.read_text()
    path.write_text("a letter")
    with pytest.raises(rs.ResiduaError, match="exists and is something else"):
        plan().report(path)
    assert path.read_text() == "a letter"
    plan().report(path, overwrite=True)
    with pytest.raises(rs.ResiduaError, match="two plans"):
        release().report(path, beside=plan())
    with pytest.raises(rs.ResiduaError, match="title"):
        plan().report(path, title=5)


def test_every_form_of_plan_and_unit_has_a_report(tmp_path: Path):
    small = rs.Domain({"a": ["x", "y"], "b": rs.Integers(0, 5)})
    plans = [
        rs.plan(rs.queries(small, ["b <= 2", "a = 'x'"]), rs.ZCDP(0.5)),
        rs.plan(rs.prefixes(small, "b", by=["a"]), rs.GDP(1.0)),
        rs.plan(rs.marginals(small, ways=1), rs.PureDP(1.0)),
        rs.plan(rs.marginals(small, ways=1), rs.ApproxDP(1.0, 1e-9), unit=rs.AddRemove(3)),
        rs.plan(rs.marginals(small, ways=1), rs.ZCDP(0.5), unit=rs.ReplaceOne()),
    ]
    data = pa.table({"a": ["x", "y"] * 30, "b": [0, 1, 2, 3, 4, 5] * 10})
    for i, one in enumerate(plans):
        assert "How people are protected" in report_html(one)
        ledger = rs.Ledger(tmp_path / f"{i}.ledger", one.guarantee, unit=one.unit)
        made = rs.measure(one, data, ledger=ledger)
        text = report_html(made)
        assert "Privacy statement" in text
        assert "<svg" in text
        assert made._repr_html_()
        assert one._repr_html_()
        assert ledger._repr_html_()


def test_a_large_plan_is_reported_quickly_and_shortly():
    many = rs.Domain.of_sizes({f"a{i}": 3 for i in range(60)})
    big = rs.plan(rs.marginals(many, ways=[1, 2]), rs.ZCDP(1.0))
    text = report_html(big)
    assert len(text) < 100_000
    assert "and 1,710 more" in text


def test_a_session_has_a_report(tmp_path: Path):
    small = rs.Domain({"sex": ["F", "M"], "answer": ["no", "yes"]})
    data = pa.table({"sex": ["F", "M"] * 50, "answer": ["no", "yes"] * 50})
    session = rs.Session(data, rs.ZCDP(0.5), ledger=tmp_path / "s.ledger")
    assert "Nothing is measured" in report_html(session)
    session.release(rs.plan(rs.marginals(small, ways=1), rs.ZCDP(0.25)), purpose="first look")
    text = report_html(session)
    assert "first look" in text
    assert "ZCDP(rho=0.25" in text
    assert str(tmp_path) not in text
    assert session._repr_html_()


def test_the_report_of_the_demo_stays_short(tmp_path: Path):
    """Whatever the noise: digits change it by some hundred bytes."""
    from residua.cli.planning import make_plan
    from residua.cli.spec import read_spec
    from residua.demo_data import demo_folder

    plan = make_plan(read_spec(demo_folder() / "adult.toml"))
    ledger = rs.Ledger(tmp_path / "adult.ledger", plan.guarantee)
    demo = rs.measure(plan, demo_folder() / "adult.parquet", ledger=ledger)
    assert len(report_html(demo).encode()) < 500_000
