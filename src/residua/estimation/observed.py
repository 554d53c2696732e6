"""What a release says of each residual, one table and one noise variance per set of attributes, and what is public.

The residual of a marginal is what is left of it once its own margins are taken away: the table minus its mean along
every axis. Residuals of different sets are orthogonal, so that the squared length of the noise of a marginal is
`Σ_{S⊆A} Π_{i∈A∖S} 1/n_i · ‖noise of residual S‖²`, for any noise. Plans of plain tables measure residuals; for other
plans this identity gives the variance of each from those of the marginals. A release can be simulated from estimates,
with noise as in the real one, to see how far estimates are from the truth.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import cast

import numpy as np

from residua.domain import Domain, impossible_cells
from residua.errors import PlanError
from residua.estimation.mixture import Values
from residua.linalg.arrays import Booleans, Floats
from residua.linalg.lattice import SetFamily
from residua.linalg.modes import centred
from residua.plans.product.set_estimator import FamilyEstimator, Reconstruction
from residua.projection.facts import Fact
from residua.release.base import Release

Members = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Public:
    """Public facts about a domain's tables.

    Args:
        domain: what the table may hold, and what is impossible in it.
        facts: marginals whose cells are public, the total among them.
    """

    domain: Domain
    facts: tuple[Fact, ...] = ()

    def known(self, members: Members) -> Floats | None:
        """The marginal on these attributes (positions, increasing), if it is public."""
        for fact in self.facts:
            if set(members) <= set(fact.members):
                return fact.margin(members)
        return None

    def possible(self, members: Members) -> Booleans:
        """Which cells of a marginal a record can be in, as far as rules about its attributes say."""
        shape = [int(self.domain.sizes[i]) for i in members]
        mask = impossible_cells(self.domain, [self.domain.names[i] for i in members])
        return np.ones(shape, dtype=bool) if mask is None else ~mask

    def possible_values(self, attribute: int) -> Booleans:
        """Which values of an attribute a record can have: not those that a rule of two attributes leaves no cell."""
        possible = self.possible((attribute,))
        for rule in self.domain.impossible:
            members = tuple(sorted(self.domain.positions(rule.names)))
            if attribute in members and len(members) == 2:
                axis = 1 - members.index(attribute)
                possible = possible & self.possible(members).any(axis=axis)
        return possible


_MOST_WAYS = 3  # up to which residuals of other plans are looked for
_MOST_CELLS = 2**20


class Observed(ABC):
    """The residuals that a release tells, each with the variance of its noise."""

    domain: Domain

    @abstractmethod
    def variance(self, members: Members) -> float:
        """`σ²` of the noise of a residual, alike in all its directions; infinite where nothing was measured."""

    @abstractmethod
    def residual(self, members: Members) -> Floats:
        """A residual as measured, (n_1, …, n_k); only where its variance is finite."""

    @abstractmethod
    def sets(self, size: int) -> Iterator[Members]:
        """The sets of this size of which something was measured."""

    def directions(self, members: Members) -> int:
        """In how many directions a residual can vary."""
        return math.prod(int(self.domain.sizes[i]) - 1 for i in members)

    def cell_variance(self, members: Members) -> float:
        """The mean variance of one cell of a residual's noise."""
        return self.variance(members) * math.prod(1.0 - 1.0 / int(self.domain.sizes[i]) for i in members)


@dataclass(frozen=True, eq=False)
class PlainObserved(Observed):
    """Residuals measured by plain strategies, or pooled from noisy tables.

    Args:
        domain: what the table may hold.
        lattice: the family of sets.
        variances: of the noise of each, (sets,).
        estimator: where the numbers are.
    """

    domain: Domain
    lattice: SetFamily
    variances: Floats
    reconstruction: Reconstruction

    def variance(self, members: Members) -> float:
        """As the plan states it."""
        number = self.lattice.number(members)
        return float(self.variances[number]) if number >= 0 and self.directions(members) else math.inf

    @cached_property
    def _units(self) -> Floats:
        units = np.ones(len(self.lattice))
        units[self.reconstruction.measured] = self.reconstruction.units
        return units

    def residual(self, members: Members) -> Floats:
        """The numbers measured, on the scale of counts."""
        number = self.lattice.number(members)
        shape = [int(self.domain.sizes[i]) for i in members]
        start = int(self.reconstruction.layout.starts[number])
        table = self.reconstruction.noisy[start : start + math.prod(shape)] / self._units[number]
        return centred(np.asarray(table).reshape(shape))

    def sets(self, size: int) -> Iterator[Members]:
        """Those of the lattice with a finite variance."""
        if size < len(self.lattice.levels):
            level, start = self.lattice.levels[size], int(self.lattice.offsets[size])
            for row in level[np.isfinite(self.variances[start : start + len(level)])].tolist():
                if self.directions(tuple(row)):
                    yield tuple(row)


@dataclass(frozen=True, eq=False)
class ReadObserved(Observed):
    """Residuals of the marginals that a release of any other form answers, up to three attributes.

    Args:
        release: what was measured.
    """

    release: Release

    @property
    def domain(self) -> Domain:  # type: ignore[override]
        """What the table may hold."""
        return self.release.domain

    @cached_property
    def _variances(self) -> dict[Members, float]:
        """The mean of the variances of each residual's directions, from the identity of the module."""
        plan, sizes = self.release.plan, self.domain.sizes
        squares: dict[Members, float] = {}
        variances: dict[Members, float] = {}
        wanted = plan.measured_attributes
        for members in (s for k in range(_MOST_WAYS + 1) for s in combinations(sorted(wanted), k)):
            facets = [members[:j] + members[j + 1 :] for j in range(len(members))]
            if not all(facet in squares for facet in facets) or self.domain.cells(self._names(members)) > _MOST_CELLS:
                continue
            try:
                whole = float(plan.variance(self._names(members)).sum())
            except PlanError:
                continue
            below = (s for k in range(len(members)) for s in combinations(members, k))
            rest = sum(squares[s] / math.prod(int(sizes[i]) for i in members if i not in s) for s in below)
            squares[members] = max(whole - rest, 0.0)
            if self.directions(members):
                variances[members] = max(squares[members], 1e-12 * whole) / self.directions(members)
        return variances

    def _names(self, members: Members) -> list[str]:
        return [self.domain.names[i] for i in members]

    def variance(self, members: Members) -> float:
        """The mean over the residual's directions."""
        return self._variances.get(members, math.inf)

    def residual(self, members: Members) -> Floats:
        """Of the unbiased estimate."""
        return centred(self.release.estimator.marginal(members))

    def sets(self, size: int) -> Iterator[Members]:
        """Those that the release answers."""
        yield from (members for members in self._variances if len(members) == size)


def observed_of(release: Release) -> Observed:
    """The residuals of a release.

    Raises:
        PlanError: the release answers other queries than tables (a plan with a bias).
    """
    if release.plan.bias:
        raise PlanError("a release with a bias answers other queries than were asked; estimate from one without.")
    family = release.plan.family
    if family is None or not family.plain:
        return ReadObserved(release)
    reconstruction = cast("Reconstruction", cast("FamilyEstimator", release.estimator).reconstruction)
    return PlainObserved(release.domain, family.lattice, family.noise_variances, reconstruction)


@dataclass(frozen=True, eq=False)
class Simulated(Observed):
    """What a release of singles and pairs would say if these were the truth; noise as in the release.

    Args:
        real: the release whose noise is imitated.
        values: where each attribute's values stand.
        singles: the supposed truth, (values,).
        pairs: the supposed truth, (values, values).
        seed: which simulation.
        variances: of each set, where the release is yet to be made; those of the real one if left out.
    """

    real: Observed
    values: Values
    singles: Floats
    pairs: Floats
    seed: int = 0
    variances: Mapping[Members, float] | None = None

    @cached_property
    def domain(self) -> Domain:  # type: ignore[override]
        """What the table may hold."""
        return self.real.domain

    def variance(self, members: Members) -> float:
        """As in the release, or as supposed."""
        if self.variances is None:
            return self.real.variance(members)
        return self.variances.get(members, math.inf) if self.directions(members) else math.inf

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
