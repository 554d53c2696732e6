"""Intervals of estimated numbers, none of which rests on the model: it only chooses a number within them.

**Answered.** Where the release answers a table without bias, the interval is its own, cut at what constraints prove, as
for projections: it holds the truth at least as often as the release's own does.

**Not answered.** The number of records that meet conditions on attributes A is at most that of those who meet the ones
on S ⊂ A, and at least `n_S + n_T − n_{S∩T}` where S ∪ T = A (Fréchet): of those who meet what S and T both ask, all but
n_{S∩T} − n_S meet the rest of S, and all but n_{S∩T} − n_T the rest of T. The release answers m such numbers, each in
an interval of confidence 1 − α/m, so that all hold together with 1 − α at least, and the bound with them, whatever the
data. (Where many intervals are to hold at once, no smaller table has more numbers.) Such intervals are wide. The
model's own error is stated for a table as a whole (`Estimated.accuracy`) and not turned into intervals: a factor that
makes them hold in cells of every size on some data does not on other data.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from residua.errors import PlanError
from residua.linalg.arrays import Floats
from residua.linalg.lattice import subsets
from residua.projection.intervals import cut_ends
from residua.projection.problem import Terms
from residua.release.base import Release
from residua.release.tables import term_of
from residua.workload import Term, Workload


def estimated_ends(
    release: Release, terms: Terms, workload: Workload, estimates: Floats, confidence: float, together: float
) -> dict[str, Floats]:
    """The ends of the intervals of the answers to every query, and which are bounds by smaller tables, (queries,)."""
    lower, upper = cut_ends(release, terms, workload, confidence, together)
    bounded = np.zeros(len(estimates))
    for part, places in [] if _answered(release, workload) else workload.placed():
        start = 0
        for term in part.terms() if part.tabular else ():
            ends = [each.ravel() for each in _of_smaller(release, terms, term, confidence, together)]
            own = places[start : start + len(ends[0])]
            start += len(own)
            bounded[own] = 1.0
            lower[own], upper[own] = np.maximum(lower[own], ends[0]), np.minimum(upper[own], ends[1])
    return {"lower": np.minimum(lower, estimates), "upper": np.maximum(upper, estimates), "bounded": bounded}


def _answered(release: Release, workload: Workload) -> bool:
    try:
        return release.plan.supports(workload)
    except PlanError:
        return False


def _of_smaller(
    release: Release, terms: Terms, term: Term, confidence: float, together: float
) -> tuple[Floats, Floats]:
    """What the largest tables that the release answers prove of one that it does not."""
    shape, members = [asked.rows for _, asked in term], tuple(i for i, _ in term)
    low, high = np.full(shape, -np.inf), np.full(shape, np.inf)
    if not all(asked.plain or asked.indicators for _, asked in term):
        return low, high
    names, asked_of = release.domain.names, dict(term)
    workloads = {
        s: term_of(release.domain, [names[i] for i in s], {names[i]: asked_of[i] for i in s}) for s in subsets(members)
    }
    answered = {s for s, workload in workloads.items() if s != members and _answered(release, workload)}
    largest = [s for s in answered if not any(set(s) < set(other) for other in answered)]
    pairs = [(s, t, tuple(sorted({*s} & {*t}))) for s, t in combinations(largest, 2) if {*s, *t} == {*members}]
    used = {*largest, *(both for *_, both in pairs)}
    ends = {}
    for s in used:
        across = [asked_of[i].rows if i in s else 1 for i in members]
        each = cut_ends(release, terms, workloads[s], 1.0 - (1.0 - confidence) / len(used), together)
        ends[s] = [end.reshape(across) for end in each]
    for s in largest:
        high = np.minimum(high, ends[s][1])
    for s, t, both in pairs:
        low = np.maximum(low, ends[s][0] + ends[t][0] - ends[both][1])
    return low, np.maximum(high, low)
