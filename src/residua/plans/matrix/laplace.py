"""The algebra of all plans with Laplace noise over few cells, row by row: what each row is, and its precision ε².

A row `c`, its largest entry 1, is measured with Laplace noise of scale 1/ε. Measured several times independently it is
known with the precision `Σ ε²`; and what is known with ε can be computed from what is known with ε' > ε: as it is with
probability `(ε/ε')²`, else with Laplace noise of scale 1/ε added. Rows are compared one by one: that a row follows from
several others is not seen, so that `can_answer` and `top_up` are on the safe side.

Reference: Koufogiannis, Han and Pappas (2015), "Gradual release of sensitive data under differential privacy";
common-mechanism, §4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from residua.errors import PlanError
from residua.linalg.arrays import Floats
from residua.plans.algebra import ElementwiseAlgebra
from residua.plans.cells import Refinement, coarsened, refine
from residua.plans.combining import register_general
from residua.plans.contract import Plan
from residua.plans.matrix.integers import LARGEST_ENTRY, LARGEST_SCALE, guaranteed, nothing
from residua.plans.matrix.measurements import column_sum
from residua.plans.matrix.plan import MatrixPlan
from residua.plans.noise import LAPLACE
from residua.plans.tolerances import MATRIX_ORDER_TOLERANCE
from residua.workload import Workload

_ALIKE = 1e-7  # of the largest entry: rows that differ by less are one; integers are rounded to a billionth
_NOTHING = 2.0**-34  # of the most precise row: a row with a hundred-thousandth of its epsilon is left out


@dataclass(frozen=True, eq=False)
class _Rows:
    """The cells that any of some plans tells apart, the different rows over them, and the first plan's precisions."""

    plan: Plan
    cells: Refinement
    units: Floats
    squares: Floats


def _lacking(wanted: Floats, have: Floats) -> Floats:
    """What precisions lack; less than integers can follow is nothing."""
    left = wanted - have
    return np.where(left > MATRIX_ORDER_TOLERANCE * wanted + _NOTHING * wanted.max(initial=0.0), left, 0.0)


def _aligned(plans: Sequence[Plan]) -> tuple[_Rows, list[Floats]]:
    """The rows that any plan measures, and everyone's precision of each."""
    parts = [plan.laplace_rows() for plan in plans]
    cells = refine(plans[0].domain.sizes, [grouping for grouping, _ in parts])
    lifted = [np.asarray(cells.lifted(rows, which), dtype=np.float64) for which, (_, rows) in enumerate(parts)]
    stacked = np.vstack(lifted)
    epsilons = np.abs(stacked).max(axis=1)
    units = np.divide(stacked, epsilons[:, None], out=np.zeros_like(stacked), where=epsilons[:, None] > 0)
    largest = np.argmax(np.abs(units) > 1.0 - _ALIKE, axis=1)
    units *= np.sign(units[np.arange(len(units)), largest])[:, None]
    owner = np.repeat(np.arange(len(plans)), [len(rows) for rows in lifted])
    order = np.argsort(units @ np.cos(np.arange(units.shape[1])), kind="stable")
    differs = np.abs(np.diff(units[order], axis=0)).max(axis=1, initial=0.0) > _ALIKE
    labels = np.concatenate([[0], np.cumsum(differs)])
    which = np.empty(len(units), dtype=np.int64)
    which[order] = labels
    kept = order[np.concatenate([[True], differs])]
    squares = np.zeros((len(plans), len(kept)))
    np.add.at(squares, (owner, which), epsilons**2)
    return _Rows(plans[0], cells, units[kept], squares[0]), list(squares)


def _plan_of(measured: _Rows, squares: Floats, objective: str, workload: Workload | None) -> Plan:
    """The plan that measures these rows with these precisions; the first one itself, where that does."""
    like, cells, used = measured.plan, measured.cells, squares > 0
    if (squares == measured.squares).all():
        return like.replaced(workload=workload, objective=objective, gap=np.inf, candidates=(), lower_bound=0.0)
    if not used.any():
        return nothing(like, objective)
    rows = measured.units[used] * np.sqrt(squares[used])[:, None]
    strategy, scale = whole_rows(rows, LARGEST_ENTRY)
    # Rounding is at the cost of accuracy, not of privacy.
    scale *= max(column_sum(strategy) / scale / float(np.abs(rows).sum(axis=0).max()), 1.0) * (1.0 + 2.0**-50)
    grouping, strategy = coarsened(like.domain.sizes, cells.attributes, cells.columns, strategy)
    plan = MatrixPlan(like.domain, grouping.attributes, grouping.columns, strategy, scale, LAPLACE, unit=like.unit)
    return guaranteed(plan.replaced(workload=workload, objective=objective), like)


def whole_rows(rows: Floats, largest: float) -> tuple[Any, float]:
    """Rows over their noise scales as integers with one scale, and that.

    Raises:
        PlanError: rounding them leaves the space that they span, so that queries would no longer be answered.
    """
    scale = min(largest / float(np.abs(rows).max()), LARGEST_SCALE / 4)  # for it may be raised
    whole = np.rint(rows * scale)
    if min(rows.shape) and np.linalg.matrix_rank(whole, rtol=1e-10) > np.linalg.matrix_rank(rows, rtol=1e-10):
        raise PlanError("these measurements have no common integers; measure the plans one by one, or plan them alike.")
    return whole.astype(np.int64), scale


register_general(ElementwiseAlgebra(_aligned, _plan_of, _lacking), gaussian=False)
