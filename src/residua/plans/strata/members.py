"""One plan measured in many groups at once: how its tables are measured and read, the groups along the first axis.

A member is a plan over the whole domain that asks nothing of the attributes that make groups. In each group it measures
the group's own table; everything here has one row per group.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from residua.errors import PlanError
from residua.linalg.arrays import Floats, Integers
from residua.linalg.modes import integer_product
from residua.plans.blocks import Blocks
from residua.plans.blockwise.blocks import BlockwiseBlocks
from residua.plans.blockwise.facts import Split, split
from residua.plans.levels import Block, below, dimensions, places
from residua.plans.matrix.blocks import MatrixBlocks
from residua.plans.matrix.space import first_cells
from residua.plans.noise import NORMAL
from residua.plans.product.set_blocks import LatticeBlocks
from residua.plans.product.set_estimates import CrossedEstimator

T = TypeVar("T", bound=np.generic)


@dataclass(frozen=True, eq=False)
class Piece:
    """Some integers that a member measures of one table, with one noise scale.

    Args:
        attributes: the table, positions in the domain's order.
        start: where the integers begin among those of one group.
        cells: how many there are.
        scale: the noise scale.
    """

    attributes: tuple[int, ...]
    start: int
    cells: int
    scale: float


class Member(Protocol):
    """A plan's blocks, for many groups at once."""

    @property
    def pieces(self) -> Sequence[Piece]:
        """What is measured, table by table."""
        ...

    def integers(self, piece: Piece, tables: Integers) -> Integers:
        """What a piece measures of each group's table, exactly, (groups, cells). True counts."""
        ...

    def table(self, measured: Floats | Integers, attributes: tuple[int, ...]) -> Floats:
        """Each group's estimate of a table, (groups, n_1, …, n_k); what no measurement sees counts as zero."""
        ...


@dataclass(frozen=True, eq=False)
class LatticeMember:
    """A lattice plan: products of strategies along the axes of each table."""

    blocks: LatticeBlocks

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        """One for each measured set."""
        blocks = self.blocks
        found = []
        for number, scale in zip(blocks.measured.tolist(), blocks.scales.tolist(), strict=True):
            members = blocks.lattice.members(number)
            cells = math.prod(int(blocks.rows[i]) for i in members)
            found.append(Piece(members, int(blocks.layout.starts[number]), cells, scale))
        return tuple(found)

    def integers(self, piece: Piece, tables: Integers) -> Integers:
        """`t (⊗ R_i) m` of every group."""
        number = self.blocks.lattice.find(np.array([piece.attributes], dtype=np.int32).reshape(1, -1))[0]
        y = tables
        for axis, i in enumerate(piece.attributes, start=1):
            y = self.blocks.strategies[i].apply(y, axis)
        return np.asarray(y.reshape(len(tables), -1) * self.blocks.on_lattice[0][number])

    def table(self, measured: Floats | Integers, attributes: tuple[int, ...]) -> Floats:
        """Rebuilt from its blocks and those of its margins."""
        return CrossedEstimator(self.blocks, measured).marginal(attributes)


@dataclass(frozen=True, eq=False)
class MatrixMember:
    """A matrix plan: one integer matrix on merged cells."""

    blocks: MatrixBlocks

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        """All rows at once."""
        return (Piece(self.blocks.attributes, 0, len(self.blocks.strategy), self.blocks.scale),)

    def integers(self, piece: Piece, tables: Integers) -> Integers:
        """`B x` of every group."""
        merged = merged_cells(tables.reshape(len(tables), -1), self.blocks.columns, self.blocks.strategy.shape[1])
        return integer_product(merged, self.blocks.strategy.T)

    @cached_property
    def _recovery(self) -> Floats:
        """The pseudo-inverse of B: measurements to merged cells, (columns, rows)."""
        return np.linalg.pinv(self.blocks.strategy.astype(np.float64), rcond=1e-12)

    def table(self, measured: Floats | Integers, attributes: tuple[int, ...]) -> Floats:
        """Least squares; the sum of merged cells stands at the first of them, as queries that are answered allow."""
        blocks = self.blocks
        cells = np.zeros((len(measured), len(blocks.columns)))
        cells[:, first_cells(blocks.columns)] = np.asarray(measured, dtype=np.float64) @ self._recovery.T
        shape = [int(blocks.sizes[i]) for i in blocks.attributes]
        dropped = tuple(axis for axis, i in enumerate(blocks.attributes, start=1) if i not in attributes)
        own = cells.reshape(len(measured), *shape).sum(axis=dropped)
        found = np.zeros((len(measured), *(int(blocks.sizes[i]) for i in attributes)))
        # An attribute that is not measured is asked evenly, if at all: all may stand at its first value.
        found[(slice(None), *(slice(None) if i in blocks.attributes else 0 for i in attributes))] = own
        return found


@dataclass(frozen=True, eq=False)
class JointMember:
    """A blockwise plan: integer rows over the cells of each block's table."""

    blocks: BlockwiseBlocks

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        """One for each measured block."""
        blocks = self.blocks
        starts = blocks.starts.tolist()
        return tuple(
            Piece(tuple(i for i, _ in block), starts[k], len(blocks.rows[k].rows), scale)
            for k, (block, scale) in enumerate(zip(blocks.measured, blocks.scales.tolist(), strict=True))
        )

    def integers(self, piece: Piece, tables: Integers) -> Integers:
        """`B m` of every group."""
        number = int(np.searchsorted(self.blocks.starts, piece.start, side="right")) - 1
        return self.blocks.of_tables(number, tables)

    @cached_property
    def _splits(self) -> list[Split]:
        blocks = self.blocks
        pairs = zip(blocks.measured, blocks.rows, strict=True)
        return [split(blocks.axes, block, rows) for block, rows in pairs]

    def table(self, measured: Floats | Integers, attributes: tuple[int, ...]) -> Floats:
        """From coordinates, block by block, smallest first."""
        axes, starts = self.blocks.axes, self.blocks.starts
        table = tuple((i, axes[i].depth) for i in attributes)
        found = np.zeros((len(measured), math.prod(axes[i].starts[-1] for i in attributes)))
        known: dict[Block, Floats] = {}
        for k, (block, own) in enumerate(zip(self.blocks.measured, self._splits, strict=True)):
            y = np.asarray(measured[:, starts[k] : starts[k + 1]], dtype=np.float64) / self.blocks.rows[k].unit
            lower = [known.get(each, np.zeros((len(measured), dimensions(axes, each)))) for each in below(block)[:-1]]
            if lower:
                y = y - np.hstack(lower) @ own.lower.T
            known[block] = y @ own.recovery.T
            if {i for i, _ in block} <= set(attributes):
                found[:, places(axes, table, block)] = known[block]
        tensor = found.reshape(len(measured), *(axes[i].starts[-1] for i in attributes))
        for axis, i in enumerate(attributes, start=1):
            tensor = axes[i].values(tensor, axis)
        return np.asarray(tensor)


def merged_cells(tables: NDArray[T], columns: Integers, count: int) -> NDArray[T]:
    """Sums of the cells of each column, (groups, columns), from tables, (groups, cells)."""
    asked = np.flatnonzero(columns >= 0)
    ones = np.ones(len(asked), dtype=tables.dtype)
    merging = csr_array((ones, (columns[asked], asked)), shape=(count, len(columns)))
    found: NDArray[T] = (merging @ tables.T).T  # type: ignore[operator]  # SciPy's stubs know no whole numbers
    return np.ascontiguousarray(found)


def member_of(blocks: Blocks) -> Member:
    """Blocks of one group, for many groups.

    Raises:
        PlanError: blocks of a form that is not measured group by group.
    """
    if isinstance(blocks, LatticeBlocks):
        return LatticeMember(blocks)
    if isinstance(blocks, BlockwiseBlocks):
        return JointMember(blocks)
    if isinstance(blocks, MatrixBlocks) and blocks.noise == NORMAL:
        return MatrixMember(blocks)
    raise PlanError(
        "only plans of tables, products and queries with normal noise can be measured group by group; plan with ZCDP, "
        "GDP or ApproxDP, and without form=rs.Axis() or rs.Tree()."
    )
