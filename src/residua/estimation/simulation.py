"""How far estimates are from the truth, by simulation: a release is made from the estimates, and fitted again."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from residua.domain import Domain
from residua.estimation.facts import Members
from residua.estimation.mixture import Values
from residua.estimation.observed import Observed, centred
from residua.linalg.arrays import Floats


@dataclass(frozen=True, eq=False)
class Simulated(Observed):
    """What a release of singles and pairs would say if these were the truth; noise as in the release.

    Args:
        real: the release whose noise is imitated.
        values: where each attribute's values stand.
        singles: the supposed truth, (values,).
        pairs: the supposed truth, (values, values).
        seed: which simulation.
    """

    real: Observed
    values: Values
    singles: Floats
    pairs: Floats
    seed: int = 0

    @cached_property
    def domain(self) -> Domain:  # type: ignore[override]
        """What the table may hold."""
        return self.real.domain

    def variance(self, members: Members) -> float:
        """As in the release."""
        return self.real.variance(members)

    def truth(self, members: Members) -> Floats:
        """The supposed residual."""
        at = tuple(self.values.of(i) for i in members)
        return centred(self.singles[at] if len(at) == 1 else self.pairs[at])

    def residual(self, members: Members) -> Floats:
        """The supposed residual with noise."""
        random = np.random.default_rng([self.seed, *members])
        truth = self.truth(members)
        return truth + centred(random.standard_normal(truth.shape)) * math.sqrt(self.variance(members))

    def sets(self, size: int) -> Iterator[Members]:
        """As in the release."""
        return self.real.sets(size)
