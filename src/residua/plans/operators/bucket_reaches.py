"""How far estimates over runs stray: one by one where they are few, by bounds where they are many.

An answer `vᵀx` has the coefficients `R C w/σ²` on what a run measures, v what is asked of its parts, `s = vᵀa`,
`w = v − s 1 + β 1`, β = s in the run of all values and `(C w)_c/u_c` in part c of a run. Their squares times σ² add up
to the variance, and the largest share of one of them is all that `mixed_reach` needs: at most the leverage of any row,
`R Cov(parts) Rᵀ/σ²` (Cauchy and Schwarz). Of a running sum, v is `(1, …, 1, κ, 0, …)` in the runs where it ends, and a
multiple of 1 in all others, so that β, from the top down, and with it every coefficient, is bounded level by level.
"""

from __future__ import annotations

import numpy as np

from residua.linalg.arrays import Floats
from residua.machine import csr_array
from residua.plans.operators.bucket_squares import BucketSquares, over_values
from residua.plans.operators.contract import running_rows
from residua.plans.tails import known_reaches, mixed_reach, ruled_reach
from residua.workload import AttributeQueries, Identity

_WHOLE = ("prefixes", "ranges", "values")
_MOST_COEFFICIENTS = 2**24


def reaches(solved: BucketSquares, asked: AttributeQueries | None, rows: csr_array, chance: float) -> Floats:
    """How many standard deviations the error of each row asked may stray, but for this chance, (rows,)."""
    count, n = 1 if asked is None else asked.rows, solved.shape.size
    if count * n <= _MOST_COEFFICIENTS or asked is None or asked.along not in _WHOLE:
        return row_reaches(solved, rows, chance)
    most = largest_leverage(solved)
    if asked.plain:
        return np.minimum(mixed_reach(np.full(count, most), chance), ruled_reach(own_shares(solved), chance))
    ends = 2.0 if asked.along == "ranges" else 1.0
    variances = solved.row_variances(rows)
    return mixed_reach(np.minimum((ends * largest_coefficient(solved)) ** 2 / variances, most), chance)


def row_reaches(solved: BucketSquares, rows: csr_array, chance: float) -> Floats:
    """The same for combinations of prefix sums, by their own coefficients where these are not too many."""
    count = rows.shape[0]
    if count * solved.shape.size > _MOST_COEFFICIENTS:
        return mixed_reach(np.full(count, largest_leverage(solved)), chance)
    return known_reaches(coefficients(solved, over_values(rows)), chance)


def coefficients(solved: BucketSquares, given: Floats) -> Floats:
    """Coefficients of what is measured times its noise's deviation, (cells, rows): squares add up to the variance.

    Args:
        solved: the runs.
        given: coefficients of the values, (n, rows).
    """
    shape, own, shares = solved.shape, [], []
    v = shape.padded(given)
    for number, level in enumerate(solved.levels):
        own.append(v)
        shares.append(np.einsum("ri,rik->rk", level.a[shape.kind_of(number)], v))
        if number + 1 < len(shape.parts):
            v = shares[-1].reshape(-1, shape.parts[number + 1], given.shape[1])
    beta, reached = shares[-1], []
    for number in range(len(own) - 1, -1, -1):
        level, kinds = solved.levels[number], shape.kind_of(number)
        spread = np.einsum("rij,rjk->rik", level.C[kinds], own[number] + (beta - shares[number])[:, None, :])
        reached.append(np.einsum("pi,rik->rpk", solved.rows[number], spread).reshape(-1, given.shape[1]))
        beta = (spread * level.below[kinds][:, :, None]).reshape(-1, given.shape[1])
    return np.concatenate(reached[::-1])


def largest_leverage(solved: BucketSquares) -> float:
    """The largest variance of an estimated row relative to its noise's: at least any share in any answer's variance."""
    variance = {0: float(solved.levels[-1].u[0])}  # of the total of a run of each kind
    most = 0.0
    for number in range(len(solved.levels) - 1, -1, -1):
        level, R, below = solved.levels[number], solved.rows[number], dict[int, float]()
        for kind, V in variance.items():
            known = level.given[kind] + V * np.multiply.outer(level.a[kind], level.a[kind])
            most = max(most, float(np.einsum("pi,ij,pj->p", R, known, R).max()))
            if number:
                for part, own in zip(solved.shape.part_kinds(number, kind).tolist(), np.diagonal(known), strict=True):
                    below[part] = max(below.get(part, 0.0), float(own))
        variance = below
    return min(most * (1.0 + 1e-9), 1.0)


def own_shares(solved: BucketSquares) -> Floats:
    """The share of the row that measures a value alone in the variance of that value, (n,)."""
    R, n = solved.rows[0], solved.shape.size
    alone = np.abs(R[(R != 0).sum(axis=1) == 1]).max(axis=0, initial=0.0)
    part = solved.shape.places(np.arange(n))[0][1]
    return np.asarray(alone[part] ** 2 * solved.row_variances(running_rows(Identity(n))))


def largest_coefficient(solved: BucketSquares) -> float:
    """At least any coefficient of any running sum, times its noise's deviation."""
    low, high = np.ones(2), np.ones(2)  # of κ, by kind of part
    bends: list[list[tuple[Floats, Floats]]] = []  # per level and kind: w without β at either end of κ, (b, parts)
    for number, level in enumerate(solved.levels):
        here, lows, highs = [], np.zeros(2), np.zeros(2)
        for kind in solved.shape.kinds(number):
            m = solved.shape.columns(number, kind)
            parts = solved.shape.part_kinds(number, kind) if number else np.zeros(m, dtype=np.int64)
            a, before = level.a[kind, :m], level.before[kind, :m]
            ends = []
            for kappa in (low[parts], high[parts]):
                v = np.tril(np.ones((m, m)), -1).T + np.diag(kappa)  # column c: a sum that ends in part c
                w = np.zeros((level.a.shape[1], m))
                w[:m] = v - (before + kappa * a)
                ends.append(w)
            here.append((ends[0], ends[1]))
            ends_told = np.stack([before + low[parts] * a, before + high[parts] * a])
            lows[kind], highs[kind] = ends_told.min(), ends_told.max()
        bends.append(here)
        low, high = lows, highs
    beta, most = float(max(abs(low[0]), abs(high[0]))), 0.0
    for number in range(len(solved.levels) - 1, -1, -1):
        level, R, below = solved.levels[number], solved.rows[number], 0.0
        for kind in solved.shape.kinds(number):
            own = R @ level.C[kind]
            whole = np.abs(own.sum(axis=1))
            bent = np.maximum(*(np.abs(own @ w).max(axis=1) for w in bends[number][kind]))
            most = max(most, float((bent + beta * whole).max()))
            spread = np.maximum(*(np.abs(level.C[kind] @ w).max(axis=1) for w in bends[number][kind]))
            spread = spread + beta * np.abs(level.C[kind].sum(axis=1))
            below = max(below, float((spread * level.below[kind]).max()))
        beta = below
    return most * (1.0 + 1e-9)
