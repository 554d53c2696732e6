"""What is measured of one attribute: integers beside the total, and how the values follow from both.

Each attribute's space is split by a spread vector v with `1ᵀv = 1` and `R v = 0`: a table is `x = v (1ᵀx) + F R x`, its
total spread by v and the rest, which R measures. `[v, F]` is the pseudo-inverse of `[1ᵀ; R]`. The plain split of
marginals is `v = 1/n`, `R = n I − 11ᵀ`; any other integer R has its own v. Facts are those of the integers.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from residua.errors import PlanError
from residua.linalg.arrays import Floats, Integers, along, column_norms, contrasts, integer_product, largest_entry
from residua.plans.tolerances import SUPPORT_TOLERANCE
from residua.workload import AttributeQueries

MOST_VALUES = 4096  # of an attribute of which all pairs are compared


class WholeRows(ABC):
    """Integer rows R that are measured, and what follows from their columns."""

    @property
    @abstractmethod
    def matrix(self) -> Integers:
        """R itself, (r, n)."""

    @cached_property
    def norms(self) -> list[int]:
        """`‖R e_j‖²` of every column, exactly; one number where all are the same."""
        return column_norms(self.matrix)

    @cached_property
    def norm(self) -> int:
        """`max_j ‖R e_j‖²`, exactly."""
        return max(self.norms, default=0)

    @property
    def unit(self) -> float:
        """What R is divided by before precisions are stated: its largest column norm."""
        return math.sqrt(self.norm) or 1.0

    @property
    def largest(self) -> int:
        """No entry of R is larger in absolute value; at least 1."""
        return max(largest_entry(self.matrix), 1)


class Strategy(WholeRows):
    """An integer measurement R of one attribute's values, of shape (r, n).

    All follows from the matrix; strategies that know faster ways, or none by a matrix, say so.
    """

    plain: ClassVar[bool] = False  # whether this is the plain residual, `n I − 11ᵀ`, which treats all values alike
    size: int

    @property
    def tells(self) -> float:
        """How precisely a block along this attribute tells the one without it, at precision 1; 0: not at all."""
        return 0.0

    @property
    def count(self) -> int:
        """r: how many integers are measured along this attribute."""
        return len(self.matrix)

    @property
    def complete(self) -> bool:
        """Whether every row can be answered."""
        return self.count >= self.size - 1

    # ---- price, in whole numbers

    @cached_property
    def least_inner(self) -> int:
        """The least inner product of two columns of R, exactly; of very many values never more."""
        if self.size > MOST_VALUES:
            return -self.norm
        R = self.matrix.astype(object) if self.norm >= 2**62 else self.matrix  # no partial sum is larger than a norm
        return int((R.T @ R).min())

    @property
    def cost(self) -> float:
        """`max_j ‖R e_j‖² / unit²`: privacy cost of measuring R/unit with noise of variance 1."""
        return float(self.norm > 0)

    @cached_property
    def least(self) -> float:
        """`min_jk (RᵀR)_jk / (unit² cost)`: how far apart two values can be, for the cost of replacements."""
        return self.least_inner / self.unit**2 / self.cost if self.cost else 0.0

    # ---- measuring and reading

    def apply(self, tables: Integers, axis: int) -> Integers:
        """R along one axis of integer tables, exactly where it fits 64 bits. True counts: for the measuring step."""
        return np.moveaxis(integer_product(np.moveaxis(tables, axis, -1), self.matrix.T), -1, axis)

    def recover(self, measured: Floats, axis: int) -> Floats:
        """F along one axis: what the measurements say of the values, beside the total's spread."""
        return along(self.recovery, measured, axis)

    @cached_property
    def spread(self) -> Floats:
        """v: how the total is spread over the values, (n,); the first column of the pseudo-inverse."""
        return self._inverse[:, 0].copy()

    # ---- accuracy

    def variances(self, asked: AttributeQueries) -> tuple[Floats, Floats]:
        """`w K wᵀ` and `(w v)²` of every row asked, (rows,) each; infinite for rows outside what is measured.

        `K = unit² F Fᵀ`: covariances of the rests when R/unit is measured with noise of variance 1.
        """
        if not asked.indicators:
            d = np.square(asked.matrix() @ (self.recovery * self.unit)).sum(axis=1)
        else:
            d = _cleaned(asked.diagonal(self.inverse).copy(), asked.times(np.ones(self.size)))
        e = asked.times(self.spread) ** 2
        if not self.complete:
            lost = self.outside(asked.matrix()) > SUPPORT_TOLERANCE
            d[lost] = e[lost] = np.inf
        return d, e

    def covariances(self, rows: Floats, others: Floats) -> Floats:
        """`W K Uᵀ` for rows W and U, (rows of W, rows of U)."""
        return np.asarray(rows @ self.inverse @ others.T)

    def means(self, asked: AttributeQueries) -> tuple[float, float]:
        """The means of both parts of `variances`."""
        d, e = self.variances(asked)
        return float(d.mean()), float(e.mean())

    def asked_covariances(self, asked: AttributeQueries, other: AttributeQueries) -> Floats:
        """`covariances` of the rows asked."""
        return self.covariances(asked.matrix(), other.matrix())

    def weigh(self, tables: Floats, axis: int) -> Floats:
        """K along one axis of tables."""
        return along(self.inverse, tables, axis)

    def outside(self, rows: Floats) -> Floats:
        """How much of each row the pseudo-inverse does not give back, relative to its length, (rows,)."""
        if self.complete:
            return np.zeros(len(rows))
        rest = rows - (rows @ self._inverse) @ self._stack
        return np.asarray(np.linalg.norm(rest, axis=1) / np.maximum(np.linalg.norm(rows, axis=1), 1e-300))

    # ---- matrices, of attributes short enough for them

    @property
    def root(self) -> Floats:
        """Independent rows with the Gram matrix of `R/unit`, (rank, n)."""
        return np.asarray(self.matrix / self.unit)

    @cached_property
    def recovery(self) -> Floats:
        """F itself, (n, r): the rest of the pseudo-inverse."""
        return self._inverse[:, 1:] / self.unit

    @cached_property
    def inverse(self) -> Floats:
        """K itself, (n, n)."""
        F = self.recovery * self.unit
        return np.asarray(F @ F.T)

    @cached_property
    def _stack(self) -> Floats:
        return np.vstack([np.ones((1, self.size)), self.matrix / self.unit])

    @cached_property
    def _inverse(self) -> Floats:
        return np.asarray(np.linalg.pinv(self._stack), dtype=np.float64)

    # ---- files

    def to_body(self) -> dict[str, Any]:
        """The strategy as plain values: its rows."""
        return {"rows": self.matrix.tolist()}


@dataclass(frozen=True)
class Plain(Strategy):
    """The plain residual of an attribute with n values: `R = n I − 11ᵀ`, `v = 1/n`."""

    plain: ClassVar[bool] = True

    size: int

    @property
    def count(self) -> int:
        """n integers, of rank n − 1."""
        return self.size

    @property
    def norms(self) -> list[int]:
        """`n (n − 1)`, the same for all values."""
        return [self.size * (self.size - 1)]

    @property
    def least_inner(self) -> int:
        """Two columns have the inner product −n."""
        return -self.size

    @property
    def largest(self) -> int:
        """n."""
        return self.size

    @property
    def unit(self) -> float:
        """n, so that precisions are those of the centred table."""
        return float(self.size)

    @property
    def cost(self) -> float:
        """`κ = 1 − 1/n`."""
        return 1.0 - 1.0 / self.size

    def apply(self, tables: Integers, axis: int) -> Integers:
        """`n x − Σ x`."""
        return np.asarray(self.size * tables - tables.sum(axis=axis, keepdims=True))

    def recover(self, measured: Floats, axis: int) -> Floats:
        """Centred, over n."""
        return np.asarray((measured - measured.mean(axis=axis, keepdims=True)) / self.size)

    @cached_property
    def spread(self) -> Floats:
        """`1/n`."""
        return np.full(self.size, 1.0 / self.size)

    def variances(self, asked: AttributeQueries) -> tuple[Floats, Floats]:
        """`w K wᵀ = ‖w − mean‖²` and `(Σ w/n)²`."""
        if asked.plain:
            return np.full(self.size, self.cost), np.full(self.size, 1.0 / self.size**2)
        if not asked.indicators:
            centred = asked.matrix() - asked.matrix().mean(axis=1, keepdims=True)
            return np.square(centred).sum(axis=1), asked.times(self.spread) ** 2
        sums = asked.times(np.ones(self.size))  # their squares are the same
        return _cleaned(sums - sums**2 / self.size, sums), (sums / self.size) ** 2

    def covariances(self, rows: Floats, others: Floats) -> Floats:
        """`W K Uᵀ` with K centring."""
        return np.asarray(rows @ others.T - np.outer(rows.mean(axis=1), others.sum(axis=1)))

    @property
    def root(self) -> Floats:
        """Orthonormal contrasts."""
        return contrasts(self.size)

    @cached_property
    def matrix(self) -> Integers:
        """`n I − 11ᵀ`."""
        return self.size * np.eye(self.size, dtype=np.int64) - 1

    @cached_property
    def recovery(self) -> Floats:
        """`(I − 11ᵀ/n)/n`."""
        return np.asarray(self.inverse / self.size)

    @cached_property
    def inverse(self) -> Floats:
        """`I − 11ᵀ/n`."""
        return np.asarray(np.eye(self.size) - 1.0 / self.size)

    def to_body(self) -> dict[str, Any]:
        """No rows: they are known."""
        return {"rows": None}


@dataclass(frozen=True, eq=False)
class Rows(Strategy):
    """A strategy given by its integer rows.

    Args:
        size: n, how many values the attribute has.
        rows: R, (r, n), independent of each other and of the total.
    """

    size: int
    rows: Integers

    def __post_init__(self) -> None:
        rows = np.array(self.rows, dtype=np.int64)
        rows.setflags(write=False)
        object.__setattr__(self, "rows", rows)
        if rows.ndim != 2 or rows.shape[1] != self.size or len(rows) >= max(self.size, 1):
            raise PlanError(f"a strategy has shape {rows.shape}; it needs {self.size} columns and fewer rows.")
        if len(rows) and np.linalg.matrix_rank(self._stack) < len(rows) + 1:
            raise PlanError("the rows of a strategy depend on each other or on the total; plan again.")

    @property
    def matrix(self) -> Integers:
        """The rows."""
        return self.rows

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rows) and self.size == other.size and np.array_equal(self.rows, other.rows)

    def __hash__(self) -> int:
        return hash((self.size, self.rows.tobytes()))

    def __repr__(self) -> str:
        return f"Rows({self.count} rows, {self.size} values)"


OTHERS: dict[str, Callable[[Any, int], Strategy]] = {}  # what files call other strategies, and how they are read


def strategy_of_body(body: dict[str, Any], size: int) -> Strategy:
    """The strategy that plain values describe; a ValueError where they are not whole numbers."""
    for key, read in OTHERS.items():
        if key in body:
            return read(body[key], size)
    if body["rows"] is None:
        return Plain(size)
    rows: Any = np.array(body["rows"], dtype=object).reshape(len(body["rows"]), size)
    if not all(isinstance(entry, int) and abs(entry) < 2**62 for entry in rows.ravel()):
        raise ValueError("a strategy is not made of whole numbers")
    return Rows(size, rows.astype(np.int64))


def _cleaned(squares: Floats, sizes: Floats) -> Floats:
    """Squares of rows of zeros and ones, in which what is rounding beside the row's own is nothing."""
    return np.where(squares > 1e-12 * sizes, squares, 0.0)


def plain_strategies(sizes: Integers) -> tuple[Strategy, ...]:
    """The plain strategy of every attribute, the same object where sizes agree."""
    known = {int(n): Plain(int(n)) for n in np.unique(sizes)}
    return tuple(known[int(n)] for n in sizes)
