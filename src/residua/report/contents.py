"""What a report says, top down, section by section: of a plan, a release, a projection, estimates or a session."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import singledispatch
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from residua.errors import PlanError
from residua.estimation import Estimated
from residua.estimation.statement import WARNING as MODEL_WARNING
from residua.language import spoken
from residua.plans.contract import Plan
from residua.privacy.costs import brief
from residua.projection import Projected
from residua.projection.accuracy import WARNING
from residua.published.table import what_is_counted
from residua.release import Release
from residua.release.folder import privacy_statement
from residua.report.accuracy import LISTED, Accuracy, ListedTable, accuracy, curves, listing, rms, tally
from residua.report.alternatives import alternatives
from residua.report.budget import budget
from residua.report.charts import draw_bars, draw_relative
from residua.report.headline import plan_headline, release_headline
from residua.report.odds import Protection, hundred, odds_of, protection, spent_protection
from residua.report.page import Page, Section, blocks, html, section, write_page
from residua.report.pictures import Picture, pictures, within
from residua.report.plan_text import changes, compared, objective, promises, proof
from residua.report.series import Series
from residua.report.svg import figure, size_from
from residua.report.tables import every_table
from residua.report.theme import Theme, read_theme
from residua.session import Session

_LARGE = 2**20  # numbers of a table beyond which they are not judged one by one
_MARKS = (
    "Thin lines and bands are 95 % intervals, each by itself. Pale bars are to be used with caution, dashed ones are "
    "unreliable. Estimates below zero are shown as they are."
)
_ADVICE = (
    "Estimates below zero are as they should be: noise goes both ways. Keep them when adding up, and read them as "
    "“about zero”.",
    "All tables agree with each other: a table summed over an attribute is the smaller table, exactly.",
    "For sums, shares and differences ask the release itself: errors of cells of one release are correlated.",
    "Publishing more tables of the same release costs no privacy. Measuring again does.",
)


@spoken
def report_html(thing: Any, *, title: str | None = None, beside: Any = None, **looks: Any) -> str:
    """The report of a plan, a release, a projection or a session, as a text."""
    return html(page_of(thing, title, beside, **looks))


@spoken
def write_report(
    thing: Any,
    path: str | Path,
    *,
    title: str | None = None,
    beside: Any = None,
    overwrite: bool = False,
    **looks: Any,
) -> None:
    """Writes a report; see `Reported.report`."""
    write_page(page_of(thing, title, beside, **looks), path, overwrite=overwrite)


def page_of(thing: Any, title: str | None = None, beside: Any = None, *, theme: str | Path | None = None) -> Page:
    """The page about a plan, a release, a projection, estimates or a session.

    Raises:
        PlanError: something else; or something to stand beside it that is not a plan beside a plan.
    """
    if beside is not None and not (isinstance(thing, Plan) and isinstance(beside, Plan)):
        raise PlanError("beside: two plans stand side by side; give a plan beside a plan.")
    if title is not None and not isinstance(title, str):
        raise PlanError(f"title={title!r} is not a text; give one.")
    look = Theme() if theme is None else read_theme(theme)
    page = _page(thing, title, beside)
    page.theme = look
    return page


@singledispatch
def _page(thing: Any, title: str | None, beside: Any) -> Page:
    raise PlanError(
        f"{type(thing).__name__} has no report; give a plan, a release, a projection, estimates or a session."
    )


@_page.register
def _(plan: Plan, title: str | None, beside: Plan | None) -> Page:
    lead = "What would be published, how accurate it would be, and how strongly people are protected. No data was read."
    shield, errors = protection(plan), accuracy(plan)
    return Page(
        title or ("Plan" if beside is None else "Two plans side by side"),
        lead,
        plan_headline(shield, errors),
        None if beside is None else _compared(plan, beside),
        _accurate(plan, errors, verb="would be"),
        _protected(shield, what_if=True),
        _spent(plan, "What the budget would go to", alternatives(plan)),
    )


@_page.register
def _(release: Release, title: str | None, beside: None) -> Page:
    workload, shield = release.plan.workload, protection(release.planned, release.receipt)
    what = "answers" if workload is not None and workload.noun == "queries" else "numbers in tables of counts"
    lead = f"{release.asked_cells:,.0f} {what}, with exactly sampled noise that protects people, and with error bars."
    lead += f" {release.advice}" if release.advice else ""
    name = title or "Release"
    return Page(name, lead, *_published(release, shield, name))


@_page.register
def _(projected: Projected, title: str | None, beside: None) -> Page:
    lead = "Tables that agree with each other, and are not negative where that was asked."
    errors = _accurate(projected.plan, accuracy(projected.plan), biased=WARNING, projection=True)
    note = "Thin lines and bands are 95 % intervals, each by itself. The estimates within them are biased."
    return _without_bars(projected, title or "Projection", lead, WARNING, "projected", note, errors)


@_page.register
def _(estimated: Estimated, title: str | None, beside: None) -> Page:
    lead = "Tables that borrow strength from everything measured: not negative, agreeing, biased towards a model."
    note = "There are no error bars: the numbers are biased."
    return _without_bars(estimated, title or "Estimates", lead, MODEL_WARNING, "estimated", note)


@_page.register
def _(session: Session, title: str | None, beside: None) -> Page:
    status, known, name = session.status, session.known, title or "Session"
    shield = spent_protection(float(status.spent_exactly), session.ledger.unit, brief(status.spent))
    steps = section(
        "session",
        "What the session did",
        spent=brief(status.spent),
        remaining=brief(status.remaining, up=False),
        parts=[
            *((str(n), words) for n, words in status.parts.items()),
            *((str(n), "was paid for and lost; the debit stands") for n in status.lost),
        ],
        choices=[(str(n), ", ".join(names), end) for n, (names, end) in status.choices.items()],
    )
    lead = "What a session has measured step by step, and everything that follows from it."
    rest = [] if known is None else _published(known, shield, name)
    return Page(name, lead, *rest[:3], steps, *(rest[3:] or [_protected(shield)]))


def _published(release: Release, shield: Protection, name: str) -> list[Section | None]:
    """What is said of everything that was measured."""
    bias = "Answers are biased, as the privacy statement says; no intervals are given." if release.plan.bias else ""
    errors, drawn = _judged(release), pictures(release)
    return [
        release_headline(release, shield, errors, drawn),
        _drawn(drawn[1:], _MARKS),
        _tables(release),
        _accurate(release.plan, errors, biased=bias),
        _protected(shield, what_if=True),
        _spent(release.plan, "What the budget went to"),
        _reuse(name, shield, release.receipt, "release", _ADVICE),
        _statement("Privacy statement", privacy_statement(release)),
    ]


def _without_bars(
    published: Any, name: str, lead: str, warning: str, what: str, note: str, errors: Section | None = None
) -> Page:
    """The page of tables whose numbers are biased, and have no standard deviations."""
    shield, drawn = protection(published.plan, published.receipt), pictures(published)
    caption = "" if errors else "Estimated root mean square error of a cell"
    return Page(
        name,
        lead,
        release_headline(published, shield, accuracy(published.plan), drawn),
        _drawn(drawn[1:], note),
        _tables(published),
        errors,
        _protected(shield, what_if=True),
        _reuse(name, shield, published.receipt, what, (warning, _ADVICE[1], _ADVICE[3])),
        _statement("What was done, and how accurate it is", published.statement, caption),
    )


def _tables(published: Any) -> Section | None:
    """All tables; what is left out is said."""
    listed, asked = every_table(published), published.plan.workload
    if not listed:
        return None
    count = max(
        len(listed), 0 if asked is None or asked.tables is None or not asked.tables.plain else len(asked.tables)
    )
    large = sum(not one.whole for one in listed)
    said = "One table." if count == 1 else f"{count:,} tables."
    said += f" Too large to be written out here: {large:,}. Each of them says how to get its numbers." if large else ""
    return section("tables", "All tables", said=said, tables=listed, more=count - len(listed))


def _protected(shield: Protection, *, what_if: bool = False) -> Section:
    odds = []
    if shield.odds is not None:
        odds.append(
            ("Between two equally likely cases, they guess right", shield.odds.right, "50 of 100 by tossing a coin")
        )
        for alarms, share in shield.odds.recognised.items():
            flagging = f"Wrongly flagging 1 in {round(1 / alarms):,}, they recognise"
            odds.append((flagging, share, "100 of 100 without protection"))
    return section(
        "protection",
        "What is protected, and how strongly",
        shield=shield,
        odds=[(what, f"at most {hundred(share)} of 100", otherwise) for what, share, otherwise in odds],
        what_if=_what_if(shield) if what_if and odds else [],
    )


def _what_if(shield: Protection) -> list[tuple[str, str, str]]:
    """Half and twice the budget: errors follow from it alone."""
    rows = []
    for times, words in ((0.5, "half of it"), (1.0, "as it is"), (2.0, "twice as much")):
        errors = times**-1.0 if shield.noise == "Laplace" else times**-0.5
        rows.append((words, hundred(odds_of(shield.noise, shield.cost * times).right), f"× {errors:.3g}"))
    return rows


def _judged(release: Release) -> Accuracy | None:
    """How accurate a release is, its numbers judged one by one."""
    workload, whole = release.plan.workload, accuracy(release.plan)
    if whole is None or workload is None or not whole.listed:
        return whole
    if workload.noun == "queries":
        answers = release.answers(workload)
        doubtful = np.zeros(len(answers), dtype=bool) if answers.doubtful is None else answers.doubtful
        given = zip(whole.listed, answers["estimate"], answers["stddev"], doubtful, strict=False)
        listed = [
            listing(one.title, 1, float(s), tally(np.array([e]), float(s), np.array([d])), reach=one.reach)
            for one, e, s, d in given
        ]
    elif workload.plain:
        listed = [_judged_table(release, names, one) for names, one in zip(release.sets, whole.listed, strict=False)]
    else:
        tables = within(release.tables(), LISTED) if max(workload.cells[:LISTED]) <= _LARGE else iter(())
        listed = [_judged_part(table, whole.listed[0].reach) for table in tables] or list(whole.listed)
    return replace(whole, count=max(whole.count, len(listed)), listed=tuple(listed))


def _judged_table(release: Release, names: tuple[str, ...], one: ListedTable) -> ListedTable:
    if one.numbers > _LARGE:
        return one
    table = release.table(names)
    return replace(one, flagged=tally(table.estimates, table.stddev, table.doubtful))


def _judged_part(table: Any, reach: float) -> ListedTable:
    """A table that follows from a term: a level of a hierarchy."""
    known = int(np.isfinite(np.broadcast_to(table.stddev, table.estimates.shape)).sum())
    flagged = tally(table.estimates, table.stddev, table.doubtful)
    return listing(table.title, len(table), rms(table.stddev), flagged, reach=reach, known=known)


def _accurate(
    plan: Plan, accuracy: Accuracy | None, *, verb: str = "are", biased: str = "", projection: bool = False
) -> Section | None:
    if accuracy is None:
        return None
    flags = ("reliable", "with caution", "unreliable") if accuracy.judged else ()
    sizes = ("numbers", "standard error", "95 % margin", "reliable from", "caution from")
    rows = []
    for one in accuracy.listed:
        flagged = tuple(f"{count:,}" for count in one.flagged) if one.flagged else ("",) * len(flags)
        errors, counts = (figure(one.stddev), figure(one.margin)), (size_from(one.reliable), size_from(one.caution))
        rows.append((one.title, one.counted, *errors, *counts, *flagged))
    chosen = curves(accuracy)
    name = "Relative standard error against the true count, one line per table"
    return section(
        "accuracy",
        "What is published, and how accurate it is",
        accuracy=accuracy,
        published=f"{'is' if accuracy.count == 1 and verb == 'are' else verb} published",
        biased=biased,
        projection=projection,
        counted=what_is_counted(plan.unit),
        curve=draw_relative(chosen, name) if chosen and verb == "are" else None,
        caption="How accurate each of them is" + (", and how many of its numbers are reliable" if flags else ""),
        head=(accuracy.one, *sizes, *flags),
        rows=rows,
    )


def _drawn(drawn: Sequence[Picture], note: str) -> Section | None:
    return section("pictures", "Charts", pictures=drawn, note=note, listed=True) if drawn else None


def _spent(plan: Plan, title: str, instead: Iterable[tuple[str, str]] = ()) -> Section:
    spending = budget(plan)
    largest = () if spending is None else spending.largest
    series = Series(("part",), (tuple(one.title for one in largest),), np.array([100 * one.share for one in largest]))
    name = "Shares of the budget in per cent, the largest first"
    return section(
        "budget",
        title,
        spending=spending,
        ways=[(one.title, f"{one.parts:,}", f"{100 * one.share:.1f} %") for one in (spending.ways if spending else ())],
        picture=draw_bars(series, name) if largest else None,
        objective=objective(plan),
        proof=proof(plan),
        instead=[f"{remark[0].upper()}{remark[1:]}." for _, remark in instead],
    )


def _compared(first: Plan, second: Plan) -> Section:
    rows = list(islice(compared(first, second), LISTED + 1))
    one, two = (
        {**promises(plan), "objective": objective(plan), "best guess right": _guess(plan)} for plan in (first, second)
    )
    workload = first.workload
    tables = 0 if workload is None or workload.noun == "queries" else len(workload)
    return section(
        "comparison",
        "What changes",
        changes=changes(first, second),
        promises=[(name, one[name], two[name]) for name in one],
        rows=[
            (row["table"], f"{row['queries']:,}", *("—" if row[x] is None else figure(row[x]) for x in "AB"),
             f"{row['B'] / row['A']:.3f}" if row["A"] and row["B"] else "")
            for row in rows[:LISTED]
        ],
        more=max(tables, len(rows)) - LISTED if len(rows) > LISTED else 0,
    )  # fmt: skip


def _guess(plan: Plan) -> str:
    guess = protection(plan).guess
    return "50 of 100" if guess is None else f"at most {guess} of 100"


def _reuse(name: str, shield: Protection, receipt: Mapping[str, Any], what: str, advice: tuple[str, ...]) -> Section:
    from residua import __version__

    when = str(receipt.get("time", ""))[:10]
    trace = f" Ledger entry {receipt['sequence']}, {str(receipt['digest'])[:16]}." if "digest" in receipt else ""
    measured = what == "release"
    counts = 'residua count DIR "CONDITION"    # any count, such as "age <= 8"\n' if measured else ""
    return section(
        "reuse",
        "How to cite and reuse",
        cite=f"{name}. Tables of counts under differential privacy: {shield.guarantee}, for "
        f"{shield.change}.{f' Measured {when}.' if when else ''}{trace} Made with residua {__version__}.",
        advice=advice,
        reuse=f"Whoever has the folder can ask it for any {'number' if measured else 'table'} that it tells"
        f"{', with its error bar' if measured else ''}:",
        command=f"residua table DIR NAME NAME      # any table\n{counts}"
        f"residua tables DIR --out TABLES --format xlsx\n\n"
        f'import residua as rs\n{what} = rs.{what.capitalize()}.load("DIR")',
    )


def _statement(title: str, text: str, caption: str = "") -> Section:
    return section("statement", title, blocks=blocks(text)[1:], caption=caption)
