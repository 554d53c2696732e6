"""What every projection is asked to do, whatever the kind of release: the seam between the surface and the solvers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from residua.linalg.arrays import Floats
from residua.projection.facts import Fact
from residua.release.base import Release

Metric = Literal["margins", "covariance", "plain"]
Progress = Callable[[int, float], object]
UNITS: dict[Metric, str] = {
    "margins": "standard deviations, small tables weighing more",
    "covariance": "standard deviations",
    "plain": "counts",
}


@dataclass(frozen=True, eq=False)
class Terms:
    """What the projected tables must meet, and in which sense they are nearest.

    Args:
        nonnegative: whether no cell may be negative.
        facts: public marginals to be met exactly, the total among them.
        metric: "covariance", the release's own (each direction by its precision); "margins", the same with small tables
            weighing more; or "plain", squared differences summed over all that was asked.
        tolerance: how small the gap must be, relative to the squared distance.
        total_stddev: the standard deviation of the total among the facts, if it was taken from the release.
        shrunk: whether interactions are shrunk by their noise before the nearest tables are looked for.
    """

    nonnegative: bool = True
    facts: tuple[Fact, ...] = ()
    metric: Metric = "covariance"
    tolerance: float = 1e-6
    total_stddev: float = 0.0
    shrunk: bool = False


class Fit(ABC):
    """What was found: tables that agree with each other."""

    gap: float
    infeasibility: float

    @abstractmethod
    def supports(self, members: Sequence[int]) -> bool:
        """Whether the marginal on these attributes (positions, increasing) can be read off."""

    @abstractmethod
    def marginal(self, members: Sequence[int]) -> Floats:
        """The marginal on these attributes (positions, increasing)."""

    @property
    @abstractmethod
    def array(self) -> Floats:
        """What a saved projection keeps."""


class Problem(ABC):
    """The projection of releases of one plan under some terms; `observed` are such a release's estimates, flat."""

    terms: Terms

    @property
    def unit(self) -> str:
        """What distances are measured in."""
        return UNITS[self.terms.metric]

    @property
    def left_out(self) -> tuple[tuple[int, ...], ...]:
        """The attributes of tables that the release is about without telling all their cells."""
        return ()

    @abstractmethod
    def observed(self, release: Release) -> Floats:
        """A release's unbiased estimates in the form the problem takes."""

    @abstractmethod
    def solve(self, observed: Floats, progress: Progress | None = None) -> Fit:
        """The nearest tables that meet the terms."""

    @abstractmethod
    def unprojected(self, observed: Floats) -> Fit:
        """The observed estimates themselves, as tables."""

    @abstractmethod
    def fit_of(self, array: Floats, gap: float, infeasibility: float) -> Fit:
        """The fit that a saved projection keeps."""

    @abstractmethod
    def moved(self, observed: Floats, fit: Fit) -> float:
        """The squared distance of a fit from what was observed, in the metric."""

    @abstractmethod
    def size(self, fit: Fit) -> float:
        """The squared length of a fit in the metric."""

    @property
    @abstractmethod
    def spectrum(self) -> tuple[Floats, Floats]:
        """The variances of the noise along orthogonal directions of the metric, and how many directions have each."""

    @property
    def noise_sums(self) -> tuple[float, float, float]:
        """The sum of those variances, of their squares, and the largest; or bounds on them from above."""
        a, often = self.spectrum
        return float(a @ often), float((a * a) @ often), float(a.max(initial=0.0))

    @property
    @abstractmethod
    def cells(self) -> float:
        """How many numbers a squared distance is spread over."""

    @abstractmethod
    def simulated(self, fit: Fit, random: np.random.Generator) -> Floats:
        """What a release of the plan would observe if a fit were the truth."""

    @abstractmethod
    def error(self, fit: Fit, truth: Fit) -> float:
        """The mean absolute difference over everything that was asked."""
