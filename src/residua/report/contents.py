"""What a report says, top down, as plain values for the templates: of a plan, a release, a projection or a session."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from residua.errors import PlanError
from residua.estimation import Estimated
from residua.estimation.estimated import WARNING as MODEL_WARNING
from residua.plans.contract import Plan
from residua.privacy.currencies import brief
from residua.projection import Projected
from residua.projection.statement import WARNING
from residua.published.table import what_is_counted
from residua.release import Release
from residua.release.statement import privacy_statement
from residua.report.accuracy import LISTED, Accuracy, ListedTable, accuracy, curves, listing, rms, tally
from residua.report.budget import budget
from residua.report.charts import draw_bars, draw_relative
from residua.report.odds import Protection, hundred, normal_odds, protection, pure_odds, spent_protection
from residua.report.page import ADVICE, MEASURED, PLANNED, Page, blocks
from residua.report.pictures import pictures, within
from residua.report.plan_text import changes, compared, objective, promises, proof
from residua.report.series import Series
from residua.report.svg import NARROW, figure, size_from
from residua.session import Session

_LARGE = 2**20  # numbers of a table beyond which they are not judged one by one


def page_of(thing: Any, title: str | None = None, beside: Any = None) -> Page:
    """The page about a plan, a release, a projection or a session.

    Raises:
        PlanError: something else; or something to stand beside it that is not a plan beside a plan.
    """
    if beside is not None and not (isinstance(thing, Plan) and isinstance(beside, Plan)):
        raise PlanError("beside: two plans stand side by side; give a plan beside a plan.")
    if title is not None and not isinstance(title, str):
        raise PlanError(f"title={title!r} is not a text; give one.")
    if isinstance(thing, Plan):
        return _plan_page(thing, title, beside)
    if isinstance(thing, Release):
        return _release_page(thing, title)
    if isinstance(thing, Projected):
        return _projection_page(thing, title)
    if isinstance(thing, Estimated):
        return _estimates_page(thing, title)
    if isinstance(thing, Session):
        return _session_page(thing, title)
    raise PlanError(
        f"{type(thing).__name__} has no report; give a plan, a release, a projection, estimates or a session."
    )


def _plan_page(plan: Plan, title: str | None, beside: Plan | None) -> Page:
    lead = "What would be published, how accurate it would be, and how strongly people are protected. No data was read."
    page = Page(title or "Plan", lead, protection(plan), tense=PLANNED)
    _protect(page, plan)
    if beside is not None:
        page.title = title or "Two plans side by side"
        _compare(page, plan, beside)
    _judge(page, plan, accuracy(plan))
    _spend(page, plan)
    return page


def _release_page(release: Release, title: str | None) -> Page:
    plan = release.plan
    page = Page(title or "Release", _lead(release), protection(release.planned, release.receipt))
    _protect(page, plan)
    _publish(page, release)
    _spend(page, plan)
    _reuse(page, release.receipt, "release")
    page.statement = blocks(privacy_statement(release))[1:]
    page.add("statement", "Privacy statement")
    return page


def _projection_page(projected: Projected, title: str | None) -> Page:
    lead = "Tables that could be true: consistent, and not negative where that was asked."
    shield = protection(projected.plan, projected.receipt)
    page = Page(title or "Projection", lead, shield, projection=True, biased=WARNING)
    _protect(page, projected.plan)
    _judge(page, projected.plan, accuracy(projected.plan))
    _draw(page, projected)
    _reuse(page, projected.receipt, "projected")
    page.advice = (WARNING, ADVICE[1], ADVICE[3])
    page.statement = blocks(projected.statement)[1:]
    page.add("statement", "What was done, and how accurate it is")
    return page


def _estimates_page(estimated: Estimated, title: str | None) -> Page:
    lead = "Tables that borrow strength from everything measured: not negative, agreeing, biased towards a model."
    shield = protection(estimated.plan, estimated.receipt)
    page = Page(title or "Estimates", lead, shield, projection=True, biased=MODEL_WARNING)
    _protect(page, estimated.plan)
    _draw(page, estimated)
    _reuse(page, estimated.receipt, "estimated")
    page.statement_caption = "Estimated root mean square error of a cell"
    page.advice = (MODEL_WARNING, ADVICE[1], ADVICE[3])
    page.statement = blocks(estimated.statement)[1:]
    page.add("statement", "What was done, and how accurate it is")
    return page


def _session_page(session: Session, title: str | None) -> Page:
    status, known = session.status, session.known
    shield = spent_protection(float(status.spent_exactly), session.ledger.unit, brief(status.spent))
    page = Page(
        title or "Session", "What a session has measured step by step, and everything that follows from it.", shield
    )
    _protect(page, None)
    lost = [(str(n), "was paid for and lost; the debit stands") for n in status.lost]
    page.session = {
        "spent": brief(status.spent),
        "remaining": brief(status.remaining, up=False),
        "parts": [*((str(n), words) for n, words in status.parts.items()), *lost],
        "choices": [(str(n), ", ".join(names), end) for n, (names, end) in status.choices.items()],
    }
    page.add("session", "What the session did")
    if known is not None:
        _publish(page, known)
        _spend(page, known.plan)
        _reuse(page, known.receipt, "release")
        page.statement = blocks(privacy_statement(known))[1:]
        page.add("statement", "Privacy statement")
    return page


def _lead(release: Release) -> str:
    workload = release.plan.workload
    what = "answers" if workload is not None and workload.noun == "queries" else "numbers in tables of counts"
    return f"{release.asked_cells:,.0f} {what}, with exactly sampled noise that protects people, and with error bars."


def _publish(page: Page, release: Release) -> None:
    plan = release.plan
    if plan.bias:
        page.biased = "Answers are biased, as the privacy statement says; no intervals are given."
    _judge(page, plan, _judged(release))
    _draw(page, release)


def _protect(page: Page, plan: Plan | None) -> None:
    page.add("protection", "What is protected, and how strongly")
    shield = page.protection
    page.currencies = shield.currencies
    if shield.odds is None:
        return
    recognised = [
        (
            f"Wrongly flagging 1 in {round(1 / alarms):,}, they recognise",
            f"at most {hundred(share)} of 100",
            "100 of 100 without protection",
        )
        for alarms, share in shield.odds.found.items()
    ]
    right = f"at most {hundred(shield.odds.right)} of 100"
    page.odds = [
        ("Between two equally likely cases, they guess right", right, "50 of 100 by tossing a coin"),
        *recognised,
    ]
    if plan is not None:
        page.what_if = _what_if(shield)


def _what_if(shield: Protection) -> list[tuple[str, str, str]]:
    """Half and twice the budget: errors follow from it alone."""
    laplace = shield.noise == "Laplace"
    rows = []
    for times, words in ((0.5, "half of it"), (1.0, "as it is"), (2.0, "twice as much")):
        odds = pure_odds(shield.cost * times) if laplace else normal_odds(math.sqrt(shield.cost * times))
        errors = times**-1.0 if laplace else times**-0.5
        rows.append((words, hundred(odds.right), f"× {errors:.3g}"))
    return rows


def _judged(release: Release) -> Accuracy | None:
    """How accurate a release is, its numbers judged one by one."""
    workload, whole = release.plan.workload, accuracy(release.plan)
    if whole is None or workload is None or not whole.listed:
        return whole
    if workload.noun == "queries":
        columns = release.answers(workload).columns
        pairs = zip(whole.listed, columns["estimate"], columns["stddev"], strict=False)
        listed = [
            listing(one.title, 1, float(s), tally(np.array([e]), float(s)), reach=one.reach) for one, e, s in pairs
        ]
    elif workload.plain:
        listed = [_judged_table(release, names, one) for names, one in zip(release.sets, whole.listed, strict=False)]
    else:
        tables = within(release.tables(), LISTED) if max(workload.cells[:LISTED]) <= _LARGE else iter(())
        reach = whole.listed[0].reach
        listed = [_judged_part(table, reach) for table in tables]
        return Accuracy(
            whole.what, max(whole.count, len(listed)), whole.numbers, tuple(listed) or whole.listed, whole.spread
        )
    return Accuracy(whole.what, whole.count, whole.numbers, tuple(listed), whole.spread)


def _judged_table(release: Release, names: tuple[str, ...], one: ListedTable) -> ListedTable:
    if one.numbers > _LARGE:
        return one
    table = release.table(names)
    return replace(one, flagged=tally(table.estimates, table.stddev))


def _judged_part(table: Any, reach: float) -> ListedTable:
    """A table that follows from a term: a level of a hierarchy."""
    known = int(np.isfinite(np.broadcast_to(table.stddev, table.estimates.shape)).sum())
    flagged = tally(table.estimates, table.stddev)
    return listing(table.title, len(table), rms(table.stddev), flagged, reach=reach, known=known)


def _judge(page: Page, plan: Plan, accuracy: Accuracy | None) -> None:
    if accuracy is None:
        return
    page.accuracy, page.counted = accuracy, what_is_counted(plan.unit)
    page.add("accuracy", "What is published, and how accurate it is")
    flagged = ("reliable", "with caution", "unreliable") if accuracy.judged else ()
    first = "table" if accuracy.what == "tables" else "query"
    sizes = ("numbers", "standard error", "95 % margin", "reliable from", "caution from")
    page.accuracy_head = (first, *sizes, *flagged)
    page.accuracy_caption = "How accurate each of them is" + (
        ", and how many of its numbers are reliable" if flagged else ""
    )
    for one in accuracy.listed:
        known = tuple(f"{count:,}" for count in one.flagged) if one.flagged else ("",) * len(flagged)
        errors, counts = (figure(one.stddev), figure(one.margin)), (size_from(one.reliable), size_from(one.caution))
        page.accuracy_rows.append((one.title, one.counted, *errors, *counts, *known))
    chosen = curves(accuracy)
    if chosen:
        name = "Relative standard error against the true count, one line per table"
        page.curve, page.curve_narrow = draw_relative(chosen, name), draw_relative(chosen, name, width=NARROW)


def _draw(page: Page, published: Any) -> None:
    page.pictures = pictures(published)
    if not page.pictures:
        return
    page.add("pictures", "Pictures")
    if page.projection:
        page.pictures_note = "There are no error bars: the numbers are biased."
        return
    page.pictures_note = (
        "Thin lines and bands are 95 % intervals, each by itself. Pale marks are "
        "to be used with caution; hollow or dotted ones are unreliable. Estimates below zero are shown as they are."
    )


def _spend(page: Page, plan: Plan) -> None:
    page.add("budget", "What the budget went to" if page.tense is MEASURED else "What the budget would go to")
    page.objective, page.proof = objective(plan), proof(plan)
    page.budget = spending = budget(plan)
    if spending is None:
        return
    page.budget_ways = [(one.title, f"{one.parts:,}", f"{100 * one.share:.1f} %") for one in spending.ways]
    if not spending.largest:
        return
    shares = np.array([100 * one.share for one in spending.largest])
    series = Series(("part",), (tuple(one.title for one in spending.largest),), shares)
    name = "Shares of the budget in per cent, the largest first"
    page.budget_picture, page.budget_narrow = draw_bars(series, name), draw_bars(series, name, width=NARROW)


def _compare(page: Page, first: Plan, second: Plan) -> None:
    rows = list(islice(compared(first, second), LISTED + 1))
    one, two = ({**promises(plan), "objective": objective(plan)} for plan in (first, second))
    guesses = ("best guess right", _guess(first), _guess(second))
    page.comparison = {
        "changes": changes(first, second),
        "promises": [*((name, one[name], two[name]) for name in one), guesses],
        "rows": [
            (row["table"], f"{row['queries']:,}", *("—" if row[x] is None else figure(row[x]) for x in "AB"),
             f"{row['B'] / row['A']:.3f}" if row["A"] and row["B"] else "")
            for row in rows[:LISTED]
        ],
        "more": max(_tables(first), len(rows)) - LISTED if len(rows) > LISTED else 0,
    }  # fmt: skip
    page.add("comparison", "What changes")


def _tables(plan: Plan) -> int:
    """How many tables a plan was made for."""
    return 0 if plan.workload is None or plan.workload.noun == "queries" else len(plan.workload)


def _guess(plan: Plan) -> str:
    odds = protection(plan).odds
    return "50 of 100" if odds is None else f"at most {hundred(odds.right)} of 100"


def _reuse(page: Page, receipt: Mapping[str, Any], what: str) -> None:
    from residua import __version__

    page.add("reuse", "How to cite and reuse")
    when = str(receipt.get("time", ""))[:10]
    trace = f" Ledger entry {receipt['sequence']}, {str(receipt['digest'])[:16]}." if "digest" in receipt else ""
    page.cite = (
        f"{page.title}. Tables of counts under differential privacy: {page.protection.guarantee}, for "
        f"{page.protection.change}.{f' Measured {when}.' if when else ''}{trace} Made with residua {__version__}."
    )
    if what != "release":
        page.reuse = "Whoever has the folder can ask it for any table that it tells:"
    counts = 'residua count DIR "CONDITION"    # any count, such as "age <= 8"\n' if what == "release" else ""
    page.command = (
        f"residua table DIR NAME NAME      # any table\n{counts}"
        f"residua tables DIR --out TABLES --format xlsx\n\n"
        f'import residua as rs\n{what} = rs.{what.capitalize()}.load("DIR")'
    )
