"""Variances and covariances under a product plan, without ever forming a table of all cells.

For products of rows `⊗_{i∈A} w_i` and `⊗_{i∈B} u_i`, with K_i and v_i of each attribute's strategy,
`cov = Σ_{S⊆A∩B} σ²_S Π_{i∈S} w_iᵀK_i u_i Π_{i∈A∖S} w_iᵀv_i Π_{i∈B∖S} u_iᵀv_i`. (Of an attribute in neither, the query
asks the total: `1ᵀv = 1` and `K 1 = 0`.) Any other query over the cells of A is contracted with v_i or with F_i along
each axis, one block at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from residua.domain import Domain
from residua.errors import PlanError, WorkloadError
from residua.plans.lattice.precisions import checked_coefficients
from residua.plans.strategy import SUPPORT_TOLERANCE
from residua.workload import AttributeQueries, Explicit, range_ends

if TYPE_CHECKING:
    from residua.plans.lattice.plan import ProductPlan

Floats = NDArray[np.float64]
Query = Mapping[str, Any]  # attribute → a label, a pair of labels (first and last value of a range), or coefficients
_NOTHING = 1e-18  # a variance coefficient this small beside the query's own length is rounding
_BATCH = 2**22


def vectors(domain: Domain, query: Query) -> dict[int, Floats]:
    """Attribute position → coefficients of its values, from a query given by labels, ranges or coefficients."""
    if not isinstance(query, Mapping):
        raise PlanError(f"{query!r} is not a query; give {{attribute: label, (first, last) or coefficients}}.")
    found = {}
    for name, part in query.items():
        attribute = domain[name]
        w = np.zeros(attribute.size)
        if isinstance(part, tuple):
            try:
                first, last = range_ends(name, attribute, part)
            except WorkloadError as problem:
                raise PlanError(str(problem)) from None
            w[first : last + 1] = 1.0
        elif isinstance(part, list | np.ndarray):
            try:
                w = np.array(part, dtype=np.float64)
            except (TypeError, ValueError):
                w = np.empty(0)
            if w.shape != (attribute.size,) or not np.isfinite(w).all():
                raise PlanError(f"the coefficients of {name!r} must be {attribute.size} finite numbers, one a value.")
        elif part in attribute.labels:
            w[attribute.labels.index(part)] = 1.0
        else:
            raise PlanError(f"{name}={part!r} is not a value of the attribute {name!r}; see domain[{name!r}].labels.")
        found[domain.position(name)] = w
    return found


def of_queries(plan: ProductPlan, first: Mapping[int, Floats], second: Mapping[int, Floats]) -> float:
    """Covariance of two products of rows."""
    for query in (first, second):
        if not np.isfinite(_variance(plan, query)):
            raise PlanError(
                f"this plan does not answer the query on {tuple(plan.domain.names[i] for i in sorted(query))!r}; "
                "plan for a workload that asks for it."
            )
    shared = sorted(set(first) & set(second))
    total = 0.0
    for subset, noise in _measured(plan, shared):
        if not np.isfinite(noise):
            continue  # not measured, and neither query needs it
        term = noise
        for i in subset:
            term *= float(first[i] @ plan.strategies[i].inverse @ second[i])
        for query in (first, second):
            for i in query:
                if i not in subset:
                    term *= float(query[i] @ plan.strategies[i].spread)
        total += term
    return total


def _variance(plan: ProductPlan, query: Mapping[int, Floats]) -> float:
    members = tuple(sorted(query))
    parts = [_one_row(plan, i, query[i]) for i in members]
    return float(table(plan, members, parts).reshape(-1)[0])


def _one_row(plan: ProductPlan, i: int, w: Floats) -> tuple[Floats, Floats]:
    strategy = plan.strategies[i]
    if strategy.outside(w[None, :])[0] > SUPPORT_TOLERANCE:
        return np.array([np.inf]), np.array([np.inf])
    return np.array([w @ strategy.inverse @ w]), np.array([(w @ strategy.spread) ** 2])


def of_rows(plan: ProductPlan, term: Sequence[tuple[int, AttributeQueries]]) -> Floats:
    """The variance of every product of rows of a term, an array with one axis an attribute; infinite: no answer."""
    parts = [plan.row_facts(i, asked) for i, asked in term]
    return table(plan, tuple(i for i, _ in term), parts)


def table(plan: ProductPlan, members: tuple[int, ...], parts: Sequence[tuple[Floats, Floats]]) -> Floats:
    """`Σ_{S⊆A} σ²_S ⊗_{i∈S} d_i ⊗_{i∈A∖S} e_i` with parts (d_i, e_i), an array with one axis an attribute.

    A row outside what its attribute measures has infinite parts; a block nobody measured makes what needs it infinite.
    """
    noise = np.zeros((2,) * len(members))  # index 1 on an axis: the block holds that attribute
    for subset, variance in _measured(plan, members):
        noise[tuple(int(i in subset) for i in members)] = variance
    lacking = np.isinf(noise)
    answered = _contracted(np.where(lacking, 0.0, noise), [(_finite(d), _finite(e)) for d, e in parts])
    if lacking.any():
        sizes = [d + e for d, e in parts]
        needed = [(d > _NOTHING * s, e > _NOTHING * s) for (d, e), s in zip(parts, sizes, strict=True)]
        answered[_contracted(lacking.astype(float), [(a.astype(float), b.astype(float)) for a, b in needed]) > 0] = (
            np.inf
        )
    for axis, (d, _) in enumerate(parts):
        outside = np.isinf(d)
        if outside.any():
            np.moveaxis(answered, axis, 0)[outside] = np.inf
    return answered


def _finite(values: Floats) -> Floats:
    return np.where(np.isinf(values), 0.0, values)


def _contracted(noise: Floats, parts: Sequence[tuple[Floats, Floats]]) -> Floats:
    for d, e in parts:  # each step replaces the first axis, of length 2, by a last axis over the rows
        noise = np.tensordot(noise, np.stack([e, d]), axes=(0, 0))
    return np.asarray(noise)


def of_tensors(plan: ProductPlan, members: tuple[int, ...], tensors: Floats) -> Floats:
    """Variances of any queries over the cells of some attributes, (queries, n_1, …, n_k); infinite: no answer."""
    found = np.zeros(len(tensors))
    size = (tensors.reshape(len(tensors), -1) ** 2).sum(axis=1)
    for axis, i in enumerate(members, start=1):
        found[_outside(plan, i, np.moveaxis(tensors, axis, -1))] = np.inf
    for subset, noise in _measured(plan, members):
        part = tensors
        for axis, i in reversed(list(enumerate(members, start=1))):
            strategy = plan.strategies[i]
            along = strategy.recovery * strategy.unit if i in subset else strategy.spread[:, None]
            part = np.moveaxis(np.tensordot(part, along, axes=(axis, 0)), -1, axis)
        coefficients = (part.reshape(len(part), -1) ** 2).sum(axis=1)
        if np.isfinite(noise):
            found += noise * coefficients
        else:
            found[coefficients > _NOTHING * size] = np.inf
    return found


def _outside(plan: ProductPlan, i: int, tensors: Floats) -> NDArray[np.bool_]:
    rows = tensors.reshape(-1, tensors.shape[-1])
    lost = plan.strategies[i].outside(rows) * np.linalg.norm(rows, axis=1)
    lengths = np.linalg.norm(rows, axis=1).reshape(len(tensors), -1)
    worst = np.linalg.norm(lost.reshape(len(tensors), -1), axis=1)
    return np.asarray(worst > SUPPORT_TOLERANCE * np.linalg.norm(lengths, axis=1))


def of_explicit(plan: ProductPlan, workload: Explicit) -> Floats:
    """Variances of explicit queries, in batches, (queries,); infinite: no answer."""
    step = max(1, _BATCH // max(workload.matrix.shape[1], 1))
    found = np.empty(workload.queries)
    for start in range(0, workload.queries, step):
        stop = min(start + step, workload.queries)
        rows = workload.matrix[np.arange(start, stop)].toarray().reshape(stop - start, *workload.shape)
        found[start:stop] = of_tensors(plan, workload.attributes, rows)
    return found


def of_combination(plan: ProductPlan, combination: Mapping[Sequence[str], ArrayLike]) -> float:
    """Variance of a linear combination of cells: attribute set → coefficients, an array over its cells."""
    if not combination:
        raise PlanError("combination is empty; give coefficients for at least one marginal.")
    union = tuple(sorted({i for names in combination for i in plan.domain.positions(names)}))
    sizes = [int(plan.domain.sizes[i]) for i in union]
    total = np.zeros(sizes)
    for names, given in combination.items():
        positions = plan.domain.positions(names)
        coefficients = checked_coefficients(plan.domain, tuple(names), given)
        ordered = coefficients.transpose(np.argsort(positions))
        total = total + ordered.reshape([n if i in positions else 1 for i, n in zip(union, sizes, strict=True)])
    found = float(of_tensors(plan, union, total[None])[0])
    if not np.isfinite(found):
        raise PlanError("this plan does not answer this combination; plan for a workload that asks for it.")
    return found


def _measured(plan: ProductPlan, members: Sequence[int]) -> Iterator[tuple[tuple[int, ...], float]]:
    """Each subset of these attributes with its noise variance σ²; infinite where it is not measured but could be."""
    empty = {i for i in members if plan.strategies[i].cost == 0}
    for size in range(len(members) + 1):
        for subset in combinations(members, size):
            if empty & set(subset):
                yield subset, 0.0  # there is nothing in this block
                continue
            number = int(plan.lattice.find(np.array(subset, dtype=np.int32).reshape(1, -1))[0])
            yield subset, float(plan.noise_variances[number]) if number >= 0 else np.inf
