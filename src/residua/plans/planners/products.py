"""Plans for products: strategies for every attribute, rounded to integers, and the best noise on their blocks.

By the strategies of another plan, the two can be combined exactly, over any number of cells.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import partial

import numpy as np

from residua.errors import GapWarning, PlanError
from residua.linalg.arrays import Floats
from residua.plans.contract import Plan
from residua.plans.lattice.algebra import lattice_of
from residua.plans.lattice.bounds import class_bound, persons, replaced
from residua.plans.lattice.contribution import table_prices
from residua.plans.lattice.plan import LatticePlan
from residua.plans.objectives import MaxVariance, Scaled, check_objective, described
from residua.plans.persons import by_cells, most_records, reach_of
from residua.plans.planners.ending import finished, relative_gap
from residua.plans.planners.offers import Task
from residua.plans.planners.rounding import column_bits, integer_strategies
from residua.plans.saddle import Solution, least_maximum
from residua.plans.solver.closed_form import ProductGame, felt
from residua.plans.solver.maxima import Pairs, query_game
from residua.plans.solver.tilting import Design, designed, kinds_of
from residua.plans.strategy import Plain, Strategy
from residua.plans.tolerances import SUPPORT_TOLERANCE
from residua.workload import Workload


def plan_products(workload: Workload, task: Task, given: Sequence[Strategy | None] | None = None) -> LatticePlan:
    """A plan of products for a budget, or (without one) for a largest acceptable loss.

    Args:
        workload: what is asked, in place of the task's own.
        task: what the plan is for.
        given: for each attribute a strategy to measure it by, or None to choose one.
    """
    check_objective(task.objective, workload, laplace=False, matrix=False)
    made = _planned(workload, task, given or [None] * len(workload.domain))
    reach = None if by_cells(task.unit) else reach_of(task.unit, workload.domain.names, workload.domain.sizes)
    if given is not None or reach is None or all(made.strategies[i].plain for i in reach.limits):
        return made
    # Strategies are chosen for single records. Where persons are limited, tables are cheap: try them as well.
    tables = [Plain(int(n)) if i in reach.limits else None for i, n in enumerate(workload.domain.sizes)]
    other = _planned(workload, task, tables)
    return min(made, other, key=lambda plan: _loss(plan, workload, task))


def _loss(plan: LatticePlan, workload: Workload, task: Task) -> float:
    """The loss of a plan at a given budget or, without one, what it costs."""
    if task.guarantee is None:
        return plan.unit_pcost
    if isinstance(task.objective, MaxVariance) and task.objective.over == "queries":
        scales = np.repeat(task.objective.scales(workload), workload.cells.astype(np.int64))
        return float((plan.variances(workload) / scales).max())
    return task.objective.loss(workload, plan.variances(workload, per="term"))


def _planned(workload: Workload, task: Task, kept: Sequence[Strategy | None]) -> LatticePlan:
    """The plan with these strategies kept, and others chosen."""
    objective, unit, effort, loss, allowed = task.objective, task.unit, task.effort, task.loss, task.allowed
    design = designed(workload, objective, effort, kept)
    game = design.game()
    noise, _, value = game.respond(design.weights)
    ratio = float(most_records(unit, workload.domain.names, workload.domain.sizes) or 1) ** 2
    shares = np.where(np.isfinite(noise), game.cost / noise, 0.0)
    foreseen = value / loss if allowed is None else allowed / ratio
    bits = column_bits(workload.lattice, workload.domain.sizes, design.strategies, kept, shares, foreseen)
    strategies = integer_strategies(design.strategies, design.kinds, workload.domain.sizes, kept, bits)
    solution, bound = _solved(workload, task, design, strategies)
    if solution.gap > effort.tolerance:
        warnings.warn(
            f"the noise is proven best for its strategies only up to {solution.gap:.2g}; raise limit.",
            GapWarning,
            stacklevel=3,
        )
    made = LatticePlan(
        domain=workload.domain,
        lattice=workload.lattice,
        precisions=1.0 / solution.noise,
        strategies=strategies,
        guarantee=task.guarantee,
        unit=unit,
        workload=workload,
        objective=described(objective),
    )
    paid = made.unit_pcost if unit.contribution is None else 1.0
    made = made.replaced(gap=relative_gap(solution.achieved * paid, bound))
    return finished(made, task, solution.achieved)


def _solved(workload: Workload, task: Task, design: Design, strategies: tuple[Strategy, ...]) -> tuple[Solution, float]:
    """The best noise for integer strategies at privacy cost 1, and what no plan of their class can beat.

    The cost is that of one record; for persons with limits, the person's. The bound is on what the unit pays.
    """
    objective, effort = task.objective, task.effort
    prices = table_prices(task.unit, workload.domain, workload.lattice, strategies)
    spending = None if prices is None else prices.spending
    facts = _facts(workload, strategies)
    costs = np.array([strategy.cost for strategy in strategies])
    shares, dilutions = _means(facts, design.rows)
    if not np.isfinite(shares).all():
        name = workload.domain.names[int(np.flatnonzero(~np.isfinite(shares).all(axis=0))[0])]
        raise PlanError(
            f"the rows asked of {name!r} differ in size by more than the numbers of a plan can follow; scale them, or "
            "leave the smallest out."
        )
    game = ProductGame(workload, costs, shares, felt(dilutions, shares), spending)
    if isinstance(objective, MaxVariance) and objective.over == "queries":
        queries = query_game(workload, [[(d, felt(e, d)) for d, e in row] for row in facts], costs, spending)
        factors = 1.0 / objective.scales(workload)
        scaled = Scaled(factors[queries.terms])
        solution = least_maximum(queries, scaled, len(queries.terms), effort.tolerance, effort.limit, effort.progress)
        weights = design.weights
    else:
        solution = objective.solve(workload, game, effort)
        weights = solution.weights
    spreads = [strategy.spread for strategy in strategies]
    cells = [None if real is None else real.cells for real in design.strategies]
    bound = partial(class_bound, workload, weights, dilutions, design.grams, spreads)
    if prices is not None:
        sizes = workload.domain.sizes
        even = [
            np.full(int(sizes[i]), 1.0 / sizes[i]) if q is not None and i in prices.reach.limits else q
            for i, q in enumerate(cells)
        ]
        plain = all(strategies[i].plain for i in prices.reach.limits)
        some = persons(workload.lattice, sizes, prices.reach, plain=plain)
        return solution, max(bound(even, paid) for paid in some)
    if task.unit.contribution is None:
        return solution, bound(cells, replaced(workload.lattice), replacing=True)
    return solution, bound(cells)


def _facts(workload: Workload, strategies: tuple[Strategy, ...]) -> list[list[Pairs]]:
    """The pairs of every row asked of each attribute, for each family, each computed once; 0 of attributes not used."""
    known: dict[tuple[Strategy, object], Pairs] = {}
    found: list[list[Pairs]] = []
    for family in workload.families:
        row = []
        for i, (strategy, asked) in enumerate(zip(strategies, family.queries, strict=True)):
            key = (strategy, asked)
            if i in family.used and key not in known:
                known[key] = strategy.variances(asked)
            # Another family may ask an attribute in groups, so that the values this one does not ask are not measured.
            row.append(known[key] if i in family.used else (np.zeros(asked.rows), np.zeros(asked.rows)))
        found.append(row)
    return found


def _means(facts: list[list[Pairs]], rows: list[list[Floats | None]]) -> tuple[Floats, Floats]:
    """The means of both parts of the pairs, rows weighed as the design weighs them, (families, attributes) each."""
    means = [
        [
            [float(part.mean()) if p is None else float(p @ part) for part in pair]
            for pair, p in zip(pairs, weights, strict=True)
        ]
        for pairs, weights in zip(facts, rows, strict=True)
    ]
    both = np.array(means)
    return both[:, :, 0], both[:, :, 1]


def like_strategies(like: Plan, workload: Workload) -> tuple[Strategy | None, ...]:
    """For each attribute the strategy that `like` measures it by; None where it measures nothing of it.

    Raises:
        PlanError: no plan of products or marginals, another domain, or a strategy that sees too little of an attribute.
    """
    if like.correlated:
        like = lattice_of(like)
    if not isinstance(like, LatticePlan):
        raise PlanError(f"like={like!r} is not a plan of products or marginals; only those share strategies.")
    if like.domain != workload.domain:
        raise PlanError("like is a plan over another domain; plan over one domain.")
    asked = workload
    found: list[Strategy | None] = []
    for i, strategy in enumerate(like.strategies):
        if not like.measures(i):
            found.append(None)
            continue
        for rows in () if strategy.complete else kinds_of(asked, i):
            if strategy.outside(rows.matrix()).max() > SUPPORT_TOLERANCE:
                raise PlanError(
                    f"like sees too little of {like.domain.names[i]!r} for what is asked of it here; plan the sum of "
                    "the workloads first, and then each of them like that."
                )
        found.append(strategy)
    return tuple(found)
