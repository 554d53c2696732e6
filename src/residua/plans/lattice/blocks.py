"""What a product plan really measures: integer tables and exact noise scales.

Block S is `y = t (⊗_{i∈S} R_i) m_S + round(s z)`, with R_i the integer strategy of attribute i. Priced by `verify.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from residua.linalg.layout import Group, Layout, layout_of
from residua.plans.lattice.blocks_base import GaussianBlocks, gridded
from residua.plans.lattice.plan import ProductPlan
from residua.plans.strategy import Strategy

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ProductBlocks(GaussianBlocks):
    """Integer measurements of products.

    Args:
        strategies: the integer matrix of each attribute.
        Others as for `LatticeBlocks`.
    """

    strategies: tuple[Strategy, ...] = ()

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """How many integers are measured along each attribute, (attributes,)."""
        return np.array([strategy.count for strategy in self.strategies], dtype=np.int64)

    @cached_property
    def layout(self) -> Layout:
        """Where each measured table, of shape (r_i), lies in the buffer of all measurements."""
        return layout_of(self.lattice, self.rows, self.chosen)

    @cached_property
    def counted(self) -> Layout:
        """Where each marginal behind a measured table, of shape (n_i), lies in a buffer of counts."""
        return layout_of(self.lattice, self.sizes, self.chosen)

    @cached_property
    def _kinds(self) -> NDArray[np.int64]:
        """A number for each attribute, the same where the strategy is the same, (attributes,)."""
        known = {strategy: number for number, strategy in enumerate(dict.fromkeys(self.strategies))}
        return np.array([known[strategy] for strategy in self.strategies], dtype=np.int64)

    def alike(self, group: Group) -> list[NDArray[np.int64]]:
        """The places of a group's tables that have the same strategies along the same axes, list by list."""
        rows = self._kinds[group.members]
        inverse = np.unique(rows, axis=0, return_inverse=True)[1].ravel() if rows.shape[1] else np.zeros(len(rows), int)
        order = np.argsort(inverse, kind="stable")
        return np.split(order, np.flatnonzero(np.diff(inverse[order])) + 1)

    @cached_property
    def units(self) -> Floats:
        """`t · Π_{i∈S} unit_i`: what one step of the integer grid stands for, inverted, (blocks,)."""
        units = np.array([strategy.unit for strategy in self.strategies])
        return np.asarray(self.grids * self.lattice.products(units)[self.measured])


def compile_product(plan: ProductPlan) -> ProductBlocks:
    """The integer measurements that realise a plan, with noise rounded up.

    Raises:
        VerificationError: nothing to measure, or noise too large or too small for exact integer sampling.
    """
    units = plan.lattice.products(np.array([strategy.unit for strategy in plan.strategies]))
    up = 2.0**-46  # a product of k ≤ 20 roots and factors
    measured, grids, scales = gridded(plan.domain, plan.lattice, plan.precisions, units, up)
    return ProductBlocks(plan.lattice, plan.domain.sizes, measured, grids, scales, plan.domain.drops, plan.strategies)
