"""Covariances under a residual plan, in closed form per pair of cells or per pair of marginals.

For cells a of marginal A and b of marginal B,
`cov = Σ_{S⊆A∩B} σ²_S Π_{i∈S}([a_i = b_i] − 1/n_i) Π_{i∈A∖S} 1/n_i Π_{i∈B∖S} 1/n_i`.
A linear combination q of cells has `Σ_S σ²_S ‖C_S q_S‖²` with q_S its coefficients averaged down to S.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from residua.domain import Domain, Label
from residua.errors import PlanError
from residua.plans.lattice.precisions import checked_coefficients

if TYPE_CHECKING:
    from residua.plans.lattice.residual_plan import ResidualPlan

Floats = NDArray[np.float64]
_MOST_ENTRIES = 2**27  # a gigabyte of covariances


def matrix(plan: ResidualPlan, first: Sequence[str], second: Sequence[str]) -> Floats:
    """Covariances between all cells of two marginals, (cells of the first, cells of the second)."""
    cells = [plan.domain.cells(names) for names in (first, second)]
    if cells[0] * cells[1] > _MOST_ENTRIES:
        raise PlanError(
            f"a covariance matrix of {cells[0]:,} by {cells[1]:,} cells is too large; "
            "ask cell_covariance for the pairs you need, or combination_variance for a sum."
        )
    _require(plan, first)
    _require(plan, second)
    rows, columns = plan.domain.positions(first), plan.domain.positions(second)
    axes = len(rows) + len(columns)
    sizes = plan.domain.sizes
    shape = [int(sizes[i]) for i in (*rows, *columns)]
    out = np.zeros(shape)
    for members, noise in _subsets(plan, sorted(set(rows) & set(columns))):
        term = np.full((1,) * axes, noise)
        for i in sorted({*rows, *columns}):
            n = int(sizes[i])
            at = [axis for axis, j in enumerate((*rows, *columns)) if j == i]
            factor_shape = [1] * axes
            for axis in at:
                factor_shape[axis] = n
            if i in members:
                term = term * (np.eye(n) - 1.0 / n).reshape(factor_shape)
            else:
                term = term * np.full(factor_shape, 1.0 / n ** len(at))
        out += term
    return out.reshape(cells[0], cells[1])


def of_cells(plan: ResidualPlan, cell: Mapping[str, Label], other: Mapping[str, Label]) -> float:
    """Covariance of two cells, each given as attribute → label."""
    first, second = codes(plan.domain, cell), codes(plan.domain, other)
    _require(plan, tuple(cell))
    _require(plan, tuple(other))
    n = {i: int(plan.domain.sizes[i]) for i in {*first, *second}}
    total = 0.0
    for members, noise in _subsets(plan, sorted(set(first) & set(second))):
        term = noise
        for i in members:
            term *= (first[i] == second[i]) - 1.0 / n[i]
        for marginal in (first, second):
            for i in marginal:
                if i not in members:
                    term /= n[i]
        total += term
    return total


def of_combination(plan: ResidualPlan, combination: Mapping[Sequence[str], ArrayLike]) -> float:
    """Variance of a linear combination of cells of any marginals."""
    if not combination:
        raise PlanError("combination is empty; give coefficients for at least one marginal.")
    parts: dict[tuple[int, ...], Floats] = {}
    for names, given in combination.items():
        positions = plan.domain.positions(names)
        _require(plan, tuple(names))
        coefficients = checked_coefficients(plan.domain, tuple(names), given)
        order = np.argsort(positions)
        coefficients, members = coefficients.transpose(order), tuple(sorted(positions))
        for size in range(len(members) + 1):
            for kept in combinations(range(len(members)), size):
                away = tuple(axis for axis in range(len(members)) if axis not in kept)
                subset = tuple(members[axis] for axis in kept)
                part = coefficients.mean(axis=away) if away else coefficients
                parts[subset] = parts.get(subset, np.zeros(part.shape)) + part
    total = 0.0
    for subset, noise in _subsets(plan, None, list(parts)):
        part = parts[subset]
        for axis in range(part.ndim):
            part = part - part.mean(axis=axis, keepdims=True)
        total += noise * float((part**2).sum())
    return total


def codes(domain: Domain, cell: Mapping[str, Label]) -> dict[int, int]:
    """Attribute position → code, from attribute → label."""
    if not isinstance(cell, Mapping):
        raise PlanError(f"cell={cell!r} is not a mapping from attributes to labels, such as {{'sex': 'Female'}}.")
    found = {}
    for name, label in cell.items():
        labels = domain[name].labels
        if label not in labels:
            raise PlanError(f"{name}={label!r} is not a value of the attribute {name!r}; see domain[{name!r}].labels.")
        found[domain.position(name)] = labels.index(label)
    return found


def _require(plan: ResidualPlan, names: Sequence[str]) -> None:
    plan.variance(names)


def _subsets(
    plan: ResidualPlan, members: Sequence[int] | None, listed: Sequence[tuple[int, ...]] = ()
) -> Iterator[tuple[tuple[int, ...], float]]:
    """Each subset (of these members, or of those listed) that is measured, with its noise variance σ²."""
    wanted = listed if members is None else [s for k in range(len(members) + 1) for s in combinations(members, k)]
    for subset in wanted:
        number = int(plan.lattice.find(np.array(subset, dtype=np.int32).reshape(1, -1))[0])
        if plan.precisions[number] > 0:  # else the residual is empty: `_require` has seen to the rest
            yield tuple(subset), float(plan.noise_variances[number])
