"""Everything that people read can be said in every language that has a catalogue."""

from __future__ import annotations

import io
import runpy
import string
from pathlib import Path

import pytest
from babel import Locale
from babel.messages.pofile import read_po
from babel.numbers import format_decimal

import residua as rs
from residua import language
from residua.language import FOLDER, languages, numeral, say, say_many, speaking

ROOT = Path(__file__).parents[2]
OTHERS = [tag for tag in languages() if tag != "en"]
collect = runpy.run_path(str(ROOT / "scripts" / "languages.py"))


def catalogue(tag: str):
    return read_po(io.BytesIO((FOLDER / f"{tag}.po").read_bytes()), locale=tag)


def fields(text: str) -> set[tuple[str | None, str | None]]:
    return {(name, spec) for _, name, spec, _ in string.Formatter().parse(text) if name}


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
    with speaking("sv", ["sv"]):  # titles of the domain, and English
        assert numeral("1,234.5") == "1,234.5"
    assert language.current() == ""
    for wrong in ("xx", 5, "../de", ""):
        with pytest.raises(rs.ResiduaError, match="language="), speaking(wrong):
            pass
