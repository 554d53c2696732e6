"""What attributes and their values are called: labels, and in public titles, descriptions and codes, in languages.

Words change nothing that is counted: two domains that differ in words alone are equal, and a plan for one is a plan
for the other. Reports, notebooks and the formats of statistical offices show them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import chain, pairwise
from types import MappingProxyType
from typing import Any, Self, cast

import numpy as np

from residua.errors import DomainError, kind_of, named, nearest
from residua.language import current, mark, say

Text = str | Mapping[str, str]  # a text, or language → text
OTHER = "(other)"  # the label of the cell for other values
SUM, _ALONG = mark("sum"), (mark("prefixes"), mark("ranges"))  # what may be asked of an attribute beside its values
KEYS = ("title", "description", "code", "meanings")
_CODE = re.compile(r"[A-Za-z0-9_@$-]{1,64}")
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{1,8})*")
_INTERVAL = re.compile(r"\[(-?inf|-?[0-9.]+(?:e[+-]?[0-9]+)?), (inf|-?[0-9.]+(?:e[+-]?[0-9]+)?)([\])])")
_MOST = 2**16  # characters of a text


def _nothing() -> Mapping[str, Any]:
    return MappingProxyType({})


@dataclass(frozen=True)
class Named:
    """A title, a description and a code: of an attribute, or of one of its values.

    Args:
        title: language → text; a text without a language stands under "".
        description: the same.
        code: what code lists call it; nothing if they have no code.
    """

    title: Mapping[str, str] = field(default_factory=_nothing)
    description: Mapping[str, str] = field(default_factory=_nothing)
    code: str = ""

    def __reduce__(self) -> tuple[Any, ...]:
        values = (getattr(self, each.name) for each in fields(self))
        return _restored, (type(self), [dict(value) if isinstance(value, Mapping) else value for value in values])

    def settings(self) -> dict[str, Any]:
        """As plain values, for files; nothing where nothing is said."""
        texts = {"title": _plain(self.title), "description": _plain(self.description), "code": self.code}
        return {key: value for key, value in texts.items() if value}


def _restored(kind: type[Any], values: list[Any]) -> Any:
    return kind(*(MappingProxyType(value) if isinstance(value, dict) else value for value in values))


@dataclass(frozen=True)
class Words(Named):
    """What an attribute and its values are called.

    Args:
        meanings: label, as text → what it means.
    """

    meanings: Mapping[str, Named] = field(default_factory=_nothing)

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages in which something is said, in the order of their first appearance."""
        texts = [self.title, self.description]
        texts += [text for named in self.meanings.values() for text in (named.title, named.description)]
        return tuple(dict.fromkeys(language for text in texts for language in text if language))

    def settings(self) -> dict[str, Any]:
        """As plain values, for files."""
        meanings = {label: named.settings() for label, named in self.meanings.items()}
        return {**super().settings(), **({"meanings": meanings} if meanings else {})}


class Described:
    """Something with words: an attribute."""

    words: Words

    def described(
        self,
        title: Text = "",
        *,
        description: Text = "",
        code: str = "",
        meanings: Mapping[Any, Any] = MappingProxyType({}),
    ) -> Self:
        """The same attribute with what it and its values are called, for reports and published files.

        Args:
            title: what it is called: a text, or language → text, such as `{"en": "Sex", "de": "Geschlecht"}`.
            description: what it means, in the same form.
            code: what code lists call it: letters, digits, `_`, `@`, `$` and `-`.
            meanings: value, or group of a level → its title, or `{"code": …, "title": …, "description": …}`.

        Raises:
            DomainError: something that is no text, a code with other characters, or a value that is not declared.

        Example:
            >>> from residua.domain import Categories
            >>> words = {"F": {"code": "2", "title": "Female"}, "M": "Male"}
            >>> sex = Categories(["F", "M"]).described("Sex", meanings=words)
            >>> [title_of(sex, label) for label in sex.labels], sex == Categories(["F", "M"])
            (['Female', 'Male'], True)
        """
        named = _named("", {"title": title, "description": description, "code": code})
        own = cast("Any", self)
        labels = chain(own.labels, *(level.labels for level in own.hierarchy)) if meanings else ()
        words = Words(named.title, named.description, named.code, _meanings(labels, meanings))
        renamed: Self = replace(own, words=words)
        return renamed


def title_of(attribute: Described, label: object, language: str | None = None) -> str:
    """What a value is called: its declared title, else its label, of which an interval is put into words.

    Example:
        >>> from residua.domain import Bins
        >>> income = Bins([0, 1000, 5000, float("inf")], unknown="other")
        >>> [title_of(income, label) for label in ("[0, 1000)", "(other)")]
        ['0 to under 1,000', 'Other']
    """
    named = attribute.words.meanings.get(str(label))
    if label == SUM and cast("Any", attribute).summed:
        return say(SUM)
    return (said(named.title, language) if named else "") or in_words(str(label))


def in_words(label: str) -> str:
    """An interval, or the rest, in the words of the language; any other label as it is."""
    if label == OTHER:
        return say("Other")
    interval = _INTERVAL.fullmatch(label)
    if interval is None:
        return label
    low, high = float(interval[1]), float(interval[2])
    if low == -np.inf:
        return say("under {high}", high=high) if high < np.inf else label
    if high == np.inf:
        return say("{low} and more", low=low)
    if interval[3] == "]":
        return say("{low} to {high}", low=low, high=high)
    return say("{low} to under {high}", low=low, high=high)


def names_of(attribute: Described) -> dict[str, str]:
    """Label, as text → its declared title; with the label where two values have the same."""
    titles = {label: title for label, named in attribute.words.meanings.items() if (title := said(named.title))}
    times = Counter(titles.values())
    return {label: title if times[title] == 1 else f"{title} ({label})" for label, title in titles.items()}


def title_in_words(domain: Any, title: str) -> str:
    """The title of a table, such as `age × pay: sum`, in the language that is spoken; any other text as it is."""
    asked = [part.partition(": ") for part in title.split(" × ")]
    if not all(name in domain.names for name, _, _ in asked):
        return say("Total") if title == "(total)" else title
    whats = [f": {say(what)}" if what in (SUM, *_ALONG) else colon + what for _, colon, what in asked]
    names = [said(domain[name].words.title) or name for name, _, _ in asked]
    return " × ".join(name + what for name, what in zip(names, whats, strict=True))


def heading(domain: Any, name: str) -> str:
    """What an attribute is called: its title where a language was asked for, else its name."""
    return (said(domain[name].words.title) if current() else "") or name


def said(text: Mapping[str, str], language: str | None = None) -> str:
    """A text in a language, the one that is spoken if left out; in the first that there is, if not in that one."""
    tag = language or current()
    return text.get(tag) or text.get(tag.partition("-")[0]) or text.get("") or next(iter(text.values()), "")


def _meanings(labels: Any, declared: object) -> Mapping[str, Named]:
    if not isinstance(declared, Mapping):
        raise DomainError(f"meanings={named(declared)} is not a mapping; pass {{value: title}}.")
    known = {str(label): True for label in labels}
    meanings: dict[str, Named] = {}
    for label, meaning in declared.items():
        if str(label) not in known:
            shown, remedy = nearest(label, known)
            raise DomainError(f"meanings: a label{shown} is not a value of the attribute; {remedy}")
        meanings[str(label)] = _named(f"meanings of {label!r}: ", meaning)
    codes = [named.code for named in meanings.values() if named.code]
    twice = next((code for i, code in enumerate(codes) if code in codes[:i]), None)
    if twice is not None:
        raise DomainError("meanings: a code is given to two values; give each its own.")
    return MappingProxyType(meanings)


def _named(where: str, declared: object) -> Named:
    if isinstance(declared, str) or (isinstance(declared, Mapping) and not set(declared) & {*KEYS}):
        declared = {"title": declared}
    if not isinstance(declared, Mapping) or set(declared) - {"title", "description", "code"}:
        raise DomainError(
            f"{where}{kind_of(declared)} is neither a title nor a table with code, title and description."
        )
    code = declared.get("code", "")
    if code != "" and not (isinstance(code, str) and _CODE.fullmatch(code)):
        raise DomainError(
            f"{where}the code {named(code)} must be letters, digits, _, @, $ and -, at most 64; rename it."
        )
    parts = {part: _text(f"{where}{part}", declared.get(part, "")) for part in ("title", "description")}
    return Named(parts["title"], parts["description"], code)


def _text(what: str, given: object) -> Mapping[str, str]:
    texts = {"": given} if isinstance(given, str) else given
    if not isinstance(texts, Mapping):
        raise DomainError(f"{what}={named(given)} is not a text; write a text, or {{language: text}}.")
    for language, text in texts.items():
        if language != "" and not (isinstance(language, str) and _LANGUAGE.fullmatch(language)):
            raise DomainError(f"{what}: a key is not the code of a language; write one such as 'en' or 'de'.")
        if not isinstance(text, str) or len(text) > _MOST:
            raise DomainError(f"{what} holds something that is not a text, or too long; shorten it.")
    return MappingProxyType({language: text for language, text in texts.items() if text})


def _plain(text: Mapping[str, str]) -> Any:
    return text[""] if set(text) == {""} else dict(text)


def interval_labels(edges: Sequence[float]) -> tuple[str, ...]:
    """Labels such as `[0, 10)` of the intervals between edges, the last closed on both sides."""
    last = len(edges) - 2
    return tuple(f"[{a:.15g}, {b:.15g}{']' if i == last else ')'}" for i, (a, b) in enumerate(pairwise(edges)))


def listed(given: Any) -> Any:
    """The plain values of an array, a column or a category type; whatever is none of these, as it is.

    Example:
        >>> listed(np.linspace(0, 1, 3)), listed(("a", "b"))
        ([0.0, 0.5, 1.0], ('a', 'b'))
    """
    for name in ("tolist", "to_list", "to_pylist"):
        if callable(read := getattr(given, name, None)) and not isinstance(given, np.generic | type):
            return read()
    categories = getattr(given, "categories", None)  # of pandas' CategoricalDtype, Polars' Enum
    return given if categories is None else listed(categories)


def plain(value: Any) -> Any:
    """A number, text or truth value of NumPy as Python's own."""
    return value.item() if isinstance(value, np.generic) and not isinstance(value, np.datetime64) else value
