"""What a report says, top down, section by section: of a plan, a release, a projection, estimates or a session."""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch
from pathlib import Path
from typing import Any

from residua.errors import PlanError, named
from residua.estimation import Estimated
from residua.estimation.statement import WARNING as MODEL_WARNING
from residua.language import mark, say, spoken
from residua.plans.contract import Plan
from residua.privacy.costs import brief
from residua.projection import Projected
from residua.projection.accuracy import WARNING
from residua.release import Release
from residua.release.folder import privacy_statement
from residua.report import sections
from residua.report.accuracy import accuracy
from residua.report.alternatives import alternatives
from residua.report.maps import Geography, read_map
from residua.report.odds import Protection, protection, spent_protection
from residua.report.page import Page, Section, html, section, write_page
from residua.report.pictures import pictures, title as title_of_attribute
from residua.report.tables import every_table
from residua.report.theme import Theme, read_theme
from residua.session import Session

_MARKS = mark(
    "Thin lines and bands are 95 % intervals, each for one number. Use numbers of pale bars with caution; those of "
    "dashed bars are unreliable. Estimates below zero are shown as they are."
)
_ADVICE = (
    mark(
        "Some estimates are below zero, because noise goes both ways. Keep them when you add up, and read them as zero."
    ),
    mark("All tables agree: if you sum a table over one attribute, you get the smaller table exactly."),
    mark("Ask the release itself for sums, shares and differences: the errors of its numbers depend on each other."),
    mark("Publishing more tables of this release costs no privacy. Measuring again does."),
)
_NAMED = 3  # attributes in the title of a release that was given none


@spoken
def report_html(thing: Any, *, title: str | None = None, beside: Any = None, **looks: Any) -> str:
    """The report of a plan, a release, a projection or a session, as a text."""
    return html(page_of(thing, title, beside, **looks))


@spoken
def write_report(
    thing: Any, path: str | Path, *, title: str | None = None, beside: Any = None, overwrite: bool = False, **looks: Any
) -> None:
    """Writes a report; see `Reported.report`."""
    write_page(page_of(thing, title, beside, **looks), path, overwrite=overwrite)


def page_of(
    thing: Any,
    title: str | None = None,
    beside: Any = None,
    *,
    since: Any = None,
    map: str | Path | None = None,
    theme: str | Path | None = None,
) -> Page:
    """The page about a plan, a release, a projection, estimates or a session.

    Raises:
        PlanError: something else; or something to stand beside it that is not a plan beside a plan.
        SpecError: a map or a theme that is none.
    """
    if beside is not None and not (isinstance(thing, Plan) and isinstance(beside, Plan)):
        raise PlanError("beside: two plans stand side by side; give a plan beside a plan.")
    if title is not None and not isinstance(title, str):
        raise PlanError(f"title={named(title)} is not a text; give one.")
    look = Theme() if theme is None else read_theme(theme)
    page = _page(thing, title, AlsoShown(beside, None if map is None else read_map(map, thing.domain)))
    if since is not None:
        page.sections.insert(1, sections.since_section(thing, since))
    page.theme = look
    return page


@dataclass(frozen=True)
class AlsoShown:
    """What a page shows besides its subject: a plan beside a plan, the shapes of regions."""

    beside: Plan | None = None
    geography: Geography | None = None


@singledispatch
def _page(thing: Any, title: str | None, given: AlsoShown) -> Page:
    raise PlanError(
        f"{type(thing).__name__} has no report; give a plan, a release, a projection, estimates or a session."
    )


@_page.register
def _(plan: Plan, title: str | None, given: AlsoShown) -> Page:
    beside = given.beside
    lead = say(
        "What would be published, how accurate it would be, and how well people would be protected. No data was read."
    )
    shield, errors = protection(plan), accuracy(plan)
    return Page(
        title or (say("Plan") if beside is None else say("Two plans side by side")),
        lead,
        sections.plan_headline(shield, errors),
        None if beside is None else sections.compared_section(plan, beside),
        sections.accurate(plan, errors, planned=True),
        sections.protected(shield, what_if=True),
        sections.spent(plan, say("What the budget would be spent on"), alternatives(plan)),
    )


@_page.register
def _(release: Release, title: str | None, given: AlsoShown) -> Page:
    workload, shield = release.plan.workload, protection(release.planned, release.receipt)
    count = int(release.asked_cells)
    if workload is not None and workload.noun == "queries":
        lead = say(
            "{count} answers. Random noise protects the people in the data; every answer has an error bar.", count=count
        )
    else:
        lead = say(
            "{count} numbers in tables of counts. Random noise protects the people in the data; "
            "every number has an error bar.",
            count=count,
        )
    lead += f" {release.moved_by_noise}" if release.moved_by_noise else ""
    name = title or _named(release)
    return Page(name, lead, *_published(release, shield, name, given))


def _named(release: Release) -> str:
    """What a release without a title is called: after its first attributes."""
    names = [title_of_attribute(release.domain, name) for name in release.domain.names]
    if len(names) <= _NAMED + 1:
        *others, last = names
        words = mark("Tables by {names} and {last}") if others else mark("Tables by {last}")
        return say(words, names=", ".join(others), last=last)
    return say("Tables by {names} and {more} more", names=", ".join(names[:_NAMED]), more=len(names) - _NAMED)


@_page.register
def _(projected: Projected, title: str | None, given: AlsoShown) -> Page:
    lead = say("Tables that agree with each other, without negative counts where that was asked for.")
    errors = sections.accurate(projected.plan, accuracy(projected.plan), biased=say(WARNING), projection=True)
    note = say("Thin lines and bands are 95 % intervals, each for one number. The estimates within them are biased.")
    return _without_bars(projected, title or say("Projection"), lead, say(WARNING), "projected", note, given, errors)


@_page.register
def _(estimated: Estimated, title: str | None, given: AlsoShown) -> Page:
    lead = say(
        "Tables estimated from everything that was measured. They agree and are never negative, but follow a model."
    )
    note = say("There are no error bars, because the numbers are biased.")
    return _without_bars(estimated, title or say("Estimates"), lead, say(MODEL_WARNING), "estimated", note, given)


@_page.register
def _(session: Session, title: str | None, given: AlsoShown) -> Page:
    status, known, name = session.status, session.known, title or say("Session")
    ledger, cost = session.ledger, float(status.spent_exactly)
    shield = spent_protection(ledger.currency, cost, ledger.unit, brief(status.spent))
    steps = section(
        "session",
        say("What the session did"),
        spent=brief(status.spent),
        remaining=brief(status.remaining, up=False),
        parts=[
            *((str(n), words) for n, words in status.parts.items()),
            *((str(n), say("was paid for and lost; the debit stands")) for n in status.lost),
        ],
        choices=[(str(n), ", ".join(names), end) for n, (names, end) in status.choices.items()],
    )
    lead = say("What a session has measured step by step, and everything that follows from it.")
    rest = [] if known is None else _published(known, shield, name, given)
    return Page(name, lead, *rest[:3], steps, *(rest[3:] or [sections.protected(shield)]))


def _published(release: Release, shield: Protection, name: str, given: AlsoShown) -> list[Section | None]:
    """What is said of everything that was measured."""
    biased = say("Answers are biased, as the privacy statement says. They have no intervals.")
    errors, drawn, listed = accuracy(release.plan), pictures(release, given.geography), every_table(release)
    return [
        sections.release_headline(release, shield, errors, drawn, listed),
        sections.charts_section(drawn[1:], say(_MARKS)),
        sections.tables_section(listed, release.plan.workload),
        sections.accurate(release.plan, errors, biased=biased if release.plan.bias else "", counted=release.counted),
        sections.protected(shield, what_if=True),
        sections.spent(release.plan, say("What the budget was spent on")),
        sections.reuse(name, shield, release.receipt, "release", _ADVICE),
        sections.statement(say("Privacy statement"), privacy_statement(release)),
    ]


def _without_bars(
    published: Any,
    name: str,
    lead: str,
    warning: str,
    what: str,
    note: str,
    given: AlsoShown,
    errors: Section | None = None,
) -> Page:
    """The page of tables whose numbers are biased, and have no standard deviations."""
    shield, drawn = protection(published.plan, published.receipt), pictures(published, given.geography)
    listed = every_table(published)
    caption = "" if errors else say("Estimated root mean square error of a number")
    return Page(
        name,
        lead,
        sections.release_headline(published, shield, accuracy(published.plan), drawn, listed),
        sections.charts_section(drawn[1:], note),
        sections.tables_section(listed, published.plan.workload),
        errors,
        sections.protected(shield, what_if=True),
        sections.reuse(name, shield, published.receipt, what, (warning, _ADVICE[1], _ADVICE[3])),
        sections.statement(say("What was done, and how accurate it is"), published.statement, caption),
    )
