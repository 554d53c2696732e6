"""Named strategies for Laplace noise: the Haar wavelet, and the singular values. (Hierarchies: see `trees`.)

Reference: matrix-mechanism, Figure 1, §6 and Theorem 7.
"""

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
