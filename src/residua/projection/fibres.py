"""Projection of releases along a long axis whose sets of other attributes have noise of their own.

The metric is squares over what was asked, or over all prefixes of a long axis (`crossed_tables.py`), whatever the noise
was: the same problem as for one noise, observed and simulated by the fibres.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from residua.linalg.arrays import Floats
from residua.plans.fibres import FibrePlan
from residua.plans.fibres.reading import FibreEstimator
from residua.plans.lattice.plan import LatticePlan
from residua.plans.strategy import Plain, Strategy
from residua.projection.consistent import ConsistentTables, centred
from residua.projection.crossed_tables import PlainProblem
from residua.projection.problem import Fit


@dataclass(frozen=True, eq=False)
class FibreProblem(PlainProblem):
    """Projection of releases of fibres in plain squares.

    Args:
        fibres: the plan; `plan` has the same tables, with one noise along the axis.
        Others as for `PlainProblem`.
    """

    fibres: FibrePlan | None = None

    def simulated(self, fit: Fit, random: np.random.Generator) -> Floats:
        """What a release of the plan would observe if a fit were the truth."""
        assert isinstance(fit, ConsistentTables)
        assert self.fibres is not None
        blocks = self.fibres.compile()
        noise = FibreEstimator(blocks, self.fibres.attribute, blocks.simulated(random))
        observed = np.array(fit.residuals)
        for group in self.layout:
            tables = group.view(observed)
            for number, members in enumerate(group.members.tolist()):
                tables[number] += centred(noise.marginal(tuple(members)))
        return observed


def with_one_noise(plan: FibrePlan) -> LatticePlan:
    """A plan of the same tables with one noise along the axis: which tables there are, about how precise each is."""
    lattice, strategies = plan.lattice, list[Strategy](Plain(int(n)) for n in plan.domain.sizes)
    strategies[plan.attribute] = next(noise for noise in plan.noises if noise is not None)
    precisions = np.zeros(len(lattice))
    for members, noise, factor in zip(plan.sets, plan.noises, plan.factors.tolist(), strict=True):
        whole = tuple(sorted((*members, plan.attribute))) if noise is not None else members
        precisions[int(lattice.find(np.array([whole], dtype=np.int32).reshape(1, -1))[0])] = 1.0 / factor
    return LatticePlan(
        plan.domain, lattice, precisions, plan.guarantee, plan.unit, plan.workload, strategies=tuple(strategies)
    )
