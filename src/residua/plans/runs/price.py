"""The verifier of runs: what measuring costs, from whole numbers and noise scales alone, exactly.

On each level a record is in one run, in one part of it, and changes what is measured there by one column of the rows R
of that level. With Laplace noise of scale s it costs `Σ_levels ‖column‖₁/s`, at most the sum over levels of the largest
column; k records cost at most k times as much. A record that is replaced changes nothing above the first run that holds
both its values; there, in two different parts, the difference of two columns, and below that two columns per level.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from residua.errors import VerificationError
from residua.linalg.arrays import Floats, Integers
from residua.plans.blocks import WORD, require_scales, rounded_up
from residua.plans.persons import most_records
from residua.plans.runs.shape import Shape
from residua.privacy import Unit

_LEAST_RECORDS = 2**28
_LARGEST = 2**34  # what is added up for one column stays far below 64 bits


def price(
    shape: Shape,
    strategies: Sequence[Integers],
    scales: Floats,
    unit: Unit,
    names: Sequence[str],
    sizes: Integers,
    drops: bool,
) -> Fraction:
    """What measuring costs this unit, in epsilon, rounded up.

    Args:
        shape: the runs.
        strategies: R of each level, whole numbers, (rows, parts).
        scales: the noise scale of each level.
        unit: whom to protect.
        names: what the attributes are called.
        sizes: how many values each has.
        drops: whether changing a record may remove it from every table.

    Raises:
        VerificationError: what is measured does not fit the runs, noise that cannot be sampled exactly, or possible
            overflow.
    """
    check(shape, strategies, scales)
    levels = [
        Fraction(int(np.abs(R).sum(axis=0).max())) / Fraction(float(s)) for R, s in zip(strategies, scales, strict=True)
    ]
    total = sum(levels, Fraction(0))
    records = most_records(unit, names, sizes)
    if records is not None:
        return rounded_up(records * total)
    replaced, below = Fraction(0), Fraction(0)
    for R, s, level in zip(strategies, scales, levels, strict=True):
        apart = max(int(np.abs(R - R[:, [c]]).sum(axis=0).max()) for c in range(R.shape[1]))
        replaced = max(replaced, Fraction(apart) / Fraction(float(s)) + below)
        below += 2 * level
    return rounded_up(max(replaced, total) if drops else replaced)


def check(shape: Shape, strategies: Sequence[Integers], scales: Floats) -> None:
    """Refuses what cannot be measured as it is priced.

    Raises:
        VerificationError: see `price`.
    """
    if len(strategies) != len(shape.parts) or scales.shape != (len(shape.parts),):
        raise VerificationError("rows or noise scales do not fit the runs; plan again.")
    for R, b in zip(strategies, shape.parts, strict=True):
        if R.dtype != np.int64 or R.ndim != 2 or R.shape[1] != b or not len(R):
            raise VerificationError(
                "what is measured of a run is no matrix of whole numbers over its parts; plan again."
            )
        if int(R.min()) < -_LARGEST or int(R.max()) > _LARGEST:
            raise VerificationError("the grid is so fine that numbers could overflow; plan again.")
    require_scales(scales)
    if records(strategies) < _LEAST_RECORDS:
        raise VerificationError("the grid is so fine that numbers could overflow; plan again.")


def records(strategies: Sequence[Integers]) -> int:
    """How many records may be counted before a measurement could leave 64 bits."""
    return (WORD - 2**56) // max(max(int(R.max()), -int(R.min()), 1) for R in strategies)
