"""A release that is opened on the page: its tables as charts, numbers people quote, projections. It reads no data."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from residua.cli.opening import load_published
from residua.errors import PlanError, SpecError
from residua.projection import project
from residua.release import Release
from residua.report.odds import protection
from residua.report.pictures import picture
from residua.report.sections import in_plain_words
from residua.ui.preview import shown

_MOST_TABLES, _ROWS, _LARGEST = 20_000, 200, 2**20
_HEADS = {"estimate": "number", "stddev": "standard error", "lower": "from", "upper": "to"}
_QUOTES = ("share", "mean", "median")


@lru_cache(maxsize=1)
def _published(folder: str) -> Any:
    return load_published(Path(folder))


@lru_cache(maxsize=1)
def _projected(folder: str) -> Any:
    return project(_published(folder))


def released(request: Mapping[str, Any]) -> dict[str, Any]:
    """What there is to see of a release; `ask` names a table, or a number to be quoted."""
    folder, ask = request["folder"], request.get("ask") or {}
    published = _published(folder)
    if "names" in ask:
        return _table(_projected(folder) if ask.get("projected") is True else published, ask["names"])
    if "quote" in ask:
        return _quoted(published, ask)
    release = published if isinstance(published, Release) else published.release
    shield, domain = protection(release.planned, release.receipt), published.domain
    return {
        "title": Path(folder).name,
        "said": in_plain_words(shield),
        "guarantee": shield.guarantee,
        "tables": [{"names": list(names), "cells": int(domain.cells(names))} for names in release.sets[:_MOST_TABLES]],
        "attributes": list(domain.names),
        "projects": published is release,
        "advice": release.advice if published is release else "",
    }


def _names(published: Any, given: Any) -> list[str]:
    if not isinstance(given, list) or not all(name in published.domain.names for name in given):
        raise SpecError("this is no table of the release; choose one of the list.")
    return given


def _table(published: Any, names: Any) -> dict[str, Any]:
    names = _names(published, names)
    if published.domain.cells(names) > _LARGEST:
        raise PlanError(f"this table has more than {_LARGEST:,} numbers; use residua table.")
    table = published.table(names)
    return {"picture": shown(picture(table)), **_rows(table, names)}


def _quoted(published: Any, ask: Mapping[str, Any]) -> dict[str, Any]:
    [of], by = _names(published, [ask.get("of")]), _names(published, [name for name in [ask.get("by")] if name])
    if ask["quote"] not in _QUOTES:
        raise SpecError(f"a page quotes a {', a '.join(_QUOTES)}; choose one.")
    quoted = getattr(published, ask["quote"])([of] if ask["quote"] == "share" else of, by=by)
    return _rows(quoted, quoted.keys)


def _rows(table: Any, keys: Any) -> dict[str, Any]:
    """The first rows of a table: texts, and numbers that the page writes."""
    names = [*keys, *(name for name in _HEADS if name in table.columns)]
    columns = [table.columns[name][:_ROWS] for name in names]
    rows = [[float(one) if isinstance(one, float) else str(one) for one in row] for row in zip(*columns, strict=True)]
    said = {"decimals": table.decimals, "more": len(table) - len(rows), "note": table.note}
    return {"head": [_HEADS.get(name, name) for name in names], "rows": rows, **said}
