"""The sections of a report: tables, charts, accuracy, protection, budget, comparison, reuse, statement."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from residua.errors import PlanError
from residua.language import mark, numeral, say, say_many
from residua.plans.contract import Plan
from residua.published.table import what_is_counted
from residua.release import Answered
from residua.release.change import change
from residua.report.accuracy import LISTED, Accuracy, curves
from residua.report.budget import budget
from residua.report.charts import draw_bars, draw_relative
from residua.report.odds import Protection, hundred, odds_of, protection
from residua.report.page import Section, blocks, section
from residua.report.pictures import BARS, Picture, table_series, title
from residua.report.plan_text import changes, compared, objective, promises, proof
from residua.report.series import Series
from residua.report.svg import figure, number, size_from
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
        said += " " + say_many(
            "One is too large for this page; it says how to get its numbers.",
            "{n} are too large for this page; each says how to get its numbers.",
            large,
        )
    return section("tables", say("All tables"), said=said, tables=listed, more=count - len(listed))


def protected(shield: Protection, *, what_if: bool = False) -> Section:
    """Who is protected, against whom, and at what price."""
    odds = []
    if shield.odds is not None:
        coin = say("a tossed coin: 50 of 100")
        odds.append((say("A guess between two equally likely cases is right"), shield.odds.right, coin))
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


def accurate(
    plan: Plan, accuracy: Accuracy | None, *, biased: str = "", counted: str = "", **options: bool
) -> Section | None:
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
    facts |= {"said": _counted(accuracy, planned=planned), "rows": rows}
    facts["counted"] = counted or what_is_counted(plan.unit)
    facts |= {"clipped": plan.domain.clipping(plan.domain.amounts), "caption": say("How accurate each is")}
    facts["head"] = (say(accuracy.one), *sizes)
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
        | {say("objective"): objective(plan)}
        | {say("best guess right"): say("at most {times} of 100", times=protection(plan).guess or "50")}
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
    lines = [f"residua table DIR NAME NAME          # {say('any table')}"]
    lines += [f"""residua count DIR "NAME = 'VALUE'"    # {say("any count")}"""] if what == "release" else []
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


RELATIVE = mark("Relative standard error against the true count, one line per table")
_EXAMPLE = np.array([120.0, 45.0, 14.0])  # one bar of each kind
Fact = tuple[str, str, str]


def release_headline(
    published: Any, shield: Protection, errors: Accuracy | None, drawn: Sequence[Picture], listed: Sequence[Listed]
) -> Section:
    """How many records were counted, or how many numbers there are, above the most important chart."""
    counted = _total(published)
    label, number, margin = counted or (say("Published numbers"), numeral(f"{published.asked_cells:,.0f}"), "")
    facts = [] if errors is None else [*_published(errors), *_judged(listed)]
    bars = _bars() if counted and margin else None
    picture = replace(drawn[0], title=say("Records by {names}", names=drawn[0].title)) if drawn else None
    return _headline(label, number, margin, shield, facts, picture, bars=bars, part=published.counted)


def plan_headline(shield: Protection, accuracy: Accuracy | None) -> Section | None:
    """How far a typical number will lie from the count without noise, and which counts will be reliable."""
    known = [] if accuracy is None else [one for one in accuracy.listed if 0 < one.stddev < math.inf]
    if accuracy is None or not known:
        return None
    middle = sorted(known, key=lambda one: one.stddev)[len(known) // 2]
    picture = Picture(
        say("How large must a count be to be reliable?"), draw_relative(curves(accuracy), say(RELATIVE)), ""
    )
    label = say(
        "Expected error of a number in a typical table ({table}), at most this in 95 of 100 cases", table=middle.title
    )
    return _headline(label, f"± {figure(middle.margin)}", "", shield, _published(accuracy), picture)


def _headline(
    label: str,
    number: str,
    margin: str,
    shield: Protection,
    facts: Sequence[Fact],
    picture: Picture | None,
    bars: Any = None,
    part: str = "",
) -> Section:
    words = {"label": label, "number": number, "margin": margin, "said": in_plain_words(shield), "part": part}
    return section("headline", say("At a glance"), **words, facts=facts, picture=picture, bars=bars)


def in_plain_words(shield: Protection) -> str:
    """Who is protected, in one sentence."""
    if shield.guess is None:
        return say("Nothing has been measured yet, so that nothing is known about anybody.")
    return say(
        "These numbers hide {secret}: somebody who knows everything else and has to guess is right at most {times} "
        "times in 100, where a tossed coin is right 50 times.",
        secret=shield.unit,
        times=shield.guess,
    )


def _total(published: Any) -> tuple[str, str, str] | None:
    """The total, where it can be told."""
    try:
        table = published.table([])
    except PlanError:
        return None
    series = table_series(table)
    if not series.known():
        return None
    reach = series.every
    margin = "" if reach is None else f"± {size_from(reach) if series.whole else figure(reach)}"
    return say("Records counted"), series.value(), margin


def _judged(listed: Sequence[Listed]) -> list[Fact]:
    """Which share of the numbers is reliable, of the tables that were looked at."""
    known = [one for one in listed if one.reliable is not None]
    if not known:
        return []
    share = math.floor(100 * sum(one.reliable or 0 for one in known) / sum(one.size for one in known))
    return [(say("reliable"), f"{share} %", say("of the numbers; each is marked"))]


def _published(accuracy: Accuracy) -> list[Fact]:
    if accuracy.what == "queries":
        where = say_many("in one query", "in {n} queries", accuracy.count)
    else:
        where = say_many("in one table", "in {n} tables", accuracy.count)
    return [(say("published"), say_many("one number", "{n} numbers", int(accuracy.numbers)), where)]


def _bars() -> Any:
    """One bar of each kind, as an example."""
    labels = (say("reliable"), say("use with caution"), say("unreliable"))
    series = Series(("",), (labels,), _EXAMPLE, _EXAMPLE - 13, _EXAMPLE + 13, np.arange(3), whole=True)
    return draw_bars(series, say("An example: one bar of each kind"))


_CHARTS = 6


def since_section(this: Any, last: Any) -> Section:
    """The section about what changed.

    Raises:
        PlanError: one of them is no release, or they are the same.
    """
    if not isinstance(this, Answered) or not isinstance(last, Answered):
        raise PlanError("since: a release can be compared with an earlier release; give two releases.")
    (total,) = change(this, last)
    said = say(
        "The number of records changed by {change} (95 % interval: {low} to {high}).",
        change=number(total["estimate"]),
        low=number(total["lower"]),
        high=number(total["upper"]),
    )
    charts = list(islice(_charts(this, last), _CHARTS))
    return section("since", say("What changed since the earlier release"), said=said, pictures=charts)


def _charts(this: Any, last: Any) -> Iterator[Picture]:
    """Changes by the values of each attribute that both releases tell."""
    for name in this.domain.names:
        if name not in last.domain.names or this.domain[name].size > BARS:
            continue
        try:
            quoted = change(this, last, [name])
        except PlanError:  # one of the two does not tell it, or by other values
            continue
        lower, upper = (np.asarray(quoted[end], dtype=np.float64) for end in ("lower", "upper"))
        unclear = np.where((lower <= 0) & (upper >= 0), 2, 0)
        labels = tuple(map(str, quoted[name]))
        series = Series(
            (title(this.domain, name),), (labels,), np.asarray(quoted["estimate"]), lower, upper, unclear, whole=True
        )
        caption = say("A dashed bar, with its number in brackets: there may have been no change.")
        yield Picture(title(this.domain, name), draw_bars(series, name), caption)
