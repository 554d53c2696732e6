"""What the solvers ask of a workload: two contractions, so that a structured one is never written out.

`gram(p) = Wᵀ diag(p) W` and `diagonal(G) = diag(W G Wᵀ)` are all that an optimiser needs of W. The checker, which must
not trust them, reads W itself, a block of rows at a time.

`prepare` makes any matrix a well-posed problem: finite, no zero rows, no two equal columns, one fixed numerical rank.
Cells that no query distinguishes are merged (a mechanism loses nothing by treating them alike), cells nobody asks about
are dropped, and rows are scaled so that all targets (or all weights) are 1. The maps back are kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from residua.errors import PlanError, WorkloadError
from residua.linalg.arrays import Floats, Integers
from residua.linalg.intervals import Intervals
from residua.machine import linalg
from residua.plans.tolerances import WORKLOAD_RANK_TOLERANCE

_BLOCK = 2**22  # entries of W held at a time when it is read row by row


@runtime_checkable
class Queries(Protocol):
    """A workload W of `shape` (m, d)."""

    @property
    def shape(self) -> tuple[int, int]:
        """How many queries, over how many cells."""

    def gram(self, weights: Floats) -> Floats:
        """`Wᵀ diag(weights) W`, (d, d), for `weights` (m,) of any sign."""

    def diagonal(self, matrix: Floats) -> Floats:
        """`diag(W matrix Wᵀ)`, (m,), for a symmetric `matrix` (d, d)."""

    def block(self, start: int, stop: int) -> Floats:
        """Rows `start` to `stop` of W, written out."""


@dataclass(frozen=True, eq=False)
class MatrixQueries:
    """A workload given as a dense matrix, (m, d).

    Args:
        matrix: W.
        factors: L (m, r) and B (r, d) with W = L B, where the rank r is below d.
    """

    matrix: Floats
    factors: tuple[Floats, Floats] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """How many queries, over how many cells."""
        return self.matrix.shape[0], self.matrix.shape[1]

    def gram(self, weights: Floats) -> Floats:
        """`Wᵀ diag(weights) W`, (d, d)."""
        if (weights >= 0).all():
            scaled = np.sqrt(weights)[:, None] * self.matrix
            return np.asarray(scaled.T @ scaled)  # the product of a matrix with itself costs half
        return np.asarray((weights[:, None] * self.matrix).T @ self.matrix)

    def diagonal(self, matrix: Floats) -> Floats:
        """`diag(W matrix Wᵀ)`, (m,)."""
        return np.asarray(np.einsum("ij,ij->i", self.matrix @ matrix, self.matrix))

    def block(self, start: int, stop: int) -> Floats:
        """Rows `start` to `stop` of W."""
        return self.matrix[start:stop]


@dataclass(frozen=True, eq=False)
class ScaledQueries:
    """Another workload with row j multiplied by `scale[j]`."""

    queries: Queries
    scale: Floats

    @property
    def shape(self) -> tuple[int, int]:
        """How many queries, over how many cells."""
        return self.queries.shape

    def gram(self, weights: Floats) -> Floats:
        """`Wᵀ diag(weights) W`, (d, d)."""
        return self.queries.gram(weights * self.scale**2)

    def diagonal(self, matrix: Floats) -> Floats:
        """`diag(W matrix Wᵀ)`, (m,)."""
        return self.queries.diagonal(matrix) * self.scale**2

    def block(self, start: int, stop: int) -> Floats:
        """Rows `start` to `stop`, written out."""
        return self.queries.block(start, stop) * self.scale[start:stop, None]


def squares(queries: Queries, root: Floats) -> Floats:
    """`diag(W F Fᵀ Wᵀ)`, (m,), for a `root` F of shape (d, r); by squares, hence never negative, when W is a matrix."""
    if isinstance(queries, MatrixQueries):
        image = queries.matrix @ root
        return np.asarray(np.einsum("ij,ij->i", image, image))
    return np.maximum(queries.diagonal(root @ root.T), 0.0)


def row_blocks(queries: Queries) -> list[tuple[int, int]]:
    """Bounds of blocks of rows small enough to write out."""
    m, d = queries.shape
    step = max(1, _BLOCK // d, 2 * d)
    return [(start, min(start + step, m)) for start in range(0, m, step)]


def triangle(queries: Queries, weights: Floats) -> Floats:
    """R of the QR decomposition of `diag(√weights) W`, (≤ d, d), a block of rows at a time; nothing is squared."""
    R: Floats = np.empty((0, queries.shape[1]))
    for start, stop in row_blocks(queries):
        rows = np.sqrt(weights[start:stop, None]) * queries.block(start, stop)
        (full,) = linalg.qr(np.vstack([R, rows]), mode="r", overwrite_a=True, check_finite=False)
        R = np.asarray(full[: queries.shape[1]], dtype=np.float64)
    return R


def as_intervals(matrix: Floats) -> Queries | None:
    """The queries of a matrix without zero rows as (scaled) ranges of its columns, if that is what they are."""
    asked = matrix != 0
    first = asked.argmax(axis=1)
    last = matrix.shape[1] - 1 - asked[:, ::-1].argmax(axis=1)
    height = matrix[np.arange(len(matrix)), first]
    ranges = Intervals(first, last, matrix.shape[1])
    step = max(1, 2**22 // matrix.shape[1])
    for start in range(0, len(matrix), step):
        stop = min(start + step, len(matrix))
        if not np.array_equal(ranges.block(start, stop) * height[start:stop, None], matrix[start:stop]):
            return None
    return ScaledQueries(ranges, np.abs(height))


@dataclass(frozen=True, eq=False)
class Problem:
    """A workload ready to be solved.

    Args:
        queries: the scaled queries on the distinct cells, (m', d').
        rows: which of the original queries these are, (m',).
        columns: distinct cell of each original cell, −1 where nobody asks, (cells,).
        scale: what each kept row was multiplied by, (m',).
        rank: numerical rank of the workload, fixed from here on.
        count: how many original queries there were.
    """

    queries: Queries
    rows: Integers
    columns: Integers
    scale: Floats
    rank: int
    count: int

    @property
    def cells(self) -> int:
        """How many original cells there are."""
        return len(self.columns)

    def on_cells(self, values: Floats) -> Floats:
        """Values per distinct cell (last axis) as values per original cell; 0 where nobody asks."""
        return np.asarray(np.concatenate([values, np.zeros((*values.shape[:-1], 1))], axis=-1)[..., self.columns])

    def once_per_cell(self, weights: Floats) -> Floats:
        """Weights per distinct cell, placed on the first of the original cells it stands for, (cells,)."""
        spread = np.zeros(self.cells)
        distinct, first = np.unique(self.columns, return_index=True)
        spread[first[distinct >= 0]] = weights
        return spread

    def on_queries(self, values: Floats) -> Floats:
        """Values per kept query as values per original query; 0 for queries that are identically zero."""
        spread = np.zeros(self.count)
        spread[self.rows] = values
        return spread


def prepare(workload: Any, scale: Floats) -> Problem:
    """Makes a workload well-posed, with row j multiplied by `scale[j]`.

    Args:
        workload: a matrix (NumPy or SciPy sparse), (m, cells), or structured `Queries`.
        scale: one positive number for each query, (m,).

    Raises:
        WorkloadError: the matrix is not two-dimensional, not finite, or all zero.
    """
    if isinstance(workload, Queries):
        return _prepare_structured(workload, scale)
    W = to_matrix(workload)
    rows = np.flatnonzero(W.any(axis=1))
    if not len(rows):
        raise WorkloadError("every query of the workload is identically zero; there is nothing to answer.")
    W, columns = merged_columns(W[rows])
    rank, queries = with_rank(np.ascontiguousarray(W * scale[rows, None]))
    return Problem(queries, rows, columns, scale[rows], rank, len(scale))


def to_matrix(workload: Any) -> Floats:
    """The workload as a finite dense array, (m, cells)."""
    dense: ArrayLike = workload.toarray() if hasattr(workload, "toarray") else workload  # SciPy sparse
    W = np.array(dense, dtype=np.float64, ndmin=2)
    if W.ndim != 2 or not W.size:
        raise WorkloadError(f"the workload has shape {W.shape}; give a matrix with a row for each query.")
    bad = np.flatnonzero(~np.isfinite(W).all(axis=1))
    if len(bad):
        raise WorkloadError(f"query {bad[0]} of the workload has an entry that is not finite; remove NaN and infinity.")
    return W


def positive(values: Any, count: int, name: str) -> Floats:
    """One positive finite number for each of `count` queries, from one number or an array of them.

    Raises:
        PlanError: wrong length, or an entry that is not positive and finite.
    """
    given = np.array(values, dtype=np.float64)
    if given.ndim == 0:
        given = np.full(count, given)
    if given.shape != (count,):
        raise PlanError(f"{name} has shape {given.shape}, but there are {count} queries; give one number for each.")
    bad = np.flatnonzero(~(np.isfinite(given) & (given > 0)))
    if len(bad):
        raise PlanError(f"{name} of query {bad[0]} is {given[bad[0]]}; it must be positive and finite.")
    return given


def with_rank(W: Floats, tolerance: float = WORKLOAD_RANK_TOLERANCE) -> tuple[int, MatrixQueries]:
    """Numerical rank r of W, and W with everything beyond it removed, as a product of two factors where r < d.

    Rows, then columns, are first scaled to norm 1, so that the units of queries and cells do not decide.
    """
    m, d = W.shape
    rows = np.abs(W).max(axis=1, keepdims=True)
    rows = rows * np.linalg.norm(W / rows, axis=1, keepdims=True)
    even = W / rows
    columns = np.abs(even).max(axis=0)
    columns = columns * np.linalg.norm(even / columns, axis=0)
    even = even / columns
    if _full(even.T @ even if m >= d else even @ even.T, max(1e-8, 100 * tolerance**2)):
        return min(m, d), MatrixQueries(W, None if m >= d else (np.diag(rows[:, 0]), W / rows))
    Z, s, Ut = linalg.svd(even, full_matrices=False, check_finite=False)
    rank = int((s > tolerance * s[0]).sum())
    if rank == d:
        return rank, MatrixQueries(W)
    L, B = rows * Z[:, :rank] * s[:rank], Ut[:rank] * columns
    return rank, MatrixQueries(L @ B, (L, B))


def _full(gram: Floats, least: float) -> bool:
    """Whether a Gram matrix is far from singular: its condition, as estimated, below 1/least.

    A Cholesky decomposition is a tenth of the singular values that settle the matter otherwise. In the sum norm the
    condition is never below that of the eigenvalues, and the estimate is hardly ever short by more than a factor of 3.
    """
    factor, failed = linalg.lapack.dpotrf(gram, lower=1)
    if failed:
        return False
    return bool(linalg.lapack.dpocon(factor, np.abs(gram).sum(axis=0).max(), uplo="L")[0] > least)


def merged_columns(W: Floats) -> tuple[Floats, Integers]:
    """Distinct non-zero columns of W, in order of first appearance, and for each column which of them it is."""
    W = W + 0.0  # −0.0 and 0.0 must look alike
    keys = np.ascontiguousarray(W.T).view(np.dtype((np.void, 8 * W.shape[0]))).ravel()
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first)
    asked = W[:, first[order]].any(axis=0)
    position = np.empty(len(first), dtype=np.int64)
    position[order] = np.where(asked, np.cumsum(asked) - 1, -1)
    return W[:, first[order][asked]], position[inverse.ravel()]


def _prepare_structured(queries: Queries, scale: Floats) -> Problem:
    m, d = queries.shape
    if len(zero := np.flatnonzero(queries.diagonal(np.eye(d)) <= 0)):
        raise WorkloadError(f"query {zero[0]} of a structured workload is identically zero; leave it out.")
    gram = queries.gram(np.ones(m))
    if (np.diagonal(gram) <= 0).any():
        raise WorkloadError("a structured workload leaves a cell out of every query; declare fewer cells.")
    root = np.sqrt(np.diagonal(gram))
    energies = linalg.eigvalsh(gram / np.outer(root, root))
    rank = int((energies > 1e-13 * energies[-1]).sum())
    return Problem(ScaledQueries(queries, scale), np.arange(m), np.arange(d), scale, rank, m)
