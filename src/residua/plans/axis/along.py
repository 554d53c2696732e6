"""What a workload asks along one ordered axis: prefixes, ranges, values, and levels whose groups are runs of values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from residua.domain import Level
from residua.linalg.arrays import Floats
from residua.linalg.chain import OrderedNoise
from residua.plans.axis.asked import Asked
from residua.plans.axis.rows import running_rows, terms_of
from residua.plans.axis.runs import level_rows, levels_in, runs_in_order
from residua.plans.questions import Workload
from residua.plans.solver.ordered import Scales
from residua.workload import AttributeQueries, Identity, Marginals, Products
from residua.workload.nested import Hierarchy, LevelRows
from residua.workload.ordered import Prefixes, Ranges

_KINDS = (Prefixes, Ranges, Identity, Hierarchy, LevelRows)


@dataclass(frozen=True, eq=False)
class Along:
    """The queries along an axis, term by term.

    Args:
        attribute: the position of the axis.
        size: how many values it has.
        terms: the queries of each term, and its weight.
    """

    attribute: int
    size: int
    terms: Sequence[tuple[AttributeQueries, float]]

    @cached_property
    def levels(self) -> list[tuple[Level, float]]:
        """The levels that are asked for, and their weights."""
        return [(level, weight) for asked, weight in self.terms for level in levels_in(asked) or ()]

    @property
    def asked(self) -> Asked:
        """Prefixes, ranges and values, without levels."""
        found = {Prefixes: 0.0, Ranges: 0.0, Identity: 0.0}
        for asked, weight in self.terms:
            kind = Identity if isinstance(asked, Hierarchy) else type(asked)
            if kind in found:
                found[kind] += weight
        return Asked(found[Prefixes], found[Ranges], found[Identity])

    def stand_ins(self) -> list[Asked]:
        """What the noise may be shaped for: all but the levels, or with something like them in their place.

        That is more prefixes and values, or, without ranges, the prefixes that end with a group.
        """
        asked, more = self.asked, self.least_of_levels / self.size
        if not more:
            return [asked]
        assert isinstance(asked.prefixes, float)
        found = [asked, replace(asked, values=asked.values + more, prefixes=asked.prefixes + more)]
        if not asked.ranges:
            prefixes = np.full(self.size, asked.prefixes)
            for level, weight in self.levels:
                prefixes[np.flatnonzero(np.diff(np.asarray(level.codes)))] += weight
            found.append(replace(asked, prefixes=tuple(prefixes.tolist())))
        return found

    @property
    def least_of_levels(self) -> float:
        """What the levels add to a total variance at privacy cost 1, at least: groups do not overlap, so 1 for each."""
        return sum(weight * len(level) for level, weight in self.levels)

    def scales(self, scales: Floats) -> Scales:
        """What the variances of each kind are divided by, the least where there are several terms of one kind."""
        found = {Prefixes: np.inf, Ranges: np.inf, Identity: np.inf}
        for (asked, _), scale in zip(self.terms, scales.tolist(), strict=True):
            kind = Identity if isinstance(asked, Hierarchy) else type(asked)
            if kind in found:
                found[kind] = min(found[kind], scale)
        return Scales(*(0.0 if np.isinf(each) else float(each) for each in found.values()))

    def total(self, noise: OrderedNoise) -> float:
        """The weighted total variance of all queries."""
        return sum(weight * _mean(asked, noise) * asked.rows for asked, weight in self.terms)

    def pull(self, noise: OrderedNoise, scales: Floats, means: bool) -> tuple[float, Floats]:
        """The largest variance, or mean variance of a term, over the scale of its term; and the largest at each place.

        A query is at the places where its running sums are, (n,).
        """
        largest, places = 0.0, np.zeros(self.size)
        for (asked, _), scale in zip(self.terms, scales.tolist(), strict=True):
            if means:
                largest = max(largest, _mean(asked, noise) / scale)
                continue
            found = _variances(asked, noise) / scale
            largest = max(largest, float(found.max()))
            if isinstance(asked, Prefixes):
                np.maximum(places, found, out=places)
            else:
                rows = running_rows(asked)
                np.maximum.at(places, rows.indices, np.repeat(found, np.diff(rows.indptr)))
        return largest, places


def asked_along(workload: Workload) -> Along | None:
    """What is asked along one axis, if that is all that is asked, and prefixes or ranges are among it."""
    if not isinstance(workload, Products | Marginals):
        return None
    members = {i for row in workload.lattice for i in row}
    if len(members) != 1:
        return None
    (attribute,) = members
    domain = workload.domain
    if domain[domain.names[attribute]].has_other:
        return None
    terms = []
    for asked, weight in terms_of(workload):
        along = asked.get(attribute)
        if not isinstance(along, _KINDS) or not all(map(runs_in_order, levels_in(along) or ())):
            return None
        terms.append((along, weight))
    if not any(isinstance(asked, Prefixes | Ranges) for asked, _ in terms):
        return None
    return Along(attribute, int(domain.sizes[attribute]), terms)


def _mean(asked: AttributeQueries, noise: OrderedNoise) -> float:
    if isinstance(asked, Ranges):
        return noise.sum_of_range_variances() / asked.rows
    return float(_variances(asked, noise).mean())


def _variances(asked: AttributeQueries, noise: OrderedNoise) -> Floats:
    if isinstance(asked, Prefixes):
        return noise.variances()[0]
    if isinstance(asked, Identity):
        return noise.variances()[1]
    assert isinstance(asked, Hierarchy | LevelRows)
    return noise.row_variances(level_rows(asked))
