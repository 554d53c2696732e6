"""Compiled passes along an axis, of `path.py`: conductances, variances, covariances, and the variances of ranges.

Whoever plans no axis does not load the compiler.
"""

# Without fastmath: the error bounds count operations.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

import numpy as np

from residua.machine import compiled


@compiled
def shares(links, left, right, values, q, poles, weights, out, room):
    """`Σ_j a_j [S (S + p_j)⁻¹]_ii`, (n,)."""
    n = out.size
    for j in range(poles.size):
        p, a = poles[j], weights[j]
        c = left
        for i in range(n):
            v = q[i] / (values * q[i] + p) + c
            room[i] = v
            if i < n - 1:
                c = links[i] * v / (links[i] + v)
        c = right
        for i in range(n - 1, -1, -1):
            d = values * q[i] + p
            # [S (S + p)⁻¹]_ii = values q/d + p q/d² [(T + K)⁻¹]_ii, T the Laplacian
            out[i] += a * (values * q[i] / d + p * q[i] / (d * d) / (room[i] + c))
            if i > 0:
                v = q[i] / d + c
                c = links[i - 1] * v / (links[i - 1] + v)


@compiled
def stiffness(links, left, right, values, q, p, out):
    """R of one part, (n,); returns the square of the factor of m."""
    c = 1.0 / right
    for i in range(out.size - 1, -1, -1):
        out[i] = c
        if i > 0:
            k = values + p / q[i]
            c = 1.0 / links[i - 1] + k * c / (k + c)
    k = values + p / q[0]
    return left / (1.0 + left * k * c / (k + c))


@compiled
def variances(links, left, right, values, q, poles, weights, sums, single, room):
    """Variances of all running sums and of single values, (n,) each."""
    for j in range(poles.size):
        p, a = poles[j], weights[j]
        extra = stiffness(links, left, right, values, q, p, room)
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


@compiled
def simulated(links, left, right, values, q, poles, weights, z, out, room):
    """Running sums of noise, from standard normals, (n,)."""
    n = q.size
    for j in range(poles.size):
        factor = np.sqrt(weights[j] * stiffness(links, left, right, values, q, poles[j], room)) * z[j, n]
        c = m = 0.0
        for i in range(n):
            k = values + poles[j] / q[i]
            t = 1.0 / (k + room[i])
            c = k * t * c + np.sqrt(weights[j] * t) * z[j, i]
            m = k * t * m + room[i] * t
            out[i] += c + factor * m


@compiled
def _chain(links, left, right, values, q, p, room):
    # room: R, then Σ log φ, Var C, m of one part; returns the square of the factor of m
    extra = stiffness(links, left, right, values, q, p, room[0])
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


@compiled
def row_variances(links, left, right, values, q, poles, weights, starts, places, entries, out, room):
    """Variances of combinations of running sums, (rows,)."""
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


@compiled
def applied(links, left, right, values, q, poles, weights, rows, out, room):
    """Covariances of combinations of running sums with every running sum, (rows, n)."""
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


@compiled
def cell_facts(links, left, right, values, q, p, starts, alone, room, facts, out):
    """What one part is like in each cell of running sums; returns the square of the factor of m.

    A cell holds the sums C_{s−1}, …, C_{e−2} for neighbouring starts s, e (C_{−1} = 0 is the first of all). found: the
    least covariance of one of them with the last, Σ log φ at the last, m at the first and the last, (4, cells);
    where the first shall stand `alone`, all of that is of the first. out has the variances V of all sums, (n + 1,).
    """
    extra = stiffness(links, left, right, values, q, p, room)
    v = m = log = least = 0.0
    cell, at = 0, 0
    for node in range(q.size + 1):
        if node:
            k = values + p / q[node - 1]
            t = 1.0 / (k + room[node - 1])
            phi = k * t
            if node > 1:
                log += np.log(phi)
            v = phi * phi * v + t
            m = phi * m + room[node - 1] * t
            least *= phi
        out[node] = v
        if node == starts[at]:
            cell, at, least = at, at + 1, v
            facts[2, cell] = m
        least = min(least, v)
        if node == starts[cell] if alone else node + 1 == starts[at]:
            facts[0, cell], facts[1, cell], facts[3, cell] = least, log, m
    return extra


@compiled
def lower(facts, extra, weight, out):
    """Adds to `out`, (cells, cells), what one part takes from the sum of two variances, at the least: twice the
    covariance, without what the ends of the path add. Above the diagonal and on it."""
    cells = out.shape[0]
    for i in range(cells):
        for j in range(i, cells):
            apart = facts[3, j] - facts[2, i]
            shared = facts[0, i] * np.exp(facts[1, j] - facts[1, i])
            out[i, j] += weight * (2.0 * shared - extra * apart * apart)


@compiled
def largest(highest, shared):
    """`max (highest_i + highest_j − shared_ij)` over i ≤ j for each i or j, (cells,)."""
    cells = highest.size
    most = np.zeros(cells)
    for i in range(cells):
        for j in range(i, cells):
            each = highest[i] + highest[j] - shared[i, j]
            most[i] = max(most[i], each)
            most[j] = max(most[j], each)
    return most
