"""A mixture of independent attributes, fitted to all pairs at once: the model that borrows strength across tables.

`P(x) = Σ_k π_k Π_i p_ki(x_i)`. Its table of a pair (a, b) is `Σ_k π_k p_ka p_kbᵀ`, so that all pairs are one product of
matrices, (W, K) by (K, W) with W values in all: the cost grows with the values, not with a junction tree. It is fitted
by gradient steps to the measured residuals, each by its precision, with a penalty on the information that the
component tells of the attributes,

    ½ Σ_ab (τ_ab/τ̄) ‖C_a (P_ab − Y_ab/N) C_b‖² + λ Σ_a I(k; x_a),     λ = 2 / (N √τ̄).

Information is quadratic in the deviations from independence, and a product of two factors with squared penalties is a
nuclear norm: the penalty thresholds the singular values of the normalised interactions, at twice the level that
noise of precision τ̄ reaches (its largest singular value is near one in these units). Without noise λ is 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from residua.linalg.arrays import Floats

Singles = NDArray[np.float32]
COMPONENTS, ROUNDS = 128, 200
_FEWEST = 32
THRESHOLD = 2.0  # λ N √τ̄
_STEP, _WARM, _SPREAD = 0.1, 20, 0.2
_LEAST_SHARE = 1e-6


@dataclass(frozen=True, eq=False)
class Values:
    """Where the values of each attribute stand among all values.

    Args:
        sizes: how many values each attribute has, (attributes,).
    """

    sizes: NDArray[np.int64]

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """Where each attribute's values begin, (attributes,)."""
        return np.concatenate([[0], np.cumsum(self.sizes)[:-1]]).astype(np.int64)

    @cached_property
    def owner(self) -> NDArray[np.int64]:
        """The attribute of each value, (values,)."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    @cached_property
    def all(self) -> list[slice]:
        """The values of each attribute."""
        return [slice(a, a + n) for a, n in zip(self.starts.tolist(), self.sizes.tolist(), strict=True)]

    def of(self, attribute: int) -> slice:
        """The values of one attribute."""
        return self.all[attribute]

    @property
    def pair_cells(self) -> int:
        """How many cells the tables of all pairs have."""
        return int((int(self.sizes.sum()) ** 2 - int((self.sizes**2).sum())) // 2)


@dataclass(frozen=True, eq=False)
class Pairs:
    """The tables of all pairs of attributes: `pairs[i, j]` is one, (values of i, values of j), and may be assigned.

    Args:
        values: how many each attribute has.
        flat: the cells of all pairs i < j, one table after the other.
    """

    values: Values
    flat: Floats

    @staticmethod
    def none(values: Values) -> Pairs:
        """All of them zero."""
        return Pairs(values, np.zeros(values.pair_cells))

    @cached_property
    def _starts(self) -> NDArray[np.int64]:
        cells = np.triu(np.multiply.outer(self.values.sizes, self.values.sizes), 1)
        return np.asarray(np.cumsum(cells).reshape(cells.shape) - cells, dtype=np.int64)

    def __getitem__(self, pair: tuple[int, int]) -> Floats:
        i, j = min(pair), max(pair)
        start, n, m = int(self._starts[i, j]), int(self.values.sizes[i]), int(self.values.sizes[j])
        table = self.flat[start : start + n * m].reshape(n, m)
        return table if pair[0] < pair[1] else table.T

    def __setitem__(self, pair: tuple[int, int], table: Floats) -> None:
        self[pair][...] = table


@dataclass(frozen=True, eq=False)
class Target:
    """What a mixture is fitted to, in shares of the total.

    Args:
        values: where each attribute's values stand.
        singles: centred shares of each attribute, (values,).
        pairs: centred shares of each pair, symmetric, zero within an attribute, (values, values).
        single_weights: relative precision of each attribute's shares, (attributes,).
        pair_weights: relative precision of each pair's shares, symmetric, zero diagonal, (attributes, attributes).
        first: shares of each attribute to begin with, positive, (values,).
        penalty: λ.
    """

    values: Values
    singles: Floats
    pairs: Floats
    single_weights: Floats
    pair_weights: Floats
    first: Floats
    penalty: float


@dataclass(frozen=True, eq=False)
class Mixture:
    """A mixture of independent attributes.

    Args:
        weights: π, (components,).
        shares: p, each attribute's shares in each component, (components, values).
    """

    weights: Floats
    shares: Floats

    @property
    def singles(self) -> Floats:
        """The shares of each attribute, (values,)."""
        return self.weights @ self.shares

    def pair(self, one: slice, other: slice) -> Floats:
        """The shares of a pair of attributes, given where their values stand."""
        return np.asarray((self.weights[:, None] * self.shares[:, one]).T @ self.shares[:, other])


def fit_mixture(
    target: Target,
    components: int | None = None,
    rounds: int = ROUNDS,
    progress: Callable[[int, float], object] | None = None,
) -> Mixture:
    """The mixture that fits the target best, by Adam with a warm start and a cosine schedule; the same every time."""
    components = components or int(np.clip(4 * len(target.first), _FEWEST, COMPONENTS))
    random = np.random.default_rng(20)  # where the components begin: no noise of privacy, so that results repeat
    single = np.float32
    values = target.values
    owner, starts = values.owner, values.starts
    logits = (np.log(target.first) + _SPREAD * random.standard_normal((components, len(owner)))).astype(single)
    levels = np.zeros(components, dtype=single)
    centre = (1.0 / values.sizes[owner]).astype(single)
    pair_weights = target.pair_weights[owner][:, owner].astype(single)
    single_weights = target.single_weights[owner].astype(single)
    pairs, singles = target.pairs.astype(single), target.singles.astype(single)
    averages = [(np.zeros_like(one), np.zeros_like(one)) for one in (logits, levels)]
    for number in range(rounds):
        shares, weights = _shares(logits, starts, owner), softmax(levels)
        moved = shares - centre  # rows sum to one, so that this centres them
        gap = moved.T @ (weights[:, None] * moved)
        gap -= pairs
        gap *= pair_weights
        pull = moved @ gap
        along = single_weights * (weights @ moved - singles)
        slope = pull + along
        level_slope = 0.5 * np.einsum("kw,kw->k", pull, moved) + moved @ along
        if target.penalty:
            surprise = np.log(np.maximum(shares, 1e-12) / (weights @ shares))
            surprise *= single(target.penalty)
            slope += surprise
            level_slope += np.einsum("kw,kw->k", shares, surprise)
        slope -= np.add.reduceat(shares * slope, starts, axis=1)[:, owner]
        slope *= shares * (weights[:, None] * components)
        level_slope = weights * (level_slope - weights @ level_slope) * components
        step = _STEP * min(1.0, (number + 1) / _WARM) * 0.5 * (1.0 + np.cos(np.pi * number / rounds))
        for parameter, gradient, state in zip((logits, levels), (slope, level_slope), averages, strict=True):
            _adam(parameter, gradient, state, number, step)
        if progress is not None and number % 25 == 0:
            progress(number, float(rounds))
    exact = _shares(logits, starts, owner).astype(np.float64)
    exact /= np.add.reduceat(exact, starts, axis=1)[:, owner]
    return Mixture(softmax(levels.astype(np.float64)), exact)


def _adam(parameter: Singles, gradient: Singles, state: tuple[Singles, Singles], number: int, step: float) -> None:
    mean, square = state
    largest = float(np.abs(gradient).max(initial=0.0))
    if largest == 0.0 or not np.isfinite(largest):
        return
    mean *= np.float32(0.9)
    mean += np.float32(0.1) * gradient
    square *= np.float32(0.99)
    square += np.float32(0.01) * gradient * gradient
    scale = np.sqrt(square * np.float32(1.0 / (1.0 - 0.99 ** (number + 1))))
    scale += np.float32(1e-18)
    parameter -= np.float32(step / (1.0 - 0.9 ** (number + 1))) * mean / scale


def _shares(logits: Singles, starts: NDArray[np.int64], owner: NDArray[np.int64]) -> Singles:
    shares = logits - np.maximum.reduceat(logits, starts, axis=1)[:, owner]
    np.exp(shares, out=shares)
    shares /= np.add.reduceat(shares, starts, axis=1)[:, owner]
    return shares


def first_shares(values: Values, singles: Floats) -> Floats:
    """Shares to begin with, from centred ones: the nearest that are not negative, kept above zero."""
    shares = np.empty(len(singles))
    for i, size in enumerate(values.sizes.tolist()):
        shares[values.of(i)] = nearest_shares(singles[values.of(i)] + 1.0 / size)
    shares = np.maximum(shares, _LEAST_SHARE)
    return np.asarray(shares / np.add.reduceat(shares, values.starts)[values.owner])


def nearest_shares(wanted: Floats) -> Floats:
    """The nearest vector of non-negative numbers that add up to one."""
    ordered = np.sort(wanted)[::-1]
    excess = (np.cumsum(ordered) - 1.0) / np.arange(1, len(ordered) + 1)
    return np.asarray(np.maximum(wanted - excess[np.flatnonzero(ordered > excess)[-1]], 0.0))
