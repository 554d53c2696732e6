"""Noise correlated along an ordered attribute, times a factor: prefix sums are measured on a grid.

`t · prefix sums of the residual + round(t · prefix sums of N)`, N normal with f times the covariance of the strategy
(`correlated.py`). Integers plus rounded noise are the rounding of integers plus noise, and prefix sums can be undone: a
post-processing of the residual plus N, whatever the grid t is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from residua.domain import Attribute
from residua.errors import VerificationError
from residua.linalg.arrays import Floats, Integers
from residua.linalg.conductances import AxisNoise
from residua.machine import csr_array
from residua.plans.noise import LARGEST_SCALE, ORDERED, Noise
from residua.plans.operators import contract
from residua.plans.operators.correlated import Ordered
from residua.workload import AttributeQueries

GRID_FINENESS = 2.0**8  # of the grid: the least standard deviation in steps of it
ROUNDING = 1 / (6 * GRID_FINENESS**2)  # what rounding adds to the variance of a value, at most, relatively
_MANY = 2**16  # ranges: their mean and their largest variance come from closed forms


@dataclass(frozen=True, eq=False)
class CorrelatedPath(contract.PrefixOperator):
    """Correlated noise along an attribute.

    Args:
        strategy: its covariance at factor 1.
        factor: what variances are multiplied by.
    """

    correlated: ClassVar[bool] = True
    noise: ClassVar[Noise] = ORDERED  # normal, correlated along the attribute

    kind: ClassVar[str] = "path"

    strategy: Ordered
    factor: float

    @property
    def size(self) -> int:  # type: ignore[override]
        """How many values the attribute has."""
        return self.strategy.size

    @property
    def _variance(self) -> float:
        """The factor, rounding to the grid included."""
        return self.factor * (1 + ROUNDING)

    # ---- accuracy

    def variances(self, asked: AttributeQueries | None) -> Floats:
        """From passes along the attribute."""
        if asked is None:
            return np.array([self._variance / self.strategy.tells])
        rest, total = self.strategy.variances(asked)
        return np.asarray(self._variance * (rest + total / self.strategy.tells))

    def mean_variance(self, asked: AttributeQueries | None) -> float:
        """Of all ranges in closed form."""
        if asked is None:
            return float(self.variances(None)[0])
        rest, total = self.strategy.means(asked)
        return self._variance * (rest + total / self.strategy.tells)

    def largest_variance(self, asked: AttributeQueries | None) -> float:
        """Of all ranges of many values a bound."""
        if asked is not None and asked.along == "ranges" and asked.rows > _MANY:
            return self._variance * float(self.strategy.noise.largest_ranges()[0].max())
        return super().largest_variance(asked)

    def prefix_variances(self, rows: csr_array) -> Floats:
        """From passes along the attribute."""
        return np.asarray(self._variance * self.strategy.noise.row_variances(rows))

    def prefix_covariances(self, rows: csr_array, others: csr_array) -> Floats:
        """From passes along the attribute."""
        return np.asarray(self._variance * self.strategy.noise.covariance(rows, others))

    def beside_total(self, share: float) -> Floats:
        """From one pass along the attribute."""
        return np.asarray(self._variance * self.strategy.beside_total(share))

    # ---- algebra

    def scaled(self, factor: float) -> CorrelatedPath:
        """Less variance, by the factor."""
        return CorrelatedPath(self.strategy, self.factor / factor)

    def ratio_to(self, other: contract.Operator) -> float | None:
        """Of the same strategy the ratio of factors."""
        return (
            other.factor / self.factor
            if isinstance(other, CorrelatedPath) and other.strategy == self.strategy
            else None
        )

    def root(self) -> Floats:
        """The inverse of a root of the covariance, (n, n)."""
        self.require_short()
        values = csr_array(np.eye(self.size))
        lower = np.linalg.cholesky(self.row_covariances(values, values))
        return np.asarray(np.linalg.solve(lower, np.eye(self.size)))

    # ---- measuring

    def piece(self, members: tuple[int, ...], sizes: tuple[int, ...]) -> PathPiece:
        """On the coarsest grid on which rounding is invisible."""
        scale, grid = on_grid([self.strategy], self.factor * math.prod(float(n) ** 2 for n in sizes))
        return PathPiece(members, sizes, self, grid, scale)

    # ---- what people are shown, and files

    def described(self, attribute: Attribute, name: str) -> tuple[str, str]:
        """How many parts the noise has."""
        parts = len(self.strategy.poles)
        return "Axis", f"{self.size:,} values of {name!r}, noise correlated along them in {parts} parts"

    def to_body(self) -> dict[str, Any]:
        """The strategy's parameters, and the factor."""
        return {"kind": self.kind, **self.strategy.to_body(), "factor": self.factor}

    @classmethod
    def of_body(cls, body: dict[str, Any], attribute: Attribute, axes: Sequence[Any]) -> CorrelatedPath:
        """The operator that plain values describe."""
        return cls(axes[body["axis"]], float(body["factor"]))


@dataclass(frozen=True, eq=False)
class PathPiece(contract.Piece):
    """Prefix sums of the residual on a grid, a power of two.

    Args:
        scale: f, the factor of the strategy's variances that is drawn, per count of the integer residual.
        Others as for `Piece`.
    """

    operator: CorrelatedPath
    scale: float

    @property
    def sampled(self) -> AxisNoise:
        """The noise as it is drawn, per count of the integer residual."""
        return drawn_along([self.operator.strategy], self.scale)[0]

    @property
    def cells(self) -> int:
        """One prefix sum per value and fibre."""
        return self.fibres * self.operator.size

    def record_costs(self, size: int) -> contract.RecordCosts:
        """`Γ_kk/f Π n_i (n_i − 1)` in cell k, f the least ratio of what is drawn to what the strategy's price is of."""
        strategy = self.operator.strategy
        if strategy.size != size:
            raise VerificationError("the noise along the axis does not fit the attribute; plan again.")
        least = least_drawn([strategy], self.scale, self.grid)
        each, error = strategy.record_costs
        uneven = each * (float(self.heaviest / least) * (1 + 2.0**-50))
        return contract.RecordCosts(Fraction(0), uneven, error + Fraction(2, 2**52), opposed=bool(strategy.opposed))

    @property
    def scale_list(self) -> Floats:
        """The factor that is drawn."""
        return np.array([self.scale])

    def batches(self) -> Sequence[tuple[int, Floats, Any]]:
        """All fibres at once."""
        return [(0, np.array([float(self.grid)]), None)]

    def integers(self, which: Any, table: Integers) -> Integers:
        """Prefix sums along every fibre, (fibres, n)."""
        sums = np.cumsum(self.residual(table), axis=-1).reshape(-1, self.operator.size)
        sums *= self.grid
        return sums

    def correlation(self, which: Any) -> tuple[AxisNoise]:
        """Along the attribute."""
        return (self.sampled,)

    @property
    def drawn_at_once(self) -> int:
        """Two words of every normal, should one not suffice, and what the passes along the attribute hold."""
        return held_along([self.operator.strategy])

    # ---- estimates

    def prepared(self, measured: Integers) -> Floats:
        """Prefix sums, (n, fibres)."""
        return np.asarray(measured.reshape(self.fibres, -1).T / self.unit)

    def values(self, prepared: Floats) -> Floats:
        """Differences of prefix sums."""
        return np.diff(prepared, axis=0, prepend=0.0)

    def estimates(self, prepared: Floats, asked: AttributeQueries | None) -> Floats:
        """Combinations of prefix sums."""
        return prepared[-1:] if asked is None else np.asarray(contract.running_rows(asked) @ prepared)

    def whitened(self, measured: Integers) -> Floats:
        """By the root of the operator."""
        return np.asarray(self.operator.root() @ self.values(self.prepared(measured)))

    def simulated(self, random: np.random.Generator) -> Integers:
        """From chains of normals, in floats."""
        noise = self.sampled
        sums = np.concatenate([noise.simulated(random) for _ in range(self.fibres)])
        return np.asarray(np.rint(sums * self.grid).astype(np.int64))


# ---- noise along one axis or two, `f Σ₁ ⊗ Σ₂`


def drawn_along(axes: Sequence[Ordered], factor: float) -> tuple[AxisNoise, ...]:
    """The noise along each axis as it is drawn; the first has the factor."""
    return (axes[0].noise.scaled(factor), *(axis.noise for axis in axes[1:]))


def least_drawn(axes: Sequence[Ordered], factor: float, grid: int) -> Fraction:
    """By how much, at least, the variances that are drawn are above those that the strategies' prices are of.

    Raises:
        VerificationError: a grid or a factor that cannot be drawn exactly.
    """
    contract.require_power_of_two(grid)
    if not (math.isfinite(factor) and factor > 0):
        raise VerificationError("the noise along the axis is no number; plan again.")
    drawn, base = drawn_along(axes, factor)[0].weights.tolist(), axes[0].weights.tolist()
    # Weights that are all larger by f at least make a covariance that is larger by f at least.
    least = min(Fraction(a) / Fraction(b) for a, b in zip(drawn, base, strict=True))
    if least <= 0 or min(drawn) < 2.0**-200 or max(drawn) > 2.0**200:
        raise VerificationError("the noise along the axis is out of range; plan again.")
    largest = math.prod(float(axis.sum_variances.max()) for axis in axes)
    if largest * factor * float(grid) ** 2 > LARGEST_SCALE**2:
        raise VerificationError("the noise along the axis is larger than can be sampled; give a larger budget.")
    return least


def held_along(axes: Sequence[Ordered]) -> int:
    """Numbers held while noise is drawn: two words of every normal, should one not suffice, and what passes hold.

    These are, per value, normals, stiffnesses or factors, prefix sums and bounds, in pairs.
    """
    passes = max(32 if axis.asked.is_nested else 16 for axis in axes)
    return (2 * math.prod(len(axis.poles) for axis in axes) + passes) * math.prod(axis.size + 1 for axis in axes)


# ---- for planners


def on_grid(axes: Sequence[Ordered], factor: float, fineness: float = GRID_FINENESS) -> tuple[float, int]:
    """The factor, rounded up, and the coarsest grid on which rounding is invisible.

    Raises:
        VerificationError: noise too large for exact sampling.
    """
    scale = factor * (1.0 + 2.0**-40)
    if not math.isfinite(scale) or scale <= 0:
        raise VerificationError("the noise along the axis is larger than can be sampled; give a larger budget.")
    finest = math.sqrt(math.prod(axis.noise.finest for axis in axes) * scale)
    return scale, 2 ** min(max(math.ceil(math.log2(fineness / finest)), 0), 40)
