"""Raking: the table nearest to a first guess (in relative entropy) that has given margins."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from residua.linalg.arrays import Floats

_WORTH_COMPILING = 500  # cells: below, NumPy is as fast


def raked(first: Floats, margins: Sequence[Floats], tolerance: float = 1e-9, rounds: int = 400) -> tuple[Floats, float]:
    """A table with these margins, one per axis summed over, and how far it is from them at most, in counts.

    Cells that are zero stay zero; where no such table has all margins, the rounds end
    and the distance says so.

    Args:
        first: the first guess, not negative, (n_1, …, n_k).
        margins: margins[j] is the table summed over axis j, non-negative.
        tolerance: when to stop, relative to the total.
        rounds: when to stop in any case.
    """
    total = max(float(margins[0].sum()), 1e-300)
    if first.ndim == 3 and first.size >= _WORTH_COMPILING:
        from residua.estimation.kernels import rake_three

        whole = np.array(first, order="C")
        a, b, c = (np.ascontiguousarray(margin) for margin in margins)
        return whole, float(rake_three(whole, a, b, c, tolerance * total, rounds))
    table = first
    apart = np.inf
    for _ in range(rounds):
        apart = 0.0
        for axis, margin in enumerate(margins):
            now = table.sum(axis=axis)
            apart = max(apart, float(np.abs(now - margin).max()))
            with np.errstate(divide="ignore", invalid="ignore"):
                factor = np.where(now > 0, margin / now, 0.0)
            table = table * np.expand_dims(factor, axis)
        if apart <= tolerance * total:
            break
    left = max(float(np.abs(table.sum(axis=axis) - margin).max()) for axis, margin in enumerate(margins))
    return table, left
