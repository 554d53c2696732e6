"""Compiled passes that draw noise along an axis with nested groups (`nested.py`): floats and pairs, with bounds."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

from typing import Any

import numpy as np

from residua.compiling import compiled, compiled_inline
from residua.noise.pairs import over, plus, root, times

_compiled: Any = compiled  # without fastmath: the error bounds count operations
_inline: Any = compiled_inline


@_inline
def _part(s, is_value, value, springs, q, p, inside):
    # a part of an interval, three pairs: a single value's spring, or what was found of it
    if is_value:
        k, e = over(p, 0.0, q[value], 0.0)
        k, e = plus(springs[value], 0.0, k, e)
        return (k, e), (0.0, 0.0), (0.0, 0.0)
    return (inside[0, s], inside[1, s]), (inside[2, s], inside[3, s]), (inside[4, s], inside[5, s])


@_inline
def _add(x, y):
    return plus(x[0], x[1], y[0], y[1])


@_inline
def _times(x, y):
    return times(x[0], x[1], y[0], y[1])


@_inline
def _over(x, y):
    return over(x[0], x[1], y[0], y[1])


@_compiled
def pair_factors(low, cut, high, first, grounds, springs, chords, q, p, a, inside, out):
    """α, β, γ and σ of one part in pairs in the tree's order, (4, 2, n + 1); σ of the hub comes last."""
    n, weight = cut.size, (a, 0.0)
    for s in range(n - 1, 0, -1):
        before, m, b = low[s], cut[s], high[s]
        k, from_a, to_m = _part(s + 1, m == before + 1, m, springs, q, p, inside)
        c, from_m, to_b = _part(s + m - before, b == m + 1, b, springs, q, p, inside)
        g = _add(_add(to_m, (grounds[m], 0.0)), from_m)
        t = _add(_add(k, c), g)
        alpha, beta, gamma = _over(k, t), _over(c, t), _over(g, t)
        out[0, 0, s], out[0, 1, s] = alpha
        out[1, 0, s], out[1, 1, s] = beta
        out[2, 0, s], out[2, 1, s] = gamma
        x = _over(weight, t)
        out[3, 0, s], out[3, 1, s] = root(x[0], x[1])
        inside[0, s], inside[1, s] = _add(_times(k, beta), (chords[s], 0.0))
        inside[2, s], inside[3, s] = _add(from_a, _times(k, gamma))
        inside[4, s], inside[5, s] = _add(to_b, _times(c, gamma))
    k = (inside[0, 1], inside[1, 1])
    g = _add((inside[4, 1], inside[5, 1]), (grounds[n - 1], 0.0))
    t = _add(k, g)
    gamma, x = _over(g, t), _over(weight, t)
    out[:2, :, 0] = 0.0
    out[:, :, n] = 0.0
    out[2, 0, 0], out[2, 1, 0] = gamma
    out[3, 0, 0], out[3, 1, 0] = root(x[0], x[1])
    if not np.isinf(first):
        t = _add(_add((first, 0.0), (inside[2, 1], inside[3, 1])), _times(k, gamma))
        x = _over(weight, t)
        out[3, 0, n], out[3, 1, n] = root(x[0], x[1])


@_compiled
def float_sums(low, cut, high, factors, z, b, out, bounds, room):
    """Adds one part to the running sums of many axes and to their bounds, (axes, n), from normals, (axes, n + 1)."""
    u, more, tiny = 2.0**-53, 1.0 + 2.0**-30, 2.0**-400
    n = cut.size
    sums, errors = room
    for axis in range(out.shape[0]):
        sums[0] = errors[0] = 0.0
        sigma = factors[3, n]
        hub = sigma * z[axis, n]
        hub_error = (sigma * b[axis, n] + 8.0 * u * abs(hub)) * more
        for s in range(n):
            i, m, k = low[s] + 1, cut[s] + 1, high[s] + 1
            alpha, beta, gamma, sigma = factors[0, s], factors[1, s], factors[2, s], factors[3, s]
            x, y, h, d = alpha * sums[i], beta * sums[k], gamma * hub, sigma * z[axis, s]
            c = (x + y) + (h + d)
            error = alpha * errors[i] + beta * errors[k] + gamma * hub_error + sigma * b[axis, s]
            error = (error + 8.0 * u * (abs(x) + abs(y) + abs(h) + abs(d)) + tiny) * more
            sums[m], errors[m] = c, error
            out[axis, m - 1] += c
            rounding = 2.0 * u * (abs(c) + abs(out[axis, m - 1]))
            bounds[axis, m - 1] = (bounds[axis, m - 1] + error + rounding) * more


@_compiled
def pair_sums(low, cut, high, eta, factors, z, rest, b, out, bounds, room):
    """Adds one part to the running sums of axes in pairs, (axes, 2, n), and to their bounds, (axes, n)."""
    more, tiny, delta = 1.0 + 2.0**-30, 2.0**-400, 2.0**-100
    n = cut.size
    sums, lows, errors = room
    for axis in range(out.shape[0]):
        sums[0] = lows[0] = errors[0] = 0.0
        hub = times(factors[3, 0, n], factors[3, 1, n], z[axis, n], rest[axis, n])
        hub_error = (factors[3, 0, n] * b[axis, n] + eta * abs(hub[0]) + tiny) * more
        for s in range(n):
            i, m, k = low[s] + 1, cut[s] + 1, high[s] + 1
            x = times(factors[0, 0, s], factors[0, 1, s], sums[i], lows[i])
            y = times(factors[1, 0, s], factors[1, 1, s], sums[k], lows[k])
            h = times(factors[2, 0, s], factors[2, 1, s], hub[0], hub[1])
            d = times(factors[3, 0, s], factors[3, 1, s], z[axis, s], rest[axis, s])
            c = _add(_add(x, y), _add(h, d))
            error = factors[0, 0, s] * errors[i] + factors[1, 0, s] * errors[k] + factors[2, 0, s] * hub_error
            error += factors[3, 0, s] * b[axis, s] + eta * (abs(x[0]) + abs(y[0]) + abs(h[0]) + abs(d[0]))
            error = (error + tiny) * more
            sums[m], lows[m] = c
            errors[m] = error
            high_part, low_part = out[axis, 0, m - 1], out[axis, 1, m - 1]
            bounds[axis, m - 1] = (bounds[axis, m - 1] + error + delta * (abs(high_part) + abs(c[0]))) * more
            out[axis, 0, m - 1], out[axis, 1, m - 1] = plus(high_part, low_part, c[0], c[1])
