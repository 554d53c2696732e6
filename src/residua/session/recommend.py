"""Which candidate to finish: at least a share x of the queries with a signal-to-noise ratio of at least y.

Candidates are ordered: the first is the primary analysis, coarse and safe; each later one offers more and is noisier.
A later candidate is worth choosing when it still serves the analysis before it: at least a share x of the queries
asked first has a signal-to-noise ratio of y or more under it. That may be judged by the estimates, which is right most
often, or by their lower bounds, which errs towards the first candidate.

Reference: common-mechanism, §6.2 and §7.5.3. The paper writes its rule with lower bounds; the accuracies of its Table 7
are those of the estimates (benchmarks/choosing.py).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from residua.errors import PlanError
from residua.session.signal import Signal

By = Literal["lower", "estimate", "upper"]


@dataclass(frozen=True)
class Recommendation:
    """What to do after a look.

    Args:
        action: `"finish"` the named candidate, `"step"` to look further without the first, or `"stop"` here.
        candidate: the candidate to finish; None for `"step"` and `"stop"`.
        reason: why, in a sentence.
        shares: for each candidate, which share of the queries is good enough, by lower bound, estimate, upper bound.
    """

    action: str
    candidate: str | None
    reason: str
    shares: Mapping[str, Mapping[str, float]]


def recommended(signals: Sequence[Signal], *, share: float, snr: float, by: By, chain: bool) -> Recommendation:
    """Applies the rule to the queries of the first candidate under each candidate.

    Args:
        signals: one for each candidate still standing, in their order, on the same queries.
        share: x, which share of the queries must be good enough.
        snr: y, the least signal-to-noise ratio that is good enough.
        by: what to judge by.
        chain: whether the look can be refined step by step, so that later candidates are judged later.
    """
    check_rule(share, snr, by)
    shares = {signal.candidate: signal.shares(snr) for signal in signals}
    first, *later = [signal.candidate for signal in signals]
    good = [name for name in later if shares[name][by] >= share]
    asked = f"at least {share:.0%} of the queries with a signal-to-noise ratio of {snr:g} or more"
    if chain and len(later) > 1:
        if later[0] in good:
            return Recommendation("step", None, f"{later[0]!r} still serves the queries of {first!r}: {asked}", shares)
    elif good:
        return Recommendation(
            "finish", good[-1], f"{good[-1]!r} still serves the queries of {first!r}: {asked}", shares
        )
    if shares[first]["upper"] < share:
        return Recommendation("stop", None, f"not even {first!r} can give {asked}", shares)
    return Recommendation("finish", first, f"no later candidate gives {asked}", shares)


def check_rule(share: float, snr: float, by: By) -> None:
    """Refuses a rule that means nothing."""
    for name, value, most in (("share", share, 1.0), ("snr", snr, math.inf)):
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not 0 < value <= most or value == math.inf:
            limit = f" up to {most:g}" if most < math.inf else ""
            raise PlanError(f"{name}={value!r} is not a positive number{limit}; correct it.")
    judged_by(by)


def judged_by(by: str) -> By:
    """What to judge by, known to be one of the three."""
    for known in get_args(By):
        if by == known:
            found: By = known
            return found
    raise PlanError(f"by={by!r} is not 'lower', 'estimate' or 'upper'; use one of them.")
