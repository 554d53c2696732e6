"""What can be said about the form of a plan before it is made."""

from __future__ import annotations

from dataclasses import dataclass

from residua.plans.contract import Plan


@dataclass(frozen=True)
class Lattice:
    """A plan of precisions on sets of attributes: for marginals and products, over any number of attributes.

    Args:
        like: a lattice plan whose strategies to use, attribute by attribute, so that `common`, `residual`, `top_up`
            and sessions combine the two exactly over any number of cells. The plan's `gap` counts what its strategies
            cost; where that is much, plan the sum of the workloads first, and then each of them like that.
        limit: most rounds of an iterative objective.
    """

    like: Plan | None = None
    limit: int = 10_000


@dataclass(frozen=True)
class Matrix:
    """A plan of one matrix over cells: for any queries, on few cells; marginals and products are listed query by query.

    Args:
        refined: among plans that meet explicit targets equally well, the one with the lexicographically least privacy
            profile.
        bias: how far off answers may be systematically, per record, as a root mean square over the queries; 0 for
            unbiased answers. See `plan.bias` and `plan.workload` of the result.
    """

    refined: bool = False
    bias: float = 0.0


Form = Lattice | Matrix
