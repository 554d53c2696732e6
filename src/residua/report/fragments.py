"""What notebooks show of a value: a card with its main facts and a table, by the report's templates."""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch
from itertools import islice
from typing import Any

from residua.domain import Domain
from residua.domain.words import title_of
from residua.estimation import Estimated
from residua.estimation.statement import MODEL_BASED
from residua.language import say
from residua.measurement import Ledger
from residua.plans.contract import Plan
from residua.privacy import ZCDP
from residua.privacy.costs import brief, printed
from residua.projection import Projected
from residua.projection.accuracy import BIASED
from residua.published.columns import Columns, shown
from residua.release import Answered
from residua.report.accuracy import Accuracy, accuracy
from residua.report.odds import protection
from residua.report.page import fragment_html
from residua.report.pictures import picture, title
from residua.report.plan_text import objective, proof
from residua.report.svg import figure, number, size_from
from residua.session import Session
from residua.workload import Workload

SHOWN = 12
_ONE = {"tables": "table", "queries": "query", "terms": "term"}


@singledispatch
def fragment(thing: Any) -> str:
    """A value as a notebook shows it."""
    raise TypeError(f"{type(thing).__name__} is not shown")


def _card(
    heading: str,
    facts: Sequence[tuple[str, str, str]],
    caption: str = "",
    head: Sequence[str] = (),
    rows: Sequence[tuple[str, ...]] = (),
    *,
    of: int = 0,
    texts: int = 1,
    note: str = "",
    svg: Any = None,
) -> str:
    """A card with facts, and the first rows of a table; `of` is how many rows there are, `texts` columns hold text."""
    table = {"caption": caption, "head": head, "rows": rows, "texts": texts, "more": max(of - len(rows), 0)}
    return fragment_html("card.html", heading=heading, facts=facts, note=note, svg=svg, **table)


@fragment.register
def _(domain: Domain) -> str:
    rows = [_attribute_row(domain, name) for name in domain.names[: 2 * SHOWN]]
    facts = [("attributes", f"{len(domain):,}", ""), ("rules", f"{len(domain.impossible):,}", "structural zeros")]
    facts = facts if domain.impossible else facts[:1]
    head = ("attribute", "kind", "values", "such as")
    return _card("Domain", facts, "What a table may hold", head, rows, of=len(domain), texts=4)


def _attribute_row(domain: Domain, name: str) -> tuple[str, ...]:
    attribute, words = domain[name], title(domain, name)
    few = [title_of(attribute, label) for label in islice(attribute.declared_labels, 4)]
    such = ", ".join(few) + (", …" if attribute.declared > 4 else "")
    return (f"{name} ({words})" if words != name else name, attribute.kind, f"{attribute.size:,}", such)


@fragment.register
def _(workload: Workload) -> str:
    pairs = zip(islice(workload.titles(), SHOWN), workload.cells, strict=False)
    rows = [(title, f"{int(numbers):,}") for title, numbers in pairs]
    facts = [(workload.noun, f"{len(workload):,}", ""), ("numbers", f"{workload.queries:,}", "")]
    return _card("Workload", facts, "What is asked", (_ONE[workload.noun], "numbers"), rows, of=len(workload))


@fragment.register
def _(plan: Plan) -> str:
    note = f"Made for {objective(plan)}; {proof(plan)}. No data has been read."
    return _measured("Plan", plan, {}, note, accuracy(plan, SHOWN))


@fragment.register
def _(release: Answered) -> str:
    known: Any = release.plan
    return _measured("Release", release.planned, release.receipt, release.summary, accuracy(known, SHOWN))


@fragment.register
def _(projected: Projected) -> str:
    note = say("Tables that agree with each other; {biased}.", biased=say(BIASED))
    return _measured("Projection", projected.plan, projected.receipt, note)


@fragment.register
def _(estimated: Estimated) -> str:
    note = say("Tables that borrow strength; {biased}.", biased=say(MODEL_BASED))
    return _measured("Estimates", estimated.plan, estimated.receipt, note)


@fragment.register
def _(session: Session) -> str:
    status = session.status
    rows = [(str(n), words) for n, words in status.parts.items()]
    facts = [("spent", brief(status.spent), ""), ("left", brief(status.remaining, up=False), "")]
    return _card("Session", facts, "What was measured", ("part", "what"), rows, texts=2)


@fragment.register
def _(ledger: Ledger) -> str:
    entries = ledger.entries
    rho = isinstance(ledger.budget, ZCDP)  # as its budget is stated: costs are kept as pcost, twice rho
    costs = [float(e.cost) / (2 if rho else 1) for e in entries[-SHOWN:]]
    rows = [
        (str(e.sequence), e.time[:19].replace("T", " "), e.purpose, printed(cost))
        for e, cost in zip(entries[-SHOWN:], costs, strict=True)
    ]
    facts = [
        ("budget", brief(ledger.budget), f"for {ledger.unit}"),
        ("spent", brief(ledger.spent), ""),
        ("left", brief(ledger.remaining, up=False), ""),
    ]
    head = ("debit", "time, UTC", "purpose", "rho" if rho else ledger.currency)
    words = (f"Ledger of {ledger.population}", facts, "Debits, oldest first")
    return _card(*words, head, rows, of=len(entries), texts=3)


@fragment.register
def _(table: Columns) -> str:
    names = list(table.columns)
    rows = [
        tuple(_cell(cell, table.decimals) if isinstance(cell, float) else str(cell) for cell in row)
        for row in table.for_people(2 * SHOWN)
    ]
    drawn = picture(table) if getattr(table, "attributes", ()) and hasattr(table, "estimates") else None
    heading = getattr(table, "title", "") or " × ".join(table.keys) or "Total"
    svg, caption = drawn and drawn.drawn, table.note or "Published numbers"
    return _card(heading, (), caption, names, rows, of=len(table), texts=len(table.keys), svg=svg)


def _cell(value: float, decimals: int) -> str:
    """Counts as people write them; shares and means to as many decimals as their errors justify."""
    return number(value) if decimals <= 1 else shown(value, decimals, thousands=",")


def _measured(heading: str, plan: Plan, receipt: Any, note: str, accuracy: Accuracy | None = None) -> str:
    """A card that says what is protected, and how accurate what is published is."""
    shield = protection(plan, receipt)
    facts = [("guarantee", shield.guarantee, f"for {shield.change}")]
    if shield.guess is not None:
        facts.append(("best guess right", f"{shield.guess} of 100", "at most; 50 by tossing a coin"))
    if accuracy is None:
        return _card(heading, facts, note=note)
    rows = [(one.title, one.counted, figure(one.stddev), size_from(one.reliable)) for one in accuracy.listed]
    head = (accuracy.one, "numbers", "standard error", "reliable from")
    return _card(heading, facts, "Expected errors", head, rows, of=accuracy.count, note=note)
