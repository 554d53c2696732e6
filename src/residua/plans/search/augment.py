"""Completing deficient columns: more is measured, and nobody's privacy gets worse.

Reference: matrix-mechanism, Theorem 9 and §5.3.
"""

from __future__ import annotations

import numpy as np

from residua.linalg.arrays import Floats

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
