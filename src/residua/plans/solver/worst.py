"""The noise whose largest variance is least, of prefixes, values and nested groups: each with a weight of its own.

Nature plays weights λ on losses, which add up to 1: of each query, its variance over its scale, or of each term, the
mean of these. That is a weight for every query, and with the Gram matrix G of all of them so weighted

    max loss × pcost ≥ Σ λ loss × pcost ≥ f²,   f = tr (Q^½ G Q^½)^½,

for every plan and all weights q of the cells that add up to 1. Losses that are large gain weight, cells that are
expensive too (`ordered.py`), and where both stand still the bound is met.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from residua.linalg.arrays import Floats, Integers
from residua.linalg.conductances import IntervalTree, Network, nesting_of, star_network
from residua.linalg.nested_noise import NestedNoise
from residua.plans.operators.correlated import Asked
from residua.plans.saddle import Answer, Progress, ascend, simplices
from residua.plans.solver.ordered import COARSE, Shaped, fine_root, respond, shaped

_LEAST = 1e-9  # of an even share, so that no weight is lost
_ROUNDS = 3000
_PATIENCE = 150  # rounds in which the gap must halve


@dataclass(frozen=True, eq=False)
class Losses:
    """What counts, in terms of variances: of prefixes, values, groups in this order, and of all ranges their sum.

    Args:
        queries: which variance, (entries,).
        factors: what it is multiplied by, (entries,).
        losses: to which loss that is added, (entries,).
        ranges: whether ranges are among it.
    """

    queries: Integers
    factors: Floats
    losses: Integers
    ranges: bool

    @property
    def count(self) -> int:
        """How many losses there are."""
        return int(self.losses.max()) + 1

    def of(self, variances: Floats) -> Floats:
        """All losses, (count,)."""
        return np.bincount(self.losses, weights=self.factors * variances[self.queries]).astype(np.float64)

    def weights(self, shares: Floats, queries: int) -> Floats:
        """The weight of every query, (queries,), from those of the losses."""
        return np.bincount(self.queries, weights=self.factors * shares[self.losses], minlength=queries).astype(float)


def least_worst(
    n: int,
    runs: Sequence[tuple[int, int]],
    losses: Losses,
    *,
    means: bool,
    tolerance: float,
    step: Progress | None = None,
) -> Shaped:
    """The noise whose largest loss is least, to within a relative `tolerance` of every plan.

    Args:
        n: how many values the axis has.
        runs: the first and the last value of every group, which are nested.
        losses: what counts.
        means: whether all queries of a kind have one weight.
        tolerance: how far from the best, relatively, is near enough.
        step: is told how far it is.
    """
    nesting = nesting_of(n, runs)
    assert nesting is not None  # levels are declared nested
    count, queries = losses.count, 2 * n + len(nesting.places) + 1

    def answer(theta: Floats) -> Answer:
        q, weights = theta[:n], losses.weights(theta[n:], queries)
        network = _network(nesting, weights)
        root, f, ratios = respond(network, q, min(COARSE, tolerance / 8))
        noise = NestedNoise(network, q, root.poles, root.weights)
        each = np.maximum(losses.of(_variances(noise, losses.ranges)), 0.0) / f
        loss = float(each.max()) * float(ratios.max()) * (f * (1 + root.error)) ** 2
        return Answer((f / (1 + root.error)) ** 2, loss, np.concatenate([ratios, each]), (weights, q))

    start, normalised = np.repeat([1.0 / n, 1.0 / count], [n, count]), simplices([n, count], _LEAST / max(n, count))
    best = ascend(answer, start, normalised, tolerance, _ROUNDS, patience=_PATIENCE, progress=step)
    weights, q = best.plan
    held = weights.tolist()
    groups = tuple((*run, weight) for run, weight in zip(runs, held[2 * n : -1], strict=True))
    if means:
        asked = Asked(held[0], held[-1], held[n], groups=groups)
    else:
        asked = Asked(tuple(held[:n]), held[-1], groups=groups, singles=tuple(held[n : 2 * n]))
    return Shaped(shaped(asked, q, fine_root(_network(nesting, weights), q, tolerance)), best.bound)


def _network(nesting: IntervalTree, weights: Floats) -> Network:
    n = nesting.size
    return star_network(nesting, weights[:n], float(weights[-1]), weights[n : 2 * n], weights[2 * n : -1])


def _variances(noise: NestedNoise, ranges: bool) -> Floats:
    """Of prefixes, values and groups, and of all ranges their sum, (queries,)."""
    single, wide = noise.widths()
    return np.concatenate([noise.sum_variances(), single, wide, [noise.sum_of_range_variances() if ranges else 0.0]])
