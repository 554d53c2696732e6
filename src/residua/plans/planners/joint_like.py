"""Blockwise plans by the rows of another: only how precisely each block is measured is chosen.

A query's variance is `Σ_b S_qb / τ_b`, S being the squared parts of queries in blocks. With weights w on queries the
best precisions go by the root, `τ_b ∝ √(w S)_b`, and `(Σ_b √(w S)_b)²` is what no plan by these rows can go below, each
block counted at its most expensive cell. Where cells are priced together, `Σ_b τ_b n_bj` at cell j, any weights q on
cells prove `(Σ_b √((w S)_b n̄_b))²` with `n̄_b = Σ_j q_j n_bj`, and rounds raise the weights of cells that cost most.
"""

from __future__ import annotations

import math

import numpy as np

from residua.errors import PlanError
from residua.linalg.arrays import Floats
from residua.plans.contract import Plan
from residua.plans.forms import Task
from residua.plans.joint.facts import asked
from residua.plans.joint.plan import JointPlan
from residua.plans.levels.cells import Table, table_for
from residua.plans.objectives import Scaled
from residua.plans.saddle import least_maximum
from residua.workload import Workload

_NOTHING = 1e-14  # of the largest: a block of which nothing is asked
_ROUNDS, _CLOSE, _LEAST_WEIGHT = 200, 1e-4, 1e-9


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


def precisions_like(
    like: Plan, workload: Workload, weights: Floats, targets: Floats | None, task: Task
) -> tuple[Floats, float]:
    """How precisely each block of `like` is measured, and what no plan by its rows goes below at privacy cost 1.

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
    even = like.replaced(precisions=np.ones(len(like.precisions)))
    squares = _squares(even, workload)
    used = squares.max(axis=0) > _NOTHING * float(squares.max())
    table = table_for(like.axes, list(like.blocks_of))
    if targets is None:
        asked_of = np.where(used, weights @ squares, 0.0)
        if table is None:
            return np.sqrt(asked_of), float(np.sqrt(asked_of).sum()) ** 2
        return _priced_together(even, table, asked_of)
    effort = task.effort
    found = least_maximum(
        Roots(squares), Scaled(1.0 / targets), len(targets), effort.tolerance, effort.limit, effort.progress
    )
    return np.where(used, 1.0 / found.noise, 0.0), found.bound if table is None else 0.0


def _priced_together(like: JointPlan, table: Table, asked_of: Floats) -> tuple[Floats, float]:
    """The best precisions where the most expensive cell counts, of all blocks together, and what they prove."""
    norms = {block: like.rows_of(block).relative_norms for block in like.blocks_of}
    q, best, found = np.full(table.shape, 1.0 / math.prod(table.shape)), (math.inf, np.sqrt(asked_of)), 0.0
    for _ in range(_ROUNDS):
        mean = np.array([float(table.margin(block, q) @ norms[block]) for block in like.blocks_of])
        found = max(found, float(np.sqrt(asked_of * mean).sum()) ** 2)
        precisions = np.sqrt(asked_of / mean)
        costs = np.zeros(table.shape)
        for block, precision in zip(like.blocks_of, precisions.tolist(), strict=True):
            costs = costs + precision * table.spread(block, norms[block])
        with np.errstate(divide="ignore", invalid="ignore"):
            loss = float(np.where(asked_of > 0, asked_of / precisions, 0.0).sum()) * float(costs.max())
        best = min(best, (loss, precisions), key=lambda pair: pair[0])
        if best[0] <= found * (1.0 + _CLOSE):
            break
        q = np.maximum(q * costs / costs.max(), _LEAST_WEIGHT / q.size)
        q = q / q.sum()
    return best[1], found


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
