"""The algebra of plans that measure the same rows, each with a precision of its own: precision by precision.

Forms whose measurements are the same rows (`plans/lattice/algebra.py`, `plans/joint/algebra.py`) say how their plans
are brought to the same rows, and how a plan is made of precisions; what follows from that alone is here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Generic, TypeVar

import numpy as np

from residua.errors import PlanError
from residua.linalg.arrays import Floats
from residua.plans.combining import Progress
from residua.plans.contract import Plan
from residua.plans.tolerances import ORDER_TOLERANCE

P = TypeVar("P", bound=Plan)


@dataclass(frozen=True)
class Precisions(Generic[P]):
    """What plans by the same rows release, together and apart.

    Args:
        aligned: plans brought to the same rows: the first of them so, and everyone's precisions.
        made: a plan by these rows with other precisions, an objective in words, and what is asked, if anything.
    """

    aligned: Callable[[Sequence[P]], tuple[P, list[Floats]]]
    made: Callable[[P, Floats, str, Any], P]

    def compose(self, first: P, second: P) -> P:
        """The plan that runs both and pools what they measure."""
        like, (a, b) = self.aligned([first, second])
        workload: Any = None
        if first.workload is not None and second.workload is not None:
            workload = first.workload + second.workload
        return self.made(like, a + b, "both plans together", workload)

    def can_answer(self, plan: P, other: P) -> bool:
        """Whether what `other` releases can be computed from what `plan` releases."""
        _, (have, wanted) = self.aligned([plan, other])
        return bool((wanted <= have * (1.0 + ORDER_TOLERANCE)).all())

    def common(self, plans: Sequence[P], progress: Progress | None = None) -> P:
        """The most that all these plans release, whichever of them is chosen."""
        like, precisions = self.aligned(plans)
        return self.made(like, reduce(np.minimum, precisions), "common to all candidates", None)

    def residual(self, plan: P, given: P) -> P:
        """What is left of a plan once `given` is known.

        Raises:
            PlanError: the plan does not answer `given`, so that some of it would be wasted.
        """
        like, (wanted, have) = self.aligned([plan, given])
        if not (have <= wanted * (1.0 + ORDER_TOLERANCE)).all():
            raise PlanError("given is not answered by the plan; use common([…]) first, or top_up for what is missing.")
        return self.made(like, _left(wanted, have), "what is left", plan.workload)

    def top_up(self, plan: P, given: Sequence[P]) -> P:
        """The least to measure so that, pooled with all given, everything is at least as accurate as the plan says."""
        like, (wanted, *have) = self.aligned([plan, *given])
        return self.made(like, _left(wanted, np.sum(have, axis=0)), "what is missing", plan.workload)


def _left(wanted: Floats, have: Floats) -> Floats:
    """`max(0, τ_wanted − τ_have)`, less than ORDER_TOLERANCE being nothing.

    Noise scales are rounded up when plans are compiled; giving up 2^-44 of the precision makes sure that what is left
    and what was known never cost more together than the plan itself.
    """
    left = wanted * (1.0 - 2.0**-44) - have
    return np.where(left > ORDER_TOLERANCE * wanted, left, 0.0)
