"""The best noise along one ordered axis: the dense optimum, certified, in passes along the axis.

Weights q on the cells, `S = Q^½ G Q^½`: the best response has the privacy cost matrix `Γ = Q^-½ S^½ Q^-½ / f` with
`f = tr S^½`, and `total variance × pcost ≥ f²` for every plan, whatever q is. Only the diagonal of `S^½` is needed, and
`r(S) S` is that up to the error of the rational r, which the certificate counts. `q ← q (diag S^½ / (q f))^power` leads
to the q at which no cell is more expensive than the others, and the bound is met.

For the largest variance, the queries have weights too, and those of large variance gain: for all weights that add up to
1, `largest variance × pcost ≥ f²`.

Where the search for an ordered attribute's strategy begins: at the optimum of the attribute alone, found in passes.

For prefixes, ranges and values of one attribute the dense optimum takes passes along it, and no matrices
(`ordered.py`). Alone, that is the strategy itself, which one round of the search then confirms; crossed with others it
is near. Without it a search of 500 values takes 15 rounds of n³.

Several parts: along one axis that is crossed with others there is one optimum for each set of these. Split by sets T of
the other attributes, a workload is a sum over T of queries along the axis, with Gram matrix G_T: what is centred along
T, times matrices along the axis. A plan is a Γ_T for each, and a record in cell k of the axis costs
`Σ_T κ_T (Γ_T)_kk`. With weights q on the cells, `S_T = κ_T Q^½ G_T Q^½` and `F = Σ_T tr S_T^½`, no plan has a total
variance × pcost below F², and `Γ_T = Q^-½ S_T^½ Q^-½ / (κ_T F)` is best for these weights.

The noise whose largest variance is least, of prefixes, values and nested groups: each with a weight of its own.

Nature plays weights λ on losses, which add up to 1: of each query, its variance over its scale, or of each term, the
mean of these. That is a weight for every query, and with the Gram matrix G of all of them so weighted

    max loss × pcost ≥ Σ λ loss × pcost ≥ f²,   f = tr (Q^½ G Q^½)^½,

for every plan and all weights q of the cells that add up to 1. Losses that are large gain weight, cells that are
expensive too (`ordered.py`), and where both stand still the bound is met.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np

from residua.linalg.arrays import Floats, Integers
from residua.linalg.conductances import IntervalTree, NestedNoise, Network, nesting_of, star_network
from residua.linalg.path import OrderedNoise, Path, prefix_path, range_path
from residua.linalg.roots import InverseRoot, inverse_root
from residua.plans.operators.correlated import Asked, Ordered
from residua.plans.saddle import Answer, Progress, ascend, simplices
from residua.workload import AttributeQueries

_LEAST = 1e-9  # of an even share, so that none is lost
_PATIENCE = 20  # rounds in which the gap must halve
_ROUNDS, _KIND_ROUNDS = 500, 300
COARSE = 1e-4  # error of the rational function while q is sought; it is counted in the certificate
_FINE = 1e-5  # of the one that is measured


class Shaped(NamedTuple):
    """Noise along an axis, and what no plan's loss × pcost is below."""

    noise: Ordered
    bound: float


def shaped(asked: Asked, q: Floats, root: InverseRoot) -> Ordered:
    """Noise that is shaped for what is asked, with these weights on the cells, (n,), and these poles."""
    q = q.astype(np.float32).astype(np.float64)  # seven digits are plenty, and half the file
    return Ordered(len(q), asked, q, root.poles, root.weights)


def least_total(n: int, asked: Asked, *, tolerance: float, step: Progress | None = None) -> Shaped:
    """The noise of least total variance along n values, to within a relative `tolerance` of every plan."""
    (noise,), _, bound = least_of_parts(n, [asked], [1.0], 0.0, tolerance=tolerance, step=step)
    return Shaped(noise, bound)


def least_of_parts(
    n: int,
    shapes: Sequence[Asked],
    factors: Sequence[float],
    even: float,
    *,
    tolerance: float,
    coarse: float = COARSE,
    step: Progress | None = None,
) -> tuple[list[Ordered], float, float]:
    """The noise of each part where weights of cells are best for all together, F, and what no plan is below.

    Args:
        n: how many values the axis has.
        shapes: what each part asks along it.
        factors: what `S^½` of each part is multiplied by.
        even: what is paid in every cell alike.
        tolerance: how far from the best, relatively, is near enough.
        coarse: error of the rational functions while weights are sought.
        step: is told how far it is.
    """
    parts = [each.network(n) if each.is_nested else each.path(n) for each in shapes]

    def answer(q: Floats) -> Answer:
        roots = [_root(part, q, min(coarse, tolerance / 8)) for part in parts]
        shares = even * q
        for part, factor, root in zip(parts, factors, roots, strict=True):
            shares = shares + factor * part.shares(q, root.poles, root.weights)
        f, beyond = float(shares.sum()), 1 + max(root.error for root in roots)
        ratios = shares / (q * f)
        return Answer((f / beyond) ** 2, float(ratios.max()) * (f * beyond) ** 2, ratios, (q, f))

    start = sum(
        (factor * np.sqrt(part.gram_diagonal) for factor, part in zip(factors, parts, strict=True)), np.zeros(n)
    )
    best = ascend(answer, start / start.sum(), simplices([n]), tolerance, _ROUNDS, progress=step)
    q, f = best.plan
    noises = [
        shaped(each, q, _root(part, q, min(_FINE, tolerance / 8))) for each, part in zip(shapes, parts, strict=True)
    ]
    return noises, f, best.bound


def _root(queries: Path | Network, q: Floats, error: float) -> InverseRoot:
    return cached_root(*spectrum(queries, q), error)


def cached_root(least: float, most: float, error: float) -> InverseRoot:
    """`x^-½` on an interval or a slightly larger one: finding it takes longer than a pass along a short axis."""
    unit = _unit_root(math.ceil(math.log2(most / least)), error)
    return InverseRoot(unit.poles * most, unit.weights * math.sqrt(most), unit.error)


@lru_cache(maxsize=64)
def _unit_root(powers: int, error: float) -> InverseRoot:
    return inverse_root(2.0 ** -max(powers, 1), 1.0, error)


def respond(queries: Path | Network, q: Floats, error: float) -> tuple[InverseRoot, float, Floats]:
    """The rational function of weights on cells, f, and what each cell pays beside the mean, (n,)."""
    root = _root(queries, q, error)
    shares = queries.shares(q, root.poles, root.weights)
    f = float(shares.sum())
    return root, f, shares / (q * f)


def least_largest(n: int, *, tolerance: float, most_rounds: int = 2000, step: Progress | None = None) -> Shaped:
    """The noise whose largest variance of a prefix is least, to within a relative `tolerance` of every plan."""

    def answer(theta: Floats) -> Answer:
        q, weights = theta[:n], theta[n:]
        path = prefix_path(weights)
        root, f, ratios = respond(path, q, min(COARSE, tolerance / 8))
        variances, _ = OrderedNoise(path, q, root.poles, root.weights).variances()
        loss = float(variances.max()) * float(ratios.max()) * f * (1 + root.error) ** 2
        return Answer((f / (1 + root.error)) ** 2, loss, np.concatenate([ratios, variances / f]), (path, q, weights))

    best = ascend(answer, np.full(2 * n, 1.0 / n), simplices([n, n]), tolerance, most_rounds, progress=step)
    path, q, weights = best.plan
    return Shaped(shaped(Asked(prefixes=tuple(weights.tolist())), q, fine_root(path, q, tolerance)), best.bound)


def fine_root(queries: Path | Network, q: Floats, tolerance: float) -> InverseRoot:
    """The rational function that is measured."""
    return inverse_root(*spectrum(queries, q), error=min(_FINE, tolerance / 8))


@dataclass(frozen=True)
class KindScales:
    """What the variances of each kind of query are divided by; 0 where none are asked."""

    prefixes: float = 0.0
    ranges: float = 0.0
    values: float = 0.0


Pull = Callable[[OrderedNoise], tuple[float, Floats]]  # the largest variance / scale of all queries; at each place


def least_of_kinds(
    n: int, scales: KindScales, pull: Pull, *, means: bool, tolerance: float, step: Progress | None = None
) -> Shaped:
    """The noise whose largest variance / scale is least, or nearly so: of all queries, or of the means of their kinds.

    Nature weighs every prefix (or all alike, where means count), all ranges and all values; for weights whose sum over
    queries of `weight × scale` is 1, no plan is better than f². When that stands still, the prefixes that end where any
    query with a large variance does gain weight, whatever that is for the bound.

    Args:
        n: how many values there are.
        scales: of each kind.
        pull: what the loss is, and where.
        means: whether the mean variance of each kind counts, not the largest.
        tolerance: how far from the best, relatively, is near enough.
        step: is told how far it is.
    """
    sizes = np.array([n, n * (n + 1) / 2, n], dtype=np.float64)
    every = np.array([scales.prefixes, scales.ranges, scales.values])
    kinds = np.flatnonzero(every)

    def answer(theta: Floats, repairing: bool = False) -> Answer:
        q, along = theta[:n], theta[n : 2 * n]  # of cells, and each prefix's share; the share of each kind follows
        per_query = np.zeros(3)
        per_query[kinds] = theta[2 * n :] / (every * sizes)[kinds]
        path = _path_of(n, per_query, None if means else along * n * per_query[0])
        root, f, ratios = respond(path, q, min(COARSE, tolerance / 8))
        noise = OrderedNoise(path, q, root.poles, root.weights)
        worst, places = pull(noise)
        loss = worst * float(ratios.max()) * f * (1 + root.error) ** 2
        sums, single = noise.variances()
        ranges = noise.sum_of_range_variances() / sizes[1] if scales.ranges else 0.0
        seen = np.array([sums.mean() if means else along @ sums, ranges, single.mean()])
        pulls = np.concatenate([ratios, places if repairing else sums, seen[kinds] / every[kinds]])
        return Answer((f / (1 + root.error)) ** 2, loss, pulls, (path, q, along, per_query))

    start = np.repeat([1.0 / n, 1.0 / len(kinds)], [2 * n, len(kinds)])
    normalised = simplices([n, n, len(kinds)], _LEAST / n)
    rounds = partial(
        ascend, normalised=normalised, tolerance=tolerance, limit=_KIND_ROUNDS, patience=_PATIENCE, progress=step
    )
    best = rounds(answer, start)
    if best.gap > tolerance and not means:
        best = rounds(partial(answer, repairing=True), best.proof, power=1.0, best=best)
    path, q, along, per_query = best.plan
    prefixes, ranges, values = per_query.tolist()
    asked = Asked(prefixes if means else tuple((along * n * prefixes).tolist()), ranges, values)
    return Shaped(shaped(asked, q, fine_root(path, q, tolerance)), best.bound)


def _path_of(n: int, per_query: Floats, prefixes: Floats | None) -> Path:
    """The path of weighted queries: of prefixes one by one, or all of a kind alike."""
    if prefixes is None:
        return range_path(n, *per_query.tolist())
    return replace(prefix_path(prefixes), values=float(per_query[2]))


def spectrum(queries: Path | Network, q: Floats) -> tuple[float, float]:
    """Bounds on the eigenvalues of S: its trace, and what Gershgorin's circles say of its inverse, without groups."""
    path = queries.path if isinstance(queries, Network) else queries
    degrees = np.zeros(path.size)
    degrees[:-1] += 2 * path.links
    degrees[1:] += 2 * path.links
    degrees[0] += path.left
    degrees[-1] += path.right
    # Off the diagonal √(q_i q_{i+1}) mixes neighbours: bounded by the larger of the two circles' scales.
    least = 1 / float((degrees / np.minimum(q, np.minimum(np.append(q[1:], np.inf), np.append(np.inf, q[:-1])))).max())
    return least + path.values * float(q.min()), float(queries.gram_diagonal @ q)


FEWEST_VALUES = 192  # values; below, loading the compiled passes takes longer than they save
_START_TOLERANCE = 1e-4


def ordered_start(kinds: Sequence[AttributeQueries]) -> tuple[Floats, Floats] | None:
    """Weights on the values and a spread vector, (n,) each, for these rows, each kind with its mean variance.

    None where the rows are not of that kind, or few.
    """
    n = kinds[0].size
    weights: dict[str | None, float] = {"prefixes": 0.0, "ranges": 0.0, "values": 0.0}
    for asked in kinds:
        if asked.along not in weights:
            return None
        weights[asked.along] += 1.0 / asked.trace()
    if n < FEWEST_VALUES or not weights["prefixes"] + weights["ranges"]:
        return None
    noise = least_total(
        n, Asked(weights["prefixes"], weights["ranges"], weights["values"]), tolerance=_START_TOLERANCE
    ).noise
    return noise.q, noise.spread


# ---- each query with a weight of its own


_LEAST = 1e-9  # of an even share, so that no weight is lost
_WORST_ROUNDS = 3000
_WORST_PATIENCE = 150  # rounds in which the gap must halve


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
    best = ascend(answer, start, normalised, tolerance, _WORST_ROUNDS, patience=_WORST_PATIENCE, progress=step)
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
