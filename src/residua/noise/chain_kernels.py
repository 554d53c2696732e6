"""Compiled passes that draw noise along an axis (`correlated.py`), in floats and in pairs, with error bounds."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

from typing import Any

import numpy as np

from residua.compiling import compiled, compiled_inline
from residua.noise.pairs import over, plus, root, times

_compiled: Any = compiled  # without fastmath: the error bounds count operations
_inline: Any = compiled_inline


@_inline
def _spring(values, p, q):
    k, e = over(p, 0.0, q, 0.0)
    return plus(values, 0.0, k, e)


@_inline
def _stiffer(link, k, e, a, b):
    # the next R to the left: 1/link + κR/(κ + R)
    c, d = times(k, e, a, b)
    k, e = plus(k, e, a, b)
    c, d = over(c, d, k, e)
    a, b = over(1.0, 0.0, link, 0.0)
    return plus(a, b, c, d)


@_compiled
def stiff(links, right, values, q, p, out):
    """R of one part, computed in pairs and rounded to floats, (n,)."""
    a, b = over(1.0, 0.0, right, 0.0)
    for i in range(q.size - 1, -1, -1):
        out[i] = a + b
        if i > 0:
            k, e = _spring(values, p, q[i])
            a, b = _stiffer(links[i - 1], k, e, a, b)


@_inline
def _float_chain(left, values, q, p, a, stiffness, z, b, out, bounds):
    u, more = 2.0**-53, 1.0 + 2.0**-30  # more: what rounding may have taken from a bound
    count = out.size
    k = values + p / q[0]
    extra = np.sqrt(a * left / (1.0 + left * k * stiffness[0] / (k + stiffness[0])))
    factor = extra * z[count]
    spread = (extra * b[count] + 16.0 * u * abs(factor)) * more if left > 0.0 else 0.0
    c = low = error = slack = rest = 0.0
    away = 1.0  # 1 − m, which is multiplied by φ in each step
    for i in range(count):
        k = values + p / q[i]
        t = 1.0 / (k + stiffness[i])
        psi, phi, sigma = stiffness[i] * t, k * t, np.sqrt(a * t)
        step = sigma * z[i] - psi * c
        error = (phi * error + sigma * b[i] + 16.0 * u * (sigma * abs(z[i]) + psi * abs(c))) * more
        c, low = plus(c, low, step, 0.0)
        error += 2.0**-100 * abs(c)
        part, bound = c, error + 2.0 * u * abs(c)
        if left > 0.0:
            slack = (phi * slack + 16.0 * u * psi * away) * more + 2.0**-100 * away  # of 1 − m
            away, rest = plus(away, rest, -psi * away, 0.0)
            m = 1.0 - away
            part += factor * m
            bound += spread * (m + slack + 2.0 * u) + abs(factor) * (slack + 2.0 * u) + 4.0 * u * abs(factor * m)
        out[i] += part
        bounds[i] = (bounds[i] + bound + 2.0 * u * (abs(part) + abs(out[i]))) * more


@_compiled
def float_chains(left, values, q, p, a, stiffness, z, b, out, bounds):
    """Adds one part to the running sums of many axes and to their bounds, (axes, n), from normals, (axes, n + 1)."""
    for axis in range(out.shape[0]):
        _float_chain(left, values, q, p, a, stiffness, z[axis], b[axis], out[axis], bounds[axis])


@_compiled
def pair_factors(links, left, right, values, q, p, a, psi, sigma):
    """ψ and σ of one part in pairs, (2, n) each; returns the factor of m's normal, a pair."""
    ka, kb = _spring(values, p, q[q.size - 1])
    ra, rb = over(1.0, 0.0, right, 0.0)
    for i in range(q.size - 1, -1, -1):
        wa, wb = plus(ka, kb, ra, rb)
        if i < psi.shape[1]:
            psi[0, i], psi[1, i] = over(ra, rb, wa, wb)
            xa, xb = over(a, 0.0, wa, wb)
            sigma[0, i], sigma[1, i] = root(xa, xb)
        if i > 0:
            ra, rb = _stiffer(links[i - 1], ka, kb, ra, rb)
            ka, kb = _spring(values, p, q[i - 1])
    if left == 0.0:
        return 0.0, 0.0
    xa, xb = times(ka, kb, ra, rb)
    xa, xb = over(xa, xb, wa, wb)
    xa, xb = times(left, 0.0, xa, xb)
    xa, xb = plus(1.0, 0.0, xa, xb)
    ya, yb = times(a, 0.0, left, 0.0)
    ya, yb = over(ya, yb, xa, xb)
    return root(ya, yb)


@_inline
def _pair_chain(eta, extra, psi, sigma, z, low, b, out, bounds):
    more, tiny, delta = 1.0 + 2.0**-30, 2.0**-900, 2.0**-100  # tiny: what underflow may take from a product
    count = out.shape[1]
    fa, fb = times(extra[0], extra[1], z[count], low[count])
    spread = (extra[0] * b[count] + eta * abs(fa) + tiny) * more
    ca = cb = rest = error = slack = 0.0
    away = 1.0
    for i in range(count):
        pa, pb = psi[0, i], psi[1, i]
        sa, sb = sigma[0, i], sigma[1, i]
        phi = max(1.0 - pa, 0.0) + 2.0**-52
        xa, xb = times(sa, sb, z[i], low[i])
        ya, yb = times(pa, pb, ca, cb)
        error = (phi * error + sa * b[i] + eta * (sa * abs(z[i]) + pa * abs(ca)) + tiny) * more
        xa, xb = plus(xa, xb, -ya, -yb)
        ca, cb = plus(ca, cb, xa, xb)
        error += delta * abs(ca)
        ta, tb, bound = ca, cb, error
        if extra[0] > 0.0:
            ya, yb = times(pa, pb, away, rest)
            slack = (phi * slack + eta * pa * away + tiny) * more
            away, rest = plus(away, rest, -ya, -yb)
            slack += delta * away
            ma, mb = plus(1.0, 0.0, -away, -rest)
            ya, yb = times(fa, fb, ma, mb)
            ta, tb = plus(ta, tb, ya, yb)
            off = slack + 4.0 * delta  # of m
            bound += spread * (ma + off) + abs(fa) * off + delta * (abs(ya) + abs(ca)) + tiny
        oa, ob = plus(out[0, i], out[1, i], ta, tb)
        bounds[i] = (bounds[i] + bound + delta * (abs(out[0, i]) + abs(ta))) * more
        out[0, i], out[1, i] = oa, ob


@_compiled
def pair_chains(eta, extra, psi, sigma, z, low, b, out, bounds):
    """Adds one part to the running sums of axes in pairs, (axes, 2, n), and to their bounds, (axes, n)."""
    for axis in range(out.shape[0]):
        _pair_chain(eta, extra, psi, sigma, z[axis], low[axis], b[axis], out[axis], bounds[axis])


@_compiled
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
