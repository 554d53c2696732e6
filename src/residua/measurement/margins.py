"""From the counts of maximal sets down to those of every set below: summed, never counted again."""

from __future__ import annotations

import numpy as np

from residua.linalg.arrays import Integers
from residua.linalg.lattice import Lattice, closure
from residua.linalg.layout import Group, Layout, batches, layout_of

_BATCH_CELLS = 4_000_000


def maximal_layout(lattice: Lattice, sizes: Integers, measured: Integers) -> Layout:
    """The sets that must be counted from data: those measured that no other measured set contains."""
    rows = [
        level[np.isin(np.arange(lattice.offsets[k], lattice.offsets[k + 1]), measured)]
        for k, level in enumerate(lattice.levels)
    ]
    needed = closure(rows, lattice.attributes)
    return layout_of(needed, sizes, needed.is_maximal)


def margins(counted: Layout, tables: Integers, wanted: Layout) -> Integers:
    """The tables of all wanted sets, in their own layout, from the tables of maximal sets. (cells,)"""
    lattice, sizes = counted.lattice, counted.sizes
    everything = layout_of(lattice, sizes)
    buffer = np.empty(everything.cells, dtype=np.int64)
    parents, axes = _parents(lattice, sizes)
    place = {group.shape: group for group in everything}
    maximal = counted.starts >= 0
    for group in reversed(everything.groups):
        target = group.view(buffer).reshape(len(group.numbers), -1)
        here = np.flatnonzero(maximal[group.numbers])
        _gather(tables, counted.starts[group.numbers[here]], target, here)
        rest = np.flatnonzero(~maximal[group.numbers])
        for shape, axis, rows in _by_parent(parents[group.numbers[rest]], axes[group.numbers[rest]], lattice, sizes):
            above = place[shape]
            for part in batches(len(rows), above.cells, _BATCH_CELLS):
                chosen = rest[rows[part]]
                at = (everything.starts[parents[group.numbers[chosen]]] - above.start) // above.cells
                target[chosen] = above.view(buffer)[at].sum(axis=axis + 1).reshape(len(chosen), -1)
    return _picked(everything, buffer, wanted)


def _parents(lattice: Lattice, sizes: Integers) -> tuple[Integers, Integers]:
    """For each set, a set with one attribute more (−1 for none), the one with the fewest values, and its axis."""
    parents = np.full(len(lattice), -1, dtype=np.int64)
    added = np.zeros(len(lattice), dtype=np.int64)
    for i in np.argsort(-sizes, kind="stable"):
        with_i, without_i = lattice.covers[i]
        parents[without_i], added[without_i] = with_i, i
    axes = np.zeros(len(lattice), dtype=np.int64)
    for k, level in enumerate(lattice.levels):
        block = slice(lattice.offsets[k], lattice.offsets[k + 1])
        axes[block] = (level < added[block, None]).sum(axis=1)
    return parents, axes


def _by_parent(
    parents: Integers, axes: Integers, lattice: Lattice, sizes: Integers
) -> list[tuple[tuple[int, ...], int, Integers]]:
    """Rows whose parents have one shape and lose the same axis."""
    if not len(parents):
        return []
    size = int(lattice.set_sizes[parents[0]])
    shapes = sizes[lattice.levels[size][parents - lattice.offsets[size]]]
    keys, inverse = np.unique(np.column_stack([shapes, axes]), axis=0, return_inverse=True)
    return [
        (tuple(int(n) for n in key[:-1]), int(key[-1]), np.flatnonzero(inverse.ravel() == j))
        for j, key in enumerate(keys)
    ]


def _gather(tables: Integers, starts: Integers, target: Integers, rows: Integers) -> None:
    cells = target.shape[1]
    if len(rows) == len(target) and (np.diff(starts) == cells).all() and len(rows):
        target[:] = tables[starts[0] : starts[0] + target.size].reshape(target.shape)
        return
    for row, start in zip(rows.tolist(), starts.tolist(), strict=True):
        target[row] = tables[start : start + cells]


def _picked(everything: Layout, buffer: Integers, wanted: Layout) -> Integers:
    """The wanted tables, in the wanted order; the buffer itself when that is already so."""
    if wanted.cells == everything.cells and wanted.lattice.same_sets(everything.lattice):
        return buffer
    picked = np.empty(wanted.cells, dtype=np.int64)
    for group in wanted:
        numbers = everything.lattice.find(group.members)
        _gather(buffer, everything.starts[numbers], _flat(group, picked), np.arange(len(numbers)))
    return picked


def _flat(group: Group, buffer: Integers) -> Integers:
    return group.view(buffer).reshape(len(group.numbers), -1)
