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
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np

from residua.linalg.arrays import Floats
from residua.linalg.conductances import Network
from residua.linalg.path import OrderedNoise, Path, prefix_path, range_path
from residua.linalg.roots import InverseRoot, inverse_root
from residua.plans.saddle import Answer, Progress, ascend, simplices
from residua.workload import AttributeQueries

_LEAST = 1e-9  # of an even share, so that none is lost
_PATIENCE = 20  # rounds in which the gap must halve
COARSE = 1e-4  # error of the rational function while q is sought; it is counted in the certificate
_FINE = 1e-5  # of the one that is measured


@dataclass(frozen=True, eq=False)
class OrderedSolution:
    """Noise with covariance `Σ_j a_j (G + p_j Q⁻¹)⁻¹`, and how good it is.

    Args:
        path: the queries that q was found for.
        q: the weights of the cells, which add up to 1, (n,).
        root: poles and weights of the covariance.
        bound: no plan has a loss × pcost below this.
        rounds: how many rounds it took.
        weights: of the queries, where the largest variance counts, (n,); none otherwise.
    """

    path: Path | Network
    q: Floats
    root: InverseRoot
    bound: float
    rounds: int
    weights: Floats


def least_total(
    path: Path | Network, *, tolerance: float, most_rounds: int = 500, step: Progress | None = None
) -> OrderedSolution:
    """The noise of least total variance along a path or a network, to within a relative `tolerance` of every plan."""
    solution = least_of_parts([path], [1.0], 0.0, tolerance=tolerance, most_rounds=most_rounds, step=step)
    return OrderedSolution(path, solution.q, solution.roots[0], solution.bound, solution.rounds, np.empty(0))


@dataclass(frozen=True, eq=False)
class PartsSolution:
    """Weights of the cells, the poles of each part's noise, and how good they are.

    Args:
        q: the weights, (n,).
        roots: of each part, a rational approximation of `S^-½`.
        total: F.
        bound: no plan has a total variance × pcost below this.
        rounds: how many rounds it took.
    """

    q: Floats
    roots: tuple[InverseRoot, ...]
    total: float
    bound: float
    rounds: int


def least_of_parts(
    parts: Sequence[Path | Network],
    factors: Sequence[float],
    even: float,
    *,
    tolerance: float,
    coarse: float = COARSE,
    most_rounds: int = 500,
    step: Progress | None = None,
) -> PartsSolution:
    """The weights of cells that are best for several parts together, to within a relative `tolerance`.

    Args:
        parts: queries along the axis.
        factors: what `S^½` of each part is multiplied by.
        even: what is paid in every cell alike.
        tolerance: how far from the best is near enough.
        coarse: error of the rational functions while weights are sought.
        most_rounds: how many rounds at most.
        step: is told how far it is.
    """
    diagonals = [part.gram_diagonal for part in parts]
    q = sum((factor * np.sqrt(each) for factor, each in zip(factors, diagonals, strict=True)), np.zeros(parts[0].size))

    def answer(q: Floats) -> Answer:
        roots = _roots(parts, diagonals, q, min(coarse, tolerance / 8))
        shares = even * q
        for part, factor, root in zip(parts, factors, roots, strict=True):
            shares = shares + factor * part.shares(q, root.poles, root.weights)
        f, beyond = float(shares.sum()), 1 + max(root.error for root in roots)
        ratios = shares / (q * f)
        return Answer((f / beyond) ** 2, float(ratios.max()) * (f * beyond) ** 2, ratios, (q, f))

    best = ascend(answer, q / q.sum(), simplices([len(q)]), tolerance, most_rounds, progress=step)
    q, f = best.plan
    roots = _roots(parts, diagonals, q, min(_FINE, tolerance / 8))
    return PartsSolution(q, tuple(roots), f, best.bound, best.rounds)


def _roots(parts: Sequence[Path | Network], diagonals: Sequence[Floats], q: Floats, error: float) -> list[InverseRoot]:
    both = zip(parts, diagonals, strict=True)
    return [cached_root(*spectrum(part, diagonal, q), error) for part, diagonal in both]


def cached_root(least: float, most: float, error: float) -> InverseRoot:
    """`x^-½` on an interval or a slightly larger one: finding it takes longer than a pass along a short axis."""
    unit = _unit_root(math.ceil(math.log2(most / least)), error)
    return InverseRoot(unit.poles * most, unit.weights * math.sqrt(most), unit.error)


@lru_cache(maxsize=64)
def _unit_root(powers: int, error: float) -> InverseRoot:
    return inverse_root(2.0 ** -max(powers, 1), 1.0, error)


def respond(queries: Path | Network, q: Floats, error: float) -> tuple[InverseRoot, float, Floats]:
    """The rational function of weights on cells, f, and what each cell pays beside the mean, (n,)."""
    root = cached_root(*spectrum(queries, queries.gram_diagonal, q), error)
    shares = queries.shares(q, root.poles, root.weights)
    f = float(shares.sum())
    return root, f, shares / (q * f)


def least_largest(
    n: int, *, tolerance: float, most_rounds: int = 2000, step: Progress | None = None
) -> OrderedSolution:
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
    return OrderedSolution(path, q, fine_root(path, q, tolerance), best.bound, best.rounds, weights)


def fine_root(queries: Path | Network, q: Floats, tolerance: float) -> InverseRoot:
    """The rational function that is measured."""
    return inverse_root(*spectrum(queries, queries.gram_diagonal, q), error=min(_FINE, tolerance / 8))


@dataclass(frozen=True)
class KindScales:
    """What the variances of each kind of query are divided by; 0 where none are asked."""

    prefixes: float = 0.0
    ranges: float = 0.0
    values: float = 0.0


Pull = Callable[[OrderedNoise], tuple[float, Floats]]  # the largest variance / scale of all queries; at each place


def least_of_kinds(
    n: int,
    scales: KindScales,
    pull: Pull,
    *,
    means: bool,
    tolerance: float,
    most_rounds: int = 300,
    step: Progress | None = None,
) -> tuple[OrderedSolution, float, float]:
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
        most_rounds: how many are too many.
        step: is told how far it is.

    Returns:
        The solution with the weights of prefixes, (n,), or one for all; and the weights of ranges and values.
    """
    sizes = np.array([n, n * (n + 1) / 2, n], dtype=np.float64)
    every = np.array([scales.prefixes, scales.ranges, scales.values])
    kinds = np.flatnonzero(every)

    def answer(theta: Floats, repairing: bool = False) -> Answer:
        q, along = (
            theta[:n],
            theta[n : 2 * n],
        )  # of the cells; of the prefixes, each one's share; the share of each kind
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
    best = ascend(answer, start, normalised, tolerance, most_rounds, patience=_PATIENCE, progress=step)
    if best.gap > tolerance and not means:
        repair = partial(answer, repairing=True)
        best = ascend(
            repair,
            best.proof,
            normalised,
            tolerance,
            most_rounds,
            power=1.0,
            patience=_PATIENCE,
            progress=step,
            best=best,
        )
    path, q, along, per_query = best.plan
    weights = np.array([per_query[0]]) if means else along * n * per_query[0]
    solution = OrderedSolution(path, q, fine_root(path, q, tolerance), best.bound, best.rounds, weights)
    return solution, float(per_query[1]), float(per_query[2])


def _path_of(n: int, per_query: Floats, prefixes: Floats | None) -> Path:
    """The path of weighted queries: of prefixes one by one, or all of a kind alike."""
    if prefixes is None:
        return range_path(n, *per_query.tolist())
    return replace(prefix_path(prefixes), values=float(per_query[2]))


def spectrum(queries: Path | Network, diagonal: Floats, q: Floats) -> tuple[float, float]:
    """Bounds on the eigenvalues of S: its trace, and what Gershgorin's circles say of its inverse, without groups."""
    path = queries.path if isinstance(queries, Network) else queries
    degrees = np.zeros(path.size)
    degrees[:-1] += 2 * path.links
    degrees[1:] += 2 * path.links
    degrees[0] += path.left
    degrees[-1] += path.right
    # Off the diagonal √(q_i q_{i+1}) mixes neighbours: bounded by the larger of the two circles' scales.
    least = 1 / float((degrees / np.minimum(q, np.minimum(np.append(q[1:], np.inf), np.append(np.inf, q[:-1])))).max())
    return least + path.values * float(q.min()), float(diagonal @ q)


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
    path = range_path(n, *weights.values())
    solution = least_total(path, tolerance=_START_TOLERANCE)
    noise = OrderedNoise(path, solution.q, solution.root.poles, solution.root.weights)
    total = noise.combined_with_all(np.append(np.zeros(n - 1), 1.0))
    return solution.q, np.diff(total / total[-1], prepend=0.0)
