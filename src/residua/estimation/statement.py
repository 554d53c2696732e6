"""What estimates say of themselves, for people: what they meet, what was done, how accurate they are."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from residua.domain.facts import shown
from residua.estimation.tables import crossed_names
from residua.language import mark, numeral, say
from residua.projection.accuracy import statement_of

if TYPE_CHECKING:
    from residua.estimation.estimate import Estimated

MODEL_BASED = mark("biased towards a model; its error is estimated, not bounded")
BOUNDED = mark(
    "the release does not answer all of this itself: the estimates rest on the model, the intervals are what its "
    "smaller tables prove"
)
WARNING = mark(
    "These estimates are biased towards a model. Their errors are estimated (by simulation, and by the posterior "
    "variance of what the model leaves open), not bounded. Intervals do not rest on the model: they are the release's "
    "own, or what its smaller tables prove, cut at what is known."
)
_MOST_NAMED = 20


def estimation_statement(estimated: Estimated) -> str:
    """What was done and how accurate it is, as Markdown."""
    domain, fitted = estimated.domain, estimated.fitted
    known, estimate = (
        mark("the total is {total:,.1f}, publicly known"),
        mark("the total is {total:,.1f}, estimated from everything measured"),
    )
    met = [
        say("no cell is negative"),
        say(
            "all tables agree on the margins they share, but for what raking leaves (`accuracy(…).apart` says how much)"
        ),
        say(known if estimated.total_given else estimate, total=fitted.total),
        *filter(None, [estimated.unknown]),
        *(
            say("the marginal on {names} is exactly what is publicly known", names=shown(domain, fact.members))
            for fact in estimated.public.facts
            if fact.members
        ),
    ]
    done = [
        say(
            "A mixture of independent attributes was fitted to everything measured of single attributes and pairs. "
            "Each measured interaction was shrunk towards it by its own evidence; larger tables are raked from their "
            "margins."
        )
    ]
    return statement_of(say("Estimates"), WARNING, met, done, _accuracy(estimated), estimated)


def _accuracy(estimated: Estimated) -> list[str]:
    names = estimated.domain.names
    lines = [say("Estimated root mean square error of a cell; ask `accuracy` for any other table."), ""]
    lines += [f"| {say('attribute')} | {say('error')} |", "|---|---|"]
    lines += [f"| {name} | {numeral(f'{estimated.accuracy([name]).rmse:,.3g}')} |" for name in names[:_MOST_NAMED]]
    if len(names) > _MOST_NAMED:
        lines.append(f"| {say('and {n} more', n=len(names) - _MOST_NAMED)} | |")
    kept = estimated.fitted.kept[np.triu_indices(len(names), 1)]
    measured = kept[~np.isnan(kept)]
    lines.append("")
    if len(measured):
        words = mark(
            "Of {pairs} pairs {measured} were measured; their interactions were shrunk towards the model by "
            "{share:.0%} on average."
        )
        share = 1 - float(np.clip(measured, 0, 1).mean())
        lines.append(say(words, pairs=len(kept), measured=len(measured), share=share))
    else:
        lines.append(say("No pair was measured: attributes are taken to be independent."))
    odd = estimated.contradicted
    if odd:
        named = crossed_names(odd, _MOST_NAMED)
        lines.append(say("**The model does not fit {named}; there estimates follow what was measured.**", named=named))
    if math.isinf(estimated.fitted.total_error):
        lines.append(say("The total was not measured."))
    return lines
