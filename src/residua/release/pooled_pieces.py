"""Releases that measured the same pieces, pooled: each piece is averaged by precision, and no least squares is needed.

A piece is what one operator, one block of rows, or the strategies of one set of attributes measure. The pool is the
release of the plan whose precisions are the sums of all, on a grid so fine that rounding to it is not seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from itertools import pairwise
from typing import Any, cast

import numpy as np

from residua.errors import PlanError
from residua.linalg.arrays import Floats, Integers
from residua.linalg.lattice import SetFamily, batches
from residua.plans.blockwise import plan as blockwise
from residua.plans.blockwise.plan import BlockwisePlan
from residua.plans.measurements import Measurements
from residua.plans.noise import ORDERED
from residua.plans.operators.correlated import Ordered
from residua.plans.operators.path import ROUNDING, on_grid
from residua.plans.product.algebra import PRODUCTS, asking
from residua.plans.product.plan import ProductPlan
from residua.plans.product.set_measurements import ResidualMeasurements, gridded
from residua.release.base import Release
from residua.workload import Workload, renumber

BATCH_CELLS = 1_000_000
LARGEST = 2.0**62
_FINENESS = 2.0**20  # of the pool's grid, which nothing is drawn on

Place = tuple[slice, float]  # where a piece lies among measurements, and its grid
Held = tuple[Integers, Mapping[Any, Place], Mapping[Any, float]]  # measurements, places, shares of the precision


def _averaged(cells: int, places: Mapping[Any, Place], parts: Iterable[Held]) -> Integers:
    """Every piece as the mean of the parts, each with its share of the precision, on the grid of the pool."""
    sums = np.zeros(cells)
    for noisy, own, shares in parts:
        for piece, (here, grid) in own.items():
            there, fine = places[piece]
            sums[there] += noisy[here] * (shares[piece] * fine / grid)
    return whole_numbers(sums)


def whole_numbers(values: Floats) -> Integers:
    """Averages as integers.

    Raises:
        PlanError: they are too large.
    """
    if float(np.abs(values).max(initial=0.0)) >= LARGEST:
        raise PlanError("what was measured is too large for 64 bits once pooled; read the releases one by one.")
    return np.rint(values).astype(np.int64)


def pooled_blocks(parts: Sequence[Release], workload: Workload | None) -> Release:
    """Blocks measured by the same rows; these are the same integers, so that averages stand on the grid of each."""
    plans = [cast("BlockwisePlan", part.plan).replaced(workload=None) for part in parts]
    plan = reduce(blockwise.BLOCKWISE.compose, plans).replaced(workload=workload)
    precisions = [dict(zip(own.blocks_of, own.precisions.tolist(), strict=True)) for own in (plan, *plans)]
    held = []
    for part, own in zip(parts, precisions[1:], strict=True):
        places = _block_places(part.measurements)
        held.append((part.noisy, places, {block: own[block] / precisions[0][block] for block in places}))
    return Release(plan, plan.measurements, _averaged(plan.measurements.cells, _block_places(plan.measurements), held))


def _block_places(measurements: Any) -> dict[Any, Place]:
    edges = zip(measurements.measured, pairwise(measurements.starts), strict=True)
    return {block: (slice(*ends), 1.0) for block, ends in edges}


def pooled_operators(parts: Sequence[Release], workload: Workload | None) -> Release:
    """Pieces measured with the same operators along one attribute."""
    known = [cast("ProductPlan", part.plan).replaced(workload=None) for part in parts]  # rounding of noise included
    plan = reduce(PRODUCTS.compose, known)
    plan = plan.replaced(workload=tables_of(workload), guarantee=parts[0].planned.guarantee)
    if plan.noise == ORDERED:  # prefix sums are rounded to their grid once more
        plan = plan.scaled(1 - 2 * ROUNDING)
    held = []
    for part, own in zip(parts, known, strict=True):
        shares = {members: each.ratio_to(plan.parts[members]) for members, each in own.parts.items()}
        held.append((part.noisy, _piece_places(part.measurements), cast("dict[Any, float]", shares)))
    return Release(plan, plan.measurements, _averaged(plan.measurements.cells, _piece_places(plan.measurements), held))


def _piece_places(measurements: Any) -> dict[Any, Place]:
    edges = zip(measurements.pieces, pairwise(measurements.starts), strict=True)
    return {piece.members: (slice(*ends), piece.grid) for piece, ends in edges}


def pooled_sets(parts: Sequence[Release], workload: Workload | None) -> Release:
    """Measurements of sets of attributes measured by the same strategies, averaged by their precisions."""
    plans, held = [part.plan for part in parts], [(part.measurements, part.noisy) for part in parts]
    plan, pool = pool_of_sets(cast("list[ProductPlan]", plans), [own for own, _ in held], tables_of(workload))
    return Release(plan, pool, averaged_sets(pool, cast("list[HeldSets]", held)))


def pool_of_sets(
    measured_plans: Sequence[ProductPlan], measured: Sequence[Measurements], workload: Workload | None
) -> tuple[ProductPlan, ResidualMeasurements]:
    """The plan that measures as precisely as all these together, and its grid."""
    plan = asking(reduce(PRODUCTS.compose, [plan.replaced(workload=None) for plan in measured_plans]), workload)
    precisions = _precisions(plan.lattice, cast("Sequence[ResidualMeasurements]", measured))
    numbers = np.flatnonzero(precisions > 0)
    units = plan.lattice.products(np.array([strategy.unit for strategy in plan.strategies]))[numbers]
    grids, scales = gridded(units / np.sqrt(precisions[numbers]))
    for place, (number, unit) in enumerate(zip(numbers.tolist(), units.tolist(), strict=True)) if plan.axes else ():
        axes = [one for i in plan.lattice.members(number) if isinstance(one := plan.strategies[i], Ordered)]
        if axes:
            scales[place], grids[place] = on_grid(axes, unit**2 / precisions[number] / (1 + ROUNDING), _FINENESS)
    return plan, plan.saved_measurements({"measured": numbers, "grids": grids.astype(np.int64), "scales": scales})


def _precisions(lattice: SetFamily, measured: Sequence[ResidualMeasurements]) -> Floats:
    """How precisely every set of a family is measured by all these together, (sets,)."""
    precisions = np.zeros(len(lattice))
    for own in measured:
        precisions[renumber(own.lattice, lattice)] += own.own_precisions
    return precisions


HeldSets = tuple[ResidualMeasurements, Any]  # what was measured: (cells,), or of many groups (groups, cells)


def averaged_sets(pool: ResidualMeasurements, parts: Sequence[HeldSets]) -> Integers:
    """`z_S = Σ τ_i z_i / Σ τ_i` for every block, on the grid of the pool; of many groups at once, if given."""
    scales = np.zeros(len(pool.lattice))
    scales[pool.measured] = pool.units / _precisions(pool.lattice, [own for own, _ in parts])[pool.measured]
    sums = np.zeros((*parts[0][1].shape[:-1], pool.cells))
    for own, noisy in parts:
        _add(sums, pool, own, noisy, scales)
    return whole_numbers(sums)


def _add(sums: Floats, pool: ResidualMeasurements, own: ResidualMeasurements, noisy: Any, scales: Floats) -> None:
    """Adds what a part measured, times its precision and the pool's scale for the set, to the buffer of the pool."""
    many = noisy.shape[:-1]
    numbers = renumber(own.lattice, pool.lattice)
    steps = np.zeros(len(own.lattice))
    steps[own.measured] = own.own_precisions[own.measured] / own.units
    steps = steps * scales[numbers]
    for group in own.layout:
        place = slice(group.start, group.stop)
        source = (noisy[:, place] if many else noisy[place]).reshape(*many, len(group.numbers), -1)
        target = pool.layout.starts[numbers[group.numbers]]
        for at in batches(len(group.numbers), group.cells, BATCH_CELLS):
            places = target[at, None] + np.arange(group.cells)
            sums[..., places] += steps[group.numbers[at], None] * source[..., at, :]


def tables_of(workload: Workload | None) -> Workload | None:
    """A workload of tables; None for others: plans that measure tables are asked for tables alone."""
    return workload if workload is not None and workload.tabular else None
