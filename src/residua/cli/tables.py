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
from residua.language import numeral, say, speaking
from residua.plans.targets import USUAL_CONFIDENCE
from residua.release import Release, squares_folder, weighted
from residua.workload import queries


def print_marginal(folder: Path, attributes: Sequence[str], form: OutputForm, *, rounded: bool, **asked: Any) -> None:
    """One table, with error bars if it is a release's."""
    published, sure = opened(folder, rounded=rounded, **asked)
    split = [split_attribute(published.domain, text) for text in attributes]
    names, queries = [name for name, _ in split], {name: rows for name, rows in split if rows is not None}
    with speaking(form.language, published.domain):
        print_published(published.table(names, queries=queries, **sure), form, bias=say(published.biased))


def print_weighted(
    folder: Path,
    attributes: Sequence[str],
    form: OutputForm,
    strata: str | None,
    drawn: Sequence[str],
    confidence: float | None,
    **survey: Any,
) -> None:
    """One table of totals of the population, with sampling error; from squares of the weights, if they are there."""
    release, beside = Release.load(folder), squares_folder(folder)
    squares = Release.load(beside) if beside.is_dir() else None
    said = dict(map(_drawn, drawn))
    labels = release.domain[strata].labels if strata is not None and strata in release.domain else ()
    among = None if strata is None else {strata: {label: said.get(str(label), 0) for label in labels}}
    if said and strata is None:
        raise PlanError("--drawn is how many were drawn in each stratum; say by which attribute, with --strata.")
    totals = weighted(release, squares=squares, strata=among, **survey)
    table = totals.table(list(attributes), confidence=USUAL_CONFIDENCE if confidence is None else confidence)
    print_published(table, form)
    if not form.json:
        shares = 100 * table.columns["protection"]
        err.print(f"(privacy adds {shares.min():.3g} to {shares.max():.3g} % of the variance; the rest is sampling)")


def _drawn(text: str) -> tuple[str, int]:
    label, _, number = text.rpartition("=")
    if not label or not number.isdigit():
        raise PlanError(f"--drawn {text} is not a stratum and how many were drawn in it; write --drawn north=400.")
    return label, int(number)


def print_answers(folder: Path, form: OutputForm, **asked: Any) -> None:
    """The answers to everything that was asked."""
    published, sure = opened(folder, **asked)
    with speaking(form.language, published.domain):
        print_published(published.answers(**sure), form, bias=say(published.biased))


def print_count(folder: Path, condition: str | None, language: str | None, *, as_json: bool, **asked: Any) -> None:
    """One count; of all records without a condition."""
    published, sure = opened(folder, **asked)
    with speaking(language, published.domain):
        _print_count(published, condition, sure, as_json=as_json)


def _print_count(published: Any, condition: str | None, sure: dict[str, Any], *, as_json: bool) -> None:
    title = condition or "(total)"
    if condition and not published.biased:
        facts = vars(published.count(condition, **sure))
    else:
        asked = queries(published.domain, [condition]) if condition else None
        table = published.table([], **sure) if asked is None else published.answers(asked, **sure)
        facts = {name: float(table[name][0]) for name in table.columns if name not in table.keys}
    if as_json:
        print_json({"count": title, **facts, **sure})
        return
    level, ends = 100 * sure["confidence"], {name: facts[name] for name in ("lower", "upper")}
    held = say("{level:.10g} % interval: {lower:,.1f} to {upper:,.1f}", level=level, **ends)
    said = [say("standard deviation {stddev:,.1f}", stddev=facts["stddev"])] if "stddev" in facts else []
    said.append(held if facts["lower"] == facts["lower"] else say("no interval: the release is biased"))  # NaN
    number = numeral(f"{facts['estimate']:,.1f}")
    out.print(f"{title}: {number} ({'; '.join(said)})")
    if published.biased:
        err.print(f"({say(published.biased)})")


def opened(folder: Path, *, rounded: bool = False, **asked: Any) -> tuple[Any, dict[str, Any]]:
    """What a folder holds, in whole numbers if these are wanted, and how sure its intervals are to be.

    Raises:
        PlanError: intervals that hold together where numbers are biased.
    """
    published = load_published(folder, asked.pop("known", None))
    published = published.rounded() if rounded else published
    if published.biased and asked.pop("simultaneous", None) is not None:
        raise PlanError("intervals of biased numbers are each by itself; ask the release for --simultaneous.")
    return published, asked | ({"confidence": USUAL_CONFIDENCE} if asked["confidence"] is None else {})
