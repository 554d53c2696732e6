"""Domains as TOML: one table per attribute, whose keys say which kind it is."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import tomli_w

from residua.domain.attributes import Anonymous, Attribute, Bins, Categories, Integers
from residua.domain.code_lists import CodeList
from residua.domain.dates import Dates
from residua.domain.domain import Domain
from residua.domain.value_files import values_of_settings
from residua.domain.words import KEYS, words_of_settings
from residua.errors import DomainError, FileError
from residua.files import MOST_PLAN, read_regular, write_atomically

_READERS: dict[frozenset[str], Callable[..., Attribute]] = {
    frozenset({"values"}): lambda values, **policy: Categories(values, **policy),
    frozenset({"low", "high"}): lambda low, high, **policy: Integers(low, high, **policy),
    frozenset({"edges"}): lambda edges, **policy: Bins(edges, **policy),
    frozenset({"edges", "labels"}): lambda edges, labels, **policy: Bins(edges, labels, **policy),
    frozenset({"intervals"}): lambda intervals, **policy: Bins.of_intervals(intervals, **policy),
    frozenset({"intervals", "labels"}): lambda intervals, labels, **policy: Bins.of_intervals(
        intervals, labels, **policy
    ),
    frozenset({"first", "last"}): lambda first, last, **policy: Dates(first, last, **policy),
    frozenset({"first", "last", "unit"}): lambda first, last, unit, **policy: Dates(first, last, unit, **policy),
    frozenset({"size"}): lambda size, **policy: Anonymous(size, **policy),
    frozenset({"codes"}): lambda codes, **policy: CodeList.of_settings(*codes, **policy),
}
_KINDS = (
    "values = […] (or a file), low and high, edges = […] (with labels), intervals = [[…]], first and last (with unit), "
    "codes = { file = …, levels = […] }, or size (and levels, title, description, code, meanings)"
)
_RULES = "impossible"


def domain_of_settings(settings: Mapping[str, Any], folder: Path = Path()) -> Domain:
    """The domain that plain values (from TOML or JSON) declare: name → settings, or name → list of labels.

    Files of values lie in `folder`, unless their paths are absolute.

    A list of tables under `impossible` ([[domain.impossible]] in TOML) declares structural zeros; anything else under
    that name is an attribute of that name.
    """
    if not isinstance(settings, Mapping):
        raise DomainError("the domain is not a table of attributes; write one [domain.NAME] table for each.")
    rules = settings.get(_RULES)
    if not (isinstance(rules, list) and rules and all(isinstance(rule, Mapping) for rule in rules)):
        rules = []
    declared = {name: value for name, value in settings.items() if not (rules and name == _RULES)}
    return Domain({name: _attribute_of_settings(name, value, folder) for name, value in declared.items()}, rules)


def settings_of_domain(domain: Domain) -> dict[str, Any]:
    """The domain as plain values that `domain_of_settings` reads."""
    settings: dict[str, Any] = {}
    for name, attribute in domain.attributes.items():
        policy = {key: value for key in ("unknown", "missing") if (value := getattr(attribute, key)) != "error"}
        own = attribute.level_settings() if attribute.hierarchy else {}
        levels = {"levels": own} if own else {}
        settings[name] = {**attribute.settings(), **policy, **levels, **attribute.words.settings()}
    if domain.impossible:
        settings[_RULES] = [rule.settings() for rule in domain.impossible]
    return settings


def read_domain(path: str | Path) -> Domain:
    """Reads a domain from a TOML file."""
    try:
        content = tomllib.loads(read_regular(Path(path), most=MOST_PLAN, follow=True).decode())
    except FileError as problem:
        raise FileError(str(problem).replace("cannot read ", "cannot read the domain file ", 1)) from None
    except (ValueError, RecursionError) as problem:  # nested too deep is no domain either
        raise FileError(f"the domain file {str(path)!r} is not TOML: {problem}.") from None
    return domain_of_settings(content.get("domain", content), Path(path).parent)


def write_domain(domain: Domain, path: str | Path) -> None:
    """Writes a domain to a TOML file, over one that holds a domain and nothing else, but over no other file."""
    content = tomli_w.dumps({"domain": settings_of_domain(domain)}).encode()
    write_atomically(Path(path), content, ours=lambda head: _only_domain(Path(path)))


def _only_domain(path: Path) -> bool:
    try:
        return set(tomllib.loads(path.read_text(encoding="utf-8"))) == {"domain"}
    except (OSError, ValueError, RecursionError):
        return False


def _attribute_of_settings(name: str, declared: object, folder: Path) -> Attribute | list[str]:
    if isinstance(declared, list):
        return declared
    if not isinstance(declared, Mapping):
        raise DomainError(f"attribute {name!r} is declared as {declared!r}; use a table with {_KINDS}.")
    settings = dict(declared)
    policy = {key: settings.pop(key) for key in ("unknown", "missing", "levels") if key in settings}
    words = {key: settings.pop(key) for key in KEYS if key in settings}
    reader = _READERS.get(frozenset(settings))
    if reader is None:
        raise DomainError(f"attribute {name!r} has the keys {sorted(settings)}; use {_KINDS}.")
    try:
        if "values" in settings:
            settings["values"] = values_of_settings(settings["values"], folder)
        if "codes" in settings:
            settings["codes"] = (settings["codes"], folder)
        made: Attribute = words_of_settings(reader(**settings, **policy), words)
        return made
    except DomainError as problem:
        raise DomainError(f"attribute {name!r}: {problem}") from None
