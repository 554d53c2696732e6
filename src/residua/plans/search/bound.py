"""What no strategy can beat: the singular value bound, and the better one that the Gaussian optimum gives.

A column whose absolute values sum to at most 1 has squares that sum to at most 1. So a Laplace strategy of sensitivity
1 is feasible in the L2 problem (Program 5.2), whose least loss bounds ours from below; and the singular value bound
bounds that, by spreading the columns' norms evenly. Both are loose: strategies are known to lie within a factor n.

Reference: matrix-mechanism, Theorems 4, 6 and 8.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

from residua.plans.search.asked import Asked


def singular_value_bound(asked: Asked) -> float:
    """`(Σ σ)²/n` with σ the workload's singular values: no strategy of sensitivity 1 has a smaller total loss.

    For the largest variance it is divided by the number of queries: a maximum is at least the mean.
    """
    energies = linalg.eigvalsh(asked.gram, check_finite=False)
    # Eigenvalues within rounding of 0 would only raise the bound.
    energies = energies[energies > energies[-1] * asked.cells * 1e-15]
    total = float(np.sqrt(energies).sum()) ** 2 / asked.cells * (1 - 1e-12)
    return total / asked.queries.shape[0] if asked.worst else total
