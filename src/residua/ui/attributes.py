"""Attributes as forms: the settings of one [domain.NAME] table, and back.

Every declaration that `residua.domain.domain` reads has a form. The usual kinds have fields; of the others, and of what
fields do not hold (titles, codes, meanings, expressions), the form shows the TOML.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from residua.errors import ResiduaError, SpecError
from residua.ui.typed import day, is_lines, joined, number, rest_of, rest_text, same, texts, whole, written

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
        form = _with_fields(name, declared)
        if form is not None and same(_sorted(settings_of_attribute(form)[1]), _sorted(declared)):
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
    levels = _levels(where, form)
    if levels:
        settings["levels"] = levels
    return name, joined(where, settings, rest)


def _with_fields(name: str, declared: Mapping[str, Any]) -> dict[str, Any] | None:
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
    found: dict[str, Any] = {}
    for level in form.get("levels", []):
        name = level.get("name")
        if not isinstance(name, str) or not name.strip() or name in found:
            raise SpecError(f"{where}: each level needs a name of its own; write it.")
        here = f"{where}, level {name!r}"
        if level.get("by") == "edges":
            edges = [number(here, edge) for edge in texts(here, level.get("edges"))]
            labels = texts(here, level.get("labels", []))
            found[name] = {"edges": edges, "labels": labels} if labels else edges
        else:
            found[name] = _groups(here, form, level.get("groups"))
    return found


def _groups(where: str, form: Mapping[str, Any], groups: Any) -> dict[str, list[Any]]:
    numbers = form["kind"] in ("range", "codes") or (form["kind"] == "values" and form.get("type") == "number")
    found: dict[str, list[Any]] = {}
    for group, members in groups if isinstance(groups, list) else ():
        if group in found:
            raise SpecError(f"{where}: the group {group!r} is listed twice; list it once.")
        listed = texts(where, members)
        found[str(group)] = [int(one) if numbers and one.lstrip("+-").isdigit() else one for one in listed]
    if not found:
        raise SpecError(f"{where} has no groups; write each on a line, and its members below it, indented.")
    return found


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


def _sorted(settings: Mapping[str, Any]) -> dict[str, Any]:
    """In the order of their keys, which means nothing within one attribute."""
    return {key: settings[key] for key in sorted(settings)}


_READ: dict[str, Callable[[str, Mapping[str, Any]], dict[str, Any]]] = {
    "values": _values,
    "range": _range,
    "bins": _bins,
    "dates": _dates,
    "codes": _codes,
}
