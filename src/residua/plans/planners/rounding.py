"""Real strategies as integers: fine enough to lose almost nothing, coarse enough for exact noise in 64 bits.

A block multiplies the column norms of its attributes' strategies, and its noise scale (at most 2^40) and measurements
(64 bits) with them: the more attributes cross, the fewer bits each may have. Any rotation of R measures the same, so
R is first rotated until no entry stands out; after rounding, single steps of entries make the columns' norms equal
again, which leaves the loss of second order. Whatever v the rounded matrix has becomes the plan's own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from residua.errors import PlanError
from residua.linalg.arrays import Floats, Integers
from residua.linalg.lattice import Lattice
from residua.plans.blocks import WORD
from residua.plans.lattice.price import FEWEST_RECORDS
from residua.plans.matrix.integers import integer_basis
from residua.plans.noise import LARGEST_SCALE
from residua.plans.solver.attribute import RealStrategy
from residua.plans.strategy import Plain, Rows, Strategy
from residua.workload import AttributeQueries

_MOST_BITS = 15.0  # loses a few parts in a million; any two strategies can then be crossed, by a plan like this one
_FEWEST_BITS = 5.0
_MARGIN_BITS = 6.0  # of the noise scale, kept free so that budgets from 2^-12 on are measured on the same integers
_FILLING = 2.0**-7  # of the largest column norm, for directions outside a row space that is not integer
_ACTIVE = 1e-3


def column_bits(
    lattice: Lattice,
    sizes: Integers,
    strategies: list[RealStrategy | None],
    kept: Sequence[Strategy | None],
    shares: Floats,
    pcost: float,
) -> float:
    """How many bits the column norms of strategies may have that are to be rounded.

    Args:
        lattice: the sets.
        sizes: how many values each attribute has, (attributes,).
        strategies: each attribute's; None for the plain one.
        kept: those that are integers already.
        shares: each block's share of the privacy cost, (sets,).
        pcost: the privacy cost.

    Raises:
        PlanError: too few for a useful strategy: the noise would be beyond what can be sampled exactly.
    """
    plain = np.zeros(len(sizes))
    for i, (n, strategy, given) in enumerate(zip(sizes.tolist(), strategies, kept, strict=True)):
        if given is not None:
            plain[i] = 0.5 * math.log2(max(given.norm, 1))
        elif strategy is None:
            plain[i] = 0.5 * math.log2(n * max(n - 1, 1))
    rounded = np.array([s is not None and g is None for s, g in zip(strategies, kept, strict=True)], dtype=np.float64)
    fixed, count = _sums(lattice, plain), _sums(lattice, rounded)
    spent = 0.5 * math.log2(pcost)  # lower budgets need larger scales
    with np.errstate(divide="ignore"):
        scale = math.log2(LARGEST_SCALE) - 0.5 + spent - fixed + 0.5 * np.log2(shares)
    room = np.minimum(scale, math.log2(WORD / FEWEST_RECORDS) - 0.5 - fixed)
    alone, measured = (shares > 0) & (count == 0), (shares > 0) & (count > 0)
    if any(given is not None for given in kept) and (room[alone] < 0).any():
        raise PlanError(
            "the strategies of like are too fine for so many attributes crossed; plan the sum of the workloads (or the "
            "one that crosses most) first, and then each of them like that."
        )
    if not measured.any():
        return _MOST_BITS
    spare = spent - 0.5 * math.log2(min(pcost, 2.0 ** (-2 * _MARGIN_BITS)))
    room = np.minimum(scale - spare, math.log2(WORD / FEWEST_RECORDS) - 0.5 - fixed)
    bits = float((room[measured] / count[measured]).min())
    if bits < _FEWEST_BITS:
        raise PlanError(
            "so many attributes are crossed at so small a budget that the noise cannot be sampled exactly; "
            "cross fewer attributes, or raise the budget."
        )
    return min(bits, _MOST_BITS)


def integer_strategies(
    strategies: list[RealStrategy | None],
    queries: list[list[AttributeQueries]],
    sizes: Integers,
    kept: Sequence[Strategy | None],
    bits: float,
) -> tuple[Strategy, ...]:
    """Every attribute's strategy as integers with column norms of at most `bits` bits; equal ones are rounded once."""
    known: dict[int, Strategy] = {}
    made = []
    for strategy, asked, size, given in zip(strategies, queries, sizes.tolist(), kept, strict=True):
        if given is not None:
            made.append(given)
        elif strategy is None:
            made.append(Plain(size))
        else:
            if id(strategy) not in known:
                known[id(strategy)] = _rounded(strategy, asked, 2.0**bits)
            made.append(known[id(strategy)])
    return tuple(made)


def _rounded(strategy: RealStrategy, asked: list[AttributeQueries], norm: float) -> Strategy:
    R = strategy.rows
    r, n = R.shape
    if r == n - 1:
        return Rows(n, _even(np.rint(_rotated(R) * norm).astype(np.int64)))
    if r == 0:
        return Rows(n, np.empty((0, n), dtype=np.int64))
    # A smaller row space must be kept exactly: R = M E with independent integer rows E, and only M is rounded.
    W = np.vstack([np.ones((1, n)), *(queries.matrix() for queries in asked)])
    basis = integer_basis(W, r + 1)
    if basis is None:
        null = np.linalg.svd(np.vstack([np.ones((1, n)), R]))[2][r + 1 :]
        filled = np.vstack([R * math.sqrt(1.0 - _FILLING**2), null * _FILLING])
        return Rows(n, np.rint(_rotated(filled) * norm).astype(np.int64))
    M = np.linalg.lstsq(basis.T.astype(np.float64), _rotated(R).T, rcond=None)[0].T
    return Rows(n, np.rint(M * norm).astype(np.int64) @ basis)


def _rotated(R: Floats) -> Floats:
    """The same strategy in other coordinates, so that no entry stands out; always the same rotation."""
    Q = np.linalg.qr(np.random.default_rng(len(R)).standard_normal((len(R), len(R))))[0]
    return np.asarray(Q @ R)


def _even(R: Integers) -> Integers:
    """R with the norms of the columns that were nearly the heaviest made equal, by single steps of entries."""
    norms = (R * R).sum(axis=0)
    active = norms >= norms.max() * (1.0 - _ACTIVE) - 4 * math.sqrt(float(norms.max()))
    goal = int(np.median(norms[active]))
    out = R.copy()
    for j in np.flatnonzero(active):
        column = out[:, j]
        for _ in range(64):
            missing = goal - int(column @ column)
            if missing == 0:
                break
            # Stepping an entry x away from 0 adds 2|x| + 1, towards 0 takes off 2|x| − 1.
            sizes = np.abs(column)
            gains = 2 * sizes + 1 if missing > 0 else np.where(sizes > 0, 2 * sizes - 1, 0)
            fitting = np.where(gains <= abs(missing), gains, 0)
            k = int(fitting.argmax())
            if fitting[k] == 0:
                break
            away = 1 if column[k] >= 0 else -1
            column[k] += away if missing > 0 else -away
    return out


def _sums(lattice: Lattice, values: Floats) -> Floats:
    """`Σ_{i∈S} values[i]` for every S, (sets,)."""
    return np.concatenate([values[level].sum(axis=1) for level in lattice.levels])
