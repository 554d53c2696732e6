"""Compiled: which group is inside which, and where a tree of intervals is cut (`nesting.py`)."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

from typing import Any

import numpy as np

from residua.compiling import compiled, compiled_inline

_compiled: Any = compiled
_inline: Any = compiled_inline


@_compiled
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


@_inline
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


@_compiled
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
