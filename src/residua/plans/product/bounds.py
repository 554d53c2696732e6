"""Proofs: what no plan of a class can beat.

Weights on terms, rows and values turn into lower bounds. Within this plan's split (its spread vectors v), the blocks
are independent, and weights `q = ⊗ q_i` on cells give, for every plan that measures each block by itself,
`loss ≥ (Σ_S tr (Σ_f û_S^f ⊗_{i∈S} G_i^f)^½)²` over families f, with G the Gram matrices that `attribute.weighed_gram`
makes of the rows asked. Where all families ask the same of a block's attributes the trace is a product of traces; where
they differ in attributes with few values together, it is taken of the sum itself; and elsewhere `(tr √·)²` is
superadditive. Against all plans whatever the Gram matrix of the whole workload counts: `loss ≥ (tr (Q^½ 𝕍 Q^½)^½)²`,
formed on the orthogonal sum of blocks when that is small.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product as crossed
from typing import Any

import numpy as np

from residua.language import mark
from residua.linalg.arrays import Floats, Integers, kronecker
from residua.linalg.lattice import SetFamily
from residua.plans.objectives import TotalVariance
from residua.plans.saddle import Effort
from residua.plans.solver.attribute import weighed_gram
from residua.plans.solver.closed_form import MarginalGame, ProductGame
from residua.plans.solver.tilting import designed
from residua.privacy.costs import Reach
from residua.workload import Workload

MOST_DIMENSIONS = 1500
_MOST_WORK = 10**10  # cubed dimensions: some seconds
_LARGEST_SUM = 1000
_FEW_CELLS, _FEW_ENTRIES = 1024, 2**24  # a matrix plan takes a second or two at most
_WORTH_SAYING = 0.01


def class_bound(
    workload: Workload,
    weights: Floats,
    dilutions: Floats,
    grams: list[list[Floats]],
    spreads: list[Floats],
    cells: list[Floats | None],
    paid: Floats | None = None,
    *,
    replacing: bool = False,
) -> float:
    """The least weighted sum of mean variances of any plan in the class of these spreads, at privacy cost 1.

    Args:
        workload: what is asked.
        weights: on the terms.
        dilutions: the mean of `(wᵀv)²` for each family and attribute, (families, attributes).
        grams: for each family and attribute the Gram matrix that its means are taken with.
        spreads: v of each attribute.
        cells: q of each attribute; None for a plain one.
        paid: what some change of the data costs in every block at least, relative to one record drawn by q, (sets,);
            the bound is then on plans that cost 1 for that change. 1 everywhere if left out.
        replacing: whether a record drawn by q takes the place of another, in place of being added.
    """
    sizes = workload.domain.sizes
    known: dict[tuple[bytes, bytes, bytes], tuple[int, Floats, float]] = {}
    plain = np.empty((0, 0))
    weighed: list[list[tuple[int, Floats, float]]] = []  # a number for each distinct G, G itself, and tr √G
    for row in grams:
        weighed.append([])
        for V, v, q, n in zip(row, spreads, cells, sizes.tolist(), strict=True):
            if q is None:
                weighed[-1].append((0, plain, 1.0 - 1.0 / n))
                continue
            key = (V.tobytes(), v.tobytes(), q.tobytes())
            if key not in known:
                G = weighed_gram(V, v, q, replacing=replacing)
                known[key] = (len(known) + 1, G, _root_trace(G))
            weighed[-1].append(known[key])
    traces = np.array([[trace for _, _, trace in row] for row in weighed])
    parts = ProductGame(workload, np.ones(len(spreads)), traces**2, dilutions).importances(weights)
    roots = np.sqrt(parts.sum(axis=0))
    kinds = np.array([[number for number, _, _ in row] for row in weighed])
    _sharpen(roots, parts, workload.lattice, kinds, [[G for _, G, _ in row] for row in weighed])
    return float(roots.sum() if paid is None else np.sqrt(paid) @ roots) ** 2


def _sharpen(roots: Floats, parts: Floats, lattice: SetFamily, kinds: Floats, grams: list[list[Floats]]) -> None:
    """Takes the traces of sums of different Gram matrices themselves, largest blocks first, while it is cheap."""
    mixed = np.flatnonzero((kinds != kinds[0]).any(axis=0))
    if not len(mixed):
        return
    work = _MOST_WORK
    sets = list(lattice)
    for number in np.argsort(-roots).tolist():
        inside = [f for f in range(len(parts)) if parts[f, number] > 0]
        different = [i for i in sets[number] if i in mixed and len({kinds[f, i] for f in inside}) > 1]
        size = math.prod(len(grams[inside[0]][i]) for i in different) if different else 0
        if not 0 < size <= _LARGEST_SUM or size**3 > work:
            continue
        work -= size**3
        total = np.zeros((size, size))
        for f in inside:
            factor = kronecker(grams[f][i] for i in different)
            total += factor * (parts[f, number] / _root_trace(factor) ** 2)
        roots[number] = max(roots[number], _root_trace(total))


def _root_trace(gram: Floats) -> float:
    """`tr √G`."""
    return float(np.sqrt(np.maximum(np.linalg.eigvalsh(gram), 0.0)).sum())


def replaced(lattice: SetFamily) -> Floats:
    """What replacing a record costs at least, relative to `⊗ (diag q − q qᵀ)`, both cells drawn by q, (sets,).

    The mean cost of block S is `2 tr Γ_S (⊗ diag q_i − ⊗ q_i q_iᵀ)`, and the matrix in brackets is at least
    `⊗ (diag q_i − q_i q_iᵀ)` for S ≠ ∅. The total does not change.
    """
    return np.concatenate([[0.0], np.full(len(lattice) - 1, 2.0)])


def persons(lattice: SetFamily, sizes: Integers, reach: Reach, *, plain: bool = False) -> Iterator[Floats]:
    """What some persons cost at least, relative to one record drawn by q, uniform where limited, (sets,) each.

    `h` groups of l records, alike but for some limited attributes V, of which each group has values of its own, drawn
    at random. A block without V costs `h² l²` times one record. With V, pairs of groups meet in values that differ: on
    average they cost `Π_{i∈S∩V} m_i` times one record, `m_i ≥ −1/(n_i − 1)`, and that itself for plain strategies.

    Args:
        lattice: the sets.
        sizes: how many values each attribute has, (attributes,).
        reach: what persons can do.
        plain: whether all limited attributes are measured by the plain residual.
    """
    limits = reach.limits
    for varied in {(), *((i,) for i in limits), tuple(limits)}:
        most = min([reach.records, *(limit for i, limit in limits.items() if i not in varied)])  # alike elsewhere
        size = min([most, *(limits[i] for i in varied)])
        groups = min([most // size, *(int(sizes[i]) for i in varied)])
        ratios = np.ones(len(sizes))
        ratios[list(varied)] = -1.0 / (sizes[list(varied)] - 1.0)
        met = lattice.products(ratios)
        if not plain and len(varied) > 1:
            with_any = lattice.maxima(np.where(ratios < 0, -ratios, -np.inf))
            met = np.where(np.isfinite(with_any), -with_any, 1.0)
        for h in {1, *(max(groups * share // 8, 1) for share in range(1, 9))}:
            yield np.asarray(float(size) ** 2 * np.maximum(h + h * (h - 1.0) * met, 0.0))


def least_for_persons(workload: Workload, reach: Reach) -> float:
    """No plan whatever that costs persons 1 has a smaller total variance, whatever residua would ask for it.

    The cost is at least the mean over random persons (`persons`), who treat the values of an attribute alike.
    """
    sizes = workload.domain.sizes
    game = MarginalGame(workload.lattice, sizes, workload.numbers)
    roots = game.cost * np.sqrt(game.importance(workload.weights * workload.cells))
    return max(float(np.sqrt(paid) @ roots) ** 2 for paid in persons(workload.lattice, sizes, reach, plain=True))


def compared_with(plan: Any) -> str:
    """What the gap of a plan of products compares it with, where that is not all plans whatever.

    Plans of marginals and of operators are compared with all plans; plans of products with those that measure each
    block of the plan's split (its spread vectors) by itself; plans of marginals for persons with limits with all plans
    of residuals, at the price that residua asks (`set_price.py`).
    """
    if not plan.by_residuals or (plan.axes and all(one.plain or one.tells for one in plan.strategies)):
        return ""
    if not plan.plain:
        return mark("the best plan that measures block by block")
    return "" if plan.residual_costs.tables is None else mark("the best plan of residuals, as persons are priced")


def gap_of_all(plan: Any) -> float:
    """How far a plan of residuals or products can be from any linear Gaussian plan; infinite where it is not known."""
    asked, tables = plan.workload, plan.residual_costs.tables
    if plan.objective != "TotalVariance":
        return math.inf
    loss = float((asked.weights * asked.cells) @ plan.variances(asked, per="term"))
    if tables is not None and asked.plain and plan.plain:
        return max(loss * float(plan.unit_pcost) / least_for_persons(asked, tables.reach) - 1.0, 0.0)
    if plan.unit_pcost != plan.pcost:
        return math.inf
    if plan.plain or plan.axes:
        return float(plan.gap) if plan.plain or not compared_with(plan) else math.inf
    return gap_of_any(asked, loss * plan.pcost)


def gap_of_any(workload: Workload, achieved: float) -> float:
    """How far a plan of least total variance can be from any linear Gaussian plan; infinite where it is not known.

    Args:
        workload: what was asked.
        achieved: the plan's total variance at privacy cost 1.
    """
    if _dimensions(workload).sum() > MOST_DIMENSIONS:
        return np.inf
    strategies = designed(workload, TotalVariance(), Effort(), [None] * len(workload.domain)).strategies
    cells = [
        np.full(int(n), 1.0 / n) if s is None else s.cells
        for n, s in zip(workload.domain.sizes, strategies, strict=True)
    ]
    return max(achieved / any_bound(workload, workload.weights * workload.cells, cells) - 1.0, 0.0)


def dense_advice(workload: Workload, plan: Any) -> str:
    """What a matrix plan of the same queries could save at most, where it is quickly made; "" if that is little."""
    used = {i for family in workload.families for i in family.used}
    cells = math.prod(int(workload.domain.sizes[i]) for i in used)
    if cells > _FEW_CELLS or workload.queries * cells > _FEW_ENTRIES:
        return ""
    left = plan.gap_any
    if left <= _WORTH_SAYING or (math.isinf(left) and not plan.gap > _WORTH_SAYING):
        return ""
    much = (
        f"{math.ceil(100.0 * left / (1.0 + left))}% less variance at most" if math.isfinite(left) else "less variance"
    )
    return f"over {cells:,} cells a dense plan of the same queries could have {much}: list them with rs.explicit"


def any_bound(workload: Workload, weights: Floats, cells: list[Floats]) -> float:
    """A lower bound on the weighted sum of mean variances of any plan at privacy cost 1.

    `Q^½ 𝕍 Q^½ = Σ_A λ_A ⊗_{i∈A} (Q_i^½ V_i Q_i^½) ⊗_{i∉A} e_i e_iᵀ` with `e_i = √q_i`. In an orthonormal basis of each
    attribute that begins with e_i, it lives on the blocks of the lattice alone.
    """
    lattice = workload.lattice
    dimensions = _dimensions(workload)
    bases = [_basis(np.sqrt(q)) * np.sqrt(q)[:, None] for q in cells]  # Q^½ U, first column Q^½ e
    starts = np.concatenate([[0], np.cumsum(dimensions)]).astype(int)
    M = np.zeros((starts[-1], starts[-1]))
    place = {members: number for number, members in enumerate(lattice)}
    term = 0
    for family in workload.families:
        turned = [U.T @ (asked.gram() / asked.rows) @ U for U, asked in zip(bases, family.queries, strict=True)]
        for number in family.numbers.tolist():
            _add(M, lattice.members(number), turned, weights[term], place, starts)
            term += 1
    return float(np.sqrt(np.maximum(np.linalg.eigvalsh(M), 0.0)).sum()) ** 2


def _add(
    M: Floats,
    members: tuple[int, ...],
    turned: list[Floats],
    weight: float,
    place: dict[tuple[int, ...], int],
    starts: Integers,
) -> None:
    """Adds one term: every pair of its blocks meets in a Kronecker product of parts of each attribute's matrix."""
    head, rest = slice(0, 1), slice(1, None)
    choices = list(crossed((False, True), repeat=len(members)))
    numbers = [place[tuple(i for i, chosen in zip(members, choice, strict=True) if chosen)] for choice in choices]
    for a, row in zip(numbers, choices, strict=True):
        for b, column in zip(numbers, choices, strict=True):
            met = zip(members, row, column, strict=True)
            factors = (turned[i][rest if r else head, rest if c else head] for i, r, c in met)
            M[starts[a] : starts[a + 1], starts[b] : starts[b + 1]] += kronecker(factors, weight)


def _dimensions(workload: Workload) -> Floats:
    """How many dimensions each block has, (sets,)."""
    return workload.lattice.products(workload.domain.sizes.astype(np.float64) - 1.0)


def _basis(first: Floats) -> Floats:
    """An orthonormal basis, as columns, that begins with this unit vector."""
    Q = np.linalg.qr(np.column_stack([first, np.eye(len(first))]))[0]
    return np.asarray(np.column_stack([first, Q[:, 1 : len(first)]]))
