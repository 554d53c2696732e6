"""Consistent tables: the marginals of a family of sets, kept as residuals, so that they agree by construction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np

from residua.linalg.arrays import Floats, Integers
from residua.linalg.lattice import Lattice
from residua.linalg.layout import Layout, layout_of
from residua.projection.problem import Fit


@dataclass(frozen=True, eq=False)
class ConsistentTables(Fit):
    """What the projection of a release of marginals found.

    Args:
        lattice: the family of attribute sets whose tables can be read off.
        sizes: how many values each attribute has, (attributes,).
        residuals: `r_S = C_S m_S` of every set, in the order of the lattice's layout, (cells,).
        gap: how far the squared distance to the release is from the least possible, proven, in the metric's unit.
        infeasibility: the largest violation of non-negativity or of a zero, in counts.
    """

    lattice: Lattice
    sizes: Integers
    residuals: Floats
    gap: float
    infeasibility: float

    def __post_init__(self) -> None:
        if self.residuals.shape != (self.layout.cells,):
            raise ValueError("the residuals do not fit the sets; they belong to another projection.")
        if self.residuals.flags.writeable:
            self.residuals.setflags(write=False)

    @cached_property
    def layout(self) -> Layout:
        """Where each set's residual lies."""
        return layout_of(self.lattice, self.sizes)

    def supports(self, members: Sequence[int]) -> bool:
        """Whether the marginal on these attributes can be read off."""
        return self._number(members) >= 0

    def residual(self, members: Sequence[int]) -> Floats:
        """The residual of one set (positions, increasing)."""
        start = self.layout.starts[self._number(members)]
        shape = [int(self.sizes[i]) for i in members]
        return self.residuals[start : start + int(np.prod(shape, dtype=np.int64))].reshape(shape)

    def marginal(self, members: Sequence[int]) -> Floats:
        """`m_A = Σ_{S⊆A} spread(r_S) / Π_{i∈A∖S} n_i`: the marginal on these attributes (positions, increasing)."""
        members = tuple(members)
        table = np.zeros([int(self.sizes[i]) for i in members])
        for size in range(len(members) + 1):
            for subset in combinations(members, size):
                wide = [int(self.sizes[i]) if i in subset else 1 for i in members]
                spread = np.prod([float(self.sizes[i]) for i in members if i not in subset])
                table += self.residual(subset).reshape(wide) / spread
        return table

    @property
    def array(self) -> Floats:
        """What a saved projection keeps."""
        return self.residuals

    def _number(self, members: Sequence[int]) -> int:
        return int(self.lattice.find(np.array([list(members)], dtype=np.int32).reshape(1, -1))[0])


def centred(table: Floats) -> Floats:
    """`C_A m`: the table minus its mean along every axis in turn."""
    for axis in range(table.ndim):
        table = table - table.mean(axis=axis, keepdims=True)
    return table


def centred_each(tables: Floats) -> Floats:
    """Centres every table of a batch along each of its axes."""
    for axis in range(1, tables.ndim):
        tables = tables - tables.mean(axis=axis, keepdims=True)
    return tables
