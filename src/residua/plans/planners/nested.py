"""Plans along one ordered axis with levels beside prefixes: noise that is shaped for their nested groups."""

from __future__ import annotations

import numpy as np

from residua.linalg.arrays import Floats, Integers
from residua.linalg.conductances import nesting_of
from residua.linalg.roots import InverseRoot
from residua.plans.operators.shapes import Asked
from residua.plans.planners.along import Along, runs_of
from residua.plans.solver.ordered import Step, least_total
from residua.plans.solver.worst import Losses, least_worst

Shaped = tuple[Asked, Floats, InverseRoot, float]  # queries and cells that shape the noise, its poles, and the bound


def nested_total(found: Along, *, tolerance: float, step: Step | None) -> Shaped:
    """The noise of least total variance; no plan's total variance × pcost is below the bound."""
    asked = found.asked_with_levels
    solution = least_total(asked.network(found.size), tolerance=tolerance, step=step)
    return asked, solution.q, solution.root, solution.bound


def nested_largest(found: Along, scales: Floats, means: bool, *, tolerance: float, step: Step | None) -> Shaped:
    """The noise whose largest variance / scale is least, or mean of a term; the bound holds for every plan.

    Args:
        found: what is asked; ranges only if means count.
        scales: what the variances of each part are divided by, (parts,).
        means: whether the mean variance of each term counts, not the largest.
        tolerance: how far from the best, relatively, is near enough.
        step: is told how far it is.
    """
    n = found.size
    runs = [run for level, _ in found.levels for run in runs_of(level)]
    nesting = nesting_of(n, runs)
    assert nesting is not None  # levels are declared nested
    rows = np.bincount([term for *_, term in found.parts], weights=[asked.rows for asked, *_ in found.parts])
    queries: list[Integers] = []
    factors: list[Floats] = []
    terms: list[Integers] = []
    group = 2 * n  # the number of the next level's first group
    for (asked, _, term), scale in zip(found.parts, scales.tolist(), strict=True):
        if asked.along == "groups":
            own, group = np.arange(group, group + asked.rows), group + asked.rows
        elif asked.along == "ranges":
            own = np.array([2 * n + len(runs)])
        else:
            own = np.arange(n) + (0 if asked.along == "prefixes" else n)
        queries.append(own)
        factors.append(np.full(len(own), 1 / (scale * (rows[term] if means else 1))))
        terms.append(np.full(len(own), term))
    every = np.concatenate(terms)
    ranges = any(asked.along == "ranges" for asked, *_ in found.parts)
    game = Losses(np.concatenate(queries), np.concatenate(factors), every if means else np.arange(len(every)), ranges)
    solution = least_worst(nesting, game, tolerance=tolerance, step=step)
    prefixes = float(solution.prefixes[0]) if means else tuple(solution.prefixes.tolist())
    values, singles = (float(solution.values[0]), ()) if means else (0.0, tuple(solution.values.tolist()))
    groups = tuple((*run, weight) for run, weight in zip(runs, solution.groups.tolist(), strict=True))
    shape = Asked(prefixes, solution.ranges, values, groups=groups, singles=singles)
    return shape, solution.q, solution.root, solution.bound
