"""What estimates say of themselves, for people: what they meet, what was done, how accurate they are."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from residua.domain.facts import shown
from residua.estimation.tables import crossed_names
from residua.projection.accuracy import statement_of

if TYPE_CHECKING:
    from residua.estimation.estimate import Estimated

MODEL_BASED = "biased towards a model; its error is estimated, not bounded"
BOUNDED = (
    "the release does not answer all of this itself: the estimates rest on the model, the intervals are what its "
    "smaller tables prove"
)
WARNING = (
    "These estimates are biased towards a model. Their errors are estimated (by simulation, and by the posterior "
    "variance of what the model leaves open), not bounded. Intervals do not rest on the model: they are the release's "
    "own, or what its smaller tables prove, cut at what is known."
)
_MOST_NAMED = 20


def estimation_statement(estimated: Estimated) -> str:
    """What was done and how accurate it is, as Markdown."""
    domain, fitted = estimated.domain, estimated.fitted
    origin = "publicly known" if estimated.total_given else "estimated from everything measured"
    met = [
        "no cell is negative",
        "all tables agree on the margins they share, but for what raking leaves (`accuracy(…).apart` says how much)",
        f"the total is {fitted.total:,.1f}, {origin}",
        *filter(None, [estimated.unknown]),
        *(
            f"the marginal on {shown(domain, fact.members)} is as publicly known"
            for fact in estimated.public.facts
            if fact.members
        ),
    ]
    done = [
        "A mixture of independent attributes was fitted to everything measured of single attributes and pairs. Each",
        "measured interaction was shrunk towards it by its own evidence; larger tables are raked from their margins.",
    ]
    return statement_of("Estimates", WARNING, met, done, _accuracy(estimated), estimated)


def _accuracy(estimated: Estimated) -> list[str]:
    names = estimated.domain.names
    lines = ["Estimated root mean square error of a cell; ask `accuracy` for any other table.", ""]
    lines += ["| attribute | error |", "|---|---|"]
    lines += [f"| {name} | {estimated.accuracy([name]).rmse:,.3g} |" for name in names[:_MOST_NAMED]]
    if len(names) > _MOST_NAMED:
        lines.append(f"| and {len(names) - _MOST_NAMED:,} more | |")
    kept = estimated.fitted.kept[np.triu_indices(len(names), 1)]
    measured = kept[~np.isnan(kept)]
    lines.append("")
    if len(measured):
        lines.append(
            f"Of {len(kept):,} pairs {len(measured):,} were measured; their interactions were shrunk towards the"
        )
        lines.append(f"model by {1 - float(np.clip(measured, 0, 1).mean()):.0%} on average.")
    else:
        lines.append("No pair was measured: attributes are taken to be independent.")
    odd = estimated.contradicted
    if odd:
        named = crossed_names(odd, _MOST_NAMED)
        lines.append(f"**Measurements contradict the model, and decide, for {named}.**")
    if math.isinf(estimated.fitted.total_error):
        lines.append("The total was not measured.")
    return lines
