"""Releases over one tree with one strategy, pooled: every measured node is averaged by precision."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import cast

import numpy as np

from residua.linalg.arrays import Floats
from residua.plans.tree.algebra import compose
from residua.plans.tree.plan import TreePlan
from residua.plans.tree.reading import TreeReading
from residua.release.base import Release
from residua.workload import Workload


def pooled_trees(parts: Sequence[Release], workload: Workload | None) -> tuple[TreePlan, Floats]:
    """The plan that measures as precisely as all these together, and averages on its grid, (cells,).

    Args:
        parts: the releases.
        workload: what the pool is asked for, for the record.
    """
    read = [cast("TreeReading", part.reading) for part in parts]
    known = [cast("TreePlan", each.plan).replaced(workload=None) for each in read]  # the rounding of noise included
    plan = reduce(compose, known).replaced(workload=workload, guarantee=parts[0].planned.guarantee)
    blocks = plan.compile()
    place = {each.members: number for number, each in enumerate(blocks.sets)}
    sums = np.zeros(blocks.cells)
    for one, own in zip(read, known, strict=True):
        for number, each in enumerate(one.blocks.sets):
            at = place[each.members]
            share = float(own.precisions[number][0].flat[0] / plan.precisions[at][0].flat[0])
            here = slice(one.blocks.starts[number], one.blocks.starts[number + 1])
            there = slice(blocks.starts[at], blocks.starts[at + 1])
            sums[there] += one.measurements[here] * (share * blocks.sets[at].unit / each.unit)
    return plan, sums
