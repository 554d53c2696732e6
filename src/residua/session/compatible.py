"""Datasets compatible with what is known: how much the answers to a candidate's queries may still vary.

With K the known coordinates, each divided by its standard deviation, and k their estimates, a compatible dataset is
any `x ≥ 0` with `‖K x − k‖₁` at most `radius` above the least possible. Each random vector c picks one:
`min cᵀ W x`, a linear programme. If the candidate's noise exceeds the spread of `W x` over many such datasets, its
answers would tell nothing new.

Reference: common-mechanism, §6.1, Eq. 2. The paper asks for `‖K x − k‖₁ ≤ 2`, which no `x ≥ 0` may satisfy when an
estimate is negative; counting from the least possible misfit is the same wherever some x does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from residua.errors import PlanError
from residua.linalg.arrays import Floats
from residua.machine import block_array, csr_array, eye_array, vstack
from residua.plans.contract import Plan
from residua.release.base import Release
from residua.workload import Workload, explicit

RADIUS = 2.0
_MOST_CELLS = 4096


@dataclass(frozen=True, eq=False)
class Compatible:
    """Answers of datasets that are compatible with what is known, beside a candidate's noise.

    Args:
        labels: a label for every query.
        answers: what each sampled dataset answers, (samples, queries).
        stddevs: the candidate's noise on every query, (queries,).
    """

    labels: tuple[str, ...]
    answers: Floats
    stddevs: Floats

    @property
    def spread(self) -> Floats:
        """The standard deviation of each query over the sampled datasets, (queries,)."""
        return np.asarray(self.answers.std(axis=0, ddof=1))

    @property
    def ratio(self) -> float:
        """Spread beside noise, as root mean squares over the queries: below 1 the noise masks what may vary."""
        return math.sqrt(float((self.spread**2).sum() / (self.stddevs**2).sum()))


def compatible_answers(
    known: Release, candidate: Plan, workload: Workload, directions: ArrayLike, radius: float
) -> Compatible:
    """What datasets that fit the known estimates answer to a workload, one for each direction.

    Args:
        known: what was released so far.
        candidate: whose noise to compare with.
        workload: its queries.
        directions: c, (samples, queries).
        radius: how far, in standard deviations summed, a dataset may be from the estimates.

    Raises:
        PlanError: too many cells, or what is known does not bound the queries.
    """
    asked = workload.listed()
    wanted = np.atleast_2d(np.asarray(directions, dtype=np.float64))
    if wanted.shape[1:] != (asked.queries,) or len(wanted) < 2 or not np.isfinite(wanted).all():
        raise PlanError(f"directions must be at least two finite rows of {asked.queries} numbers; correct them.")
    attributes = tuple(sorted({*asked.attributes, *known.planned.measured_attributes}))
    domain = known.domain
    cells = math.prod(int(domain.sizes[i]) for i in attributes)
    if cells > _MOST_CELLS:
        raise PlanError(f"datasets over {cells:,} cells are too many to sample; candidates over up to {_MOST_CELLS}.")
    K, k = _coordinates(known, attributes)
    W = asked.over(attributes).toarray()
    points = _programmes(K, k, wanted @ W, radius)
    return Compatible(tuple(asked.labels), points @ W.T, np.sqrt(candidate.variances(workload)))


def _programmes(K: Floats, k: Floats, objectives: Floats, radius: float) -> Floats:
    """For each objective, `min objective · x` over the compatible datasets, (samples, cells)."""
    from scipy.optimize import linprog

    rows, cells = K.shape
    identity, sums = eye_array(rows), csr_array(np.r_[np.zeros(cells), np.ones(rows)].reshape(1, -1))
    misfit = block_array([[csr_array(K), -identity], [csr_array(-K), -identity]], format="csr")
    bounds, right = np.r_[np.zeros(cells), np.ones(rows)], np.r_[k, -k]
    least = linprog(bounds, A_ub=misfit, b_ub=right, method="highs")  # type: ignore[call-overload]
    if least.status:
        raise PlanError("no dataset fits what is known numerically; sample with a larger radius.")
    whole, limit = csr_array(vstack([misfit, sums])), np.r_[right, float(least.fun) + radius]
    points = []
    for objective in objectives:
        solved = linprog(np.r_[objective, np.zeros(rows)], A_ub=whole, b_ub=limit, method="highs")  # type: ignore[call-overload]
        if solved.status:
            raise PlanError("what is known does not bound these queries: anything is compatible with it.")
        points.append(solved.x[:cells])
    return np.array(points)


def _coordinates(known: Release, attributes: tuple[int, ...]) -> tuple[Floats, Floats]:
    """Uncorrelated known coordinates over their standard deviations: (rows, cells) and estimates, (rows,)."""
    grouping, rows, measured = known.estimator.whitened()
    if known.planned.family is None:  # rows may repeat each other: what they say together, along orthogonal rows
        U, s, Vt = np.linalg.svd(rows, full_matrices=False)
        kept = s > s.max() * 1e-12
        rows, measured = s[kept, None] * Vt[kept], U[:, kept].T @ measured
    wide = np.where(grouping.columns >= 0, rows[:, np.maximum(grouping.columns, 0)], 0.0)
    names = [known.domain.names[i] for i in grouping.attributes]
    return explicit(known.domain, wide, on=names).over(attributes).toarray(), measured
