"""A whole specification as a form, and back: `content_of(form_of(content), kept_of(content))` is the content.

The page edits attributes, what is asked, the budget and the objective. What it must not name stays with the server:
where data, ledger and session lie, and named plans. So a page can neither read data nor say where data is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from residua.cli.objectives import OBJECTIVES, SPENDING, section
from residua.errors import SpecError
from residua.ui.parts import form_of_attribute, form_of_table, has_wish, settings_of_attribute, settings_of_table
from residua.ui.typed import Field, filled, number, read_fields, rest_of, rest_text, whole, with_rest, written

KEPT = ("source", "ledger", "session", "plan", "facts", "report")
_LEAST = "least"
_RULES = "impossible"
_CURRENCIES = {"rho": ("rho",), "mu": ("mu",), "approx": ("epsilon", "delta"), "pure": ("epsilon",)}
_NUMBERS = {"p": Field(number, optional=True), "count": Field(whole, optional=True)}  # of objectives
MOST_PARTS = 2_000  # attributes, or entries


def kept_of(content: Mapping[str, Any]) -> dict[str, Any]:
    """What the page never sees."""
    return {name: content[name] for name in KEPT if name in content}


def form_of(content: Mapping[str, Any]) -> dict[str, Any]:
    """The form of a specification's tables.

    Raises:
        SpecError: a section that is something else than a table.
    """
    unknown = sorted(set(content) - {"domain", "workload", "privacy", "objective"} - set(KEPT))
    if unknown:
        raise SpecError(f"the specification has an unknown section {unknown[0]!r}; remove or correct it.")
    domain, tables = dict(section(content, "domain")), content.get("workload", [])
    if not isinstance(tables, list):
        raise SpecError("workload is not a list of tables; write [[workload]].")
    rules = domain.pop(_RULES) if isinstance(domain.get(_RULES), list) else None
    return {
        "attributes": [form_of_attribute(name, settings) for name, settings in domain.items()],
        "rules": "" if rules is None else rest_text({_RULES: rules}),
        "tables": [form_of_table(settings) for settings in tables],
        "privacy": _privacy_form(section(content, "privacy"), has_person(content)),
        "objective": _objective_form(section(content, "objective")),
    }


def content_of(form: Mapping[str, Any], kept: Mapping[str, Any]) -> dict[str, Any]:
    """The tables of a specification, as a form and what was kept say them.

    Raises:
        SpecError: a field that does not hold what it should.
    """
    attributes, tables = parts_of(form, "attributes"), parts_of(form, "tables")
    domain: dict[str, Any] = {}
    for one in attributes:
        name, settings = settings_of_attribute(one)
        if name in domain:
            raise SpecError(f"two attributes are called {name!r}; rename one.")
        domain[name] = settings
    rules = rest_of("rules", form.get("rules", ""))
    if set(rules) - {_RULES}:
        raise SpecError("the rules hold something else than [[impossible]] tables; remove it.")
    domain |= rules
    workload = [settings_of_table(one) for one in tables]
    privacy = _privacy(form.get("privacy", {}))
    objective = _objective(form.get("objective", {}), wishes=any(map(has_wish, workload)))
    content = {**kept, "privacy": privacy, "objective": objective, "workload": workload, "domain": domain}
    return {name: value for name, value in content.items() if value}


def has_person(content: Mapping[str, Any]) -> bool:
    """Whether the source says whose each record is."""
    source = content.get("source", {})
    return isinstance(source, Mapping) and source.get("person") is not None


def parts_of(form: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """The attributes or the entries of a form.

    Raises:
        SpecError: there is no list of them, or too long a one.
    """
    parts = form.get(name)
    if not isinstance(parts, list) or not all(isinstance(one, Mapping) for one in parts):
        raise SpecError(f"the form has no list of {name}; reload the page.")
    if len(parts) > MOST_PARTS:
        raise SpecError(f"the form has {len(parts):,} {name}, more than {MOST_PARTS:,}; use the command instead.")
    return parts


def _privacy_form(settings: Mapping[str, Any], person: bool) -> dict[str, Any]:
    given = {key for key in SPENDING if key in settings}
    held = {"records", "replace", *given}
    form: dict[str, Any] = {"by": "wishes", "currency": "rho", "value": "", "delta": ""}
    currency = next((name for name, keys in _CURRENCIES.items() if given == set(keys)), None)
    if currency is None:  # none, or a mistake of the file, shown as it is
        held -= given
    elif currency == "pure" and settings["epsilon"] == _LEAST:
        form["currency"] = currency
    else:
        value = settings[_CURRENCIES[currency][0]]
        form = {"by": "budget", "currency": currency, "value": written(value)}
        form["delta"] = written(settings.get("delta", ""))
    unit = "person" if person else "replace" if settings.get("replace") is True else "records"
    if unit != "replace":
        held -= {"replace"}
    rest = {key: value for key, value in settings.items() if key not in held}
    return {**form, "unit": unit, "records": written(settings.get("records", "")), "rest": rest_text(rest)}


def _privacy(form: Any) -> dict[str, Any]:
    if not isinstance(form, Mapping):
        raise SpecError("the form has no budget; reload the page.")
    settings: dict[str, Any] = {}
    currency = form.get("currency")
    if form.get("by") == "wishes":
        settings |= {"epsilon": _LEAST} if currency == "pure" else {}
    elif str(currency) in _CURRENCIES:
        fields = {key: Field(number, name=key if key == "delta" else "value") for key in _CURRENCIES[str(currency)]}
        settings = read_fields("the budget", fields, form)
    else:
        raise SpecError(f"{currency!r} is no currency of budgets; reload the page.")
    if form.get("records"):
        settings["records"] = whole("the records of one person", form["records"])
    if form.get("unit") == "replace":
        settings["replace"] = True
    return with_rest("[privacy]", settings, form)


def _objective_form(settings: Mapping[str, Any]) -> dict[str, Any]:
    minimise = settings.get("minimise", "")
    known = minimise in list(OBJECTIVES)  # whatever the file says, a list perhaps
    held = {"minimise", *_NUMBERS} if known else set(_NUMBERS)
    rest = {key: value for key, value in settings.items() if key not in held}
    return {"minimise": minimise if known else "", **filled(_NUMBERS, settings), "rest": rest_text(rest)}


def _objective(form: Any, *, wishes: bool) -> dict[str, Any]:
    """The objective; wishes are one already, so that another is left out beside them."""
    if not isinstance(form, Mapping):
        raise SpecError("the form has no objective; reload the page.")
    settings: dict[str, Any] = {}
    minimise = form.get("minimise")
    if minimise and not (wishes and minimise != "max"):
        settings = {"minimise": str(minimise), **read_fields("[objective]", _NUMBERS, form)}
    return with_rest("[objective]", settings, form)
