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

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from residua.linalg.arrays import Floats
from residua.linalg.conductances import Network
from residua.linalg.path import OrderedNoise, Path, prefix_path, range_path
from residua.linalg.roots import InverseRoot, inverse_root
from residua.plans.saddle import POWER, grown
from residua.workload import AttributeQueries

Step = Callable[[int, float], None]  # called after each round with its number and the gap
_LEAST = 1e-9  # of a share, so that none is lost
_PATIENCE = 12  # rounds without a better bound or plan
_COARSE = 1e-4  # error of the rational function while q is sought; it is counted in the certificate
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
    path: Path | Network, *, tolerance: float, most_rounds: int = 500, step: Step | None = None
) -> OrderedSolution:
    """The noise of least total variance along a path or a network, to within a relative `tolerance` of every plan."""
    found = least_of_parts([path], [1.0], 0.0, tolerance=tolerance, most_rounds=most_rounds, step=step)
    return OrderedSolution(path, found.q, found.roots[0], found.bound, found.rounds, np.empty(0))


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
    coarse: float = _COARSE,
    most_rounds: int = 500,
    step: Step | None = None,
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
    q = q / q.sum()
    best = 0.0
    for rounds in range(1, most_rounds + 1):
        roots = _roots(parts, diagonals, q, min(coarse, tolerance / 8))
        shares = even * q
        for part, factor, root in zip(parts, factors, roots, strict=True):
            shares = shares + factor * part.shares(q, root.poles, root.weights)
        f, error = float(shares.sum()), max(root.error for root in roots)
        best = max(best, f / (1 + error))
        ratios = shares / (q * f)
        gap = float(ratios.max()) * (f / best) ** 2 * (1 + error) ** 2 - 1
        if step:
            step(rounds, gap)
        if gap <= tolerance:
            break
        q = grown(q, ratios, POWER)
    roots = _roots(parts, diagonals, q, min(_FINE, tolerance / 8))
    return PartsSolution(q, tuple(roots), f, best**2, rounds)


def _roots(parts: Sequence[Path | Network], diagonals: Sequence[Floats], q: Floats, error: float) -> list[InverseRoot]:
    both = zip(parts, diagonals, strict=True)
    return [inverse_root(*spectrum(part, diagonal, q), error=error) for part, diagonal in both]


def respond(queries: Path | Network, q: Floats, error: float) -> tuple[InverseRoot, float, Floats]:
    """The rational function of weights on cells, f, and what each cell pays beside the mean, (n,)."""
    root = inverse_root(*spectrum(queries, queries.gram_diagonal, q), error=error)
    shares = queries.shares(q, root.poles, root.weights)
    f = float(shares.sum())
    return root, f, shares / (q * f)


def least_largest(n: int, *, tolerance: float, most_rounds: int = 2000, step: Step | None = None) -> OrderedSolution:
    """The noise whose largest variance of a prefix is least, to within a relative `tolerance` of every plan."""
    weights = np.full(n, 1.0 / n)
    q, best = np.full(n, 1.0 / n), 0.0
    for rounds in range(1, most_rounds + 1):
        path = prefix_path(weights)
        root, f, ratios = respond(path, q, min(_COARSE, tolerance / 8))
        best = max(best, f / (1 + root.error))
        variances, _ = OrderedNoise(path, q, root.poles, root.weights).variances()
        gap = float(variances.max()) * float(ratios.max()) * f * (1 + root.error) ** 2 / best**2 - 1
        if step:
            step(rounds, gap)
        if gap <= tolerance:
            break
        q, weights = grown(q, ratios, POWER), grown(weights, variances / f, POWER)
    fine = inverse_root(*spectrum(path, path.gram_diagonal, q), error=min(_FINE, tolerance / 8))
    return OrderedSolution(path, q, fine, best**2, rounds, weights)


@dataclass(frozen=True)
class Scales:
    """What the variances of each kind of query are divided by; 0 where none are asked."""

    prefixes: float = 0.0
    ranges: float = 0.0
    values: float = 0.0


Pull = Callable[[OrderedNoise], tuple[float, Floats]]  # the largest variance / scale of all queries; at each place


def least_of_kinds(
    n: int,
    scales: Scales,
    pull: Pull,
    *,
    means: bool,
    tolerance: float,
    most_rounds: int = 300,
    step: Step | None = None,
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
    each = np.array([scales.prefixes, scales.ranges, scales.values])
    kinds = (each > 0) / np.count_nonzero(each)  # the share of each kind
    along = np.full(n, 1.0 / n)  # of the prefixes, each one's share
    q, best, found, stood = np.full(n, 1.0 / n), 0.0, None, 0
    repairing = False
    for rounds in range(1, most_rounds + 1):
        per_query = np.divide(kinds, each * sizes, out=np.zeros(3), where=each > 0)
        path = _path_of(n, per_query, None if means else along * n * per_query[0])
        root, f, ratios = respond(path, q, min(_COARSE, tolerance / 8))
        stood = 0 if f / (1 + root.error) > best * (1 + tolerance / 20) else stood + 1
        best = max(best, f / (1 + root.error))
        noise = OrderedNoise(path, q, root.poles, root.weights)
        worst, places = pull(noise)
        loss = worst * float(ratios.max()) * f
        if found is None or loss < found[0]:
            stood = 0 if found is None or loss < found[0] * (1 - tolerance / 20) else stood
            found = (loss, path, q, along, per_query)
        gap = found[0] * (1 + root.error) ** 2 / best**2 - 1
        if step:
            step(rounds, gap)
        if gap <= tolerance or (stood >= _PATIENCE and (means or repairing)):
            break
        if stood >= _PATIENCE:
            repairing, stood = True, 0
        sums, single = noise.variances()
        seen = np.array([sums.mean() if means else along @ sums, 0.0, single.mean()])
        if scales.ranges:
            seen[1] = noise.sum_of_range_variances() / sizes[1]
        q = grown(q, ratios, POWER)
        kinds = grown(
            kinds, np.divide(seen, each * f, out=np.zeros(3), where=each > 0), 1.0, np.where(each > 0, _LEAST, 0.0)
        )
        pull_of = (places / places.mean(), 1.0) if repairing else (sums / sums.mean(), POWER)
        along = grown(along, *pull_of, _LEAST / n)
    assert found is not None
    _, path, q, along, per_query = found
    fine = inverse_root(*spectrum(path, path.gram_diagonal, q), error=min(_FINE, tolerance / 8))
    weights = np.array([per_query[0]]) if means else along * n * per_query[0]
    return OrderedSolution(path, q, fine, best**2, rounds, weights), float(per_query[1]), float(per_query[2])


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
    found = least_total(path, tolerance=_START_TOLERANCE)
    noise = OrderedNoise(path, found.q, found.root.poles, found.root.weights)
    total = noise.combined_with_all(np.append(np.zeros(n - 1), 1.0))
    return found.q, np.diff(total / total[-1], prepend=0.0)
