"""The parts of a form, and back: the settings of one [domain.NAME] table, and of one [[workload]] entry.

Every declaration that `residua.domain.domain` reads has a form. The usual kinds have fields; of the others, and of what
fields do not hold (titles, codes, meanings, expressions), the form shows the TOML. An entry has a weight and a wish.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from residua.errors import ResiduaError, SpecError
from residua.ui import typed

WISHES = ("stddev", "variance", "margin")
_POLICIES = ("unknown", "missing")
# Kind → the settings that have fields; the first tells the kind.
_ATTRIBUTES: dict[str, dict[str, typed.Field]] = {
    "values": {"values": typed.Field(typed.texts, many=True)},
    "range": {"low": typed.Field(typed.whole, label="From"), "high": typed.Field(typed.whole, label="To")},
    "bins": {
        "edges": typed.Field(typed.listed(typed.number), many=True, label="Edges"),
        "labels": typed.Field(typed.texts, optional=True, many=True, label="Labels"),
    },
    "dates": {
        "first": typed.Field(typed.day, label="First day"),
        "last": typed.Field(typed.day, label="Last day"),
        "unit": typed.Field(typed.as_written, optional=True),
    },
    "codes": {"size": typed.Field(typed.whole, label="How many")},
}
_TYPES: dict[str, typed.Read] = {"number": typed.whole, "truth": typed.truth}  # of values that are not text


def form_of_attribute(name: str, settings: object) -> dict[str, Any]:
    """The form of an attribute; its own TOML where fields would lose something."""
    declared: Any = {"values": settings} if isinstance(settings, list) else settings
    if not isinstance(declared, Mapping):
        raise SpecError(f"attribute {name!r} is declared as {declared!r}; use a table such as values = […].")
    try:
        form = _attribute_form(name, declared)
        if form is not None and typed.alike(settings_of_attribute(form)[1], declared):
            return form
    except (ResiduaError, TypeError, AttributeError):  # something that no field takes
        pass
    return {"name": name, "kind": "other", "rest": typed.rest_text(declared)}


def settings_of_attribute(form: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The name and the settings of a form.

    Raises:
        SpecError: a field that does not hold what it should.
    """
    name, kind = form.get("name"), form.get("kind")
    if not isinstance(name, str) or not name.strip():
        raise SpecError("an attribute has no name; write one.")
    where = repr(name)
    if kind == "other":
        return name, typed.with_rest(where, {}, form)
    if str(kind) not in _ATTRIBUTES:
        raise SpecError(f"{where}: {kind!r} is no kind of attribute; reload the page.")
    settings = typed.read_fields(where, _ATTRIBUTES[str(kind)], form)
    if kind == "values" and not settings["values"]:
        raise SpecError(f"{where}: which values can it have? Write them, one per line.")
    read = _TYPES.get(str(form.get("type")))
    if kind == "values" and read is not None:
        settings["values"] = [read(where, one) for one in settings["values"]]
    if kind == "dates" and form.get("quoted"):
        settings |= {key: settings[key].isoformat() for key in ("first", "last")}
    settings |= {policy: form[policy] for policy in _POLICIES if form.get(policy)}
    if levels := _levels(where, form):
        settings["levels"] = levels
    return name, typed.with_rest(where, settings, form)


def _attribute_form(name: str, declared: Mapping[str, Any]) -> dict[str, Any] | None:
    """The form with fields; None for a kind that has none. Whether it is right is checked by reading it back."""
    kind = next((kind for kind, fields in _ATTRIBUTES.items() if next(iter(fields)) in declared), None)
    if kind is None or (kind == "values" and not isinstance(declared["values"], list)):
        return None
    form: dict[str, Any] = {"name": name, "kind": kind, **typed.filled(_ATTRIBUTES[kind], declared)}
    if kind == "values":
        values = declared["values"]
        form["type"] = {bool: "truth", int: "number"}.get(type(values[0]) if values else str, "text")
    if kind == "dates":
        form["quoted"] = isinstance(declared["first"], str)  # TOML takes a date or its text
    if not all(typed.is_lines(form.get(lines, [])) for lines in ("values", "labels")):
        return None
    form |= {policy: declared.get(policy, "") for policy in _POLICIES}
    held = {*_ATTRIBUTES[kind], *_POLICIES, "levels"}
    rest = {key: value for key, value in declared.items() if key not in held}
    levels = declared.get("levels", {})
    if kind == "dates" and isinstance(levels, list):
        form["units"] = levels
    elif isinstance(levels, Mapping) and not any(map(_not_simple, levels.values())):
        form["levels"] = [_form_of_level(level, groups) for level, groups in levels.items()]
    else:
        rest["levels"] = levels
    return {**form, "rest": typed.rest_text(rest)}


# ---- levels: edges, or groups of members


_EDGES = _ATTRIBUTES["bins"]


def _not_simple(groups: object) -> bool:
    """Whether a level is neither edges nor groups of members that stand in lines."""
    if not isinstance(groups, Mapping):
        return not isinstance(groups, list)
    if "edges" in groups:
        return not typed.is_lines(groups.get("labels", []))
    return not (
        typed.is_lines(list(groups))
        and all(
            isinstance(members, list) and typed.is_lines(list(map(typed.written, members)))
            for members in groups.values()
        )
    )


def _form_of_level(name: str, groups: Any) -> dict[str, Any]:
    if isinstance(groups, list) or "edges" in groups:
        edges = {"edges": groups} if isinstance(groups, list) else groups
        return {"name": name, "by": "edges", **typed.filled(_EDGES, edges)}
    return {"name": name, "by": "groups", **typed.filled({"groups": typed.Field(typed.as_written)}, {"groups": groups})}


def _levels(where: str, form: Mapping[str, Any]) -> Any:
    if form["kind"] == "dates" and form.get("units"):
        return typed.texts(f"{where}: levels", form["units"])
    levels: dict[str, Any] = {}
    for level in form.get("levels", []):
        name = level.get("name")
        if not isinstance(name, str) or not name.strip() or name in levels:
            raise SpecError(f"{where}: each level needs a name of its own; write it.")
        here = f"{where}, level {name!r}"
        if level.get("by") == "edges":
            read = typed.read_fields(here, _EDGES, level)
            levels[name] = read if "labels" in read else read["edges"]
        else:
            levels[name] = _groups(here, form, level.get("groups"))
    return levels


def _groups(where: str, form: Mapping[str, Any], groups: Any) -> dict[str, list[Any]]:
    numbers = form["kind"] in ("range", "codes") or (form["kind"] == "values" and form.get("type") == "number")
    members_of: dict[str, list[Any]] = {}
    for group, members in groups if isinstance(groups, list) else ():
        if group in members_of:
            raise SpecError(f"{where}: the group {group!r} is listed twice; list it once.")
        members_of[str(group)] = [
            int(one) if numbers and one.lstrip("+-").isdigit() else one for one in typed.texts(where, members)
        ]
    if not members_of:
        raise SpecError(f"{where} has no groups; write each on a line, and its members below it, indented.")
    return members_of


# ---- entries


def _attribute(where: str, text: object) -> str:
    if not isinstance(text, str) or not text:
        raise SpecError("choose the attribute of the entry.")
    return text


def _sets(where: str, given: Any) -> list[list[str]]:
    if not isinstance(given, list) or not given:
        raise SpecError("no table is chosen yet; add one.")
    return [typed.texts("a table", one) for one in given]


def _pairs(where: str, given: Any) -> list[list[str]]:
    return [typed.texts("a range", pair) for pair in given]


def _queries(where: str, pairs: Any) -> list[str] | dict[str, str]:
    labelled = [(str(label), str(sql)) for label, sql in (pairs if isinstance(pairs, list) else [])]
    if not labelled:
        raise SpecError("no condition is listed; add one, or remove the entry.")
    if not any(label for label, _ in labelled):
        return [sql for _, sql in labelled]
    named = {label or sql: sql for label, sql in labelled}
    if len(named) < len(labelled):
        raise SpecError("two conditions have the same label; give each its own.")
    return named


def _crossed(where: str, given: Any) -> dict[str, str]:
    pairs = [typed.texts("a factor", pair) for pair in given or []]
    factors = {attribute: how for attribute, how in pairs if attribute}
    if not factors:
        raise SpecError("choose the attributes that are crossed, and how each is counted.")
    if len(factors) < len(pairs):
        raise SpecError("an attribute is left open or chosen twice among those that are crossed; correct it.")
    return factors


def _weight(where: str, text: object) -> int | float | str:
    try:
        return typed.number(where, text)
    except SpecError:
        return str(text)  # "1/cells": the specification's reader judges it


_ALONG, _BY = typed.Field(_attribute, name="along"), typed.Field(typed.texts, optional=True, many=True)
_FEW = "At most so many cells"
# Kind → the settings that have fields; the first tells the kind.
_ENTRIES: dict[str, dict[str, typed.Field]] = {
    "prefixes": {"prefixes": _ALONG, "by": _BY},
    "ranges": {"ranges": _ALONG, "by": _BY, "listed": typed.Field(_pairs, optional=True, many=True)},
    "hierarchy": {"hierarchy": _ALONG, "by": _BY},
    "product": {
        "product": typed.Field(_crossed),
        "ways": typed.Field(typed.listed(typed.whole), optional=True, many=True),
    },
    "queries": {"queries": typed.Field(_queries)},
    "sets": {"sets": typed.Field(_sets)},
    "ways": {
        "ways": typed.Field(typed.listed(typed.whole), many=True),
        "max_cells": typed.Field(typed.whole, optional=True, label=_FEW),
    },
    "small": {"max_cells": typed.Field(typed.whole, label=_FEW)},
    "other": {},
}
ALONG = ("prefixes", "ranges", "hierarchy")
_WEIGHT = {"weight": typed.Field(_weight, optional=True)}


def form_of_table(settings: object) -> dict[str, Any]:
    """The form of an entry; its own TOML where fields would lose something."""
    if not isinstance(settings, Mapping):
        raise SpecError(f"[[workload]] is {settings!r}; write it as a table, such as ways = [1, 2].")
    declared = dict(settings)
    if isinstance(declared.get("ways"), int) and not isinstance(declared["ways"], bool):
        declared["ways"] = [declared["ways"]]  # the same thing
    wish = _wish_fields(declared)
    try:
        form = _entry_form(declared) | (wish or {})
        if wish is not None and typed.alike(settings_of_table(form), declared):
            return form
    except (ResiduaError, TypeError, AttributeError):  # something that no field takes
        pass
    held = set() if wish is None else {*WISHES, "confidence"}
    rest = {key: value for key, value in declared.items() if key not in held}
    return {"kind": "other", "weight": "", **(wish or _wish_fields({}) or {}), "rest": typed.rest_text(rest)}


def settings_of_table(form: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a form.

    Raises:
        SpecError: a field that does not hold what it should.
    """
    kind = form.get("kind")
    if str(kind) not in _ENTRIES:
        raise SpecError(f"{kind!r} is no kind of entry; reload the page.")
    settings = typed.read_fields("a table", _ENTRIES[str(kind)] | _WEIGHT, form)
    if form.get("numbers") and "listed" in settings:
        settings["listed"] = [[typed.whole("a range", end) for end in pair] for pair in settings["listed"]]
    return typed.with_rest("a table", settings | _wish(form), form)


def has_wish(settings: Mapping[str, Any]) -> bool:
    """Whether an entry says how accurate it must be."""
    return any(key in settings for key in WISHES)


def _entry_form(declared: Mapping[str, Any]) -> dict[str, Any]:
    kind = next((kind for kind, fields in _ENTRIES.items() if fields and next(iter(fields)) in declared), "other")
    form = {"kind": kind, **typed.filled(_ENTRIES[kind] | _WEIGHT, declared), "rest": ""}
    if kind == "queries" and not isinstance(declared["queries"], Mapping):
        form["queries"] = [["", one] for one in declared["queries"]]
    if kind == "ranges":
        form["numbers"] = all(type(end) is int for pair in declared.get("listed", []) for end in pair)
    return form


def _wish_fields(declared: Mapping[str, Any]) -> dict[str, str] | None:
    """The fields of a wish; None where two are written, which a form cannot hold."""
    wishes = [key for key in WISHES if key in declared]
    if len(wishes) > 1 or ("confidence" in declared and wishes != ["margin"]):
        return None
    amount = declared[wishes[0]] if wishes else ""
    confidence = declared.get("confidence", "")
    return {"wish": "".join(wishes), "amount": typed.written(amount), "confidence": typed.written(confidence)}


def _wish(form: Mapping[str, Any]) -> dict[str, Any]:
    wish = form.get("wish")
    if not wish:
        return {}
    if wish not in WISHES:
        raise SpecError(f"{wish!r} is no wish; reload the page.")
    asked: dict[str, Any] = {wish: typed.number("how accurate", form.get("amount"))}
    if wish == "margin" and form.get("confidence"):
        asked["confidence"] = typed.number("the confidence", form["confidence"])
    return asked
