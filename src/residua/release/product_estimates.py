"""From integer measurements of a product plan back to marginals: unbiased on all it measures, all tables consistent.

`m̂_A = Σ_{S⊆A} (⊗_{i∈S} F_i ⊗_{i∈A∖S} v_i) y_S / t_S`, facet by facet: the table of `⊗F_i y_A / t_A`, then along
each axis `x ← x + (margin − Σ x) v_i` in turn. With identities this is the reconstruction of residual plans (v = 1/n).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from residua.linalg.modes import kronecker
from residua.plans.lattice.blocks import ProductBlocks

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ProductEstimator:
    """Reads marginals off integer measurements.

    Args:
        blocks: what was measured, and on which grid.
        measurements: the noisy integers in the order of `blocks.layout`, (cells,).
    """

    blocks: ProductBlocks
    measurements: NDArray[np.int64] | Floats

    @cached_property
    def _grids(self) -> Floats:
        """t_S of every set of the family; 0 where nothing is measured."""
        grids = np.zeros(len(self.blocks.lattice))
        grids[self.blocks.measured] = self.blocks.grids
        return grids

    def marginal(self, members: tuple[int, ...]) -> Floats:
        """The estimate of one marginal, (n_1, …, n_k), attributes in the domain's order.

        What no measurement sees counts as zero: the cells themselves are unbiased only where the plan supports them,
        queries of them wherever it supports those.
        """
        known: dict[tuple[int, ...], Floats] = {}
        for size in range(len(members) + 1):
            for subset in combinations(members, size):
                table = self.part(subset)
                for axis, i in enumerate(subset):
                    margin = known[subset[:axis] + subset[axis + 1 :]] - table.sum(axis=axis)
                    along = [-1 if a == axis else 1 for a in range(size)]
                    table = table + np.expand_dims(margin, axis) * self.blocks.strategies[i].spread.reshape(along)
                known[subset] = table
        return known[members]

    def part(self, subset: tuple[int, ...]) -> Floats:
        """`(⊗ F_i) y_S / t_S`: what the block on S adds to what its facets tell, (n_1, …, n_k).

        This is the estimate in the space of residuals, for those who adjust it there (projections).
        """
        blocks = self.blocks
        number = int(blocks.lattice.find(np.array(subset, dtype=np.int32).reshape(1, -1))[0])
        start = int(blocks.layout.starts[number]) if number >= 0 else -1
        if start < 0:
            return np.zeros([int(blocks.sizes[i]) for i in subset])
        shape = [int(blocks.rows[i]) for i in subset]
        y = self.measurements[start : start + int(np.prod(shape))].reshape(1, *shape)
        recoveries = [blocks.strategies[i].recovery for i in subset]
        return np.asarray(kronecker(recoveries, y / self._grids[number])[0])
