"""A notebook of a plan: the specification as Python that runs, the plan, its errors, and what another budget gives."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from pprint import pformat
from typing import Any

import numpy as np

from residua.cli.spec import Spec
from residua.domain.domain import settings_of_domain
from residua.linalg.arrays import Floats
from residua.plans.objectives import TotalVariance
from residua.privacy import AddRemove, Guarantee
from residua.ui.parts import ALONG

_OPTIONS = ("unknown", "missing", "levels", "clipped", "measured_in", "largest")
_WORDS = ("title", "description", "code", "meanings")
_MAKE = {
    "values": ("rs.Categories", ("values",)),
    "low": ("rs.Integers", ("low", "high")),
    "edges": ("rs.Bins", ("edges", "labels")),
    "intervals": ("rs.Bins.of_intervals", ("intervals", "labels")),
    "first": ("rs.Dates", ("first", "last", "unit")),
    "size": ("rs.Anonymous", ("size",)),
}
_WIDTH = 110


def notebook(spec: Spec, workload: list[Mapping[str, Any]], title: str) -> bytes:
    """The notebook of a specification's plan, in version 4.5 of the format; it reads no data.

    Args:
        spec: the specification.
        workload: its [[workload]] entries, as they are written.
        title: what it is called.
    """
    cells = [{"id": f"cell-{i}", "metadata": {}, **cell} for i, cell in enumerate(_cells(spec, workload, title))]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    book = {
        "cells": cells,
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return (json.dumps(book, indent=1, ensure_ascii=False) + "\n").encode()


def _cells(spec: Spec, workload: list[Mapping[str, Any]], title: str) -> Iterator[dict[str, Any]]:
    about = "Expected errors and protection of a release, before any data is read. Made by the planner page of residua."
    yield _words(f"# {_plain(title)}\n\n{about}")
    yield _code("import residua as rs")
    yield _words("## What the data may hold\n\nFrom public knowledge, never from the data.")
    yield _code(f"{_domain(spec)}\ndomain")
    yield _words("## What is asked")
    yield _code(f"{_workload(spec, workload)}\nworkload")
    yield _words("## The plan\n\nThe best noise for the budget, or the smallest budget for the wishes.")
    yield _code(f"plan = {_plan(spec)}\nplan")
    yield _code("print(plan)")
    if spec.guarantee is not None:
        yield _words("## What if\n\nHalf of the budget: the standard errors of the first tables, as planned and then.")
        yield _code(
            f"half = {_plan(spec, halved(spec.guarantee))}\n"
            "[(plan.variances(workload, per='term') ** 0.5)[:10], (half.variances(workload, per='term') ** 0.5)[:10]]"
        )
    yield _words(
        "## To measure it\n\nWith the data and a ledger at hand; the ledger is debited before the data is read.\n\n"
        "```python\nledger = rs.Ledger('survey.ledger', plan.guarantee, unit=plan.unit)\n"
        "release = rs.measure(plan, 'survey.parquet', ledger=ledger)\nrelease.report('report.html')\n```"
    )


def _domain(spec: Spec) -> str:
    settings = settings_of_domain(spec.domain)
    rules = settings.pop("impossible", []) if spec.domain.impossible else []
    language = settings.pop("language") if spec.domain.language else ""
    lines = [f"    {name!r}: {_attribute(declared)},\n" for name, declared in settings.items()]
    tail = (f", impossible={_long(rules)}" if rules else "") + (f", language={language!r}" if language else "")
    return f"domain = rs.Domain({{\n{''.join(lines)}}}{tail})"


def _attribute(settings: Mapping[str, Any]) -> str:
    make, fields = next(call for key, call in _MAKE.items() if key in settings)
    if {"low", "unit"} <= settings.keys():
        make, fields = "rs.Amount", ("low", "high", "unit")
    given = [_long(settings[field]) for field in fields if field in settings]
    options = [f"{key}={_long(settings[key])}" for key in _OPTIONS if key in settings]
    words = [f"{key}={_long(settings[key])}" for key in _WORDS if key in settings]
    described = f".described({', '.join(words)})" if words else ""
    return f"{make}({', '.join([*given, *options])}){described}"


def _workload(spec: Spec, workload: list[Mapping[str, Any]]) -> str:
    # Beside queries, everything is listed one by one, as the specification's reader does it.
    listed = not spec.workload.tabular
    terms = [f"{_term(term)}.listed()" if listed and _is_product(term) else _term(term) for term in workload]
    whole = "(\n    " + "\n    + ".join(terms) + "\n)"
    if listed and not any("queries" in term for term in workload):
        whole = f"{whole}.listed()"
    return f"workload = {whole}"


def _is_product(term: Mapping[str, Any]) -> bool:
    return any(key in term for key in ("product", *ALONG))


def _term(term: Mapping[str, Any]) -> str:
    what = next((key for key in ("queries", "product", *ALONG) if key in term), "marginals")
    first = [_long(term[what])] if what != "marginals" else []
    named = [
        f"{key}={_long(term[key])}" for key in ("sets", "ways", "max_cells", "by", "listed", "weight") if key in term
    ]
    return f"rs.{what}({', '.join(['domain', *first, *named])})"


def _plan(spec: Spec, guarantee: Guarantee | None = None) -> str:
    parts = ["workload"]
    if spec.guarantee is not None:
        parts.append(f"rs.{guarantee or spec.guarantee!r}")
    if spec.targets is not None:
        parts.append(f"targets={_targets(spec.targets)}")
    elif spec.minimise not in (None, TotalVariance()):
        parts.append(f"minimise=rs.{spec.minimise!r}")
    if spec.unit != AddRemove():
        parts.append(f"unit=rs.{spec.unit!r}")
    if spec.least_epsilon:
        parts.append("noise='laplace'")
    if spec.tolerance is not None:
        parts.append(f"tolerance={spec.tolerance!r}")
    if spec.axis:
        parts.append("form=rs.Axis()")
    return f"rs.plan({', '.join(parts)})"


def halved(guarantee: Guarantee) -> Guarantee:
    """Half of a budget, in its own currency."""
    whole: Any = guarantee
    key = next(one.name for one in fields(whole) if one.name != "delta")
    half: Guarantee = replace(whole, **{key: getattr(whole, key) / 2})
    return half


def _targets(targets: Floats) -> str:
    """One number where all queries have the same target, else one for each, in runs."""
    runs = [(float(part[0]), len(part)) for part in np.split(targets, np.flatnonzero(np.diff(targets)) + 1)]
    if len(runs) == 1:
        return repr(runs[0][0])
    return f"[target for target, count in {_long(runs)} for _ in range(count)]"


def _long(value: Any) -> str:
    return pformat(value, width=_WIDTH, compact=True, sort_dicts=False)


def _words(text: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "source": text}


def _code(text: str) -> dict[str, Any]:
    return {"cell_type": "code", "execution_count": None, "outputs": [], "source": text}


def _plain(title: str) -> str:
    """A title that is one line, and no markup."""
    return "".join(char if char.isalnum() or char in " .,-_()" else " " for char in title).strip() or "Plan"
