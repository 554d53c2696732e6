"""Pairs of floats: numbers of about 106 bits, high + low, with a proven bound on the error of every operation.

u = 2⁻⁵³. Without overflow and underflow a sum errs by less than `2⁻¹⁰⁰ (|x| + |y|)`, a product, a quotient and a root
by less than 2⁻¹⁰⁰ times themselves. The sum: `a + c` is split exactly, `b + d` and what is added to it err by at most
`3u² (|x| + |y|)`, and the last step is exact. The product leaves out `b d` and rounds four numbers of size `u |x y|`.
The quotient and the root take a float and what it leaves, known to `13u²`, divided once more, which errs by `u` of a
number of size `4u`. (Joldes, Muller and Popescu 2017 have the best constants, 3 to 15 u²; ours leave room.)
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

from typing import Any

import numpy as np

from residua.compiling import compiled_inline

_inline: Any = compiled_inline  # without fastmath, as the proofs ask


@_inline
def two_sum(a, c):
    """a + c exactly, as a pair (Knuth)."""
    s = a + c
    t = s - a
    return s, (a - (s - t)) + (c - t)


@_inline
def plus(a, b, c, d):
    """(a + b) + (c + d), of any signs."""
    s, e = two_sum(a, c)
    return two_sum(s, e + (b + d))


@_inline
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


@_inline
def times(a, b, c, d):
    """(a + b) (c + d)."""
    p, e = product(a, c)
    return two_sum(p, e + (a * d + b * c))


@_inline
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


@_inline
def root(a, b):
    """The square root of a + b > 0."""
    s = np.sqrt(a)
    p, e = product(s, s)
    r, _ = plus(a, b, -p, -e)
    return two_sum(s, r / (2.0 * s))
