"""A structured workload of our own: all that the solvers ask of one are the methods of `Queries`."""

from dataclasses import dataclass

import numpy as np

from residua.linalg.arrays import Floats
from residua.linalg.intervals import Intervals


@dataclass(frozen=True)
class Rectangles:
    """Every range of one attribute crossed with every range of another, over `height × width` cells, row by row.

    Query (r, s) is the r-th range of the first and the s-th of the second, both in the order of `Intervals.all`. The
    contractions are prefix sums along four axes: O(d²) for about d²/4 queries.
    """

    height: int
    width: int

    @property
    def shape(self) -> tuple[int, int]:
        """How many queries, over how many cells."""
        return Intervals.every(self.height).shape[0] * Intervals.every(self.width).shape[0], self.height * self.width

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
        rows = Intervals.every(self.height).block(0, Intervals.every(self.height).shape[0])
        columns = Intervals.every(self.width).block(0, Intervals.every(self.width).shape[0])
        r, s = np.divmod(np.arange(start, stop), len(columns))
        return np.asarray((rows[r][:, :, None] * columns[s][:, None, :]).reshape(stop - start, -1))
