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
from fractions import Fraction
from typing import Any

import numpy as np

from residua.errors import PlanError
from residua.linalg.arrays import Floats, Integers, Objects, column_norms
from residua.machine import linalg
from residua.plans.cells import Grouping, Refinement, coarsened, refine
from residua.plans.contract import Plan
from residua.plans.matrix.loewner import standardise
from residua.plans.matrix.plan import MatrixPlan
from residua.plans.noise import guarantee_like
from residua.plans.tolerances import SINE_TOLERANCE
from residua.plans.verifier import POINT, composed_cost, composed_profile
from residua.privacy.costs import by_cells
from residua.workload import Workload

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
        fractions = _fractions(np.asarray(np.linalg.solve(space[:, pivots], space), dtype=np.float64))
        if fractions is not None and _inside(fractions, space):
            return fractions.astype(np.int64)
    return None


def joint_integer_rows(spaces: Sequence[Floats]) -> Integers | None:
    """Independent integer rows that span several spaces together, if each of them is recognised."""
    whole_rows = [integer_rows(space) for space in spaces]
    if not whole_rows or any(rows is None for rows in whole_rows):
        return None
    stacked = np.vstack([rows for rows in whole_rows if rows is not None])
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
    basis = np.zeros((rank, cells))
    left = np.arange(rank)
    for denominator in range(1, LARGEST_DENOMINATOR + 1):
        if len(left) * cells * (LARGEST_DENOMINATOR - denominator) > _MOST_WORK and denominator > 16:
            return None
        scaled = reduced[left] * denominator
        whole = np.rint(scaled)
        good = np.abs(scaled - whole).max(axis=1) <= _RECOGNISED * denominator
        basis[left[good]] = whole[good]
        left = left[~good]
        if not len(left):
            return basis if np.abs(basis).max() <= _LARGEST_ENTRY else None
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
    rounded = np.zeros(left.shape)
    for k in range(len(order) - 1, -1, -1):
        rounded[:, order[k]] = np.rint(left[:, k] / R[k, k])
        left[:, : k + 1] -= np.multiply.outer(rounded[:, order[k]], R[: k + 1, k])
    return rounded


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
    rows = workload[np.sort(linalg.qr(workload.T, mode="r", pivoting=True)[1][:rank])]
    for denominator in (1, 2, 4, 8, 10, 16, 100, 1000, 10_000, 2**10, 2**16, _MOST_DENOMINATOR):
        scaled = rows * denominator
        whole = np.rint(scaled)
        if (whole == scaled).all() or np.abs(whole / denominator - rows).max() == 0:
            # Rows may share a factor: the smaller the entries, the finer the rounding.
            whole = whole / np.maximum(np.gcd.reduce(whole.astype(np.int64), axis=1), 1)[:, None]
            return whole.astype(np.int64) if np.abs(whole).max() < 2**24 else None
    return None


def _product(M: Floats, basis: Integers) -> Integers:
    if float((np.abs(M) @ np.abs(basis)).max()) < 2.0**62:
        return np.asarray(M.astype(np.int64) @ basis)
    raise PlanError("the workload's rows are so nearly dependent that it cannot be measured in 64 bits; drop some.")


def _scale(B: Integers, pcost: float) -> float:
    """The least noise scale at which the integers cost at most this, rounded up."""
    scale = math.sqrt(max(column_norms(B)) / pcost) * (1.0 + 2.0**-48)
    if not 0.5 <= scale <= LARGEST_SCALE:
        raise PlanError("the plan's noise is outside what can be sampled exactly; change the budget.")
    return scale


SLACK = 2.0**-20  # the most precision, relative, that is given up so that no single cell costs more than it should
_UP = 1.0 + 2.0**-48


def realised(
    like: Plan,
    cells: Refinement,
    rows: Floats,
    objective: str,
    *,
    spaces: Sequence[Floats] = (),
    gap: float = math.inf,
    workload: Workload | None = None,
    fill: bool = True,
    largest: float = FINE_ENTRY,
) -> MatrixPlan:
    """A plan whose privacy cost matrix is `rowsᵀ rows` as nearly as integers allow, costing no more.

    Args:
        like: the plan whose domain, unit and currency it takes.
        cells: what the columns stand for.
        rows: real rows in standard form, (rank, columns).
        objective: what it is, in words.
        spaces: wider spaces in which it may be rounded if its own has no whole numbers that are recognised.
        gap: how far from optimal it is.
        workload: the queries it answers, if it is known to answer some.
        fill: whether to measure a little in every direction when no whole numbers span a space it lies in.
        largest: how large its integers may be; the larger the closer, and the fewer records it can count.
    """
    if not rows.any():
        return nothing(like, objective)
    B, scale = _whole(rows, spaces, fill, largest)
    grouping, B = coarsened(like.domain.sizes, cells.attributes, cells.columns, B)
    asked: Any = {"unit": like.unit, "workload": workload, "objective": objective, "gap": gap}
    return guaranteed(MatrixPlan(like.domain, grouping.attributes, grouping.columns, B, scale, **asked), like)


def nothing(like: Plan, objective: str) -> MatrixPlan:
    """The plan that measures nothing: what it answers is already known."""
    empty = np.zeros((0, 0), dtype=np.int64)
    return MatrixPlan(like.domain, (), np.array([-1]), empty, 1.0, unit=like.unit, objective=objective)


def guaranteed(plan: MatrixPlan, like: Plan) -> MatrixPlan:
    """The plan with the guarantee that its integers give, in the currency of another."""
    return plan.replaced(guarantee=guarantee_like(like.guarantee, plan.unit_pcost))


def noisier(plan: MatrixPlan, like: Plan, factor: float) -> MatrixPlan:
    """The plan with its privacy cost matrix divided by a factor of at least 1."""
    return guaranteed(plan.replaced(scale=plan.scale * math.sqrt(factor) * _UP), like)


def within(part: MatrixPlan, plan: Plan, *given: Plan) -> MatrixPlan:
    """What is left of a plan, with noise rounded up until it costs no cell more than the plan leaves beside `given`.

    Guarantee: what `given` and the part cost together is at most what the plan costs, in whole numbers; and so for
    every single cell, unless that would take more than SLACK of the part's precision.
    """
    if not part.pcost:
        return part
    profiles = [composed_profile([plan]), composed_profile(given)]
    own = Grouping(part.attributes, part.columns)
    cells = refine(part.domain.sizes, [own, *(profile.grouping for profile in profiles)])
    norms = cells.lifted(np.array(column_norms(part.strategy), dtype=object), 0)
    allowed, spent = (
        cells.lifted(profile.values, which) + profile.everywhere for which, profile in enumerate(profiles, start=1)
    )
    fitted = _tight(part, norms, allowed - spent)
    if fitted is None or fitted.scale > part.scale * (1.0 + SLACK / 2):
        fitted = _tight(part, norms, allowed.max() - spent) or part
    for step in range(13):  # what a replacement or a person with limits costs is not a matter of single cells
        if by_cells(part.unit) or composed_cost([*given, fitted]) <= composed_cost([plan]):
            break
        fitted = fitted.replaced(scale=fitted.scale * (1.0 + 2.0 ** (step - 34)))
    return guaranteed(fitted, plan)


def _tight(part: MatrixPlan, norms: Objects, room: Objects) -> MatrixPlan | None:
    """The part with the least noise, not less than its own, at which every cell fits into its room; None if none is."""
    used = norms > 0
    if (room[used] <= 0).any():
        return None
    square = max(Fraction(int(norm) * POINT, int(left)) for norm, left in zip(norms[used], room[used], strict=True))
    return part.replaced(scale=max(math.sqrt(square) * _UP, part.scale))


def _whole(rows: Floats, spaces: Sequence[Floats], fill: bool, largest: float) -> tuple[Integers, float]:
    """Integers and a noise scale for real rows: in their own space, else in a wider one, else filled up."""
    pcost = float((rows**2).sum(axis=0).max())
    if np.linalg.matrix_rank(rows, rtol=1e-10) == rows.shape[1]:
        return direct_integers(rows, pcost, largest)[:2]
    for space in (rows, *spaces):
        basis = integer_rows(space)
        if basis is not None and len(basis) == rows.shape[1]:
            return direct_integers(rows, pcost, largest)[:2]
        if basis is not None and _holds(basis, rows):
            return basis_integers(rows, basis, pcost, largest)
    basis = joint_integer_rows(spaces)
    if basis is not None and _holds(basis, rows):
        return basis_integers(rows, basis, pcost, largest)
    return filled_integers(rows, pcost, largest) if fill else direct_integers(rows, pcost, largest)[:2]


def _holds(basis: Integers, rows: Floats) -> bool:
    """Whether rows lie in the space that integer rows span."""
    return bool(standardise(basis.astype(np.float64)).sines(rows).max() <= SINE_TOLERANCE)
