"""From rows of real numbers to a plan that can be measured: integers in the right space, priced in whole numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from residua.linalg.arrays import Floats, Integers, Objects
from residua.linalg.modes import column_norms
from residua.plans.blocks import POINT
from residua.plans.cells import Grouping, Refinement, coarsened, refine
from residua.plans.composition import composed_cost, composed_profile
from residua.plans.contract import Plan
from residua.plans.matrix.integers import (
    FINE_ENTRY,
    basis_integers,
    direct_integers,
    filled_integers,
    integer_rows,
    joint_integer_rows,
)
from residua.plans.matrix.loewner import standardise
from residua.plans.matrix.plan import MatrixPlan
from residua.plans.noise import guarantee_like
from residua.plans.persons import by_cells
from residua.plans.tolerances import SINE_TOLERANCE
from residua.workload import Workload

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
    made = MatrixPlan(
        like.domain, grouping.attributes, grouping.columns, B, scale, None, like.unit, workload, objective, gap
    )
    return guaranteed(made, like)


def nothing(like: Plan, objective: str) -> MatrixPlan:
    """The plan that measures nothing: what it answers is already known."""
    empty = np.zeros((0, 0), dtype=np.int64)
    return MatrixPlan(like.domain, (), np.array([-1]), empty, 1.0, None, like.unit, None, objective)


def guaranteed(plan: MatrixPlan, like: Plan) -> MatrixPlan:
    """The plan with the guarantee that its integers give, in the currency of another."""
    cost = float(plan.blocks.price(plan.unit)) if plan.pcost else 0.0
    return plan.replaced(guarantee=guarantee_like(like.guarantee, cost))


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
    made = _tight(part, norms, allowed - spent)
    if made is None or made.scale > part.scale * (1.0 + SLACK / 2):
        made = _tight(part, norms, allowed.max() - spent) or part
    for step in range(8):  # what a replacement or a person with limits costs is not a matter of single cells
        if by_cells(part.unit) or composed_cost([*given, made]) <= composed_cost([plan]):
            break
        made = made.replaced(scale=made.scale * (1.0 + 2.0 ** (step - 34)))
    return guaranteed(made, plan)


def _tight(part: MatrixPlan, norms: Objects, room: Objects) -> MatrixPlan | None:
    """The part with the least noise, not less than its own, at which every cell fits into its room; None if none is."""
    used = norms > 0
    if (room[used] <= 0).any():
        return None
    square = max(Fraction(int(norm) * POINT, int(left)) for norm, left in zip(norms[used], room[used], strict=True))
    scale = math.sqrt(square) * _UP
    return part.replaced(scale=max(scale, part.scale))


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
