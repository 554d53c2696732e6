"""Which marginals could be measured: those asked, the largest of them, everything below, or joint tables of several.

With an L1 budget a joint table can be cheaper than its parts: two binary attributes at `ε/2` each have variance
`8/ε²` per cell, their joint table at ε gives both margins variance `4/ε²`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from residua.linalg.arrays import Floats, Integers
from residua.linalg.lattice import Lattice, closure
from residua.workload import Marginals

_MOST_JOINT = 2**12  # cells of a joint table of several asked sets
_OPEN = 24  # groups that one more set may join
_MOST_GROUPED = 4096  # asked sets up to which groups are looked for
_FEW = 8  # attributes up to which every set of them may be measured


def families(workload: Marginals) -> tuple[Lattice, list[tuple[int, ...]]]:
    """The sets that may be measured, downward closed, and the joint tables among them that look promising."""
    groups = _grouped(workload)
    used = sorted({i for row in _asked(workload) for i in row})
    sizes = workload.domain.sizes
    extra = [np.array([group], dtype=np.int32).reshape(1, -1) for group in groups]
    if used and len(used) <= _FEW and math.prod(int(sizes[i]) for i in used) <= _MOST_JOINT:
        extra.append(np.array([used], dtype=np.int32))
    if not extra:
        return workload.lattice, []
    return closure([*workload.lattice.levels, *extra], len(sizes)), groups


def starts(
    workload: Marginals, lattice: Lattice, groups: list[tuple[int, ...]], numbers: Integers, masses: Floats
) -> Iterator[tuple[str, Floats]]:
    """Named first splits, (sets,): the cube-root rule on several choices of sets."""
    rule = np.zeros(len(lattice))
    rule[numbers] = np.cbrt(masses)
    yield "asked marginals", rule
    maximal = np.zeros(len(lattice))
    weight = np.zeros(len(lattice))
    weight[numbers] = masses
    top = workload.lattice.is_maximal
    places = np.concatenate([lattice.find(level) for level in workload.lattice.levels])[top]
    maximal[places] = np.cbrt(np.maximum(weight[places], masses.min()))
    if (maximal > 0).sum() < len(numbers) or not set(places.tolist()) <= set(numbers.tolist()):
        yield "largest marginals", maximal
    below = np.where(rule > 0, rule, 0.3 * rule.max())
    if (rule == 0).any():
        yield "all sets", below
    if groups:
        joint = np.zeros(len(lattice))
        for group in groups:
            joint[int(lattice.find(np.array([group], dtype=np.int32).reshape(1, -1))[0])] = 1.0
        yield "joint tables", joint


def _asked(workload: Marginals) -> list[tuple[int, ...]]:
    rows = list(workload.lattice)
    return [rows[number] for number in workload.numbers.tolist()]


def _grouped(workload: Marginals) -> list[tuple[int, ...]]:
    """Asked sets packed greedily into joint tables, while `Σ_groups (Σ masses · dilution)^(1/3)` falls."""
    if len(workload) > _MOST_GROUPED:
        return []
    sizes = [int(n) for n in workload.domain.sizes]
    groups: list[tuple[frozenset[int], list[tuple[frozenset[int], float]]]] = []
    order = sorted(
        zip(_asked(workload), workload.weights * workload.cells, strict=True), key=lambda pair: -len(pair[0])
    )
    merged = False
    for row, mass in order:
        item = [(frozenset(row), float(mass))]
        best, gain = -1, 0.0
        for place in range(max(0, len(groups) - _OPEN), len(groups)):
            joint, items = groups[place]
            union = joint | item[0][0]
            if math.prod(sizes[i] for i in union) > _MOST_JOINT:
                continue
            saved = _root(joint, items, sizes) + _root(item[0][0], item, sizes) - _root(union, items + item, sizes)
            if saved > gain * (1 + 1e-12) + 1e-12:
                best, gain = place, saved
        if best < 0:
            groups.append((item[0][0], item))
            continue
        joint, items = groups[best]
        merged = merged or not item[0][0] <= joint
        groups[best] = (joint | item[0][0], items + item)
    return [tuple(sorted(joint)) for joint, _ in groups] if merged else []


def _root(joint: frozenset[int], items: list[tuple[frozenset[int], float]], sizes: list[int]) -> float:
    """Cube root of what a joint table's items lose at epsilon 1."""
    return math.cbrt(sum(mass * math.prod(sizes[i] for i in joint - row) for row, mass in items))
