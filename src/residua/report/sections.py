"""The sections of a report: tables, charts, accuracy, protection, budget, comparison, reuse, statement."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from residua.language import say, say_many
from residua.plans.contract import Plan
from residua.published.table import what_is_counted
from residua.release import Release
from residua.report.accuracy import LISTED, Accuracy, ListedTable, accuracy, curves, listing, rms, tally
from residua.report.budget import budget
from residua.report.charts import draw_bars, draw_relative
from residua.report.headline import RELATIVE
from residua.report.odds import Protection, hundred, odds_of, protection
from residua.report.page import Section, blocks, section
from residua.report.pictures import Picture, within
from residua.report.plan_text import changes, compared, objective, promises, proof
from residua.report.series import Series
from residua.report.svg import figure, size_from
from residua.report.tables import every_table

_LARGE = 2**20  # numbers of a table beyond which they are not judged one by one


def tables_section(published: Any) -> Section | None:
    """All tables; what is left out is said."""
    listed, asked = every_table(published), published.plan.workload
    if not listed:
        return None
    count = max(
        len(listed), 0 if asked is None or asked.tables is None or not asked.tables.plain else len(asked.tables)
    )
    large = sum(not one.whole for one in listed)
    said = [say_many("One table.", "{n} tables.", count)]
    if large:
        said.append(
            say(
                "Too large to be written out on this page: {large}. Each of them says how to get its numbers.",
                large=large,
            )
        )
    return section("tables", say("All tables"), said=" ".join(said), tables=listed, more=count - len(listed))


def protected(shield: Protection, *, what_if: bool = False) -> Section:
    """Who is protected, against whom, and at what price."""
    odds = []
    if shield.odds is not None:
        odds.append(
            (
                say("A guess between two equally likely cases is right"),
                shield.odds.right,
                say("a tossed coin: 50 of 100"),
            )
        )
        for alarms, share in shield.odds.recognised.items():
            wrong = say("If they may be wrong about 1 person in {many}, they recognise", many=round(1 / alarms))
            odds.append((wrong, share, say("without protection: 100 of 100")))
    return section(
        "protection",
        say("How people are protected"),
        shield=shield,
        odds=[
            (what, say("at most {times} of 100", times=hundred(share)), otherwise) for what, share, otherwise in odds
        ],
        what_if=_what_if(shield) if what_if and odds else [],
    )


def _what_if(shield: Protection) -> list[tuple[str, str, str]]:
    """Half and twice the budget: errors follow from it alone."""
    rows = []
    for times, words in ((0.5, say("half of it")), (1.0, say("as it is")), (2.0, say("twice as much"))):
        errors = times**-1.0 if shield.noise == "Laplace" else times**-0.5
        rows.append((words, hundred(odds_of(shield.noise, shield.cost * times).right), f"× {errors:.3g}"))
    return rows


def judged(release: Release) -> Accuracy | None:
    """How accurate a release is, its numbers judged one by one."""
    whole = accuracy(release.plan)
    workload = None if release.plan.workload is None else release.plan.workload.as_read
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


def accurate(
    plan: Plan, accuracy: Accuracy | None, *, verb: str = "are", biased: str = "", projection: bool = False
) -> Section | None:
    """How accurate what is published is."""
    if accuracy is None:
        return None
    flags = (say("reliable"), say("with caution"), say("unreliable")) if accuracy.judged else ()
    sizes = (say("numbers"), say("standard error"), say("95 % margin"), say("reliable from"), say("caution from"))
    rows = []
    for one in accuracy.listed:
        flagged = tuple(f"{count:,}" for count in one.flagged) if one.flagged else ("",) * len(flags)
        errors, counts = (figure(one.stddev), figure(one.margin)), (size_from(one.reliable), size_from(one.caution))
        rows.append((one.title, one.counted, *errors, *counts, *flagged))
    chosen = curves(accuracy)
    name = say(RELATIVE)
    return section(
        "accuracy",
        say("How accurate the numbers are"),
        accuracy=accuracy,
        said=_counted(accuracy, planned=verb != "are"),
        biased=biased,
        projection=projection,
        counted=what_is_counted(plan.unit),
        curve=draw_relative(chosen, name) if chosen and verb == "are" else None,
        caption=say("How accurate each is, and how many of its numbers are reliable")
        if flags
        else say("How accurate each is"),
        head=(say(accuracy.one), *sizes, *flags),
        rows=rows,
    )


def charts_section(drawn: Sequence[Picture], note: str) -> Section | None:
    """The charts that do not stand at the top."""
    return section("pictures", say("Charts"), pictures=drawn, note=note, listed=True) if drawn else None


def spent(plan: Plan, title: str, instead: Iterable[tuple[str, str]] = ()) -> Section:
    """What the budget went to."""
    spending = budget(plan)
    largest = () if spending is None else spending.largest
    series = Series(("part",), (tuple(one.title for one in largest),), np.array([100 * one.share for one in largest]))
    name = say("Shares of the budget in per cent, the largest first")
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


def compared_section(first: Plan, second: Plan) -> Section:
    """Two plans side by side."""
    rows = list(islice(compared(first, second), LISTED + 1))
    one, two = (
        {**promises(plan), say("objective"): objective(plan), say("best guess right"): _guess(plan)}
        for plan in (first, second)
    )
    workload = first.workload
    tables = 0 if workload is None or workload.noun == "queries" else len(workload)
    return section(
        "comparison",
        say("What changes"),
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
    return say("at most {times} of 100", times=guess or "50")


def reuse(name: str, shield: Protection, receipt: Mapping[str, Any], what: str, advice: tuple[str, ...]) -> Section:
    """How to cite a release, and how to ask it for more."""
    from residua import __version__

    when = str(receipt.get("time", ""))[:10]
    trace = (str(receipt["sequence"]), str(receipt["digest"])[:16]) if "digest" in receipt else ()
    facts = {"guarantee": shield.guarantee, "change": shield.change}
    cite = [f"{name}.", say("Tables of counts under differential privacy: {guarantee}, for {change}.", **facts)]
    cite += [say("Measured on {when}.", when=when)] if when else []
    cite += [say("Ledger entry {entry}, {digest}.", entry=trace[0], digest=trace[1])] if trace else []
    cite.append(say("Made with residua {version}.", version=__version__))
    more = say("The folder answers more questions than this page: any table that the measurements allow.")
    if what == "release":
        more = say("The folder answers more than this page does: any table or count that the measurements allow.")
    lines = [f"residua table DIR NAME NAME        # {say('any table')}"]
    lines += [f'residua count DIR "age <= 8"         # {say("any count")}'] if what == "release" else []
    lines += ["residua tables DIR --out TABLES --format xlsx", ""]
    lines += ["import residua as rs", f'{what} = rs.{what.capitalize()}.load("DIR")']
    words = {"cite": " ".join(cite), "advice": [say(line) for line in advice], "reuse": more}
    return section("reuse", say("How to cite and reuse"), **words, command="\n".join(lines))


def _counted(accuracy: Accuracy, *, planned: bool) -> str:
    """How much is published, or would be."""
    n = accuracy.count
    if accuracy.what == "queries" and planned:
        return say_many("One query would be answered.", "{n} queries would be answered.", n)
    if accuracy.what == "queries":
        return say_many("One query is answered.", "{n} queries are answered.", n)
    holding = say_many("That is one number.", "That is {n} numbers in all.", int(accuracy.numbers))
    if planned:
        return f"{say_many('One table would be published.', '{n} tables would be published.', n)} {holding}"
    return f"{say_many('One table is published.', '{n} tables are published.', n)} {holding}"


def statement(title: str, text: str, caption: str = "") -> Section:
    """A statement that goes with a release, as blocks."""
    return section("statement", title, blocks=blocks(text)[1:], caption=caption)
