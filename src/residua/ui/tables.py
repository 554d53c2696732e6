"""What is asked as forms: the settings of one [[workload]] entry, with its weight and its wish, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from residua.errors import ResiduaError, SpecError
from residua.ui.typed import joined, number, rest_of, rest_text, same, texts, whole, written

ALONG = ("prefixes", "ranges", "hierarchy")
WISHES = ("stddev", "variance", "margin")


def form_of_table(settings: object) -> dict[str, Any]:
    """The form of an entry; its own TOML where fields would lose something."""
    if not isinstance(settings, Mapping):
        raise SpecError(f"[[workload]] is {settings!r}; write it as a table, such as ways = [1, 2].")
    declared = dict(settings)
    if isinstance(declared.get("ways"), int) and not isinstance(declared["ways"], bool):
        declared["ways"] = [declared["ways"]]  # the same thing
    try:
        form = _with_fields(declared)
        if form is not None and same(_sorted(settings_of_table(form)), _sorted(declared)):
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


def _with_fields(declared: Mapping[str, Any]) -> dict[str, Any] | None:
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
    found: dict[str, Any] = {wish: number("the wish", form.get("amount"))}
    if wish == "margin" and form.get("confidence"):
        found["confidence"] = number("the confidence", form["confidence"])
    return found


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
    found: dict[str, Any] = {kind: attribute}
    if form.get("by"):
        found["by"] = texts("by", form["by"])
    if kind == "ranges" and form.get("listed"):
        read = whole if form.get("numbers") else (lambda where, text: text)
        found["listed"] = [[read("a range", end) for end in texts("a range", pair)] for pair in form["listed"]]
    return found


def _product(form: Mapping[str, Any]) -> dict[str, Any]:
    pairs = [texts("a factor", pair) for pair in form.get("product") or []]
    found: dict[str, Any] = {"product": {attribute: how for attribute, how in pairs if attribute}}
    if not found["product"]:
        raise SpecError("choose the attributes that are crossed, and how each is counted.")
    if len(found["product"]) < len(pairs):
        raise SpecError("an attribute is left open or chosen twice among those that are crossed; correct it.")
    if form.get("ways"):
        found["ways"] = [whole("the number of attributes", one) for one in texts("ways", form["ways"])]
    return found


def _sorted(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {key: settings[key] for key in sorted(settings)}
