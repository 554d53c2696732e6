"""How far estimates over a tree with Laplace noise stray: one by one where they are few, by bounds where they are many.

An answer q has the coefficient `τ Cov(q, e)` at each node, e the node's error, so that the node's share in the variance
of q is `τ Cov(q, e)²/Var q`: τ V for a node's own estimate, at most τ V for any other. A prefix or range is `A e + ξ`
in every node, `0 ≤ A ≤ 1`, and with `D = Cov(q, e) − A u` it is `Cov(q, e_c) = k_c D + z_c A_c` for a child and
`D_c = k_c D − (u_c − z_c) A_c`: D is never positive, so that `|Cov(q, e_c)|` is at most z_c or k_c |D|, from the root
down. Bounds on the largest share are all that `mixed_reach` and `ruled_reach` need.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from residua.linalg.arrays import Floats
from residua.plans.operators.nesting import AnyRows, Nodes, Runs, TreeRows
from residua.plans.tails import known_reaches, mixed_reach, ruled_reach

_MOST_COEFFICIENTS, _FEW_COEFFICIENTS = 2**25, 2**23  # of listed rows; of prefixes and ranges, which have a bound


def reaches(tree: Any, rows: TreeRows, chance: float) -> Floats:
    """How many standard deviations each answer may stray, but for this chance, (rows,)."""
    levels = range(tree.start, tree.nesting.root + 1)
    count = rows.count(tree.nesting)
    coefficients = count * sum(tree.nesting.sizes[level] for level in levels)
    own, most = shares(tree), tree.largest_share
    if isinstance(rows, Nodes) and rows.level >= tree.start:
        share = rows.picked(own[rows.level - tree.start])
        return np.minimum(mixed_reach(np.full(len(share), most), chance), ruled_reach(share, chance))
    if isinstance(rows, Runs):
        if coefficients > _FEW_COEFFICIENTS:
            return mixed_reach(np.minimum(_largest(tree) / tree.variances_along(rows), most), chance)
        rows = AnyRows(rows.given())
    if coefficients > _MOST_COEFFICIENTS or not isinstance(rows, AnyRows):
        return mixed_reach(np.full(count, most), chance)
    return known_reaches(_coefficients(tree, rows), chance)


def shares(tree: Any) -> list[Floats]:
    """Of each level, the share of every node's own noise in the variance of its estimate, (nodes,)."""
    levels = range(tree.start, tree.nesting.root + 1)
    return [tree.precisions_of(level) * tree.of_nodes(level, tree.solved.V) for level in levels]


def _largest(tree: Any) -> float:
    """At least `τ Cov(q, e)²` of any prefix or range q and any node."""
    solved, start = tree.solved, tree.start
    below = float(solved.u[-1][0] - solved.V[-1][0])  # at least −D of any node of the level above
    largest = float(tree.precisions_of(tree.nesting.root)[0]) * float(solved.V[-1][0]) ** 2
    for level in range(tree.nesting.root - 1, start - 1, -1):
        k, z = float(tree.of_nodes(level, solved.k).max()), tree.of_nodes(level, solved.z)
        most = max(float(z.max()), k * below)
        largest = max(largest, float(tree.precisions_of(level).max()) * most**2)
        below = k * below + (float((solved.u[level - start] - z).max()) if level > start else 0.0)
    return largest


def _coefficients(tree: Any, rows: AnyRows) -> Floats:
    """`√τ Cov(q, e)` of every measured node, (nodes, rows): their squares add up to the variance."""
    start = tree.injected(rows)
    nesting, solved = tree.nesting, tree.solved
    if start is None:
        return np.full((1, len(rows.given)), np.inf)
    above = [start[1]]
    for level in range(tree.start, nesting.root):
        pushed = np.zeros((nesting.sizes[level + 1], len(rows.given)))
        np.add.at(pushed, nesting.parents[level], above[-1] * tree.of_nodes(level, solved.k)[:, None])
        above.append(pushed)
    covariance = above[-1] * float(solved.V[-1][0])
    coefficients = [covariance * np.sqrt(tree.precisions_of(nesting.root))[:, None]]
    for level in range(nesting.root - 1, tree.start - 1, -1):
        parent, A = nesting.parents[level], above[level - tree.start]
        k, z = (tree.of_nodes(level, each)[:, None] for each in (solved.k, solved.z))
        covariance = k * covariance[parent] + z * (A - above[level + 1 - tree.start][parent])
        coefficients.append(covariance * np.sqrt(tree.precisions_of(level))[:, None])
    return np.concatenate(coefficients)
