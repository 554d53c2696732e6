"""`residua table` and `residua answers`, of a release, of a projection or of estimates."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from residua.cli.asked_tables import no_intervals, split_queries
from residua.cli.made import bias_of, is_made, load_made
from residua.cli.show import ROWS_SHOWN, Form, err, out, print_csv, print_json, print_table, rows_of
from residua.cli.targets import USUAL_CONFIDENCE
from residua.errors import PlanError
from residua.estimation import EstimatedTable
from residua.published.table import Columns
from residua.release import Release


def print_marginal(
    folder: Path,
    attributes: Sequence[str],
    confidence: float | None,
    simultaneous: Any,
    form: Form,
    *,
    rounded: bool,
) -> None:
    """One table, with error bars if it is a release's."""
    if is_made(folder):
        no_intervals(confidence, simultaneous)
        projected = load_made(folder)
        names, queries = split_queries(projected.domain, attributes)
        if queries and rounded:
            raise PlanError("--rounded is for the cells of a table, not its prefixes, ranges or levels; leave one out.")
        table: Columns = projected.rounded(names) if rounded else projected.table(names, queries=queries)
    elif rounded:
        raise PlanError("--rounded is for projections and estimates; run residua project on the release first.")
    else:
        made = Release.load(folder)
        names, queries = split_queries(made.domain, attributes)
        table = made.table(names, queries=queries, confidence=_or_usual(confidence), simultaneous=simultaneous)
    biased = bias_of(folder) if is_made(folder) else None
    _print(table.flagged(suppress=form.suppress) if form.quality else table, form, biased=biased)


def print_answers(folder: Path, confidence: float | None, simultaneous: Any, form: Form) -> None:
    """The answers to everything that was asked."""
    if is_made(folder):
        no_intervals(confidence, simultaneous)
        _print(load_made(folder).answers(), form, biased=bias_of(folder))
        return
    _print(Release.load(folder).answers(confidence=_or_usual(confidence), simultaneous=simultaneous), form)


def _print(table: Columns, form: Form, *, biased: str | None = None) -> None:
    if form.json:
        told = {"title": getattr(table, "title", "") or " × ".join(table.keys), "note": table.note or biased or ""}
        print_json({**told, "rows": rows_of(table.columns)})
        return
    if form.csv:
        print_csv(table, form)
        return
    print_table(table, rows=None if form.everything else ROWS_SHOWN)
    if biased is not None:
        accuracy = f"{table.accuracy}; " if isinstance(table, EstimatedTable) and table.accuracy else ""
        err.print(f"({accuracy}{biased})")


def _or_usual(confidence: float | None) -> float:
    return 0.95 if confidence is None else confidence


def print_count(folder: Path, condition: str | None, confidence: float | None, *, as_json: bool) -> None:
    """One count; of all records without a condition."""
    asked = condition or None
    title = condition or "(total)"
    if is_made(folder):
        no_intervals(confidence)
        number = load_made(folder).count(asked)
        if as_json:
            print_json({"count": title, "estimate": number})
            return
        out.print(f"{title}: {number:,.1f}")
        err.print(f"({bias_of(folder)})")
        return
    level = USUAL_CONFIDENCE if confidence is None else confidence
    found = Release.load(folder).count(asked, confidence=level)
    if as_json:
        print_json({"count": title, **vars(found), "confidence": level})
        return
    interval = f"; {100 * level:.10g} % interval: {found.lower:,.1f} to {found.upper:,.1f}"
    held = interval if found.lower == found.lower else "; no interval: the release is biased"  # NaN
    out.print(f"{title}: {found.estimate:,.1f} (standard deviation {found.stddev:,.1f}{held})")
