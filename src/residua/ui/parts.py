"""The parts of a form, and back: the settings of one [domain.NAME] table, and of one [[workload]] entry.

Every declaration that `residua.domain.domain` reads has a form. The usual kinds have fields; of the others, and of what
fields do not hold (titles, codes, meanings, expressions), the form shows the TOML. An entry has a weight and a wish.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from residua.errors import ResiduaError, SpecError
from residua.ui.typed import alike, day, is_lines, joined, number, rest_of, rest_text, texts, whole, written

ALONG = ("prefixes", "ranges", "hierarchy")
WISHES = ("stddev", "variance", "margin")
_POLICIES = ("unknown", "missing")
_FIELDS: dict[str, tuple[str, ...]] = {
    "values": ("values",),
    "range": ("low", "high"),
    "bins": ("edges", "labels"),
    "dates": ("first", "last", "unit"),
    "codes": ("size",),
}


def form_of_attribute(name: str, settings: object) -> dict[str, Any]:
    """The form of an attribute; its own TOML where fields would lose something."""
    declared: Any = {"values": settings} if isinstance(settings, list) else settings
    if not isinstance(declared, Mapping):
        raise SpecError(f"attribute {name!r} is declared as {declared!r}; use a table such as values = […].")
    try:
        form = _attribute_fields(name, declared)
        if form is not None and alike(settings_of_attribute(form)[1], declared):
            return form
    except (ResiduaError, TypeError, AttributeError):  # something that no field takes
        pass
    return {"name": name, "kind": "other", "rest": rest_text(declared)}


def settings_of_attribute(form: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The name and the settings of a form.

    Raises:
        SpecError: a field that does not hold what it should.
    """
    name = form.get("name")
    if not isinstance(name, str) or not name.strip():
        raise SpecError("an attribute has no name; write one.")
    where = f"attribute {name!r}"
    rest = rest_of(where, form.get("rest", ""))
    kind = form.get("kind")
    if kind == "other":
        return name, rest
    read = _READ.get(str(kind))
    if read is None:
        raise SpecError(f"{where}: {kind!r} is no kind of attribute; reload the page.")
    settings = read(where, form)
    settings |= {policy: form[policy] for policy in _POLICIES if form.get(policy)}
    if levels := _levels(where, form):
        settings["levels"] = levels
    return name, joined(where, settings, rest)


def _attribute_fields(name: str, declared: Mapping[str, Any]) -> dict[str, Any] | None:
    """The form with fields; None for a kind that has none. Whether it is right is checked by reading it back."""
    kind = next((kind for kind, fields in _FIELDS.items() if fields[0] in declared), None)
    if kind is None or (kind == "values" and not isinstance(declared["values"], list)):
        return None
    held = {*_FIELDS[kind], *_POLICIES, "levels"}
    form: dict[str, Any] = {"name": name, "kind": kind}
    for field in _FIELDS[kind]:
        value = declared.get(field, [] if field in ("edges", "labels") else "")
        form[field] = [written(one) for one in value] if isinstance(value, list) else written(value)
    if kind == "values":
        values = declared["values"]
        form["type"] = {bool: "truth", int: "number"}.get(type(values[0]) if values else str, "text")
    if kind == "dates":
        form["quoted"] = isinstance(declared["first"], str)  # TOML takes a date or its text
    for lines in ("values", "labels"):
        if not is_lines(form.get(lines, [])):
            return None
    form |= {policy: declared.get(policy, "") for policy in _POLICIES}
    rest = {key: value for key, value in declared.items() if key not in held}
    levels = declared.get("levels", {})
    if kind == "dates" and isinstance(levels, list):
        form["units"] = levels
    elif isinstance(levels, Mapping) and not any(map(_not_simple, levels.values())):
        form["levels"] = [_form_of_level(level, groups) for level, groups in levels.items()]
    else:
        rest["levels"] = levels
    return {**form, "rest": rest_text(rest)}


def _not_simple(groups: object) -> bool:
    """Whether a level is neither edges nor groups of members that stand in lines."""
    if isinstance(groups, list):
        return False
    if not isinstance(groups, Mapping):
        return True
    if "edges" in groups:
        return not is_lines(groups.get("labels", []))
    return not (
        is_lines(list(groups))
        and all(isinstance(members, list) and is_lines(list(map(written, members))) for members in groups.values())
    )


def _form_of_level(name: str, groups: Any) -> dict[str, Any]:
    if isinstance(groups, list):
        return {"name": name, "by": "edges", "edges": [written(edge) for edge in groups], "labels": []}
    if "edges" in groups:
        edges = [written(edge) for edge in groups["edges"]]
        return {"name": name, "by": "edges", "edges": edges, "labels": groups.get("labels", [])}
    return {
        "name": name,
        "by": "groups",
        "groups": [[group, [written(member) for member in members]] for group, members in groups.items()],
    }


def _levels(where: str, form: Mapping[str, Any]) -> Any:
    if form["kind"] == "dates" and form.get("units"):
        return texts(f"{where}: levels", form["units"])
    levels: dict[str, Any] = {}
    for level in form.get("levels", []):
        name = level.get("name")
        if not isinstance(name, str) or not name.strip() or name in levels:
            raise SpecError(f"{where}: each level needs a name of its own; write it.")
        here = f"{where}, level {name!r}"
        if level.get("by") == "edges":
            edges = [number(here, edge) for edge in texts(here, level.get("edges"))]
            labels = texts(here, level.get("labels", []))
            levels[name] = {"edges": edges, "labels": labels} if labels else edges
        else:
            levels[name] = _groups(here, form, level.get("groups"))
    return levels


def _groups(where: str, form: Mapping[str, Any], groups: Any) -> dict[str, list[Any]]:
    numbers = form["kind"] in ("range", "codes") or (form["kind"] == "values" and form.get("type") == "number")
    listed: dict[str, list[Any]] = {}
    for group, members in groups if isinstance(groups, list) else ():
        if group in listed:
            raise SpecError(f"{where}: the group {group!r} is listed twice; list it once.")
        listed[str(group)] = [
            int(one) if numbers and one.lstrip("+-").isdigit() else one for one in texts(where, members)
        ]
    if not listed:
        raise SpecError(f"{where} has no groups; write each on a line, and its members below it, indented.")
    return listed


def _values(where: str, form: Mapping[str, Any]) -> dict[str, Any]:
    listed = texts(f"{where}: values", form.get("values"))
    if form.get("type") == "number":
        return {"values": [whole(where, one) for one in listed]}
    if form.get("type") == "truth":
        if not set(listed) <= {"true", "false"}:
            raise SpecError(f"{where}: values must be true and false; correct them, or choose text.")
        return {"values": [one == "true" for one in listed]}
    return {"values": listed}


def _range(where: str, form: Mapping[str, Any]) -> dict[str, Any]:
    return {key: whole(f"{where}, {key}", form.get(key)) for key in ("low", "high")}


def _bins(where: str, form: Mapping[str, Any]) -> dict[str, Any]:
    edges = [number(f"{where}, edges", one) for one in texts(f"{where}: edges", form.get("edges"))]
    labels = texts(f"{where}: labels", form.get("labels", []))
    return {"edges": edges, **({"labels": labels} if labels else {})}


def _dates(where: str, form: Mapping[str, Any]) -> dict[str, Any]:
    period: dict[str, Any] = {key: day(f"{where}, {key}", form.get(key)) for key in ("first", "last")}
    if form.get("quoted"):
        period = {key: one.isoformat() for key, one in period.items()}
    return period | ({"unit": form["unit"]} if form.get("unit") else {})


def _codes(where: str, form: Mapping[str, Any]) -> dict[str, Any]:
    return {"size": whole(f"{where}, size", form.get("size"))}


_READ: dict[str, Callable[[str, Mapping[str, Any]], dict[str, Any]]] = {
    "values": _values,
    "range": _range,
    "bins": _bins,
    "dates": _dates,
    "codes": _codes,
}


def form_of_table(settings: object) -> dict[str, Any]:
    """The form of an entry; its own TOML where fields would lose something."""
    if not isinstance(settings, Mapping):
        raise SpecError(f"[[workload]] is {settings!r}; write it as a table, such as ways = [1, 2].")
    declared = dict(settings)
    if isinstance(declared.get("ways"), int) and not isinstance(declared["ways"], bool):
        declared["ways"] = [declared["ways"]]  # the same thing
    try:
        form = _entry_fields(declared)
        if form is not None and alike(settings_of_table(form), declared):
            return form
    except (ResiduaError, TypeError, AttributeError):  # something that no field takes
        pass
    wish = _wish_fields(declared)
    if wish is None:
        return {"kind": "other", "weight": "", **_no_wish(), "rest": rest_text(declared)}
    rest = {key: value for key, value in declared.items() if key not in {*WISHES, "confidence"}}
    return {"kind": "other", "weight": "", **wish, "rest": rest_text(rest)}


def settings_of_table(form: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a form.

    Raises:
        SpecError: a field that does not hold what it should.
    """
    where = "[[workload]]"
    rest = rest_of(where, form.get("rest", ""))
    settings: dict[str, Any] = {}
    kind = form.get("kind")
    if kind == "ways":
        settings["ways"] = [whole("the number of attributes", one) for one in texts("ways", form.get("ways"))]
        if form.get("max_cells"):
            settings["max_cells"] = whole("the most cells", form["max_cells"])
    elif kind == "sets":
        given = form.get("sets")
        settings["sets"] = [texts("a table", one) for one in (given if isinstance(given, list) else [])]
        if not settings["sets"]:
            raise SpecError("no table is listed; add one, or remove the entry.")
    elif kind == "small":
        settings["max_cells"] = whole("the most cells", form.get("max_cells"))
    elif kind == "queries":
        settings["queries"] = _queries(form.get("queries"))
    elif kind in ALONG:
        settings |= _along(str(kind), form)
    elif kind == "product":
        settings |= _product(form)
    elif kind != "other":
        raise SpecError(f"{kind!r} is no kind of entry; reload the page.")
    if form.get("weight"):
        settings["weight"] = _weight(form["weight"])
    return joined(where, settings | _wish(form), rest)


def has_wish(settings: Mapping[str, Any]) -> bool:
    """Whether an entry says how accurate it must be."""
    return any(key in settings for key in WISHES)


def _entry_fields(declared: Mapping[str, Any]) -> dict[str, Any] | None:
    along = next((key for key in ALONG if key in declared), None)
    wish = _wish_fields(declared)
    if wish is None:
        return None
    form: dict[str, Any] = {"weight": written(declared.get("weight", "")), **wish, "rest": ""}
    if along is not None:
        form |= {"kind": along, "along": declared[along], "by": declared.get("by", [])}
        if along == "ranges":
            form["listed"] = [[written(end) for end in pair] for pair in declared.get("listed", [])]
            form["numbers"] = all(type(end) is int for pair in declared.get("listed", []) for end in pair)
    elif "product" in declared:
        ways = [written(one) for one in declared.get("ways", [])]
        form |= {"kind": "product", "product": [list(pair) for pair in declared["product"].items()], "ways": ways}
    elif "queries" in declared:
        asked = declared["queries"]
        pairs = asked.items() if isinstance(asked, Mapping) else (("", one) for one in asked)
        form |= {"kind": "queries", "queries": [list(pair) for pair in pairs]}
    elif "sets" in declared:
        form |= {"kind": "sets", "sets": declared["sets"]}
    elif "ways" in declared:
        ways = [written(one) for one in declared["ways"]]
        form |= {"kind": "ways", "ways": ways, "max_cells": written(declared.get("max_cells", ""))}
    elif "max_cells" in declared:
        form |= {"kind": "small", "max_cells": written(declared["max_cells"])}
    else:
        return None
    return form


def _no_wish() -> dict[str, str]:
    return {"wish": "", "amount": "", "confidence": ""}


def _wish_fields(declared: Mapping[str, Any]) -> dict[str, str] | None:
    """The fields of a wish; None where two are written, which a form cannot hold."""
    wishes = [key for key in WISHES if key in declared]
    if len(wishes) > 1 or ("confidence" in declared and wishes != ["margin"]):
        return None
    if not wishes:
        return _no_wish()
    return {
        "wish": wishes[0],
        "amount": written(declared[wishes[0]]),
        "confidence": written(declared.get("confidence", "")),
    }


def _wish(form: Mapping[str, Any]) -> dict[str, Any]:
    wish = form.get("wish")
    if not wish:
        return {}
    if wish not in WISHES:
        raise SpecError(f"{wish!r} is no wish; reload the page.")
    asked: dict[str, Any] = {wish: number("the wish", form.get("amount"))}
    if wish == "margin" and form.get("confidence"):
        asked["confidence"] = number("the confidence", form["confidence"])
    return asked


def _weight(text: object) -> int | float | str:
    try:
        return number("weight", text)
    except SpecError:
        return str(text)  # "1/cells": the specification's reader judges it


def _queries(pairs: Any) -> list[str] | dict[str, str]:
    listed = [(str(label), str(sql)) for label, sql in (pairs if isinstance(pairs, list) else [])]
    if not listed:
        raise SpecError("no condition is listed; add one, or remove the entry.")
    if not any(label for label, _ in listed):
        return [sql for _, sql in listed]
    named = {label or sql: sql for label, sql in listed}
    if len(named) < len(listed):
        raise SpecError("two conditions have the same label; give each its own.")
    return named


def _along(kind: str, form: Mapping[str, Any]) -> dict[str, Any]:
    attribute = form.get("along")
    if not isinstance(attribute, str) or not attribute:
        raise SpecError("choose the attribute of the entry.")
    settings: dict[str, Any] = {kind: attribute}
    if form.get("by"):
        settings["by"] = texts("by", form["by"])
    if kind == "ranges" and form.get("listed"):
        read = whole if form.get("numbers") else (lambda where, text: text)
        settings["listed"] = [[read("a range", end) for end in texts("a range", pair)] for pair in form["listed"]]
    return settings


def _product(form: Mapping[str, Any]) -> dict[str, Any]:
    pairs = [texts("a factor", pair) for pair in form.get("product") or []]
    settings: dict[str, Any] = {"product": {attribute: how for attribute, how in pairs if attribute}}
    if not settings["product"]:
        raise SpecError("choose the attributes that are crossed, and how each is counted.")
    if len(settings["product"]) < len(pairs):
        raise SpecError("an attribute is left open or chosen twice among those that are crossed; correct it.")
    if form.get("ways"):
        settings["ways"] = [whole("the number of attributes", one) for one in texts("ways", form["ways"])]
    return settings
