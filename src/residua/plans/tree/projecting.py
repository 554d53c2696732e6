"""Between cells and a tree with short attributes: coefficients of cells as rows over values, and Γ over cells."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce

import numpy as np

from residua.linalg.arrays import Floats
from residua.plans.tree.facts import SetFacts
from residua.plans.tree.nesting import Nesting
from residua.plans.tree.rows import AnyRows
from residua.workload import Workload


def projected(
    attribute: int, values: int, members: tuple[int, ...], table: Floats
) -> list[tuple[tuple[int, ...], Floats]]:
    """Sets S of short attributes, with one row over the values for each cell of S, (cells of S, values).

    A combination is answered by the sum over S of the residual on S, contracted with the coefficients summed over
    the attributes outside S, relative to how many values these have, and centred along those in S.

    Args:
        attribute: the position of the attribute with levels.
        values: how many values it has.
        members: the table's attributes, increasing.
        table: the coefficients, one axis per attribute.
    """
    table = np.asarray(table, dtype=np.float64)
    if attribute in members:
        table = np.moveaxis(table, members.index(attribute), -1)
    else:
        table = np.broadcast_to(table[..., None], (*table.shape, values))
    short = tuple(i for i in members if i != attribute)
    found: list[tuple[tuple[int, ...], Floats]] = []
    for chosen in range(2 ** len(short)):
        part, inside = table, list[int]()
        for k in range(len(short) - 1, -1, -1):
            if chosen >> k & 1:
                inside.insert(0, short[k])
                part = part - part.mean(axis=k, keepdims=True)
            else:
                part = part.mean(axis=k)
        scale = max(float(np.abs(table).max(initial=0.0)), 1e-300)
        if float(np.abs(part).max(initial=0.0)) > 1e-13 * scale:
            found.append((tuple(inside), part.reshape(-1, values)))
    return found


def covariances_listed(attribute: int, sets: Sequence[SetFacts], first: Workload, second: Workload) -> Floats:
    """Covariances of explicit queries, all answerable, (queries of the first, queries of the second)."""
    one, other = (_listed(attribute, each) for each in (first, second))
    total = np.zeros((first.queries, second.queries))
    for facts in sets:
        if facts.members in one and facts.members in other:
            for a, b in zip(one[facts.members], other[facts.members], strict=True):
                total += facts.covariances(AnyRows(a), AnyRows(b))
    return total


def _listed(attribute: int, workload: Workload) -> dict[tuple[int, ...], Floats]:
    """Explicit queries as rows over the values, for each cell of each set that they need, (cells, queries, values)."""
    attributes = tuple(sorted({*workload.attributes, attribute}))
    shape = [int(workload.domain.sizes[i]) for i in attributes]
    matrix, listed = workload.over(attributes), dict[tuple[int, ...], Floats]()
    for number in range(workload.queries):
        table = matrix[[number]].toarray().reshape(shape)
        for members, rows in projected(attribute, shape[attributes.index(attribute)], attributes, table):
            room = listed.setdefault(members, np.zeros((len(rows), workload.queries, rows.shape[1])))
            room[:, number] = rows
    return listed


def over_cells(
    sets: Sequence[SetFacts], nesting: Nesting, attribute: int, attributes: tuple[int, ...], shape: Sequence[int]
) -> Floats:
    """Rows L with `LᵀL = Γ` over the cells of some attributes, the one with levels among them, (rows, cells)."""
    rows = [np.zeros((0, math.prod(shape)))]
    for facts in sets:
        for level in facts.measured():
            nodes = nesting.between(0, level) == np.arange(nesting.sizes[level])[:, None]
            along = nodes * np.sqrt(facts.precisions_of(level))[:, None]
            each = [
                along if i == attribute else np.eye(n) - 1.0 / n if i in facts.members else np.ones((1, n))
                for i, n in zip(attributes, shape, strict=True)
            ]
            rows.append(np.asarray(reduce(np.kron, each)))
    return np.concatenate(rows)
