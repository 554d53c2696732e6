"""What is measured of one block: integer rows over the cells of its table, and what follows from them alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from residua.errors import PlanError
from residua.linalg.arrays import Floats, Integers
from residua.linalg.modes import column_norms, largest_entry
from residua.plans.levels import Axis, Block, below, dimensions, in_coordinates, places, shape_of

_SINGULAR = 1e-13  # of the largest singular value: rows that depend on each other and on the blocks below
_MOST_PAIRS = 4096  # cells up to which the inner products of all pairs of columns are formed


@dataclass(frozen=True, eq=False)
class Rows:
    """An integer measurement of a table.

    Args:
        rows: (coordinates of the block, cells of its table).
    """

    rows: Integers

    def __post_init__(self) -> None:
        self.rows.setflags(write=False)

    @cached_property
    def norms(self) -> list[int]:
        """`‖B e_j‖²` of every cell, exactly."""
        return column_norms(self.rows)

    @cached_property
    def norm(self) -> int:
        """`max_j ‖B e_j‖²`, exactly."""
        return max(self.norms, default=0)

    @cached_property
    def relative_norms(self) -> Floats:
        """The norms relative to the largest, (cells,)."""
        return np.array([norm / self.norm for norm in self.norms])

    @property
    def unit(self) -> float:
        """What the rows are divided by before precisions are stated: their largest column norm."""
        return math.sqrt(self.norm) or 1.0

    @property
    def largest(self) -> int:
        """No entry is larger in absolute value; at least 1."""
        return max(largest_entry(self.rows), 1)

    @cached_property
    def apart(self) -> int:
        """`max_jk ‖B e_j − B e_k‖²`, never less: what a record that changes can move."""
        if self.rows.shape[1] > _MOST_PAIRS:
            return 4 * self.norm
        inner = (self.rows.astype(np.float64).T @ self.rows.astype(np.float64)).min()
        # A sum of k products of floats is good to k 2^-53 of the largest norm; four times that makes up for it.
        least = math.floor(float(inner)) - (self.norm * len(self.rows) >> 51) - 1
        return min(4 * self.norm, 2 * self.norm - 2 * least)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rows) and np.array_equal(self.rows, other.rows)

    def __hash__(self) -> int:
        return hash((self.rows.shape, self.rows.tobytes()))


@dataclass(frozen=True, eq=False)
class Split:
    """Integer rows in coordinates: `B m = R r_b + S r_below`.

    Args:
        recovery: R⁻¹, (d, d).
        lower: S, (d, coordinates below).
    """

    recovery: Floats
    lower: Floats


def split(axes: Sequence[Axis], block: Block, measured: Rows) -> Split:
    """The rows of a block in coordinates.

    Raises:
        PlanError: rows of another shape, or rows that do not tell the block's coordinates.
    """
    d, cells = dimensions(axes, block), math.prod(shape_of(axes, block))
    if measured.rows.shape != (d, cells):
        raise PlanError(f"the rows of a block have shape {measured.rows.shape}, not {(d, cells)}; plan again.")
    inside = in_coordinates(axes, block, measured.rows / measured.unit)
    R = inside[:, places(axes, block, block)]
    found = np.linalg.svd(R, compute_uv=False)
    if not found[-1] > _SINGULAR * found[0]:
        raise PlanError("the rows of a block depend on each other or on the blocks below; plan again.")
    others = [places(axes, block, each) for each in below(block)[:-1]]
    return Split(np.asarray(np.linalg.inv(R)), inside[:, np.concatenate(others)] if others else np.zeros((d, 0)))
