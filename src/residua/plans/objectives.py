"""What "best" means: objectives, each a loss of the marginals' cell variances that knows how to be minimised.

All cells of a marginal have the same variance, so a loss is a function of one variance per marginal, in the
order of the workload; of other workloads, over few cells, one per query. Reference: residual-planner, Definition 4.1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol, runtime_checkable

import numpy as np

from residua.errors import PlanError, named
from residua.linalg.arrays import Floats
from residua.plans.estimator import require_workload
from residua.plans.losses import Gradient, Loss, checked, least_loss
from residua.plans.saddle import Effort, Game, MixingGame, Solution, least_maximum, least_norm, smooth_maximum
from residua.plans.targets import Targets, targets_of
from residua.workload import Workload

_MOST_DOUBLINGS = 200
_SHARP = 40.0  # order of the norm that stands for a maximum


@runtime_checkable
class Objective(Protocol):
    """A convex, increasing loss of the marginals' variances."""

    @property
    def homogeneous(self) -> bool:
        """Whether twice the variances mean twice the loss."""

    def loss(self, workload: Workload, variances: Floats) -> float:
        """The loss of these cell variances, one per marginal."""

    def solve(self, workload: Workload, response: MixingGame, effort: Effort) -> Solution:
        """The best noise at privacy cost 1."""


@runtime_checkable
class Sloped(Protocol):
    """An objective by which Laplace noise can be searched for: it knows its slopes."""

    homogeneous: bool

    def slopes(self, workload: Workload, variances: Floats) -> tuple[float, Floats]:
        """The loss, or a little more where it has kinks, and how it grows with each variance."""


@dataclass(frozen=True)
class TotalVariance:
    """Sum of all cells' variances, each times its marginal's weight. Solved in closed form."""

    homogeneous = True

    def loss(self, workload: Workload, variances: Floats) -> float:
        """`Σ_A weight_A · cells_A · v_A`."""
        return float((workload.weights * workload.cells) @ variances)

    def solve(self, workload: Workload, response: Game, effort: Effort) -> Solution:
        """One best response."""
        return least_sum(response, workload.weights * workload.cells)


@dataclass(frozen=True, eq=False)
class MaxVariance:
    """The largest `weight · variance`, or the largest `variance / target` where targets are given.

    Args:
        targets: one variance for all marginals, a mapping from attribute sets to variances, or an array with one
            target for each query of the workload (equal within a marginal). Weights are not used then.
        over: `"queries"`, the largest single variance, or `"terms"`, the largest mean variance of a term's queries; the
            same for marginals, whose cells are all alike. In plans over a tree each level is a term.
    """

    targets: Targets | None = None
    over: Literal["queries", "terms"] = "queries"
    homogeneous = True

    def __post_init__(self) -> None:
        if self.over not in ("queries", "terms"):
            raise PlanError(f"over={named(self.over)} is neither 'queries' nor 'terms'.")

    def scales(self, workload: Workload) -> Floats:
        """What each table's variance, or each listed query's, is divided by, (terms,)."""
        return 1.0 / workload.weights if self.targets is None else targets_of(workload, self.targets)

    def loss(self, workload: Workload, variances: Floats) -> float:
        """`max_A v_A / c_A`."""
        return float((variances / self.scales(workload)).max())

    def solve(self, workload: Workload, response: Game, effort: Effort) -> Solution:
        """Multiplicative weights on the marginals."""
        return least_ratio(response, self.scales(workload), effort)


@dataclass(frozen=True)
class LargestVariances:
    """The sum of the largest `weight · variance`: of the 100 worst marginals, for example.

    `LargestVariances(1)` is the largest alone, as many as there are marginals their sum, whatever their cells.

    Args:
        count: how many of the workload's marginals.
    """

    count: int
    homogeneous = True

    def __post_init__(self) -> None:
        if isinstance(self.count, bool) or not isinstance(self.count, int) or self.count < 1:
            raise PlanError(f"count={named(self.count)} is not a number of marginals; use a whole number from 1.")

    def loss(self, workload: Workload, variances: Floats) -> float:
        """`max Σ_A p_A weight_A v_A` over weights `0 ≤ p ≤ 1` that add up to the count."""
        return self.slopes(workload, variances)[0]

    def slopes(self, workload: Workload, variances: Floats) -> tuple[float, Floats]:
        """The weights of those that are among the largest."""
        values = workload.weights * variances
        counted = np.zeros(len(values))
        counted[np.argsort(values)[-self.count :]] = 1.0
        return float(counted @ values), counted * workload.weights

    def solve(self, workload: Workload, response: Game, effort: Effort) -> Solution:
        """Multiplicative weights on the marginals, none above 1."""
        return least_maximum(response, workload.weights, effort, largest=min(self.count, len(workload)))


@dataclass(frozen=True)
class PNormVariance:
    """The p-norm of all cells' variances, weighted: `(Σ_A weight_A cells_A v_A^p)^(1/p)`.

    `p = 1` is the total, and large p approaches the maximum.
    """

    p: float
    homogeneous = True

    def __post_init__(self) -> None:
        if isinstance(self.p, bool) or not isinstance(self.p, int | float) or not 1 <= self.p < math.inf:
            raise PlanError(f"p={named(self.p)} is not the order of a norm; use a number from 1, or MaxVariance().")

    def loss(self, workload: Workload, variances: Floats) -> float:
        """The norm itself."""
        return self.slopes(workload, variances)[0]

    def slopes(self, workload: Workload, variances: Floats) -> tuple[float, Floats]:
        """Those of the norm."""
        value, powers = smooth_maximum(variances, self.p, workload.weights * workload.cells)
        return value, workload.weights * workload.cells * powers

    def solve(self, workload: Workload, response: Game, effort: Effort) -> Solution:
        """A damped fixed point on nature's weights."""
        return least_norm(response, self.p, workload.weights * workload.cells, effort)


@dataclass(frozen=True, eq=False)
class Stakeholders:
    """The largest unhappiness: the maximum over several workloads of each one's own total variance.

    Args:
        workloads: what each stakeholder wants; their marginals must be among those planned for.
    """

    workloads: Sequence[Workload]
    homogeneous = True

    def __post_init__(self) -> None:
        if not isinstance(self.workloads, Sequence):
            raise PlanError("workloads is not a list of workloads; give [rs.marginals(…), …].")
        listed = tuple(require_workload(each) for each in self.workloads)
        if not listed:
            raise PlanError("workloads is empty; give at least one stakeholder's workload.")
        object.__setattr__(self, "workloads", listed)

    def shares(self, workload: Workload) -> Floats:
        """Each stakeholder's weights on the planned marginals, or queries, (stakeholders, marginals)."""
        if not workload.tabular:
            return self._of_queries(workload)
        place = {names: i for i, names in enumerate(workload.sets)}
        matrix = np.zeros((len(self.workloads), len(workload)))
        for row, wanted in zip(matrix, self.workloads, strict=True):
            if wanted.domain != workload.domain:
                raise PlanError("a stakeholder's workload is over another domain; declare one for all.")
            for names, mass in zip(
                require_workload(wanted, plain=True).sets, wanted.weights * wanted.cells, strict=True
            ):
                if names not in place:
                    raise PlanError(f"a stakeholder wants {names!r}, which the workload lacks; add it to the workload.")
                row[place[names]] += mass
        return matrix

    def _of_queries(self, workload: Workload) -> Floats:
        """Each stakeholder's weights on the queries, which are found by their coefficients, (stakeholders, queries)."""
        place = {row.tobytes(): i for i, row in enumerate(workload.matrix.toarray())}
        matrix = np.zeros((len(self.workloads), workload.queries))
        for weights, wanted in zip(matrix, self.workloads, strict=True):
            listed = wanted.listed()
            same = listed.domain == workload.domain and listed.attributes == workload.attributes
            for row, mass in zip(listed.matrix.toarray(), listed.query_weights, strict=True):
                if not same or row.tobytes() not in place:
                    raise PlanError("a stakeholder wants a query which the workload lacks; add it to the workload.")
                weights[place[row.tobytes()]] += mass
        return matrix

    def loss(self, workload: Workload, variances: Floats) -> float:
        """`max_j Σ_A weight_jA · cells_A · v_A`."""
        return float((self.shares(workload) @ variances).max())

    def slopes(self, workload: Workload, variances: Floats) -> tuple[float, Floats]:
        """Of a norm of high order of what each loses."""
        shares = self.shares(workload)
        value, powers = smooth_maximum(shares @ variances, _SHARP)
        return value, powers @ shares

    def solve(self, workload: Workload, response: Game, effort: Effort) -> Solution:
        """Multiplicative weights on the stakeholders."""
        return least_maximum(response, self.shares(workload), effort)


@dataclass(frozen=True)
class ConvexLoss:
    """Any convex, positive loss, given by its value and a (sub)gradient.

    It must grow with every variance; for records added or removed without limits it is enough that it does not fall
    when all variances grow alike (a regular loss: residual-planner, Definition 4.1), as `Σv + 3 |v₀ − v₁|` does not. Of
    marginals, the plan is then the best choice of noise on residuals; of other queries, that of any noise.

    Solved by cutting planes, which is fast where the loss is smooth. Where hundreds of variances tie at a kink, a gap
    of one per cent takes seconds, and a hundredth of that takes long: `LargestVariances`, `MaxVariance` or
    `Stakeholders` are faster where they say the same.

    Args:
        value: variances, one per marginal in the workload's order → loss.
        gradient: the same variances → a subgradient.

    Example:
        >>> import numpy as np
        >>> loss = ConvexLoss(lambda v: float(np.sum(v**2)), lambda v: 2 * v)
        >>> loss.homogeneous
        False
    """

    value: Loss
    gradient: Gradient
    homogeneous = False

    def loss(self, workload: Workload, variances: Floats) -> float:
        """The user's loss."""
        return float(self.value(variances))

    def slopes(self, workload: Workload, variances: Floats) -> tuple[float, Floats]:
        """The user's."""
        return checked(self.value, self.gradient, variances, falling=True)

    def solve(self, workload: Workload, response: MixingGame, effort: Effort) -> Solution:
        """Cutting planes."""
        return least_loss(response, self.value, self.gradient, workload.weights * workload.cells, effort)


def least_ratio(game: Game, scales: Floats, effort: Effort) -> Solution:
    """The noise whose largest variance / scale is least, by multiplicative weights."""
    return least_maximum(game, 1.0 / scales, effort)


def of_queries(objective: Objective) -> bool:
    """Whether the largest variance of single queries counts, which are not all alike in a term."""
    return isinstance(objective, MaxVariance) and objective.over == "queries"


def of_single_queries(objective: Objective) -> bool:
    """Whether a loss is the sum or the largest of variances, for which there are planners of their own."""
    return isinstance(objective, TotalVariance | MaxVariance)


def least_cost(
    objective: Objective, workload: Workload, game: Callable[[float], MixingGame], effort: Effort, loss: float
) -> tuple[float, Solution, float]:
    """The cost, the noise at cost 1 and the gap in the cost, by bisection: one proven too small, one found enough."""
    too_little, unclear, enough, solution = 0.0, list[float](), 1.0, None
    inner = replace(effort, tolerance=effort.tolerance / 4, wanted=loss)
    for _ in range(_MOST_DOUBLINGS):
        trial = enough if solution is None else enough / 2
        if solution is not None and too_little:
            ends = [too_little, *sorted(unclear), enough]
            low, high = max((ends[:2], ends[-2:]), key=lambda pair: pair[1] / pair[0])
            if enough / too_little - 1 <= effort.tolerance or high / low - 1 <= inner.tolerance / 2:
                break
            trial = math.sqrt(low * high)
        tried = objective.solve(workload, game(trial), inner)
        if tried.loss <= loss:
            enough, solution = trial, tried
        elif tried.bound > loss:
            too_little, enough = trial, enough * (1 if solution is not None else 2)
        elif solution is None:
            enough *= 1 + effort.tolerance
        else:  # between the bounds of one solve: what is enough, and what too little, is sought on either side
            unclear.append(trial)
        unclear = [each for each in unclear if too_little < each < enough]
    if solution is None:
        raise PlanError(f"at_most={named(loss)} cannot be reached at any cost; raise it.")
    return enough, solution, enough / too_little - 1 if too_little else np.inf


@dataclass(frozen=True, eq=False)
class QueryLoss:
    """The sum, or the largest, of the variances of single queries, each times a factor.

    Args:
        factors: a query's weight, or one over its target, (queries,).
        worst: whether the largest counts.
    """

    factors: Floats
    worst: bool

    def of(self, variances: Floats) -> float:
        """The loss of these variances, (queries,)."""
        return float((variances * self.factors).max() if self.worst else self.factors @ variances)


def query_loss(objective: Objective, workload: Workload) -> QueryLoss:
    """What an objective makes of single queries.

    Raises:
        PlanError: an objective of marginals, or of terms.
    """
    if isinstance(objective, TotalVariance):
        return QueryLoss(workload.query_weights, False)
    if isinstance(objective, MaxVariance) and (of_queries(objective) or not workload.tabular):
        return QueryLoss(1.0 / np.repeat(objective.scales(workload), workload.cells.astype(np.int64)), True)
    raise PlanError(
        f"{described(objective)} is not for plans that know single queries alone; minimise TotalVariance or "
        "MaxVariance, or ask for marginals."
    )


def check_objective(objective: Objective, workload: Workload, *, laplace: bool, matrix: bool) -> None:
    """Refuses what cannot be minimised, before anything is solved.

    Args:
        objective: what to minimise.
        workload: of these queries.
        laplace: whether with Laplace noise.
        matrix: whether by one matrix in any case, which knows single queries alone, not which term each is of.

    Raises:
        PlanError: an objective of marginals, or of terms whose queries are not alike.
    """
    if workload.plain and not (laplace and matrix):
        return
    if not of_single_queries(objective):
        if laplace and (workload.plain or not isinstance(objective, Sloped)):
            why = "is not for one matrix and pure DP; leave form out, or minimise TotalVariance or MaxVariance."
            raise PlanError(f"minimise: {type(objective).__name__} {why}")
        if not matrix and not laplace:
            raise PlanError(
                f"minimise: {type(objective).__name__} is for marginals, and for queries over few cells "
                "(form=rs.Matrix()); these take TotalVariance or MaxVariance."
            )
    by_terms = workload.with_rows and isinstance(objective, MaxVariance) and objective.over == "terms"
    if by_terms and (laplace or matrix):
        raise PlanError(
            "minimise: MaxVariance(over='terms') is not for plans by one matrix, which know single queries alone; "
            "leave over out, or form, with Gaussian noise."
        )


def described(objective: Objective) -> str:
    """An objective in words."""
    name = type(objective).__name__
    name += " over terms" if isinstance(objective, MaxVariance) and objective.over == "terms" else ""
    return f"{name} with targets" if isinstance(objective, MaxVariance) and objective.targets is not None else name


def least_sum(game: Game, weights: Floats) -> Solution:
    """Least weighted sum of variances: one best response."""
    noise, variances, value = game.respond(weights)
    # A response in closed form is best but for rounding; one that was searched for is as far off as it says.
    return Solution(noise, max(value, float(weights @ variances) * (1.0 - 2.0**-40)), value, weights, 1)
