"""Records of some groups alone, their groups numbered anew: tables of a few groups take the room of these alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Columns = Sequence[NDArray[np.integer[Any]]]


@dataclass(frozen=True, eq=False)
class SomeGroups:
    """Which groups are counted. The first attribute of `by` then holds a group's number among them, the others 0.

    Args:
        sizes: how many values each attribute has, (attributes,).
        by: positions of the attributes that make groups, increasing.
        groups: the groups that are counted, increasing, row by row among all groups.
    """

    sizes: NDArray[np.int64]
    by: tuple[int, ...]
    groups: NDArray[np.int64]

    @cached_property
    def _numbers(self) -> NDArray[np.int32]:
        """The new number of every group, −1 for those that are not counted."""
        numbers = np.full(int(np.prod(self.sizes[list(self.by)])), -1, dtype=np.int32)
        numbers[self.groups] = np.arange(len(self.groups), dtype=np.int32)
        return numbers

    def renumbered(self, codes: Columns) -> tuple[list[NDArray[np.integer[Any]]], NDArray[np.intp]]:
        """The columns of codes with the groups numbered anew, and which rows are in one of the groups."""
        group = codes[self.by[0]].astype(np.int64)
        for i in self.by[1:]:
            group = group * int(self.sizes[i]) + codes[i]
        numbers = self._numbers[group]
        made = list(codes)
        made[self.by[0]] = numbers
        for i in self.by[1:]:
            made[i] = np.zeros(len(numbers), dtype=np.uint8)
        return made, np.flatnonzero(numbers >= 0)
