"""Mechanisms that people use today, as plans at a budget, to compare the best plans with.

The templates of the high-dimensional matrix mechanism (HDMM), from its paper's description, as plans.

*Marginals* (OPT_M): independent noise on whole marginals, each with its own precision; all 2^d of them may be measured
where they are few, else those below what is asked. With normal noise the best precisions are a convex problem, which
is solved; with Laplace noise they are searched for, and `rs.plan` is this template.

*Kronecker* (OPT_⊗): one strategy per attribute, crossed. The loss of a term is a product over attributes, so that they
are optimised in turn, each against what the others make of the queries.

Reference: McKenna, Miklau, Hay and Machanavajjhala (2018), "Optimizing error of high-dimensional statistical queries",
§6.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from residua.errors import PlanError, named
from residua.linalg.arrays import Floats
from residua.linalg.lattice import closure
from residua.plans.contract import Plan
from residua.plans.estimator import require_workload
from residua.plans.objectives import MaxVariance
from residua.plans.planners.matrix import given_noise
from residua.plans.planners.offers import Task
from residua.plans.planners.plan import independent, plan
from residua.plans.product.plan import ProductPlan
from residua.plans.search.search import identity_plus
from residua.plans.search.strategies import Judged, haar as haar_matrix, hierarchy, rotated
from residua.plans.solver.closed_form import MarginalGame, Spending
from residua.plans.solver.queries import MatrixQueries, to_matrix
from residua.plans.solver.solve import least_total
from residua.plans.targets import Targets
from residua.plans.tolerances import BUDGET_SLACK
from residua.privacy import AddRemove, Guarantee, PureDP, Unit
from residua.workload import Workload

MOST_BASELINE_CELLS = 4096
BRANCHINGS = range(2, 17)
_RECORD = AddRemove()
_FINE = 1e-6


@dataclass(frozen=True)
class Comparison:
    """One plan's figures beside others at the same budget.

    Args:
        name: what it is.
        plan: the plan itself.
        max_ratio: its largest variance over target.
        rmse: its root mean square error over all queries.
        pcost_for_targets: the privacy cost (with Laplace noise: epsilon squared) at which it would meet every target.
    """

    name: str
    plan: Plan
    max_ratio: float
    rmse: float
    pcost_for_targets: float


def on_cells(workload: Workload, guarantee: Guarantee, *, unit: Unit = _RECORD) -> Plan:
    """Independent noise on every cell, from which all queries are added up.

    Noise on every query instead is `rs.independent`.

    Args:
        workload: what is asked, over at most 4,096 cells.
        guarantee: the budget.
        unit: whom it protects.
    """
    listed = _listed(workload)
    return _measured(listed, guarantee, unit, np.eye(listed.matrix.shape[1]), "identity")


def hierarchical(
    workload: Workload, guarantee: Guarantee, branching: int | None = None, *, unit: Unit = _RECORD
) -> Plan:
    """Independent noise on every node of a tree over the cells in their order, all levels alike.

    Args:
        workload: what is asked, over at most 4,096 cells.
        guarantee: the budget.
        branching: how many children each node has; the best of 2 to 16 if left out.
        unit: whom the budget protects.

    Reference: matrix-mechanism, §6 (`H_n`); fitness-for-use, §7 (HM).
    """
    listed = _listed(workload)
    n = listed.matrix.shape[1]
    if branching is not None and (isinstance(branching, bool) or not isinstance(branching, int) or branching < 2):
        raise PlanError(
            f"branching={named(branching)} is not a whole number of children; use one from 2, or leave it out."
        )
    if branching is None:
        judged = Judged(MatrixQueries(to_matrix(listed.matrix)), False)
        power = 2 if isinstance(guarantee, PureDP) else 1  # of the levels: every cell is in one node of each
        trees = {b: hierarchy(n, b) for b in BRANCHINGS[: max(n - 1, 1)]}
        losses = {b: tree.sum(axis=0).max() ** power * judged.profile_loss(tree.T @ tree) for b, tree in trees.items()}
        branching = min(losses, key=losses.__getitem__)
    name = f"hierarchical, branching {branching}"
    return _measured(listed, guarantee, unit, hierarchy(n, branching), name)


def haar(workload: Workload, guarantee: Guarantee, *, unit: Unit = _RECORD) -> Plan:
    """Independent noise on every coefficient of the Haar wavelet over the cells in their order.

    Args:
        workload: what is asked, over at most 4,096 cells.
        guarantee: the budget.
        unit: whom it protects.

    Reference: matrix-mechanism, §6 (`Y_n`).
    """
    listed = _listed(workload)
    return _measured(listed, guarantee, unit, haar_matrix(listed.matrix.shape[1]), "Haar wavelet")


def regularised(workload: Workload, guarantee: Guarantee, regulariser: float = 1e-3, *, unit: Unit = _RECORD) -> Plan:
    """The least total error of the queries and, with a small weight, of every cell: what papers run as "CA".

    Args:
        workload: what is asked, over at most 4,096 cells.
        guarantee: the budget; with Laplace noise the strategy has the error profile that is best for normal noise.
        regulariser: the weight of each cell, as a share of the mean diagonal of `WᵀW`.
        unit: whom the budget protects.

    Reference: fitness-for-use, §7 (CA).
    """
    if isinstance(regulariser, bool) or not isinstance(regulariser, int | float) or not 0 < regulariser < math.inf:
        raise PlanError(f"regulariser={named(regulariser)} is not a positive number; rs.plan has none.")
    listed = _listed(workload)
    gram = np.asarray((listed.matrix.T @ listed.matrix).todense(), dtype=np.float64)
    gram += regulariser * np.trace(gram) / len(gram) * np.eye(len(gram))
    best = least_total(np.linalg.cholesky(gram).T, tolerance=_FINE)
    strategy = rotated(best.strategy, rounds=0) if isinstance(guarantee, PureDP) else best.strategy
    return _measured(listed, guarantee, unit, strategy, f"least total error, regulariser {regulariser:g}")


def baselines(workload: Workload, guarantee: Guarantee, *, unit: Unit = _RECORD) -> dict[str, Plan]:
    """What people use today, as plans at a budget: noise on queries, on cells, on a tree, on the Haar wavelet.

    The last three are made for explicit queries over at most 4,096 cells; marginals have HDMM's template beside
    independent noise.

    Example:
        >>> import residua as rs, numpy as np
        >>> domain = rs.Domain({"x": rs.Integers(0, 31)})
        >>> sorted(baselines(rs.explicit(domain, np.tril(np.ones((32, 32)))), rs.GDP(mu=1.0)))
        ['Haar wavelet', 'hierarchical, branching 3', 'identity', 'independent noise']
    """
    plans = [independent(workload, guarantee, unit=unit)]
    if workload.plain:
        if isinstance(unit, AddRemove):
            plans.append(marginal_template(workload, guarantee, unit=unit))
    elif workload.matrix.shape[1] <= MOST_BASELINE_CELLS:
        plans += [make(workload, guarantee, unit=unit) for make in (on_cells, hierarchical, haar)]
    return {each.objective: each for each in plans}


def compare(
    workload: Workload, guarantee: Guarantee, targets: Targets | None = None, *, unit: Unit = _RECORD
) -> list[Comparison]:
    """Baselines, least total variance and fitness for use, side by side at one budget.

    Args:
        workload: what is asked.
        guarantee: the budget all of them spend.
        targets: target variances; 1/weight of each query if left out.
        unit: whom the budget protects.
    """
    plans = baselines(workload, guarantee, unit=unit)
    plans["least total variance"] = plan(workload, guarantee, unit=unit)
    plans["fitness for use"] = plan(workload, guarantee, minimise=MaxVariance(targets), unit=unit)
    return [_compared(name, each, workload, targets) for name, each in plans.items()]


def _compared(name: str, compared: Plan, workload: Workload, targets: Targets | None) -> Comparison:
    variances = compared.variances(workload, per="term")
    ratio = float((variances / MaxVariance(targets).scales(workload)).max())
    rmse = math.sqrt(float(np.average(variances, weights=workload.cells)))
    return Comparison(name, compared, ratio, rmse, compared.unit_pcost * ratio)


def _listed(workload: Workload) -> Workload:
    """The workload query by query.

    Raises:
        PlanError: too many cells for a strategy over all of them.
    """
    cells = math.prod(require_workload(workload).shape)
    if cells > MOST_BASELINE_CELLS:
        raise PlanError(
            f"this baseline measures a matrix over all {cells:,} cells, and {MOST_BASELINE_CELLS:,} are the most; "
            "ask about fewer attributes, or use rs.independent."
        )
    return workload.listed()


def _measured(workload: Workload, guarantee: Guarantee, unit: Unit, strategy: Floats, name: str) -> Plan:
    task = Task(workload, guarantee, unit=unit, laplace=isinstance(guarantee, PureDP))
    return given_noise(task, strategy, np.arange(workload.matrix.shape[1]), name)


MOST_SETS = 2**15  # of a lattice of all marginals
MOST_CELLS = 4096
_ROUNDS, _SETTLED = 50, 1e-6


def marginal_template(workload: Workload, guarantee: Guarantee, *, unit: Unit = _RECORD) -> Plan:
    """HDMM's marginal template at its least total variance: independent noise on marginals, none of it correlated.

    Args:
        workload: marginals, by `rs.marginals`.
        guarantee: the budget.
        unit: one record added or removed.

    Example:
        >>> import residua as rs
        >>> asked = rs.marginals(rs.Domain.of_sizes([10] * 4), ways=range(4))
        >>> plans = marginal_template(asked, rs.GDP(mu=1.0)), rs.plan(asked, rs.GDP(mu=1.0))
        >>> [round((plan.total_variance(asked) / asked.queries) ** 0.5, 3) for plan in plans]
        [2.346, 2.346]
    """
    if not require_workload(workload).plain or not isinstance(unit, AddRemove):
        raise PlanError("the marginal template is for marginals, and records added or removed; see rs.plan for others.")
    if isinstance(guarantee, PureDP):
        return plan(workload, guarantee, unit=unit).replaced(objective="marginal template")
    domain, below = workload.domain, workload.lattice
    used = sorted(below.used)
    lattice = closure([np.array([used], dtype=np.int32)], len(domain)) if 2 ** len(used) <= MOST_SETS else below
    numbers = np.concatenate([lattice.find(level) for level in below.levels])
    game = MarginalGame(lattice, domain.sizes, numbers[workload.numbers])
    spending = Spending(lattice, 1.0 / domain.sizes, np.ones(len(lattice)))
    masses = workload.weights * workload.cells
    noise, _, _ = spending.respond(game.cost * game.importance(masses))
    task = Task(workload, guarantee, unit=unit)
    assert task.allowed is not None
    best = ProductPlan(domain=domain, lattice=below, precisions=1.0 / noise[numbers], gap=math.inf, **task.stated)
    # What is measured in whole tables costs one record 1; its residuals alone may cost less.
    return best.scaled(task.allowed * BUDGET_SLACK / float(unit.scaled(1))).replaced(objective="marginal template")


def kronecker_template(workload: Workload, guarantee: Guarantee, *, unit: Unit = _RECORD) -> Plan:
    """HDMM's Kronecker template: one strategy per attribute, optimised in turn for the least total variance.

    Args:
        workload: marginals or products, over at most 4,096 cells.
        guarantee: the budget; with normal noise every attribute's strategy is the best against the others', with
            Laplace noise the best found.
        unit: whom the budget protects.
    """
    if not require_workload(workload).tabular or math.prod(workload.shape) > MOST_CELLS:
        raise PlanError(
            f"the Kronecker template is for marginals and products over at most {MOST_CELLS:,} cells; "
            "ask about fewer attributes."
        )
    laplace = isinstance(guarantee, PureDP)
    grams, sizes, weights = _grams(workload), workload.shape, workload.weights
    strategies = [np.eye(n) for n in sizes]
    last = math.inf
    for _ in range(_ROUNDS):
        for i in range(len(sizes)):
            others = np.array(
                [math.prod(_loss(strategies[j], term[j]) for j in range(len(sizes)) if j != i) for term in grams]
            )
            gram = np.einsum("t,tjk->jk", weights * others, np.array([term[i] for term in grams]))
            strategies[i] = _best(gram, laplace)
        loss = sum(w * math.prod(map(_loss, strategies, term)) for w, term in zip(weights, grams, strict=True))
        if loss >= last * (1 - _SETTLED):
            break
        last = float(loss)
    listed = workload.listed()
    task = Task(listed, guarantee, unit=unit, laplace=laplace)
    return given_noise(task, _crossed(strategies), np.arange(math.prod(sizes)), "Kronecker template")


def _crossed(strategies: Sequence[Floats]) -> Floats:
    """`A_1 ⊗ A_2 ⊗ …`."""
    crossed: Floats = np.ones((1, 1))
    for strategy in strategies:
        crossed = np.asarray(np.kron(crossed, strategy), dtype=np.float64)
    return crossed


def _grams(workload: Workload) -> list[list[Floats]]:
    """`WᵀW` of every term along every attribute that some term asks about; all ones where a term sums over it."""
    used, sizes = workload.attributes, workload.shape
    rows = []
    for term in workload.terms():
        asked = dict(term)
        rows.append([asked[i].gram() if i in asked else np.ones((n, n)) for i, n in zip(used, sizes, strict=True)])
    return rows


def _loss(strategy: Floats, gram: Floats) -> float:
    """`tr (AᵀA)⁻¹ G` for a strategy of sensitivity 1."""
    return float(np.trace(np.linalg.solve(strategy.T @ strategy, gram)))


def _best(gram: Floats, laplace: bool) -> Floats:
    """The strategy of sensitivity 1 and full rank with the least `tr (AᵀA)⁻¹ G`."""
    gram = gram + 1e-9 * np.trace(gram) / len(gram) * np.eye(len(gram))  # the other terms need what this one does not
    root: Floats = np.linalg.cholesky(gram).T.astype(np.float64)
    if laplace:
        return identity_plus(Judged(MatrixQueries(root), False))
    return np.asarray(least_total(root, tolerance=_FINE).strategy)
