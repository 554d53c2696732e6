"""The total of an attribute alone: the residual on short attributes, measured without it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csr_array

from residua.domain import Attribute
from residua.errors import VerificationError
from residua.linalg.arrays import Floats, Integers
from residua.plans.noise import INVISIBLE_SCALE, LARGEST_SCALE
from residua.plans.operators.contract import Operator, Piece, RecordCosts, require_power_of_two
from residua.plans.verifier import require_scales
from residua.workload import AttributeQueries

_NOTHING = 1e-12  # of a row's squared length: rounding
_MOST_ENTRIES = 2**22


@dataclass(frozen=True, eq=False)
class TotalAlone(Operator):
    """One number, whatever the attribute.

    Args:
        size: how many values the attribute has.
        variance: of the total.
    """

    kind: ClassVar[str] = "total"

    size: int
    variance: float

    @property
    def has_values(self) -> bool:
        """The total alone is measured."""
        return False

    # ---- accuracy

    def variances(self, asked: AttributeQueries | None) -> Floats:
        """Of rows that ask for a multiple of the total."""
        if asked is None:
            return np.array([self.variance])
        if asked.rows * self.size > _MOST_ENTRIES:
            return np.full(asked.rows, np.inf)
        return self.row_variances(csr_array(asked.matrix()))

    def covariances(self, asked: AttributeQueries | None, other: AttributeQueries | None) -> Floats:
        """Products of the multiples of the total."""
        shares = [np.ones(1) if each is None else each.times(np.ones(self.size)) / self.size for each in (asked, other)]
        return np.asarray(self.variance * np.multiply.outer(*shares))

    def row_variances(self, rows: csr_array) -> Floats:
        """Of rows that are the same for all values."""
        sums, squares = (np.asarray(each.sum(axis=1)).ravel() for each in (rows, rows * rows))
        apart = squares - sums**2 / self.size > _NOTHING * squares
        return np.where(apart, np.inf, self.variance * (sums / self.size) ** 2)

    def row_covariances(self, rows: csr_array, others: csr_array) -> Floats:
        """Products of the multiples of the total."""
        shares = [np.asarray(each.sum(axis=1)).ravel() / self.size for each in (rows, others)]
        return np.asarray(self.variance * np.multiply.outer(*shares))

    # ---- algebra

    def scaled(self, factor: float) -> TotalAlone:
        """Less variance, by the factor."""
        return TotalAlone(self.size, self.variance / factor)

    def ratio_to(self, other: Operator) -> float | None:
        """The ratio of variances."""
        return other.variance / self.variance if isinstance(other, TotalAlone) else None

    def root(self) -> Floats:
        """One row of ones."""
        return np.full((1, self.size), 1.0 / math.sqrt(self.variance))

    # ---- measuring

    def piece(self, members: tuple[int, ...], sizes: tuple[int, ...]) -> TotalPiece:
        """On the coarsest grid on which rounding is invisible."""
        deviation = math.sqrt(self.variance) * math.prod(sizes)
        if not 0 < deviation < math.inf or deviation > LARGEST_SCALE:
            raise VerificationError("the noise on a table is too large to sample exactly; raise the budget.")
        grid = 2 ** max(math.ceil(math.log2(INVISIBLE_SCALE / deviation)), 0)
        if grid > 2**40:
            raise VerificationError("the plan's noise is far below one count; a budget this large gives no privacy.")
        return TotalPiece(members, sizes, self, grid, deviation * grid * (1.0 + 2.0**-48))

    # ---- what people are shown, and files

    def described(self, attribute: Attribute, name: str) -> tuple[str, str]:
        """That no more is measured of the attribute."""
        return "Total", f"of {name!r} alone"

    def to_body(self) -> dict[str, Any]:
        """The variance."""
        return {"kind": self.kind, "variance": self.variance}

    @classmethod
    def of_body(cls, body: dict[str, Any], attribute: Attribute, known: dict[str, Any]) -> TotalAlone:
        """The operator that plain values describe."""
        return cls(attribute.size, float(body["variance"]))


@dataclass(frozen=True, eq=False)
class TotalPiece(Piece):
    """The residual on short attributes, on a grid, a power of two.

    Args:
        scale: the noise scale.
        Others as for `Piece`.
    """

    operator: TotalAlone
    scale: float

    @property
    def cells(self) -> int:
        """Those of the residual."""
        return self.fibres

    def record_costs(self, size: int) -> RecordCosts:
        """`t² Π n_i (n_i − 1)/s²`, exactly."""
        require_power_of_two(self.grid)
        require_scales(np.array([self.scale]))
        return RecordCosts(Fraction(self.grid) ** 2 * self.heaviest / Fraction(self.scale) ** 2)

    @property
    def scale_list(self) -> Floats:
        """The noise scale."""
        return np.array([self.scale])

    def integers(self, which: Any, table: Integers) -> Integers:
        """The residual on the grid, (1, cells)."""
        return np.ascontiguousarray(self.residual(table)).reshape(1, -1) * self.grid

    # ---- estimates

    def prepared(self, measured: Integers) -> Floats:
        """The residual, (1, fibres)."""
        return np.asarray(measured.reshape(1, -1) / self.unit)

    def values(self, prepared: Floats) -> Floats:
        """The total, spread evenly: right for all queries that are answered."""
        return np.repeat(prepared / self.operator.size, self.operator.size, axis=0)

    def estimates(self, prepared: Floats, asked: AttributeQueries | None) -> Floats:
        """The total, or multiples of it."""
        size = self.operator.size
        return prepared if asked is None else np.asarray(asked.times(np.ones(size))[:, None] / size * prepared)

    def whitened(self, measured: Integers) -> Floats:
        """Over the standard deviation."""
        return np.asarray(self.prepared(measured) / math.sqrt(self.operator.variance))
