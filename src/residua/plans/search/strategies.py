"""Known strategies for Laplace noise, the columns that may be added to them for free, and a bound on all of them."""

from __future__ import annotations

import numpy as np
from scipy import linalg

from residua.linalg.arrays import Floats
from residua.plans.search.asked import Asked


def haar(cells: int) -> Floats:
    """The Haar wavelet over ordered cells, `Y_n`: the total, then half minus half, down to cells, (n, n).

    A part of odd length is split as evenly as it goes, so any number of cells will do.
    """
    rows = [np.ones(cells)]
    parts = [(0, cells)]
    while parts:
        below = []
        for start, stop in parts:
            if stop - start > 1:
                middle = (start + stop + 1) // 2
                row = np.zeros(cells)
                row[start:middle], row[middle:stop] = 1.0, -1.0
                rows.append(row)
                below += [(start, middle), (middle, stop)]
        parts = below
    return np.array(rows)


def singular_values(asked: Asked) -> Floats:
    """The strategy `diag(√σ) Pᵀ` of a workload `Q diag(σ) Pᵀ`, (rank, n).

    Reference: matrix-mechanism, Theorem 7.
    """
    energies, P = linalg.eigh(asked.gram, check_finite=False)
    kept = energies > energies[-1] * 1e-12
    return np.asarray(energies[kept, None] ** 0.25 * P[:, kept].T)


_SMALL = 1e-3  # of the sensitivity: what is missing less than this is not worth a measurement


def augmented(strategy: Floats) -> Floats:
    """The strategy with one more row for every column whose sum falls short: that cell alone, by what is missing.

    Guarantee: the same sensitivity, and no query has a larger error.

    Example:
        >>> augmented(np.array([[1.0, 1.0], [1.0, 0.0]]))[-1]
        array([0., 1.])
    """
    sums = np.abs(strategy).sum(axis=0)
    missing = sums.max() - sums
    deficient = np.flatnonzero(missing > _SMALL * sums.max())
    rows = np.zeros((len(deficient), strategy.shape[1]))
    rows[np.arange(len(deficient)), deficient] = missing[deficient]
    return np.vstack([strategy, rows]) if len(deficient) else strategy


def singular_value_bound(asked: Asked) -> float:
    """`(Σ σ)²/n` with σ the workload's singular values: no strategy of sensitivity 1 has a smaller total loss.

    For the largest variance it is divided by the number of queries: a maximum is at least the mean.
    """
    energies = linalg.eigvalsh(asked.gram, check_finite=False)
    # Eigenvalues within rounding of 0 would only raise the bound.
    energies = energies[energies > energies[-1] * asked.cells * 1e-15]
    total = float(np.sqrt(energies).sum()) ** 2 / asked.cells * (1 - 1e-12)
    return total / asked.queries.shape[0] if asked.worst else total
