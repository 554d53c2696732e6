"""What a product plan measures, and how it is read: whole tables, residuals, or pieces along one attribute."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from residua.errors import VerificationError
from residua.plans.product.crossed_blocks import CrossedBlocks, compile_crossed
from residua.plans.product.piece_blocks import ProductBlocks
from residua.plans.product.piece_reading import ProductReading
from residua.plans.product.set_blocks import LatticeBlocks, compile_blocks
from residua.plans.product.set_reading import CrossedReading, LatticeReading
from residua.plans.product.table_blocks import TableBlocks
from residua.plans.product.table_reading import TablesReading
from residua.plans.reading import Reading


def measurements_of(plan: Any) -> Any:
    """The integer measurements that realise a plan, with noise rounded up.

    Raises:
        VerificationError: nothing to measure, or noise that cannot be sampled exactly.
    """
    domain = plan.domain
    if plan.shares is not None:
        tables = plan.tables
        return TableBlocks(plan.lattice, domain.sizes, tables.measured, tables.grids, tables.scales, domain.names)
    if plan.attribute < 0:
        compiled = compile_crossed if plan.axes else compile_blocks
        return compiled(domain, plan.lattice, plan.precisions, plan.strategies)
    if not plan.parts:
        raise VerificationError("the plan has nothing to measure; what it answers is already known.")
    pieces = tuple(
        operator.piece(members, tuple(int(domain.sizes[i]) for i in members))
        for members, operator in plan.parts.items()
    )
    return ProductBlocks(domain.sizes, plan.attribute, pieces, domain.drops, domain.names)


def saved_measurements(plan: Any, arrays: Mapping[str, NDArray[Any]]) -> Any:
    """What was measured of residuals: the sets, grids and scales that a file keeps, with the plan's own strategies."""
    domain, kind = plan.domain, CrossedBlocks if plan.axes else LatticeBlocks
    kept = (arrays["measured"], arrays["grids"], arrays["scales"])
    return kind(plan.lattice, domain.sizes, *kept, plan.strategies, domain.drops, domain.names)


def estimator_of(plan: Any, blocks: Any, measurements: NDArray[Any]) -> Reading:
    """How estimates are read off measurements; the plan it states is the one really measured."""
    if plan.shares is not None:
        return TablesReading(plan, plan.tables, measurements)
    if plan.attribute < 0:
        kind = CrossedReading if plan.axes else LatticeReading
        return kind(plan.replaced(precisions=blocks.precisions), blocks, measurements)
    measured = {piece.members: piece.operator for piece in blocks.pieces}
    return ProductReading(plan.with_parts(measured), blocks, measurements)
