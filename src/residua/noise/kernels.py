"""Compiled passes that draw correlated noise, in floats and in pairs of floats, with error bounds.

A pair of floats is a number of about 106 bits, high + low, with a proven bound on the error of every operation.
u = 2⁻⁵³. Without overflow and underflow a sum errs by less than `2⁻¹⁰⁰ (|x| + |y|)`, a product, a quotient and a root
by less than 2⁻¹⁰⁰ times themselves. The sum: `a + c` is split exactly, `b + d` and what is added to it err by at most
`3u² (|x| + |y|)`, and the last step is exact. The product leaves out `b d` and rounds four numbers of size `u |x y|`.
The quotient and the root take a float and what it leaves, known to `13u²`, divided once more, which errs by `u` of a
number of size `4u`. (Joldes, Muller and Popescu 2017 have the best constants, 3 to 15 u²; ours leave room.)
"""

# Without fastmath: the error bounds count operations.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

import numpy as np

from residua.machine import compiled, compiled_inline

# ---- pairs of floats


@compiled_inline
def two_sum(a, c):
    """a + c exactly, as a pair (Knuth)."""
    s = a + c
    t = s - a
    return s, (a - (s - t)) + (c - t)


@compiled_inline
def plus(a, b, c, d):
    """(a + b) + (c + d), of any signs."""
    s, e = two_sum(a, c)
    return two_sum(s, e + (b + d))


@compiled_inline
def product(a, c):
    """a c exactly, as a pair (Dekker)."""
    p = a * c
    t = 134217729.0 * a
    ah = t - (t - a)
    al = a - ah
    t = 134217729.0 * c
    ch = t - (t - c)
    cl = c - ch
    return p, ((ah * ch - p) + ah * cl + al * ch) + al * cl


@compiled_inline
def times(a, b, c, d):
    """(a + b) (c + d)."""
    p, e = product(a, c)
    return two_sum(p, e + (a * d + b * c))


@compiled_inline
def over(a, b, c, d):
    """(a + b) / (c + d)."""
    first = a / c
    p, e = times(first, 0.0, c, d)
    r, s = plus(a, b, -p, -e)
    second = r / c
    p, e = times(second, 0.0, c, d)
    r, s = plus(r, s, -p, -e)
    high, low = two_sum(first, second)
    return two_sum(high, low + r / c)


@compiled_inline
def root(a, b):
    """The square root of a + b > 0."""
    s = np.sqrt(a)
    p, e = product(s, s)
    r, _ = plus(a, b, -p, -e)
    return two_sum(s, r / (2.0 * s))


# ---- along an axis (`correlated.py`)


@compiled_inline
def _spring(values, p, q):
    k, e = over(p, 0.0, q, 0.0)
    return plus(values, 0.0, k, e)


@compiled_inline
def _stiffer(link, k, e, a, b):
    # the next R to the left: 1/link + κR/(κ + R)
    c, d = times(k, e, a, b)
    k, e = plus(k, e, a, b)
    c, d = over(c, d, k, e)
    a, b = over(1.0, 0.0, link, 0.0)
    return plus(a, b, c, d)


@compiled
def stiff(links, right, values, q, p, out):
    """R of one part, computed in pairs and rounded to floats, (n,)."""
    a, b = over(1.0, 0.0, right, 0.0)
    for i in range(q.size - 1, -1, -1):
        out[i] = a + b
        if i > 0:
            k, e = _spring(values, p, q[i])
            a, b = _stiffer(links[i - 1], k, e, a, b)


@compiled
def pair_factors(links, left, right, values, q, p, a, out):
    """β = 0, γ = ψ and σ of the first values of one part in pairs, (3, 2, count + 1); σ of the hub comes last."""
    count = out.shape[2] - 1
    out[:2, :, count] = out[0] = 0.0
    ka, kb = _spring(values, p, q[q.size - 1])
    ra, rb = over(1.0, 0.0, right, 0.0)
    for i in range(q.size - 1, -1, -1):
        wa, wb = plus(ka, kb, ra, rb)
        if i < count:
            out[1, 0, i], out[1, 1, i] = over(ra, rb, wa, wb)
            xa, xb = over(a, 0.0, wa, wb)
            out[2, 0, i], out[2, 1, i] = root(xa, xb)
        if i > 0:
            ra, rb = _stiffer(links[i - 1], ka, kb, ra, rb)
            ka, kb = _spring(values, p, q[i - 1])
    out[2, :, count] = 0.0
    if left > 0.0:
        xa, xb = times(ka, kb, ra, rb)
        xa, xb = over(xa, xb, wa, wb)
        xa, xb = times(left, 0.0, xa, xb)
        xa, xb = plus(1.0, 0.0, xa, xb)
        ya, yb = times(a, 0.0, left, 0.0)
        ya, yb = over(ya, yb, xa, xb)
        out[2, 0, count], out[2, 1, count] = root(ya, yb)


@compiled
def round_pairs(grid, out, bounds, whole, is_open):
    """To which integers `grid × (pair ± bound)` rounds, where that is open; what stays open stays marked, (n,)."""
    for i in range(whole.size):
        if is_open[i]:
            y, low = out[0, i] * grid, out[1, i] * grid
            floor = np.floor(y)
            # The middle itself is exact, and the difference from it wherever y is within a factor of two (Sterbenz);
            # y − floor is not, just above −1/2. The sum then errs by a share of itself.
            over_half = (y - (floor + 0.5)) + low
            bound = bounds[i] * grid * (1.0 + 2.0**-30)
            # |low| < 2⁻⁷: with a bound below 1/4 no other middle is within reach
            if abs(y) < 2.0**45 and bound < 0.25 and abs(over_half) * (1.0 - 2.0**-50) > bound:
                whole[i] = np.int64(floor) + (1 if over_half > 0.0 else 0)
                is_open[i] = False


@compiled_inline
def _part(s, is_value, value, springs, q, p, inside):
    # a part of an interval, three pairs: a single value's spring, or what was found of it
    if is_value:
        k, e = over(p, 0.0, q[value], 0.0)
        k, e = plus(springs[value], 0.0, k, e)
        return (k, e), (0.0, 0.0), (0.0, 0.0)
    return (inside[0, s], inside[1, s]), (inside[2, s], inside[3, s]), (inside[4, s], inside[5, s])


@compiled_inline
def _add(x, y):
    return plus(x[0], x[1], y[0], y[1])


@compiled_inline
def _times(x, y):
    return times(x[0], x[1], y[0], y[1])


@compiled_inline
def _over(x, y):
    return over(x[0], x[1], y[0], y[1])


@compiled
def nested_factors(low, cut, high, first, grounds, springs, chords, q, p, a, inside, out):
    """β, γ and σ of one part in pairs in the tree's order, (3, 2, n + 1); σ of the hub comes last."""
    n, weight = cut.size, (a, 0.0)
    for s in range(n - 1, 0, -1):
        before, m, b = low[s], cut[s], high[s]
        k, from_a, to_m = _part(s + 1, m == before + 1, m, springs, q, p, inside)
        c, from_m, to_b = _part(s + m - before, b == m + 1, b, springs, q, p, inside)
        g = _add(_add(to_m, (grounds[m], 0.0)), from_m)
        t = _add(_add(k, c), g)
        beta, gamma, x = _over(c, t), _over(g, t), _over(weight, t)
        out[0, 0, s], out[0, 1, s] = beta
        out[1, 0, s], out[1, 1, s] = gamma
        out[2, 0, s], out[2, 1, s] = root(x[0], x[1])
        inside[0, s], inside[1, s] = _add(_times(k, beta), (chords[s], 0.0))
        inside[2, s], inside[3, s] = _add(from_a, _times(k, gamma))
        inside[4, s], inside[5, s] = _add(to_b, _times(c, gamma))
    k = (inside[0, 1], inside[1, 1])
    g = _add((inside[4, 1], inside[5, 1]), (grounds[n - 1], 0.0))
    t = _add(k, g)
    gamma, x = _over(g, t), _over(weight, t)
    out[0, :, 0] = 0.0
    out[:, :, n] = 0.0
    out[1, 0, 0], out[1, 1, 0] = gamma
    out[2, 0, 0], out[2, 1, 0] = root(x[0], x[1])
    if not np.isinf(first):
        t = _add(_add((first, 0.0), (inside[2, 1], inside[3, 1])), _times(k, gamma))
        x = _over(weight, t)
        out[2, 0, n], out[2, 1, n] = root(x[0], x[1])


@compiled
def float_sums(low, cut, high, factors, z, b, out, bounds, room):
    """Adds one part to the running sums of many axes and to their bounds, (axes, n), from normals, (axes, n + 1)."""
    u, more, tiny, delta = 2.0**-53, 1.0 + 2.0**-30, 2.0**-400, 2.0**-100
    n = cut.size
    sums, lows, errors = room
    for axis in range(out.shape[0]):
        sums[0] = lows[0] = errors[0] = 0.0
        hub = factors[2, n] * z[axis, n]
        hub_error = (factors[2, n] * b[axis, n] + 24.0 * u * abs(hub)) * more
        for s in range(n):
            i, m, k = low[s] + 1, cut[s] + 1, high[s] + 1
            beta, gamma, sigma = factors[0, s], factors[1, s], factors[2, s]
            start, end, d = sums[i], sums[k], sigma * z[axis, s]
            c, rest = plus(start, lows[i], beta * (end - start) + gamma * (hub - start) + d, 0.0)
            size = beta * (abs(end) + abs(start)) + gamma * (abs(hub) + abs(start)) + abs(d)
            error = (max(1.0 - beta - gamma, 0.0) + 2.0**-48) * errors[i] + beta * errors[k] + gamma * hub_error
            error = (error + sigma * b[axis, s] + 24.0 * u * size + delta * abs(c) + tiny) * more
            sums[m], lows[m], errors[m] = c, rest, error
            out[axis, m - 1] += c
            rounding = 4.0 * u * (abs(c) + abs(out[axis, m - 1]))
            bounds[axis, m - 1] = (bounds[axis, m - 1] + error + rounding) * more


@compiled
def pair_sums(low, cut, high, eta, factors, z, rest, b, out, bounds, room):
    """Adds one part to the running sums of axes in pairs, (axes, 2, n), and to their bounds, (axes, n)."""
    more, tiny, delta = 1.0 + 2.0**-30, 2.0**-400, 2.0**-100
    n = cut.size
    sums, lows, errors = room
    for axis in range(out.shape[0]):
        sums[0] = lows[0] = errors[0] = 0.0
        hub = times(factors[2, 0, n], factors[2, 1, n], z[axis, n], rest[axis, n])
        hub_error = (factors[2, 0, n] * b[axis, n] + eta * abs(hub[0]) + tiny) * more
        for s in range(n):
            i, m, k = low[s] + 1, cut[s] + 1, high[s] + 1
            beta, gamma, sigma = factors[0, :, s], factors[1, :, s], factors[2, :, s]
            start, end = (sums[i], lows[i]), (sums[k], lows[k])
            x = _times((beta[0], beta[1]), plus(end[0], end[1], -start[0], -start[1]))
            y = _times((gamma[0], gamma[1]), plus(hub[0], hub[1], -start[0], -start[1]))
            d = times(sigma[0], sigma[1], z[axis, s], rest[axis, s])
            c = _add(start, _add(_add(x, y), d))
            size = beta[0] * (abs(end[0]) + abs(start[0])) + gamma[0] * (abs(hub[0]) + abs(start[0])) + abs(d[0])
            error = (max(1.0 - beta[0] - gamma[0], 0.0) + 2.0**-48) * errors[i] + beta[0] * errors[k]
            error += gamma[0] * hub_error + sigma[0] * b[axis, s] + eta * size + delta * abs(c[0])
            error = (error + tiny) * more
            sums[m], lows[m] = c
            errors[m] = error
            high_part, low_part = out[axis, 0, m - 1], out[axis, 1, m - 1]
            bounds[axis, m - 1] = (bounds[axis, m - 1] + error + delta * (abs(high_part) + abs(c[0]))) * more
            out[axis, 0, m - 1], out[axis, 1, m - 1] = plus(high_part, low_part, c[0], c[1])


# ---- the second word of a normal (`table.py`)


@compiled
def evaluate(words, seconds, positions, bits, rows, shift, first, step, high, low, bounds):
    """ẑ as pairs and their bounds, (n,) each; shift and first number segments, positions are in units of 1/step."""
    last = rows.shape[0] - 1
    for i in range(words.size):
        j = min((bits[i] >> shift) - first, last)
        if j < 0:
            high[i], low[i], bounds[i] = 0.0, 0.0, np.inf
            continue
        r = rows[j]
        v = words[i] >> np.uint64(1)
        off = np.int64(v - np.uint64(positions[i]))  # exact: in whole numbers that wrap around
        beyond = np.float64(off) + np.float64(seconds[i]) * 2.0**-64
        ta, tb = two_sum((positions[i] - r[0]) * step, beyond * step)
        q = r[27]
        for n in range(26, 18, -1):
            q = r[n] + ta * q
        qa, qb = q, 0.0
        for n in range(17, 0, -2):
            qa, qb = times(ta, tb, qa, qb)
            qa, qb = plus(r[n], r[n + 1], qa, qb)
        high[i], low[i], bounds[i] = qa, qb, r[28]
