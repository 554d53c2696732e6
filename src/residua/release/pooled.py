"""Several releases as one: the best linear unbiased estimate from everything that was measured.

Blocks of marginals or products measured several times by the same strategies are averaged by their precisions, and so
are nodes of one tree; other measurements, and mixtures on small domains, are pooled by least squares. Either way the
result is the release of one plan whose privacy cost matrix is the sum of those measured, so that tables, intervals,
files and projections work as for any other. Nothing is measured again.

What is pooled lies between whole numbers; it is rounded to a grid so fine that the rounding, whose variance is counted,
adds less than one part in 10^12.

Reference: common-mechanism, Algorithm 4 and Theorem 5.5: the target is recreated from its parts with its covariance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from typing import Any, cast

import numpy as np

from residua.errors import PlanError, WorkloadError
from residua.linalg.arrays import Floats, Integers
from residua.linalg.layout import batches
from residua.plans.blocks import Blocks
from residua.plans.blockwise import algebra as blockwise
from residua.plans.blockwise.blocks import BlockwiseBlocks
from residua.plans.blockwise.plan import BlockwisePlan
from residua.plans.cells import Grouping, refine
from residua.plans.composition import composed_cost
from residua.plans.contract import Plan
from residua.plans.matrix.algebra import noise_at_least
from residua.plans.matrix.integers import LARGEST_ENTRY, realised
from residua.plans.matrix.loewner import Stacked, gain, stack, standardise
from residua.plans.matrix.plan import MatrixPlan
from residua.plans.noise import guarantee_like
from residua.plans.product.algebra import PRODUCTS, agree, asking
from residua.plans.product.plan import ProductPlan
from residua.plans.product.set_blocks import LatticeBlocks, gridded
from residua.plans.strata.algebra import agree as same_groups
from residua.plans.strata.algebra import kinds_of
from residua.plans.strata.blocks import StrataBlocks
from residua.plans.strata.plan import StrataPlan
from residua.plans.strata.reading import seen_in_groups
from residua.privacy import Person
from residua.privacy.exact import round_up
from residua.release.base import Release
from residua.release.pooled_operators import pooled_along, pooled_operators
from residua.workload import Workload, renumber

_BATCH_CELLS = 1_000_000
_LARGEST = 2.0**62
_FINEST_ENTRY = 2.0**33  # of a pool, which is never measured: more would not pass as a strategy


def pooled(releases: Sequence[Release], workload: Workload | None = None) -> Release:
    """Everything that several releases of one table say, as one release.

    Guarantee: estimates are unbiased and of least variance among those linear in all measurements. The variances
    stated are never below the truth, and above it by less than one part in a million. Where measurements that do not
    share strategies differ in strength it may be more, for the integers of a pool have 33 bits: some parts in 100,000
    with plans for replaced records, which know the number of records a thousand times better than the rest, and a
    part in a thousand with a factor of a million. `receipt["overstated"]` of such a pool says by how much at most.
    The guarantee stated is what the releases cost together; under `rs.Person` it is the sum of what each costs, for
    nothing says that all count the same records of a person (a session knows that its own do).

    Args:
        releases: what was measured, over one domain and for one unit of protection.
        workload: what the pool is asked for, for the record; it may hold more or less.

    Raises:
        PlanError: no releases, releases that do not belong together or cannot be pooled, or too many cells.

    Reference: common-mechanism, Algorithm 4.
    """
    return pool_of(releases, workload, same_records=False)


def pool_of(releases: Sequence[Release], workload: Workload | None, *, same_records: bool) -> Release:
    """As `pooled`; says whether all releases count the same records of every person, as those of one session do."""
    parts = _checked(releases)
    asked = workload if workload is not None and workload.tabular else None
    if agree([part.planned for part in parts]):
        along = cast("ProductPlan", parts[0].planned).attribute >= 0
        found = _pooled_operators(parts, asked) if along else _pooled_lattice(parts, asked)
    elif same_groups([part.planned for part in parts]):
        found = _pooled_groups(parts, asked)
    elif blockwise.agree([part.planned for part in parts]):
        found = _pooled_blocks(parts, workload)
    else:
        found = _pooled_matrix(parts, _listed(workload))
    guarantee, receipt = _paid([part.planned for part in parts], found.planned, same_records=same_records)
    return Release(
        found.planned.replaced(guarantee=guarantee), found.blocks, found.measurements, {**receipt, **found.receipt}
    )


def require_poolable(releases: Sequence[Release], plan: Plan, blocks: Blocks) -> None:
    """Refuses, before it is paid for, a measurement that could not be read together with these releases.

    Raises:
        PlanError: they could not be pooled. Nothing is spent.
    """
    plans = [*(part.planned for part in releases), plan]
    if agree(plans) or same_groups(plans) or blockwise.agree(plans):
        return
    nothing: Integers = np.zeros(blocks.cells, dtype=np.int64)
    try:
        pool_of([*releases, Release(plan, blocks, nothing)], None, same_records=True)
    except PlanError as problem:
        raise PlanError(
            f"this could not be read together with what was measured before; nothing was spent: {problem}"
        ) from None


def over_cells(release: Release) -> Release:
    """What a release measured as one matrix over cells: the same estimates and variances, of any plan with few cells.

    Raises:
        PlanError: too many cells for a matrix.
    """
    found = _pooled_matrix([release], _listed(release.planned.workload))
    plan = found.planned.replaced(guarantee=release.planned.guarantee)
    return Release(plan, found.blocks, found.measurements, {**release.receipt, **found.receipt})


def _checked(releases: Sequence[Release]) -> list[Release]:
    if isinstance(releases, Release):
        raise PlanError("releases is one release; give a list of releases.")
    parts = list(releases)
    if not parts:
        raise PlanError("releases is empty; give at least one release.")
    for part in parts:
        if not isinstance(part, Release) or not part.planned.noise.gaussian:
            raise PlanError(f"{part!r} cannot be pooled; give releases of plans with Gaussian noise.")
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


def _listed(workload: Workload | None) -> Workload | None:
    """The queries one by one; None where they are too many for that: they are kept for the record only."""
    try:
        return None if workload is None else workload.listed()
    except WorkloadError:
        return None


def _pooled_lattice(parts: Sequence[Release], workload: Workload | None) -> Release:
    """Blocks measured by the same strategies, averaged by their precisions."""
    plans = [cast("ProductPlan", part.plan) for part in parts]
    if any(plan.axes for plan in plans):
        return pooled_along(_together(plans, workload), parts)
    plan, blocks = _lattice_pool(plans, workload)
    held = [(cast("ProductPlan", part.plan), cast("LatticeBlocks", part.blocks), part.measurements) for part in parts]
    return Release(plan, blocks, _averaged(plan, blocks, held))


def _pooled_operators(parts: Sequence[Release], workload: Workload | None) -> Release:
    """Pieces measured with the same operators, averaged by their precisions."""
    plan, sums = pooled_operators(parts, workload)
    return Release(plan, plan.blocks, _whole(sums))


def _together(measured_plans: Sequence[ProductPlan], workload: Workload | None) -> ProductPlan:
    """The plan that measures as precisely as all these together."""
    plans = [plan.replaced(workload=None) for plan in measured_plans]
    return asking(reduce(PRODUCTS.compose, plans), workload)


def _lattice_pool(
    measured_plans: Sequence[ProductPlan], workload: Workload | None
) -> tuple[ProductPlan, LatticeBlocks]:
    """The plan that measures as precisely as all these together, and its grid."""
    plan = _together(measured_plans, workload)
    measured = np.flatnonzero(plan.precisions > 0)
    units = plan.lattice.products(np.array([strategy.unit for strategy in plan.strategies]))[measured]
    grids, scales = gridded(units * np.sqrt(plan.noise_variances[measured]))
    domain, whole = plan.domain, grids.astype(np.int64)
    blocks = LatticeBlocks(
        plan.lattice, domain.sizes, measured, whole, scales, plan.strategies, domain.drops, domain.names
    )
    return plan, blocks


def _pooled_blocks(parts: Sequence[Release], workload: Workload | None) -> Release:
    """Blocks measured by the same rows, averaged by their precisions."""
    plans = [cast("BlockwisePlan", part.plan).replaced(workload=None) for part in parts]
    plan = reduce(blockwise.BLOCKWISE.compose, plans).replaced(workload=workload)
    blocks = plan.compile()
    places = {block: number for number, block in enumerate(blocks.measured)}
    sums, shares = np.zeros(blocks.cells), np.zeros(blocks.cells)
    for part, own in zip(parts, plans, strict=True):
        measured = cast("BlockwiseBlocks", part.blocks)
        precisions = dict(zip(own.blocks_of, own.precisions.tolist(), strict=True))
        for k, block in enumerate(measured.measured):
            here = slice(blocks.starts[places[block]], blocks.starts[places[block] + 1])
            values = part.measurements[measured.starts[k] : measured.starts[k + 1]]
            sums[here] += precisions[block] * values
            shares[here] += precisions[block]
    # The rows are the same integers, so that averages stand on the grid of each.
    return Release(plan, blocks, _whole(sums / shares))


Held = tuple[ProductPlan, LatticeBlocks, Any]  # what was measured: (cells,), or of many groups (groups, cells)


def _averaged(plan: ProductPlan, blocks: LatticeBlocks, parts: Sequence[Held]) -> Integers:
    """`z_S = Σ τ_i z_i / Σ τ_i` for every block, on the grid of the pool; of many groups at once, if given."""
    units = np.zeros(len(plan.lattice))
    units[blocks.measured] = blocks.units
    scales = units / np.maximum(plan.precisions, 1e-300)
    sums = np.zeros((*parts[0][2].shape[:-1], blocks.cells))
    for part in parts:
        _add(sums, blocks, part, scales)
    return _whole(sums)


def _add(sums: Floats, blocks: LatticeBlocks, part: Held, scales: Floats) -> None:
    """Adds a part's blocks, each times its precision and the pool's scale for the set, to the buffer of the pool."""
    plan, own, measurements = part
    many = measurements.shape[:-1]
    numbers = renumber(own.lattice, blocks.lattice)
    steps = np.zeros(len(own.lattice))
    steps[own.measured] = plan.precisions[own.measured] / own.units
    steps = steps * scales[numbers]
    for group in own.layout:
        place = slice(group.start, group.stop)
        source = (measurements[:, place] if many else measurements[place]).reshape(*many, len(group.numbers), -1)
        target = blocks.layout.starts[numbers[group.numbers]]
        for at in batches(len(group.numbers), group.cells, _BATCH_CELLS):
            places = target[at, None] + np.arange(group.cells)
            sums[..., places] += steps[group.numbers[at], None] * source[..., at, :]


def _pooled_matrix(parts: Sequence[Release], workload: Workload | None) -> Release:
    """Least squares on all measurements, stated as the measurements of one plan."""
    plan, measurements, receipt = _matrix_pool(parts[0].planned, [part.reading.whitened() for part in parts], workload)
    return Release(plan, plan.compile(), measurements, receipt)


def _matrix_pool(
    like: Plan, seen: Sequence[tuple[Grouping, Floats, Floats]], workload: Workload | None
) -> tuple[MatrixPlan, Integers, dict[str, float]]:
    """The plan that knows what all these rows do, and its measurements; of many groups at once, if given.

    Args:
        like: whose domain, unit and guarantee the plan has.
        seen: cells, rows and measurements with independent noise of variance 1, (rows,) or (groups, rows).
        workload: what the plan is asked.
    """
    domain = like.domain
    cells = refine(domain.sizes, [grouping for grouping, _, _ in seen])
    rows = [np.asarray(cells.lifted(own, which), dtype=np.float64) for which, (_, own, _) in enumerate(seen)]
    known = stack(rows)
    together = np.concatenate([measurements for _, _, measurements in seen], axis=-1)
    estimate = known.coordinates(together) @ known.space
    spread = known.singular[:, None] * known.space
    largest = float(
        np.clip(_LARGEST / 2 / max(np.abs(estimate).sum(axis=-1).max(initial=0.0), 1.0), LARGEST_ENTRY, _FINEST_ENTRY)
    )
    plan = realised(
        like, cells, spread, "everything measured", spaces=rows, workload=workload, fill=False, largest=largest
    )
    own = refine(domain.sizes, [Grouping(cells.attributes, cells.columns), Grouping(plan.attributes, plan.columns)])
    strategy = own.lifted(plan.strategy.astype(np.float64), 1)
    plan = _not_understated(plan, known, strategy)
    receipt = {"overstated": _overstated(plan, known, strategy)}
    return plan, _whole(estimate @ strategy.T), receipt


def _pooled_groups(parts: Sequence[Release], workload: Workload | None) -> Release:
    """Group by group, all groups at once in which the same plans meet."""
    plans = [cast("StrataPlan", part.plan) for part in parts]
    met, kind = kinds_of(plans)
    members: list[tuple[Plan, Blocks]] = []
    measured: list[Integers] = []
    chosen, overstated = np.full(plans[0].groups, -1, dtype=np.int64), []
    for k, held in enumerate(met):
        groups = np.flatnonzero(kind == k)
        there = [part for part, plan in zip(parts, held, strict=True) if plan is not None]
        if not there:
            continue
        chosen[groups] = len(members)
        measuring = [plan for plan in held if plan is not None]
        if agree(measuring):
            lattice, blocks = _lattice_pool([cast("ProductPlan", plan) for plan in measuring], None)
            members.append((lattice, blocks))
            numbers = np.empty((len(groups), blocks.cells), dtype=np.int64)
            for some in batches(len(groups), blocks.cells, _BATCH_CELLS):
                own = [_of_groups(part, groups[some]) for part in there]
                numbers[some] = _averaged(lattice, blocks, cast("list[Held]", own))
            measured.append(numbers)
        else:
            own = [_of_groups(part, groups) for part in there]
            matrix, numbers, receipt = _matrix_pool(own[0][0], [seen_in_groups(*each) for each in own], None)
            members.append((matrix, matrix.compile()))
            measured.append(numbers)
            overstated.append(receipt["overstated"])
    like = plans[0].replaced(members=tuple(plan for plan, _ in members), chosen=chosen, workload=workload)
    whole = StrataBlocks(like.domain.sizes, like.by, tuple(each for _, each in members), chosen)
    receipt = {"overstated": max(overstated)} if overstated else {}
    flat = np.concatenate([numbers.ravel() for numbers in measured])
    return Release(like.replaced(objective="everything measured"), whole, flat, receipt)


def _of_groups(part: Release, groups: Integers) -> tuple[Plan, Blocks, Integers]:
    """The plan that some groups have in a release, all the same, and what was measured in them."""
    plan, blocks = cast("StrataPlan", part.plan), cast("StrataBlocks", part.blocks)
    k = int(plan.chosen[groups[0]])
    rows = np.searchsorted(blocks.places[k], groups)
    return plan.members[k], blocks.members[k], np.asarray(blocks.of_member(part.measurements, k)[rows])


def _not_understated(plan: MatrixPlan, known: Stacked, strategy: Floats) -> MatrixPlan:
    """The plan with noise raised until it states no less variance than there is, whatever rounding did to it."""
    return replace(plan, scale=plan.scale * noise_at_least(known.singular, known.space, strategy / plan.scale))


def _overstated(plan: MatrixPlan, known: Stacked, strategy: Floats) -> float:
    """By how much at most, relative, a variance that the plan states is above the least that there is."""
    stated = standardise(strategy / np.sqrt(plan.noise_variance))
    most = gain(stated, known.singular[:, None] * known.space)
    return float(f"{1.01 * max(most - 1.0, 0.0) + 1e-9:.2e}")


def _paid(plans: Sequence[Plan], pool: Plan, *, same_records: bool) -> tuple[Any, Mapping[str, Any]]:
    """What the parts guarantee together, and the receipt of the pool: what they cost in all.

    No less is promised than the pool claims for itself: it may know the cost of a replacement less exactly.
    """
    together = same_records or not isinstance(plans[0].unit, Person)
    cost = composed_cost(plans) if together else sum((composed_cost([plan]) for plan in plans), Fraction(0))
    promise = guarantee_like(plans[0].guarantee, max(float(cost), pool.unit_pcost))
    return promise, {"pcost": round_up(cost), "pooled": len(plans)}


def _whole(values: Floats) -> Integers:
    if float(np.abs(values).max(initial=0.0)) >= _LARGEST:
        raise PlanError("what was measured is too large for 64 bits once pooled; read the releases one by one.")
    return np.rint(values).astype(np.int64)
