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

import numba
import numpy as np
from scipy.sparse import csr_array

from residua.linalg.arrays import Floats
from residua.linalg.path import Path

_compiled = numba.njit(cache=True, nogil=True)


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

    def scaled(self, factor: float) -> OrderedNoise:
        """The noise with its variances multiplied."""
        return OrderedNoise(self.path, self.q, self.poles, self.weights * factor)

    def variances(self) -> tuple[Floats, Floats]:
        """The variances of all running sums, and of the noise of each value, (n,) each."""
        n = self.path.size
        sums, single = np.zeros(n), np.zeros(n)
        _variances(*self._arguments, sums, single, np.empty(n))
        return sums, single

    def sum_of_range_variances(self) -> float:
        """The sum of the variances of all n(n+1)/2 ranges.

        They are the differences of two of C_{−1} = 0, C_0, …, C_{n−1}: `(n + 1) Σ Var C_i − Var Σ C_i`.
        """
        sums, _ = self.variances()
        everything = csr_array(np.ones((1, self.path.size)))
        return float((self.path.size + 1) * sums.sum() - self.row_variances(everything)[0])

    def row_variances(self, rows: csr_array) -> Floats:
        """The variance of each combination of running sums, (rows,), from rows over them, (rows, n)."""
        found = np.zeros(rows.shape[0])
        n = self.path.size
        rows.sort_indices()
        _row_variances(*self._arguments, rows.indptr, rows.indices, rows.data, found, np.empty((4, n)))
        return found

    def covariance(self, first: csr_array, second: csr_array) -> Floats:
        """Covariances of combinations of running sums, (rows of the first, rows of the second)."""
        return np.asarray(first @ self.applied(second).T)

    def applied(self, rows: csr_array) -> Floats:
        """Covariances of combinations of running sums with every running sum, (rows, n)."""
        n = self.path.size
        found = np.zeros((rows.shape[0], n))
        _applied(*self._arguments, rows.toarray(), found, np.empty((4, n)))
        return found

    def simulated(self, random: np.random.Generator) -> Floats:
        """Running sums of noise like this, in floats, (n,): for forecasts, never for a release."""
        n, parts = self.path.size, len(self.poles)
        found = np.zeros(n)
        _simulated(*self._arguments, random.standard_normal((parts, n + 1)), found, np.empty(n))
        return found

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


@_compiled
def stiffness(links, right, values, q, p, out):  # type: ignore[no-untyped-def]
    """R of one part, (n,)."""
    c = 1.0 / right
    for i in range(out.size - 1, -1, -1):
        out[i] = c
        if i > 0:
            k = values + p / q[i]
            c = 1.0 / links[i - 1] + k * c / (k + c)


@_compiled
def _variances(links, left, right, values, q, poles, weights, sums, single, room):  # type: ignore[no-untyped-def]
    for j in range(poles.size):
        p, a = poles[j], weights[j]
        stiffness(links, right, values, q, p, room)
        k = values + p / q[0]
        extra = left / (1.0 + left * k * room[0] / (k + room[0]))
        v = m = 0.0
        for i in range(sums.size):
            k = values + p / q[i]
            t = 1.0 / (k + room[i])
            psi, phi = room[i] * t, k * t
            step = psi * (1.0 - m)
            single[i] += a * (psi * psi * v + t + extra * step * step)
            v = phi * phi * v + t
            m = phi * m + psi
            sums[i] += a * (v + extra * m * m)


@_compiled
def _simulated(links, left, right, values, q, poles, weights, z, out, room):  # type: ignore[no-untyped-def]
    n = q.size
    for j in range(poles.size):
        stiffness(links, right, values, q, poles[j], room)
        k = values + poles[j] / q[0]
        factor = np.sqrt(weights[j] * left / (1.0 + left * k * room[0] / (k + room[0]))) * z[j, n]
        c = m = 0.0
        for i in range(n):
            k = values + poles[j] / q[i]
            t = 1.0 / (k + room[i])
            c = k * t * c + np.sqrt(weights[j] * t) * z[j, i]
            m = k * t * m + room[i] * t
            out[i] += c + factor * m


@_compiled
def _chain(links, left, right, values, q, p, room):  # type: ignore[no-untyped-def]
    # room: R, then Σ log φ, Var C, m of one part; returns the square of the factor of m
    stiffness(links, right, values, q, p, room[0])
    k = values + p / q[0]
    extra = left / (1.0 + left * k * room[0, 0] / (k + room[0, 0]))
    v = m = log = 0.0
    for i in range(q.size):
        k = values + p / q[i]
        t = 1.0 / (k + room[0, i])
        psi, phi = room[0, i] * t, k * t
        log += np.log(phi)
        v = phi * phi * v + t
        m = phi * m + psi
        room[1, i], room[2, i], room[3, i] = log, v, m
    return extra


@_compiled
def _row_variances(links, left, right, values, q, poles, weights, starts, places, entries, out, room):  # type: ignore[no-untyped-def]
    for j in range(poles.size):
        extra = _chain(links, left, right, values, q, poles[j], room)
        for row in range(out.size):
            total = reach = along = 0.0
            last = -1
            for e in range(starts[row], starts[row + 1]):
                i, d = places[e], entries[e]
                if last >= 0:
                    reach *= np.exp(room[1, i] - room[1, last])  # Cov(C_i, what came before)
                total += d * (2.0 * reach + d * room[2, i])
                reach += d * room[2, i]
                along += d * room[3, i]
                last = i
            out[row] += weights[j] * (total + extra * along * along)


@_compiled
def _applied(links, left, right, values, q, poles, weights, rows, out, room):  # type: ignore[no-untyped-def]
    n = q.size
    for j in range(poles.size):
        a = weights[j]
        extra = _chain(links, left, right, values, q, poles[j], room)
        for row in range(rows.shape[0]):
            along = reach = 0.0
            for i in range(n):
                phi = np.exp(room[1, i] - room[1, i - 1]) if i else 0.0
                reach = phi * reach
                out[row, i] += a * reach  # from what is to the left
                reach += rows[row, i] * room[2, i]
                along += rows[row, i] * room[3, i]
            beyond = 0.0
            for i in range(n - 1, -1, -1):
                beyond += rows[row, i]
                out[row, i] += a * (room[2, i] * beyond + extra * along * room[3, i])
                if i:
                    beyond *= np.exp(room[1, i] - room[1, i - 1])
