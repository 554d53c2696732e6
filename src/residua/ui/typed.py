"""Values of TOML as the texts of a form, and back: nothing is lost on the way, or the text of TOML itself is shown.

A form holds texts and lists of texts. Whole numbers stay whole, floats stay floats, and whatever a form has no field
for is kept as TOML beside it (`rest`).
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import tomli_w

from residua.errors import SpecError

Read = Callable[[str, Any], Any]  # where, and what a field holds → the value
_WHOLE = re.compile(r"[+-]?\d{1,4000}")
_COMMA = re.compile(r"[+-]?\d*,\d+")  # 0,1 is a number to half of the world, 20,000 to the other
_GROUPED = re.compile(r"[1-9]\d{0,2}(?:([,. '\u00a0\u202f])\d{3})(?:\1\d{3})*")
_MOST_REST = 2**20


def whole(where: str, text: object) -> int:
    """A whole number.

    Raises:
        SpecError: the text is none.
    """
    if not isinstance(text, str) or not _WHOLE.fullmatch(text.strip()):
        raise SpecError(f"{where}: {_shown(text)} is not a whole number; write one.")
    return int(text)


def number(where: str, text: object) -> int | float:
    """A number, whole if it is written so.

    Raises:
        SpecError: the text is none.
    """
    text = str(text).strip()
    if _WHOLE.fullmatch(text):
        return int(text)
    if "," in text and _GROUPED.fullmatch(text):
        raise SpecError(
            f"{where}: {_shown(text)} can be read in two ways; write {text.replace(',', '')} or "
            f"{text.replace(',', '.', 1)}."
        )
    try:
        return float(text.replace(",", ".") if _COMMA.fullmatch(text) else text)
    except ValueError:
        raise SpecError(f"{where}: {_shown(text)} is not a number; write one.") from None


def size(where: str, text: object) -> int | float:
    """A number of people: like another number, but groups of three digits are thousands.

    Raises:
        SpecError: the text is none.

    Example:
        >>> size("people", "20,000"), size("people", "1 200 000")
        (20000, 1200000)
    """
    text = str(text).strip()
    return number(where, re.sub(r"\D", "", text) if _GROUPED.fullmatch(text) else text)


def day(where: str, text: object) -> date:
    """A date.

    Raises:
        SpecError: the text is none.
    """
    try:
        return date.fromisoformat(str(text).strip())
    except ValueError:
        raise SpecError(f"{where}: {_shown(text)} is not a date; write it as 2024-01-31.") from None


def texts(where: str, given: object) -> list[str]:
    """A list of texts.

    Raises:
        SpecError: it is something else.
    """
    if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
        raise SpecError(f"{where} is not a list of texts; reload the page.")
    return given


def truth(where: str, text: object) -> bool:
    """True or false.

    Raises:
        SpecError: the text is neither.
    """
    if text not in ("true", "false"):
        raise SpecError(f"{where}: {_shown(text)} is neither true nor false; correct it, or choose text.")
    return text == "true"


def listed(read: Read) -> Read:
    """What reads a list of texts, by what reads one."""
    return lambda where, given: [read(where, one) for one in texts(where, given)]


def as_written(where: str, text: object) -> Any:
    """What a field holds, whatever it is: the specification's reader judges it."""
    return text


@dataclass(frozen=True)
class Field:
    """A setting that has a field of its own.

    Args:
        read: what reads it.
        optional: whether it is left out where the field is empty.
        name: what the form calls it; as the setting is called, if left out.
        many: whether the field holds a list.
        label: what the page writes beside it.
    """

    read: Read
    optional: bool = False
    name: str = ""
    many: bool = False
    label: str = ""


def read_fields(where: str, fields: Mapping[str, Field], form: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that the fields of a form say."""
    given = {key: form.get(one.name or key) for key, one in fields.items()}
    return {
        key: one.read(f"{where}, {one.label or key}", given[key])
        for key, one in fields.items()
        if given[key] or not one.optional
    }


def filled(fields: Mapping[str, Field], settings: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a form that some settings make. Whether they are right is checked by reading them back."""
    return {one.name or key: _texts_of(settings.get(key, [] if one.many else "")) for key, one in fields.items()}


def _texts_of(value: Any) -> Any:
    """A value as a field holds it: a text, or a list of such; of a table, pairs."""
    if isinstance(value, Mapping):
        return [[key, _texts_of(one)] for key, one in value.items()]
    return [_texts_of(one) for one in value] if isinstance(value, list) else written(value)


def written(value: object) -> str:
    """A value of TOML as the text of a field."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, date) and not isinstance(value, datetime):
        return value.isoformat()
    return value if isinstance(value, str) else repr(value)


def rest_text(settings: Mapping[str, Any]) -> str:
    """Settings that a form has no field for, as TOML."""
    return tomli_w.dumps(dict(settings)) if settings else ""


def rest_of(where: str, text: object) -> dict[str, Any]:
    """What the text beside a form declares.

    Raises:
        SpecError: it is not TOML.
    """
    if not isinstance(text, str) or len(text) > _MOST_REST:
        raise SpecError(f"{where}: the further settings are not a text of moderate length; shorten them.")
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as problem:
        raise SpecError(f"{where}: the further settings are not TOML: {problem}; correct them.") from None


def with_rest(where: str, settings: dict[str, Any], form: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of fields and of the text beside them.

    Raises:
        SpecError: something is said in both.
    """
    rest = rest_of(where, form.get("rest", ""))
    twice = sorted(set(settings) & set(rest))
    if twice:
        raise SpecError(f"{where}: {twice[0]} is in a field and in the further settings; say it once.")
    return {**settings, **rest}


def same(one: object, other: object) -> bool:
    """Whether two values of TOML are the same, types included: 1 is not 1.0."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other


def alike(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether settings are the same, in whatever order of their keys, which means nothing there."""
    return same({key: one[key] for key in sorted(one)}, {key: other[key] for key in sorted(other)})


def is_lines(values: Sequence[object]) -> bool:
    """Whether texts can stand in a text area, one per line."""
    return all(isinstance(value, str) and value and value.splitlines() == [value] for value in values)


def _shown(text: object) -> str:
    return repr(text) if text != "" else "an empty field"
