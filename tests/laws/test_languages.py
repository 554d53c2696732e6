"""Everything that people read can be said in every language that has a catalogue."""

from __future__ import annotations

import io
import pickle
import re
import runpy
import string
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from tempfile import mkdtemp
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from babel import Locale
from babel.messages.pofile import read_po
from babel.numbers import format_decimal

import residua as rs
from residua import language
from residua.language import FOLDER, Catalogue, languages, numeral, say, say_many, speaking
from residua.report.contents import report_html
from tests.cli.command import inside

ROOT = Path(__file__).parents[2]
OTHERS = [tag for tag in languages() if tag != "en"]
collect = runpy.run_path(str(ROOT / "scripts" / "languages.py"))


@cache
def sentences_of_the_code() -> list[Any]:
    return [message.id for message in collect["extracted"]() if message.id]


def catalogue(tag: str):
    return read_po(io.BytesIO((FOLDER / f"{tag}.po").read_bytes()), locale=tag)


def fields(text: str) -> set[tuple[str | None, str | None]]:
    return {(name, spec) for _, name, spec, _ in string.Formatter().parse(text) if name}


@pytest.mark.parametrize("tag", OTHERS)
def test_every_sentence_of_the_code_is_translated(tag):
    asked = set(sentences_of_the_code())
    there = {message.id for message in catalogue(tag) if message.id and all(message.string)}
    assert asked == there, "run python scripts/languages.py, and translate what is empty"
    assert len(asked) > 300


def marked(text: str) -> str:
    """A sentence as a language in which everything but placeholders stands in brackets of its own."""
    parts = string.Formatter().parse(text)
    return "⟦" + "".join(f"{words}⟧{{{name}:{spec}}}⟦" if name else words for words, name, spec, _ in parts) + "⟧"


def all_marked() -> Catalogue:
    ids = sentences_of_the_code()
    forms = {each if isinstance(each, str) else each[0]: [each] if isinstance(each, str) else each for each in ids}
    return Catalogue({one: [*map(marked, each)] for one, each in forms.items()}, lambda n: int(n != 1), {})


class Words(HTMLParser):
    """The texts of a page, with those that are shown on hover or read aloud."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.texts, self.inside = "", 0
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.inside += tag in _CODE
        self.texts += "" if tag in _WITHIN else "\n"
        self.texts += "".join(f"\n{v}\n" for name, v in attributes if name in ("aria-label", "alt", "placeholder"))

    def handle_endtag(self, tag):
        self.inside -= tag in _CODE

    def handle_data(self, data):
        self.texts += "" if self.inside else data


_CODE, _WITHIN = ("style", "script", "code", "pre"), ("a", "b", "em", "i", "small", "span", "strong")


def unmarked(text: str) -> set[str]:
    """The words outside all brackets."""
    while (rest := re.sub("⟦[^⟦⟧]*⟧", " ", text)) != text:
        text = rest
    return set(re.findall(r"[^\W\d_]{3,}", text))


@cache
def published(*, sums: bool = False) -> rs.Release:
    """Two attributes that have titles, bins, a rest, and a person with several records: all that pages speak of."""
    domain = rs.Domain(
        {
            "qsex": rs.Categories(["q1", "q2"]).described({"de": "Qgeschlecht", "fr": "Qsexe"}),
            "qincome": rs.Amount(0, 5000) if sums else rs.Bins([0, 1000, 5000, float("inf")], missing="other"),
        }
    )
    asked = rs.marginals(domain, ways=[0, 1, 2])
    plan = rs.plan(asked, rs.ZCDP(0.5), unit=rs.Person(2))
    data = pa.table({"qsex": ["q1", "q2"] * 50, "qincome": list(range(0, 10000, 100)), "id": list(range(100))})
    ledger = rs.Ledger(Path(mkdtemp()) / "a.ledger", rs.ZCDP(1), unit=rs.Person(2))
    return rs.measure(plan, rs.Source.frame(data, person="id"), ledger=ledger)


OWN = {"Qgeschlecht", "Qsexe", "qsex", "qincome", "rho", "epsilon", "ZCDP", "TotalVariance", "MaxVariance", "cells"}
OWN |= {"weight", "delta", "residua", "Person", "records", "Projected", "json"}  # names, and what code calls things


def page_of(kind: str) -> str:
    """A page of this kind in a language that is not English."""
    release = published(sums=kind == "sums")
    if kind == "plan":
        half = rs.plan(release.planned.workload, rs.ZCDP(0.25), unit=rs.Person(2))
        return report_html(release.planned, beside=half, language="de")
    make = {
        "release": lambda: release,
        "sums": lambda: release,
        "projection": lambda: rs.project(release, simulations=1),
    }
    return report_html(make.get(kind, lambda: rs.estimate(release))(), language="de")


QUOTED = {
    "share": lambda of: of.share(["qsex"], by=["qincome"]),
    "share of a condition": lambda of: of.share({"qsex": "q1"}),
    "ratio": lambda of: of.ratio({"qsex": "q1"}, {"qsex": "q2"}, by=["qincome"]),
    "mean": lambda of: of.mean("qincome", by=["qsex"], values={"[5000, inf]": 7000.0}),
    "endless": lambda of: of.sum("qincome"),
    "median": lambda of: of.median("qincome"),
    "quantiles": lambda of: of.quantile("qincome", [0.1, 0.9], simultaneous="table"),
    "Gini": lambda of: of.gini("qincome", values={"[5000, inf]": 7000.0}),
    "difference": lambda of: of.difference("qsex", {"q1": 1, "q2": -1}),
    "difference of shares": lambda of: of.difference("qsex", of={"qincome": ["[0, 1000)", "(other)"]}),
    "relative difference": lambda of: of.relative_difference("qsex", "q1", "q2"),
    "standardised": lambda of: of.standardised({"qincome": "(other)"}, "qsex", {"q1": 1}),
    "top": lambda of: of.top(["qsex", "qincome"], 2),
}


@pytest.mark.parametrize("name", QUOTED)
def test_no_sentence_beside_quoted_numbers_is_left_unmarked(name, monkeypatch):
    known = all_marked()
    monkeypatch.setattr(language, "_read", lambda tag: known)
    for of in (published(), published().planned.assuming(1000), rs.project(published(), simulations=1)):
        with speaking("de"):
            try:
                note = QUOTED[name](of).note
            except rs.ResiduaError:  # a projection has no intervals to be simultaneous, and errors are English
                assert isinstance(of, rs.Projected)
                continue
        assert note.count("⟦") > 1
        assert unmarked(note) - OWN - {"inf", "other"} == set()


@pytest.mark.parametrize("kind", ["release", "sums", "projection", "estimates", "plan"])
def test_no_sentence_of_a_page_is_left_unmarked(kind, monkeypatch):
    known = all_marked()
    monkeypatch.setattr(language, "_read", lambda tag: known)
    page = page_of(kind)
    assert page.count("⟦") > 50
    assert unmarked(Words(page).texts) - OWN == set()


@pytest.mark.parametrize("tag", OTHERS)
def test_no_english_sentence_is_on_a_page_of_another_language(tag):
    sentences = {each for message in catalogue(tag) if message.id for each in (message.id, message.string)
                 if isinstance(each, str)}  # fmt: skip
    text = re.sub(r"\s+", " ", Words(report_html(published(), language=tag)).texts)
    english = [m.id for m in catalogue(tag) if isinstance(m.id, str) and len(m.id) > 30 and m.id != m.string]
    assert len(sentences) > len(english) > 100
    for sentence in english:
        longest = max(re.split(r"\{[^}]*\}|<[^>]*>", sentence), key=len)
        assert len(longest) < 15 or longest not in text, sentence
    assert f'<html lang="{tag}"' in report_html(published(), language=tag)


@pytest.mark.parametrize("tag", OTHERS)
def test_translations_have_the_placeholders_of_their_sentences(tag):
    for message in catalogue(tag):
        if not message.id or not message.string:
            continue
        singular = message.id if isinstance(message.id, str) else message.id[0]
        forms = [message.string] if isinstance(message.string, str) else [each for each in message.string if each]
        most = fields(singular) if isinstance(message.id, str) else fields(message.id[1])
        for form in forms:
            assert fields(singular) <= fields(form) <= most, form
            assert singular.count("<") == form.count("<"), form
        assert not message.fuzzy


@pytest.mark.parametrize("tag", OTHERS)
def test_we_read_catalogues_as_babel_does(tag):
    known = language._read(tag)
    theirs = {}
    for message in catalogue(tag):
        if message.id and message.string and any(message.string):
            plural = not isinstance(message.id, str)
            theirs[message.id[0] if plural else message.id] = list(message.string) if plural else [message.string]
    assert known.sentences == theirs
    rule = Locale.parse(tag)
    assert [known.form(n) for n in range(200)] == [int(rule.plural_form(n) != "one") for n in range(200)]


@pytest.mark.parametrize("tag", OTHERS)
def test_numbers_are_written_as_cldr_has_it(tag):
    with speaking(tag):
        for number in (0.5, -1234567.25, 12, 1e9):
            assert numeral(f"{number:,}") == format_decimal(
                number, "#,##0.0##" if number != 12 else "#,##0", locale=tag
            )


def test_a_language_holds_inside_and_is_refused_where_nobody_knows_it():
    assert (say("{n} rows, {share:.1f} %", n=1200, share=2.5), say_many("One", "{n} of {all}", 2, all="x")) == (
        "1,200 rows, 2.5 %", "2 of x",
    )  # fmt: skip
    with speaking("de-AT"):
        assert (language.current(), say("{n}", n=12345.5)) == ("de-AT", "12.345,5")
    with speaking("sv", SimpleNamespace(languages=["sv"])):  # titles of the domain, and English
        assert numeral("1,234.5") == "1,234.5"
    assert language.current() == ""
    for wrong in ("xx", 5, "../de", ""):
        with pytest.raises(rs.ResiduaError, match="language="), speaking(wrong):
            pass


def test_a_domain_has_a_language_that_all_that_is_made_of_it_speaks(tmp_path: Path) -> None:
    domain = rs.Domain({"sex": rs.Categories(["F", "M"]).described({"de": "Geschlecht", "en": "Sex"})}, language="de")
    plan = rs.plan(rs.marginals(domain, ways=1), rs.ZCDP(0.5))
    release = rs.measure(plan, pa.table({"sex": ["F"]}), ledger=rs.Ledger(tmp_path / "l", rs.ZCDP(9.0)))
    release.save(tmp_path / "r")
    loaded = rs.Release.load(tmp_path / "r")
    assert loaded.domain.language == pickle.loads(pickle.dumps(domain)).language == "de"
    for about, asked, spoken in ((loaded, None, "de"), (loaded, "en", "en"), (plan, None, "de")):
        assert f'<html lang="{spoken}">' in report_html(about, language=asked)
    loaded.export(tmp_path / "x", "datapackage")
    assert "Schätzwert für eine Anzahl" in (tmp_path / "x" / "datapackage.json").read_text()
    assert rs.Domain({"sex": ["F", "M"]}, language="fr") == rs.Domain({"sex": ["F", "M"]})  # words are no difference
    with pytest.raises(rs.ResiduaError, match="language='nl' is not known"):
        rs.Domain({"sex": ["F", "M"]}, language="nl")
    with pytest.raises(rs.ResiduaError, match="'language'"):
        rs.Domain({"language": ["F", "M"]}, language="de")


def test_a_specification_has_a_language_for_every_command(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("sex\nF\nM\n")
    spec = '[source]\npath = "people.csv"\n[privacy]\nrho = 0.5\n[[workload]]\nways = [1]\n[report]\nlanguage = "de"\n'
    (tmp_path / "s.toml").write_text(spec + '[domain.sex]\nvalues = ["F", "M"]\ntitle = { de = "Geschlecht" }\n')
    assert inside("release", "s.toml", "--out", "o", cwd=tmp_path).code == 0
    assert "Geschlecht  Schätzwert" in inside("table", "o", "sex", cwd=tmp_path).out
    assert "Schätzwert" not in inside("table", "o", "sex", "--language", "fr", cwd=tmp_path).out
    assert "Vertrauensbereich" in inside("count", "o", cwd=tmp_path).out
    assert inside("report", "o", "--out", "o.html", cwd=tmp_path).code == 0
    assert '<html lang="de">' in (tmp_path / "o.html").read_text()
    (tmp_path / "s.toml").write_text((tmp_path / "s.toml").read_text().replace('"de"\n', "5\n"))
    assert "is not a text" in inside("plan", "s.toml", cwd=tmp_path).err
