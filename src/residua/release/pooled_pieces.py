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
from residua.linalg.lattice import batches
from residua.plans.blockwise import algebra as blockwise
from residua.plans.blockwise.plan import BlockwisePlan
from residua.plans.noise import ORDERED
from residua.plans.operators.correlated import Ordered
from residua.plans.operators.path import ROUNDING, on_grid
from residua.plans.product.algebra import PRODUCTS, asking
from residua.plans.product.crossed_measurements import CrossedMeasurements
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


def _pooled_along(plan: ProductPlan, parts: Sequence[Release]) -> Release:
    """The pool of releases that share their strategies, stated as one.

    Args:
        plan: what they tell together.
        parts: the releases.
    """
    own = np.zeros(len(plan.lattice))
    for part in parts:
        own[renumber(_sets(part).lattice, plan.lattice)] += _sets(part).own_precisions
    measured = np.flatnonzero(own > 0)
    units = plan.lattice.products(np.array([strategy.unit for strategy in plan.strategies]))[measured]
    grids, scales = gridded(units / np.sqrt(own[measured]))
    for place, (number, unit) in enumerate(zip(measured.tolist(), units.tolist(), strict=True)):
        axes = [one for i in plan.lattice.members(number) if isinstance(one := plan.strategies[i], Ordered)]
        if axes:
            factor = unit**2 / own[number] / (1 + ROUNDING)
            scales[place], grids[place] = on_grid(axes, factor, _FINENESS)
    pool = plan.saved_measurements({"measured": measured, "grids": grids.astype(np.int64), "scales": scales})
    precisions, held = _precisions(pool), []
    for part in parts:
        shares = {members: each / precisions[members] for members, each in _precisions(_sets(part)).items()}
        held.append((part.noisy, _set_places(_sets(part)), shares))
    return Release(plan, pool, _averaged(pool.cells, _set_places(pool), held))


def _sets(part: Release) -> CrossedMeasurements:
    """What a release measured of sets; without axes, they say the same by the same names."""
    return cast("CrossedMeasurements", part.measurements)


def _precisions(measurements: CrossedMeasurements) -> dict[Any, float]:
    own = measurements.own_precisions[measurements.measured].tolist()
    return dict(zip(map(measurements.lattice.members, measurements.measured.tolist()), own, strict=True))


def _set_places(measurements: CrossedMeasurements) -> dict[Any, Place]:
    numbers = measurements.measured.tolist()
    return {measurements.lattice.members(number): measurements.where(number)[::2] for number in numbers}


def pooled_sets(parts: Sequence[Release], workload: Workload | None) -> Release:
    """Measurements of sets of attributes measured by the same strategies, averaged by their precisions."""
    plans = [cast("ProductPlan", part.plan) for part in parts]
    if any(plan.axes for plan in plans):
        return _pooled_along(_together(plans, tables_of(workload)), parts)
    plan, measurements = pool_of_sets(plans, tables_of(workload))
    held = [
        (cast("ProductPlan", part.plan), cast("ResidualMeasurements", part.measurements), part.noisy) for part in parts
    ]
    return Release(plan, measurements, averaged_sets(plan, measurements, held))


def _together(measured_plans: Sequence[ProductPlan], workload: Workload | None) -> ProductPlan:
    """The plan that measures as precisely as all these together."""
    plans = [plan.replaced(workload=None) for plan in measured_plans]
    return asking(reduce(PRODUCTS.compose, plans), workload)


def pool_of_sets(
    measured_plans: Sequence[ProductPlan], workload: Workload | None
) -> tuple[ProductPlan, ResidualMeasurements]:
    """The plan that measures as precisely as all these together, and its grid."""
    plan = _together(measured_plans, workload)
    measured = np.flatnonzero(plan.precisions > 0)
    units = plan.lattice.products(np.array([strategy.unit for strategy in plan.strategies]))[measured]
    grids, scales = gridded(units * np.sqrt(plan.noise_variances[measured]))
    return plan, plan.saved_measurements({"measured": measured, "grids": grids.astype(np.int64), "scales": scales})


HeldSets = tuple[
    ProductPlan, ResidualMeasurements, Any
]  # what was measured: (cells,), or of many groups (groups, cells)


def averaged_sets(plan: ProductPlan, measurements: ResidualMeasurements, parts: Sequence[HeldSets]) -> Integers:
    """`z_S = Σ τ_i z_i / Σ τ_i` for every block, on the grid of the pool; of many groups at once, if given."""
    units = np.zeros(len(plan.lattice))
    units[measurements.measured] = measurements.units
    scales = units / np.maximum(plan.precisions, 1e-300)
    sums = np.zeros((*parts[0][2].shape[:-1], measurements.cells))
    for part in parts:
        _add(sums, measurements, part, scales)
    return whole_numbers(sums)


def _add(sums: Floats, measurements: ResidualMeasurements, part: HeldSets, scales: Floats) -> None:
    """Adds what a part measured, times its precision and the pool's scale for the set, to the buffer of the pool."""
    plan, own, noisy = part
    many = noisy.shape[:-1]
    numbers = renumber(own.lattice, measurements.lattice)
    steps = np.zeros(len(own.lattice))
    steps[own.measured] = plan.precisions[own.measured] / own.units
    steps = steps * scales[numbers]
    for group in own.layout:
        place = slice(group.start, group.stop)
        source = (noisy[:, place] if many else noisy[place]).reshape(*many, len(group.numbers), -1)
        target = measurements.layout.starts[numbers[group.numbers]]
        for at in batches(len(group.numbers), group.cells, BATCH_CELLS):
            places = target[at, None] + np.arange(group.cells)
            sums[..., places] += steps[group.numbers[at], None] * source[..., at, :]


def tables_of(workload: Workload | None) -> Workload | None:
    """A workload of tables; None for others: plans that measure tables are asked for tables alone."""
    return workload if workload is not None and workload.tabular else None
