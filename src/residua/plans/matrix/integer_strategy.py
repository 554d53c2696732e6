"""A strategy of real numbers as integers: what a dense plan really measures, and what that costs.

`y = B x + round(s · z)` with an integer matrix B and one noise scale s. The strategy is rounded first; cost and
variances are those of the rounded matrix. A query is answerable if it lies in the row space of B, so rounding must
not leave the row space of the workload: where that is smaller than the space of all cells, the strategy is written as
`M E` with E independent integer rows of the workload, and only M is rounded.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import linalg

from residua.errors import PlanError
from residua.linalg.arrays import Floats, Integers

LARGEST_ENTRY = 2.0**30
FINE_ENTRY = 2.0**32  # of parts of plans, which must add up: closer, but no more than 2^30 records can be counted
LARGEST_SCALE = 2.0**40
_MOST_DENOMINATOR = 2**20
FILLING = 1e-4  # of the strategy's largest column norm, for directions outside a row space that is not integer


def integer_strategy(
    strategy: Floats, workload: Floats, pcost: float, largest: float = LARGEST_ENTRY
) -> tuple[Integers, float]:
    """Integers B and noise scale s with `max diag BᵀB/s² ≤ pcost` and Γ as close to SᵀS as rounding allows.

    Args:
        strategy: S, (rank, cells), in the row space of the workload.
        workload: the queries on the same cells, (queries, cells).
        pcost: what measuring may cost.
        largest: how large integers may be.
    """
    rank = int(np.linalg.matrix_rank(strategy, rtol=1e-10))
    if rank == strategy.shape[1]:
        return direct_integers(strategy, pcost, largest)[:2]
    basis = integer_basis(workload, rank)
    if basis is None:
        return filled_integers(strategy, pcost, largest)
    return basis_integers(strategy, basis, pcost, largest)


def basis_integers(
    strategy: Floats, basis: Integers, pcost: float, largest: float = LARGEST_ENTRY
) -> tuple[Integers, float]:
    """The strategy as `M E` with integer rows E whose space holds it, M rounded: it stays in that space exactly."""
    B = _product(_nearest(strategy * 2.0 ** _bits(strategy, pcost, largest), basis.astype(np.float64)), basis)
    return B, _scale(B, pcost)


def _nearest(rows: Floats, basis: Floats) -> Floats:
    """Whole coefficients M with `M E` near the rows, (rows, rank).

    One coefficient after the other, each making up for how the ones before were rounded (Babai's nearest plane): off
    by half of what a basis row adds to those before it, where rounding all at once is off by half of all of it.
    """
    # The longest rows first, so that each adds as little as it can to those that are fixed after it.
    order = np.argsort(-np.linalg.norm(basis, axis=1), kind="stable")
    Q, R = linalg.qr(basis[order].T, mode="economic")
    left = rows @ Q
    found = np.zeros(left.shape)
    for k in range(len(order) - 1, -1, -1):
        found[:, order[k]] = np.rint(left[:, k] / R[k, k])
        left[:, : k + 1] -= np.multiply.outer(found[:, order[k]], R[: k + 1, k])
    return found


def filled_integers(strategy: Floats, pcost: float, largest: float = LARGEST_ENTRY) -> tuple[Integers, float]:
    """The strategy rounded entry by entry, with a little measured in every direction that it leaves out.

    Rounding tilts its space by some 1e-9, so that no query would lie in it exactly; now every query is answerable.
    """
    norm = math.sqrt(float((strategy**2).sum(axis=0).max()))
    filling = linalg.null_space(strategy).T * (norm * FILLING)
    return direct_integers(np.vstack([strategy, filling]), pcost, largest)[:2]


def direct_integers(strategy: Floats, pcost: float, largest: float = LARGEST_ENTRY) -> tuple[Integers, float, float]:
    """The strategy rounded entry by entry, its noise scale, and what one step of the integer grid stands for."""
    bits = _bits(strategy, pcost, largest)
    B = np.rint(strategy * 2.0**bits).astype(np.int64)
    return B, _scale(B, pcost), 2.0**-bits


def _bits(strategy: Floats, pcost: float, largest: float) -> int:
    """One power of two for all entries; the noise scale, about `2^bits · norm / √pcost`, must stay samplable."""
    norm = math.sqrt(float((strategy**2).sum(axis=0).max()))
    entry = float(np.abs(strategy).max())
    return math.floor(min(math.log2(largest / entry), math.log2(LARGEST_SCALE * math.sqrt(pcost) / norm) - 1))


def integer_basis(workload: Floats, rank: int) -> Integers | None:
    """Independent rows of the workload that span it, as integers; None if they are not multiples of a small unit."""
    pivots = linalg.qr(workload.T, mode="r", pivoting=True)[1][:rank]
    rows = workload[np.sort(pivots)]
    for denominator in (1, 2, 4, 8, 10, 16, 100, 1000, 10_000, 2**10, 2**16, _MOST_DENOMINATOR):
        scaled = rows * denominator
        whole = np.rint(scaled)
        if (whole == scaled).all() or np.abs(whole / denominator - rows).max() == 0:
            # Rows may share a factor: the smaller the entries, the finer the rounding.
            whole = whole / np.maximum(np.gcd.reduce(whole.astype(np.int64), axis=1), 1)[:, None]
            return whole.astype(np.int64) if np.abs(whole).max() < 2**24 else None
    return None


def _product(M: Floats, basis: Integers) -> Integers:
    bound = float((np.abs(M) @ np.abs(basis)).max())
    if bound < 2.0**62:
        return np.asarray(M.astype(np.int64) @ basis)
    raise PlanError("the workload's rows are so nearly dependent that it cannot be measured in 64 bits; drop some.")


def _scale(B: Integers, pcost: float) -> float:
    """The least noise scale at which the integers cost at most this, rounded up."""
    largest = max(sum(int(b) * int(b) for b in column) for column in _heaviest(B))
    scale = math.sqrt(largest / pcost) * (1.0 + 2.0**-48)
    if not 0.5 <= scale <= LARGEST_SCALE:
        raise PlanError("the plan's noise is outside what can be sampled exactly; change the budget.")
    return scale


def _heaviest(B: Integers) -> Integers:
    """The columns whose norm may be the largest, as rows; floats are good to a few parts in 10^15."""
    norms = (B.astype(np.float64) ** 2).sum(axis=0)
    return np.asarray(B.T[norms >= norms.max() * (1 - 1e-9)])
