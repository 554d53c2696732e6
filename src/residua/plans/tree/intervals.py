"""How far estimates over a tree with Laplace noise stray: one by one where they are few, by bounds where they are many.

An answer q has the coefficient `τ Cov(q, e)` at each node, e the node's error, so that the node's share in the variance
of q is `τ Cov(q, e)²/Var q`: τ V for a node's own estimate, at most τ V for any other. A prefix or range is `A e + ξ`
in every node, `0 ≤ A ≤ 1`, and with `D = Cov(q, e) − A u` it is `Cov(q, e_c) = k_c D + z_c A_c` for a child and
`D_c = k_c D − (u_c − z_c) A_c`: D is never positive, so that `|Cov(q, e_c)|` is at most z_c or k_c |D|, from the root
down. Bounds on the largest share are all that `mixed_reach` and `ruled_reach` need.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from residua.linalg.arrays import Floats
from residua.plans.questions import combined, in_one_table
from residua.plans.reading import Answerable
from residua.plans.tails import check_confidence, known_reaches, mixed_reach, ruled_reach
from residua.plans.tree.facts import SetFacts
from residua.plans.tree.rows import AnyRows, Nodes, Runs, TreeRows, terms_of, tree_rows

_MOST_COEFFICIENTS, _FEW_COEFFICIENTS = 2**25, 2**23  # of listed rows; of prefixes and ranges, which have a bound


def laplace_widths(plan: Any, blocks: Any, asked: Answerable, confidence: float, together: float) -> Floats:
    """How many standard deviations the interval of each number reaches, flat.

    Guarantee: an interval holds the truth with at least the confidence stated; several at once by the union bound.

    Args:
        plan: the plan as it was measured.
        blocks: what was measured.
        asked: what the numbers are.
        confidence: of one interval.
        together: how many are to hold at once.
    """
    check_confidence(confidence)
    miss = (1.0 - confidence) / together
    facts: SetFacts = plan.facts[0]
    found = [_widths(facts, rows, count, miss) for rows, count in _rows(plan, asked)]
    # Each noise is within 1/2 of its Laplace variable; by Cauchy and Schwarz, in standard deviations.
    scales = [float(each.min()) for each in blocks.sets[0].scales if len(each)]
    return np.concatenate(found) + math.sqrt(blocks.cells / 8) / min(scales)


def _rows(plan: Any, asked: Answerable) -> list[tuple[TreeRows | None, int]]:
    """What is asked along the tree; None where it is crossed with other attributes."""
    nesting = plan.nesting
    if isinstance(asked, tuple):
        return [(Nodes(0), nesting.sizes[0])] if asked else [(Nodes(nesting.root), 1)]
    if isinstance(asked, Mapping):
        return [_table(plan, *in_one_table(plan.domain, combined(plan.domain, asked)))]
    if not asked.tabular:
        attributes = tuple(sorted({*asked.attributes, plan.attribute}))
        listed = asked.over(attributes)
        if attributes == (plan.attribute,) and listed.shape[0] * listed.shape[1] <= _MOST_COEFFICIENTS:
            return [(AnyRows(listed.toarray()), asked.queries)]
        shape = [int(plan.domain.sizes[i]) for i in attributes]
        return [_table(plan, attributes, listed[[k]].toarray().reshape(shape)) for k in range(asked.queries)]
    found: list[tuple[TreeRows | None, int]] = []
    for term, _ in terms_of(asked):
        others = math.prod(queries.rows for i, queries in term.items() if i != plan.attribute)
        for rows in tree_rows(term.get(plan.attribute), nesting):
            count = rows.count(nesting)
            found.append((rows, count) if others == 1 else (None, count * others))
    return found


def _table(plan: Any, members: tuple[int, ...], table: Floats) -> tuple[TreeRows, int]:
    parts = plan.projected(members, table)
    return AnyRows(parts[0][1] if parts else np.zeros((1, plan.nesting.sizes[0]))), 1


def _widths(facts: SetFacts, rows: TreeRows | None, count: int, miss: float) -> Floats:
    levels = range(facts.start, facts.nesting.root + 1)
    nodes = sum(facts.nesting.sizes[level] for level in levels)
    own = [facts.precisions_of(level) * facts.of_nodes(level, facts.solved.V) for level in levels]
    most = max(float(each.max()) for each in own)
    if isinstance(rows, Nodes) and rows.level >= facts.start:
        share = rows.picked(own[rows.level - facts.start])
        return np.minimum(mixed_reach(np.full(len(share), most), miss), ruled_reach(share, miss))
    if isinstance(rows, Runs):
        if nodes * count > _FEW_COEFFICIENTS:
            return mixed_reach(np.minimum(_largest(facts) / facts.variances(rows), most), miss)
        rows = AnyRows(rows.given())
    if rows is None or nodes * count > _MOST_COEFFICIENTS:
        return mixed_reach(np.full(count, most), miss)
    assert isinstance(rows, AnyRows)
    return known_reaches(_coefficients(facts, rows), miss)


def _largest(facts: SetFacts) -> float:
    """At least `τ Cov(q, e)²` of any prefix or range q and any node."""
    solved, start = facts.solved, facts.start
    below = float(solved.u[-1][0] - solved.V[-1][0])  # at least −D of any node of the level above
    found = float(facts.precisions_of(facts.nesting.root)[0]) * float(solved.V[-1][0]) ** 2
    for level in range(facts.nesting.root - 1, start - 1, -1):
        k, z = float(facts.of_nodes(level, solved.k).max()), facts.of_nodes(level, solved.z)
        most = max(float(z.max()), k * below)
        found = max(found, float(facts.precisions_of(level).max()) * most**2)
        below = k * below + (float((solved.u[level - start] - z).max()) if level > start else 0.0)
    return found


def _coefficients(facts: SetFacts, rows: AnyRows) -> Floats:
    """`√τ Cov(q, e)` of every measured node, (nodes, rows): their squares add up to the variance."""
    start = facts.injected(rows)
    nesting, solved = facts.nesting, facts.solved
    if start is None:
        return np.full((1, len(rows.given)), np.inf)
    above = [start[1]]
    for level in range(facts.start, nesting.root):
        pushed = np.zeros((nesting.sizes[level + 1], len(rows.given)))
        np.add.at(pushed, nesting.parents[level], above[-1] * facts.of_nodes(level, solved.k)[:, None])
        above.append(pushed)
    covariance = above[-1] * float(solved.V[-1][0])
    found = [covariance * np.sqrt(facts.precisions_of(nesting.root))[:, None]]
    for level in range(nesting.root - 1, facts.start - 1, -1):
        parent, A = nesting.parents[level], above[level - facts.start]
        k, z = (facts.of_nodes(level, each)[:, None] for each in (solved.k, solved.z))
        covariance = k * covariance[parent] + z * (A - above[level + 1 - facts.start][parent])
        found.append(covariance * np.sqrt(facts.precisions_of(level))[:, None])
    return np.concatenate(found)
