"""What is shown of a release, a projection or estimates: one table, one count, all answers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from residua.cli.opening import load_published
from residua.cli.options import OutputForm
from residua.cli.quoting import split_attribute
from residua.cli.show import err, out, print_json, print_published
from residua.errors import PlanError
from residua.plans.targets import USUAL_CONFIDENCE
from residua.release import Release


def print_marginal(folder: Path, attributes: Sequence[str], form: OutputForm, *, rounded: bool, **asked: Any) -> None:
    """One table, with error bars if it is a release's."""
    published, sure = opened(folder, **asked)
    if rounded and isinstance(published, Release):
        raise PlanError("--rounded is for projections and estimates; run residua project on the release first.")
    split = [split_attribute(published.domain, text) for text in attributes]
    names, queries = [name for name, _ in split], {name: rows for name, rows in split if rows is not None}
    if rounded and queries:
        raise PlanError("--rounded is for the cells of a table, not its prefixes, ranges or levels; leave one out.")
    table = published.rounded(names) if rounded else published.table(names, queries=queries, **sure)
    print_published(table, form, bias=_bias(published))


def print_answers(folder: Path, form: OutputForm, **asked: Any) -> None:
    """The answers to everything that was asked."""
    published, sure = opened(folder, **asked)
    print_published(published.answers(**sure), form, bias=_bias(published))


def print_count(folder: Path, condition: str | None, confidence: float | None, *, as_json: bool) -> None:
    """One count; of all records without a condition."""
    published, sure = opened(folder, confidence=confidence)
    title, counted = condition or "(total)", published.count(condition or None, **sure)
    facts = {**vars(counted), **sure} if sure else {"estimate": counted}
    if as_json:
        print_json({"count": title, **facts})
    elif not sure:
        out.print(f"{title}: {counted:,.1f}")
        err.print(f"({_bias(published)})")
    else:
        interval = f"; {100 * sure['confidence']:.10g} % interval: {counted.lower:,.1f} to {counted.upper:,.1f}"
        held = interval if counted.lower == counted.lower else "; no interval: the release is biased"  # NaN
        out.print(f"{title}: {counted.estimate:,.1f} (standard deviation {counted.stddev:,.1f}{held})")


def _bias(published: Any) -> str:
    """What is said below every table of a projection or of estimates; nothing of a release."""
    return getattr(published, "biased", "")


def opened(folder: Path, **asked: Any) -> tuple[Any, dict[str, Any]]:
    """What a folder holds, and how sure its intervals are to be: nothing where numbers have none.

    Raises:
        PlanError: a confidence where numbers are biased.
    """
    published = load_published(folder)
    if isinstance(published, Release):
        return published, asked | ({"confidence": USUAL_CONFIDENCE} if asked["confidence"] is None else {})
    if any(value is not None for value in asked.values()):
        raise PlanError("a projection is biased and has no intervals; ask the release for --confidence.")
    return published, {}
