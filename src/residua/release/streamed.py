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

from residua.linalg.arrays import Floats
from residua.linalg.lattice import closure
from residua.plans.product.set_reading import FamilyReading
from residua.workload import Workload

_BATCH_CELLS = 500_000


@dataclass(frozen=True, eq=False)
class Rebuilt:
    """One table.

    Args:
        members: the positions of its attributes, increasing.
        estimates: (n_1, …, n_k).
        stddev: of every cell.
    """

    members: tuple[int, ...]
    estimates: Floats
    stddev: float


def streams(reading: Any, workload: Any) -> bool:
    """Whether tables are rebuilt many at a time: marginals, measured by plain residuals or as they are."""
    return (
        reading.plan.family is not None
        and workload.plain
        and bool(reading.plan.family.plain)
        and not reading.plan.bias
        and bool(np.isfinite(reading.plan.family.facts.term_variances(workload)).all())
    )


def rebuilt_tables(reading: FamilyReading, workload: Workload) -> Iterator[Rebuilt]:
    """The tables of a workload that `streams`, in its order."""
    stddevs = np.sqrt(reading.plan.family.facts.term_variances(workload))
    for part in _batches(workload.cells):
        sets = [workload.lattice.members(int(number)) for number in workload.numbers[part]]
        tables = _rebuilt(reading, sets)
        for members, stddev in zip(sets, stddevs[part].tolist(), strict=True):
            yield Rebuilt(members, tables.pop(members), stddev)


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


def _rebuilt(reading: FamilyReading, sets: list[tuple[int, ...]]) -> dict[tuple[int, ...], Floats]:
    by_size: dict[int, list[tuple[int, ...]]] = {}
    for members in sets:
        by_size.setdefault(len(members), []).append(members)
    rows = [np.array(each, dtype=np.int32).reshape(len(each), -1) for each in by_size.values()]
    family = closure(rows, len(reading.plan.domain))
    wanted = np.zeros(len(family), dtype=bool)
    for each in rows:
        wanted[family.find(each)] = True
    rebuilt: dict[tuple[int, ...], Floats] = {}
    for group, part, tables in reading.part(family).all_marginals():
        for row in np.flatnonzero(wanted[group.numbers[part]]).tolist():
            members = tuple(group.members[part.start + row].tolist())
            rebuilt[members] = tables[row] if len(sets) == 1 else tables[row].copy()  # else overwritten
    return rebuilt
