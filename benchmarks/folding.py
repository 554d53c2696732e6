"""Many margins of one table at once, and many small tables added to a large one: axis by axis, each sum made once.

For the junction tree of the benchmark of AIM: a table of ten million cells with fifty measured margins is read some
five times, not fifty.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from residua.machine import compiled_loosely

Clique = tuple[int, ...]


@compiled_loosely
def _sum_middle(table: Any, out: Any) -> None:
    """Sums (p, n, m) over its middle axis into zeros (p, m)."""
    p, n, m = table.shape
    if m == 1:
        for i in range(p):
            whole = out[i, 0]
            for j in range(n):
                whole += table[i, j, 0]
            out[i, 0] = whole
    else:
        for i in range(p):
            for j in range(n):
                for k in range(m):
                    out[i, k] += table[i, j, k]


@compiled_loosely
def _add_middle(table: Any, part: Any) -> None:
    """Adds (p, m) to every slice of (p, n, m)."""
    p, n, m = table.shape
    for i in range(p):
        for j in range(n):
            for k in range(m):
                table[i, j, k] += part[i, k]


@compiled_loosely
def _scale_middle(table: Any, part: Any) -> None:
    """Multiplies every slice of (p, n, m) by (p, m)."""
    p, n, m = table.shape
    for i in range(p):
        for j in range(n):
            for k in range(m):
                table[i, j, k] *= part[i, k]


def _around(shape: tuple[int, ...], axis: int) -> tuple[int, int, int]:
    return math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])


def without(table: Any, own: Clique, i: int) -> tuple[Any, Clique]:
    """The table summed over one attribute, and its attributes."""
    axis = own.index(i)
    shape = _around(table.shape, axis)
    out = np.zeros((shape[0], shape[2]), dtype=table.dtype)
    _sum_middle(table.reshape(shape), out)
    return out.reshape(table.shape[:axis] + table.shape[axis + 1 :]), own[:axis] + own[axis + 1 :]


def margin(table: Any, own: Clique, kept: Clique) -> Any:
    """One margin, the longest axis first; both cliques sorted."""
    for i in sorted((i for i in own if i not in kept), key=lambda i: -table.shape[own.index(i)]):
        table, own = without(table, own, i)
    return table


def _longest(own: Clique, shape: tuple[int, ...], wanted: Collection[Clique]) -> int:
    free = [i for i in own if any(i not in clique for clique in wanted)]
    return max(free, key=lambda i: shape[own.index(i)])


def margins(table: Any, own: Clique, wanted: Collection[Clique]) -> dict[Clique, Any]:
    """All wanted margins of a table: of those without the longest axis, the table is summed over it, once."""
    found: dict[Clique, Any] = {}
    left = set(wanted)
    while left:
        if own in left:
            found[own] = table
            left.discard(own)
            continue
        i = _longest(own, table.shape, left)
        some = {clique for clique in left if i not in clique}
        found.update(margins(*without(table, own, i), some))
        left -= some
    return found


def add_all(table: Any, own: Clique, parts: Mapping[Clique, Any]) -> None:
    """Adds tables of some of the attributes, in place: those without the longest axis together, first."""
    left = dict(parts)
    while left:
        if own in left:
            table += left.pop(own)
            continue
        i = _longest(own, table.shape, left)
        axis = own.index(i)
        rest = own[:axis] + own[axis + 1 :]
        some = {clique: part for clique, part in left.items() if i not in clique}
        below = np.zeros(table.shape[:axis] + table.shape[axis + 1 :], dtype=table.dtype)
        add_all(below, rest, some)
        shape = _around(table.shape, axis)
        _add_middle(table.reshape(shape), below.reshape(shape[0], shape[2]))
        left = {clique: part for clique, part in left.items() if i in clique}


def scale(table: Any, own: Clique, part: Any, kept: Clique) -> None:
    """Multiplies a table by one of some of its attributes, in place."""
    lacking = sorted((i for i in own if i not in kept), key=lambda i: table.shape[own.index(i)])
    for i in lacking[:-1]:
        at = sum(1 for j in own if j < i and (j in kept))
        part = np.repeat(np.expand_dims(part, at), table.shape[own.index(i)], axis=at)
        kept = tuple(sorted((*kept, i)))
    if not lacking:
        table *= part
        return
    shape = _around(table.shape, own.index(lacking[-1]))
    _scale_middle(table.reshape(shape), np.ascontiguousarray(part).reshape(shape[0], shape[2]))
