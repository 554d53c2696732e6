"""What a projection says of itself, for people to read: that it is biased, what it meets, how accurate it is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from residua.privacy.currencies import stated
from residua.projection.facts import shown
from residua.published.table import what_is_counted
from residua.showing import printable

if TYPE_CHECKING:
    from residua.projection.projected import Projected
    from residua.projection.tables import Tabled

BIASED = "biased, without error bars"
WARNING = (
    "These estimates are biased: raising cells that came out negative lowers others. They have no standard deviations, "
    "covariances or intervals; take those from the release."
)

_MOST_NAMED = 10
METRICS = {
    "margins": "the release's own metric (squares weighted by covariance) with small tables weighing more",
    "covariance": "the release's own metric (squares weighted by covariance)",
    "plain": "plain squares over all that was asked (attributes of products asked in several ways: no less than that)",
}


_INDICATION = [
    "This is an indication, not a bound: releases were simulated from the plan as if these tables, themselves made",
    "from a private release, were the data.",
]
_SHRUNK = [
    "The noise of the release is large beside the total. So each set's interaction was first shrunk by as much as",
    "noise explains of it (James and Stein); what noise explains altogether was taken to be nothing.",
]
_DOUBT = [
    "",
    "**The release is further from these conditions than its noise explains in all but one case in a million: a public",
    "fact, a structural zero or the declared domain is wrong, and what is said here of accuracy does not hold.**",
]


def statement_of(
    title: str, warning: str, met: Sequence[str], done: Sequence[str], accuracy: Sequence[str], of: Tabled
) -> str:
    """What tables without error bars say of themselves, as Markdown: what they meet, what was done, how accurate."""
    lines = [
        f"# {title}",
        "",
        warning,
        "",
        "What these tables meet:",
        "",
        *(f"- {one}" for one in met),
        *(f"- nobody has {rule}" for rule in of.domain.impossible),
        "",
        *done,
        "",
        "## Accuracy",
        "",
        *accuracy,
        "",
        "## Privacy",
        "",
        f"Computed from a release alone ({stated(of.plan.guarantee, of.receipt)}, for {of.plan.unit}); "
        "no data was touched",
        "and nothing more was spent.",
        "",
    ]
    return "\n".join(map(printable, lines))  # a name cannot add a line


def projection_statement(projected: Projected) -> str:
    """What was done and how accurate it is, as Markdown."""
    terms = projected.terms
    met = [
        *(["no cell is negative"] if terms.nonnegative else []),
        "all tables agree with each other",
        *(f"{_fact(projected, fact.members)} is exactly {_source(projected, fact.members)}" for fact in terms.facts),
    ]
    done = [
        *_left_out(projected),
        *([f"Every table {counted}.", ""] if (counted := what_is_counted(projected.plan.unit)) else []),
        *(_SHRUNK if terms.shrunk else []),
        *_nearness(projected),
    ]
    return statement_of("Projection", WARNING, met, done, _accuracy(projected), projected)


def _nearness(projected: Projected) -> list[str]:
    """How near the tables are, and to what; that none are nearer is said only where a gap is proven."""
    shrunk, metric = projected.terms.shrunk, METRICS[projected.terms.metric]
    origin = "that" if shrunk else "the release"
    distance = "" if shrunk else f", {projected.distance:,.6g},"
    missed = f"no condition is missed by more than {projected.infeasibility:.2g} counts."
    if math.isinf(projected.gap):
        return [
            f"They are near to {origin}, and not proven to be the nearest: the squared distance{distance} is by",
            f"{metric};",
            missed,
        ]
    return [
        f"Among all tables that do, they are the nearest to {origin} by {metric};",
        f"the squared distance{distance} is proven within {projected.gap:.2g} of the least possible,",
        f"and {missed}",
    ]


def _left_out(projected: Projected) -> list[str]:
    """Tables that were asked about, and of which the release tells too little to project them."""
    missing = projected.left_out
    if not missing:
        return []
    named = ", ".join(shown(projected.domain, members) for members in missing[:_MOST_NAMED])
    more = f" and {len(missing) - _MOST_NAMED:,} more" if len(missing) > _MOST_NAMED else ""
    return [
        f"Not among them, because the release does not tell all their cells: {named}{more}.",
        "Take what was asked of these from the release.",
        "",
    ]


def _accuracy(projected: Projected) -> list[str]:
    simulated = [] if projected.simulated is None else ["", f"Simulated: {projected.simulated}.", *_INDICATION]
    return [*_bound(projected), *simulated, *(_DOUBT if projected.bound and projected.bound.doubtful else [])]


def _bound(projected: Projected) -> list[str]:
    bound = projected.bound
    if bound is None and projected.terms.shrunk:
        return ["No bound is given: interactions were shrunk by their noise, which helps on the whole, not always."]
    if bound is None and math.isinf(projected.gap):
        return ["No bound is given: these tables are not proven to be the nearest to the release."]
    if bound is None:
        return ["No bound is given: the release is biased itself (an approximate plan), or its noise is not normal."]
    if math.isinf(bound.projected):
        return [
            "No bound is given: these conditions are further from the release than its noise reaches with",
            f"{bound.confidence:.1%} confidence. A public fact, a structural zero or the declared domain may be wrong.",
        ]
    lines = [
        "A bound that holds whatever the data, if the public facts above are true: the error of the projection is",
        f"{bound}.",
    ]
    if not projected.terms.total_stddev:
        lines.append("In the metric above, the projection is never further from the truth than the release.")
    return lines


def _source(projected: Projected, members: tuple[int, ...]) -> str:
    return "what the release says of it" if not members and projected.terms.total_stddev else "what is publicly known"


def _fact(projected: Projected, members: tuple[int, ...]) -> str:
    return f"the marginal on {shown(projected.domain, members)}" if members else "the total"
