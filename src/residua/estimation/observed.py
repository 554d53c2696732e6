"""What a release says of each residual, one table and one noise variance per set of attributes, and what is public.

The residual of a marginal is what is left of it once its own margins are taken away: the table minus its mean along
every axis. Residuals of different sets are orthogonal, so that the squared length of the noise of a marginal is
`Σ_{S⊆A} Π_{i∈A∖S} 1/n_i · ‖noise of residual S‖²`, for any noise. Plans of plain tables measure residuals; for other
plans this identity gives the variance of each from those of the marginals. A release can be simulated from estimates,
with noise as in the real one, to see how far estimates are from the truth.

An attribute that is another under other names (a code and its label) says of every table what the other says, once
more. Of the residual y of a table of both, the cells that agree are `1 − 2/n` times the residual of one of them alone,
with noise that is alike in all its directions: `Lᵀ y / (1 − 2/n)`, variance `σ² / (1 − 2/n)`, L the table of both from
that of one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import cast

import numpy as np
from scipy.optimize import linear_sum_assignment

from residua.domain import Domain, impossible_cells
from residua.domain.facts import Fact
from residua.errors import PlanError
from residua.estimation.mixture import Pairs, Values
from residua.linalg.arrays import Booleans, Floats, Integers, centred
from residua.linalg.lattice import SetFamily, subsets
from residua.plans.product.set_estimator import FamilyEstimator, Reconstruction
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
                possible = possible & self.possible(members).any(axis=1 - members.index(attribute))
        return possible


@dataclass(frozen=True, eq=False)
class Observed:
    """The residuals that a release tells, each with the variance of its noise.

    Args:
        domain: what the table may hold.
        variances: `σ²` of the noise of each residual that was measured and can vary, alike in all its directions.
        residual: a residual as measured, (n_1, …, n_k), by the positions of its attributes.
    """

    domain: Domain
    variances: Mapping[Members, float]
    residual: Callable[[Members], Floats]

    def variance(self, members: Members) -> float:
        """Of the noise of a residual; infinite where nothing was measured."""
        return self.variances.get(members, math.inf)

    def sets(self, size: int) -> list[Members]:
        """The sets of this size of which something was measured."""
        return [members for members in self.variances if len(members) == size]

    def directions(self, members: Members) -> int:
        """In how many directions a residual can vary."""
        return math.prod(int(self.domain.sizes[i]) - 1 for i in members)

    def cell_variance(self, members: Members) -> float:
        """The mean variance of one cell of a residual's noise."""
        return self.variance(members) * math.prod(1.0 - 1.0 / int(self.domain.sizes[i]) for i in members)

    def telling(self, total: float) -> Observed:
        """The same without residuals whose noise in a cell is above the total: they cannot say anything of it."""
        informative = {
            members: v for members, v in self.variances.items() if self.cell_variance(members) <= total * total
        }
        return replace(self, variances=informative)


def observed_of(release: Release) -> Observed:
    """The residuals of a release.

    Raises:
        PlanError: the release answers other queries than tables (a plan with a bias).
    """
    if release.plan.bias:
        raise PlanError("a release with a bias answers other queries than were asked; estimate from one without.")
    family = release.plan.family
    if family is None or not family.plain:
        return _of_marginals(release)
    return _of_residuals(release, family.lattice, family.noise_variances)


def variances_of(domain: Domain, lattice: SetFamily, variances: Floats) -> dict[Members, float]:
    """The finite ones among the noise variances of a family (sets,), by their sets, where something can vary."""
    varying = np.isfinite(variances) & (lattice.products(domain.sizes.astype(np.float64) - 1.0) > 0)
    return {
        members: v for members, v, there in zip(lattice, variances.tolist(), varying.tolist(), strict=True) if there
    }


def _of_residuals(release: Release, lattice: SetFamily, variances: Floats) -> Observed:
    """Residuals measured by plain strategies, or pooled from noisy tables."""
    domain = release.domain
    reconstruction = cast("Reconstruction", cast("FamilyEstimator", release.estimator).reconstruction)
    starts, units = reconstruction.layout.starts, np.ones(len(lattice))
    units[reconstruction.measured] = reconstruction.units

    def residual(members: Members) -> Floats:
        number, shape = lattice.number(members), [int(domain.sizes[i]) for i in members]
        start = int(starts[number])
        table = reconstruction.noisy[start : start + math.prod(shape)] / units[number]
        return centred(np.asarray(table).reshape(shape))

    return Observed(domain, variances_of(domain, lattice, variances), residual)


_MOST_WAYS = 3  # up to which residuals of other plans are looked for
_MOST_CELLS = 2**20


def _of_marginals(release: Release) -> Observed:
    """Residuals of the marginals that a release of any other form answers, up to three attributes.

    Each has the mean of the variances of its directions, by the identity of the module.
    """
    plan, domain = release.plan, release.domain
    squares: dict[Members, float] = {}
    variances: dict[Members, float] = {}
    for members in (s for k in range(_MOST_WAYS + 1) for s in combinations(sorted(plan.measured_attributes), k)):
        names, below = [domain.names[i] for i in members], [*subsets(members)][:-1]
        if not all(subset in squares for subset in below) or domain.cells(names) > _MOST_CELLS:
            continue
        try:
            whole = float(plan.variance(names).sum())
        except PlanError:
            continue
        rest = sum(squares[s] / math.prod(int(domain.sizes[i]) for i in members if i not in s) for s in below)
        squares[members] = max(whole - rest, 0.0)
        directions = math.prod(int(domain.sizes[i]) - 1 for i in members)
        if directions:
            variances[members] = max(squares[members], 1e-12 * whole) / directions
    return Observed(domain, variances, lambda members: centred(release.estimator.marginal(members)))


@dataclass(frozen=True, eq=False)
class Supposed:
    """Tables of singles and pairs, taken for the truth.

    Args:
        values: where each attribute's values stand.
        singles: (values,).
        pairs: of all attributes.
    """

    values: Values
    singles: Floats
    pairs: Pairs

    def residual(self, members: Members) -> Floats:
        """The residual of a single attribute or a pair."""
        one = len(members) == 1
        return centred(self.singles[self.values.of(members[0])] if one else self.pairs[members[0], members[1]])


def simulated(
    domain: Domain, variances: Mapping[Members, float], truth: Callable[[Members], Floats], seed: int
) -> Observed:
    """What a release with noise of these variances would say if these were the true residuals."""

    def residual(members: Members) -> Floats:
        random, own = np.random.default_rng([seed, *members]), truth(members)
        return own + centred(random.standard_normal(own.shape)) * math.sqrt(variances[members])

    return Observed(domain, variances, residual)


_MOST_VALUES = 1_000  # of attributes that are compared
_AGREE, _CLEAR = 3.0, 20.0  # standard deviations of the records that disagree: at most, and were they independent
_SCATTERED = 4.0  # standard deviations of the squares of cells that disagree, at most


@dataclass(frozen=True, eq=False)
class Copies:
    """Attributes that are an earlier one under other names.

    Args:
        sizes: how many values each attribute has, (attributes,).
        of: position of a copy → that of the original, and which of its values each value is, (values,).
    """

    sizes: Integers
    of: Mapping[int, tuple[int, Integers]] = field(default_factory=dict)

    def original(self, i: int) -> tuple[int, Integers]:
        """What an attribute copies, or itself, and which of its values each value is."""
        return self.of.get(i) or (i, np.arange(self.sizes[i]))

    def originals(self, members: Members) -> Members:
        """The same attributes, those that are copies replaced by what they copy."""
        return tuple(sorted({self.original(i)[0] for i in members}))

    def table(self, members: Members, own: Floats) -> Floats:
        """The table of these attributes from that of their originals."""
        agree, at = np.array(True), dict[int, Integers]()
        for i, values in zip(members, np.indices(self.sizes[list(members)].tolist(), sparse=True), strict=True):
            original, places = self.original(i)
            place = places[values]
            agree = agree & (at.setdefault(original, place) == place)
        return np.where(agree, own[tuple(at[i] for i in sorted(at))], 0.0)

    def without(self, observed: Observed) -> Observed:
        """What was measured, all of it said of the originals."""
        told: dict[Members, list[tuple[Members, float, float]]] = {}
        for members, variance in observed.variances.items():
            base = self.originals(members)
            twice = {i for i in self.of if i in members and len(base) < len(members)}
            share = 1.0 - sum(2.0 / float(self.sizes[i]) for i in twice)
            if len(members) - len(base) <= 1 and share > 0:
                told.setdefault(base, []).append((members, share, share / max(variance, 1e-300)))

        def residual(base: Members) -> Floats:
            whole = sum(precision for *_, precision in told[base])
            return np.asarray(sum(self._own(s, observed) * p / share / whole for s, share, p in told[base]))

        variances = {base: 1.0 / sum(precision for *_, precision in parts) for base, parts in told.items()}
        return replace(observed, variances=variances, residual=residual) if self.of else observed

    def _own(self, members: Members, observed: Observed) -> Floats:
        """What a residual says of that of its originals: the cells that agree."""
        residual, base = observed.residual(members), self.originals(members)
        for axis, i in enumerate(members):
            residual = residual.take(np.argsort(self.original(i)[1]), axis=axis)
        axes = "".join(chr(97 + base.index(self.original(i)[0])) for i in members)
        return centred(np.einsum(f"{axes}->{''.join(sorted(set(axes)))}", residual))


def copies_in(observed: Observed, public: Public, total: float) -> Copies:
    """The attributes that others copy, as far as what was measured shows; none of which something is public.

    Of a pair, as many values each: the records that disagree are no more than noise explains, nor do their cells vary
    more than it; and noise is a twentieth of what they would be without any dependence.
    """
    domain, of = observed.domain, dict[int, tuple[int, Integers]]()
    ruled = {i for rule in domain.impossible for i in domain.positions(rule.names)}
    apart = ruled | {i for fact in public.facts for i in fact.members}
    for i, j in sorted(observed.sets(2)):
        n, variance = int(domain.sizes[i]), observed.variance((i, j))
        noise = math.sqrt(variance * (n - 1))  # of the number of records that agree
        if {i, j} & {*of, *apart} or n != int(domain.sizes[j]) or not 0 < noise * _CLEAR < total or n > _MOST_VALUES:
            continue
        if not {(i,), (j,)} <= observed.variances.keys():
            continue
        one, other = (observed.residual((k,)) / n + total / n**2 for k in (i, j))
        table = observed.residual((i, j)) + one[:, None] + other - total / n**2
        places = linear_sum_assignment(table, maximize=True)[1]
        independent = total - float(one @ other[places]) * n**2 / total
        table[np.arange(n), places] = 0.0
        of_cell = observed.cell_variance((i, j)) + sum(observed.cell_variance((k,)) for k in (i, j)) / n**2
        most = of_cell * (n * (n - 1) + _SCATTERED * math.sqrt(2.0 * n * (n - 1)))
        if table.sum() <= _AGREE * noise and independent >= _CLEAR * noise and float((table**2).sum()) <= most:
            of[j] = i, np.argsort(places)
    return Copies(domain.sizes, of)
