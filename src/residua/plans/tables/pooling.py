"""Pooling overlapping noisy tables: every residual gets the precision-weighted mean of all that say something of it.

A table A measured with variance v_A a cell says of residual S ⊆ A, through its margin on S, with precision
`(1/v_A) Π_{i∈A∖S} 1/n_i`. So `P_S = Σ_{A⊇S} (1/v_A) Π_{i∈A∖S} 1/n_i · margin_S(y_A)` over `τ_S`, the same sum without
the margins, has the pooled residual as its centred part: least squares, because residuals are orthogonal. The sum
over all supersets is one pass an attribute: `P_{A∖i} += (Σ_i P_A)/n_i`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from residua.linalg.arrays import Floats, Integers
from residua.linalg.lattice import Lattice
from residua.linalg.layout import Group, Layout, batches, layout_of
from residua.plans.tables.measured import MeasuredTables

Numbers = NDArray[np.int32]
_BATCH_CELLS = 1_000_000


@dataclass(frozen=True, eq=False)
class Pooled:
    """Pooled numbers of every residual of the family, for `Estimator`: `P_S`, to be divided by `units = τ_S`."""

    lattice: Lattice
    sizes: Integers
    layout: Layout
    measured: Integers
    units: Floats
    numbers: Floats


def pooled(tables: MeasuredTables, measurements: NDArray[Any]) -> Pooled:
    """What all measured tables together say of every residual."""
    layout = layout_of(tables.lattice, tables.domain.sizes)
    buffer = np.zeros(layout.cells)
    weights = tables.cell_precisions[tables.measured] / tables.grids
    place = np.searchsorted(tables.measured, np.arange(len(tables.lattice)))
    for group in tables.layout:
        target = layout.starts[group.numbers][:, None] + np.arange(group.cells)
        given = group.view(measurements).reshape(len(group.numbers), -1)
        buffer[target] = given * weights[place[group.numbers], None]
    owner = {int(number): group for group in layout for number in group.numbers}
    for i, (with_i, without_i) in enumerate(tables.lattice.covers):
        for group, rows in _by_group(with_i, owner):
            _pass_down(layout, buffer, group, with_i[rows], without_i[rows], i)
    tau = tables.pooled_precisions
    known = np.flatnonzero(tau > 0)
    return Pooled(tables.lattice, tables.domain.sizes, layout, known, tau[known], buffer)


def _by_group(numbers: Numbers, owner: dict[int, Group]) -> list[tuple[Group, Integers]]:
    """Sets by the group their tables are in."""
    found: dict[int, tuple[Group, list[int]]] = {}
    for row, number in enumerate(numbers.tolist()):
        group = owner[number]
        found.setdefault(group.start, (group, []))[1].append(row)
    return [(group, np.array(rows)) for group, rows in found.values()]


def _pass_down(layout: Layout, buffer: Floats, group: Group, above: Numbers, below: Numbers, i: int) -> None:
    """`P_{A∖i} += (Σ_i P_A)/n_i` for sets A of one shape."""
    rows = np.searchsorted(group.numbers, above)
    axes = (group.members[rows] == i).argmax(axis=1)
    for axis in np.unique(axes):
        chosen = np.flatnonzero(axes == axis)
        n = group.shape[axis]
        for part in batches(len(chosen), group.cells, _BATCH_CELLS):
            at = chosen[part]
            tables = group.view(buffer)[rows[at]].sum(axis=int(axis) + 1).reshape(len(at), -1) / n
            # For a fixed attribute the map A → A∖{i} is one-to-one, so no target is met twice.
            buffer[layout.starts[below[at]][:, None] + np.arange(group.cells // n)] += tables
