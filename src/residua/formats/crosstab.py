"""A table as people read it: its attributes along two sides, with their totals, each number with its error.

Totals are numbers of the release in their own right, with errors of their own; where it does not state them, or they
are not the sums of the table, there are none.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from residua.errors import PlanError
from residua.formats.cube import Cube, cube_of
from residua.language import say
from residua.linalg.arrays import Floats
from residua.published.table import QUERY

MOST_ACROSS = 24  # values along the upper side
_MOST_AXES = 4  # of a table with totals: there are tables of all their subsets


@dataclass(frozen=True, eq=False)
class Crosstab:
    """A table with its totals.

    Args:
        across: the axis along the upper side; None where none fits.
        titles: along each axis what its values are called, whole numbers as such, the total last.
        totals: whether there are totals.
        numbers: the columns of numbers, each with an axis per attribute; `margin` is half the width of the interval.
        grades: the place of each number's flag, −1 where it has none.
    """

    across: int | None
    titles: tuple[tuple[str | int, ...], ...]
    totals: bool
    numbers: dict[str, Floats]
    grades: NDArray[np.int64]

    def is_total(self, cell: tuple[int, ...]) -> bool:
        """Whether a cell adds up others."""
        return self.totals and any(place == len(along) - 1 for along, place in zip(self.titles, cell, strict=True))


def crosstab(cube: Cube) -> Crosstab:
    """A table with the totals that the release states."""
    axes = range(len(cube.dimensions))
    subsets = [kept for size in axes for kept in combinations(axes, size)] if len(axes) <= _MOST_AXES else []
    margins = {kept: None if cube.margin is None else cube.margin(kept) for kept in subsets}
    totals = bool(margins) and all(margin is not None for margin in margins.values())
    parts = {kept: replace(cube_of(margin, 0), full=cube.full) for kept, margin in margins.items()} if totals else {}
    shape = tuple(size + totals for size in cube.shape)
    numbers = {name: np.full(shape, np.nan) for name in _columns(cube)}
    grades = np.full(shape, -1)
    for kept, part in (parts | {tuple(axes): cube}).items():
        place = tuple(slice(0, cube.shape[i]) if i in kept else -1 for i in axes)
        for name, values in _columns(part).items():
            if name in numbers:
                numbers[name][place] = values.reshape(part.shape)
        flags = part.flags(("0", "1", "2"))
        grades[place] = np.array([-1 if flag is None else int(flag) for flag in flags]).reshape(part.shape)
    fitting = [i for i in axes if len(axes) > 1 and cube.shape[i] <= MOST_ACROSS]
    across = min(fitting, key=lambda i: (i != axes[-1], cube.shape[i]), default=None)
    titles = tuple(
        (*map(_label, each.labels, each.titles), *([say("Total")] if totals else [])) for each in cube.dimensions
    )
    return Crosstab(across, titles, totals, numbers, grades)


def _columns(cube: Cube) -> dict[str, Floats]:
    """The columns of numbers, and of a table with error bars half the width of each interval."""
    if not cube.has_bars or "upper" not in cube.measures:
        return cube.measures
    return cube.measures | {"margin": (cube.table.columns["upper"] - cube.table.columns["lower"]) / 2}


def _label(label: Any, title: str) -> str | int:
    """A value as a cell: a whole number is a number, unless it has a title of its own or Excel would change it."""
    plain = isinstance(label, int) and not isinstance(label, bool) and title == str(label) and abs(label) < 10**15
    return label if plain else title


def margins_of(published: Any, table: Any, changed: Callable[[Any], Any], **options: Any) -> Callable[..., Any]:
    """The tables over some axes of a table alone that the same release states: those that are its sums."""

    def margin(kept: tuple[int, ...]) -> Any:
        if table.attributes == QUERY:
            return None
        try:
            part = published.table([table.attributes[i] for i in kept], **options)
        except PlanError:
            return None
        sums = np.asarray(table.estimates.sum(axis=tuple(i for i in range(table.estimates.ndim) if i not in kept)))
        if sums.shape != part.estimates.shape:  # of a level
            return None
        near = np.allclose(sums, part.estimates, rtol=1e-6, atol=1e-3 * math.sqrt(table.estimates.size))
        return changed(part) if near else None

    return margin
