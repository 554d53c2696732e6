"""Intervals of projected numbers: what the release says of each, cut at what the constraints prove.

**Safe.** Let [a, b] be the release's own interval for a number: exact quantiles of its rounded noise around an unbiased
estimate, so that it holds the truth t with the confidence stated, or more. The truth meets the constraints: it is not
negative, is no more than a public total or table allows, and is zero where nobody can be. So t lies in [l, h], which
the constraints prove of this number alone. Wherever [a, b] holds t, so does its part within [l, h]; where [a, b] lies
outside of that altogether, it does not hold t, and the nearest end of [l, h] stands for it. The projected number itself
is added, if it is outside. Hence the interval holds t at least as often as the release's own, whatever the data, the
metric and the solver did. As long as all of the release's own hold at once, so do all of these. A total taken from the
release proves nothing, and is not used.

`projection/assisted.py` has narrower ones. Some calibrated by replicates were tried and are not offered: they do not
hold on all data (docs/uncertainty.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from residua.domain import impossible_cells
from residua.errors import PlanError
from residua.linalg.arrays import Floats, Integers
from residua.projection.problem import Terms
from residua.release.base import Release
from residua.workload import Term, Workload, applied


def safe_ends(
    release: Release, terms: Terms, workload: Workload, estimates: Floats, confidence: float, together: float
) -> dict[str, Floats]:
    """The ends of the safe intervals of the answers to every query, (queries,) each; so many hold at once."""
    lower, upper = cut_ends(release, terms, workload, confidence, together)
    return {"lower": np.minimum(lower, estimates), "upper": np.maximum(upper, estimates)}


def cut_ends(
    release: Release, terms: Terms, workload: Workload, confidence: float, together: float
) -> tuple[Floats, Floats]:
    """The ends of the release's own intervals, cut at what the constraints prove, (queries,) each."""
    try:
        released, variances = release.estimator.answers(workload)
        reach = release.estimator.widths(workload, confidence, together) * np.sqrt(variances)
    except PlanError:  # it tells nothing of them
        released, reach = np.zeros(workload.queries), np.full(workload.queries, np.inf)
    low, high = proven(terms, workload)
    return np.clip(released - reach, low, high), np.clip(released + reach, low, high)


def proven(terms: Terms, workload: Workload) -> tuple[Floats, Floats]:
    """What the constraints alone prove of the answers to every query: the least and the most, (queries,) each."""
    low, high = np.full(workload.queries, -np.inf), np.full(workload.queries, np.inf)
    if not terms.nonnegative:
        return low, high
    for part, places in workload.placed():
        if not part.tabular:
            low[places], high[places] = _of_rows(terms, part)
    for part, term, own in tables_of(workload):
        low[own], high[own] = np.stack(_of_term(terms, part, term)).reshape(2, -1)
    return low, high


def tables_of(workload: Workload) -> Iterator[tuple[Workload, Term, Integers]]:
    """Of every table of a workload its part and term, and where its numbers are among all answers."""
    for part, places in workload.placed():
        start = 0
        for term in part.terms() if part.tabular else ():
            stop = start + math.prod(asked.rows for _, asked in term)
            yield part, term, places[start:stop]
            start = stop


def _of_term(terms: Terms, workload: Workload, term: Term) -> tuple[Floats, Floats]:
    """Of a table of sums of cells: each fact bounds it by its margin on the attributes that both have."""
    shape, members = [asked.rows for _, asked in term], [i for i, _ in term]
    low, high = np.full(shape, -np.inf), np.full(shape, np.inf)
    if not all(asked.plain or asked.indicators for _, asked in term):
        return low, high
    low[...] = 0.0
    for fact in terms.public:
        shared = tuple(i for i in members if i in fact.members)
        most = applied([(i, asked) for i, asked in term if i in shared], fact.margin(shared))
        most = most.reshape([rows if i in shared else 1 for i, rows in zip(members, shape, strict=True)])
        np.minimum(high, most, out=high)
        if len(shared) == len(members):
            low[...] = most
    mask = impossible_cells(workload.domain, [workload.domain.names[i] for i in members])
    if mask is not None:
        nobody = applied(term, (~mask).astype(np.float64)) == 0.0
        low[nobody] = high[nobody] = 0.0
    return low, high


def _of_rows(terms: Terms, workload: Workload) -> tuple[Floats, Floats]:
    """Of combinations of cells: none is negative where no coefficient is; all records are in one cell at the most."""
    rows = workload.matrix
    least, most = (np.asarray(each.toarray()).ravel() for each in (rows.min(axis=1), rows.max(axis=1)))
    total = min((float(fact.margin(())) for fact in terms.public), default=np.inf)
    with np.errstate(invalid="ignore"):
        low, high = (np.where(end == 0, 0.0, end * total) for end in (least, most))
    return np.minimum(low, 0.0), np.maximum(high, 0.0)
