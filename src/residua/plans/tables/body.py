"""Pure marginal plans as plain values, for files."""

from __future__ import annotations

from typing import Any

import numpy as np

from residua.domain import domain_of_settings
from residua.plans.bodies import head_of_body, head_to_body
from residua.plans.lattice.residual_body import lattice_of_body, lattice_to_body, workload_of_body, workload_to_body
from residua.plans.matrix.pure_plan import Candidate
from residua.plans.tables.plan import PureMarginalPlan
from residua.privacy import PureDP


def pure_marginals_to_body(plan: PureMarginalPlan) -> dict[str, Any]:
    """A plan as plain values."""
    return {
        **head_to_body("pure marginals", plan),
        "lower_bound": plan.lower_bound,
        "candidates": [{"name": each.name, "loss": each.loss} for each in plan.candidates],
        "sets": lattice_to_body(plan.lattice),
        "shares": plan.shares.tolist(),
        "workload": workload_to_body(plan.workload, plan.lattice),
    }


def pure_marginals_of_body(body: dict[str, Any]) -> PureMarginalPlan:
    """The plan that plain values describe; every invariant is checked again."""
    domain = domain_of_settings(body["domain"])
    lattice = lattice_of_body(body["sets"], len(domain))
    made = PureMarginalPlan(
        domain=domain,
        lattice=lattice,
        shares=np.array(body["shares"], dtype=np.float64),
        workload=workload_of_body(domain, lattice, body["workload"]),
        **head_of_body(body),
        candidates=tuple(Candidate(str(each["name"]), float(each["loss"])) for each in body["candidates"]),
        lower_bound=float(body["lower_bound"]),
    )
    if not (made.gap >= 0 and made.lower_bound >= 0):
        raise ValueError("its gap or lower bound means nothing")
    if not isinstance(made.guarantee, PureDP) or made.unit_epsilon > made.guarantee.epsilon * (1 + 1e-9):
        raise ValueError("it costs more than it claims")
    return made
