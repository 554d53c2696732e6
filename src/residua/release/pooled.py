"""Several releases as one: the best linear unbiased estimate from everything that was measured.

Blocks of marginals or products measured several times by the same strategies are averaged by their precisions; other
measurements, and mixtures on small domains, are pooled by least squares. Either way the result is the release of one
plan whose privacy cost matrix is the sum of those measured, so that tables, intervals, files and projections work as
for any other. Nothing is measured again.

What is pooled lies between whole numbers; it is rounded to a grid so fine that the rounding, whose variance is counted,
adds less than one part in 10^12.

Reference: common-mechanism, Algorithm 4 and Theorem 5.5: the target is recreated from its parts with its covariance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from residua.errors import PlanError, WorkloadError
from residua.linalg.layout import batches
from residua.plans.base import Plan
from residua.plans.composition import composed_cost
from residua.plans.currency import guarantee_like
from residua.plans.dense.algebra import noise_at_least
from residua.plans.dense.blocks import compile_dense
from residua.plans.dense.cells import Grouping, refine
from residua.plans.dense.conversion import contrasts, product_rows
from residua.plans.dense.integer_strategy import LARGEST_ENTRY
from residua.plans.dense.loewner import gain, standardise
from residua.plans.dense.plan import DensePlan
from residua.plans.dense.realise import realised
from residua.plans.dense.recreate import Stacked, stack
from residua.plans.lattice_blocks import INVISIBLE_SCALE
from residua.plans.product import algebra as products
from residua.plans.product.algebra import agree
from residua.plans.product.blocks import ProductBlocks
from residua.plans.product.of_residual import as_product
from residua.plans.product.plan import ProductPlan
from residua.plans.residual.algebra import asking, compose
from residua.plans.residual.blocks import ResidualBlocks
from residua.plans.residual.plan import ResidualPlan
from residua.privacy.exact import round_up
from residua.release.base import Release
from residua.release.dense import DenseRelease
from residua.release.product import ProductRelease
from residua.release.residual import ResidualRelease
from residua.workload import Explicit, Marginals, Products, as_explicit, as_products, renumber

Floats = NDArray[np.float64]
Blocked = ResidualRelease | ProductRelease
_BATCH_CELLS = 1_000_000
_LARGEST = 2.0**62
_FINEST_ENTRY = 2.0**33  # of a pool, which is never measured: more would not pass as a strategy


def pooled(releases: Sequence[Release], workload: Explicit | Marginals | Products | None = None) -> Release:
    """Everything that several releases of one table say, as one release.

    Guarantee: estimates are unbiased and of least variance among those linear in all measurements. The variances
    stated are never below the truth, and above it by less than one part in a million. Where measurements that do not
    share strategies differ in strength it may be more, for the integers of a pool have 33 bits: some parts in 100,000
    with plans for replaced records, which know the number of records a thousand times better than the rest, and a
    part in a thousand with a factor of a million. `receipt["overstated"]` of such a pool says by how much at most.

    Args:
        releases: what was measured, over one domain and for one unit of protection.
        workload: what the pool is asked for, for the record; it may hold more or less.

    Raises:
        PlanError: no releases, releases that do not belong together or cannot be pooled, or too many cells.

    Reference: common-mechanism, Algorithm 4.
    """
    parts = _checked(releases)
    residual = [part for part in parts if isinstance(part, ResidualRelease)]
    if len(residual) == len(parts) and not isinstance(workload, Products):
        return _pooled_residual(residual, workload if isinstance(workload, Marginals) else None)
    blocked = [part for part in parts if isinstance(part, ResidualRelease | ProductRelease)]
    if len(blocked) == len(parts) and agree([part.planned for part in parts]):
        return _pooled_products(blocked, None if isinstance(workload, Explicit | None) else as_products(workload))
    return _pooled_dense(parts, _listed(workload))


def _checked(releases: Sequence[Release]) -> list[Release]:
    if isinstance(releases, Release):
        raise PlanError("releases is one release; give a list of releases.")
    parts = list(releases)
    if not parts:
        raise PlanError("releases is empty; give at least one release.")
    for part in parts:
        if not isinstance(part, ResidualRelease | ProductRelease | DenseRelease):
            raise PlanError(f"{part!r} cannot be pooled; give releases of plans for marginals, products or queries.")
        if part.domain != parts[0].domain:
            raise PlanError("the releases are over different domains; pool releases of one table.")
        if part.planned.unit != parts[0].planned.unit:
            raise PlanError("the releases protect different units; pool releases with one unit.")
        if part.planned.bias:
            raise PlanError("a release with a bias answers other queries than were asked; pool releases without one.")
    debits = [part.receipt["digest"] for part in parts if "digest" in part.receipt]
    if len(set(debits)) < len(debits):
        raise PlanError("the same release is given twice, and would count twice as sure; give each once.")
    return parts


def _listed(workload: Explicit | Marginals | Products | None) -> Explicit | None:
    """The queries one by one; None where they are too many for that, for they are but for the record."""
    try:
        return None if workload is None else as_explicit(workload)
    except WorkloadError:
        return None


def _pooled_residual(parts: Sequence[ResidualRelease], workload: Marginals | None) -> ResidualRelease:
    plan = asking(reduce(compose, [part.plan.replaced(workload=None) for part in parts]), workload)
    measured, grids, scales = _grid(plan, plan.domain.sizes.astype(np.float64))
    blocks = ResidualBlocks(plan.lattice, plan.domain.sizes, measured, grids, scales, plan.domain.drops)
    guarantee, receipt = _paid([part.planned for part in parts], plan)
    return ResidualRelease(plan.replaced(guarantee=guarantee), blocks, _averaged(plan, blocks, parts), receipt)


def _pooled_products(parts: Sequence[Blocked], workload: Products | None) -> ProductRelease:
    plan = as_product(parts[0].plan.replaced(workload=None))
    for part in parts[1:]:
        plan = products.compose(plan, part.plan.replaced(workload=None))
    plan = products.asking(plan, workload)
    measured, grids, scales = _grid(plan, np.array([strategy.unit for strategy in plan.strategies]))
    sizes, drops = plan.domain.sizes, plan.domain.drops
    blocks = ProductBlocks(plan.lattice, sizes, measured, grids, scales, drops, plan.strategies)
    guarantee, receipt = _paid([part.planned for part in parts], plan)
    return ProductRelease(plan.replaced(guarantee=guarantee), blocks, _averaged(plan, blocks, parts), receipt)


def _grid(plan: ResidualPlan | ProductPlan, units: Floats) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
    """Which blocks a pool holds, the grid of each, so fine that rounding to it is invisible, and its noise there."""
    measured = np.flatnonzero(plan.precisions > 0)
    plain = plan.lattice.products(units)[measured] * np.sqrt(plan.noise_variances[measured])
    grids = 2.0 ** np.maximum(np.ceil(np.log2(INVISIBLE_SCALE / plain)), 0.0)
    return measured, grids.astype(np.int64), plain * grids


def _averaged(
    plan: ResidualPlan | ProductPlan, blocks: ResidualBlocks | ProductBlocks, parts: Sequence[Blocked]
) -> NDArray[np.int64]:
    """`z_S = Σ τ_i z_i / Σ τ_i` for every block, on the grid of the pool."""
    units = np.zeros(len(plan.lattice))
    units[blocks.measured] = blocks.units
    scales = units / np.maximum(plan.precisions, 1e-300)
    sums = np.zeros(blocks.cells)
    for part in parts:
        _add(sums, blocks, part, renumber(part.planned.lattice, plan.lattice), scales)
    return _whole(sums)


def _add(
    sums: Floats,
    blocks: ResidualBlocks | ProductBlocks,
    part: Blocked,
    numbers: NDArray[np.int64],
    scales: Floats,
) -> None:
    """Adds a part's blocks, each times its precision and the pool's scale for the set, to the buffer of the pool."""
    steps = np.zeros(len(part.planned.lattice))
    steps[part.blocks.measured] = part.plan.precisions[part.blocks.measured] / part.blocks.units
    steps = steps * scales[numbers]
    for group in part.blocks.layout:
        source = group.view(part.measurements).reshape(len(group.numbers), -1)
        target = blocks.layout.starts[numbers[group.numbers]]
        for at in batches(len(group.numbers), group.cells, _BATCH_CELLS):
            places = target[at, None] + np.arange(group.cells)
            sums[places] += steps[group.numbers[at], None] * source[at]


def _pooled_dense(parts: Sequence[Release], workload: Explicit | None) -> DenseRelease:
    """Least squares on all measurements, said as the measurements of one plan."""
    domain, like = parts[0].domain, parts[0].planned
    seen = [whitened(part) for part in parts]
    cells = refine(domain.sizes, [grouping for grouping, _, _ in seen])
    rows = [np.asarray(cells.lifted(own, which), dtype=np.float64) for which, (_, own, _) in enumerate(seen)]
    known = stack(rows)
    estimate = known.coordinates(np.concatenate([measurements for _, _, measurements in seen])) @ known.space
    spread = known.singular[:, None] * known.space
    largest = float(np.clip(_LARGEST / 2 / max(np.abs(estimate).sum(), 1.0), LARGEST_ENTRY, _FINEST_ENTRY))
    plan = realised(
        like, cells, spread, "everything measured", spaces=rows, workload=workload, fill=False, largest=largest
    )
    own = refine(domain.sizes, [Grouping(cells.attributes, cells.columns), Grouping(plan.attributes, plan.columns)])
    strategy = own.lifted(plan.strategy.astype(np.float64), 1)
    plan = _not_understated(plan, known, strategy)
    guarantee, receipt = _paid([part.planned for part in parts], plan)
    plan = plan.replaced(guarantee=guarantee)
    receipt = {**receipt, "overstated": _overstated(plan, known, strategy)}
    return DenseRelease(plan, compile_dense(plan), _whole(strategy @ estimate), receipt)


def _not_understated(plan: DensePlan, known: Stacked, strategy: Floats) -> DensePlan:
    """The plan with noise raised until it states no less variance than there is, whatever rounding did to it."""
    return replace(plan, scale=plan.scale * noise_at_least(known.singular, known.space, strategy / plan.scale))


def _overstated(plan: DensePlan, known: Stacked, strategy: Floats) -> float:
    """By how much at most, relative, a variance that the plan states is above the least that there is."""
    stated = standardise(strategy / np.sqrt(plan.noise_variance))
    most = gain(stated, known.singular[:, None] * known.space)
    return float(f"{1.01 * max(most - 1.0, 0.0) + 1e-9:.2e}")


def whitened(part: Release) -> tuple[Grouping, Floats, Floats]:
    """A release as cells, rows and measurements whose noise is independent with variance 1.

    Raises:
        PlanError: a release of another kind, or too many cells.
    """
    if isinstance(part, DenseRelease):
        plan, deviation = part.planned, np.sqrt(part.planned.noise_variance)
        return Grouping(plan.attributes, plan.columns), plan.strategy / deviation, part.measurements / deviation
    if not isinstance(part, ResidualRelease | ProductRelease):
        raise PlanError(
            f"{part!r} has no matrix over cells; give releases of plans for marginals, products or queries."
        )
    grouping, rows = product_rows(part.plan)
    blocks, strategies = part.blocks, as_product(part.plan).strategies
    roots = np.sqrt(part.plan.precisions[blocks.measured]) / blocks.units
    found = [np.zeros(0)]
    for number, root in zip(blocks.measured.tolist(), roots.tolist(), strict=True):
        members = blocks.lattice.members(number)
        shape = [strategies[i].count for i in members]
        start = int(blocks.layout.starts[number])
        table = part.measurements[start : start + int(np.prod(shape))].reshape(shape).astype(np.float64)
        for axis, i in enumerate(members):
            if strategies[i].identity:  # n numbers of rank n − 1
                table = np.moveaxis(np.tensordot(contrasts(shape[axis]), table, axes=(1, axis)), 0, axis)
        found.append(table.ravel() * root)
    return grouping, rows, np.concatenate(found)


def _paid(plans: Sequence[Plan], pool: Plan) -> tuple[Any, Mapping[str, Any]]:
    """What the parts guarantee together, and the receipt of the pool: what they cost in all.

    No less is promised than the pool claims for itself: it may know the cost of a replacement less exactly.
    """
    cost = composed_cost(plans)
    promise = guarantee_like(plans[0].guarantee, max(float(cost), pool.unit_pcost))
    return promise, {"pcost": round_up(cost), "pooled": len(plans)}


def _whole(values: Floats) -> NDArray[np.int64]:
    if float(np.abs(values).max(initial=0.0)) >= _LARGEST:
        raise PlanError("what was measured is too large for 64 bits once pooled; read the releases one by one.")
    return np.rint(values).astype(np.int64)
