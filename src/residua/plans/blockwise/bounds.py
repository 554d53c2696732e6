"""A proof against all plans: `loss · pcost ≥ (tr (Q^½ 𝕍 Q^½)^½)²` for any weights Q on cells, formed in coordinates.

With weights that are products of weights on each attribute's values, the inner products of coordinate functions are
products as well, and nothing is as large as the table of all cells. A few rounds raise the weights of values that the
response finds expensive; every round's bound holds, the largest counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product as crossed

import numpy as np

from residua.linalg.arrays import Floats, Integers, kronecker
from residua.plans.blockwise.facts import asked, in_classes
from residua.plans.levels import AttributeLevels, Block, below, closed, dimensions, places
from residua.workload import Workload

MOST_DIMENSIONS = 1500
_ROUNDS = 6


def gap_of_any(axes: Sequence[AttributeLevels], workload: Workload, achieved: float) -> float:
    """How far a weighted sum of variances, times pcost, is at most above any plan's; infinite where it is too large."""
    blocks = _blocks_of(axes, workload)
    if blocks is None or coordinates_of(axes, workload) > MOST_DIMENSIONS:
        return math.inf
    ends = np.cumsum([0, *(dimensions(axes, block) for block in blocks)])
    spans = {block: np.arange(ends[k], ends[k + 1]) for k, block in enumerate(blocks)}
    G = _gram(axes, workload, workload.query_weights, spans, int(ends[-1]))
    return max(achieved / _bound(axes, spans, G) - 1.0, 0.0)


def coordinates_of(axes: Sequence[AttributeLevels], workload: Workload) -> float:
    """How many coordinates the blocks of all that is asked have together; infinite where they are not worth listing."""
    blocks = _blocks_of(axes, workload)
    return math.inf if blocks is None else sum(dimensions(axes, block) for block in blocks)


def _blocks_of(axes: Sequence[AttributeLevels], workload: Workload) -> list[Block] | None:
    tops: set[Block] = set()
    for attributes, _, _ in asked(workload):
        tops.add(tuple((i, axes[i].depth) for i in attributes if axes[i].depth))
        if sum(math.prod(axes[i].starts[-1] for i, _ in top) for top in tops) > 4 * MOST_DIMENSIONS:
            return None
    return closed(tops)


def _gram(
    axes: Sequence[AttributeLevels], workload: Workload, weights: Floats, spans: dict[Block, Integers], size: int
) -> Floats:
    """The Gram matrix of all queries in coordinates, (coordinates, coordinates)."""
    G = np.zeros((size, size))
    for attributes, rows, at in asked(workload):
        rows, _ = in_classes(axes, attributes, rows)
        for axis, i in enumerate(attributes, start=1):
            rows = axes[i].coordinates(rows, axis)
        table = tuple((i, axes[i].depth) for i in attributes)
        listed = below(tuple((i, level) for i, level in table if level))
        here = np.concatenate([places(axes, table, block) for block in listed])
        there = np.concatenate([spans[block] for block in listed])
        flat = rows.reshape(len(rows), -1)[:, here]
        G[np.ix_(there, there)] += (flat * weights[at, None]).T @ flat
    return G


def _bound(axes: Sequence[AttributeLevels], spans: dict[Block, Integers], G: Floats) -> float:
    """The largest bound of a few rounds."""
    used = sorted({i for block in spans for i, _ in block})
    values = {i: axes[i].bases[-1] for i in used}  # (functions, classes)
    q = {i: np.full(values[i].shape[1], 1.0 / values[i].shape[1]) for i in used}
    best = 0.0
    for _ in range(_ROUNDS):
        inner = {i: (values[i] * q[i]) @ values[i].T for i in used}
        k, F = np.linalg.eigh(_assembled(axes, spans, inner, len(G)))
        k = np.maximum(k, k[-1] * 1e-13)
        root = (F * np.sqrt(k)) @ F.T
        w, E = np.linalg.eigh(root @ G @ root)
        w = np.sqrt(np.maximum(w, 0.0))
        best = max(best, float(w.sum()) ** 2)
        inverse = (F / np.sqrt(k)) @ F.T
        M = inverse @ ((E * w) @ E.T) @ inverse
        new = {}
        for i in used:
            x = np.einsum("aj,ab,bj->j", values[i], _paired(axes, spans, inner, M, i), values[i])
            grown = q[i] * np.maximum(x, 1e-12 * x.max())
            new[i] = grown / grown.sum()
        q = new
    return best


def _assembled(
    axes: Sequence[AttributeLevels], spans: dict[Block, Integers], inner: dict[int, Floats], size: int
) -> Floats:
    """Inner products of the coordinate functions of all blocks."""
    K = np.zeros((size, size))
    for (one, a), (other, b) in crossed(spans.items(), repeat=2):
        mine, its = dict(one), dict(other)
        spans_of = ((i, axes[i].span(mine.get(i, 0)), axes[i].span(its.get(i, 0))) for i in sorted({*mine, *its}))
        K[np.ix_(a, b)] = kronecker(inner[i][slice(*rows), slice(*columns)] for i, rows, columns in spans_of)
    return K


def _paired(
    axes: Sequence[AttributeLevels], spans: dict[Block, Integers], inner: dict[int, Floats], M: Floats, attribute: int
) -> Floats:
    """`Σ M ∘ ⊗_{j≠i} K_j`, summed over all coordinates but the attribute's own, (functions, functions) of it."""
    n = axes[attribute].starts[-1]
    gram = np.zeros((n, n))
    for (one, a), (other, b) in crossed(spans.items(), repeat=2):
        mine, its = dict(one), dict(other)
        order = sorted({*mine, *its})
        shape = [axes[i].span(mine.get(i, 0)) for i in order], [axes[i].span(its.get(i, 0)) for i in order]
        part = M[np.ix_(a, b)].reshape([e - s for s, e in shape[0]] + [e - s for s, e in shape[1]])
        rows, columns = (0, 1), (0, 1)
        at = 0
        for i, left, right in zip(order, *shape, strict=True):
            half = part.ndim // 2
            if i == attribute:
                rows, columns = left, right
                at += 1
                continue
            part = np.tensordot(inner[i][slice(*left), slice(*right)], part, axes=([0, 1], [at, half + at]))
        gram[slice(*rows), slice(*columns)] += part.reshape(rows[1] - rows[0], columns[1] - columns[0])
    return gram
