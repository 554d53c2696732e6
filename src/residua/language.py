"""Sentences and numbers in the reader's language: English is the source, a catalogue per language translates it.

How to write a sentence that people will read:

- `say("The {count} largest estimates of {all}.", count=30, all=len(table))`: a whole sentence with named placeholders,
  as a literal, so that it can be found in the code. Numbers in placeholders are written as the language writes them
  (1,234.5 or 1.234,5 or 1 234,5); a format after the colon is Python's (`{share:.1f}`). Texts stay as they are.
- `say_many("One table", "{n} tables", n)`: the same with a number that decides between singular and plural.
- `mark("Standard error")`: a constant at the top of a module, where no language is known yet: `say(TITLE)` later.
- `numeral("1,234.5")`: a number that Python has formatted already, as the language writes it.

Never put a sentence together from pieces: other languages have another order, and cases. In templates there are `say`,
`say_many` and `numeral` too, and for sentences with markup of ours `say_html("Noise hides <strong>{unit}</strong>.",
unit=…)`, which escapes its values. The language holds where `speaking(language)` was entered, at the door:
`report(language=…)`, `export(language=…)`, `--language`. Errors, logs and JSON for machines stay English.

A language is one file `languages/<tag>.po`, whose head also has its marks of numbers; `python scripts/languages.py`
collects all sentences into every catalogue, and a test fails while one is not translated.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, wraps
from numbers import Number
from pathlib import Path
from string import Formatter
from typing import Any, TypeVar

from residua.errors import PlanError, named

FOLDER = Path(__file__).parent / "languages"
_ENTRY = re.compile(r'^(msgid|msgid_plural|msgstr)(?:\[\d+\])? (".*"(?:\n".*")*)', re.M)
_current: ContextVar[str] = ContextVar("language", default="")
R = TypeVar("R")


@dataclass(frozen=True)
class Catalogue:
    """What one language says.

    Args:
        sentences: English → the forms of its translation, one per number where it has several.
        form: which of the forms a number takes.
        marks: how a comma and a point in an English number are written.
    """

    sentences: dict[str, list[str]]
    form: Callable[[int], int]
    marks: dict[int, str]


_ENGLISH = Catalogue({}, lambda n: int(n != 1), {})


def languages() -> tuple[str, ...]:
    """The languages in which everything can be said."""
    return ("en", *sorted(path.stem for path in FOLDER.glob("*.po")))


def current() -> str:
    """The language that was asked for; nothing if none was."""
    return _current.get()


@contextmanager
def speaking(language: str | None, domain: Any = None) -> Iterator[None]:
    """Lets everything inside be said in a language; None changes nothing, unless the domain has one of its own.

    Args:
        language: its tag, such as `"de"`, or `"de-AT"` for the catalogue of `"de"` and titles of its own.
        domain: what it is about; a language without a catalogue gets the titles that the domain has in it, and English.

    Raises:
        PlanError: a language that is neither.

    Example:
        >>> with speaking("de"):
        ...     numeral("1,234.5")
        '1.234,5'
    """
    language = getattr(domain, "language", "") or None if language is None else language
    if language is None:
        yield
        return
    there = dict.fromkeys((*languages(), *getattr(domain, "languages", ())))
    if not isinstance(language, str) or not {language, language.partition("-")[0]} & set(there):
        raise PlanError(f"language={named(language)} is not known; take {', '.join(there)}, or declare titles in it.")
    before = _current.set(language)
    try:
        yield
    finally:
        _current.reset(before)


def spoken(function: Callable[..., R]) -> Callable[..., R]:
    """Lets a function of a value with a domain take `language=`, in which everything that it does is said."""

    @wraps(function)
    def called(about: Any, *args: Any, language: str | None = None, **options: Any) -> R:
        with speaking(language, getattr(about, "domain", None)):
            return function(about, *args, **options)

    return called


def mark(sentence: str) -> str:
    """The sentence as it is, to be found for catalogues and said later."""
    return sentence


def say(sentence: str, **values: Any) -> str:
    """A sentence in the current language.

    Example:
        >>> say("{n} of {all} tables, {share:.1f} %", n=1200, all="all", share=2.25)
        '1,200 of all tables, 2.2 %'
    """
    return _filled(_catalogue().sentences.get(sentence, [sentence])[0], values)


def say_many(one: str, many: str, n: int, **values: Any) -> str:
    """One of two sentences, by a number, which is the placeholder `n`.

    Example:
        >>> say_many("One table", "{n} tables", 1), say_many("One table", "{n} tables", 1200)
        ('One table', '1,200 tables')
    """
    catalogue = _catalogue()
    forms = catalogue.sentences.get(one, [])
    words = forms[catalogue.form(n)] if len(forms) > 1 else (one, many)[_ENGLISH.form(n)]
    return _filled(words, {"n": n, **values})


def numeral(text: str) -> str:
    """A number as Python writes it in English, `1,234.5`, as the current language writes it."""
    return text.translate(_catalogue().marks)


class _Filler(Formatter):
    """Placeholders, with numbers in the current language."""

    def format_field(self, value: Any, format_spec: str) -> str:
        if not isinstance(value, Number):
            return format(value, format_spec)
        return numeral(format(value, format_spec or ",.10g" if isinstance(value, float) else format_spec or ","))


_fill = _Filler().vformat


def _filled(words: str, values: dict[str, Any]) -> str:
    return _fill(words, (), values) if values else words


def _catalogue() -> Catalogue:
    language = _current.get()
    return _read(language) if language else _ENGLISH


@cache
def _read(language: str) -> Catalogue:
    """The catalogue of a language, or of the one that it is a variety of; English if there is none."""
    from gettext import c2py  # the rule for plurals, as catalogues write it

    tag = language if language in languages() else language.partition("-")[0]
    if tag == "en" or tag not in languages():
        return _ENGLISH
    sentences: dict[str, list[str]] = {}
    forms: list[str] = []
    for keyword, quoted in _ENTRY.findall((FOLDER / f"{tag}.po").read_text("utf-8")):
        words = "".join(json.loads(line) for line in quoted.splitlines())
        if keyword == "msgid":
            forms = sentences[words] = []
        elif keyword == "msgstr":
            forms.append(words)
    head = dict(line.split(": ", 1) for line in sentences.pop("")[0].splitlines())
    rule = c2py(head["Plural-Forms"].partition("plural=")[2].rstrip(";"))
    marks = {ord(","): head["X-Group"].strip("'"), ord("."): head["X-Decimal"]}
    return Catalogue({one: each for one, each in sentences.items() if any(each)}, rule, marks)
