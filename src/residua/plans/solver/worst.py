"""The noise whose largest variance is least, of prefixes, values and nested groups: each with a weight of its own.

Nature plays weights λ on losses, which add up to 1: of each query, its variance over its scale, or of each term, the
mean of these. That is a weight for every query, and with the Gram matrix G of all of them so weighted

    max loss × pcost ≥ Σ λ loss × pcost ≥ f²,   f = tr (Q^½ G Q^½)^½,

for every plan and all weights q of the cells that add up to 1. Losses that are large gain weight, cells that are
expensive too (`ordered.py`), and where both stand still the bound is met.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from residua.linalg.arrays import Floats, Integers
from residua.linalg.conductances import IntervalTree, Network, star_network
from residua.linalg.nested_noise import NestedNoise
from residua.linalg.roots import InverseRoot, inverse_root
from residua.plans.saddle import POWER, grown
from residua.plans.solver.ordered import Step, spectrum

_LEAST = 1e-9  # of an even share, so that no weight is lost
_COARSE, _FINE = 1e-4, 1e-5  # error of the rational function: while weights are sought, and of the one that is measured
_ROOM = 4.0  # by which the interval of the rational function is wider than the eigenvalues, so that it serves again
_PATIENCE = 40  # rounds without a better bound or plan, until steps become shorter


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


@dataclass(frozen=True, eq=False)
class WorstSolution:
    """Noise shaped for weighted queries, and how good it is.

    Args:
        prefixes: their weights, (n,).
        ranges: the weight of each.
        values: their weights, (n,).
        groups: their weights, (groups,).
        q: the weights of the cells, which add up to 1, (n,).
        root: poles and weights of the covariance.
        bound: no plan has a largest loss × pcost below this.
        rounds: how many rounds it took.
    """

    prefixes: Floats
    ranges: float
    values: Floats
    groups: Floats
    q: Floats
    root: InverseRoot
    bound: float
    rounds: int


def least_worst(
    nesting: IntervalTree, losses: Losses, *, tolerance: float, most_rounds: int = 3000, step: Step | None = None
) -> WorstSolution:
    """The noise whose largest loss is least, to within a relative `tolerance` of every plan."""
    n, count = nesting.size, losses.count
    queries = 2 * n + len(nesting.places) + 1
    shares, q = np.full(count, 1.0 / count), np.full(n, 1.0 / n)
    best, least, power, stood, fits = 0.0, np.inf, POWER, 0, (np.inf, 0.0)
    for rounds in range(1, most_rounds + 1):
        weights = losses.weights(shares, queries)
        network = _network(nesting, weights)
        low, high = spectrum(network, network.gram_diagonal, q)
        if not fits[0] <= low <= high <= fits[1]:  # finding the function takes longer than a pass along a short axis
            fits = low / _ROOM, high * _ROOM
            root = inverse_root(*fits, error=min(_COARSE, tolerance / 8))
        cells = network.shares(q, root.poles, root.weights)
        f = float(cells.sum())
        ratios = cells / (q * f)
        noise = NestedNoise(network, q, root.poles, root.weights)
        each = losses.of(_variances(noise, losses.ranges)) / f
        loss = float(each.max()) * float(ratios.max()) * f**2
        stood += 1
        if f > best * (1 + tolerance / 20) or loss < least * (1 - tolerance / 20):
            stood = 0
        best = max(best, f / (1 + root.error))
        if loss < least:
            least, kept = loss, (weights, q)
        gap = least * (1 + root.error) ** 2 / best**2 - 1
        if step:
            step(rounds, gap)
        if gap <= tolerance:
            break
        if stood > _PATIENCE:
            if power < 1.0:
                break
            power, stood = power - 0.4, 0
        q, shares = grown(q, ratios, power), grown(shares, np.maximum(each, 0.0), power, _LEAST / count)
    weights, q = kept
    network = _network(nesting, weights)
    fine = inverse_root(*spectrum(network, network.gram_diagonal, q), error=min(_FINE, tolerance / 8))
    return WorstSolution(
        weights[:n], float(weights[-1]), weights[n : 2 * n], weights[2 * n : -1], q, fine, best**2, rounds
    )


def _network(nesting: IntervalTree, weights: Floats) -> Network:
    n = nesting.size
    return star_network(nesting, weights[:n], float(weights[-1]), weights[n : 2 * n], weights[2 * n : -1])


def _variances(noise: NestedNoise, ranges: bool) -> Floats:
    """Of prefixes, values and groups, and of all ranges their sum, (queries,)."""
    single, wide = noise.widths()
    return np.concatenate([noise.sum_variances(), single, wide, [noise.sum_of_range_variances() if ranges else 0.0]])
