"""The best noise along one ordered axis: the dense optimum, certified, in passes along the axis.

Weights q on the cells, `S = Q^½ G Q^½`: the best response has the privacy cost matrix `Γ = Q^-½ S^½ Q^-½ / f` with
`f = tr S^½`, and `total variance × pcost ≥ f²` for every plan, whatever q is. Only the diagonal of `S^½` is needed, and
`r(S) S` is that up to the error of the rational r, which the certificate counts. `q ← q (diag S^½ / (q f))^power` leads
to the q at which no cell is more expensive than the others, and the bound is met.

For the largest variance, the queries have weights too, and those of large variance gain: for all weights that add up to
1, `largest variance × pcost ≥ f²`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from residua.linalg.arrays import Floats
from residua.linalg.conductances import Network
from residua.linalg.path import OrderedNoise, Path, prefix_path, range_path
from residua.linalg.roots import InverseRoot, inverse_root

Step = Callable[[int, float], None]  # called after each round with its number and the gap
_POWER = 1.9
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
    diagonal = path.gram_diagonal
    q = np.sqrt(diagonal)
    q /= q.sum()
    best = 0.0
    for rounds in range(1, most_rounds + 1):
        root = inverse_root(*spectrum(path, diagonal, q), error=min(_COARSE, tolerance / 8))
        shares = path.shares(q, root.poles, root.weights)
        f = float(shares.sum())
        best = max(best, f / (1 + root.error))
        ratios = shares / (q * f)
        gap = float(ratios.max()) * (f / best) ** 2 * (1 + root.error) ** 2 - 1
        if step:
            step(rounds, gap)
        if gap <= tolerance:
            break
        q = q * ratios**_POWER
        q /= q.sum()
    fine = inverse_root(*spectrum(path, diagonal, q), error=min(_FINE, tolerance / 8))
    return OrderedSolution(path, q, fine, best**2, rounds, np.empty(0))


def least_largest(n: int, *, tolerance: float, most_rounds: int = 2000, step: Step | None = None) -> OrderedSolution:
    """The noise whose largest variance of a prefix is least, to within a relative `tolerance` of every plan."""
    weights = np.full(n, 1.0 / n)
    q, best = np.full(n, 1.0 / n), 0.0
    for rounds in range(1, most_rounds + 1):
        path = prefix_path(weights)
        root = inverse_root(*spectrum(path, path.gram_diagonal, q), error=min(_COARSE, tolerance / 8))
        shares = path.shares(q, root.poles, root.weights)
        f = float(shares.sum())
        best = max(best, f / (1 + root.error))
        ratios = shares / (q * f)
        variances, _ = OrderedNoise(path, q, root.poles, root.weights).variances()
        gap = float(variances.max()) * float(ratios.max()) * f * (1 + root.error) ** 2 / best**2 - 1
        if step:
            step(rounds, gap)
        if gap <= tolerance:
            break
        q = q * ratios**_POWER
        q /= q.sum()
        weights = weights * (variances / f) ** _POWER
        weights /= weights.sum()
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
        root = inverse_root(*spectrum(path, path.gram_diagonal, q), error=min(_COARSE, tolerance / 8))
        shares = path.shares(q, root.poles, root.weights)
        f = float(shares.sum())
        stood = 0 if f / (1 + root.error) > best * (1 + tolerance / 20) else stood + 1
        best = max(best, f / (1 + root.error))
        ratios = shares / (q * f)
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
        q = q * ratios**_POWER
        q /= q.sum()
        kinds = kinds * np.divide(seen, each * f, out=np.zeros(3), where=each > 0)
        kinds = np.maximum(kinds / kinds.sum(), _LEAST * (each > 0))
        kinds /= kinds.sum()
        along = along * (places / places.mean() if repairing else (sums / sums.mean()) ** _POWER)
        along = np.maximum(along / along.sum(), _LEAST / n)
        along /= along.sum()
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
