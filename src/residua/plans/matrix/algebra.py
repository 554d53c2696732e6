"""The algebra of all plans with Gaussian noise over few cells: through their matrices.

Everything is done on matrices over the cells that the plans tell apart, each column scaled by the root of the number of
cells it stands for, so that results depend on the table alone and not on how its cells were merged. Where the maximal
common mechanism is not unique it is the one of least trace in an orthonormal basis over the cells.

Results are plans of integers. `common` is scaled down until every candidate answers what will really be measured (by
about 1e-8), and `residual` is what is left of the plan after that, so that rounding wastes nothing: the two pool to the
plan with a relative loss of a part in a million at most in any variance (mostly 1e-8), unless the plan's own directions
differ in strength by more than integers of 32 bits can follow. Their cost in whole numbers is never above the plan's.

Reference: common-mechanism, Sections 3 and 5.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from residua.errors import LongWarning, PlanError
from residua.linalg.arrays import Floats
from residua.plans.cells import Grouping, Refinement, refine
from residua.plans.combining import Progress, algebra_of, register_general
from residua.plans.contract import Plan
from residua.plans.matrix import loewner
from residua.plans.matrix.common import covariances, least_above, rows_of, shared_space
from residua.plans.matrix.integers import FILLING, noisier, nothing, realised, within
from residua.plans.matrix.loewner import Standard, standardise
from residua.plans.matrix.plan import MatrixPlan
from residua.plans.tolerances import MATRIX_ORDER_TOLERANCE

_LONG = 2048  # cells: from here on decompositions take minutes
_ROOM = 2.0**-31  # by this much a common plan stays below its candidates, beyond what rounding needs


@dataclass(frozen=True, eq=False)
class Compared:
    """Several plans as matrices over the same cells.

    Args:
        cells: the cells they tell apart.
        weights: the root of how many cells each column stands for, (columns,).
        rows: the rows of each plan, divided by its noise scale and multiplied by the weights.
    """

    cells: Refinement
    weights: Floats
    rows: tuple[Floats, ...]

    def standard(self) -> list[Standard]:
        """Each plan in standard form."""
        return [standardise(rows) for rows in self.rows]


def compared(plans: Sequence[Plan]) -> Compared:
    """Plans over one domain as matrices over the cells that any of them tells apart.

    Raises:
        PlanError: too many cells.
    """
    parts = [plan.over_cells() for plan in plans]
    cells = refine(plans[0].domain.sizes, [grouping for grouping, _ in parts])
    weights = np.sqrt(cells.sizes.astype(np.float64))
    if len(plans) > 1 and len(weights) > _LONG:
        warnings.warn(
            f"plans are combined by matrices over {len(weights):,} cells, which takes minutes; plans that share a "
            "strategy (form=rs.Tree(like=…), rs.Lattice(like=…), rs.Axis()) combine at once.",
            LongWarning,
            stacklevel=4,
        )
    lifted = tuple(
        np.asarray(cells.lifted(rows, which), dtype=np.float64) * weights for which, (_, rows) in enumerate(parts)
    )
    return Compared(cells, weights, lifted)


def compose(first: Plan, second: Plan) -> MatrixPlan:
    """The plan that runs both and pools what they measure."""
    together = compared([first, second])
    both = standardise(np.vstack(together.rows))
    spaces = [rows / together.weights for rows in together.rows]
    return realised(first, together.cells, both.rows / together.weights, "both plans together", spaces=spaces)


def can_answer(plan: Plan, other: Plan) -> bool:
    """Whether what `other` releases can be computed from what `plan` releases (Theorem 3.5)."""
    together = compared([plan, other])
    return loewner.answers(standardise(together.rows[0]), together.rows[1])


def derivation(plan: Plan, other: Plan) -> tuple[Floats, Floats]:
    """How another plan is computed from a plan: A and C with `B_other = A B` and `I = A Aᵀ + C Cᵀ`.

    For measurements divided by their noise scales: the other's are distributed as `A y + C z`, z standard normal.

    Raises:
        PlanError: the plan does not answer the other.

    Reference: common-mechanism, Lemma 3.2.
    """
    algebra_of([plan, other])
    have, wanted = compared([plan, other]).rows
    try:
        return loewner.derivation(have, np.eye(len(have)), wanted, np.eye(len(wanted)))
    except ValueError:
        raise PlanError("the plan does not answer the other, so no matrices turn its answers into theirs.") from None


def common(plans: Sequence[Plan], progress: Progress | None = None) -> MatrixPlan:
    """The most that all these plans release (Theorem 5.4 for two, Eq. 1 for more)."""
    together = compared(plans)
    candidates = together.standard()
    space = shared_space(candidates)
    if not len(space):
        return nothing(plans[0], "common to all candidates")
    above = least_above(covariances(candidates, space), progress=progress)
    rows = rows_of(space, above.covariance)
    rows = rows / np.sqrt(max(1.0, *(loewner.excess(one, rows) for one in candidates)))
    shared = realised(plans[0], together.cells, rows / together.weights, "common to all candidates", gap=above.gap)
    return _below(shared, plans[0], candidates, together)


def residual(plan: Plan, given: Plan) -> MatrixPlan:
    """What is left of a plan once `given` is known (Algorithm 3)."""
    together = compared([plan, given])
    have = together.rows[1]
    wanted = standardise(together.rows[0])
    exact = loewner.answers(wanted, have)
    if not exact and not _nearly(wanted, have):
        raise PlanError("given is not answered by the plan; use common([…]) first, or top_up for what is missing.")
    left = loewner.remainder(wanted, have) if exact else loewner.lacking(wanted, have)[0]
    rest = realised(
        plan, together.cells, left / together.weights, "what is left", spaces=[wanted.space / together.weights]
    )
    return within(rest, plan, given)


def top_up(plan: Plan, given: Sequence[Plan]) -> MatrixPlan:
    """The least to measure so that, pooled with all given, everything is at least as accurate as the plan says.

    Of the two ways of `loewner.lacking` the one after which the most expensive cell has cost less in all.
    """
    together = compared([plan, *given])
    have = np.vstack(together.rows[1:])
    wanted = standardise(together.rows[0])
    spent = (have**2).sum(axis=0)
    ways = loewner.lacking(wanted, have)
    chosen = min(ways, key=lambda rows: _most_expensive((spent + (rows**2).sum(axis=0)) / together.cells.sizes))
    spaces = [space / together.weights for space in (wanted.space, standardise(np.vstack(together.rows)).space)]
    missing = realised(plan, together.cells, chosen / together.weights, "what is missing", spaces=spaces)
    return within(missing, plan, *given) if loewner.answers(wanted, have) else missing


def _below(made: MatrixPlan, like: Plan, candidates: Sequence[Standard], together: Compared) -> MatrixPlan:
    """A common plan with noise raised until every candidate answers what its integers measure."""
    # No finer than the first, so that its order is the same.
    same = refine(like.domain.sizes, [together.cells, Grouping(made.attributes, made.columns)])
    rows = np.asarray(same.lifted(made.strategy / made.scale, 1), dtype=np.float64) * together.weights
    most = max(loewner.gain(one, rows) for one in candidates)
    return noisier(made, like, max(most * (1.0 + _ROOM), 1.0))


def _most_expensive(profile: Floats) -> float:
    """The cost of the most expensive cell; of plans in which that is the same, less for the cheaper on average."""
    return float(profile.max() + 1e-6 * profile.mean())


def _nearly(plan: Standard, given: Floats) -> bool:
    """Whether a plan answers all but the filling of a space with no whole numbers (see `filled_integers`)."""
    return bool(plan.sines(given).max() <= 2 * FILLING) and loewner.gain(plan, given) <= 1.0 + MATRIX_ORDER_TOLERANCE


register_general(sys.modules[__name__])
