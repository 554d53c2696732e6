"""The planner of one matrix over the cells that queries tell apart, with either noise."""

from __future__ import annotations

from dataclasses import dataclass, replace

from residua.errors import PlanError
from residua.plans.matrix.plan import MatrixPlan
from residua.plans.objectives import MaxVariance, check_objective
from residua.plans.planners.blockwise import too_many_cells
from residua.plans.planners.explicit import plan_biased, plan_explicit
from residua.plans.planners.forecast import forecast, side_of
from residua.plans.planners.laplace import plan_pure, require_few_cells
from residua.plans.planners.offers import Declared, Offer, Planner, Proof, Task


@dataclass(frozen=True)
class Matrix(Planner[MatrixPlan]):
    """A plan of one matrix over cells: for any queries, on few cells; marginals and products are listed query by query.

    Args:
        refined: among plans that meet explicit targets equally well, the one with the lexicographically least privacy
            profile.
        bias: how far off answers may be systematically, per record, as a root mean square over the queries; 0 for
            unbiased answers. See `plan.bias` and `plan.workload` of the result.
    """

    declares = (
        Declared(
            "any queries, over some thousand cells that they tell apart",
            "total, largest of all queries",
            "normal",
            Proof.EVERY,
            "with the cube of the cells",
        ),
        Declared(
            "any queries, over some hundred cells that they tell apart",
            "total, largest of all queries",
            "laplace",
            Proof.LOOSE,
            "with the square to the cube of the cells, some hundred times",
        ),
    )

    refined: bool = False
    bias: float = 0.0

    def offer(self, task: Task) -> Offer | None:
        """Where queries are explicit, over not too many cells; and for Laplace noise, of all but marginals."""
        if task.requested:
            check_objective(task.objective, task.workload, laplace=task.laplace, matrix=True)
            task = replace(task, workload=task.workload.listed())
        elif task.laplace:
            if task.workload.plain:
                return None
        elif task.workload.tabular or too_many_cells(task.workload):
            return None
        proof = Proof.LOOSE if task.laplace else Proof.EVERY
        ahead = forecast(task.workload, pure=task.laplace, maximum=isinstance(task.objective, MaxVariance))
        return Offer(proof, ahead, task, side_of(task.workload), attended=True)

    def plan(self, task: Task) -> MatrixPlan:
        """The plan.

        Raises:
            PlanError: another objective, too many cells, or options that contradict the noise.
        """
        check_objective(task.objective, task.workload, laplace=task.laplace, matrix=task.requested)
        if task.laplace:
            if self != Matrix():
                raise PlanError(
                    "refined, bias and like are for Gaussian noise; leave them out, or give another guarantee."
                )
            if not task.requested:
                require_few_cells(task.workload)
            return plan_pure(task.workload.listed(), task)
        if self.bias:
            return plan_biased(task.workload, task, self.bias)
        return plan_explicit(task.workload, task, refined=self.refined)
