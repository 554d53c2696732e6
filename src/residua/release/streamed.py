"""All tables that were asked for, one after the other, rebuilt many at a time.

Tables that follow each other share most of their margins: of half a million cells' worth of them, every margin is
rebuilt once, by the kernels that rebuild tables of one shape together. No more than that is in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from residua.linalg.arrays import Floats, Integers
from residua.linalg.lattice import closure
from residua.plans.product.set_estimator import FamilyEstimator
from residua.workload import Workload

_BATCH_CELLS = 500_000


def streams(estimator: Any, workload: Any) -> bool:
    """Whether tables are rebuilt many at a time: marginals, measured by plain residuals or as they are."""
    return (
        estimator.plan.family is not None
        and workload.plain
        and bool(estimator.plan.family.plain)
        and not estimator.plan.bias
        and bool(np.isfinite(estimator.plan.family.facts.term_variances(workload)).all())
    )


def rebuilt_tables(estimator: FamilyEstimator, workload: Workload) -> Iterator[tuple[tuple[int, ...], Floats, float]]:
    """The tables of a workload that `streams`, in its order: positions of attributes, estimates, standard error."""
    stddevs = np.sqrt(estimator.plan.family.facts.term_variances(workload))
    for part in _batches(workload.cells):
        chosen = np.arange(part.start, part.stop)
        tables = {}
        for batch in rebuilt_batches(estimator, workload, chosen):
            for term, members, estimates in zip(
                batch.terms.tolist(), batch.members.tolist(), batch.estimates, strict=True
            ):
                own = estimates if len(chosen) == 1 else estimates.copy()  # else overwritten
                tables[term] = (tuple(members), own, float(stddevs[term]))
        for term in chosen.tolist():
            yield tables.pop(term)


@dataclass(frozen=True, eq=False)
class RebuiltBatch:
    """Tables of one shape, until the next batch is asked for.

    Args:
        terms: which of the workload's tables these are, (tables,).
        members: the positions of their attributes, increasing, (tables, k).
        estimates: (tables, n_1, …, n_k).
    """

    terms: Integers
    members: NDArray[np.int32]
    estimates: Floats


def rebuilt_batches(estimator: FamilyEstimator, workload: Workload, chosen: Integers) -> Iterator[RebuiltBatch]:
    """Some tables of plain marginals, from no more measurements than they need, in batches of equal shape.

    Args:
        reading: of plain residuals.
        workload: of plain marginals.
        chosen: which of its tables, by their places.
    """
    lattice, numbers = workload.lattice, workload.numbers[chosen]
    sizes = lattice.set_sizes[numbers]
    levels = {k: lattice.levels[k][numbers[sizes == k] - lattice.offsets[k]] for k in np.unique(sizes)}
    plan = estimator.plan
    whole = plan.family is plan and len(chosen) == len(workload)
    if whole and all((plan.lattice.find(rows) >= 0).all() for rows in levels.values()):
        family, batches = plan.lattice, estimator.all_marginals()  # nothing is copied
    else:
        family = closure(list(levels.values()), lattice.attributes)
        batches = estimator.part(family).all_marginals()
    terms = np.full(len(family), -1)
    for k, rows in levels.items():
        terms[family.find(rows)] = chosen[sizes == k]
    for group, part, tables in batches:
        own = terms[group.numbers[part]]
        kept = np.flatnonzero(own >= 0)
        if len(kept):
            estimates = tables if len(kept) == len(tables) else tables[kept]
            yield RebuiltBatch(own[kept], group.members[part][kept], estimates)


def alike(stddevs: Floats) -> Floats:
    """The same array; where all its numbers are alike, one that takes no memory."""
    first = stddevs.reshape(-1)[:1]
    return np.broadcast_to(first[0], stddevs.shape) if (stddevs == first).all() else stddevs


def _batches(cells: Floats) -> Iterator[slice]:
    """Tables that follow each other, of about as many cells as are rebuilt at once."""
    places = ((np.cumsum(cells) - cells) // _BATCH_CELLS).astype(np.int64)
    edges = [0, *(np.flatnonzero(np.diff(places)) + 1).tolist(), len(cells)]
    for first, stop in pairwise(edges):
        yield slice(first, stop)
