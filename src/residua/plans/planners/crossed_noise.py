"""What no plan can beat where a long axis is crossed with other attributes: in passes along the axis.

Of the attributes that are not axes, those asked by their values alone split by `1` and what sums to 0, right for
all plans; others by the spread vectors of their strategies, right for plans that measure these blocks one by one.
Where families ask different rows of a block's attributes, or several axes are asked, `(tr √·)²` is superadditive.

The noise along each long axis of a workload that crosses it with other attributes, and the game over all blocks.

An axis gets the noise that is best for what is asked along it (`solver/ordered.py`), each family of queries weighed by
what the other attributes make it worth; where the largest variance counts, the noise whose largest variance is least.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from residua.linalg.arrays import Floats, Integers
from residua.linalg.conductances import Network
from residua.linalg.path import Path
from residua.linalg.roots import inverse_root
from residua.plans.objectives import MaxVariance
from residua.plans.operators.correlated import Asked, Ordered
from residua.plans.planners.along import Along, AlongPart, asked_by, kinds_of, nested_largest
from residua.plans.planners.offers import Task
from residua.plans.product.crossed_measurements import tells_of
from residua.plans.solver.attribute import best_cells, weighed_gram
from residua.plans.solver.closed_form import ProductGame, felt
from residua.plans.solver.ordered import least_largest, least_total, spectrum
from residua.plans.strategy import Strategy
from residua.workload import AttributeQueries, Workload

_ERROR = 1e-5


def least_of_all(workload: Workload, strategies: Sequence[Strategy]) -> float:
    """The least total variance × pcost of any plan (of those that measure short blocks one by one), never more."""
    axes = [i for i, strategy in enumerate(strategies) if strategy.tells]
    short = [i for i in range(len(strategies)) if i not in axes]
    traces, dilutions, kinds = _short_facts(workload, strategies, short)
    # Along axes nothing is split: what a family asks there stays with its block of short attributes.
    game = ProductGame(workload, np.ones(len(strategies)), traces**2, dilutions)
    parts = game.importances(workload.weights * workload.cells)  # (families, sets)
    # By sets of short attributes, and what is asked of each: families and their parts, by axes.
    roots: dict[tuple[int, ...], dict[tuple[int, ...], dict[tuple[int, ...], list[tuple[int, float]]]]] = {}
    for number, members in enumerate(workload.lattice):
        along = tuple(i for i in members if i in axes)
        base = tuple(i for i in members if i not in axes)
        for f in np.flatnonzero(parts[:, number] > 0).tolist():
            alike = roots.setdefault(base, {}).setdefault(tuple(kinds[f, list(base)].tolist()), {})
            alike.setdefault(along, []).append((f, float(parts[f, number])))
    bounds = _AlongAxes(workload, strategies, {})
    return sum(math.sqrt(sum(bounds.square(each) for each in several.values())) for several in roots.values()) ** 2


def least_mean(workload: Workload, mass: Floats, scales: Floats, strategies: tuple[Strategy, ...]) -> float:
    """What no plan's largest mean variance / scale × pcost is below, by weights on terms."""
    mass = np.maximum(mass, 1e-12 * mass.max())
    return least_of_all(workload.with_weights(mass / workload.cells), strategies) / float(mass @ scales)


def _short_facts(
    workload: Workload, strategies: Sequence[Strategy], short: Sequence[int]
) -> tuple[Floats, Floats, Integers]:
    """`tr √` of every family's rows of each short attribute, what is left of its total, and a number for its kind."""
    shape = (len(workload.families), len(strategies))
    traces, dilutions, kinds = np.ones(shape), np.zeros(shape), np.zeros(shape, dtype=np.int64)
    known: dict[tuple[int, object], tuple[float, float, int]] = {}
    for f, family in enumerate(workload.families):
        for i in set(short) & set(family.used):
            asked, n = family.queries[i], int(workload.domain.sizes[i])
            if (i, asked) not in known:
                if asked.plain and strategies[i].plain:
                    trace, dilution = 1.0 - 1.0 / n, 1.0 / n**2
                else:
                    V, v = asked.gram() / asked.rows, strategies[i].spread
                    weighed = weighed_gram(V, v, best_cells(V, v, np.full(n, 1.0 / n)))
                    trace = float(np.sqrt(np.maximum(np.linalg.eigvalsh(weighed), 0.0)).sum())
                    dilution = float(v @ V @ v)
                known[i, asked] = (trace, dilution, len(known) + 1)
            traces[f, i], dilutions[f, i], kinds[f, i] = known[i, asked]
    return traces, dilutions, kinds


@dataclass(frozen=True, eq=False)
class _AlongAxes:
    """`tr √` of what is asked along axes, each kind computed once.

    Args:
        workload: what is asked.
        strategies: of all attributes.
        known: what was computed.
    """

    workload: Workload
    strategies: Sequence[Strategy]
    known: dict[tuple[object, ...], float]

    def square(self, by_axes: dict[tuple[int, ...], list[tuple[int, float]]]) -> float:
        """`(tr √·)²` of what families ask of one set of short attributes alike, by axes, at least."""
        bare = sum(value for _, value in by_axes.get((), ()))
        along = {axes: asked for axes, asked in by_axes.items() if axes}
        squares = {axes: self._trace(axes, asked, 0.0) ** 2 for axes, asked in along.items()}
        rest = sum(squares.values())
        # The tables without an axis go with one of them.
        tried = (self._trace(axes, asked, bare) ** 2 + rest - squares[axes] for axes, asked in along.items())
        return max(tried, default=bare)

    def _trace(self, axes: tuple[int, ...], asked: list[tuple[int, float]], bare: float) -> float:
        """`tr √` along one axis of weighted mean Gram matrices and `bare · 11ᵀ`; of several axes the product's."""
        if len(axes) > 1:  # one family's Kronecker product at a time
            squares = [value * math.prod(self._trace((i,), [(f, 1.0)], 0.0) for i in axes) ** 2 for f, value in asked]
            return math.sqrt(sum(squares) + bare)
        (axis,) = axes
        each: dict[AttributeQueries, float] = {}
        for f, value in asked:
            rows = self.workload.families[f].queries[axis]
            if kinds_of(rows) is not None:  # of others nothing is known here, and leaving them out lowers the bound
                each[rows] = each.get(rows, 0.0) + value / rows.rows
        if not each:
            return math.sqrt(bare)
        scale = sum(each.values())
        ratios = [round(math.log(max(weight / scale, 1e-30)), 12) for weight in (bare, *each.values())]
        key = (axis, *each, *ratios)
        if key not in self.known:
            parts = [(kind, weight / scale) for rows, weight in each.items() for kind in kinds_of(rows) or ()]
            strategy = self.strategies[axis]
            assert isinstance(strategy, Ordered)
            self.known[key] = _trace(strategy, asked_by(parts), bare / scale)
        return self.known[key] * math.sqrt(scale)


def _trace(axis: Ordered, asked: Asked, bare: float) -> float:
    """`tr √(Q^½ (G + bare 11ᵀ) Q^½)`, never more than the truth."""
    q, n = axis.q / axis.q.sum(), axis.size
    if asked.prefixes and not asked.ranges and not asked.groups:
        path = asked.path(n)
        return _trace_of(replace(path, right=1 / (1 / path.right + bare)), q)
    if bare:  # the total is a group of all values
        asked = replace(asked, groups=(*asked.groups, (0, n - 1, bare)))
    if not (asked.prefixes or asked.ranges):
        return trace_of_groups(n, asked, q)
    return _trace_of(asked.network(n) if asked.groups else asked.path(n), q)


def _trace_of(queries: Path | Network, q: Floats) -> float:
    root = inverse_root(*spectrum(queries, q), error=_ERROR)
    return float(queries.shares(q, root.poles, root.weights).sum()) / (1 + root.error)


def trace_of_groups(n: int, asked: Asked, q: Floats) -> float:
    """The same where neither prefixes nor ranges are asked: S is singular, and `√` right from its least energy on.

    Below that the rational function is less than the root, and nothing at 0.
    """
    network = asked.network(n)
    sums = np.append(0.0, np.cumsum(q))
    ends = np.array([group[:2] for group in asked.groups], dtype=np.int64).reshape(-1, 2)
    held = np.array([group[2] for group in asked.groups])
    energies = np.append(held * (sums[ends[:, 1] + 1] - sums[ends[:, 0]]), asked.values * float(q.min()))
    least = float(energies[energies > 0].min())
    root = inverse_root(least, max(float(network.gram_diagonal @ q), 2 * least), error=_ERROR)
    return float(network.shares(q, root.poles, root.weights).sum()) / (1 + root.error)


_COARSE = 0.02  # near enough while the worth of queries is still sought
_ROUNDS = 3  # of what is asked along an axis against what the other attributes make it worth


def game_of(workload: Workload, strategies: tuple[Strategy, ...]) -> ProductGame:
    """Our side of the planning game with these strategies, over mean variances of terms."""
    pairs = [
        [strategy.means(asked) if i in family.used else (0.0, 0.0) for i, (strategy, asked) in enumerate(both)]
        for family in workload.families
        for both in [list(zip(strategies, family.queries, strict=True))]
    ]
    means = np.array(pairs)
    shares, dilutions = means[:, :, 0], means[:, :, 1]
    costs = np.array([strategy.cost for strategy in strategies])
    return ProductGame(workload, costs, shares, felt(dilutions, shares), None, tells_of(strategies))


def with_axes(
    task: Task, axes: Sequence[int], short: Sequence[Strategy], kept: Sequence[Strategy | None]
) -> tuple[Strategy, ...]:
    """All strategies, those of the axes chosen for what the others make each kind of query worth."""
    workload, strategies = task.workload, list(short)
    worth = {i: _first_worth(workload, i) for i in axes}
    free = [i for i in axes if kept[i] is None and np.count_nonzero(worth[i]) > 1]
    fine = 0.5 * task.effort.tolerance
    for rounds in range(_ROUNDS if free else 1):
        last = not free or rounds == _ROUNDS - 1
        for i in axes:
            strategies[i] = kept[i] or _best_along(task, i, worth[i], fine if last else max(fine, _COARSE))
        if last:
            break
        game = game_of(workload, tuple(strategies))
        weights = workload.weights * workload.cells
        _, beta = game.balances(weights, game.respond(weights)[0])
        for i in free:
            worth[i] = np.where(worth[i] > 0, np.maximum(beta[:, i], 1e-12 * beta[:, i].max()), 0.0)
    return tuple(strategies)


def _first_worth(workload: Workload, i: int) -> Floats:
    """The weight of each family's queries along an axis, all of them together, (families,)."""
    members, _ = workload.lattice.covers[i]
    each = [(family.weights * family.cells)[np.isin(family.numbers, members)].sum() for family in workload.families]
    return np.array(each, dtype=np.float64)


def _best_along(task: Task, i: int, worth: Floats, tolerance: float) -> Ordered:
    """The noise along an axis that is best for the mean variances of each family's queries, weighted."""
    parts = [
        (kind, each / family.queries[i].rows)
        for family, each in zip(task.workload.families, worth.tolist(), strict=True)
        if each
        for kind in kinds_of(family.queries[i]) or ()
    ]
    largest = max(weight for _, weight in parts)
    asked = asked_by((kind, weight / largest) for kind, weight in parts)
    n = int(task.workload.domain.sizes[i])
    return _costing_one(least_total(n, asked, tolerance=tolerance, step=task.effort.progress).noise)


def _costing_one(noise: Ordered) -> Ordered:
    return replace(noise, weights=noise.weights * float(noise.price))


def with_quiet_axes(
    task: Task, objective: MaxVariance, strategies: tuple[Strategy, ...], kept: Sequence[Strategy | None]
) -> tuple[Strategy, ...]:
    """The strategies, with noise along the axes whose largest variance is least, where no ranges are asked of them."""
    workload = task.workload
    scales, chosen = objective.scales(workload), list(strategies)
    starts = np.cumsum([0, *(len(family) for family in workload.families)])
    tolerance, step = 0.5 * task.effort.tolerance, task.effort.progress
    for i, strategy in enumerate(strategies):
        if not isinstance(strategy, Ordered) or kept[i] is not None:
            continue
        members, _ = workload.lattice.covers[i]
        parts: list[AlongPart] = []
        for number, family in enumerate(workload.families):
            inside = np.isin(family.numbers, members)
            if i in family.used and inside.any():
                scale = float(scales[starts[number] : starts[number + 1]][inside].min())
                parts += [AlongPart(kind, 1.0, number, scale) for kind in kinds_of(family.queries[i]) or ()]
        along = Along(workload.domain.names[i], i, strategy.size, parts)
        if along.kinds == {"prefixes"}:
            chosen[i] = _costing_one(least_largest(strategy.size, tolerance=tolerance, step=step).noise)
        elif "ranges" not in along.kinds and task.unit.contribution is not None:
            chosen[i] = _costing_one(nested_largest(along, tolerance=tolerance, step=step).noise)
    return tuple(chosen)
