"""Variances and covariances of whatever is asked, from the blocks of the attributes it names.

A query over the cells of some attributes, in coordinates, is taken apart from the finest block down: its part in block
b is `c = q_b R⁻¹` in measured rows, and takes `c S` from the blocks below. Its variance is `Σ_b σ²_b ‖c_b‖²`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np

from residua.errors import PlanError
from residua.linalg.arrays import Booleans, Floats, Integers, kronecker
from residua.linalg.lattice import batches
from residua.machine import remembered
from residua.plans.contract import Uncertainty
from residua.plans.levels import AttributeLevels, Block, below, dimensions, in_coordinates, places, shape_of, told_apart
from residua.plans.strategy import WholeRows
from residua.plans.tolerances import SUPPORT_TOLERANCE
from residua.workload import AttributeQueries, Workload

_BATCH = 2**22
Parts = dict[Block, Floats]


class BlockUncertainty(Uncertainty):
    """How estimates err under noise on blocks: what `BlockwisePlan` says of accuracy."""

    axes: tuple[AttributeLevels, ...]
    blocks_of: tuple[Block, ...]
    numbers: tuple[int, ...]
    strategies: tuple[BlockRows, ...]
    precisions: Floats

    @cached_property
    def splits(self) -> dict[Block, Split]:
        """Every block's rows in coordinates, computed once for blocks that are alike."""
        known: dict[tuple[object, ...], Split] = {}
        numbers = {}
        for block, number in zip(self.blocks_of, self.numbers, strict=True):
            key = (number, *((self.axes[i], level) for i, level in block))
            if key not in known:
                known[key] = split(self.axes, block, self.strategies[number])
            numbers[block] = known[key]
        return numbers

    @cached_property
    def variance_of(self) -> dict[Block, float]:
        """The noise variance of each block, infinite where it is not measured."""
        with np.errstate(divide="ignore"):
            return dict(zip(self.blocks_of, (1.0 / self.precisions).tolist(), strict=True))

    def inside(self, table: Block) -> list[Block]:
        """The blocks of these attributes and levels alone, finest first."""
        finest = tuple((i, level) for i, level in table if level)
        return [block for block in reversed(below(finest)) if block in self.variance_of]

    def taken_apart(self, attributes: Sequence[int], rows: Floats) -> tuple[Parts, Booleans]:
        """Each query's part in every block, in measured rows, and which queries cannot be answered.

        Args:
            attributes: positions, increasing.
            rows: queries over the cells of these, (queries, n_1, …, n_k).
        """
        size = np.sqrt((rows.reshape(len(rows), -1) ** 2).sum(axis=1))
        rows, lost = in_classes(self.axes, attributes, rows)
        for axis, i in enumerate(attributes, start=1):
            rows = self.axes[i].coordinates(rows, axis)
        table = tuple((i, self.axes[i].depth) for i in attributes)
        return self._down(table, rows.reshape(len(rows), -1).copy(), size, lost)

    def _down(self, table: Block, left: Floats, size: Floats, lost: Booleans) -> tuple[Parts, Booleans]:
        """Queries in coordinates of a table, which are used up, from the finest block down."""
        unseen = np.ones(left.shape[1], dtype=bool)
        taken: Parts = {}
        for block in self.inside(table):
            at = self._places(table, block)
            unseen[at] = False
            own = self.splits[block]
            part = left[:, at] @ own.recovery
            if not np.isfinite(self.variance_of[block]):
                lost |= np.abs(left[:, at]).max(axis=1) > SUPPORT_TOLERANCE * size
                continue
            taken[block] = part
            if own.lower.shape[1]:
                lower = np.concatenate([self._places(table, each) for each in below(block)[:-1]])
                left[:, lower] -= part @ own.lower
        if unseen.any():
            lost |= np.abs(left[:, unseen]).max(axis=1) > SUPPORT_TOLERANCE * size
        return taken, lost

    def _product(self, term: Sequence[tuple[int, AttributeQueries]]) -> Iterator[tuple[Parts, Booleans]]:
        """The same of a product, some queries at a time, its rows in coordinates of the coarsest levels they need."""
        table, factors, sizes, outside = [], list[Floats](), [np.ones(1)], [np.zeros(1, dtype=bool)]
        for i, queries in term:
            axis, matrix = self.axes[i], np.asarray(queries.matrix(), dtype=np.float64)
            level = axis.level_within(told_apart(matrix))
            short, apart = axis.shortened(matrix, 1)
            table.append((i, axis.depth if level is None else level))
            factors.append(axis.coordinates(short, 1)[:, : axis.count(table[-1][1])])
            sizes.append(np.sqrt((matrix**2).sum(axis=1)))
            outside.append(apart)
        size, lost = kronecker(sizes).ravel(), reduce(np.logical_or.outer, outside).ravel()
        for at, left in _crossed_rows(factors):
            yield self._down(tuple(table), left, size[at], lost[at].copy())

    def _asked(self, workload: Workload) -> Iterator[tuple[Integers, Parts, Booleans]]:
        """A workload some queries at a time: their places in it, their parts, and which cannot be answered."""
        if not workload.tabular:
            for attributes, rows, at in asked(workload):
                yield at, *self.taken_apart(attributes, rows)
            return
        first = 0
        for term in workload.terms():
            for parts, lost in self._product(term):
                yield np.arange(first, first + len(lost)), parts, lost
                first += len(lost)

    @remembered
    def _places(self, table: Block, block: Block) -> Integers:
        return places(self.axes, table, block)

    def _variances(self, workload: Workload) -> Floats:
        variances = np.empty(workload.queries)
        for at, parts, lost in self._asked(workload):
            total = np.zeros(len(at))
            for block, part in parts.items():
                total += self.variance_of[block] * (part**2).sum(axis=1)
            variances[at] = np.where(lost, np.inf, total)
        return variances

    def _covariance(self, first: Workload, second: Workload) -> Floats:
        total = np.zeros((first.queries, second.queries))
        others = [(at, parts) for at, parts, _ in self._asked(second)]
        for at, own, _ in self._asked(first):
            for there, parts in others:
                sums = sum(
                    (self.variance_of[block] * (own[block] @ parts[block].T) for block in own.keys() & parts.keys()),
                    np.zeros((len(at), len(there))),
                )
                total[np.ix_(at, there)] = sums
        return total


def _crossed_rows(factors: Sequence[Floats]) -> Iterator[tuple[slice, Floats]]:
    """The rows of a product of matrices, some at a time: where they stand among all, and the rows, (some, cells)."""
    first, *rest = factors or [np.ones((1, 1))]
    each, cells = math.prod(map(len, rest)), math.prod(factor.shape[1] for factor in factors)
    for some in batches(len(first), cells * each, _BATCH):
        yield slice(some.start * each, some.stop * each), kronecker([first[some], *rest])


def in_classes(axes: Sequence[AttributeLevels], attributes: Sequence[int], rows: Floats) -> tuple[Floats, Booleans]:
    """Queries over the finest classes of their attributes, and which tell values of one class apart.

    All attributes are compared before anything is computed: equal numbers need not be equal after a product.
    """
    lost = np.zeros(len(rows), dtype=bool)
    for axis, i in enumerate(attributes, start=1):
        rows, outside = axes[i].shortened(rows, axis)
        lost |= outside
    return rows, lost


def asked(workload: Workload) -> Iterator[tuple[tuple[int, ...], Floats, Integers]]:
    """A workload some queries at a time: their attributes, their rows (queries, n_1, …), and their places in it."""
    if workload.in_parts:
        for part, there in workload.placed():
            for attributes, rows, where in asked(part):
                yield attributes, rows, there[where]
        return
    if not workload.tabular:
        for some in batches(workload.queries, workload.matrix.shape[1], _BATCH):
            where = np.arange(workload.queries)[some]
            yield workload.attributes, workload.matrix[some].toarray().reshape(len(where), *workload.shape), where
        return
    first = 0
    for term in workload.terms():
        matrices = [rows.matrix() for _, rows in term]
        for at, rows in _crossed_rows(matrices):
            shaped = rows.reshape(len(rows), *(matrix.shape[1] for matrix in matrices))
            yield tuple(i for i, _ in term), shaped, np.arange(first + at.start, first + at.stop)
        first += math.prod(map(len, matrices))


_SINGULAR = 1e-13  # of the largest singular value: rows that depend on each other and on the blocks below
_MOST_PAIRS = 4096  # cells up to which the inner products of all pairs of columns are formed


@dataclass(frozen=True, eq=False)
class BlockRows(WholeRows):
    """An integer measurement of a table.

    Args:
        rows: (coordinates of the block, cells of its table).
    """

    rows: Integers

    def __post_init__(self) -> None:
        self.rows.setflags(write=False)

    @property
    def matrix(self) -> Integers:
        """The rows."""
        return self.rows

    @cached_property
    def relative_norms(self) -> Floats:
        """The norms relative to the largest, (cells,)."""
        return np.array([norm / self.norm for norm in self.norms])

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
        return isinstance(other, BlockRows) and np.array_equal(self.rows, other.rows)

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


def split(axes: Sequence[AttributeLevels], block: Block, measured: BlockRows) -> Split:
    """The rows of a block in coordinates.

    Raises:
        PlanError: rows of another shape, or rows that do not tell the block's coordinates.
    """
    d, cells = dimensions(axes, block), math.prod(shape_of(axes, block))
    if measured.rows.shape != (d, cells):
        raise PlanError(f"the rows of a block have shape {measured.rows.shape}, not {(d, cells)}; plan again.")
    inside = in_coordinates(axes, block, measured.rows / measured.unit)
    R = inside[:, places(axes, block, block)]
    singular = np.linalg.svd(R, compute_uv=False)
    if not singular[-1] > _SINGULAR * singular[0]:
        raise PlanError("the rows of a block depend on each other or on the blocks below; plan again.")
    others = [places(axes, block, each) for each in below(block)[:-1]]
    return Split(np.asarray(np.linalg.inv(R)), inside[:, np.concatenate(others)] if others else np.zeros((d, 0)))
