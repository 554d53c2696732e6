"""What is asked of a tree: nodes of a level, prefixes or ranges of its ordered values, or any rows over them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from residua.errors import PlanError
from residua.linalg.arrays import Floats, Integers
from residua.plans.operators.nesting import Nesting
from residua.workload import AttributeQueries

MOST_ROWS = 4096  # of any coefficients over many values
MOST_RUNS = 2**26  # ranges that are listed


@dataclass(frozen=True, eq=False)
class Nodes:
    """Nodes of one level, all of them or some.

    Args:
        level: which level.
        chosen: which of its nodes; None for all.
    """

    level: int
    chosen: NDArray[np.integer[Any]] | None = None

    def count(self, nesting: Nesting) -> int:
        """How many there are."""
        return nesting.sizes[self.level] if self.chosen is None else len(self.chosen)

    def picked(self, values: NDArray[Any]) -> NDArray[Any]:
        """Of something of all nodes of the level that of these."""
        return values if self.chosen is None else values[self.chosen]


@dataclass(frozen=True, eq=False)
class AnyRows:
    """Any coefficients over the values, (rows, values)."""

    given: Floats

    def count(self, nesting: Nesting) -> int:
        """How many rows there are."""
        return len(self.given)


@dataclass(frozen=True, eq=False)
class Runs:
    """All prefixes, or all ranges, of ordered values.

    Args:
        size: how many values there are.
        ranges: whether all ranges; else prefixes.
    """

    size: int
    ranges: bool

    def count(self, nesting: Nesting) -> int:
        """How many there are."""
        return self.size * (self.size + 1) // 2 if self.ranges else self.size

    def ends(self) -> tuple[Integers, Integers]:
        """The first and the last value of each.

        Raises:
            PlanError: too many to list.
        """
        if not self.ranges:
            return np.zeros(self.size, dtype=np.int64), np.arange(self.size)
        if self.size * (self.size + 1) // 2 > MOST_RUNS:
            raise PlanError(
                f"all ranges of {self.size:,} values are too many to list; ask for their mean (per='term') or for "
                "single ones."
            )
        return np.triu_indices(self.size)

    def given(self) -> Floats:
        """The same as coefficients over values, (rows, values)."""
        first, last = self.ends()
        places = np.arange(self.size)
        return ((first[:, None] <= places) & (places <= last[:, None])).astype(np.float64)


TreeRows = Nodes | AnyRows | Runs


def tree_rows(asked: AttributeQueries | None, nesting: Nesting) -> list[TreeRows]:
    """What is asked along the tree; nothing is the root."""
    if asked is None:
        return [Nodes(nesting.root)]
    nested = asked.nested()
    if nested is not None and all(level is None or level.name in nesting.names for level, _ in nested):
        return [Nodes(0 if level is None else nesting.level(level.name), chosen) for level, chosen in nested]
    if asked.along in ("prefixes", "ranges") and nesting.ordered:
        return [Runs(asked.size, asked.along == "ranges")]
    if asked.rows > MOST_ROWS:
        raise PlanError(
            f"{asked.rows:,} rows over {asked.size:,} values are too many beside a tree; ask for its levels, or for at "
            f"most {MOST_ROWS:,} rows."
        )
    return [AnyRows(asked.matrix())]
