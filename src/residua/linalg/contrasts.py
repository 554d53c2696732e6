"""An orthonormal basis of the tables along one attribute that sum to 0."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def contrasts(n: int) -> NDArray[np.float64]:
    """Orthonormal rows that sum to 0 (Helmert's), (n − 1, n)."""
    rows = np.tril(np.ones((n, n)), -1)[1:]
    k = np.arange(1, n)
    rows[np.arange(n - 1), k] = -k
    return np.asarray(rows / np.sqrt(k * (k + 1.0))[:, None])
