"""Compiled: a tree of intervals, and passes over it for the variances and covariances of `conductances.py`.

An interval from a to b is three conductances: k between its ends, and from each end to the hub. `inside` counts what
lies between its ends, its own chord included; `outside` all the rest.
"""

# Without fastmath: the error bounds count operations.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

import numpy as np

from residua.machine import compiled, compiled_inline


@compiled
def parents(starts, ends, parent):
    """The smallest group around each, −1 for none; whether no two cross. Outer groups come first, (groups,)."""
    around = -1
    for g in range(starts.size):
        while around >= 0 and ends[around] <= starts[g]:
            around = parent[around]
        if around >= 0 and ends[g] > ends[around]:
            return False
        parent[g] = around
        around = g
    return True


@compiled_inline
def _child(starts, order, first, last, vertex):
    # the last of these groups that starts before the vertex, or −1
    low, high = first, last
    while low < high:
        middle = (low + high) // 2
        if starts[order[middle]] < vertex:
            low = middle + 1
        else:
            high = middle
    return order[low - 1] if low > first else -1


@compiled
def cut(starts, ends, order, firsts, low, middle, high, places):
    """Cuts all intervals; children of group g are `order[firsts[g + 1]:firsts[g + 2]]`."""
    n = middle.size
    stack = np.empty((n + 1, 4), dtype=np.int64)  # before, last, the smallest group around it, where it goes
    stack[0, 0], stack[0, 1], stack[0, 2], stack[0, 3] = -1, n - 1, -1, 1
    depth = 1 if n > 1 else 0
    while depth:
        depth -= 1
        a, b, g, s = stack[depth, 0], stack[depth, 1], stack[depth, 2], stack[depth, 3]
        c = _child(starts, order, firsts[g + 1], firsts[g + 2], a + 1)
        if c >= 0 and starts[c] == a and ends[c] == b:
            places[c] = s
            g = c
        m = (a + b + 1) // 2
        c = _child(starts, order, firsts[g + 1], firsts[g + 2], m)
        if c >= 0 and ends[c] > m:  # a group is around the middle
            left_fits, right_fits = starts[c] > a, ends[c] < b
            m = starts[c] if left_fits and (m - starts[c] <= ends[c] - m or not right_fits) else ends[c]
        low[s], middle[s], high[s] = a, m, b
        if b - m > 1:
            stack[depth, 0], stack[depth, 1], stack[depth, 2], stack[depth, 3] = m, b, g, s + m - a
            depth += 1
        if m - a > 1:
            stack[depth, 0], stack[depth, 1], stack[depth, 2], stack[depth, 3] = a, m, g, s + 1
            depth += 1


@compiled_inline
def _part(s, is_value, value, values, q, p, inside):
    # a part of an interval: a single value's conductance, or what was found of it
    if is_value:
        return values[value] + p / q[value], 0.0, 0.0
    return inside[0, s], inside[1, s], inside[2, s]


@compiled_inline
def _inside(low, cut, high, grounds, values, chords, q, p, inside):
    # every interval by its two parts: the star at its cut becomes a triangle
    for s in range(cut.size - 1, 0, -1):
        a, m, b = low[s], cut[s], high[s]
        k, from_a, to_m = _part(s + 1, m == a + 1, m, values, q, p, inside)
        c, from_m, to_b = _part(s + m - a, b == m + 1, b, values, q, p, inside)
        g = to_m + grounds[m] + from_m
        t = k + c + g
        inside[0, s] = k * c / t + chords[s]
        inside[1, s] = from_a + k * (g / t)
        inside[2, s] = to_b + c * (g / t)


@compiled_inline
def _outside(s, low, cut, high, first, grounds, values, chords, q, p, inside, outside):
    # what both parts of the interval at s see outside of themselves; returns those of single values
    a, m, b = low[s], cut[s], high[s]
    if s == 1:
        outside[0, s], outside[1, s], outside[2, s] = 0.0, first, grounds[b]
    between, at_a, at_b = outside[0, s] + chords[s], outside[1, s], outside[2, s]
    k, from_a, to_m = _part(s + 1, m == a + 1, m, values, q, p, inside)
    c, from_m, to_b = _part(s + m - a, b == m + 1, b, values, q, p, inside)
    g = at_b + to_b  # the star at b, for the left part
    t = between + c + g
    left = (between * c / t, at_a + between * (g / t), grounds[m] + from_m + c * (g / t))
    g = at_a + from_a  # the star at a, for the right one
    t = between + k + g
    right = (between * k / t, grounds[m] + to_m + k * (g / t), at_b + between * (g / t))
    if m > a + 1:
        outside[0, s + 1], outside[1, s + 1], outside[2, s + 1] = left
    if b > m + 1:
        outside[0, s + m - a], outside[1, s + m - a], outside[2, s + m - a] = right
    return left, right


@compiled_inline
def _across(triangle):
    # from end to end
    k, g, h = triangle
    return k + g * (h / (g + h))


@compiled
def cover(low, cut, high, values, chords, diagonal, room):
    """Adds what the values and the chords around each value add to the Gram matrix's diagonal, (n,)."""
    room[0] = 0.0
    for s in range(1, cut.size):
        a, m, b = low[s], cut[s], high[s]
        if s == 1:
            room[1] = 0.0
        held = room[s] + chords[s]
        if m > a + 1:
            room[s + 1] = held
        else:
            diagonal[m] += values[m] + held
        if b > m + 1:
            room[s + m - a] = held
        else:
            diagonal[b] += values[b] + held


@compiled
def shares(low, cut, high, first, grounds, values, chords, q, poles, weights, out, inside, outside):
    """`Σ_j a_j [S (S + p_j)⁻¹]_ii`, (n,): what the rest of the network holds of each value's conductance `p_j/q_i`."""
    for j in range(poles.size):
        p, weight = poles[j], weights[j]
        _inside(low, cut, high, grounds, values, chords, q, p, inside)
        for s in range(1, cut.size):
            left, right = _outside(s, low, cut, high, first, grounds, values, chords, q, p, inside, outside)
            a, m, b = low[s], cut[s], high[s]
            if m == a + 1:
                c = (values[m] + _across(left)) * q[m]
                out[m] += weight * (c / (c + p))
            if b == m + 1:
                c = (values[b] + _across(right)) * q[b]
                out[b] += weight * (c / (c + p))


@compiled
def widths(low, cut, high, first, grounds, values, chords, q, poles, weights, single, wide, inside, outside):
    """Variances of single values, (n,), and of all intervals of the tree, (n,): inverse conductances across them."""
    for j in range(poles.size):
        p, weight = poles[j], weights[j]
        _inside(low, cut, high, grounds, values, chords, q, p, inside)
        for s in range(1, cut.size):
            left, right = _outside(s, low, cut, high, first, grounds, values, chords, q, p, inside, outside)
            a, m, b = low[s], cut[s], high[s]
            whole = (outside[0, s] + inside[0, s], outside[1, s] + inside[1, s], outside[2, s] + inside[2, s])
            wide[s] += weight / _across(whole)
            if m == a + 1:
                single[m] += weight / (values[m] + p / q[m] + _across(left))
            if b == m + 1:
                single[b] += weight / (values[b] + p / q[b] + _across(right))


@compiled
def factors(low, cut, high, first, grounds, values, chords, q, p, out, inside):
    """α, β, γ, σ² of every vertex in the tree's order, (4, n), and returns the variance of the hub.

    `C_m = α C_a + β C_b + γ h + σ z`, h the hub.
    """
    _inside(low, cut, high, grounds, values, chords, q, p, inside)
    for s in range(1, cut.size):
        a, m, b = low[s], cut[s], high[s]
        k, _, to_m = _part(s + 1, m == a + 1, m, values, q, p, inside)
        c, from_m, _ = _part(s + m - a, b == m + 1, b, values, q, p, inside)
        g = to_m + grounds[m] + from_m
        t = k + c + g
        out[0, s], out[1, s], out[2, s], out[3, s] = k / t, c / t, g / t, 1.0 / t
    k, g = inside[0, 1], inside[2, 1] + grounds[cut[0]]
    out[0, 0], out[1, 0], out[2, 0], out[3, 0] = 0.0, 0.0, g / (k + g), 1.0 / (k + g)
    return 0.0 if np.isinf(first) else 1.0 / (first + inside[1, 1] + k * (g / (k + g)))


@compiled
def add_sum_variances(low, cut, high, factors, hub, weight, out, room):
    """Adds a part to the variances of all running sums, (n,)."""
    # room: Cov(C_a, C_b) of every interval; Cov(C, hub) of every vertex, and Var C, both from that of −1 on
    between, shared, own = room
    shared[0] = own[0] = 0.0
    between[:2] = 0.0
    for s in range(cut.size):
        a, m, b = low[s] + 1, cut[s] + 1, high[s] + 1
        x, y, h, v = factors[0, s], factors[1, s], factors[2, s], factors[3, s]
        with_a = x * own[a] + y * between[s] + h * shared[a]
        with_b = x * between[s] + y * own[b] + h * shared[b]
        shared[m] = x * shared[a] + y * shared[b] + h * hub
        own[m] = x * with_a + y * with_b + h * shared[m] + v
        if s and m > a + 1:
            between[s + 1] = with_a
        if s and b > m + 1:
            between[s + m - a] = with_b
        out[m - 1] += weight * own[m]


@compiled
def add_row_variances(low, cut, high, factors, hub, weight, where, starts, places, entries, out, y):
    """Adds a part to the variances of combinations of running sums, (rows,); y are zeros, (n + 1,)."""
    few = np.empty(24, dtype=np.int64)
    for row in range(out.size):
        first, last = starts[row], starts[row + 1]
        total = at_hub = 0.0
        for e in range(first, last):
            y[places[e] + 1] += entries[e]
        if last - first <= 8:  # up the tree from each: the deepest goes on to the deeper of the two it lies between
            count = 0
            for e in range(first, last):
                count = _put(few, count, where[places[e]])
            while count:
                at = 0
                for k in range(1, count):
                    if few[k] > few[at]:
                        at = k
                s = few[at]
                count -= 1
                few[at] = few[count]
                d = y[cut[s] + 1]
                total += factors[3, s] * d * d
                at_hub += factors[2, s] * d
                y[cut[s] + 1] = 0.0
                if low[s] >= 0:
                    y[low[s] + 1] += factors[0, s] * d
                    count = _put(few, count, where[low[s]])
                if high[s] >= 0:
                    y[high[s] + 1] += factors[1, s] * d
                    count = _put(few, count, where[high[s]])
        else:
            for s in range(cut.size - 1, -1, -1):
                d = y[cut[s] + 1]
                total += factors[3, s] * d * d
                at_hub += factors[2, s] * d
                y[low[s] + 1] += factors[0, s] * d
                y[high[s] + 1] += factors[1, s] * d
                y[cut[s] + 1] = 0.0
        y[0] = 0.0
        out[row] += weight * (total + hub * at_hub * at_hub)


@compiled_inline
def _put(few, count, s):
    for k in range(count):
        if few[k] == s:
            return count
    few[count] = s
    return count + 1


@compiled
def add_applied(low, cut, high, factors, hub, weight, rows, out, y):
    """Adds a part to the covariances of combinations of running sums with every running sum, (rows, n)."""
    for row in range(rows.shape[0]):
        y[0] = at_hub = 0.0
        y[1:] = rows[row]
        for s in range(cut.size - 1, -1, -1):
            d = y[cut[s] + 1]
            at_hub += factors[2, s] * d
            y[low[s] + 1] += factors[0, s] * d
            y[high[s] + 1] += factors[1, s] * d
        h = hub * at_hub
        y[0] = 0.0
        for s in range(cut.size):
            m = cut[s] + 1
            y[m] = factors[3, s] * y[m] + factors[0, s] * y[low[s] + 1] + factors[1, s] * y[high[s] + 1]
            y[m] += factors[2, s] * h
            out[row, m - 1] += weight * y[m]


@compiled
def add_simulated(low, cut, high, factors, hub, weight, z, out, room):
    """Adds a part of noise to running sums, from standard normals, (n + 1,), in the tree's order and the hub's last."""
    h = np.sqrt(weight * hub) * z[cut.size]
    room[0] = 0.0
    for s in range(cut.size):
        c = factors[0, s] * room[low[s] + 1] + factors[1, s] * room[high[s] + 1] + factors[2, s] * h
        room[cut[s] + 1] = c + np.sqrt(weight * factors[3, s]) * z[s]
        out[cut[s]] += room[cut[s] + 1]
