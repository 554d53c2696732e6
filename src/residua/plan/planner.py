"""Making plans: the best noise for a budget, or the least privacy for a wanted accuracy."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from residua.errors import GapWarning, PlanError
from residua.plan.algebra import guarantee_like
from residua.plan.objectives import Effort, MaxVariance, Objective, Targets, TotalVariance
from residua.plan.replacement import replacement_cost, replacement_value
from residua.plan.residual import ResidualPlan
from residua.plan.response import ResidualCoefficients
from residua.plan.saddle import Progress, Solution
from residua.privacy import ZCDP, AddRemove, Guarantee, ReplaceOne, Unit
from residua.workload import Marginals

Floats = NDArray[np.float64]

# The exact cost of what is measured must not exceed the budget, nor a variance its target, by the rounding of a
# long sum (its relative error is below 1e-13): a trillionth of the budget is left unspent, or spent on top.
_SLACK = 1.0 - 2.0**-40


@dataclass(frozen=True, eq=False)
class MarginalGame:
    """Our side of the planning game for a workload of marginals (see `saddle`)."""

    workload: Marginals
    coefficients: ResidualCoefficients

    def respond(self, weights: Floats) -> tuple[Floats, Floats, float]:
        """Best residual noise for these weights on marginals, the variances it gives, and their weighted sum."""
        noise, value = self.coefficients.respond(self.spread(weights))
        return noise, self.coefficients.cell_variances(noise)[self.workload.numbers], value

    def value(self, weights: Floats) -> float:
        """The least weighted sum of variances anybody reaches at privacy cost 1."""
        return self.coefficients.value(self.spread(weights))

    def variances(self, noise: Floats) -> Floats:
        """The cell variances of the workload's marginals under some residual noise."""
        return self.coefficients.cell_variances(noise)[self.workload.numbers]

    def spread(self, weights: Floats) -> Floats:
        """Weights on the marginals of the workload as weights on all sets of its closure."""
        full = np.zeros(len(self.workload.lattice))
        full[self.workload.numbers] = weights
        return full


def plan(
    workload: Marginals,
    guarantee: Guarantee | None = None,
    *,
    minimise: Objective | None = None,
    targets: Targets | None = None,
    at_most: float | None = None,
    unit: Unit = AddRemove(),  # noqa: B008 - a frozen value
    tolerance: float = 1e-4,
    limit: int = 10_000,
    progress: Progress | None = None,
) -> ResidualPlan:
    """The best plan for a workload: least loss for a budget, or least privacy for a wanted accuracy.

    With a `guarantee`: the plan minimises the objective within it. Without one: `targets` asks for the least
    privacy at which every marginal meets its own target variance, and `at_most` for the least privacy at which the
    objective's loss is no larger.

    Guarantee: measuring the plan satisfies its `guarantee` for its `unit`; no linear Gaussian mechanism has a loss
    (or, without a budget, a privacy cost) smaller than this plan's by more than a factor `1 + gap`.

    Args:
        workload: what is asked.
        guarantee: the budget, such as `ZCDP(rho=0.5)`.
        minimise: the objective, `TotalVariance()` by default, `MaxVariance(targets)` where targets are given.
        targets: wanted variances: one number, a mapping from attribute sets, or one for each query.
        at_most: the largest acceptable loss, instead of a budget.
        unit: whom the guarantee protects, by default one record added or removed.
        tolerance: stop when the gap is proven to be at most this.
        limit: most rounds of an iterative objective.
        progress: called with the round and its gap.

    Raises:
        PlanError: contradictory or missing arguments, bad targets.
        PrivacyError: a guarantee that Gaussian noise cannot give.

    Reference: residual-planner, Equations 1 and 2.

    Example:
        >>> import residua as rs
        >>> domain = rs.Domain.of_sizes({"a": 10, "b": 3})
        >>> plan = rs.plan(rs.marginals(domain, ways=[1, 2]), rs.ZCDP(rho=0.5))
        >>> round(plan.variance(["a"]), 3), round(plan.variance(["a", "b"]), 3)
        (2.211, 1.204)
        >>> least = rs.plan(rs.marginals(domain, ways=[1, 2]), targets=25.0)
        >>> least.guarantee
        ZCDP(rho=0.0448...)
    """
    if not isinstance(workload, Marginals):
        raise PlanError(f"workload={workload!r} is not a workload; make one with rs.marginals.")
    objective = _objective(minimise, targets)
    loss = _accuracy(guarantee, targets, at_most)
    game = MarginalGame(workload, ResidualCoefficients(workload.lattice, workload.domain.sizes))
    effort = Effort(_tolerance(tolerance), _limit(limit), progress)
    allowed = None if guarantee is None else _allowed(guarantee)
    if objective.homogeneous:
        solution = objective.solve(workload, game, effort)
        per_unit, gap = _unit_cost(unit, game, solution)
        cost = solution.achieved / loss * per_unit if allowed is None else allowed
        record_cost = cost / per_unit
    else:
        from residua.plan.inhomogeneous import solve_at

        if isinstance(unit, ReplaceOne):
            raise PlanError("unit=ReplaceOne() needs an objective that scales with the variances, not a ConvexLoss.")
        _check_unit(unit)
        ratio = float(unit.scaled(1))
        record_cost, solution, gap = solve_at(objective, workload, game, effort, allowed and allowed / ratio, loss)
    if gap > effort.tolerance and not isinstance(unit, ReplaceOne):
        warnings.warn(f"the plan is proven optimal only up to {gap:.2g}; raise limit.", GapWarning, stacklevel=2)
    made = ResidualPlan(
        domain=workload.domain,
        lattice=workload.lattice,
        precisions=record_cost * (_SLACK if allowed is not None else 1.0 / _SLACK) / solution.noise,
        guarantee=guarantee,
        unit=unit,
        workload=workload,
        objective=_described(objective),
        gap=gap,
    )
    return made if guarantee is not None else replace(made, guarantee=guarantee_like(ZCDP(1.0), made.unit_pcost))


def independent(workload: Marginals, guarantee: Guarantee, *, unit: Unit = AddRemove()) -> ResidualPlan:  # noqa: B008
    """The baseline: equal independent noise on every asked cell, pooled into the best unbiased estimates.

    Its gap is that of its total variance.

    Example:
        >>> import residua as rs
        >>> domain = rs.Domain.of_sizes({"a": 10, "b": 3})
        >>> rs.independent(rs.marginals(domain, ways=2), rs.GDP(mu=1.0)).variance(["a", "b"])
        1.0...
    """
    if not isinstance(workload, Marginals):
        raise PlanError(f"workload={workload!r} is not a workload; make one with rs.marginals.")
    game = MarginalGame(workload, ResidualCoefficients(workload.lattice, workload.domain.sizes))
    asked = np.zeros(len(workload.lattice))
    asked[workload.numbers] = 1.0 / len(workload)
    # Noise σ² on the marginal A measures every residual S ⊆ A with precision Π_{i∈A∖S} 1/n_i / σ².
    precisions = workload.lattice.sum_over_supersets(asked, 1.0 / workload.domain.sizes)
    masses = workload.weights * workload.cells
    achieved = float(masses @ game.coefficients.cell_variances(1.0 / precisions)[workload.numbers])
    solution = Solution(1.0 / precisions, achieved, game.value(masses), 1, masses)
    per_unit, gap = _unit_cost(unit, game, solution)
    return ResidualPlan(
        domain=workload.domain,
        lattice=workload.lattice,
        precisions=precisions * (_allowed(guarantee) / per_unit * _SLACK),
        guarantee=guarantee,
        unit=unit,
        workload=workload,
        objective="independent noise",
        gap=gap,
    )


def _unit_cost(unit: Unit, game: MarginalGame, solution: Solution) -> tuple[float, float]:
    """What noise of privacy cost 1 costs the unit of protection, and the gap proven for that unit."""
    _check_unit(unit)
    if not isinstance(unit, ReplaceOne):
        return float(unit.scaled(1)), solution.gap
    lattice, sizes = game.coefficients.lattice, game.coefficients.sizes
    cost, _ = replacement_cost(lattice, sizes, np.where(game.coefficients.cost > 0, 1.0 / solution.noise, 0.0))
    if cost <= 0:
        raise PlanError("replacing a record changes none of these tables; they can be published without noise.")
    least = replacement_value(lattice, sizes, game.coefficients.importance(game.spread(solution.weights)))
    return cost, max(solution.achieved * cost / least - 1.0, 0.0)


def _objective(minimise: Objective | None, targets: Targets | None) -> Objective:
    if minimise is not None and (isinstance(minimise, type) or not isinstance(minimise, Objective)):
        raise PlanError(f"minimise={minimise!r} is not an objective; use one such as rs.MaxVariance().")
    if targets is None:
        return TotalVariance() if minimise is None else minimise
    if minimise is not None and not isinstance(minimise, MaxVariance):
        raise PlanError("targets and minimise contradict each other; targets already means MaxVariance(targets).")
    if minimise is not None and minimise.targets is not None:
        raise PlanError("targets is given twice, also in MaxVariance; give it once.")
    return MaxVariance(targets)


def _accuracy(guarantee: Guarantee | None, targets: Targets | None, at_most: float | None) -> float:
    """The largest acceptable loss."""
    if guarantee is not None and at_most is not None:
        raise PlanError("guarantee and at_most both fix the plan; give one, or targets with the guarantee.")
    if guarantee is None and targets is None and at_most is None:
        raise PlanError(
            "say what to spend or how accurate to be: a guarantee such as ZCDP(rho=0.5), targets, or at_most."
        )
    if at_most is None:
        return 1.0
    if isinstance(at_most, bool) or not isinstance(at_most, int | float) or not 0 < at_most < math.inf:
        raise PlanError(f"at_most={at_most!r} is not a positive finite loss; correct it.")
    return float(at_most)


def _allowed(guarantee: Guarantee) -> float:
    if isinstance(guarantee, type) or not isinstance(guarantee, Guarantee):
        raise PlanError(
            f"guarantee={guarantee!r} is not a guarantee; use ZCDP(rho=…), GDP(mu=…) or ApproxDP(epsilon=…, delta=…)."
        )
    return float(guarantee.pcost_allowed())


def _check_unit(unit: Unit) -> None:
    if isinstance(unit, type) or not isinstance(unit, Unit):
        raise PlanError(f"unit={unit!r} is not a unit of protection; use rs.AddRemove() or rs.ReplaceOne().")


def _tolerance(tolerance: float) -> float:
    if isinstance(tolerance, bool) or not isinstance(tolerance, int | float) or not 1e-12 <= tolerance < math.inf:
        raise PlanError(f"tolerance={tolerance!r} cannot be proven in floating point; use a number from 1e-12.")
    return float(tolerance)


def _limit(limit: int) -> int:
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise PlanError(f"limit={limit!r} is not a positive whole number of rounds.")
    return limit


def _described(objective: Objective) -> str:
    name = type(objective).__name__
    return f"{name} with targets" if isinstance(objective, MaxVariance) and objective.targets is not None else name
