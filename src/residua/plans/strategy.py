"""What is measured of one attribute: an integer matrix R beside the total, and how the values follow from both.

Each attribute's space is split by a spread vector v with `1ᵀv = 1` and `R v = 0`: a table is `x = v (1ᵀx) + F R x`, its
total spread by v and the rest, which R measures. `[v, F]` is the pseudo-inverse of `[1ᵀ; R]`. The plain split of
residual plans is `v = 1/n`, `R = n I − 11ᵀ`; any other integer R has its own v. Facts are those of the integers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from residua.errors import PlanError

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
SUPPORT_TOLERANCE = 1e-9  # a row this close (relative) to the measured space is in it


@dataclass(frozen=True, eq=False)
class Strategy:
    """An attribute's integer matrix R, (r, n).

    Args:
        size: n, how many values the attribute has.
        rows: R; None for `n I − 11ᵀ`, the plain residual, which answers every value alike.
    """

    size: int
    rows: Integers | None = None

    def __post_init__(self) -> None:
        if self.rows is None:
            return
        rows = np.array(self.rows, dtype=np.int64)
        if rows.ndim != 2 or rows.shape[1] != self.size or len(rows) >= max(self.size, 1):
            raise PlanError(f"a strategy has shape {rows.shape}; it needs {self.size} columns and fewer rows.")
        rows.setflags(write=False)
        object.__setattr__(self, "rows", rows)
        if len(rows) and np.linalg.matrix_rank(self._stack) < len(rows) + 1:
            raise PlanError("the rows of a strategy depend on each other or on the total; plan again.")

    @property
    def identity(self) -> bool:
        """Whether this is the plain residual."""
        return self.rows is None

    @property
    def count(self) -> int:
        """r: how many integers are measured along this attribute."""
        return self.size if self.rows is None else len(self.rows)

    @cached_property
    def matrix(self) -> Integers:
        """R itself, (r, n)."""
        if self.rows is not None:
            return self.rows
        return self.size * np.eye(self.size, dtype=np.int64) - 1

    @cached_property
    def norm(self) -> int:
        """`max_j ‖R e_j‖²`, exactly."""
        if self.rows is None:
            return self.size * (self.size - 1)
        return max(column_norms(self.rows), default=0)

    @property
    def largest(self) -> int:
        """No entry of R is larger in absolute value."""
        return self.size if self.rows is None else max(_largest(self.rows), 1)

    @cached_property
    def unit(self) -> float:
        """What R is divided by before precisions are stated: n for the plain residual, else its largest column norm."""
        return float(self.size) if self.rows is None else math.sqrt(self.norm) or 1.0

    @property
    def cost(self) -> float:
        """`max_j ‖R e_j‖² / unit²`: privacy cost of measuring R/unit with noise of variance 1."""
        return 1.0 - 1.0 / self.size if self.rows is None else float(self.norm > 0)

    @cached_property
    def least(self) -> float:
        """`min_jk (RᵀR)_jk / (unit² cost)`: how far apart two values can be, for the cost of replacements."""
        if self.cost == 0:
            return 0.0
        R = self.matrix / self.unit
        return float((R.T @ R).min()) / self.cost

    @cached_property
    def spread(self) -> Floats:
        """v: how the total is spread over the values, (n,)."""
        return np.full(self.size, 1.0 / self.size) if self.rows is None else self._inverse[:, 0].copy()

    @cached_property
    def recovery(self) -> Floats:
        """F: what turns measurements into values, beside the total's spread, (n, r)."""
        if self.rows is None:
            return np.asarray((np.eye(self.size) - 1.0 / self.size) / self.size)
        return self._inverse[:, 1:] / self.unit

    @cached_property
    def inverse(self) -> Floats:
        """`K = unit² F Fᵀ`: covariances of the rests when R/unit is measured with noise of variance 1, (n, n)."""
        F = self.recovery * self.unit
        return np.asarray(F @ F.T)

    def outside(self, rows: Floats) -> Floats:
        """How much of each row lies outside what is measured, relative to its length, (rows,)."""
        if self.rows is None or self.count == self.size - 1:
            return np.zeros(len(rows))
        rest = rows - (rows @ self._inverse) @ self._stack
        return np.asarray(np.linalg.norm(rest, axis=1) / np.maximum(np.linalg.norm(rows, axis=1), 1e-300))

    def apply(self, tables: Integers, axis: int) -> Integers:
        """R along one axis of integer tables, exactly. True counts: for the measuring step."""
        moved = np.moveaxis(tables, axis, -1)
        plain = self.rows is None
        found = self.size * moved - moved.sum(axis=-1, keepdims=True) if plain else moved @ self.matrix.T
        return np.ascontiguousarray(np.moveaxis(found, -1, axis))

    @cached_property
    def _stack(self) -> Floats:
        return np.vstack([np.ones((1, self.size)), self.matrix / self.unit])

    @cached_property
    def _inverse(self) -> Floats:
        return np.asarray(np.linalg.pinv(self._stack), dtype=np.float64)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Strategy) and (
            self.size == other.size and self.identity == other.identity and np.array_equal(self.matrix, other.matrix)
        )

    def __hash__(self) -> int:
        return hash((self.size, self.identity, None if self.rows is None else self.rows.tobytes()))

    def __repr__(self) -> str:
        return f"Strategy({'plain' if self.identity else f'{self.count} rows'}, {self.size} values)"


def column_norms(R: Integers) -> list[int]:
    """`Σ_k R_kj²` for every column, exactly."""
    if _largest(R) < 2**26 and len(R) < 2**10:
        return [int(norm) for norm in (R * R).sum(axis=0)]
    return [sum(int(entry) * int(entry) for entry in column) for column in R.T]


def _largest(R: Integers) -> int:
    """The largest entry in absolute value; `np.abs` would take −2^63 for a negative number."""
    return max(int(R.max(initial=0)), -int(R.min(initial=0)))
