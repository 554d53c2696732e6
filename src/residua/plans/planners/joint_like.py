"""Blockwise plans by the rows of another: only how precisely each block is measured is chosen.

A query's variance is `Σ_b S_qb / τ_b`, S being the squared parts of queries in blocks. With weights w on queries the
best precisions go by the root, `τ_b ∝ √(w S)_b`, and `(Σ_b √(w S)_b)²` is what no plan by these rows can go below, each
block counted at its most expensive cell.
"""

from __future__ import annotations

import numpy as np

from residua.errors import PlanError
from residua.linalg.arrays import Floats
from residua.plans.contract import Plan
from residua.plans.forms import Task
from residua.plans.joint.facts import asked
from residua.plans.joint.plan import JointPlan
from residua.plans.objectives import Scaled
from residua.plans.questions import Workload
from residua.plans.saddle import least_maximum

_NOTHING = 1e-14  # of the largest: a block of which nothing is asked


class Roots:
    """The best precisions for weights on queries, at privacy cost 1.

    Args:
        squares: S, (queries, blocks).
    """

    def __init__(self, squares: Floats) -> None:
        self.squares = squares

    def respond(self, weights: Floats) -> tuple[Floats, Floats, float]:
        """The noise variance of each block, the variances it gives, and their weighted sum."""
        roots = np.sqrt(weights @ self.squares)
        noise = float(roots.sum()) / np.maximum(roots, float(roots.max()) * 1e-12)
        return noise, self.variances(noise), float(roots.sum()) ** 2

    def value(self, weights: Floats) -> float:
        """What no precisions can go below."""
        return float(np.sqrt(weights @ self.squares).sum()) ** 2

    def variances(self, noise: Floats) -> Floats:
        """The variances that some noise gives."""
        return np.asarray(self.squares @ noise)


def precisions_like(like: Plan, workload: Workload, weights: Floats, targets: Floats | None, task: Task) -> Floats:
    """How precisely each block of `like` is measured, in all 1.

    Args:
        like: the plan whose rows are measured.
        workload: what is asked.
        weights: of each query, where the sum of variances counts.
        targets: the variance each query is divided by, where the largest counts.
        task: when to stop.

    Raises:
        PlanError: no blockwise plan, another domain, or rows that do not tell what is asked.
    """
    if not isinstance(like, JointPlan):
        raise PlanError(f"like={like!r} is not a blockwise plan; plan it with form=rs.Blockwise().")
    if like.domain != workload.domain:
        raise PlanError("like is a plan over another domain; plan over one domain.")
    squares = _squares(like.replaced(precisions=np.ones(len(like.precisions))), workload)
    game = Roots(squares)
    if targets is None:
        noise = game.respond(weights)[0]
    else:
        effort = task.effort
        noise = least_maximum(
            game, Scaled(1.0 / targets), len(targets), effort.tolerance, effort.limit, effort.progress
        ).noise
    used = squares.max(axis=0) > _NOTHING * float(squares.max())
    return np.where(used, 1.0 / noise, 0.0)


def _squares(like: JointPlan, workload: Workload) -> Floats:
    """S: the squared part of every query in every block, in measured rows, (queries, blocks)."""
    found = np.zeros((workload.queries, len(like.blocks_of)))
    places = {block: k for k, block in enumerate(like.blocks_of)}
    for attributes, rows, at in asked(workload):
        parts, lost = like.facts.taken_apart(attributes, rows)
        if lost.any():
            names = ", ".join(workload.domain.names[i] for i in attributes)
            raise PlanError(
                f"like sees too little of {names} for what is asked here; plan the sum of the workloads first, and "
                "then each of them like that."
            )
        for block, part in parts.items():
            found[at, places[block]] = (part**2).sum(axis=1)
    return found
