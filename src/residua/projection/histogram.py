"""A synthetic histogram: non-negative counts of the cells of some attributes, which answer everything consistently."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from residua.linalg.arrays import Floats
from residua.projection.problem import Fit


@dataclass(frozen=True, eq=False)
class Histogram(Fit):
    """What the projection of a dense release found.

    Args:
        attributes: positions of the attributes whose cells are counted, increasing.
        counts: one a cell, one axis an attribute.
        gap: how far the squared distance to the release is from the least possible, proven, in the metric's unit.
        infeasibility: the largest violation of a fact, in counts.
    """

    attributes: tuple[int, ...]
    counts: Floats
    gap: float
    infeasibility: float

    def __post_init__(self) -> None:
        self.counts.setflags(write=False)

    def supports(self, members: Sequence[int]) -> bool:
        """Whether the marginal on these attributes can be read off."""
        return set(members) <= set(self.attributes)

    def marginal(self, members: Sequence[int]) -> Floats:
        """The marginal on these attributes (positions, increasing)."""
        rest = tuple(axis for axis, i in enumerate(self.attributes) if i not in members)
        return np.asarray(self.counts.sum(axis=rest))

    @property
    def array(self) -> Floats:
        """What a saved projection keeps."""
        return self.counts
