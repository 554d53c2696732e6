"""Maps, themes and changes in reports: what is drawn is what was given, and bad files are refused in a sentence."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pyarrow as pa
import pytest

import residua as rs
from residua.report.charts import shade_of
from residua.report.contents import page_of, report_html
from residua.report.maps import read_map
from residua.report.tables import every_table

NAMES = ("North", "South", "East")
REGION = rs.Categories(NAMES).described("Region", meanings={"East": {"code": "E3"}})
DOMAIN = rs.Domain({"region": REGION, "sex": ["F", "M"], "minute": rs.Integers(0, 699)})


@cache
def released(n: int) -> rs.Release:
    plan = rs.plan(rs.marginals(DOMAIN, [[], ["region"], ["sex"], ["sex", "minute"]]), rs.ZCDP(0.5))
    columns = {
        "region": np.array(NAMES)[np.minimum(np.arange(n) % 6, 2)],
        "sex": np.array(["F", "M"])[np.arange(n) % 2],
    }
    data = pa.table({**columns, "minute": np.arange(n) % 700})
    return rs.measure(plan, data, ledger=rs.Ledger(Path(mkdtemp()) / "l", rs.ZCDP(0.5)))


def geojson(path: Path, keys: tuple[str, ...] = ("North", "South", "E3"), extra: dict | None = None) -> Path:
    """Unit squares side by side, from west to east."""
    features = [
        {"type": "Feature", "properties": {"key": key, "level": 2}, "geometry": {"type": "Polygon", "coordinates": [
            [[x, 0], [x + 1, 0], [x + 1, 1], [x, 1], [x, 0]]]}}
        for x, key in enumerate(keys)
    ]  # fmt: skip
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features, **(extra or {})}))
    return path


def test_regions_lie_where_the_file_has_them_and_are_shaded_by_their_numbers(tmp_path):
    path = geojson(tmp_path / "map.geojson")
    geography = read_map(path, DOMAIN)
    assert geography.attribute == "region"
    assert geography.shapes == {
        name: f"M{x},200L{x + 200},200L{x + 200},0L{x},0L{x},200Z" for name, x in zip(NAMES, (0, 200, 400), strict=True)
    }
    text = str(page_of(released(6_000), map=path).facts("headline")["picture"].drawn)
    table = released(6_000).table(["region"])
    shades = [shade_of(float(each), float(max(table["upper"]))) for each in table["estimate"]]
    assert re.findall(r'<path d="M\d+,\S+ class="(\w+)"', text) == shades


@pytest.mark.parametrize(
    ("keys", "extra", "words"),
    [
        (("North", "South"), {}, "no region for 'East' of 'region'"),
        (("x", "y", "z"), {}, "the values of no attribute"),
        (NAMES, {"features": 5}, "is no GeoJSON"),
        (NAMES, {"features": [{"geometry": {"type": "Polygon", "coordinates": [[[0], [1], [2]]]}}]}, "is no GeoJSON"),
    ],
)
def test_files_that_are_no_map_of_the_domain_are_refused(tmp_path, keys, extra, words):
    with pytest.raises(rs.ResiduaError, match=words):
        report_html(released(6_000), map=geojson(tmp_path / "m.geojson", keys, extra))
    with pytest.raises(rs.ResiduaError, match="map: cannot read"):
        report_html(released(6_000), map=tmp_path / "none")


def test_a_theme_has_its_name_logo_colours_and_fonts_in_the_page(tmp_path):
    (tmp_path / "logo.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    lines = ['name = "Office & Co"', 'logo = "logo.svg"', "[colours]", 'accent = ["#7a1f3d", "#f2a0b5"]']
    (tmp_path / "theme.toml").write_text("\n".join([*lines, "[fonts]", 'head = "Georgia, serif"']))
    text = report_html(released(6_000), theme=tmp_path / "theme.toml")
    assert "--accent: light-dark(#7a1f3d, #f2a0b5); --head: Georgia, serif;" in text
    assert re.search(r'<img src="data:image/svg\+xml;base64,\w+=*" alt="Office &amp; Co">', text)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("x = ", "is not TOML"),
        ("size = 3", "'size'; it may have name, logo, colours and fonts"),
        ("[colours]\nacent = '#000000'", "no colour 'acent'"),
        ("[colours]\naccent = 'red; } body { display: none'", "is no colour"),
        ("[colours]\naccent = '#e0e0e0'", "contrast of 1.31 in light pages"),
        ("[fonts]\nhead = 'x; } body { display: none'", "is no list of font families"),
        ("logo = 'logo.exe'", "is of no kind that browsers show"),
        ("logo = 'none.png'", "cannot read the logo"),
    ],
)
def test_bad_themes_are_refused(tmp_path, content, words):
    (tmp_path / "theme.toml").write_text(content)
    with pytest.raises(rs.ResiduaError, match=re.escape(words)):
        report_html(released(6_000), theme=tmp_path / "theme.toml")


def test_what_changed_is_what_the_two_releases_say():
    this, last = released(9_000), released(6_000)
    facts = page_of(this, since=last).facts("since")
    total = rs.change(this, last)["estimate"][0]
    assert f"changed by {total:,.0f} (" in facts["said"]
    (region,) = [each for each in facts["pictures"] if each.title == "Region"]
    told = [int(each.replace(",", "")) for each in re.findall(r"<td>([\d,]+)", str(region.drawn))]
    assert told == [round(float(each)) for each in rs.change(this, last, ["region"])["estimate"]]
    with pytest.raises(rs.ResiduaError, match="since: a release can be compared"):
        report_html(rs.project(this), since=last)


def test_no_table_is_left_out_silently():
    """Every table is listed with all its numbers, or with a picture and the command that gives them."""
    release = released(6_000)
    listed = {one.title: one for one in every_table(release)}
    assert list(listed) == ["Total", "Region", "sex", "sex × minute"]
    assert [one.whole for one in listed.values()] == [True, True, True, False]
    assert "data:image/png;base64," in listed["sex × minute"].drawn
    text = report_html(release)
    assert "residua table DIR sex minute" in text
    assert "One is too large for this page; it says how to get its numbers." in text


@cache
def journeys() -> rs.Release:
    """From each of 300 places to each: 90,000 counts, of which one is large."""
    places = rs.Categories([f"p{i}" for i in range(300)])
    first = places.described({"en": "From", "de": "Von"}, meanings={"p7": {"title": {"en": "Home", "de": "Heim"}}})
    plan = rs.plan(rs.marginals(rs.Domain({"origin": first, "destination": places}), ways=[2]), rs.ZCDP(1.0))
    data = pa.table({"origin": ["p7"] * 500 + ["p8"], "destination": ["p3"] * 500 + ["p9"]})
    return rs.measure(plan, data, ledger=rs.Ledger(Path(mkdtemp()) / "l", rs.ZCDP(1.0)))


def test_of_a_table_that_is_too_large_the_largest_counts_are_shown():
    """As `top` lists them: ten of 90,000, with ranks and intervals that allow for the choice; and how to get all."""
    release = journeys()
    top = release.top(["origin", "destination"])
    (listed,) = every_table(release)
    told = re.findall(r'<th scope="row">(.*?)</th>.*?<td>(.*?)</td>', str(listed.drawn))
    labels = [{"p7": "Home"}.get(each, each) for each in top["origin"]]
    places = zip(labels, *(top[name] for name in ("destination", "rank_lower", "rank_upper")), strict=True)
    assert [where for where, _ in told] == [f"{a} × {b} (rank {low:,} to {high:,})" for a, b, low, high in places]
    assert told[0][0] == "Home × p3 (rank 1 to 1)"
    numbers = [float(re.sub(r"[^\d.−]", "", each).replace("−", "-")) for _, each in told]
    assert numbers == pytest.approx(top["estimate"], abs=0.5 + 1e-9)
    reach = float(re.search(r"each number ± ([\d.]+)\.", str(listed.drawn))[1])
    assert reach == pytest.approx(top["upper"][0] - top["estimate"][0], rel=0.05)
    assert reach > 4 * release.table(["origin", "destination"])["stddev"][0], "and not 1.96 standard errors"
    text = report_html(release)
    assert (
        "The 10 largest of 90,000 counts. Intervals and ranks allow for the choice, in which noise had a part." in text
    )
    assert "This table has 90,000 numbers, too many to be written out here." in text
    assert "<code>residua tables DIR --out TABLES</code>" in text


def test_every_value_of_a_long_attribute_is_found_by_the_search_of_a_browser(tmp_path: Path):
    """Folded, a line each, up to so many per page; of what is beyond, the page names the command."""
    domain = rs.Domain({"job": [f"j{i}" for i in range(5_000)], "town": [f"t{i}" for i in range(16_000)]})
    plan = rs.plan(rs.marginals(domain, ways=[1]), rs.ZCDP(1.0))
    data = pa.table({"job": ["j7"] * 90 + ["j4999"], "town": ["t3"] * 91})
    release = rs.measure(plan, data, ledger=rs.Ledger(tmp_path / "l", rs.ZCDP(1.0)))
    job, town = every_table(release)
    lines = re.search(r'<details class="lines"><summary>(.*?)</summary><pre>(.*?)</pre>', str(job.drawn), re.S)
    assert lines is not None
    assert lines[1].startswith("All 5,000 values, line by line")
    told = [line.partition(": ") for line in lines[2].split("\n")]
    assert [label for label, _, _ in told] == list(domain["job"].labels)
    numbers = [float(number.replace(",", "").replace("−", "-")) for _, _, number in told]
    assert numbers == pytest.approx(release.table(["job"])["estimate"], abs=0.5 + 1e-9)
    assert job.note.startswith("± "), "every number has an interval"
    assert "lines" not in str(town.drawn)
    text = report_html(release)
    assert "This table has 16,000 numbers, too many to be written out here." in text
    assert len(text) < 300_000


def test_the_largest_counts_of_a_projection_have_neither_ranks_nor_intervals():
    drawn = str(every_table(rs.project(journeys()))[0].drawn)
    assert "The 10 largest of 90,000 counts." in drawn
    assert '<th scope="row">Home × p3</th>' in drawn
    assert not re.search("rank|interval|reach", drawn)
    assert "rank_lower" not in rs.project(journeys()).top(["origin", "destination"]).columns


def test_the_largest_counts_are_told_in_the_language_of_the_page():
    for language, words in {
        "de": ("Heim × p3 (Rang 1 bis 1)", "Die 10 größten von 90.000 Anzahlen.", "Von × destination"),
        "fr": ("Home × p3 (rang 1 à 1)", "Les 10 plus grands effectifs sur 90\u202f000."),
    }.items():
        text = report_html(journeys(), language=language)
        assert not [each for each in words if each not in text]


def test_of_running_sums_the_largest_are_not_listed_as_if_they_were_counts():
    domain = rs.Domain({"sex": ["F", "M"], "minute": rs.Integers(0, 2099)})
    asked = rs.prefixes(domain, "minute", by=["sex"]) + rs.marginals(domain, [["sex", "minute"]])
    data = pa.table({"sex": ["F"] * 9, "minute": [3] * 9})
    release = rs.measure(rs.plan(asked, rs.ZCDP(0.5)), data, ledger=rs.Ledger(Path(mkdtemp()) / "l", rs.ZCDP(0.5)))
    sums, counts = sorted(every_table(release), key=lambda one: one.title.count("prefixes"), reverse=True)
    assert (sums.size, counts.size) == (4200, 4200)
    assert "The 10 largest of 4,200 counts." not in str(sums.drawn)
    assert "The 10 largest of 4,200 counts." in str(counts.drawn)
