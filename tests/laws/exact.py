"""Generalised least squares under equalities, in balls of many digits: what floats are compared with to their last."""

import numpy as np
from flint import arb, arb_mat, ctx

_BITS = 4_000
_FAINT = arb(2) ** -200  # a precision of every cell, so faint that what can be told is told by all else


def _balls(rows):
    return arb_mat([[arb(each) for each in row] for row in np.asarray(rows, dtype=float).tolist()])


def _floats(matrix):
    """The middles of balls that are narrower than floats are apart."""
    entries = matrix.entries()
    assert all(each.rad() <= 2.0**-60 * (1 + abs(each.mid())) for each in entries), "more bits are needed"
    return np.array([float(each.mid()) for each in entries]).reshape(matrix.nrows(), matrix.ncols())


def _inverse(noise):
    if not np.array_equal(noise, np.diag(np.diag(noise))):
        return _balls(noise).solve(_balls(np.eye(len(noise))), algorithm="lu")
    inverse = arb_mat(*noise.shape)
    for i, variance in enumerate(np.diag(noise).tolist()):
        inverse[i, i] = 1 / arb(variance)
    return inverse


def independent(F, f):
    """The rows that do not follow from those before them, and their values."""
    kept = []
    for i in range(len(F)):
        if np.linalg.matrix_rank(F[[*kept, i]]) > len(kept):
            kept.append(i)
    return F[kept], f[kept]


class Weighed:
    """What is measured, with its noise: rows R, (measurements, cells), and the covariance of what is added."""

    def __init__(self, rows, noise):
        with ctx.workprec(_BITS):
            self.back = _balls(rows).transpose() * _inverse(noise)
            self.gamma = self.back * _balls(rows)

    def conditioned(self, noisy, F, f, asked):
        """Estimates of queries that can be told, and their covariances, beside independent known sums `F x = f`."""
        n, k, queries = self.gamma.nrows(), len(F), len(asked)
        with ctx.workprec(_BITS):
            system, right = arb_mat(n + k, n + k), arb_mat(n + k, 1 + queries)
            seen = self.back * _balls(np.reshape(noisy, (-1, 1)))
            for i in range(n):
                for j in range(n):
                    system[i, j] = self.gamma[i, j] + (_FAINT if i == j else 0)
                for a in range(k):
                    system[n + a, i] = system[i, n + a] = arb(float(F[a, i]))
                right[i, 0] = seen[i, 0]
                for q in range(queries):
                    right[i, 1 + q] = arb(float(asked[q, i]))
            for a in range(k):
                right[n + a, 0] = arb(float(f[a]))
            solved = system.solve(right, algorithm="lu").entries()[: n * (1 + queries)]
            answers = _floats(_balls(asked) * arb_mat(n, 1 + queries, solved))
        return answers[:, 0], answers[:, 1:]
