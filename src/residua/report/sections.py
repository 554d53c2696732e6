"""The sections of a report: tables, charts, accuracy, protection, budget, comparison, reuse, statement."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from residua.language import numeral, say, say_many
from residua.plans.contract import Plan
from residua.published.table import what_is_counted
from residua.report.accuracy import LISTED, Accuracy, curves
from residua.report.budget import budget
from residua.report.charts import draw_bars, draw_relative
from residua.report.headline import RELATIVE
from residua.report.odds import Protection, hundred, odds_of, protection
from residua.report.page import Section, blocks, section
from residua.report.pictures import Picture
from residua.report.plan_text import changes, compared, objective, promises, proof
from residua.report.series import Series
from residua.report.svg import figure, size_from
from residua.report.tables import Listed
from residua.workload import Workload


def tables_section(listed: Sequence[Listed], asked: Workload | None) -> Section | None:
    """All tables; what is left out is said."""
    if not listed:
        return None
    tables = None if asked is None else asked.tables
    count = max(len(listed), len(tables) if tables is not None and tables.plain else 0)
    said = say_many("One table.", "{n} tables.", count)
    if large := sum(not one.whole for one in listed):
        said += " " + say("Too large for this page: {large}. Each of them says how to get its numbers.", large=large)
    return section("tables", say("All tables"), said=said, tables=listed, more=count - len(listed))


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


def accurate(plan: Plan, accuracy: Accuracy | None, *, biased: str = "", **options: bool) -> Section | None:
    """How accurate what is published is; options say that it is planned, or the plan of a projection."""
    if accuracy is None:
        return None
    sizes = (say("numbers"), say("standard error"), say("95 % margin"), say("reliable from"), say("caution from"))
    ends = ((figure(one.margin), size_from(one.reliable), size_from(one.caution)) for one in accuracy.listed)
    rows = [
        (one.title, one.counted, figure(one.stddev), *each) for one, each in zip(accuracy.listed, ends, strict=True)
    ]
    planned, chosen = options.get("planned", False), curves(accuracy)
    facts = {"accuracy": accuracy, "biased": biased, "projection": options.get("projection", False)}
    facts |= {"said": _counted(accuracy, planned=planned), "counted": what_is_counted(plan.unit), "rows": rows}
    facts |= {"caption": say("How accurate each is"), "head": (say(accuracy.one), *sizes)}
    curve = draw_relative(chosen, say(RELATIVE)) if chosen and not planned else None  # a plan's stands at the top
    return section("accuracy", say("How accurate the numbers are"), curve=curve, **facts)


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
        {say(name): words for name, words in promises(plan).items()}
        | {say("objective"): objective(plan), say("best guess right"): _guess(plan)}
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
            (say("Total") if row["table"] == "(total)" else row["table"], numeral(f"{row['queries']:,}"),
             *("—" if row[x] is None else figure(row[x]) for x in "AB"),
             numeral(f"{row['B'] / row['A']:.3f}") if row["A"] and row["B"] else "")
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
