"""Blocks along an axis tell of the blocks without it: from what is measured to what is known, and back.

Along an axis with correlated noise the counts themselves are measured, their total included
(`operators/correlated.py`). A block U measured at precision τ_U tells every block `T = U without some axes` at
precision `τ_U Π tells_i` over the axes left out. What is known of T is the sum, `τ'_T = Σ_{U⊇T} τ_U Π_{i∈U∖T} tells_i`;
all facts of a plan are those of τ'.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from residua.linalg.arrays import Floats
from residua.linalg.lattice import SetFamily
from residua.plans.operators.correlated import Ordered
from residua.plans.strategy import Strategy

_NOTHING = 1e-12  # of what is known of a block: not worth a measurement of its own


def tells_of(strategies: Sequence[Strategy]) -> Floats:
    """`tells` of every attribute, (attributes,)."""
    return np.array([strategy.tells for strategy in strategies])


def known(lattice: SetFamily, measured: Floats, tells: Floats) -> Floats:
    """τ' of every set from τ, (sets,)."""
    return lattice.sum_over_supersets(measured, tells)


def to_measure(lattice: SetFamily, precisions: Floats, tells: Floats) -> Floats:
    """The least τ ≥ 0 with which every set is known at least as precisely as wanted, (sets,)."""
    axes = np.concatenate([(tells[level] > 0).sum(axis=1) for level in lattice.levels])
    measured = np.zeros(len(lattice))
    for count in range(int(axes.max(initial=0)), -1, -1):  # the sets with most axes tell of the others
        here = axes == count
        lacking = precisions - known(lattice, measured, tells)
        measured[here] = np.where(lacking > _NOTHING * precisions, lacking, 0.0)[here]
    return measured


def feasible(lattice: SetFamily, precisions: Floats, strategies: Sequence[Strategy]) -> Floats:
    """The precisions, raised where blocks along axes tell more than is wanted, (sets,)."""
    tells = tells_of(strategies)
    if not tells.any():
        return precisions
    return np.maximum(precisions, known(lattice, to_measure(lattice, precisions, tells), tells))


def replacement_bound(lattice: SetFamily, precisions: Floats, strategies: Sequence[Strategy]) -> float:
    """What replacing a record costs at most: each block its own worst, as `crossed_measurements.py` prices it."""
    tells = tells_of(strategies)
    costs = lattice.products(np.array([strategy.cost for strategy in strategies]))
    whole = lattice.sum_over_subsets(costs, tells) * to_measure(lattice, precisions, tells)
    apart = lattice.maxima(
        np.array([strategy.opposed if isinstance(strategy, Ordered) else -strategy.least for strategy in strategies])
    )
    return float(2 * (whole[1:] * (1 + np.maximum(apart[1:], 0.0))).sum())
