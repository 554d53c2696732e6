"""What a workload asks along one ordered axis: prefixes, ranges, values, and levels whose groups are runs of values.

Plans along one ordered axis with levels beside prefixes: noise that is shaped for their nested groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from residua.domain import Level
from residua.errors import PlanError
from residua.linalg.arrays import Floats, Integers
from residua.linalg.conductances import nesting_of
from residua.linalg.nested_noise import AxisNoise
from residua.linalg.roots import InverseRoot
from residua.plans.objectives import MaxVariance
from residua.plans.operators.correlated import running_rows, terms_of
from residua.plans.operators.shapes import Asked
from residua.plans.saddle import Progress
from residua.plans.solver.ordered import KindScales, least_total
from residua.plans.solver.worst import Losses, least_worst
from residua.plans.targets import listed_targets
from residua.workload import AttributeQueries, Workload


@dataclass(frozen=True, eq=False)
class Along:
    """The queries along an axis, kind by kind.

    Args:
        name: what the axis is called.
        attribute: its position.
        size: how many values it has.
        parts: queries of one kind, their weight, and the number of the term that asks for them; a hierarchy is several.
    """

    name: str
    attribute: int
    size: int
    parts: Sequence[tuple[AttributeQueries, float, int]]

    @cached_property
    def levels(self) -> list[tuple[Level, float]]:
        """The levels that are asked for, and their weights."""
        return [(level, weight) for asked, weight, _ in self.parts if (level := asked.whole_level) is not None]

    @property
    def asked(self) -> Asked:
        """Prefixes, ranges and values, without levels."""
        return replace(self.asked_with_levels, groups=())

    @cached_property
    def asked_with_levels(self) -> Asked:
        """All of it."""
        return asked_by((asked, weight) for asked, weight, _ in self.parts)

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

    def scales(self, objective: MaxVariance, workload: Workload) -> Floats:
        """What the variances of each part are divided by, (parts,).

        In a mapping of targets a level's name stands for its groups, the attribute's for all that is not named.

        Raises:
            PlanError: targets that name what is not asked for, or leave something out.
        """
        targets = objective.targets
        if targets is None or isinstance(targets, int | float | np.number):
            per_term = objective.scales(workload)
            return np.asarray(per_term[[number for *_, number in self.parts]])
        found = self._mapped(targets) if isinstance(targets, Mapping) else self._listed(targets, workload.queries)
        for name, each in zip(self._names, found, strict=True):
            if isinstance(each, bool) or not isinstance(each, int | float) or not 0 < each < np.inf:
                raise PlanError(f"targets: {each!r} for {name!r} is not a positive finite variance; give one.")
        return np.array(found, dtype=np.float64)

    @property
    def _names(self) -> list[str]:
        """What each part is called in a mapping of targets."""
        return [asked.kind if asked.along == "groups" else self.name for asked, *_ in self.parts]

    def _mapped(self, targets: Mapping[Sequence[str], float]) -> list[Any]:
        """The target of each part, by names."""
        given = {(names,) if isinstance(names, str) else tuple(names): each for names, each in targets.items()}
        for listed in given:
            if listed != (self.name,) and listed not in {(name,) for name in self._names}:
                known = ", ".join(dict.fromkeys(self._names))
                raise PlanError(f"targets names {listed!r}, which the workload does not ask for; it asks for {known}.")
        return [given.get((name,), given.get((self.name,))) for name in self._names]

    def _listed(self, targets: Sequence[float] | Floats, queries: int) -> list[float]:
        """The target of each part, from one for each query."""
        ends = np.cumsum([asked.rows for asked, *_ in self.parts])
        found = []
        for name, own in zip(self._names, np.split(listed_targets(targets, queries), ends[:-1]), strict=True):
            if own.min() < own.max():
                raise PlanError(
                    f"targets differ between queries of {name!r}; give all queries of a kind, or of a level, the same "
                    "target."
                )
            found.append(float(own.min()))
        return found

    def least_scales(self, scales: Floats) -> KindScales:
        """The least scale of prefixes, ranges and values."""
        least: dict[str | None, float] = {"prefixes": np.inf, "ranges": np.inf, "values": np.inf}
        for (asked, *_), scale in zip(self.parts, scales.tolist(), strict=True):
            if asked.along in least:
                least[asked.along] = min(least[asked.along], scale)
        return KindScales(*(0.0 if np.isinf(each) else float(each) for each in least.values()))

    def total(self, noise: AxisNoise) -> float:
        """The weighted total variance of all queries."""
        return sum(weight * _mean(asked, noise) * asked.rows for asked, weight, _ in self.parts)

    def pull(self, noise: AxisNoise, scales: Floats, means: bool) -> tuple[float, Floats]:
        """The largest variance, or mean variance of a term, over its scale; and the largest at each place.

        A query is at the places where its running sums are, (n,).
        """
        if means:
            return self._largest_mean(noise, scales), np.ones(self.size)
        largest, places = 0.0, np.zeros(self.size)
        for (asked, *_), scale in zip(self.parts, scales.tolist(), strict=True):
            if asked.along == "ranges":  # a bound of the largest; they are everywhere
                largest = max(largest, float(noise.largest_ranges()[0].max()) / scale)
                continue
            found = _variances(asked, noise) / scale
            largest = max(largest, float(found.max()))
            if asked.along == "prefixes":
                np.maximum(places, found, out=places)
            else:
                rows = running_rows(asked)
                np.maximum.at(places, rows.indices, np.repeat(found, np.diff(rows.indptr)))
        return largest, places

    def _largest_mean(self, noise: AxisNoise, scales: Floats) -> float:
        sums: dict[int, float] = {}
        rows: dict[int, float] = {}
        for (asked, _, number), scale in zip(self.parts, scales.tolist(), strict=True):
            sums[number] = sums.get(number, 0.0) + _mean(asked, noise) * asked.rows / scale
            rows[number] = rows.get(number, 0.0) + asked.rows
        return max(sums[number] / rows[number] for number in sums)


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
    n, parts = int(domain.sizes[attribute]), []
    for number, (asked, weight) in enumerate(terms_of(workload)):
        several = kinds_of(asked[attribute]) if attribute in asked else None
        if several is None:
            return None
        parts += [(each, weight, number) for each in several]
    if not any(asked.along in ("prefixes", "ranges") for asked, *_ in parts):
        return None
    return Along(domain.names[attribute], attribute, n, parts)


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


def _mean(asked: AttributeQueries, noise: AxisNoise) -> float:
    if asked.along == "ranges":
        return noise.sum_of_range_variances() / asked.rows
    return float(_variances(asked, noise).mean())


def _variances(asked: AttributeQueries, noise: AxisNoise) -> Floats:
    if asked.along in ("prefixes", "values"):
        return noise.variances()[0 if asked.along == "prefixes" else 1]
    return noise.row_variances(asked.prefix_rows())


Shaped = tuple[Asked, Floats, InverseRoot, float]  # queries and cells that shape the noise, its poles, and the bound


def nested_total(found: Along, *, tolerance: float, step: Progress | None) -> Shaped:
    """The noise of least total variance; no plan's total variance × pcost is below the bound."""
    asked = found.asked_with_levels
    solution = least_total(asked.network(found.size), tolerance=tolerance, step=step)
    return asked, solution.q, solution.root, solution.bound


def nested_largest(found: Along, scales: Floats, means: bool, *, tolerance: float, step: Progress | None) -> Shaped:
    """The noise whose largest variance / scale is least, or mean of a term; the bound holds for every plan.

    Args:
        found: what is asked; ranges only if means count.
        scales: what the variances of each part are divided by, (parts,).
        means: whether the mean variance of each term counts, not the largest.
        tolerance: how far from the best, relatively, is near enough.
        step: is told how far it is.
    """
    n = found.size
    runs = [run for level, _ in found.levels for run in runs_of(level)]
    nesting = nesting_of(n, runs)
    assert nesting is not None  # levels are declared nested
    rows = np.bincount([term for *_, term in found.parts], weights=[asked.rows for asked, *_ in found.parts])
    queries: list[Integers] = []
    factors: list[Floats] = []
    terms: list[Integers] = []
    group = 2 * n  # the number of the next level's first group
    for (asked, _, term), scale in zip(found.parts, scales.tolist(), strict=True):
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
    ranges = any(asked.along == "ranges" for asked, *_ in found.parts)
    game = Losses(np.concatenate(queries), np.concatenate(factors), every if means else np.arange(len(every)), ranges)
    solution = least_worst(nesting, game, tolerance=tolerance, step=step)
    prefixes = float(solution.prefixes[0]) if means else tuple(solution.prefixes.tolist())
    values, singles = (float(solution.values[0]), ()) if means else (0.0, tuple(solution.values.tolist()))
    groups = tuple((*run, weight) for run, weight in zip(runs, solution.groups.tolist(), strict=True))
    shape = Asked(prefixes, solution.ranges, values, groups=groups, singles=singles)
    return shape, solution.q, solution.root, solution.bound
