"""Projection of product releases, in the release's own metric or in plain squares over all queries asked.

The noise of block S is not alike in all directions of a residual space, so that the release's own metric is not one
weight per set of residuals: it is in the coordinates of `crossing.py`, and `crossed.py` projects there. The queries
asked have such coordinates too, but different ones: those of `asked.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from residua.linalg.arrays import Floats, Integers
from residua.plans.lattice.crossed import CrossedBlocks
from residua.plans.lattice.crossed_reading import AlongEstimator
from residua.plans.lattice.estimates import CrossedEstimator
from residua.plans.lattice.plan import LatticePlan
from residua.plans.strategy import Plain
from residua.projection.asked import Asked, asked_metric
from residua.projection.consistent import ConsistentTables, centred, centred_each
from residua.projection.crossing import AnyAxis, Crossing, axis_of
from residua.projection.family import FamilyProblem
from residua.projection.problem import Fit, Progress
from residua.projection.running import Running
from residua.projection.waves import Waves
from residua.release.base import Release
from residua.workload import AttributeQueries, applied, renumber
from residua.workload.ordered import Prefixes


@dataclass(frozen=True, eq=False)
class ProductProblem(FamilyProblem):
    """Projection of releases of a plan of products.

    Tables of which the release tells too little (an attribute asked fewer queries than it has values) are left out.
    Estimates are observed as residuals of the marginals, whatever the metric.
    """

    plan: LatticePlan

    @cached_property
    def _asked(self) -> Integers:
        """Numbers of the sets that a term is about and that are answered, and of those in no larger one."""
        largest, workload = np.flatnonzero(self.lattice.is_maximal), self.plan.workload
        if workload is None:
            return largest
        asked = np.concatenate([family.numbers for family in workload.families])
        numbers = renumber(workload.lattice, self.lattice)[asked]
        return np.union1d(numbers[numbers >= 0], largest)

    def observed(self, release: Release) -> Floats:
        """The residuals of a release's estimated marginals, in the order of the problem's layout, (cells,)."""
        observed, names = np.empty(self.layout.cells), release.domain.names
        for group in self.layout:
            tables = group.view(observed)
            for number, members in enumerate(group.members.tolist()):
                tables[number] = centred(release.estimates([names[i] for i in members]))
        return observed

    def simulated(self, fit: Fit, random: np.random.Generator) -> Floats:
        """What a release of the plan would observe if a fit were the truth."""
        assert isinstance(fit, ConsistentTables)
        blocks = self.plan.compile()  # its precisions are those measured, the rounding of noise included
        if isinstance(blocks, CrossedBlocks):
            noise: CrossedEstimator = AlongEstimator(blocks, blocks.simulated(random))
        else:
            scales = np.zeros(len(blocks.lattice))
            scales[blocks.measured] = blocks.scales
            cells = [np.repeat(scales[group.numbers], group.cells) for group in blocks.layout]
            noise = CrossedEstimator(blocks, random.standard_normal(blocks.cells) * np.concatenate(cells))
        observed = np.array(fit.residuals)
        for group in self.layout:
            tables = group.view(observed)
            for number, members in enumerate(group.members.tolist()):
                tables[number] += centred(noise.marginal(tuple(members)))
        return observed

    def _metric_term(self, term: Sequence[tuple[int, AttributeQueries]]) -> Sequence[tuple[int, AttributeQueries]]:
        """A term as the metric counts it."""
        return term

    def error(self, fit: Fit, truth: Fit) -> float:
        """The mean absolute difference over all asked queries that are answered; without any, over cells."""
        workload, total, queries = self.plan.workload, 0.0, 0
        for term in () if workload is None else map(self._metric_term, workload.terms()):
            members = tuple(i for i, _ in term)
            if fit.supports(members):
                apart = applied(term, fit.marginal(members) - truth.marginal(members))
                total, queries = total + float(np.abs(apart).sum()), queries + apart.size
        return total / queries if queries else super().error(fit, truth)


@dataclass(frozen=True, eq=False)
class CrossedProblem(ProductProblem):
    """Projection in the release's own metric, or with small tables weighing more."""

    @cached_property
    def axes(self) -> tuple[AnyAxis, ...]:
        """The coordinates along each attribute, the same object where the strategy is the same."""
        told = {int(i) for i in self.lattice.levels[1].ravel()} if len(self.lattice.levels) > 1 else set()
        chosen = [one if i in told else Plain(one.size) for i, one in enumerate(self.plan.strategies)]
        known = {strategy: axis_of(strategy) for strategy in dict.fromkeys(chosen)}
        return tuple(known[strategy] for strategy in chosen)

    def _own(self, members: tuple[int, ...], table: Floats) -> Floats:
        """The own coordinates of a table, one axis per attribute."""
        for k, i in enumerate(members):
            table = self.axes[i].own(table, k)
        return np.asarray(table)

    @cached_property
    def _tables(self) -> Crossing:
        """The tables of all sets."""
        return Crossing(self.lattice, self.axes, np.ones(len(self.lattice), dtype=bool))

    def solve(self, observed: Floats, progress: Progress | None = None) -> ConsistentTables:
        """The nearest consistent tables that meet the terms."""
        from residua.projection.crossed import nearest_crossed

        found = nearest_crossed(
            self.lattice,
            self.axes,
            self._coordinates(observed),
            self.weights,
            fixed={members: self._own(members, cells) for members, cells in self._known_margins().items()},
            zeros=self.zeros() if self.terms.nonnegative else None,
            nonnegative=self.terms.nonnegative,
            tolerance=self.terms.tolerance,
            progress=progress,
        )
        return self.fit_of(self._residuals(found.coordinates), found.gap, found.infeasibility)

    def _squared(self, first: Floats, second: Floats | None) -> float:
        apart = self._coordinates(first if second is None else first - second)
        total = 0.0
        for group in self._tables.coordinates:
            squares = group.view(apart).reshape(len(group.numbers), -1) ** 2
            total += float(self.weights[group.numbers] @ squares.sum(axis=1))
        return total

    def _coordinates(self, residuals: Floats) -> Floats:
        """The coordinates of all sets from the residuals of their tables."""
        tables = self.unprojected(residuals)
        found = np.empty(self._tables.coordinates.cells)
        for group in self._tables.coordinates:
            places = group.view(found)
            for number, members in enumerate(group.members.tolist()):
                places[number] = self._own(tuple(members), tables.marginal(members))
        return found

    def _residuals(self, coordinates: Floats) -> Floats:
        """The residuals of all tables from the coordinates of all sets."""
        buffer, found = self._tables.gather(coordinates), np.empty(self.layout.cells)
        for part in self._tables.parts:
            tables = part.values(part.up(part.rows(buffer))).reshape(-1, *part.shape)
            places = self.layout.starts[part.numbers][:, None] + np.arange(part.cells)
            found[places] = centred_each(tables).reshape(places.shape)
        return found


_MOST_WITH_LEVELS = 512


@dataclass(frozen=True, eq=False)
class PlainProblem(CrossedProblem):
    """Projection in plain squares over all that was asked (`asked.py`); along long axes over all prefixes.

    Args:
        longest: of axes of more values all prefixes count (`running.py`, `waves.py`), whatever is asked of them.
    """

    longest: int = 4096

    @cached_property
    def long(self) -> dict[int, Running | Waves]:
        """The axes of which all prefixes count: kept as running sums, or as waves beside a longer one in some table."""
        sizes = self.plan.domain.sizes
        tables = [{*self.lattice.members(int(number))} for number in np.flatnonzero(self.lattice.is_maximal)]
        longest_first = sorted((-int(sizes[i]), i) for i in self.plan.axes if int(sizes[i]) > self._longest(i))
        running: set[int] = set()
        for _, i in longest_first:
            if not any(i in members and members & running for members in tables):
                running.add(i)
        found = {i: Running(-size) if i in running else Waves(-size) for size, i in longest_first}
        return dict(sorted(found.items()))

    def _longest(self, i: int) -> int:
        """From how many values on all prefixes count: sooner where levels are asked too, which take many rounds."""
        families = () if self.plan.workload is None else self.plan.workload.families
        levels = any(each.queries[i].by_levels for each in families if i in each.used)
        return min(self.longest, _MOST_WITH_LEVELS) if levels else self.longest

    def _metric_term(self, term: Sequence[tuple[int, AttributeQueries]]) -> Sequence[tuple[int, AttributeQueries]]:
        return [(i, Prefixes(int(self.plan.domain.sizes[i])) if i in self.long else asked) for i, asked in term]

    @cached_property
    def metric(self) -> Asked:
        """What was asked and is answered; also the largest tables that no term is about, where others were left out."""
        variances = self.plan.noise_variances[self._numbers]
        unasked = self.lattice.is_maximal.astype(np.float64)
        for sets, _ in self._families:
            unasked[sets > 0] = 0.0
        noise = np.where(np.isfinite(variances), variances, 0.0)  # empty: no noise
        return asked_metric(self.lattice, self._families, unasked, self.plan.strategies, noise, self.long)

    @cached_property
    def _families(self) -> list[tuple[Floats, tuple[AttributeQueries, ...]]]:
        """For each family the sets of its terms that are answered, and what it asks of each attribute."""
        workload = self.plan.workload
        if workload is None:
            return []
        places, found = renumber(workload.lattice, self.lattice), []
        for family in workload.families:
            numbers = places[family.numbers]
            sets = np.zeros(len(self.lattice))
            sets[numbers[numbers >= 0]] = 1.0
            asked = self._metric_term(list(enumerate(family.queries)))
            found.append((sets, tuple(queries for _, queries in asked)))
        return found

    @cached_property
    def axes(self) -> tuple[AnyAxis, ...]:
        """The coordinates along each attribute in which what was asked has no cross terms."""
        return tuple(one.axis for one in self.metric.along)

    @property
    def weights(self) -> Floats:
        """w_S, (sets,)."""
        return self.metric.weights

    @property
    def noise_sums(self) -> tuple[float, float, float]:
        """The sum of the noise's variances exactly; of their squares, and the largest, bounds by adding up blocks."""
        variances = self.plan.noise_variances[self._numbers]
        return self.metric.noise_sums(self.plan.strategies, np.where(np.isfinite(variances), variances, 0.0))

    @property
    def cells(self) -> float:
        """How many queries were asked and are answered; where there is none, how many cells the largest tables have."""
        rows = [np.array([float(one.rows) for one in queries]) for _, queries in self._families]
        pairs = zip(self._families, rows, strict=True)
        asked = sum(float(sets @ self.lattice.products(counts)) for (sets, _), counts in pairs)
        sizes = self.plan.domain.sizes.astype(np.float64)
        return asked or float(self.metric.unasked @ self.lattice.products(sizes))
