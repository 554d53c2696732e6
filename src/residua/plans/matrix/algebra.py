"""The algebra of all plans with Gaussian noise over few cells: through their matrices.

Everything is done on matrices over the cells that the plans tell apart, each column scaled by the root of the number of
cells it stands for, so that results depend on the table alone and not on how its cells were merged. Where the maximal
common mechanism is not unique it is the one of least trace in an orthonormal basis over the cells, or the one that
serves given queries best: of least trace in coordinates in which their total variance is the trace.

Results are plans of integers. `common` is scaled down until every candidate answers what will really be measured (by
about 1e-8), and `residual` is what is left of the plan after that, so that rounding wastes nothing: the two pool to the
plan with a relative loss of a part in a million at most in any variance (mostly 1e-8), unless the plan's own directions
differ in strength by more than integers of 32 bits can follow. Their cost in whole numbers is never above the plan's.

**What two mechanisms share**, the maximal mechanism that either of them answers, has a closed form. With orthonormal
rows B of the intersection of both spaces and `S_i = B Γ_i⁺ Bᵀ` the covariance with which mechanism i answers them, the
least covariance above both is `Σ = (S₁ + S₂)/2 + |S₂ − S₁|/2`.

When `S₂ − S₁` is indefinite there are many maximal common mechanisms; this one has the least trace of Σ *for an
orthonormal basis of the coordinates given*. Turning the basis changes nothing, scaling its coordinates does
(Theorems 5.2 to 5.4 and Algorithm 1, Stott).

**Three or more** share the least covariance above all, found by alternating directions with a certificate of its own.

    minimise tr S   subject to   S ⪰ S_i  for all i          (common-mechanism, Eq. 1)
    maximise Σ tr(S_i L_i)   subject to   L_i ⪰ 0, Σ L_i = I  (its dual)

Any iterate is made feasible for both problems, so that the gap at which it stops is proven, whatever came before.

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
from residua.plans.matrix.integers import FILLING, noisier, nothing, realised, within
from residua.plans.matrix.loewner import Standard, standardise
from residua.plans.matrix.plan import MatrixPlan
from residua.plans.tolerances import COMMON_TOLERANCE, MATRIX_ORDER_TOLERANCE, SINE_TOLERANCE
from residua.workload import Workload

_LONG = 2048  # cells: from here on decompositions take minutes
_ELSE = 2.0**-20  # of the mean importance: what no served query needs
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


def common(plans: Sequence[Plan], serving: Workload | None = None, progress: Progress | None = None) -> MatrixPlan:
    """The most that all these plans release (Theorem 5.4 for two, Eq. 1 for more), best for what it shall serve."""
    together = compared(plans)
    candidates = together.standard()
    space = shared_space(candidates)
    if not len(space):
        return nothing(plans[0], "common to all candidates")
    root = np.eye(len(space)) if serving is None else _root(_served(plans[0], together, space, serving) @ space.T)
    turned = root @ space  # of least trace in these coordinates
    above = least_above(covariances(candidates, turned), progress=progress)
    rows = rows_of(turned, above.covariance)
    rows = rows / np.sqrt(max(1.0, *(loewner.excess(one, rows) for one in candidates)))
    shared = realised(plans[0], together.cells, rows / together.weights, "common to all candidates", gap=above.gap)
    return _below(shared, plans[0], candidates, together)


def _served(like: Plan, together: Compared, space: Floats, workload: Workload) -> Floats:
    """Queries over the cells, times the roots of their weights, scaled as the rows of plans are, (queries, columns).

    Raises:
        PlanError: one that not all plans answer.
    """
    every = realised(like, together.cells, space / together.weights, "what all candidates answer")
    try:
        asked = every.coordinates(workload) @ every.factors[2]
    except PlanError:
        raise PlanError(
            "serving asks for queries that not every candidate answers, so that no look can; ask for those they share."
        ) from None
    same = refine(like.domain.sizes, [together.cells, Grouping(every.attributes, every.columns)])
    importance = np.sqrt(every.asked(workload).query_weights)
    return np.asarray(same.lifted(asked * importance[:, None], 1) * together.weights)


def _root(queries: Floats) -> Floats:
    """R with `RᵀR = QᵀQ`, and a little of everything else, so that nothing is given away, (k, k)."""
    values, vectors = np.linalg.eigh(queries.T @ queries)
    return np.asarray(np.sqrt(np.maximum(values, 0.0) + _ELSE * float(values.sum()) / len(values))[:, None] * vectors.T)


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
    costs = [(spent + (rows**2).sum(axis=0)) / together.cells.sizes for rows in ways]
    chosen = ways[int(np.argmin([cost.max() + 1e-6 * cost.mean() for cost in costs]))]  # if the same, less on average
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


def _nearly(plan: Standard, given: Floats) -> bool:
    """Whether a plan answers all but the filling of a space with no whole numbers (see `filled_integers`)."""
    return bool(plan.sines(given).max() <= 2 * FILLING) and loewner.gain(plan, given) <= 1.0 + MATRIX_ORDER_TOLERANCE


register_general(sys.modules[__name__], gaussian=True)


def intersection(first: Floats, second: Floats) -> Floats:
    """Orthonormal rows that span what two spaces, given by orthonormal rows, have in common, (k, cells).

    By sines: a direction of the first is common if it leaves the second by less than SINE_TOLERANCE.
    """
    if not len(first) or not len(second):
        return np.zeros((0, first.shape[1]))
    if len(second) == second.shape[1]:
        return first
    outside = first - (first @ second.T) @ second
    # (rows, cells): the combinations of rows of the first space, ordered by how far they leave the second
    combinations, sines, _ = np.linalg.svd(outside, full_matrices=False)
    return np.asarray(combinations[:, sines < SINE_TOLERANCE].T @ first)


def shared_space(mechanisms: Sequence[Standard]) -> Floats:
    """Orthonormal rows that span what all these mechanisms measure, (k, cells)."""
    # The smallest first: each step is then as cheap as it can be.
    ordered = sorted(mechanisms, key=lambda mechanism: mechanism.rank)
    space = ordered[0].space
    for mechanism in ordered[1:]:
        space = intersection(space, mechanism.space)
    return space


def covariances(mechanisms: Sequence[Standard], space: Floats) -> list[Floats]:
    """`S_i = B Γ_i⁺ Bᵀ`: the covariance with which each mechanism answers the rows of a space, (k, k) each."""
    expressed = [mechanism.expressed(space) for mechanism in mechanisms]
    return [A @ A.T for A in expressed]


def least_above_two(first: Floats, second: Floats) -> Floats:
    """The matrix of least trace above two symmetric ones in the Loewner order (Theorem 5.4)."""
    values, vectors = np.linalg.eigh(second - first)
    above = first + (vectors * np.maximum(values, 0.0)) @ vectors.T
    return np.asarray((above + above.T) / 2)


def rows_of(space: Floats, covariance: Floats) -> Floats:
    """Rows L with `LᵀL = Bᵀ Σ⁻¹ B`: measuring B with covariance Σ, in standard form, (k, cells)."""
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray((vectors / np.sqrt(values)).T @ space)


_LIMIT = 20_000
_CHECK = 10
_RATIO, _STEP = 5.0, 1.6  # the step size follows when one residual is this many times the other
_RELAXED = 1.5  # over-relaxation: a fifth fewer rounds
_SETTLED = 500  # rounds after which the step size stays, so that it cannot go back and forth forever
_EQUAL = 1e-12


@dataclass(frozen=True, eq=False)
class Above:
    """A matrix above all given ones, with the proof of how far from the least trace it is.

    Args:
        covariance: S, feasible, (k, k).
        bound: no feasible matrix has a smaller trace.
        iterations: how many rounds it took; 0 for a closed form.
    """

    covariance: Floats
    bound: float
    iterations: int

    @property
    def gap(self) -> float:
        """How far the trace is above the bound, relative; not below 0, where rounding may take it."""
        return max(float(np.trace(self.covariance)) / self.bound - 1.0, 0.0) if self.bound > 0 else 0.0


def least_above(
    matrices: Sequence[Floats],
    tolerance: float = COMMON_TOLERANCE,
    progress: Progress | None = None,
    limit: int = _LIMIT,
) -> Above:
    """The matrix of least trace above all these positive definite ones, to a certified relative gap.

    Those below another are left out first: nested mechanisms and pairs need no iteration.

    Guarantee: `covariance ⪰ S_i` for every i up to rounding, and `gap` is proven; it exceeds the tolerance only if the
    limit of rounds was reached.
    """
    kept = _undominated(matrices)
    if len(kept) <= 2:
        least = kept[0] if len(kept) == 1 else least_above_two(*kept)
        return Above(least, float(np.trace(least)), 0)
    scale = max(float(np.trace(S)) for S in kept) / len(kept[0])
    least, bound, rounds = _alternate(np.array(kept) / scale, tolerance, progress, limit)
    return Above(least * scale, bound * scale, rounds)


def _alternate(targets: Floats, tolerance: float, progress: Progress | None, limit: int) -> tuple[Floats, float, int]:
    """Alternating directions on `min tr S, S − S_i = Y_i ⪰ 0`; targets is (mechanisms, k, k)."""
    count, size = len(targets), targets.shape[1]
    rho, eye = 1.0, np.eye(size)
    U, Y = np.zeros_like(targets), np.zeros_like(targets)
    best, bound = _feasible(targets.mean(axis=0), targets), 0.0
    for iteration in range(1, limit + 1):
        S = (Y + targets - U).mean(axis=0) - eye / (count * rho)
        before = Y
        ahead = _RELAXED * (S - targets) + (1.0 - _RELAXED) * before
        Y = _positive(ahead + U)
        U = U + (ahead - Y)
        primal, dual = np.linalg.norm(S - targets - Y), rho * np.linalg.norm((Y - before).sum(axis=0))
        if iteration % _CHECK == 0:
            feasible = _feasible(S, targets)
            best = feasible if np.trace(feasible) < np.trace(best) else best
            bound = max(bound, _dual_bound(-rho * U, targets))
            gap = float(np.trace(best)) / bound - 1.0 if bound > 0 else np.inf
            if progress:
                progress(iteration, gap)
            if gap <= tolerance:
                break
        if iteration > _SETTLED:
            continue
        if primal > _RATIO * dual:
            rho, U = rho * _STEP, U / _STEP
        elif dual > _RATIO * primal:
            rho, U = rho / _STEP, U * _STEP
    return best, bound, iteration


def _feasible(S: Floats, targets: Floats) -> Floats:
    """The matrix raised, in turn, above every target."""
    for target in targets:
        S = S + _positive((target - S)[None])[0]
    return (S + S.T) / 2


def _dual_bound(multipliers: Floats, targets: Floats) -> float:
    """`Σ tr(S_i L_i)` for multipliers made positive and to sum to the identity: a bound on every feasible trace."""
    L = _positive(multipliers)
    values, vectors = np.linalg.eigh(L.sum(axis=0))
    if values[0] <= values[-1] * 1e-12:
        return 0.0
    root = (vectors / np.sqrt(values)) @ vectors.T
    # tr(S R L R) for each, R symmetric
    return float(np.einsum("iab,iba->", root @ targets @ root, L))


def _positive(matrices: Floats) -> Floats:
    """The positive part of each symmetric matrix."""
    values, vectors = np.linalg.eigh((matrices + matrices.swapaxes(-1, -2)) / 2)
    return np.asarray((vectors * np.maximum(values, 0.0)[..., None, :]) @ vectors.swapaxes(-1, -2))


def _undominated(matrices: Sequence[Floats]) -> list[Floats]:
    """Those that are below no other; of equal ones, the first."""
    kept: list[Floats] = []
    for S in matrices:
        if any(_answered_by(S, other) for other in kept):
            continue
        kept = [*(other for other in kept if not _answered_by(other, S)), S]
    return kept


def _answered_by(S: Floats, other: Floats) -> bool:
    return float(np.linalg.eigvalsh(other - S)[0]) >= -_EQUAL * float(np.trace(other))
