"""Projection of releases along a long axis whose sets of other attributes have noise of their own.

The metric is squares over what was asked, or over all prefixes of a long axis (`crossed_tables.py`), whatever the noise
was. Of a table of which levels alone were asked nothing is known between their groups: there each group is spread over
its values as the largest table says of which all values were asked, so that noise nobody asked for moves nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np

from residua.linalg.arrays import Floats, Integers
from residua.plans.lattice.plan import LatticePlan
from residua.plans.operators.path import CorrelatedPath
from residua.plans.operators.prefix_rows import terms_of
from residua.plans.product.plan import ProductPlan
from residua.plans.strategy import Plain, Strategy
from residua.projection.consistent import centred
from residua.projection.crossed_tables import PlainProblem
from residua.projection.problem import Fit
from residua.release.base import Release
from residua.workload import Identity
from residua.workload.nested import Hierarchy
from residua.workload.ordered import Prefixes, Ranges

Marginal = Callable[[tuple[int, ...]], Floats]


@dataclass(frozen=True, eq=False)
class FibreProblem(PlainProblem):
    """Projection of releases of fibres in plain squares.

    Args:
        fibres: the plan; `plan` has the same tables, with one noise along the axis.
        Others as for `PlainProblem`.
    """

    fibres: ProductPlan | None = None

    @cached_property
    def _complete(self) -> frozenset[tuple[int, ...]]:
        """The sets of which all values of the axis were asked, by prefixes, ranges or values; not by levels alone."""
        plan = self.fibres
        assert plan is not None
        if plan.workload is None:
            return frozenset(plan.parts)
        asked = [
            {*term} - {plan.attribute}
            for term, _ in terms_of(plan.workload)
            if isinstance(term.get(plan.attribute), Prefixes | Ranges | Identity | Hierarchy)
        ]
        return frozenset(members for members in plan.parts if any({*members} <= each for each in asked))

    def observed(self, release: Release) -> Floats:
        """The residuals of a release's estimated tables, in the order of the problem's layout, (cells,)."""
        names = release.domain.names
        return self._residuals_of(lambda members: release.estimates([names[i] for i in members]))

    def simulated(self, fit: Fit, random: np.random.Generator) -> Floats:
        """What a release of the plan would observe if a fit were the truth."""
        assert self.fibres is not None
        blocks = self.fibres.compile()
        noise = self.fibres.reading(blocks, blocks.simulated(random))
        return self._residuals_of(lambda members: fit.marginal(members) + noise.marginal(members))

    def _residuals_of(self, marginal: Marginal) -> Floats:
        found = np.empty(self.layout.cells)
        for group in self.layout:
            tables = group.view(found)
            for number, members in enumerate(group.members.tolist()):
                tables[number] = centred(self._filled(tuple(members), marginal))
        return found

    def _filled(self, members: tuple[int, ...], marginal: Marginal) -> Floats:
        """A table, each group of which is spread over its values by another where levels alone were asked of it."""
        plan, table = self.fibres, marginal(members)
        assert plan is not None
        short = tuple(j for j in members if j != plan.attribute and int(plan.domain.sizes[j]) > 1)
        if plan.attribute not in members or short not in plan.parts or short in self._complete:
            return table
        place = members.index(plan.attribute)
        starts, lengths = self._groups(short)
        whole = np.moveaxis(table, place, -1)
        sums = np.repeat(np.add.reduceat(whole, starts, axis=-1), lengths, axis=-1)
        return np.moveaxis(sums * self._profile(members, short, starts, lengths, marginal), -1, place)

    def _profile(
        self, members: tuple[int, ...], short: tuple[int, ...], starts: Integers, lengths: Integers, marginal: Marginal
    ) -> Floats:
        """How each group's records lie on its values, by the largest complete table; evenly where it has none."""
        plan = self.fibres
        assert plan is not None
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
        plan = self.fibres
        assert plan is not None
        n, operator = plan.size, plan.parts[short]
        groups = operator.strategy.asked.groups if isinstance(operator, CorrelatedPath) else ()
        starts = np.array(sorted({0, *(g[0] for g in groups), *(g[1] + 1 for g in groups)} - {n}), dtype=np.int64)
        return starts, np.diff(np.append(starts, n))


def with_one_noise(plan: ProductPlan) -> LatticePlan:
    """A plan of the same tables with one noise along the axis: which tables there are, about how precise each is."""
    lattice = plan.blocks.counted.lattice if plan.workload is None else plan.workload.lattice
    paths = {members: each for members, each in plan.parts.items() if isinstance(each, CorrelatedPath)}
    strategies = list[Strategy](Plain(int(n)) for n in plan.domain.sizes)
    strategies[plan.attribute] = next(iter(paths.values())).strategy
    precisions = np.zeros(len(lattice))
    for members, each in plan.parts.items():
        whole = tuple(sorted((*members, plan.attribute))) if members in paths else members
        factor = paths[members].factor if members in paths else float(each.variances(None)[0])
        precisions[int(lattice.find(np.array([whole], dtype=np.int32).reshape(1, -1))[0])] = 1.0 / factor
    return LatticePlan(
        plan.domain, lattice, precisions, plan.guarantee, plan.unit, plan.workload, strategies=tuple(strategies)
    )
