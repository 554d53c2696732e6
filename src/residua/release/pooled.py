"""Several releases as one: the best linear unbiased estimate from everything that was measured.

Marginals or products measured several times by the same strategies are averaged by their precisions, and so
are nodes of one tree; other measurements, and mixtures on small domains, are pooled by least squares. Either way the
result is the release of one plan whose privacy cost matrix is the sum of those measured, so that tables, intervals,
files and projections work as for any other. Nothing is measured again.

What is pooled lies between whole numbers; it is rounded to a grid so fine that the rounding, whose variance is counted,
adds less than one part in 10^12.

Reference: common-mechanism, Algorithm 4 and Theorem 5.5: the target is recreated from its parts with its covariance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, cast

import numpy as np

from residua.errors import PlanError, WorkloadError, kind_of
from residua.linalg.arrays import Floats, Integers
from residua.linalg.lattice import batches
from residua.plans.blockwise import plan as blockwise
from residua.plans.cells import Grouping, refine
from residua.plans.contract import Plan
from residua.plans.matrix.integers import LARGEST_ENTRY, realised
from residua.plans.matrix.laplace import whole_rows
from residua.plans.matrix.loewner import Stacked, gain, stack, standardise
from residua.plans.matrix.plan import MatrixPlan
from residua.plans.measurements import Measurements
from residua.plans.noise import LAPLACE, guarantee_like
from residua.plans.product.algebra import agree
from residua.plans.product.plan import ProductPlan
from residua.plans.strata.making import agree as same_groups, kinds_of
from residua.plans.strata.measurements import StrataMeasurements
from residua.plans.strata.plan import StrataPlan, seen_in_groups
from residua.plans.verifier import composed_cost, composed_price
from residua.privacy import Person, PureDP
from residua.privacy.exact import round_up
from residua.release.base import Release
from residua.release.pooled_pieces import (
    BATCH_CELLS,
    LARGEST,
    HeldSets,
    averaged_sets,
    pool_of_sets,
    pooled_blocks,
    pooled_operators,
    pooled_sets,
    tables_of,
    whole_numbers,
)
from residua.workload import Workload

_OF_DATA = ("ledger", "person", "counts")  # what a receipt says of whom was measured
_OF_WEIGHTS = ("weights", "weights_most", "weights_step", "weights_squared")
_MOST_ENTRIES = 2**24  # of all rows with Laplace noise
_CLEAR = 8.0  # by so many standard deviations noise is raised where measurements were moved by estimates
_FINEST_ENTRY = 2.0**33  # of a pool, which is never measured: more would not pass as a strategy


def pooled(releases: Sequence[Release], workload: Workload | None = None, *, same_people: bool = False) -> Release:
    """Everything that several releases of one table say, as one release.

    Guarantee: estimates are unbiased and of least variance among those linear in all measurements. The variances
    stated are never below the truth, and above it by less than one part in a million. Where measurements that do not
    share strategies differ in strength it may be more, for the integers of a pool have 33 bits: some parts in 100,000
    with plans for replaced records, which know the number of records a thousand times better than the rest, and a
    part in a thousand with a factor of a million. `receipt["overstated"]` of such a pool says by how much at most.
    The guarantee stated is what the releases cost together; under `rs.Person` it is the sum of what each costs, for
    nothing says that all count the same records of a person (a session knows that its own do). Epsilons of Laplace
    noise add up; its releases are pooled over at most 4,096 cells, with variances stated up to a part in 10,000 above
    the truth (more where rows differ in strength by a factor of 100,000); intervals hold as those of one release do.

    Args:
        releases: what was measured of the same people, over one domain and for one unit of protection. A ledger is of
            one population, so that releases of one ledger are.
        workload: what the pool is asked for, for the record; it may hold more or less.
        same_people: declares that releases of several ledgers count the same records. Of other people, the pool would
            be an average of two populations, and right for neither.

    Raises:
        PlanError: no releases, releases that do not belong together or cannot be pooled, or too many cells.

    Reference: common-mechanism, Algorithm 4.
    """
    parts = require_alike(releases, "pooled")
    if not same_people and len({part.receipt.get("ledger") for part in parts}) > 1:
        raise PlanError(
            "the releases are of different ledgers, which may be of different people: a pool would average two "
            "populations. Pool releases of one ledger; if all count the same records, say same_people=True."
        )
    return pool_of(parts, workload, same_records=False)


def pool_of(releases: Sequence[Release], workload: Workload | None, *, same_records: bool) -> Release:
    """As `pooled`; says whether all releases count the same records of every person, as those of one session do."""
    parts = require_alike(releases, "pooled")
    plans = [part.planned for part in parts]
    pool = _closed_form(plans)(parts, workload)
    guarantee, receipt = _paid(plans, pool.planned, same_records=same_records)
    receipt = {**shared_receipt(parts), **receipt, **pool.receipt}
    if debits := frozenset().union(*(part.debits for part in parts)):
        receipt["debits"] = ", ".join(sorted(debits))
    return replace(pool, planned=pool.planned.replaced(guarantee=guarantee), receipt=receipt)


def shared_receipt(parts: Sequence[Release]) -> dict[str, Any]:
    """What receipts say of ledgers, persons and counts: what all the parts say, each once; and of survey weights.

    Raises:
        PlanError: they are of different survey weights.
    """
    said = {name: {str(part.receipt[name]) for part in parts if name in part.receipt} for name in _OF_DATA}
    weights = [{name: part.receipt.get(name) for name in _OF_WEIGHTS} for part in parts]
    if any(each != weights[0] for each in weights):
        raise PlanError("the releases are of different survey weights, or some are of none; give ones of the same.")
    kept = {name: value for name, value in weights[0].items() if value is not None}
    return {name: ", ".join(sorted(texts)) for name, texts in said.items() if texts} | kept


def _closed_form(plans: Sequence[Plan]) -> Callable[[Sequence[Release], Workload | None], Release]:
    """How releases of these plans are pooled: piece by piece where they share strategies, else by least squares."""
    if not plans[0].noise.gaussian:
        return _pooled_laplace
    if agree(plans):
        return pooled_operators if cast("ProductPlan", plans[0]).attribute >= 0 else pooled_sets
    if same_groups(plans):
        return _pooled_groups
    return pooled_blocks if blockwise.agree(plans) else _pooled_matrix


def require_poolable(releases: Sequence[Release], plan: Plan, measurements: Measurements) -> None:
    """Refuses, before it is paid for, a measurement that could not be read together with these releases.

    Raises:
        PlanError: they could not be pooled. Nothing is spent.
    """
    if _closed_form([*(part.planned for part in releases), plan]) not in (_pooled_matrix, _pooled_laplace):
        return
    nothing: Integers = np.zeros(measurements.cells, dtype=np.int64)
    try:
        pool_of([*releases, Release(plan, measurements, nothing)], None, same_records=True)
    except PlanError as problem:
        raise PlanError(
            f"this could not be read together with what was measured before; nothing was spent: {problem}"
        ) from None


def over_cells(release: Release) -> Release:
    """What a release measured as one matrix over cells: the same estimates and variances, of any plan with few cells.

    Raises:
        PlanError: too many cells for a matrix.
    """
    pool = _pooled_matrix([release], release.planned.workload)
    plan = pool.planned.replaced(guarantee=release.planned.guarantee)
    return replace(pool, planned=plan, receipt={**release.receipt, **pool.receipt})


def require_alike(releases: Sequence[Release], done: str) -> list[Release]:
    """Releases that can be read together: of one table and unit, with one noise, unbiased, none of them twice.

    Raises:
        PlanError: others.
    """
    if isinstance(releases, Release):
        raise PlanError("releases is one release; give a list of releases.")
    parts = list(releases)
    if not parts:
        raise PlanError("releases is empty; give at least one release.")
    for part in parts:
        if not isinstance(part, Release):
            raise PlanError(f"{kind_of(part)} cannot be {done}; give releases.")
        if part.planned.noise.gaussian != parts[0].planned.noise.gaussian:
            raise PlanError(f"releases with normal and with Laplace noise cannot be {done}; give those of one noise.")
        if part.domain != parts[0].domain:
            raise PlanError("the releases are over different domains; give releases of one table.")
        if part.planned.unit != parts[0].planned.unit:
            raise PlanError("the releases protect different units; give releases with one unit.")
        if part.planned.bias:
            raise PlanError("a release with a bias answers other queries than were asked; give releases without one.")
    if len(frozenset().union(*(part.debits for part in parts))) < sum(len(part.debits) for part in parts):
        raise PlanError("the same release is given twice, and would count twice as sure; give each once.")
    return parts


def _listed(workload: Workload | None) -> Workload | None:
    """The queries one by one; None where they are too many for that: they are kept for the record only."""
    try:
        return None if workload is None else workload.listed()
    except WorkloadError:
        return None


def _pooled_matrix(parts: Sequence[Release], workload: Workload | None) -> Release:
    """Least squares on all measurements, stated as the measurements of one plan."""
    plan, noisy, receipt = _matrix_pool(
        parts[0].planned, [part.estimator.whitened() for part in parts], _listed(workload)
    )
    return Release(plan, plan.compile(), noisy, receipt)


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
    estimate = known.coordinates(np.concatenate([noisy for _, _, noisy in seen], axis=-1)) @ known.space
    largest = float(
        np.clip(LARGEST / 2 / max(np.abs(estimate).sum(axis=-1).max(initial=0.0), 1.0), LARGEST_ENTRY, _FINEST_ENTRY)
    )
    plan = realised(
        like, cells, known.rows, "everything measured", spaces=rows, workload=workload, fill=False, largest=largest
    )
    own = refine(domain.sizes, [cells, Grouping(plan.attributes, plan.columns)])
    strategy = own.lifted(plan.strategy.astype(np.float64), 1)
    plan = _not_understated(plan, known, strategy)
    return plan, whole_numbers(estimate @ strategy.T), {"overstated": _overstated(plan, known, strategy)}


def _pooled_laplace(parts: Sequence[Release], workload: Workload | None) -> Release:
    """All rows that were measured with Laplace noise, as those of one plan: noise and its tails stay what they are.

    Rows over their scales are rounded to integers of one scale, and measurements are moved by what rounding a row moves
    it on the estimates. The scale is raised by more than all that rounding adds.
    """
    like = parts[0].planned
    if len(parts) == 1:
        return replace(parts[0], planned=like.replaced(workload=workload))
    seen = [part.planned.laplace_rows() for part in parts]
    cells = refine(like.domain.sizes, [grouping for grouping, _ in seen])
    rows = np.vstack([np.asarray(cells.lifted(own, i), dtype=np.float64) for i, (_, own) in enumerate(seen)])
    return laplace_pool(like, parts, cells, rows, _listed(workload))


def laplace_pool(
    like: Plan, parts: Sequence[Release], cells: Grouping, rows: Floats, workload: Workload | None
) -> Release:
    """The release of a plan of all these rows, the parts' one after the other, over cells of a plan's domain."""
    if rows.size > _MOST_ENTRIES:
        raise PlanError(
            f"{len(rows):,} measurements with Laplace noise over {rows.shape[1]:,} cells are too many to pool."
        )
    scales = [part.measurements.scales_of_rows for part in parts]
    noisy = np.concatenate([part.noisy / own for part, own in zip(parts, scales, strict=True)])
    strategy, scale = whole_rows(rows, _FINEST_ENTRY)
    inverse = np.linalg.pinv(rows, rcond=1e-10)
    moved = strategy - rows * scale
    mixed = np.sqrt(((moved @ inverse) ** 2).sum(axis=1)) / scale
    spread = max(_CLEAR * float(mixed.max()), float(np.linalg.norm(mixed)))  # no direction is moved by more than that
    raised = scale * (1.0 + math.sqrt(len(rows)) / min(float(own.min()) for own in scales) + spread)
    plan = MatrixPlan(
        like.domain, cells.attributes, cells.columns, strategy, raised, LAPLACE, unit=like.unit,
        workload=workload, guarantee=like.guarantee, objective="everything measured",
    )  # fmt: skip
    return Release(plan, plan.compile(), whole_numbers(noisy * scale + moved @ (inverse @ noisy)), {})


def _pooled_groups(parts: Sequence[Release], workload: Workload | None) -> Release:
    """Group by group, all groups at once in which the same plans meet."""
    plans = [cast("StrataPlan", part.plan) for part in parts]
    met, kind = kinds_of(plans)
    members: list[tuple[Plan, Measurements]] = []
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
            firsts = [_of_groups(part, groups[:1])[1] for part in there]
            lattice, measurements = pool_of_sets(cast("list[ProductPlan]", measuring), firsts, None)
            members.append((lattice, measurements))
            numbers = np.empty((len(groups), measurements.cells), dtype=np.int64)
            for some in batches(len(groups), measurements.cells, BATCH_CELLS):
                each = [_of_groups(part, groups[some])[1:] for part in there]
                numbers[some] = averaged_sets(measurements, cast("list[HeldSets]", each))
            measured.append(numbers)
        else:
            own = [_of_groups(part, groups) for part in there]
            matrix, numbers, receipt = _matrix_pool(own[0][0], [seen_in_groups(*each) for each in own], None)
            members.append((matrix, matrix.compile()))
            measured.append(numbers)
            overstated.append(receipt["overstated"])
    like = plans[0].replaced(members=tuple(plan for plan, _ in members), chosen=chosen, workload=tables_of(workload))
    whole = StrataMeasurements(like.domain.sizes, like.by, tuple(each for _, each in members), chosen)
    receipt = {"overstated": max(overstated)} if overstated else {}
    flat = np.concatenate([numbers.ravel() for numbers in measured])
    return Release(like.replaced(objective="everything measured"), whole, flat, receipt)


def _of_groups(part: Release, groups: Integers) -> tuple[Plan, Measurements, Integers]:
    """The plan that some groups have in a release, all the same, and what was measured in them."""
    plan, measurements = cast("StrataPlan", part.plan), cast("StrataMeasurements", part.measurements)
    k = int(plan.chosen[groups[0]])
    rows = np.searchsorted(measurements.places[k], groups)
    return plan.members[k], measurements.members[k], np.asarray(measurements.of_member(part.noisy, k)[rows])


def _not_understated(plan: MatrixPlan, known: Stacked, strategy: Floats) -> MatrixPlan:
    """The plan with noise raised until it states no less variance than there is, whatever rounding did to it."""
    return replace(plan, scale=plan.scale * max(math.sqrt(gain(known, strategy / plan.scale)), 1.0))


def _overstated(plan: MatrixPlan, known: Stacked, strategy: Floats) -> float:
    """By how much at most, relative, a variance that the plan states is above the least that there is."""
    most = gain(standardise(strategy / np.sqrt(plan.noise_variance)), known.rows)
    return float(f"{1.01 * max(most - 1.0, 0.0) + 1e-9:.2e}")


def _paid(plans: Sequence[Plan], pool: Plan, *, same_records: bool) -> tuple[Any, Mapping[str, Any]]:
    """What the parts guarantee together, and the receipt of the pool: what they cost in all.

    No less is promised than the pool claims for itself: it may know the cost of a replacement less exactly.
    """
    together = same_records or not isinstance(plans[0].unit, Person)
    cost = composed_cost(plans) if together else sum((composed_cost([plan]) for plan in plans), Fraction(0))
    if not pool.noise.gaussian:
        epsilon = composed_price(plans)
        least = PureDP(max(round_up(epsilon), pool.unit_epsilon))
        return least, {"epsilon": round_up(epsilon), "pcost": round_up(epsilon**2), "pooled": len(plans)}
    promise = guarantee_like(plans[0].guarantee, max(float(cost), pool.unit_pcost))
    return promise, {"pcost": round_up(cost), "pooled": len(plans)}
