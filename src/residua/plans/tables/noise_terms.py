"""Which noise is in an answer pooled from noisy tables: the coefficient of every measured cell, by value.

A linear combination of cells is `Σ_S ⟨q_S, r̂_S⟩` over residuals, with `q_S = Σ_A C_S margin_S(c_A)/Π_{i∈A∖S} n_i`, and
`r̂_S = C_S P_S/τ_S` (see `pooling`). So a measured cell of table B has the coefficient
`(1/v_B) Σ_{S⊆B} q_S/τ_S · Π_{i∈B∖S} 1/n_i` at its own place. Only `D = B ∩ ∪A` matters: cells of B that agree on D have
the same coefficient, and tables with the same D differ by the factor `Π_{i∈B∖D} 1/n_i / v_B`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from residua.linalg.arrays import Floats, Integers
from residua.plans.tables.measured import MeasuredTables

Terms = tuple[Floats, Floats, Floats]
_MOST_JOINT = 2**18  # cells of the joint table of a combination's sets
_STEP = 1e-4  # coefficients this close, relatively, are one; the larger stands for both


def noise_terms(tables: MeasuredTables, combination: Mapping[Sequence[str], ArrayLike]) -> list[Terms]:
    """Coefficients, noise scales and multiplicities of the noise in a combination of cells; 0s are left out.

    One triple; or one for each set, to be bounded apart, where their joint table would be too large. Coefficients that
    nearly agree are merged and rounded up: a sum of symmetric unimodal variables only strays further for it.
    """
    sets = {tuple(names): np.asarray(given, dtype=np.float64) for names, given in combination.items()}
    union = sorted({i for names in sets for i in tables.domain.positions(names)})
    if len(sets) > 1 and math.prod(int(tables.domain.sizes[i]) for i in union) > _MOST_JOINT:
        return [_terms(tables, {names: given}) for names, given in sets.items()]
    return [_terms(tables, sets)]


def _terms(tables: MeasuredTables, sets: dict[tuple[str, ...], Floats]) -> Terms:
    sizes = tables.domain.sizes.astype(np.float64)
    residuals: dict[tuple[int, ...], Floats] = {}
    for names, given in sets.items():
        positions = tables.domain.positions(names)
        inner = given.transpose(np.argsort(positions))
        for members, part in _residuals(tables, tuple(sorted(positions)), inner):
            residuals[members] = residuals.get(members, 0.0) + part
    union = sorted({i for members in residuals for i in members})
    inside, outside = _tables(tables, union)
    found: list[tuple[Floats, Floats, Floats]] = []
    for code in np.unique(inside):
        here = np.flatnonzero(inside == code)
        D = tuple(i for bit, i in enumerate(union) if code >> bit & 1)
        values, counts = _distinct(np.abs(_spread(residuals, D, sizes)).ravel())
        kept = values > 0
        if not kept.any():
            continue
        values, counts = values[kept], counts[kept]
        weight = tables.cell_precisions[tables.measured[here]] / tables.grids[here] / outside[here]
        found.append(
            (
                np.multiply.outer(weight, values).ravel(),
                np.repeat(tables.scales[here], len(values)),
                np.multiply.outer(outside[here], counts).ravel(),
            )
        )
    return _merged(*(np.concatenate(part) for part in zip(*found, strict=True)))


def _residuals(tables: MeasuredTables, members: tuple[int, ...], given: Floats) -> list[tuple[tuple[int, ...], Floats]]:
    """`C_S margin_S(c)/Π_{i∈A∖S} n_i/τ_S` for every S ⊆ A, where the residual is not empty."""
    found = []
    precisions = tables.pooled_precisions
    for size in range(len(members) + 1):
        for chosen in combinations(range(len(members)), size):
            S = tuple(members[j] for j in chosen)
            tau = float(precisions[int(tables.lattice.find(np.array(S, dtype=np.int32).reshape(1, -1))[0])])
            if tau == 0:  # a residual that is empty
                continue
            rest = tuple(j for j in range(len(members)) if j not in chosen)
            part = given.sum(axis=rest) / math.prod(given.shape[j] for j in rest)
            for axis in range(part.ndim):
                part = part - part.mean(axis=axis, keepdims=True)
            found.append((S, part / tau))
    return found


def _tables(tables: MeasuredTables, union: list[int]) -> tuple[Integers, Floats]:
    """For each measured table, which attributes of the union it has (as bits), and `Π n_i` of its others."""
    inside, outside = [], []
    bit = np.zeros(len(tables.domain.sizes), dtype=np.int64)
    bit[union] = 2 ** np.arange(len(union), dtype=np.int64)
    sizes = np.where(bit > 0, 1.0, tables.domain.sizes)
    for level in tables.lattice.levels:
        inside.append(bit[level].sum(axis=1))
        outside.append(sizes[level].prod(axis=1))
    return np.concatenate(inside)[tables.measured], np.concatenate(outside)[tables.measured]


def _spread(residuals: Mapping[tuple[int, ...], Floats], D: tuple[int, ...], sizes: Floats) -> Floats:
    """`Σ_{S⊆D} q_S/τ_S Π_{i∈D∖S} 1/n_i`, over the cells of D."""
    total = np.zeros([int(sizes[i]) for i in D])
    for S, part in residuals.items():
        if set(S) <= set(D):
            wide = [int(sizes[i]) if i in S else 1 for i in D]
            total = total + np.reshape(part, wide) / math.prod(sizes[i] for i in D if i not in S)
    return np.asarray(total)


def _distinct(values: Floats) -> tuple[Floats, Floats]:
    """Distinct values, equal up to rounding, and how often each occurs."""
    top = float(values.max(initial=0.0))
    if top == 0:
        return np.zeros(1), np.array([float(len(values))])
    keys = np.where(values > 1e-13 * top, values, 0.0)
    return _grouped(keys, np.ones(len(keys)))


def _merged(coefficients: Floats, scales: Floats, counts: Floats) -> Terms:
    """Terms whose `coefficient · scale` nearly agree as one, the largest standing for all."""
    if len(coefficients) < 64:
        return coefficients, scales, counts
    sizes, merged = _grouped(coefficients * scales, counts)
    # Only the product and, for the rounding, coefficients matter: the smallest scale overstates the latter.
    least = float(scales.min())
    return sizes / least, np.full(len(sizes), least), merged


def _grouped(values: Floats, counts: Floats) -> tuple[Floats, Floats]:
    positive = values > 0
    keys = np.zeros(len(values))
    keys[positive] = np.ceil(np.log(values[positive]) / _STEP)
    labels = np.where(positive, keys, -np.inf)
    _, inverse = np.unique(labels, return_inverse=True)
    top = np.zeros(int(inverse.max()) + 1)
    np.maximum.at(top, inverse, values)
    return top, np.bincount(inverse, weights=counts).astype(np.float64)
