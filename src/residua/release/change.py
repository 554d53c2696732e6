"""Change between two releases: how many more records there are than there were, in numbers and relative.

The noise of two releases is independent, whatever their ledgers: the difference `a − b` of two estimates has the sum of
their variances, and the relative change `a/b − 1` the interval of Fieller's theorem with no covariance
(`quoting/intervals.py`): exact for normal noise, and unbounded where the noise of the earlier number reaches zero.
"""

from __future__ import annotations

import numpy as np

from residua.errors import PlanError, named
from residua.language import mark, say
from residua.plans.tails import mixed_reach, width
from residua.quoting import Quoted
from residua.quoting.intervals import Figures, Moments, fieller
from residua.quoting.question import Question, Together
from residua.quoting.terms import By
from residua.release.base import Answered
from residua.workload import Where


def change(
    this: Answered,
    last: Answered,
    by: By = (),
    *,
    where: Where | None = None,
    confidence: float | None = None,
    simultaneous: Together = None,
) -> Quoted:
    """By how much counts changed from one release to another, absolutely and relatively, with intervals.

    Guarantee: under normal noise an interval holds the true change with exactly the confidence stated; under Laplace
    noise at least that often. The columns `relative`, `relative_lower` and `relative_upper` are shares of the earlier
    count.

    Args:
        this: the later release, or one beside known facts.
        last: the earlier one, of the same or another ledger. Its noise must be its own: a release and a pool that holds
            it are refused.
        by: a change for each group; a list of attributes, or attribute → one of its levels.
        where: only these records; attribute → a label, a list of labels or `rs.between(first, last)`.
        confidence: how often an interval holds the truth (0.95 if left out).
        simultaneous: `"table"` for intervals that all hold together; those of relative changes among themselves.

    Raises:
        PlanError: no releases, the same one twice, groups whose labels differ, or what was not measured.
    """
    for argument, release in (("this", this), ("last", last)):
        if not isinstance(release, Answered) or release.planned.bias:
            raise PlanError(f"{argument}={named(release)} has no intervals that a change could have; give releases.")
    if this is last or this.debits & last.debits:
        raise PlanError(
            "both are the same release, or share one, whose noise is not independent; give another as the earlier."
        )
    later, earlier = (Question(each._answering(), by, where, confidence, simultaneous) for each in (this, last))
    for (name, labels), (_, before) in zip(later.groups.axes, earlier.groups.axes, strict=True):
        if tuple(labels) != tuple(before):
            raise PlanError(
                f"by: the values of {named(name)} are not the same in both releases; group by a level they share."
            )
    numbers = [each.linear(each.groups.term()) for each in (later, earlier)]
    (a, b), (v, w) = ([each.estimate for each in numbers], [each.stddev**2 for each in numbers])
    level = later.level()
    reach = width(level.probability, level.together)
    if not all(release.planned.noise.gaussian for release in (this, last)):
        reach = float(mixed_reach(np.ones(1), (1 - level.probability) / level.together)[0])  # any sum of such noise
    stddev = np.sqrt(v + w)
    figures = Figures(a - b, stddev, a - b - reach * stddev, a - b + reach * stddev)
    moments = Moments(a, b, v, np.zeros_like(v), w)
    lower, upper, lost = fieller(moments, reach, reach, 0.0, np.inf)
    relative = {"relative": moments.ratio - 1, "relative_lower": lower - 1, "relative_upper": upper - 1}
    words = mark("the noise of {n} of {all} earlier counts reaches zero: no bounded relative change")
    said = say(words, n=int(lost.sum()), all=lost.size)
    columns = {name: np.ravel(values).tolist() for name, values in relative.items()}
    counted = earlier.answering.remark
    remarks = (said if lost.any() else "", say("before: {counted}", counted=counted) if counted else "")
    return later.quoted(say("change of counts"), figures, *remarks, extra=columns)
