"""The noise along each long axis of a workload that crosses it with other attributes, and the game over all blocks.

An axis gets the noise that is best for what is asked along it (`solver/ordered.py`), each family of queries weighed by
what the other attributes make it worth; where the largest variance counts, the noise whose largest variance is least.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from residua.linalg.arrays import Floats
from residua.linalg.roots import InverseRoot
from residua.plans.lattice.totals import tells_of
from residua.plans.objectives import MaxVariance
from residua.plans.operators.correlated import Ordered
from residua.plans.operators.shapes import Asked
from residua.plans.planners.along import Along, asked_by, kinds_of
from residua.plans.planners.nested import nested_largest
from residua.plans.planners.offers import Task
from residua.plans.solver.closed_form import felt
from residua.plans.solver.ordered import least_largest, least_total
from residua.plans.solver.totals import TellingGame
from residua.plans.strategy import Strategy
from residua.workload import Workload

_COARSE = 0.02  # near enough while the worth of queries is still sought
_ROUNDS = 3  # of what is asked along an axis against what the other attributes make it worth


def game_of(workload: Workload, strategies: tuple[Strategy, ...]) -> TellingGame:
    """Our side of the planning game with these strategies, over mean variances of terms."""
    pairs = [
        [strategy.means(asked) if i in family.used else (0.0, 0.0) for i, (strategy, asked) in enumerate(both)]
        for family in workload.families
        for both in [list(zip(strategies, family.queries, strict=True))]
    ]
    found = np.array(pairs)
    shares, dilutions = found[:, :, 0], found[:, :, 1]
    costs = np.array([strategy.cost for strategy in strategies])
    return TellingGame(workload, costs, shares, felt(dilutions, shares), None, tells_of(strategies))


def with_axes(
    workload: Workload, task: Task, axes: Sequence[int], short: Sequence[Strategy], kept: Sequence[Strategy | None]
) -> tuple[Strategy, ...]:
    """All strategies, those of the axes chosen for what the others make each kind of query worth."""
    strategies = list(short)
    worth = {i: _first_worth(workload, i) for i in axes}
    free = [i for i in axes if kept[i] is None and np.count_nonzero(worth[i]) > 1]
    fine = 0.5 * task.effort.tolerance
    for rounds in range(_ROUNDS if free else 1):
        last = not free or rounds == _ROUNDS - 1
        for i in axes:
            strategies[i] = kept[i] or _best_along(workload, task, i, worth[i], fine if last else max(fine, _COARSE))
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
    sums = []
    for family in workload.families:
        members, _ = family.lattice.covers[i]
        inside = np.isin(family.numbers, members)
        sums.append(float((family.weights * family.cells)[inside].sum()))
    return np.array(sums)


def _best_along(workload: Workload, task: Task, i: int, worth: Floats, tolerance: float) -> Ordered:
    """The noise along an axis that is best for the mean variances of each family's queries, weighted."""
    parts = [
        (kind, each / family.queries[i].rows)
        for family, each in zip(workload.families, worth.tolist(), strict=True)
        if each
        for kind in kinds_of(family.queries[i]) or ()
    ]
    largest = max(weight for _, weight in parts)
    asked = asked_by((kind, weight / largest) for kind, weight in parts)
    n = int(workload.domain.sizes[i])
    queries = asked.network(n) if asked.is_nested else asked.path(n)
    solution = least_total(queries, tolerance=tolerance, step=task.effort.progress)
    return _costing_one(n, asked, solution.q, solution.root)


def _costing_one(n: int, asked: Asked, q: Floats, root: InverseRoot) -> Ordered:
    q = q.astype(np.float32).astype(np.float64)  # seven digits are plenty, and half the file
    made = Ordered(n, asked, q, root.poles, root.weights)
    return replace(made, weights=made.weights * float(made.price))


def with_quiet_axes(
    workload: Workload,
    task: Task,
    objective: MaxVariance,
    strategies: tuple[Strategy, ...],
    kept: Sequence[Strategy | None],
) -> tuple[Strategy, ...]:
    """The strategies, with noise along the axes whose largest variance is least, where no ranges are asked of them."""
    scales, found = objective.scales(workload), list(strategies)
    starts = np.cumsum([0, *(len(family) for family in workload.families)])
    tolerance, step = 0.5 * task.effort.tolerance, task.effort.progress
    for i, strategy in enumerate(strategies):
        if not isinstance(strategy, Ordered) or kept[i] is not None:
            continue
        members, _ = workload.lattice.covers[i]
        parts, wanted = [], []
        for number, family in enumerate(workload.families):
            inside = np.isin(family.numbers, members)
            if i in family.used and inside.any():
                kinds = kinds_of(family.queries[i]) or []
                parts += [(kind, 1.0, number) for kind in kinds]
                wanted += [float(scales[starts[number] : starts[number + 1]][inside].min())] * len(kinds)
        if {kind.along for kind, *_ in parts} == {"prefixes"}:
            quiet = least_largest(strategy.size, tolerance=tolerance, step=step)
            asked = Asked(prefixes=tuple(quiet.weights.tolist()))
            found[i] = _costing_one(strategy.size, asked, quiet.q, quiet.root)
        elif not any(kind.along == "ranges" for kind, *_ in parts) and task.unit.contribution is not None:
            along = Along(workload.domain.names[i], i, strategy.size, parts)
            asked, q, root, _ = nested_largest(along, np.array(wanted), False, tolerance=tolerance, step=step)
            found[i] = _costing_one(strategy.size, asked, q, root)
    return tuple(found)
