"""Real strategies as integers: what a matrix plan really measures, and in which space.

`y = B x + round(s · z)` with an integer matrix B and one noise scale s. The strategy is rounded first; cost and
variances are those of the rounded matrix. A query is answerable if it lies in the row space of B, so rounding must
not leave the row space of the workload: where that is smaller than the space of all cells, the strategy is written as
`M E` with E independent integer rows of the workload, and only M is rounded.

A space spanned by whole numbers has one basis that is the identity on chosen cells (reduced echelon form), and its
entries are fractions; for tables, ranges and hierarchies their denominators are small. What is measured in such a basis
stays in the space exactly, however its coefficients are rounded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy import linalg

from residua.errors import PlanError
from residua.linalg.arrays import Floats, Integers
from residua.plans.matrix.loewner import standardise

LARGEST_DENOMINATOR = 720
_LARGEST_ENTRY = 2**16
_RECOGNISED = 1e-9  # how close an entry must be to a fraction; rounding errors are far below
_MOST_WORK = 2**28
_INDEPENDENT = 1e-6  # of orthonormal rows, how much of a cell must be new for it to be independent of others


def integer_rows(space: Floats) -> Integers | None:
    """Independent integer rows that span the same space as given rows, or None if none are recognised.

    Args:
        space: rows that span it, (rows, cells); the rank is theirs to RANK_TOLERANCE.
    """
    space = standardise(space).space
    rank, cells = space.shape
    if rank == cells:
        return np.eye(cells, dtype=np.int64)
    if not rank:
        return np.zeros((0, cells), dtype=np.int64)
    for pivots in (_leftmost(space), linalg.qr(space, mode="r", pivoting=True)[1][:rank]):
        found = _fractions(np.asarray(np.linalg.solve(space[:, pivots], space), dtype=np.float64))
        if found is not None and _inside(found, space):
            return found.astype(np.int64)
    return None


def joint_integer_rows(spaces: Sequence[Floats]) -> Integers | None:
    """Independent integer rows that span several spaces together, if each of them is recognised."""
    found = [integer_rows(space) for space in spaces]
    if not found or any(rows is None for rows in found):
        return None
    stacked = np.vstack([rows for rows in found if rows is not None])
    rank = int(np.linalg.matrix_rank(stacked.astype(np.float64)))
    return np.asarray(stacked[np.sort(linalg.qr(stacked.T.astype(np.float64), mode="r", pivoting=True)[1][:rank])])


def _leftmost(space: Floats) -> Integers:
    """The first cells on which the space is independent: for tables these reduce it to small whole numbers."""
    rank, cells = space.shape
    basis = np.zeros((rank, rank))
    pivots: list[int] = []
    for cell in range(cells):
        column = space[:, cell]
        for _ in range(2):  # once more for the digits lost the first time
            column = column - basis[: len(pivots)].T @ (basis[: len(pivots)] @ column)
        size = float(np.linalg.norm(column))
        if size > _INDEPENDENT:
            basis[len(pivots)] = column / size
            pivots.append(cell)
            if len(pivots) == rank:
                return np.array(pivots)
    return np.asarray(linalg.qr(space, mode="r", pivoting=True)[1][:rank])


def _fractions(reduced: Floats) -> Floats | None:
    """Rows times their common denominators, None if one has none that is small."""
    rank, cells = reduced.shape
    found = np.zeros((rank, cells))
    left = np.arange(rank)
    for denominator in range(1, LARGEST_DENOMINATOR + 1):
        if len(left) * cells * (LARGEST_DENOMINATOR - denominator) > _MOST_WORK and denominator > 16:
            return None
        scaled = reduced[left] * denominator
        whole = np.rint(scaled)
        good = np.abs(scaled - whole).max(axis=1) <= _RECOGNISED * denominator
        found[left[good]] = whole[good]
        left = left[~good]
        if not len(left):
            return found if np.abs(found).max() <= _LARGEST_ENTRY else None
    return None


def _inside(rows: Floats, space: Floats) -> bool:
    outside = rows - (rows @ space.T) @ space
    return bool(np.linalg.norm(outside, axis=1).max() <= _RECOGNISED * np.linalg.norm(rows, axis=1).max())


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
