"""Guarantees and units of protection as plain values, for files."""

from __future__ import annotations

from typing import Any

from residua.privacy import GDP, ZCDP, AddRemove, ApproxDP, Guarantee, PureDP, ReplaceOne, Unit

_GUARANTEES = {"zcdp": ZCDP, "gdp": GDP, "approx": ApproxDP, "pure": PureDP}


def guarantee_to_body(guarantee: Guarantee | None) -> dict[str, Any] | None:
    """A guarantee as plain values."""
    if guarantee is None:
        return None
    kind = next(kind for kind, cls in _GUARANTEES.items() if isinstance(guarantee, cls))
    return {"kind": kind, **vars(guarantee)}


def guarantee_of_body(body: dict[str, Any] | None) -> Guarantee | None:
    """The guarantee that plain values describe."""
    if body is None:
        return None
    parameters = {key: value for key, value in body.items() if key != "kind"}
    made: Guarantee = _GUARANTEES[body["kind"]](**parameters)
    return made


def unit_to_body(unit: Unit) -> dict[str, Any]:
    """A unit of protection as plain values."""
    return {"kind": "replace"} if isinstance(unit, ReplaceOne) else {"kind": "add-remove", **vars(unit)}


def unit_of_body(body: dict[str, Any]) -> Unit:
    """The unit of protection that plain values describe."""
    return ReplaceOne() if body["kind"] == "replace" else AddRemove(body["records"])
