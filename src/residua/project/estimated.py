"""Projection of any release that gives unbiased marginals of a family of sets: plain squares, no more is assumed.

For kinds whose noise is not alike in all directions of a residual space (products), so that the covariance metric is
not a weight a set. The tables come from `release.estimates`, and the rest is as for residual releases.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from residua.errors import PlanError
from residua.project.consistent import centred
from residua.project.problem import Fit
from residua.project.residual import ResidualProblem
from residua.release.base import Release

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class EstimatedProblem(ResidualProblem):
    """Projection of releases of a plan with a `lattice` of sets, some or all of which it answers."""

    plan: Any

    def __post_init__(self) -> None:
        if self.terms.metric != "plain":
            raise PlanError("metric: releases of this kind are projected in plain squares only; say metric='plain'.")
        super().__post_init__()

    @property
    def spectrum(self) -> tuple[Floats, Floats]:
        """Not known of this kind."""
        raise PlanError("no bound is known for releases of this kind.")

    def simulated(self, fit: Fit, random: np.random.Generator) -> Floats:
        """Not known of this kind."""
        raise PlanError("releases of this kind cannot be simulated yet; there is no indication of accuracy.")


def observed_estimates(problem: ResidualProblem, release: Release) -> Floats:
    """The residuals of a release's estimated marginals, in the order of the problem's layout, (cells,)."""
    observed, names = np.empty(problem.layout.cells), release.domain.names
    for group in problem.layout:
        tables = group.view(observed)
        for number, members in enumerate(group.members.tolist()):
            tables[number] = centred(release.estimates([names[i] for i in members]))
    return observed
