"""What a workload asks along one ordered axis: prefixes, ranges, values, and levels whose groups are runs of values.

Noise along it is shaped for that: for all prefixes, ranges and values of a kind, or for nested groups of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from residua.domain import Level
from residua.linalg.arrays import Floats, Integers
from residua.linalg.conductances import AxisNoise
from residua.plans.objectives import MaxVariance, of_queries
from residua.plans.operators.contract import running_rows
from residua.plans.operators.correlated import Asked, terms_of
from residua.plans.planners.offers import Forecast
from residua.plans.saddle import Progress
from residua.plans.solver.ordered import KindScales, Losses, Shaped, least_worst
from residua.plans.targets import Names, part_targets
from residua.workload import AttributeQueries, Workload

SECONDS = 3e-5  # per value: to plan an axis
_SECONDS_NESTED = 2e-4  # with nested groups
_BYTES = 800  # per value: to measure it


class AlongPart(NamedTuple):
    """Queries of one kind along an axis.

    Args:
        asked: the queries.
        weight: how much each matters.
        term: the number of the term that asks for them; a hierarchy is several parts.
        scale: what their variances are divided by, where the largest counts.
    """

    asked: AttributeQueries
    weight: float
    term: int
    scale: float = 1.0


@dataclass(frozen=True, eq=False)
class Along:
    """The queries along an axis, kind by kind.

    Args:
        name: what the axis is called.
        attribute: its position.
        size: how many values it has.
        parts: the queries of each kind.
        means: whether the mean variance of each term counts, not the largest.
    """

    name: str
    attribute: int
    size: int
    parts: Sequence[AlongPart]
    means: bool = False

    @cached_property
    def levels(self) -> list[tuple[Level, float]]:
        """The levels that are asked for, and their weights."""
        return [(level, part.weight) for part in self.parts if (level := part.asked.whole_level) is not None]

    @property
    def asked(self) -> Asked:
        """Prefixes, ranges and values, without levels."""
        return replace(asked_by((part.asked, part.weight) for part in self.parts), groups=())

    @property
    def kinds(self) -> set[str | None]:
        """Which kinds of queries there are."""
        return {part.asked.along for part in self.parts}

    def stand_ins(self) -> list[Asked]:
        """What the noise may be shaped for: all but the levels, or with something like them in their place.

        That is more prefixes and values, or, without ranges, the prefixes that end with a group.
        """
        asked, more = self.asked, self.least_of_levels / self.size
        if not more:
            return [asked]
        assert isinstance(asked.prefixes, float)
        shapes = [asked, replace(asked, values=asked.values + more, prefixes=asked.prefixes + more)]
        if not asked.ranges:
            prefixes = np.full(self.size, asked.prefixes)
            for level, weight in self.levels:
                prefixes[np.flatnonzero(np.diff(np.asarray(level.codes)))] += weight
            shapes.append(replace(asked, prefixes=tuple(prefixes.tolist())))
        return shapes

    @property
    def least_of_levels(self) -> float:
        """What the levels add to a total variance at privacy cost 1, at least: groups do not overlap, so 1 for each."""
        return sum(weight * len(level) for level, weight in self.levels)

    def scaled(self, objective: MaxVariance) -> Along:
        """The same queries with the scales of an objective.

        In a mapping of targets a level's name stands for its groups, the attribute's for all that is not named.

        Raises:
            PlanError: targets that name what is not asked for, or leave something out.
        """
        if objective.targets is None:
            scales = 1.0 / np.array([part.weight for part in self.parts])
        else:
            rows = [part.asked.rows for part in self.parts]
            scales = part_targets(
                objective.targets, len(rows), self._names, lambda: np.repeat(np.arange(len(rows)), rows)
            )
        parts = [part._replace(scale=scale) for part, scale in zip(self.parts, scales.tolist(), strict=True)]
        return replace(self, parts=parts, means=not of_queries(objective))

    def _names(self) -> list[tuple[Names, ...]]:
        """What each part is called in a mapping of targets."""
        named = [(part.asked.kind,) if part.asked.along == "groups" else () for part in self.parts]
        return [(*own, self.name) for own in named]

    @property
    def least_scales(self) -> KindScales:
        """The least scale of prefixes, ranges and values; 0 where none are asked."""
        kinds = ("prefixes", "ranges", "values")
        return KindScales(
            *(min((part.scale for part in self.parts if part.asked.along == kind), default=0.0) for kind in kinds)
        )

    def worst(self, noise: AxisNoise) -> float:
        """The largest variance, or mean variance of a term, over its scale."""
        return self.pull(noise)[0]

    def pull(self, noise: AxisNoise) -> tuple[float, Floats]:
        """The largest variance, or mean variance of a term, over its scale; and the largest at each place.

        A query is at the places where its running sums are, (n,).
        """
        if self.means:
            return self._largest_mean(noise), np.ones(self.size)
        largest, places = 0.0, np.zeros(self.size)
        for asked, *_, scale in self.parts:
            if asked.along == "ranges":  # a bound of the largest; they are everywhere
                largest = max(largest, float(noise.largest_ranges()[0].max()) / scale)
                continue
            ratios = _variances(asked, noise) / scale
            largest = max(largest, float(ratios.max()))
            if asked.along == "prefixes":
                np.maximum(places, ratios, out=places)
            else:
                rows = running_rows(asked)
                np.maximum.at(places, rows.indices, np.repeat(ratios, np.diff(rows.indptr)))
        return largest, places

    def _largest_mean(self, noise: AxisNoise) -> float:
        terms = [part.term for part in self.parts]
        sums = np.bincount(terms, weights=[_sum(part.asked, noise) / part.scale for part in self.parts])
        return float((sums / np.bincount(terms, weights=[part.asked.rows for part in self.parts])).max())


def check_axis(n: int, *, nested: bool = False) -> None:
    """Refuses an axis that is longer than this machine's memory.

    Raises:
        PlanError: it is.
    """
    Forecast(n * (_SECONDS_NESTED if nested else SECONDS), float(n * _BYTES), f"an axis of {n:,} values").check()


def asked_along(workload: Workload) -> Along | None:
    """What is asked along one axis, if that is all that is asked, and prefixes or ranges are among it."""
    if not workload.tabular:
        return None
    members = workload.lattice.used
    if len(members) != 1:
        return None
    (attribute,) = members
    domain = workload.domain
    if domain[domain.names[attribute]].has_other:
        return None
    parts: list[AlongPart] = []
    for number, (asked, weight) in enumerate(terms_of(workload)):
        several = kinds_of(asked[attribute]) if attribute in asked else None
        if several is None:
            return None
        parts += [AlongPart(each, weight, number) for each in several]
    along = Along(domain.names[attribute], attribute, int(domain.sizes[attribute]), parts)
    return along if along.kinds & {"prefixes", "ranges"} else None


def kinds_of(asked: AttributeQueries) -> list[AttributeQueries] | None:
    """Rows along an axis kind by kind: prefixes, ranges, values, levels of runs; None where there are others."""
    parts = list(asked.parts())
    return None if any(part.along is None for part in parts) else parts


def asked_by(parts: Iterable[tuple[AttributeQueries, float]]) -> Asked:
    """What several kinds ask together, each row of a kind with its weight."""
    weights: dict[str | None, float] = {"prefixes": 0.0, "ranges": 0.0, "values": 0.0}
    groups: list[tuple[int, int, float]] = []
    for asked, weight in parts:
        if (level := asked.whole_level) is not None:
            groups += [(*run, weight) for run in runs_of(level)]
        else:
            weights[asked.along] += weight
    return Asked(weights["prefixes"], weights["ranges"], weights["values"], groups=tuple(groups))


def runs_of(level: Level) -> list[tuple[int, int]]:
    """The first and the last value of every group."""
    codes = np.asarray(level.codes)
    ends = np.flatnonzero(np.diff(codes))
    return list(zip([0, *(ends + 1).tolist()], [*ends.tolist(), len(codes) - 1], strict=True))


def _sum(asked: AttributeQueries, noise: AxisNoise) -> float:
    return noise.sum_of_range_variances() if asked.along == "ranges" else float(_variances(asked, noise).sum())


def _variances(asked: AttributeQueries, noise: AxisNoise) -> Floats:
    if asked.along in ("prefixes", "values"):
        return noise.variances()[0 if asked.along == "prefixes" else 1]
    return noise.row_variances(asked.prefix_rows())


# ---- noise


def nested_largest(along: Along, *, tolerance: float, step: Progress | None) -> Shaped:
    """The noise whose largest variance / scale is least, or mean of a term, and a bound that holds for every plan.

    Args:
        along: what is asked; ranges only if means count.
        tolerance: how far from the best, relatively, is near enough.
        step: is told how far it is.
    """
    n, means = along.size, along.means
    runs = [run for level, _ in along.levels for run in runs_of(level)]
    rows = np.bincount([part.term for part in along.parts], weights=[part.asked.rows for part in along.parts])
    queries: list[Integers] = []
    factors: list[Floats] = []
    terms: list[Integers] = []
    group = 2 * n  # the number of the next level's first group
    for asked, _, term, scale in along.parts:
        if asked.along == "groups":
            own, group = np.arange(group, group + asked.rows), group + asked.rows
        elif asked.along == "ranges":
            own = np.array([2 * n + len(runs)])
        else:
            own = np.arange(n) + (0 if asked.along == "prefixes" else n)
        queries.append(own)
        factors.append(np.full(len(own), 1 / (scale * (rows[term] if means else 1))))
        terms.append(np.full(len(own), term))
    every = np.concatenate(terms)
    several = every if means else np.arange(len(every))
    game = Losses(np.concatenate(queries), np.concatenate(factors), several, "ranges" in along.kinds)
    return least_worst(n, runs, game, means=means, tolerance=tolerance, step=step)
