"""What a product plan measures, and how it is read: whole tables, residuals, or pieces along one attribute."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from residua.errors import VerificationError
from residua.plans.estimator import Estimator
from residua.plans.product.crossed_measurements import CrossedMeasurements, compile_crossed
from residua.plans.product.piece_estimator import PieceEstimator
from residua.plans.product.piece_measurements import PieceMeasurements
from residua.plans.product.set_estimator import CrossedEstimator, ResidualEstimator
from residua.plans.product.set_measurements import ResidualMeasurements, compile_residuals
from residua.plans.product.table_estimator import TablesEstimator
from residua.plans.product.table_measurements import TableMeasurements


def measurements_of(plan: Any) -> Any:
    """The integer measurements that realise a plan, with noise rounded up.

    Raises:
        VerificationError: nothing to measure, or noise that cannot be sampled exactly.
    """
    domain = plan.domain
    if plan.shares is not None:
        tables = plan.tables
        return TableMeasurements(plan.lattice, domain.sizes, tables.measured, tables.grids, tables.scales, domain.names)
    if plan.attribute < 0:
        compiled = compile_crossed if plan.axes else compile_residuals
        return compiled(domain, plan.lattice, plan.precisions, plan.strategies)
    if not plan.parts:
        raise VerificationError("the plan has nothing to measure; what it answers is already known.")
    pieces = tuple(
        operator.piece(members, tuple(int(domain.sizes[i]) for i in members))
        for members, operator in plan.parts.items()
    )
    return PieceMeasurements(domain.sizes, plan.attribute, pieces, domain.drops, domain.names)


def saved_measurements(plan: Any, arrays: Mapping[str, NDArray[Any]]) -> Any:
    """What was measured of residuals: the sets, grids and scales that a file keeps, with the plan's own strategies."""
    domain, kind = plan.domain, CrossedMeasurements if plan.axes else ResidualMeasurements
    kept = (arrays["measured"], arrays["grids"], arrays["scales"])
    return kind(plan.lattice, domain.sizes, *kept, plan.strategies, domain.drops, domain.names)


def estimator_of(plan: Any, measurements: Any, noisy: NDArray[Any]) -> Estimator:
    """How estimates are read off measurements; the plan it states is the one really measured."""
    if plan.shares is not None:
        return TablesEstimator(plan, plan.tables, noisy)
    if plan.attribute < 0:
        kind = CrossedEstimator if plan.axes else ResidualEstimator
        return kind(plan.replaced(precisions=measurements.precisions), measurements, noisy)
    measured = {piece.members: piece.operator for piece in measurements.pieces}
    return PieceEstimator(plan.with_parts(measured), measurements, noisy)
