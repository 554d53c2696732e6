"""The noise whose largest variance of a range is least, or nearly so, and a bound that no plan is below.

**The bound.** At the optimum the ranges that matter go over the middle of the axis, from anywhere in one half to
anywhere in the other, and nature's weights for them are nearly a product u_i u_k, of how far they go to the left and to
the right. A range is then a sum A_i + B_k of two prefixes that leave the middle, and the Gram matrix of such weights,
split into what is even and what is odd under reflection, is `G ± G e eᵀ G`: G that of prefixes with weights u, e the
first value. Its inverse is a path again (`linalg.path`), with a conductance at its first node: `−1/(2 − α)` and `1/α`,
α the weight of the empty prefix. So `f = tr S^½` comes from two passes, and `largest variance × pcost ≥ f²/(1 − α²)`,
whatever u and q are. Of an odd number of values the last is left out: fewer ranges, a lower bound.

**The noise** is that of a path with weights for the running sums at both ends of a range. A running sum that ends a
range of large variance gains weight, a cell that is expensive gains q. The square root is cut off: what varies least
along the axis gets less noise than the root would say. None of this is proven; what it comes to is computed
(`linalg.spans`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from residua.linalg.arrays import Floats
from residua.linalg.path import OrderedNoise, Path, ends_path
from residua.linalg.roots import InverseRoot, inverse_root, reciprocal_of
from residua.plans.operators.correlated import Asked, Ordered
from residua.plans.saddle import POWER, Progress
from residua.plans.solver.ordered import shaped, spectrum

Pair = tuple[Floats, Floats]
_RISE = 2.5
_CUT = 3.0  # times the trace: poles beyond are left out
_ERROR = 1e-4
_NOTHING = 1e-12
_PATIENCE = 8  # rounds without anything better
_FEW_CELLS = 768  # while the noise is sought
_SIZES = 8  # each axis is first planned this many times shorter
_SHORT = 96
_STEPS = 8  # at an end of the axis: values that are unlike the rest


# ---- the bound


def least_range(n: int, *, tolerance: float, most_rounds: int = 60, step: Progress | None = None) -> float:
    """No plan along n values has a `largest variance of a range × pcost` below this."""
    if n < 2:
        return 1.0
    even = np.full(n // 2 + 1, 1.0), np.full(n // 2, 1.0)
    return _best_round(_bound_round, _sizes(n), 2, even, 3, tolerance, most_rounds, step)[0]


def _bound_round(_: int, u: Floats, q: Floats) -> tuple[float, Pair, Pair]:
    """The bound of these weights, of the prefixes from the middle and of half the cells, and better ones."""
    u, q = u / u.sum(), q / (2 * q.sum())
    empty, links, right = float(u[0]), 1 / u[1:-1], float(1 / u[-1])
    f, shares = 0.0, np.zeros(len(q))
    covariances, variances = [], np.zeros(len(q))
    for left in (-1 / (2 - empty), 1 / empty):
        path = Path(links, left, right)
        root = inverse_root(*spectrum(path, q), error=_ERROR)
        part = path.shares(q, root.poles, root.weights)
        f += float(part.sum()) / (1 + root.error)
        shares += part / 2
        noise = OrderedNoise(path, q, root.poles, root.weights)
        variances += noise.variances()[0] / 2
        covariances.append(noise.combined_with_all(u[1:]))
    pulls = np.append(0.0, variances + covariances[0] - covariances[1]) + u[1:] @ variances
    return f**2 / (1 - empty**2), (u, q), (u * (pulls / (u @ pulls)) ** 1.5, q * (shares / (q * f)) ** POWER)


# ---- the noise


def quiet_ranges(n: int, *, tolerance: float, most_rounds: int = 60, step: Progress | None = None) -> Ordered:
    """The noise whose `largest variance of a range × pcost` is nearly the least."""
    even = np.full(n + 1, 1.0), np.full(n, 1.0)
    _, (ends, q) = _best_round(_noise_round, _sizes(n), 1, even, _PATIENCE, tolerance, most_rounds, step)
    noise = _noise_of(ends, q)
    asked = Asked(ends=tuple(ends.astype(np.float32).astype(np.float64).tolist()))
    return shaped(asked, q, InverseRoot(noise.poles, noise.weights, np.inf))


def _noise_of(ends: Floats, q: Floats) -> OrderedNoise:
    path = ends_path(ends)
    least, most = spectrum(path, q)
    root = inverse_root(least, most, error=_ERROR)
    weights = root.weights * np.exp(-((root.poles / (_CUT * most)) ** 2))
    kept = weights > _NOTHING * weights.max()
    return OrderedNoise(path, q, root.poles[kept], weights[kept])


def _noise_round(number: int, ends: Floats, q: Floats) -> tuple[float, Pair, Pair]:
    """How good the noise of these weights is, of ends and of cells, and better ones."""
    ends, q = ends / ends.sum(), q / q.sum()
    noise = _noise_of(ends, q)
    variances, starts = noise.largest_ranges(
        _FEW_CELLS - 37 * (number % 4), alone=True
    )  # seen at other places each time
    constant, slope, zeros, weights = reciprocal_of(noise.poles, noise.weights)
    costs = (constant + noise.queries.shares(q, zeros, weights)) / q + slope * noise.queries.gram_diagonal
    rises = np.interp(np.arange(len(ends)), starts, variances / variances.max())
    better = ends * rises**_RISE, q * (costs / float(costs @ q)) ** POWER
    return 1 / float(variances.max() * costs.max()), (ends, q), better


# ---- from short axes to long ones


def _best_round(
    play: Callable[[int, Floats, Floats], tuple[float, Pair, Pair]],
    sizes: Sequence[int],
    halves: int,
    weights: Pair,
    patience: int,
    tolerance: float,
    most_rounds: int,
    step: Progress | None,
) -> tuple[float, Pair]:
    """The largest figure that rounds came to, and its weights: of ends (one more) and cells of 1 / halves of the axis.

    Args:
        play: number, weights ↦ the figure, the weights as they were scaled, and better ones.
        sizes: ever longer axes; the weights of each begin with the best of the one before.
        halves: into how many parts the axis is divided.
        weights: to begin with.
        patience: rounds without anything better.
        tolerance: a tenth of this is better.
        most_rounds: for each size.
        step: called after each round.
    """
    for size in sizes:
        weights = _stretched(weights[0], size // halves + 1), _stretched(weights[1], size // halves)
        best, kept, stood = 0.0, weights, 0
        for number in range(1, most_rounds + 1):
            figure, now, better = play(number, *weights)
            stood = 0 if figure > best * (1 + tolerance / 10) else stood + 1
            best, kept = (figure, now) if figure > best else (best, kept)
            if step:
                step(number, 0.0)
            if stood >= patience:
                break
            weights = better
        weights = kept
    return best, kept


def _sizes(n: int) -> list[int]:
    """Ever longer axes up to this one."""
    sizes = [n]
    while sizes[0] > _SIZES * _SHORT:
        sizes.insert(0, sizes[0] // _SIZES)
    return sizes


def _stretched(weights: Floats, count: int) -> Floats:
    """Weights along an axis of another length: the same shape, and the same steps at both ends."""
    if len(weights) == count:
        return weights
    half = count - count // 2
    logs = np.log(weights)
    stretched = np.concatenate([_from_end(logs, count)[:half], _from_end(logs[::-1], count)[: count - half][::-1]])
    return np.asarray(np.exp(stretched))


def _from_end(logs: Floats, count: int) -> Floats:
    """Logarithms along another axis, right near its start: a power of the distance, but for the first few."""
    ratio, places = count / len(logs), np.log(np.arange(len(logs)) + 0.5)
    slope = (logs[4 * _STEPS] - logs[_STEPS]) / (places[4 * _STEPS] - places[_STEPS])
    near, far = slice(_STEPS), slice(_STEPS, None)
    known = np.concatenate([places[near], places[far] + np.log(ratio)])
    values = np.concatenate([logs[near] - slope * np.log(ratio), logs[far]])
    return np.asarray(np.interp(np.log(np.arange(count) + 0.5), known, values))
