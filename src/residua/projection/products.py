"""Projection of product releases, in the release's own metric or in plain squares over all queries asked.

The noise of block S is not alike in all directions of a residual space, so that the release's own metric is not one
weight per set of residuals: it is in the coordinates of `crossing.py`, and `crossed.py` projects there. The queries
asked have such coordinates too, but different ones: those of `asked.py`.

Where the sets of other attributes have noise of their own along a long axis, the metric is plain squares, whatever the
noise was. Of a table of which levels alone were asked nothing is known between their groups: there each group is spread
over its values as the largest table says of which all values were asked, so that noise nobody asked for moves nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np

from residua.linalg.arrays import Floats, Integers, centred
from residua.plans.operators.correlated import terms_of
from residua.plans.operators.path import CorrelatedPath
from residua.plans.product.plan import ProductPlan
from residua.plans.strategy import Plain, Strategy
from residua.projection.asked import AskedMetric, asked_metric
from residua.projection.axes import Coordinates, CosineBasis, PrefixSums, axis_along
from residua.projection.crossed import Crossed
from residua.projection.crossing import Crossing
from residua.projection.family import FamilyProblem
from residua.projection.problem import MANY_CELLS, Fit, Metric, ProjectionProblem, Terms, noise_alone
from residua.workload import AttributeQueries, Identity, renumber
from residua.workload.asking import Prefixes, Ranges
from residua.workload.rows import Hierarchy

Marginal = Callable[[tuple[int, ...]], Floats]
_LONGEST, _LONGEST_WITH_LEVELS = 4096, 512  # values of an axis that is written out as a matrix


class ProductProblem(FamilyProblem):
    """Projection of releases of a plan of products, in the release's own metric, or with small tables weighing more.

    Tables of which the release tells too little (an attribute asked fewer queries than it has values) are left out.
    Estimates are observed as residuals of the marginals, whatever the metric.
    """

    @classmethod
    def posed(cls, plan: Any, terms: Terms) -> ProjectionProblem:
        """The problem in the metric of the terms."""
        return PlainProblem(plan, terms, longest(plan)) if terms.metric == "plain" else cls(plan, terms)

    @classmethod
    def metrics(cls, plan: Any) -> tuple[tuple[Metric, ...], str]:
        """All of them; with correlated noise, plain squares alone."""
        if plan.family is None or plan.family.axes:
            return ("plain",), "with noise correlated along an axis, only metric='plain' is there."
        return super().metrics(plan)

    def read(self, estimator: Any) -> Floats:
        """The residuals of estimated marginals, in the order of the problem's layout, (cells,)."""
        return self._centred_marginals(estimator.marginal)

    def _centred_marginals(self, marginal: Marginal) -> Floats:
        """The residuals of all tables from their marginals."""
        residuals = np.empty(self.layout.cells)
        for group in self.layout:
            tables = group.view(residuals)
            for number, members in enumerate(group.members.tolist()):
                tables[number] = centred(self._filled(tuple(members), marginal))
        return residuals

    def _filled(self, members: tuple[int, ...], marginal: Marginal) -> Floats:
        """A table as it is projected."""
        return marginal(members)

    @cached_property
    def axes(self) -> tuple[Coordinates, ...]:
        """The coordinates along each attribute, the same object where the strategy is the same."""
        answered = {int(i) for i in self.lattice.levels[1].ravel()} if len(self.lattice.levels) > 1 else set()
        chosen = [one if i in answered else Plain(one.size) for i, one in enumerate(self.plan.strategies)]
        known = {strategy: axis_along(strategy.spread, strategy.inverse) for strategy in dict.fromkeys(chosen)}
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

    def _method(self) -> tuple[Any, Any]:
        return Crossed, Crossing(self.lattice, self.axes, self.lattice.is_maximal)

    def squared(self, observed: Floats) -> float:
        """`Σ_S w_S ‖y_S‖²` in coordinates."""
        return self._weighed(self._tables.given_layout, self._coordinates(observed))

    def _coordinates(self, residuals: Floats) -> Floats:
        """The coordinates of all sets from the residuals of their tables."""
        tables = self.unprojected(residuals)
        coordinates = np.empty(self._tables.given_layout.cells)
        for group in self._tables.given_layout:
            places = group.view(coordinates)
            for number, members in enumerate(group.members.tolist()):
                places[number] = self._own(tuple(members), tables.marginal(members))
        return coordinates

    def _residuals(self, coordinates: Floats) -> Floats:
        """The residuals of all tables from the coordinates of all sets."""
        buffer, residuals = self._tables.gather(coordinates), np.empty(self.layout.cells)
        for part in self._tables.parts:
            tables = part.values(part.up(part.rows(buffer))).reshape(-1, *part.shape)
            places = self.layout.starts[part.numbers][:, None] + np.arange(part.cells)
            residuals[places] = centred(tables, 1).reshape(places.shape)
        return residuals


@dataclass(frozen=True, eq=False)
class PlainProblem(ProductProblem):
    """Projection in plain squares over all that was asked (`asked.py`); along long axes over all prefixes.

    Args:
        longest: of axes of more values all prefixes count (`axes.py`), whatever is asked of them.
    """

    longest: int

    @cached_property
    def long(self) -> dict[int, Coordinates]:
        """The axes of which all prefixes count: as prefix sums, or in cosines beside a longer one in some table."""
        sizes = self.plan.domain.sizes
        tables = [{*self.lattice.members(int(number))} for number in np.flatnonzero(self.lattice.is_maximal)]
        longest_first = sorted((-int(sizes[i]), i) for i in self.plan.axes if int(sizes[i]) > self._longest(i))
        in_sums: set[int] = set()
        for _, i in longest_first:
            if not any(i in members and members & in_sums for members in tables):
                in_sums.add(i)
        long = {i: PrefixSums(-size) if i in in_sums else CosineBasis(-size) for size, i in longest_first}
        return dict(sorted(long.items()))

    def _longest(self, i: int) -> int:
        """From how many values on all prefixes count: sooner where levels are asked too, which take many rounds."""
        families = () if self.plan.workload is None else self.plan.workload.families
        levels = any(each.queries[i].by_levels for each in families if i in each.used)
        return min(self.longest, _LONGEST_WITH_LEVELS) if levels else self.longest

    def metric_term(self, term: Sequence[tuple[int, AttributeQueries]]) -> Sequence[tuple[int, AttributeQueries]]:
        """A term, all prefixes of long axes."""
        return [(i, Prefixes(int(self.plan.domain.sizes[i])) if i in self.long else asked) for i, asked in term]

    @cached_property
    def metric(self) -> AskedMetric:
        """What was asked and is answered; also the largest tables that no term is about, where others were left out."""
        unasked = self.lattice.is_maximal.astype(np.float64)
        for sets, _ in self._families:
            unasked[sets > 0] = 0.0
        noise = self._finite_variances
        return asked_metric(self.lattice, self._families, unasked, self.plan.strategies, noise, self.long)

    @cached_property
    def _families(self) -> list[tuple[Floats, tuple[AttributeQueries, ...]]]:
        """For each family the sets of its terms that are answered, and what it asks of each attribute."""
        workload = self.plan.workload
        if workload is None:
            return []
        places, families = renumber(workload.lattice, self.lattice), []
        for family in workload.families:
            numbers = places[family.numbers]
            sets = np.zeros(len(self.lattice))
            sets[numbers[numbers >= 0]] = 1.0
            asked = self.metric_term(list(enumerate(family.queries)))
            families.append((sets, tuple(queries for _, queries in asked)))
        return families

    @cached_property
    def axes(self) -> tuple[Coordinates, ...]:
        """The coordinates along each attribute in which what was asked has no cross terms."""
        return tuple(one.axis for one in self.metric.along)

    @property
    def weights(self) -> Floats:
        """w_S, (sets,)."""
        return self.metric.weights

    @property
    def noise_sums(self) -> tuple[float, float, float]:
        """The sum of the noise's variances exactly; of their squares, and the largest, bounds by adding up blocks."""
        return self.metric.noise_sums(self.plan.strategies, self._finite_variances)

    @property
    def cells(self) -> float:
        """How many queries were asked and are answered; where there is none, how many cells the largest tables have."""
        rows = [np.array([float(one.rows) for one in queries]) for _, queries in self._families]
        pairs = zip(self._families, rows, strict=True)
        asked = sum(float(sets @ self.lattice.products(counts)) for (sets, _), counts in pairs)
        sizes = self.plan.domain.sizes.astype(np.float64)
        return asked or float(self.metric.unasked @ self.lattice.products(sizes))


@dataclass(frozen=True, eq=False)
class NoisePerSetProblem(PlainProblem):
    """Projection in plain squares of releases in which each set has its own noise along the axis.

    Args:
        measured: the plan; `plan` has the same tables, with one noise along the axis.
        Others as for `PlainProblem`.
    """

    measured: ProductPlan
    bounded = False

    @classmethod
    def posed(cls, plan: Any, terms: Terms) -> ProjectionProblem:
        """The problem of the same tables with one noise along the axis."""
        one = with_one_noise(plan)
        return cls(one, terms, longest(one), plan)

    @classmethod
    def is_small(cls, plan: Any) -> bool:
        """Whether few numbers are measured."""
        return bool(plan.measurements.cells <= MANY_CELLS)

    @cached_property
    def _complete(self) -> frozenset[tuple[int, ...]]:
        """The sets of which all values of the axis were asked, by prefixes, ranges or values; not by levels alone."""
        plan = self.measured
        if plan.workload is None:
            return frozenset(plan.parts)
        asked = [
            {*term} - {plan.attribute}
            for term, _ in terms_of(plan.workload)
            if isinstance(term.get(plan.attribute), Prefixes | Ranges | Identity | Hierarchy)
        ]
        return frozenset(members for members in plan.parts if any({*members} <= each for each in asked))

    def simulated(self, fit: Fit, random: np.random.Generator) -> Floats:
        """What a release of the plan would observe if a fit were the truth: groups are spread by noisy tables."""
        noise = noise_alone(self.measured, random)
        return self._centred_marginals(lambda members: fit.marginal(members) + noise.marginal(members))

    def _filled(self, members: tuple[int, ...], marginal: Marginal) -> Floats:
        """A table, each group of which is spread over its values by another where levels alone were asked of it."""
        plan, table = self.measured, marginal(members)
        short = tuple(j for j in members if j != plan.attribute and int(plan.domain.sizes[j]) > 1)
        if plan.attribute not in members or short not in plan.parts or short in self._complete:
            return table
        place = members.index(plan.attribute)
        starts, lengths = self._groups(short)
        sums = np.repeat(np.add.reduceat(np.moveaxis(table, place, -1), starts, axis=-1), lengths, axis=-1)
        return np.moveaxis(sums * self._profile(members, short, starts, lengths, marginal), -1, place)

    def _profile(
        self, members: tuple[int, ...], short: tuple[int, ...], starts: Integers, lengths: Integers, marginal: Marginal
    ) -> Floats:
        """How each group's records lie on its values, by the largest complete table; evenly where it has none."""
        plan = self.measured
        even: Floats = np.repeat(1.0 / lengths, lengths)
        inner = [each for size in range(len(short) - 1, -1, -1) for each in combinations(short, size)]
        known = next((each for each in inner if each in self._complete), None)
        if known is None:
            return even
        positions = tuple(sorted((*known, plan.attribute)))
        table = np.maximum(np.moveaxis(marginal(positions), positions.index(plan.attribute), -1), 0.0)
        sums = np.repeat(np.add.reduceat(table, starts, axis=-1), lengths, axis=-1)
        shares = np.where(sums > 0, table / np.where(sums > 0, sums, 1.0), even)
        shape = [int(plan.domain.sizes[j]) if j in known else 1 for j in members if j != plan.attribute]
        return shares.reshape([*shape, -1])

    def _groups(self, short: tuple[int, ...]) -> tuple[Integers, Integers]:
        """Where the finest groups asked of a set begin, and how many values each has."""
        plan = self.measured
        n, operator = plan.size, plan.parts[short]
        groups = operator.strategy.asked.groups if isinstance(operator, CorrelatedPath) else ()
        starts = np.array(sorted({0, *(g[0] for g in groups), *(g[1] + 1 for g in groups)} - {n}), dtype=np.int64)
        return starts, np.diff(np.append(starts, n))


def with_one_noise(plan: ProductPlan) -> ProductPlan:
    """A plan of the same tables with one noise along the axis: which tables there are, about how precise each is."""
    lattice = plan.measurements.counted.lattice if plan.workload is None else plan.workload.lattice
    paths = {members: each for members, each in plan.parts.items() if isinstance(each, CorrelatedPath)}
    strategies = list[Strategy](Plain(int(n)) for n in plan.domain.sizes)
    if paths:
        strategies[plan.attribute] = next(iter(paths.values())).strategy
    precisions = np.zeros(len(lattice))
    for members, each in plan.parts.items():
        whole = tuple(sorted((*members, plan.attribute)))
        if members in paths:
            known = {whole: paths[members].factor}
        else:  # a plain strategy tells of the total apart from the values
            known = {whole: each.mean_variance(Identity(plan.size))} if each.has_values else {}
            known[members] = float(each.variances(None)[0])
        for row, factor in known.items():
            precisions[lattice.number(row)] = 1.0 / factor
    promise: Any = {"guarantee": plan.guarantee, "unit": plan.unit, "workload": plan.workload}
    return ProductPlan(plan.domain, lattice, precisions, tuple(strategies), **promise)


def longest(plan: ProductPlan) -> int:
    """Of longer axes all prefixes count: of all axes, where prefixes alone are asked of them."""
    terms = () if plan.workload is None or not plan.axes else plan.workload.terms()
    along = [asked for term in terms for i, asked in term if i in plan.axes]
    return 0 if along and all(asked == Prefixes(asked.size) for asked in along) else _LONGEST
