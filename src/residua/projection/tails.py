"""How much totals along running sums weigh in the penalty: as much as the sums that end up level with them.

Towards the end of an axis cells are often empty (a tail of large incomes, a year that has just begun), so that noise
alone is there, and the nearest sums that do not fall end in a long level piece: the total along the axis and L − 1 sums
before it move together. What holds the total, the tables without the axis and the number of all records, must move all
of them. With equal penalties the alternating method then takes L times as many rounds as elsewhere; with about L
times the penalty on the total it takes as many.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from residua.linalg.arrays import Booleans, Floats
from residua.projection import running_kernels
from residua.projection.crossing import Crossing
from residua.projection.running import Running

_OF_LEVEL = 0.5  # of the mean length of level ends; measured, anything from 0.1 to 1 does


def weighed(crossing: Crossing, coordinates: Floats, zeros: Booleans) -> Crossing:
    """The same tables with these weights, from given coordinates of all sets; where an axis has several, the least.

    Args:
        crossing: where the tables lie.
        coordinates: of every set, (cells,).
        zeros: which cells of the tables are impossible, in the order of the crossing's buffer, or nothing.
    """
    buffer = crossing.gather(coordinates)
    found: dict[int, float] = {}
    for part in crossing.parts:
        if part.running is None:
            continue
        sums, even = part.fibres(part.up(part.rows(buffer))), part.fibres(part.even[None])
        ties = part.fibres(part.rows(zeros)) if zeros.size else running_kernels.NO_ZEROS
        rising = running_kernels.nearest_rising(sums, ties, even, 0.0, 1.0)
        level = float((rising == rising[:, :, :1]).sum(axis=2).mean())
        axis = id(part.axes[part.running])
        found[axis] = min(found.get(axis, np.inf), level)
    known = {
        id(axis): replace(axis, last=max(_OF_LEVEL * found[id(axis)], 1.0))
        for axis in crossing.axes
        if isinstance(axis, Running) and id(axis) in found
    }
    return replace(crossing, axes=[known.get(id(axis), axis) for axis in crossing.axes])
