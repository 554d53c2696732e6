"""The factorisation norm of a workload: how accurate answers can be on average, at privacy cost 1."""

from __future__ import annotations

import math

from residua.errors import PlanError
from residua.plans.planners.marginals import MarginalGame
from residua.plans.solver.residuals import ResidualCoefficients
from residua.workload import Explicit, Marginals


def factorisation_norm(workload: Marginals | Explicit, *, tolerance: float = 1e-3) -> float:
    """`γ(F) = √(least total variance at privacy cost 1 / number of queries)`.

    The root mean square error of the best unbiased mechanism is `γ(F) · √(1/pcost)`; weights are not used.

    Guarantee: never below the true norm, and above it by at most half the tolerance, relative.

    Args:
        workload: what is asked.
        tolerance: how close to the optimal total variance; exact for marginals.

    Reference: factorization-and-projection, Definition 2.2 and Theorem 2.3.

    Example:
        >>> import residua as rs
        >>> domain = rs.Domain.of_sizes({"a": 4})
        >>> factorisation_norm(rs.marginals(domain, ways=1))
        1.0
    """
    if isinstance(workload, Marginals):
        game = MarginalGame(workload, ResidualCoefficients(workload.lattice, workload.domain.sizes))
        return math.sqrt(game.value(workload.cells.copy()) / workload.queries)
    if not isinstance(workload, Explicit):
        raise PlanError(f"workload={workload!r} is not a workload; make one with rs.marginals or rs.queries.")
    from residua.plans.solver.solve import least_total

    return math.sqrt(least_total(workload.matrix, 1.0, tolerance).achieved / workload.queries)
