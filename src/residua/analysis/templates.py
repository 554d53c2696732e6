"""The templates of the high-dimensional matrix mechanism (HDMM), from its paper's description, as plans.

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

import numpy as np

from residua.errors import PlanError
from residua.linalg.arrays import Floats
from residua.linalg.lattice import closure
from residua.plans.contract import Plan
from residua.plans.estimator import require_workload
from residua.plans.planners.matrix import given_noise
from residua.plans.planners.offers import Task
from residua.plans.planners.plan import plan
from residua.plans.product.plan import ProductPlan
from residua.plans.search.search import identity_plus
from residua.plans.search.strategies import Judged
from residua.plans.solver.closed_form import MarginalGame, Spending
from residua.plans.solver.queries import MatrixQueries
from residua.plans.solver.solve import least_total
from residua.plans.tolerances import BUDGET_SLACK
from residua.privacy import AddRemove, Guarantee, PureDP, Unit
from residua.workload import Workload

MOST_SETS = 2**15  # of a lattice of all marginals
MOST_CELLS = 4096
_RECORD = AddRemove()
_ROUNDS, _SETTLED = 50, 1e-6
_FINE = 1e-6


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
