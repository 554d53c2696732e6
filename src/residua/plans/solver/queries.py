"""What the solvers ask of a workload: two contractions, so that a structured one is never written out.

`gram(p) = Wᵀ diag(p) W` and `diagonal(G) = diag(W G Wᵀ)` are all that an optimiser needs of W. The checker, which must
not trust them, reads W itself, a block of rows at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from scipy import linalg

from residua.errors import WorkloadError
from residua.linalg.arrays import Floats
from residua.linalg.intervals import Intervals

_BLOCK = 2**22  # entries of W held at a time when it is read row by row


@runtime_checkable
class Queries(Protocol):
    """A workload W of `shape` (m, d)."""

    @property
    def shape(self) -> tuple[int, int]:
        """How many queries, over how many cells."""
        ...

    def gram(self, weights: Floats) -> Floats:
        """`Wᵀ diag(weights) W`, (d, d), for `weights` (m,) of any sign."""
        ...

    def diagonal(self, matrix: Floats) -> Floats:
        """`diag(W matrix Wᵀ)`, (m,), for a symmetric `matrix` (d, d)."""
        ...

    def block(self, start: int, stop: int) -> Floats:
        """Rows `start` to `stop` of W, written out."""
        ...


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


@dataclass(frozen=True)
class AllRectangles:
    """Every range of one attribute crossed with every range of another, over `height × width` cells, row by row.

    Query (r, s) is the r-th range of the first and the s-th of the second, both in the order of `Intervals.every`. The
    contractions are prefix sums along four axes: O(d²) for about d²/4 queries.
    """

    height: int
    width: int

    def __post_init__(self) -> None:
        if min(self.height, self.width) < 1:
            raise WorkloadError(f"rectangles over {self.height} × {self.width} cells; there must be at least one.")

    @property
    def shape(self) -> tuple[int, int]:
        """How many queries, over how many cells."""
        ranges = [n * (n + 1) // 2 for n in (self.height, self.width)]
        return ranges[0] * ranges[1], self.height * self.width

    def gram(self, weights: Floats) -> Floats:
        """Entry (i, j): the weight of the rectangles that cover both cells."""
        h, w = self.height, self.width
        (a, b), (c, e) = np.triu_indices(h), np.triu_indices(w)
        covering = np.zeros((h, h, w, w))
        covering[a[:, None], b[:, None], c, e] = weights.reshape(len(a), len(c))
        for axis, up in enumerate((True, False, True, False)):
            view = covering if up else np.flip(covering, axis)
            covering = np.cumsum(view, axis=axis) if up else np.flip(np.cumsum(view, axis=axis), axis)
        i, k = np.arange(h), np.arange(w)
        low, high = np.minimum.outer(i, i), np.maximum.outer(i, i)
        left, right = np.minimum.outer(k, k), np.maximum.outer(k, k)
        both = covering[low[:, :, None, None], high[:, :, None, None], left, right]  # (i, i', k, k')
        return np.asarray(both.transpose(0, 2, 1, 3).reshape(h * w, h * w))

    def diagonal(self, matrix: Floats) -> Floats:
        """Sum of `matrix` over pairs of cells of each rectangle."""
        h, w = self.height, self.width
        prefix = np.zeros((h + 1, h + 1, w + 1, w + 1))
        prefix[1:, 1:, 1:, 1:] = matrix.reshape(h, w, h, w).transpose(0, 2, 1, 3)
        for axis in range(4):
            prefix = np.cumsum(prefix, axis=axis)
        a, b = np.triu_indices(h)
        c, e = np.triu_indices(w)
        tall = prefix[b + 1, b + 1] - prefix[a, b + 1] - prefix[b + 1, a] + prefix[a, a]  # (ranges of h, w + 1, w + 1)
        wide = tall[:, e + 1, e + 1] - tall[:, c, e + 1] - tall[:, e + 1, c] + tall[:, c, c]
        return np.asarray(wide.ravel())

    def block(self, start: int, stop: int) -> Floats:
        """Rows `start` to `stop`, written out."""
        rows, columns = (Intervals.every(n).block(0, n * (n + 1) // 2) for n in (self.height, self.width))
        r, s = np.divmod(np.arange(start, stop), len(columns))
        return np.asarray((rows[r][:, :, None] * columns[s][:, None, :]).reshape(stop - start, -1))


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
