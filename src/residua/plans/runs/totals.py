"""Sums of variances over all prefixes, ranges or values of runs, a few numbers per kind of run: O(levels · b²).

An end in a run is `κ e + ξ` (see `solved`). Over all ends in a run, the sums of 1, κ, κ² and Var ξ follow from those of
its parts; so do κ and Var ξ of the sum of all running sums, of which ranges need the variance.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from residua.linalg.arrays import Floats
from residua.plans.runs.solved import Solved


class Totals(NamedTuple):
    """The variances of all prefixes, of all ranges and of all values, added up."""

    prefixes: float
    ranges: float
    values: float


def totals(solved: Solved) -> Totals:
    """Sums of variances, in closed form."""
    shape = solved.shape
    below = np.ones((2, 4)) * [1.0, 1.0, 1.0, 0.0]  # by kind: how many ends, Σκ, Σκ², Σ Var ξ; a value is one end
    of_values = np.ones((2, 2)) * [1.0, 0.0]  # Σκ², Σ Var ξ of values
    whole = np.ones((2, 2)) * [1.0, 0.0]  # κ and Var ξ of the sum of all running sums
    for number, level in enumerate(solved.levels):
        found: list[Floats] = [np.zeros((2, 4)), np.zeros((2, 2)), np.zeros((2, 2))]
        for kind in shape.kinds(number):
            m = shape.columns(number, kind)
            parts = shape.part_kinds(number, kind) if number else np.zeros(m, dtype=np.int64)
            a, before = level.a[kind, :m], level.before[kind, :m]
            E, T, Q = (each[kind].diagonal()[:m] for each in (level.given, level.with_part, level.with_parts))
            count, first, second, rest = below[parts].T
            found[0][kind] = [
                count.sum(),
                float(count @ before + first @ a),
                float(count @ before**2 + 2 * first @ (before * a) + second @ a**2),
                float(rest.sum() + count @ Q + 2 * first @ T + second @ E),
            ]
            found[1][kind] = [
                float(of_values[parts, 0] @ a**2),
                float(of_values[parts, 1].sum() + of_values[parts, 0] @ E),
            ]
            v = count[::-1].cumsum()[::-1] - count + whole[parts, 0]
            spread = float(v @ level.given[kind, :m, :m] @ v)
            found[2][kind] = [float(v @ a), float(whole[parts, 1].sum()) + spread]
        below, of_values, whole = found
    u, n = float(solved.levels[-1].u[0]), shape.size
    prefixes = float(below[0, 2]) * u + float(below[0, 3])
    together = float(whole[0, 0]) ** 2 * u + float(whole[0, 1])
    return Totals(prefixes, (n + 1) * prefixes - together, float(of_values[0, 0]) * u + float(of_values[0, 1]))
