"""Tables that count parts of records, as those of amounts do: noise as many times larger, and then records again.

With P parts of a record, what is measured is P times `B x`, an integer, and gets noise of the scale P · s: by norms,
that costs what `B x` with noise of the scale s costs. The sum is divided by P and rounded to whole numbers, as it would
be without parts; what is done to noisy numbers costs nothing.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from residua.errors import PlanError
from residua.linalg.arrays import Integers
from residua.plans.measurements import Batch, Measurements
from residua.plans.noise import LARGEST_SCALE, ORDERED


def in_parts(batch: Batch, parts: int) -> Batch:
    """The same batch with the noise of parts of records, never less."""
    return replace(batch, scales=np.nextafter(batch.scales * parts, np.inf))


def in_records(noisy: Integers, parts: int) -> None:
    """Noisy integers divided and rounded, in place."""
    noisy += parts // 2
    noisy //= parts


def require_parts(measurements: Measurements, parts: int) -> None:
    """Refuses noise that cannot be sampled exactly in parts of a record.

    Raises:
        PlanError: so it is. Nothing is spent.
    """
    if max(float(in_parts(batch, parts).scales.max()) for batch in measurements.batches()) > LARGEST_SCALE:
        raise PlanError(
            f"the noise on {parts:,} parts of a record, by the units of the amounts, is too large to sample exactly; "
            "choose coarser units. Nothing was spent."
        )
    if parts & (parts - 1) and measurements.noise == ORDERED:
        raise PlanError(
            f"correlated noise along an axis takes amounts of 2, 4, 8, … units in all, not {parts:,}; choose other "
            "bounds or units, or plan without form=rs.Axis(). Nothing was spent."
        )
