"""Noise along an ordered axis: its running sums are a few independent first-order chains.

Noise with covariance `Σ_j a_j (G + p_j Q⁻¹)⁻¹`, G the Gram matrix of ordered queries (`path.py`), is a sum of
independent parts, one for each pole. The running sums C of part j have a tridiagonal precision: springs
`κ_i = values + p_j/q_i` between C_{i−1} and C_i (C_{−1} = 0), and `1/link_i` from C_i to 0. With R_i the stiffness from
C_i to 0 by way of what is to its right, they are first-order recurrences of independent standard normals z:

    C_i = φ_i C_{i−1} + σ_i z_i,   φ_i = κ_i/(κ_i + R_i),   σ_i² = 1/(κ_i + R_i),
    R_i = 1/link_i + κ_{i+1} R_{i+1}/(κ_{i+1} + R_{i+1}).

Where the path has a conductance `left` to ground, one more normal comes in, times `√(left/(1 + left κ_0 m_0)) m_i`,
with `m_i = φ_i m_{i−1} + 1 − φ_i` (Sherman and Morrison: it takes a matrix of rank one from the precision). Estimates
are read with the same chains: the covariance of two running sums is `V_i φ_{i+1} … φ_k`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from residua.linalg.arrays import Floats
from residua.linalg.path import Path


@dataclass(frozen=True, eq=False)
class OrderedNoise:
    """Noise with covariance `Σ_j a_j (G + p_j Q⁻¹)⁻¹` along an axis of n values.

    Args:
        path: the Gram matrix G of the queries it was made for.
        q: the weights of the cells, (n,).
        poles: p_j > 0, (parts,).
        weights: a_j > 0, (parts,).
    """

    path: Path
    q: Floats
    poles: Floats
    weights: Floats

    @property
    def size(self) -> int:
        """How many values the axis has."""
        return self.path.size

    def scaled(self, factor: float) -> OrderedNoise:
        """The noise with its variances multiplied."""
        return OrderedNoise(self.path, self.q, self.poles, self.weights * factor)

    def variances(self) -> tuple[Floats, Floats]:
        """The variances of all running sums, and of the noise of each value, (n,) each."""
        from residua.linalg.axis_kernels import variances

        n = self.path.size
        sums, single = np.zeros(n), np.zeros(n)
        variances(*self._arguments, sums, single, np.empty(n))
        return sums, single

    @property
    def finest(self) -> float:
        """The least variance of a value, for which the grid is chosen."""
        return float(self.variances()[1].min())

    def sum_of_range_variances(self) -> float:
        """The sum of the variances of all n(n+1)/2 ranges.

        They are the differences of two of C_{−1} = 0, C_0, …, C_{n−1}: `(n + 1) Σ Var C_i − Var Σ C_i`.
        """
        sums, _ = self.variances()
        everything = csr_array(np.ones((1, self.path.size)))
        return float((self.path.size + 1) * sums.sum() - self.row_variances(everything)[0])

    def row_variances(self, rows: csr_array) -> Floats:
        """The variance of each combination of running sums, (rows,), from rows over them, (rows, n)."""
        from residua.linalg.axis_kernels import row_variances

        found = np.zeros(rows.shape[0])
        n = self.path.size
        rows.sort_indices()
        row_variances(*self._arguments, rows.indptr, rows.indices, rows.data, found, np.empty((4, n)))
        return found

    def covariance(self, first: csr_array, second: csr_array) -> Floats:
        """Covariances of combinations of running sums, (rows of the first, rows of the second)."""
        return np.asarray(first @ self.applied(second).T)

    def applied(self, rows: csr_array) -> Floats:
        """Covariances of combinations of running sums with every running sum, (rows, n)."""
        from residua.linalg.axis_kernels import applied

        n = self.path.size
        found = np.zeros((rows.shape[0], n))
        applied(*self._arguments, rows.toarray(), found, np.empty((4, n)))
        return found

    def combined_with_all(self, row: Floats) -> Floats:
        """The covariance of one combination of running sums, (n,), with every running sum, (n,)."""
        from residua.linalg.axis_kernels import applied

        found = np.zeros((1, self.path.size))
        applied(*self._arguments, row[None], found, np.empty((4, self.path.size)))
        return np.asarray(found[0])

    def simulated(self, random: np.random.Generator) -> Floats:
        """Running sums of noise like this, in floats, (n,): for forecasts, never for a release."""
        found = np.zeros(self.size)
        self.add_simulated(random.standard_normal((len(self.poles), self.size + 1)), found)
        return found

    def add_simulated(self, z: Floats, out: Floats) -> None:
        """Adds noise from standard normals, (parts, n + 1), to running sums, (n,)."""
        from residua.linalg.axis_kernels import simulated

        simulated(*self._arguments, z, out, np.empty(self.size))

    @property
    def _arguments(self) -> tuple[Floats, float, float, float, Floats, Floats, Floats]:
        path = self.path
        return path.links, path.left, path.right, path.values, self.q, self.poles, self.weights


def over_running_sums(rows: csr_array) -> csr_array:
    """Rows over values as rows over running sums: `Σ r_i x_i = Σ (r_i − r_{i+1}) C_i`."""
    entries = rows.tocoo()
    there = entries.col > 0
    moved = (entries.data[there], (entries.row[there], entries.col[there] - 1))
    found = csr_array(rows - csr_array(moved, shape=rows.shape))
    found.eliminate_zeros()
    return found
