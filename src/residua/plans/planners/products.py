"""Plans for products: strategies for every attribute, rounded to integers, and the best noise on their blocks."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from residua.errors import GapWarning, PlanError
from residua.linalg.arrays import Floats
from residua.plans.forms import Task
from residua.plans.lattice.bounds import class_bound
from residua.plans.lattice.plan import LatticePlan
from residua.plans.noise import guarantee_like
from residua.plans.objectives import Effort, MaxVariance, Objective, Scaled, TotalVariance, described
from residua.plans.planners.rounding import column_bits, integer_strategies
from residua.plans.saddle import Solution, least_maximum
from residua.plans.solver.closed_form import ProductGame, felt
from residua.plans.solver.maxima import Pairs, query_game
from residua.plans.solver.tilting import Design, designed
from residua.plans.strategy import Strategy
from residua.privacy import ZCDP, ReplaceOne
from residua.workload import Products

_SLACK = 1.0 - 2.0**-40  # as in `marginals.py`


def plan_products(workload: Products, task: Task, given: Sequence[Strategy | None] | None = None) -> LatticePlan:
    """A plan of products for a budget, or (without one) for a largest acceptable loss.

    Args:
        workload: what is asked, in place of the task's own.
        task: what the plan is for.
        given: for each attribute a strategy to measure it by, or None to choose one.
    """
    objective, unit, effort, loss, allowed = task.objective, task.unit, task.effort, task.loss, task.allowed
    if not isinstance(objective, TotalVariance | MaxVariance):
        raise PlanError(f"{type(objective).__name__} is for marginals; products take TotalVariance or MaxVariance.")
    kept = given or [None] * len(workload.domain)
    design = designed(workload, objective, effort, kept)
    game = design.game()
    noise, _, value = game.respond(design.weights)
    ratio = 1.0 if isinstance(unit, ReplaceOne) else float(unit.scaled(1))
    shares = np.where(np.isfinite(noise), game.cost / noise, 0.0)
    foreseen = value / loss if allowed is None else allowed / ratio
    bits = column_bits(workload.lattice, workload.domain.sizes, design.strategies, kept, shares, foreseen)
    strategies = integer_strategies(design.strategies, design.kinds, workload.domain.sizes, kept, bits)
    solution, bound = _solved(workload, objective, effort, design, strategies)
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
        gap=np.inf if isinstance(unit, ReplaceOne) or bound <= 0 else max(solution.achieved / bound - 1.0, 0.0),
    )
    if made.unit_pcost <= 0:
        raise PlanError("replacing a record changes none of these tables; they can be published without noise.")
    cost = solution.achieved / loss / _SLACK if allowed is None else allowed / made.unit_pcost * _SLACK
    made = replace(made, precisions=made.precisions * cost)
    return made if task.guarantee is not None else replace(made, guarantee=guarantee_like(ZCDP(1.0), made.unit_pcost))


def _solved(
    workload: Products, objective: Objective, effort: Effort, design: Design, strategies: tuple[Strategy, ...]
) -> tuple[Solution, float]:
    """The best noise for integer strategies at privacy cost 1, and what no plan of their class can beat."""
    facts = _facts(workload, strategies)
    costs = np.array([strategy.cost for strategy in strategies])
    shares, dilutions = _means(facts, design.rows)
    if not np.isfinite(shares).all():
        name = workload.domain.names[int(np.flatnonzero(~np.isfinite(shares).all(axis=0))[0])]
        raise PlanError(
            f"the rows asked of {name!r} differ in size by more than the numbers of a plan can follow; scale them, or "
            "leave the smallest out."
        )
    game = ProductGame(workload, costs, shares, felt(dilutions, shares))
    if isinstance(objective, MaxVariance) and objective.over == "queries":
        queries = query_game(workload, [[(d, felt(e, d)) for d, e in row] for row in facts], costs)
        factors = 1.0 / objective.scales(workload)
        scaled = Scaled(factors[queries.terms])
        solution = least_maximum(queries, scaled, len(queries.terms), effort.tolerance, effort.limit, effort.progress)
        weights = design.weights
    else:
        solution = objective.solve(workload, game, effort)
        weights = solution.weights
    spreads = [strategy.spread for strategy in strategies]
    cells = [None if real is None else real.cells for real in design.strategies]
    return solution, class_bound(workload, weights, dilutions, design.grams, spreads, cells)


def _facts(workload: Products, strategies: tuple[Strategy, ...]) -> list[list[Pairs]]:
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
