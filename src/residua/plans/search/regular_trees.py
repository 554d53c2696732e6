"""The best tree over many ordered values for Laplace noise: how many nodes per level, and how heavy each level is.

In a tree whose nodes of one level are all alike, the mean variance of prefixes, ranges and values follows from one
number per level: sums over the children of a node are powers of their number b, and make sense for any real b. So the
loss of a tree over n values costs O(levels), whatever n, and branching and weights are found together by descent;
afterwards counts of nodes are rounded. Weights ω of the levels, `Σ ω = 1`, cost epsilon 1, and a node's noise then has
variance `2/ω²`.

Reference: matrix-mechanism, §6 (hierarchies); the recursions are our own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from residua.linalg.arrays import Floats
from residua.plans.search.strategies import lowest, shares_of

_LEAST = 2.0  # children of a node
_MOST_LEVELS = 10
_STEEPEST = 12.0  # bound on logarithms of weights
_NOTHING = 2e-3  # a weight below this is none
_STEP = 1e-6  # of numerical slopes
_STARTS = ((0.0, -9.0), (-1.5, -9.0), (0.0, 0.0))  # logarithms: how much fewer top nodes, and how much lighter the root
_SHARPNESS = 24.0  # order of the norm that stands for a maximum
_DIGITS = (0.0, 0.5, 1.0)  # where prefixes end among the children of each node, when the largest is wanted


@dataclass(frozen=True)
class OrderedLoss:
    """What a tree over ordered values is judged by.

    Args:
        size: how many values there are.
        prefixes: what the variance of each prefix counts.
        ranges: what that of each range counts.
        values: what that of each value counts.
        worst: whether the largest counts instead of the sum; of prefixes and values alone.
    """

    size: int
    prefixes: float = 0.0
    ranges: float = 0.0
    values: float = 0.0
    worst: bool = False

    def of_means(self, prefix: Floats, ranges: Floats, value: Floats) -> Floats:
        """The total from mean variances."""
        n = float(self.size)
        return np.asarray(n * (self.prefixes * prefix + self.ranges * (n + 1) / 2 * ranges + self.values * value))

    def regular(self, b: Floats, omega: Floats) -> Floats:
        """The loss of regular trees at epsilon 1, (trees,).

        Args:
            b: children per node of each level above the values, (levels, trees).
            omega: weights from the values up, (levels + 1, trees).
        """
        z, V = _solved(b, omega)
        if not self.worst:
            return self.of_means(*_means(b, z, V, self.size, bool(self.ranges)))
        variances = [self.values * V[0][None]] if self.values else []
        if self.prefixes:
            variances.append(self.prefixes * _prefixes(b, z, V))
        all_ = np.concatenate(variances)
        top = all_.max(axis=0)
        return np.asarray(top * ((all_ / top) ** _SHARPNESS).mean(axis=0) ** (1 / _SHARPNESS))


@dataclass(frozen=True, eq=False)
class Branching:
    """A tree: how many nodes each level between values and root has, and the levels' weights, which add up to 1.

    Args:
        counts: from fine to coarse.
        weights: of the values, these levels and the root.
        name: what it is called.
    """

    counts: tuple[int, ...]
    weights: Floats
    name: str


def branchings(loss: OrderedLoss) -> Iterator[Branching]:
    """Trees worth a closer look: the values alone, the tree of a wavelet, and the best found of each number of levels.

    The Haar wavelet has the Gram matrix of a binary tree with weights √2 of the values, 1 above and 0 of the root, and
    a larger sensitivity: that tree is never worse.
    """
    n = loss.size
    yield Branching((), np.array([1.0, 0.0]), "identity")
    halves = [n]
    while halves[-1] > 2:
        halves.append(-(-halves[-1] // 2))
    weights = np.array([math.sqrt(2.0), *np.ones(len(halves) - 1), 0.0])
    yield Branching(tuple(halves[1:]), weights / weights.sum(), "binary tree of a wavelet")
    least, worse = math.inf, 0
    for levels in range(1, _MOST_LEVELS + 1):
        if n ** (1 / levels) < _LEAST:
            break
        value, b = _best(loss, levels)
        worse = 0 if value < least * (1 - 1e-9) else worse + 1
        least = min(least, value)
        if worse > 2:
            break
        counts = _counts(n, b)
        weights = weighted(loss, counts)
        yield Branching(counts, weights, f"tree of {int((weights > 0).sum())} levels")


def weighted(loss: OrderedLoss, counts: tuple[int, ...]) -> Floats:
    """The best weights found of a tree with so many nodes per level, (levels + 2,)."""
    b = np.array([low / high for low, high in zip((loss.size, *counts), (*counts, 1), strict=True)])[:, None]
    starts = [np.zeros(len(b) + 1), np.append(np.zeros(len(b)), -9.0)]
    _, x = _descended(loss, lambda x: (np.broadcast_to(b, (len(b), x.shape[1])), shares_of(x)), starts, 0)
    omega = shares_of(x)
    omega[1:][omega[1:] < _NOTHING] = 0.0
    return np.asarray(omega / omega.sum())


def _best(loss: OrderedLoss, levels: int) -> tuple[float, Floats]:
    """The loss and the branching of the best tree found with so many levels below its root."""

    def parts(x: Floats) -> tuple[Floats, Floats]:
        room = math.log(loss.size) - levels * math.log(_LEAST)
        return _LEAST * np.exp(room * shares_of(x[:levels])), shares_of(x[levels:])

    starts = np.zeros((len(_STARTS), 2 * levels + 1))
    starts[:, [levels - 1, -1]] = _STARTS
    value, x = _descended(loss, parts, list(starts), levels)
    return value, parts(x[:, None])[0][:, 0]


def _descended(
    loss: OrderedLoss, parts: Callable[[Floats], tuple[Floats, Floats]], starts: list[Floats], narrow: int
) -> tuple[float, Floats]:
    """The least logarithm of the loss found, and where: variables, of which the first few have narrow bounds."""

    def objective(x: Floats) -> tuple[float, Floats]:
        beside = np.concatenate([x[:, None], x[:, None] + _STEP * np.eye(len(x))], axis=1)
        values = np.log(loss.regular(*parts(beside)))
        return float(values[0]), (values[1:] - values[0]) / _STEP

    bounds = [(-4.0, 4.0)] * narrow + [(-_STEEPEST, _STEEPEST)] * (len(starts[0]) - narrow)
    return lowest(objective, starts, bounds, maxiter=200)


def _counts(n: int, b: Floats) -> tuple[int, ...]:
    """How many nodes each level has, fine to coarse: products of the branching above, rounded."""
    counts: list[int] = []
    nodes = 1.0
    for children in b[:0:-1].tolist():
        nodes *= children
        counts.append(min(max(round(nodes), 1), n))
    return tuple(counts[::-1])


def _solved(b: Floats, omega: Floats) -> tuple[list[Floats], list[Floats]]:
    """Of a node of each level from the values up: its variance from below (z), and from everything (V)."""
    z = [2.0 / omega[0] ** 2]
    for children, weight in zip(b, omega[1:], strict=True):
        z.append(1.0 / (weight**2 / 2 + 1.0 / (children * z[-1])))
    V = [z[-1]]
    for level in range(len(b) - 1, -1, -1):
        V.insert(0, V[0] / b[level] ** 2 + z[level] * (1 - 1 / b[level]))
    return z, V


def _means(b: Floats, z: list[Floats], V: list[Floats], n: int, ranges: bool) -> tuple[Floats, Floats, Floats]:
    """Mean variances of prefixes, ranges (0 unless wanted) and values; a and g as in `operators/nesting.py`."""
    a, g = np.zeros_like(z[0]), np.zeros_like(z[0])
    for level in range(len(b) - 1, -1, -1):
        B, own, above = b[level], z[level], V[level + 1]
        one, two = (B - 1) / 2, (B - 1) * (2 * B - 1) / 6  # means of c and c² over children c = 0, …, b − 1
        a = a + 2 * one / B * g + two / B**2 * above + (one - two / B) * own
        g = (g + one / B * above - one * own) / B
    prefix = a + 2 * g + V[0]
    if not ranges:
        return prefix, np.zeros_like(prefix), V[0]
    # Σ of all prefixes inside a node is κ e + ξ, with m values below each child.
    kappa, rest, m = np.ones_like(prefix), np.zeros_like(prefix), np.ones_like(prefix)
    for level, B in enumerate(b):
        total = m * B * (B - 1) / 2 + B * kappa
        squares = m**2 * (B - 1) * B * (2 * B - 1) / 6 + m * kappa * B * (B - 1) + B * kappa**2
        rest = B * rest + z[level] * (squares - total**2 / B)
        kappa, m = total / B, m * B
    whole = kappa**2 * V[-1] + rest
    return prefix, ((n + 1.0) * n * prefix - whole) / (n * (n + 1.0) / 2), V[0]


def _prefixes(b: Floats, z: list[Floats], V: list[Floats]) -> Floats:
    """Variances of prefixes that end at some places, (places, trees)."""
    digits = np.array(list(product(_DIGITS, repeat=len(b))))[:, :, None]
    a, g = np.zeros((1, 1)), np.zeros((1, 1))
    for level in range(len(b) - 1, -1, -1):
        c = digits[:, level] * (b[level] - 1)
        K = c / b[level]
        a, g = (
            a + 2 * K * g + K**2 * V[level + 1] + c * z[level] * (1 - K),
            (g + K * V[level + 1] - c * z[level]) / b[level],
        )
    return np.asarray(a + 2 * g + V[0])
