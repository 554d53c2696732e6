"""Nested buckets of ordered values, with Laplace noise: in every bucket whole rows over its parts, per level alike.

A tree of counts measures the parts themselves; here a bucket measures them and overlapping sums of neighbours, the same
in all buckets of a level ("identity plus" on blocks). On each level a record is in one bucket, in one part of it, and
changes what is measured there by one column of the level's rows R: it costs `Σ_levels ‖column‖₁/s` at most. A record
that is replaced changes nothing above the first bucket that holds both its values; there, in two different parts, the
difference of two columns, and below that two columns per level.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from residua.domain import Attribute
from residua.errors import PlanError, VerificationError
from residua.linalg.arrays import Floats, Integers
from residua.linalg.lattice import batches
from residua.linalg.path import over_running_sums
from residua.machine import csr_array
from residua.plans.noise import LAPLACE, Noise
from residua.plans.operators.bucket_reaches import largest_leverage, reaches, row_reaches
from residua.plans.operators.bucket_squares import BucketShape, BucketSquares, Totals, totals
from residua.plans.operators.contract import Piece, PrefixOperator, RecordCosts
from residua.plans.verifier import require_scales
from residua.workload import AttributeQueries

_LARGEST = 2**34  # what is added up for one column stays far below 64 bits
_MOST_WORK, _MOST_PARTS = 2**27, 2048  # rows · parts² of a level, and parts: seconds to price, and to solve
_BATCH_CELLS = 2_000_000
_PART = 4_000_000  # integers read at once


@dataclass(frozen=True, eq=False)
class NestedBuckets(PrefixOperator):
    """Rows over the parts of every bucket.

    Args:
        size: how many values the attribute has.
        strategies: the rows R of each level from fine to coarse, whole numbers, (rows, parts).
        scales: the noise scale of each level, (levels,).
    """

    noise: ClassVar[Noise] = LAPLACE

    kind: ClassVar[str] = "buckets"

    size: int
    strategies: tuple[Integers, ...]
    scales: Floats

    def __post_init__(self) -> None:
        for array in (*self.strategies, self.scales):
            array.setflags(write=False)

    @cached_property
    def shape(self) -> BucketShape:
        """The buckets."""
        return BucketShape(self.size, tuple(int(R.shape[1]) for R in self.strategies))

    # ---- accuracy

    @cached_property
    def solved(self) -> BucketSquares:
        """Least squares over the buckets, the rounding of noise included."""
        deviations = np.sqrt(self.noise.variance(self.scales))
        return BucketSquares(
            self.shape, tuple(R / s for R, s in zip(self.strategies, deviations.tolist(), strict=True))
        )

    @cached_property
    def totals(self) -> Totals:
        """The variances of all prefixes, of all ranges and of all values, added up."""
        return totals(self.solved)

    def prefix_variances(self, rows: csr_array) -> Floats:
        """From pairs of prefix sums."""
        return self.solved.row_variances(rows)

    def prefix_covariances(self, rows: csr_array, others: csr_array) -> Floats:
        """From pairs of prefix sums."""
        return self.solved.covariance(rows, others)

    def mean_variance(self, asked: AttributeQueries | None) -> float:
        """Of prefixes, ranges and values in closed form."""
        if asked is not None and asked.along in ("values", "prefixes", "ranges"):
            return float(getattr(self.totals, asked.along)) / asked.rows
        return super().mean_variance(asked)

    # ---- intervals under Laplace noise

    def reaches(self, asked: AttributeQueries | None, chance: float) -> Floats:
        """From what each measurement contributes to each answer, or bounds of it."""
        return reaches(self.solved, asked, self.over_prefixes(asked), chance)

    def row_reaches(self, rows: csr_array, chance: float) -> Floats:
        """From what each measurement contributes to each answer."""
        return row_reaches(self.solved, over_running_sums(rows), chance)

    @cached_property
    def largest_share(self) -> float:
        """The largest leverage of a row."""
        return largest_leverage(self.solved)

    # ---- algebra

    def scaled(self, factor: float) -> NestedBuckets:
        """Less noise, by the root of the factor."""
        return replace(self, scales=self.scales / np.sqrt(factor))

    def root(self) -> Floats:
        """Laplace noise has no privacy cost matrix to combine."""
        raise PlanError("Laplace noise is not combined with other noise; use plans with Gaussian noise.")

    # ---- measuring

    def piece(self, members: tuple[int, ...], sizes: tuple[int, ...]) -> BucketPiece:
        """The rows as they are."""
        return BucketPiece(members, sizes, self, 1)

    # ---- what people are shown, and files

    def described(self, attribute: Attribute, name: str) -> tuple[str, str]:
        """How many rows each level has."""
        levels = " · ".join(
            f"{count:,} × {len(R)} rows over {R.shape[1]}"
            for count, R in zip(self.shape.counts[::-1], self.strategies[::-1], strict=True)
        )
        return "Buckets", f"of {name!r}: {levels} parts"

    def to_body(self) -> dict[str, Any]:
        """The rows and the noise scales."""
        return {"kind": self.kind, "strategies": [R.tolist() for R in self.strategies], "scales": self.scales.tolist()}

    @classmethod
    def of_body(cls, body: dict[str, Any], attribute: Attribute, axes: Sequence[Any]) -> NestedBuckets:
        """The operator that plain values describe; rows that do not tell the values are refused."""
        scales = np.array(body["scales"], dtype=np.float64)
        buckets = cls(attribute.size, tuple(_whole(rows) for rows in body["strategies"]), scales)
        try:
            buckets.piece((), ()).record_costs(attribute.size)
        except VerificationError as problem:
            raise ValueError(str(problem)) from None
        if not all(np.isfinite(level.u).all() and (level.u > 0).all() for level in buckets.solved.levels):
            raise ValueError("its rows do not tell the values")
        return buckets


@dataclass(frozen=True, eq=False)
class BucketPiece(Piece):
    """`R x + round(s z)` in every bucket, x the counts of its parts; levels one after the other, fine to coarse.

    There are no short attributes, and the grid is 1: the rows are whole numbers already.
    """

    operator: NestedBuckets

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Where the integers of each level begin, and where they all end."""
        starts = [0]
        for count, R in zip(self.operator.shape.counts, self.operator.strategies, strict=True):
            starts.append(starts[-1] + count * len(R))
        return tuple(starts)

    @property
    def cells(self) -> int:
        """How many integers are measured."""
        return self.starts[-1]

    @property
    def largest(self) -> int:
        """The largest entry of the rows."""
        return max(max(int(R.max()), -int(R.min()), 1) for R in self.operator.strategies)

    def record_costs(self, size: int) -> RecordCosts:
        """In epsilon, exactly."""
        strategies, scales = self.operator.strategies, self.operator.scales
        try:
            shape = self.operator.shape
        except (ValueError, IndexError) as problem:
            raise VerificationError(f"the buckets do not fit the attribute ({problem}); plan again.") from None
        if self.members or shape.size != size or len(strategies) != len(shape.parts) or len(strategies) != len(scales):
            raise VerificationError("rows or noise scales do not fit the buckets; plan again.")
        for R, parts in zip(strategies, shape.parts, strict=True):
            if R.dtype != np.int64 or R.ndim != 2 or R.shape[1] != parts or not len(R):
                raise VerificationError(
                    "what is measured of a bucket is no matrix of whole numbers over its parts; plan again."
                )
            if len(R) * parts**2 > _MOST_WORK or parts > _MOST_PARTS:
                raise VerificationError("a bucket has too many rows or parts to be priced; plan again.")
            if int(R.min()) < -_LARGEST or int(R.max()) > _LARGEST:
                raise VerificationError("the grid is so fine that numbers could overflow; plan again.")
        require_scales(scales)
        per_level = [
            Fraction(int(np.abs(R).sum(axis=0).max())) / Fraction(float(s))
            for R, s in zip(strategies, scales, strict=True)
        ]
        replaced, below = Fraction(0), Fraction(0)
        for R, s, level in zip(strategies, scales, per_level, strict=True):
            apart = max(int(np.abs(R - R[:, [c]]).sum(axis=0).max()) for c in range(R.shape[1]))
            replaced = max(replaced, Fraction(apart) / Fraction(float(s)) + below)
            below += 2 * level
        return RecordCosts(sum(per_level, Fraction(0)), replaced=replaced)

    @property
    def scale_list(self) -> Floats:
        """Those of all levels."""
        return self.operator.scales

    def batches(self) -> Sequence[tuple[int, Floats, Any]]:
        """Some buckets of one level at a time."""
        parts: list[tuple[int, Floats, Any]] = []
        for level, (count, R) in enumerate(zip(self.operator.shape.counts, self.operator.strategies, strict=True)):
            for some in batches(count, len(R) + R.shape[1], _BATCH_CELLS):
                scales = np.full(some.stop - some.start, float(self.operator.scales[level]))
                parts.append((self.starts[level] + some.start * len(R), scales, (level, some)))
        return parts

    def integers(self, which: Any, table: Integers) -> Integers:
        """R times the counts of the parts of some buckets, exactly, (buckets, rows)."""
        (level, some), shape = which, self.operator.shape
        finest = slice(*(each * shape.counts[0] // shape.counts[level] for each in (some.start, some.stop)))
        starts, sizes = shape.starts[finest], shape.sizes[0][finest]
        counts = table[int(starts[0]) : int(starts[-1] + sizes[-1])]
        if level == 0:
            parts = shape.padded(counts, some)
        else:
            sums = np.add.reduceat(counts, starts - starts[0])
            parts = sums.reshape((some.stop - some.start) * shape.parts[level], -1).sum(axis=1)
            parts = parts.reshape(-1, shape.parts[level])
        return np.ascontiguousarray((csr_array(self.operator.strategies[level]) @ parts.T).T)

    # ---- estimates

    def prepared(self, measured: Integers) -> Floats:
        """The estimate of every value by least squares: one pass up the buckets and one down, (n,)."""
        shape = self.operator.shape
        up = [self._up(measured, 0, None)]
        for level in range(1, len(shape.parts)):
            up.append(self._up(measured, level, up[-1].sum(axis=1)))
        total = up[-1].sum(axis=1)
        for number in range(len(up) - 1, -1, -1):
            shares = self.operator.solved.levels[number].a[shape.kind_of(number)]
            total = (up[number] + shares * (total - up[number].sum(axis=1))[:, None]).ravel()
        return np.asarray(total[shape.filled().ravel()])

    def _up(self, measured: Integers, number: int, below: Floats | None) -> Floats:
        """The parts of every bucket by what is measured inside it, (buckets, parts)."""
        shape, level = self.operator.shape, self.operator.solved.levels[number]
        R, kinds = self.operator.strategies[number], shape.kind_of(number)
        variance = self.operator.noise.variance(float(self.operator.scales[number]))
        parts = np.empty((len(kinds), shape.parts[number]))
        integers = measured[self.starts[number] : self.starts[number + 1]].reshape(len(kinds), len(R))
        for some in batches(len(kinds), len(R), _PART):
            weighed = np.asarray(integers[some], dtype=np.float64) @ (R / variance)
            for kind in shape.kinds(number):
                here = kinds[some] == kind
                own = weighed[here]
                if below is not None:
                    own = own + below.reshape(-1, shape.parts[number])[some][here] * level.below[kind]
                parts[some][here] = own @ level.C[kind]
        return parts

    def values(self, prepared: Floats) -> Floats:
        """One column."""
        return prepared[:, None]

    def estimates(self, prepared: Floats, asked: AttributeQueries | None) -> Floats:
        """Combinations of prefix sums."""
        return np.asarray(self.operator.over_prefixes(asked) @ np.cumsum(prepared))[:, None]

    def whitened(self, measured: Integers) -> Floats:
        """Laplace noise is not normal."""
        raise PlanError("these measurements have Laplace noise; give releases with Gaussian noise.")


def _whole(rows: Any) -> Integers:
    if not all(isinstance(entry, int) for row in rows for entry in row):
        raise ValueError("its rows are not whole numbers")
    matrix = np.array(rows, dtype=np.int64)
    if matrix.ndim != 2:
        raise ValueError("its rows are no matrix")
    return matrix
