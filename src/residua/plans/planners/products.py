"""Plans for products: strategies for every attribute, rounded to integers, and the best noise on their blocks.

By the strategies of another plan, the two can be combined exactly, over any number of cells.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from residua.errors import GapWarning, PlanError
from residua.linalg.arrays import Floats, Integers
from residua.linalg.lattice import SetFamily
from residua.plans.contract import Plan
from residua.plans.matrix.integers import integer_basis
from residua.plans.noise import LARGEST_SCALE
from residua.plans.objectives import MaxVariance, least_ratio, of_queries, query_loss
from residua.plans.planners.offers import Task, checked_like, finished, relative_gap, sees_too_little
from residua.plans.product.algebra import by_residuals
from residua.plans.product.bounds import class_bound, persons, replaced
from residua.plans.product.plan import ProductPlan
from residua.plans.product.residual_costs import replaced_records, table_prices
from residua.plans.saddle import Solution
from residua.plans.solver.attribute import RealStrategy
from residua.plans.solver.closed_form import ProductGame, Spending, felt
from residua.plans.solver.maxima import Pairs, query_game
from residua.plans.solver.patterns import PatternSpending
from residua.plans.solver.tilting import Design, designed, kinds_of
from residua.plans.strategy import Plain, Rows, Strategy
from residua.plans.tolerances import SUPPORT_TOLERANCE
from residua.plans.verifier import FEWEST_RECORDS, WORD
from residua.workload import AttributeQueries, Workload


def plan_products(task: Task, given: Sequence[Strategy | None] | None = None) -> ProductPlan:
    """A plan of products for a budget, or (without one) for a largest acceptable loss.

    Args:
        task: what the plan is for.
        given: for each attribute a strategy to measure it by, or None to choose one.
    """
    workload = task.workload
    plan = _planned(task, given or [None] * len(workload.domain))
    reach = None if task.by_cells else task.reach
    if given is not None or reach is None or all(plan.strategies[i].plain for i in reach.limits):
        return plan
    # Strategies are chosen for single records. Where persons are limited, tables are cheap: try them as well.
    tables = [Plain(int(n)) if i in reach.limits else None for i, n in enumerate(workload.domain.sizes)]
    return min(plan, _planned(task, tables), key=lambda each: _loss(each, task))


def _loss(plan: ProductPlan, task: Task) -> float:
    """The loss of a plan at a given budget or, without one, what it costs."""
    if task.guarantee is None:
        return plan.unit_pcost
    if of_queries(task.objective):
        return query_loss(task.objective, task.workload).of(plan.variances(task.workload))
    return task.objective.loss(task.workload, plan.variances(task.workload, per="term"))


def _planned(task: Task, kept: Sequence[Strategy | None]) -> ProductPlan:
    """The plan with these strategies kept, and others chosen."""
    workload, sizes, effort = task.workload, task.workload.domain.sizes, task.effort
    design = designed(workload, task.objective, effort, kept, replaced=task.unit.contribution is None)
    game = design.game()
    noise, _, value = game.respond(design.weights)
    ratio = float(task.reach.records if task.reach else 1) ** 2
    shares = np.where(np.isfinite(noise), game.cost / noise, 0.0)
    foreseen = value / task.loss if task.allowed is None else task.allowed / ratio
    bits = column_bits(workload.lattice, sizes, design.strategies, kept, shares, foreseen)
    strategies = integer_strategies(design.strategies, design.kinds, sizes, kept, bits)
    solution, bound = _solved(task, design, strategies)
    if solution.gap > effort.tolerance:
        warnings.warn(
            f"the noise is proven best for its strategies only up to {solution.gap:.2g}; raise limit.",
            GapWarning,
            stacklevel=3,
        )
    plan = of_sets(task, strategies, solution)
    paid = plan.unit_pcost if task.unit.contribution is None else 1.0
    plan = finished(plan.replaced(gap=relative_gap(solution.loss * paid, bound)), task, solution.loss)
    return plan if task.unit.contribution is not None else within_integers(plan)


def within_integers(plan: ProductPlan) -> ProductPlan:
    """The plan with a total that is free so precise that, rounded, it is the number itself: its error is below 0.02.

    Not where a record may be dropped instead, which changes it; and no more precise than whole numbers have room for:
    nothing is proven where it was to be.
    """
    gap = plan.gap if plan.precisions[0] <= _MOST_PRECISE else math.inf
    total = min(max(float(plan.precisions[0]), 0.0 if plan.domain.drops else _EXACT), _MOST_PRECISE)
    return plan.replaced(precisions=np.append(total, plan.precisions[1:]), gap=gap)


def of_sets(task: Task, strategies: tuple[Strategy, ...], solution: Solution) -> ProductPlan:
    """The plan that measures attributes by these strategies with this noise, at privacy cost 1."""
    domain, lattice = task.workload.domain, task.workload.lattice
    return ProductPlan(
        domain=domain, lattice=lattice, precisions=1.0 / solution.plan, strategies=strategies, **task.stated
    )


def _solved(task: Task, design: Design, strategies: tuple[Strategy, ...]) -> tuple[Solution, float]:
    """The best noise for integer strategies at privacy cost 1, and what no plan of their class can beat.

    The cost is that of one record; for persons with limits, the person's. The bound is on what the unit pays.
    """
    workload, sizes = task.workload, task.workload.domain.sizes
    prices = table_prices(task.unit, workload.domain, workload.lattice, strategies)
    spending: Spending | PatternSpending | None = None if prices is None else prices.spending
    if task.unit.contribution is None:
        spending = replaced_records(workload.domain, workload.lattice, strategies)
    facts = facts_of(workload, strategies)
    costs = np.array([strategy.cost for strategy in strategies])
    shares, dilutions = _means(facts, design.rows)
    if not np.isfinite(shares).all():
        name = workload.domain.names[int(np.flatnonzero(~np.isfinite(shares).all(axis=0))[0])]
        raise PlanError(
            f"the rows asked of {name!r} differ in size by more than the numbers of a plan can follow; scale them, or "
            "leave the smallest out."
        )
    game = ProductGame(workload, costs, shares, felt(dilutions, shares), spending)
    solution = best_noise(task, game, lambda: facts)
    weights = design.weights if of_queries(task.objective) else solution.proof
    spreads = [strategy.spread for strategy in strategies]
    cells = [None if real is None else real.cells for real in design.strategies]
    bound = partial(class_bound, workload, weights, dilutions, design.grams, spreads)
    if prices is not None:
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


def best_noise(task: Task, game: ProductGame, facts: Callable[[], list[list[Pairs]]]) -> Solution:
    """The best noise for given strategies at privacy cost 1, and nature's weights on terms."""
    objective = task.objective
    if not isinstance(objective, MaxVariance) or not of_queries(objective):
        return objective.solve(task.workload, game, task.effort)
    queries = query_game(game, [[(d, felt(e, d)) for d, e in row] for row in facts()])
    solution = least_ratio(queries, objective.scales(task.workload)[queries.terms], task.effort)
    solution.proof = np.bincount(queries.terms, weights=solution.proof, minlength=len(task.workload))
    return solution


def facts_of(workload: Workload, strategies: tuple[Strategy, ...]) -> list[list[Pairs]]:
    """The pairs of every row asked of each attribute, for each family, each computed once; 0 of attributes not used."""
    known: dict[tuple[Strategy, object], Pairs] = {}
    facts: list[list[Pairs]] = []
    for family in workload.families:
        row = []
        for i, (strategy, asked) in enumerate(zip(strategies, family.queries, strict=True)):
            key = (strategy, asked)
            if i in family.used and key not in known:
                known[key] = strategy.variances(asked)
            # Another family may ask an attribute in groups, so that the values this one does not ask are not measured.
            row.append(known[key] if i in family.used else (np.zeros(asked.rows), np.zeros(asked.rows)))
        facts.append(row)
    return facts


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
    shared = checked_like(like, "strategies", "a plan of products or marginals", workload.domain)
    lattice = by_residuals(shared) if shared.correlated else shared
    strategies: list[Strategy | None] = []
    for i, strategy in enumerate(lattice.strategies):
        if not lattice.measures(i):
            strategies.append(None)
            continue
        for rows in () if strategy.complete else kinds_of(workload, i):
            if strategy.outside(rows.matrix()).max() > SUPPORT_TOLERANCE:
                raise sees_too_little(repr(workload.domain.names[i]))
        strategies.append(strategy)
    return tuple(strategies)


_EXACT = 2.0**18  # of a total: ten standard deviations are 0.02
_MOST_PRECISE = 2.0**25  # of a total: its measurement has 64 bits
_MOST_BITS = 15.0  # loses a few parts in a million; any two strategies can then be crossed, by a plan like this one
_FEWEST_BITS = 5.0
_MARGIN_BITS = 6.0  # of the noise scale, kept free so that budgets from 2^-12 on are measured on the same integers
_FILLING = 2.0**-7  # of the largest column norm, for directions outside a row space that is not integer
_ACTIVE = 1e-3


def column_bits(
    lattice: SetFamily,
    sizes: Integers,
    strategies: list[RealStrategy | None],
    kept: Sequence[Strategy | None],
    shares: Floats,
    pcost: float,
) -> float:
    """How many bits the column norms of strategies may have that are to be rounded.

    Args:
        lattice: the sets.
        sizes: how many values each attribute has, (attributes,).
        strategies: each attribute's; None for the plain one.
        kept: those that are integers already.
        shares: each block's share of the privacy cost, (sets,).
        pcost: the privacy cost.

    Raises:
        PlanError: too few for a useful strategy: the noise would be beyond what can be sampled exactly.
    """
    plain = np.zeros(len(sizes))
    for i, (n, strategy, given) in enumerate(zip(sizes.tolist(), strategies, kept, strict=True)):
        if given is not None:
            plain[i] = 0.5 * math.log2(max(given.norm, 1))
        elif strategy is None:
            plain[i] = 0.5 * math.log2(n * max(n - 1, 1))
    rounded = np.array([s is not None and g is None for s, g in zip(strategies, kept, strict=True)], dtype=np.float64)
    fixed, count = _sums(lattice, plain), _sums(lattice, rounded)
    spent = 0.5 * math.log2(pcost)  # lower budgets need larger scales
    with np.errstate(divide="ignore"):
        scale = math.log2(LARGEST_SCALE) - 0.5 + spent - fixed + 0.5 * np.log2(shares)
    room = np.minimum(scale, math.log2(WORD / FEWEST_RECORDS) - 0.5 - fixed)
    alone, measured = (shares > 0) & (count == 0), (shares > 0) & (count > 0)
    if any(given is not None for given in kept) and (room[alone] < 0).any():
        raise PlanError(
            "the strategies of like are too fine for so many attributes crossed; plan the sum of the workloads (or the "
            "one that crosses most) first, and then each of them like that."
        )
    if not measured.any():
        return _MOST_BITS
    spare = spent - 0.5 * math.log2(min(pcost, 2.0 ** (-2 * _MARGIN_BITS)))
    room = np.minimum(scale - spare, math.log2(WORD / FEWEST_RECORDS) - 0.5 - fixed)
    bits = float((room[measured] / count[measured]).min())
    if bits < _FEWEST_BITS:
        raise PlanError(
            "so many attributes are crossed at so small a budget that the noise cannot be sampled exactly; "
            "cross fewer attributes, or raise the budget."
        )
    return min(bits, _MOST_BITS)


def integer_strategies(
    strategies: list[RealStrategy | None],
    queries: list[list[AttributeQueries]],
    sizes: Integers,
    kept: Sequence[Strategy | None],
    bits: float,
) -> tuple[Strategy, ...]:
    """Every attribute's strategy as integers with column norms of at most `bits` bits; equal ones are rounded once."""
    known: dict[int, Strategy] = {}
    chosen = []
    for strategy, asked, size, given in zip(strategies, queries, sizes.tolist(), kept, strict=True):
        if given is None and strategy is not None and id(strategy) not in known:
            known[id(strategy)] = _rounded(strategy, asked, 2.0**bits)
        chosen.append(given or known.get(id(strategy)) or Plain(size))
    return tuple(chosen)


def _rounded(strategy: RealStrategy, asked: list[AttributeQueries], norm: float) -> Strategy:
    R = strategy.rows
    r, n = R.shape
    if r == n - 1:
        return Rows(n, _even(np.rint(_rotated(R) * norm).astype(np.int64)))
    if r == 0:
        return Rows(n, np.empty((0, n), dtype=np.int64))
    # A smaller row space must be kept exactly: R = M E with independent integer rows E, and only M is rounded.
    basis = integer_basis(np.vstack([np.ones((1, n)), *(queries.matrix() for queries in asked)]), r + 1)
    if basis is None:
        null = np.linalg.svd(np.vstack([np.ones((1, n)), R]))[2][r + 1 :]
        filled = np.vstack([R * math.sqrt(1.0 - _FILLING**2), null * _FILLING])
        return Rows(n, np.rint(_rotated(filled) * norm).astype(np.int64))
    M = np.linalg.lstsq(basis.T.astype(np.float64), _rotated(R).T, rcond=None)[0].T
    return Rows(n, np.rint(M * norm).astype(np.int64) @ basis)


def _rotated(R: Floats) -> Floats:
    """The same strategy in other coordinates, so that no entry stands out; always the same rotation."""
    Q = np.linalg.qr(np.random.default_rng(len(R)).standard_normal((len(R), len(R))))[0]
    return np.asarray(Q @ R)


def _even(R: Integers) -> Integers:
    """R with the norms of the columns that were nearly the heaviest made equal, by single steps of entries."""
    norms = (R * R).sum(axis=0)
    active = norms >= norms.max() * (1.0 - _ACTIVE) - 4 * math.sqrt(float(norms.max()))
    goal = int(np.median(norms[active]))
    out = R.copy()
    for j in np.flatnonzero(active):
        column = out[:, j]
        for _ in range(64):
            missing = goal - int(column @ column)
            if missing == 0:
                break
            # Stepping an entry x away from 0 adds 2|x| + 1, towards 0 takes off 2|x| − 1.
            sizes = np.abs(column)
            gains = 2 * sizes + 1 if missing > 0 else np.where(sizes > 0, 2 * sizes - 1, 0)
            fitting = np.where(gains <= abs(missing), gains, 0)
            k = int(fitting.argmax())
            if fitting[k] == 0:
                break
            away = 1 if column[k] >= 0 else -1
            column[k] += away if missing > 0 else -away
    return out


def _sums(lattice: SetFamily, values: Floats) -> Floats:
    """`Σ_{i∈S} values[i]` for every S, (sets,)."""
    return np.concatenate([values[level].sum(axis=1) for level in lattice.levels])
