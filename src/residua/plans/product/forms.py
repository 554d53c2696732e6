"""The three forms of a product plan: residuals of sets, pieces along one attribute, or whole tables with Laplace noise.

What each measures, how it is read, what files keep of it, what people are shown, and how it is written out as a matrix.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from residua.domain import Domain
from residua.errors import PlanError, VerificationError
from residua.linalg.arrays import Array, Floats, kronecker
from residua.plans.cells import MOST_COLUMNS, Grouping
from residua.plans.estimator import Estimator
from residua.plans.operators.contract import Operator, operator_of_body
from residua.plans.operators.correlated import ordered_of_body
from residua.plans.product.crossed_measurements import CrossedMeasurements, compile_crossed, tells_of, to_measure
from residua.plans.product.piece_estimator import PieceEstimator
from residua.plans.product.piece_measurements import PieceMeasurements
from residua.plans.product.set_estimator import CrossedEstimator, ResidualEstimator
from residua.plans.product.set_measurements import ResidualMeasurements, compile_residuals
from residua.plans.product.table_estimator import TablesEstimator
from residua.plans.statements import packed, unpacked
from residua.plans.strategy import strategy_of_body


def measurements_of(plan: Any) -> Any:
    """The integer measurements that realise a plan, with noise rounded up.

    Raises:
        VerificationError: nothing to measure, or noise that cannot be sampled exactly.
    """
    domain = plan.domain
    if plan.shares is not None:
        return plan.tables
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


def saved_measurements(plan: Any, arrays: Mapping[str, Array]) -> Any:
    """What was measured of residuals: the sets, grids and scales that a file keeps, with the plan's own strategies."""
    domain, kind = plan.domain, CrossedMeasurements if plan.axes else ResidualMeasurements
    kept = (arrays["measured"], arrays["grids"], arrays["scales"])
    return kind(plan.lattice, domain.sizes, *kept, plan.strategies, domain.drops, domain.names)


def estimator_of(plan: Any, measurements: Any, noisy: Array) -> Estimator:
    """How estimates are read off measurements; the plan it states is the one really measured."""
    if plan.shares is not None:
        return TablesEstimator(plan, measurements, noisy)
    if plan.attribute < 0:
        kind = CrossedEstimator if plan.axes else ResidualEstimator
        return kind(plan.replaced(precisions=measurements.precisions), measurements, noisy)
    measured = {piece.members: piece.operator for piece in measurements.pieces}
    return PieceEstimator(plan.with_parts(measured), measurements, noisy)


def rows_over_cells(plan: Any) -> tuple[Grouping, Floats]:
    """For each measured set, `√τ_T · ⊗_{i∈T} H_i ⊗_{i∉T} 1ᵀ ⊗ L_T` with `H_i = R_i/unit_i`, `L_TᵀL_T = A_T`.

    For the plain residual H is an orthonormal basis of what sums to 0: a plan for marginals has orthogonal rows.

    Raises:
        PlanError: too many cells for a matrix.
    """
    measured = np.flatnonzero(plan.precisions > 0)
    roots = np.sqrt(plan.precisions[measured]).tolist()
    sets = {plan.lattice.members(number): root for number, root in zip(measured.tolist(), roots, strict=True)}
    along = (plan.attribute,) if plan.attribute >= 0 else ()
    attributes = tuple(sorted({*along, *(i for members in sets for i in members)}))
    cells = math.prod(int(plan.domain.sizes[i]) for i in attributes)
    if cells > MOST_COLUMNS:
        raise PlanError(
            f"a plan that measures {cells:,} cells is too large for a matrix: it can be combined with other kinds of "
            "plans, or with plans that measure an attribute by another strategy, over at most "
            f"{MOST_COLUMNS:,}. Plan one like the other, with form=rs.Lattice(like=other) or form=rs.Tree(like=other): "
            "plans that share strategies combine over any number of cells. (Beside a plan of queries that tie "
            "attributes together, like that one.) Or plan over fewer attributes, or measure it by itself."
        )
    rows = [np.zeros((0, cells))]
    for members, root in sets.items():
        each = [
            plan.strategies[i].root if i in members else np.ones((1, int(plan.domain.sizes[i]))) for i in attributes
        ]
        if along:  # an operator has its own precision
            each[attributes.index(plan.attribute)] = plan.parts[members].root()
        rows.append(kronecker(each, 1.0 if along else root))
    return Grouping(attributes, np.arange(cells)), np.vstack(rows)


def tables_over_cells(plan: Any) -> tuple[Grouping, Floats]:
    """The cells of every measured table, times its grid and over its scale, in the order of the measurements.

    Raises:
        PlanError: too many cells for a matrix.
    """
    tables = plan.tables
    attributes = tuple(sorted({i for group in tables.layout for members in group.members.tolist() for i in members}))
    sizes = [int(plan.domain.sizes[i]) for i in attributes]
    if max(math.prod(sizes), tables.cells) > MOST_COLUMNS:
        raise PlanError(
            f"tables with Laplace noise that tell {math.prod(sizes):,} cells apart are too large to be combined with "
            f"others; at most {MOST_COLUMNS:,} can be. Measure them by themselves."
        )
    grids, scales = tables.on_lattice
    rows = []
    for group in tables.layout:
        for number, members in zip(group.numbers.tolist(), group.members.tolist(), strict=True):
            each = [np.eye(n) if i in members else np.ones((1, n)) for i, n in zip(attributes, sizes, strict=True)]
            rows.append(kronecker(each, grids[number] / scales[number]))
    return Grouping(attributes, np.arange(math.prod(sizes))), np.vstack(rows)


# ---- files


def kept(plan: Any) -> dict[str, Any]:
    """What files keep: operators by set, or a number per set; strategies only where some are not plain."""
    if plan.attribute >= 0:
        parts = [{"members": list(members), "operator": each.to_body()} for members, each in plan.parts.items()]
        axes = list[Any]()  # which operators share, each kept once
        for operator in (part["operator"] for part in parts if "axis" in part["operator"]):
            axes += [] if operator["axis"] in axes else [operator["axis"]]
            operator["axis"] = axes.index(operator["axis"])
        levels = [packed(parents) for parents in _levels(plan.parts)]
        return {"attribute": plan.attribute, "levels": levels, "axes": axes, "parts": parts}
    named, numbers = ("precisions", plan.precisions) if plan.shares is None else ("shares", plan.shares)
    plain = plan.plain and (plan.workload is None or plan.workload.plain)
    strategies = None if plain else [strategy.to_body() for strategy in plan.strategies]
    measured = to_measure(plan.lattice, plan.precisions, tells_of(plan.strategies)).tolist() if plan.axes else None
    return {named: numbers.tolist(), "measured": measured, "strategies": strategies}


def _levels(parts: Mapping[Any, Operator]) -> Sequence[Array]:
    """The declared levels along the attribute, where an operator measures them."""
    return next((each.levels for each in parts.values() if len(each.levels)), ())


def of_kept(cls: Any, domain: Domain, body: dict[str, Any], stated: dict[str, Any]) -> Any:
    """The plan of this class that plain values describe."""
    return _along(cls, domain, body, stated) if "parts" in body else _of_sets(cls, domain, body, stated)


def _along(cls: Any, domain: Domain, body: dict[str, Any], stated: dict[str, Any]) -> Any:
    attribute = int(body["attribute"])
    if not 0 <= attribute < len(domain):
        raise ValueError("it measures an attribute that the domain lacks")
    along, parts = domain[domain.names[attribute]], {}
    axes = [ordered_of_body(each, along.size) for each in body["axes"]]
    for part in body["parts"]:
        members = tuple(int(i) for i in part["members"])
        if list(members) != sorted({*members} & set(range(len(domain)))) or attribute in members or members in parts:
            raise ValueError("it measures a set of attributes twice, or one that there is not")
        parts[members] = operator_of_body(part["operator"], along, axes)
    levels = [unpacked(text, along.size) for text in body["levels"]]
    if len(levels) != len(_levels(parts)) or not all(map(np.array_equal, levels, _levels(parts))):
        raise ValueError("its levels are not those of its attribute")
    return cls.along(domain, attribute, parts, **stated)


def _of_sets(cls: Any, domain: Domain, body: dict[str, Any], stated: dict[str, Any]) -> Any:
    if "shares" in body:
        return cls.of_tables(domain, shares=np.array(body["shares"], dtype=np.float64), **stated)
    if body["strategies"] is not None:
        sized = zip(body["strategies"], domain.sizes.tolist(), strict=True)
        stated["strategies"] = tuple(strategy_of_body(each, size) for each, size in sized)
    plan = cls(domain, precisions=np.array(body["precisions"], dtype=np.float64), **stated)
    if not np.allclose(body["measured"] or [], kept(plan)["measured"] or [], rtol=1e-9, atol=0.0):
        raise ValueError("what it measures is not what makes its precisions")
    return plan


# ---- what people are shown


def described(plan: Any) -> tuple[tuple[str, str], ...]:
    """How a plan is measured, or what could be better, with a heading."""
    if plan.shares is not None:
        shares = plan.shares[plan.tables.measured]
        low, high = f"{shares.min():.3g}", f"{shares.max():.3g}"
        each = low if low == high else f"{low} to {high}"
        return (("Measured", f"{len(shares):,} marginals, at epsilon {each} each"),)
    if not plan.parts:
        return (("Better?", f"{plan.advice}, or [objective] dense = true"),) if plan.advice else ()
    along = [operator for operator in plan.parts.values() if operator.has_values] or [*plan.parts.values()]
    heading, text = along[0].described(plan.domain[plan.name], plan.name)
    crossed = [plan.domain.names[i] for i in plan.measured_attributes if i != plan.attribute]
    text += f", crossed with {', '.join(crossed)} in {len(plan.parts):,} sets" if crossed else ""
    return ((heading, f"{text}; {plan.measurements.cells:,} integers are measured"),)


def listed_tables(plan: Any) -> list[dict[str, Any]]:
    """The marginals that are measured as they are, each with its share of epsilon."""
    measured = plan.tables.measured
    rows = [plan.lattice.members(number) for number in measured.tolist()]
    return [
        {"attributes": [plan.domain.names[i] for i in row], "epsilon": share}
        for row, share in zip(rows, plan.shares[measured].tolist(), strict=True)
    ]


def in_brief(plan: Any) -> str:
    """What is measured and what it costs, in a few words."""
    cost = f"pcost={plan.pcost:.6g}" if plan.noise.gaussian else f"epsilon={plan.epsilon:.6g}"
    measured = int((plan.precisions > 0).sum())
    if plan.shares is not None:
        return f"{len(plan.tables.measured):,} marginals, {cost}"
    if plan.attribute >= 0:
        kinds = ", ".join(dict.fromkeys(operator.kind for operator in plan.parts.values()))
        return f"{plan.size:,} values of {plan.name!r} by {kinds or 'nothing'}, {measured:,} sets, {cost}"
    return f"{measured:,} {'residuals' if plan.plain else 'measurements'}, {cost}"
