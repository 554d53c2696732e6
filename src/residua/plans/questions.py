"""What a plan can be asked about: a workload, the marginal on some attributes, or one query."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array

from residua.domain import Domain
from residua.errors import DomainError, PlanError, WorkloadError
from residua.linalg.arrays import Floats, Integers
from residua.workload import MatrixRows, Workload, marginals, selected

_MOST_CELLS = 2**27
Query = Mapping[str, Any]  # attribute → a label, labels, a range of labels, or coefficients
Asked = Workload | Sequence[str] | Query


def as_workload(domain: Domain, asked: Asked) -> tuple[Workload, Integers | slice]:
    """What is asked as a workload, and which of its queries comes at each place.

    Raises:
        PlanError: over another domain, unknown attributes or labels.
    """
    if isinstance(asked, Workload):
        require_same_domain(domain, asked)
        return asked, slice(None)
    try:
        if isinstance(asked, Mapping):
            return _of_query(domain, asked), slice(None)
        positions = domain.positions(asked)
        names = [domain.names[i] for i in positions]
        shape = [int(domain.sizes[i]) for i in sorted(positions)]
        if math.prod(shape) > _MOST_CELLS:
            many = f"{math.prod(shape):,}"
            raise PlanError(
                f"a covariance matrix of {many} by {many} queries is too large; ask for the queries you need, or "
                "combination_variance for a sum."
            )
        cells = np.arange(int(np.prod(shape))).reshape(shape).transpose(np.argsort(np.argsort(positions)))
        return marginals(domain, [names]), cells.ravel()
    except (DomainError, WorkloadError, TypeError) as problem:
        raise PlanError(f"asked: {problem}") from None


def require_workload(workload: object, *, plain: bool = False) -> Workload:
    """A workload, or of marginals alone, or an error.

    Raises:
        PlanError: it is something else.
    """
    if isinstance(workload, Workload) and (workload.plain or not plain):
        return workload
    what, makers = ("of marginals", "rs.marginals") if plain else ("", "rs.marginals, rs.product or rs.queries")
    raise PlanError(f"workload={workload!r} is not a workload {what}".rstrip() + f"; make one with {makers}.")


def require_same_domain(domain: Domain, workload: object) -> None:
    """Refuses a workload over another domain, and what is no workload.

    Raises:
        PlanError: it is.
    """
    asked = require_workload(workload).domain
    if asked is not domain and asked != domain:
        raise PlanError("the plan and the workload are over different domains; declare one domain for both.")


def _of_query(domain: Domain, query: Query) -> Workload:
    """One product of rows as a workload of one query."""
    domain.positions(query)  # refuses unknown names in the same words as everywhere
    (family,) = marginals(domain, [tuple(query)]).families
    queries = list(family.queries)
    for name, row in selected(domain, query, argument="query").items():
        queries[domain.position(name)] = MatrixRows(len(row), row[None, :])
    return Workload.of_families(domain, family.lattice, [replace(family, queries=tuple(queries))])


def combined(domain: Domain, combination: Mapping[Any, ArrayLike]) -> dict[tuple[int, ...], Floats]:
    """A linear combination of cells: positions, increasing → coefficients, one axis per attribute.

    Raises:
        PlanError: nothing, or coefficients that do not fit.
    """
    if not isinstance(combination, Mapping):
        raise PlanError(f"combination={combination!r} is not a mapping; give {{attributes: coefficients}}.")
    if not combination:
        raise PlanError("combination is empty; give coefficients for at least one marginal.")
    parts: dict[tuple[int, ...], Floats] = {}
    for names, given in combination.items():
        positions = domain.positions(names)
        shape = tuple(int(domain.sizes[i]) for i in positions)
        coefficients = _numbers(given)
        if coefficients.shape != shape or not np.isfinite(coefficients).all():
            raise PlanError(f"the coefficients of {tuple(names)!r} must be finite and of shape {shape}.")
        members = tuple(sorted(positions))
        inner = coefficients.transpose(np.argsort(positions))
        parts[members] = parts[members] + inner if members in parts else inner
    return parts


def in_one_table(domain: Domain, parts: Mapping[tuple[int, ...], Floats]) -> tuple[tuple[int, ...], Floats]:
    """A combination as coefficients over the cells of all its attributes together."""
    union = tuple(sorted({i for members in parts for i in members}))
    sizes = [int(domain.sizes[i]) for i in union]
    total = np.zeros(sizes)
    for members, part in parts.items():
        total = total + part.reshape([n if i in members else 1 for i, n in zip(union, sizes, strict=True)])
    return union, total


def combination_query(domain: Domain, combination: Mapping[Sequence[str], ArrayLike]) -> Workload:
    """A linear combination of cells as one query."""
    attributes, total = in_one_table(domain, combined(domain, combination))
    return Workload.of_matrix(domain, attributes, csr_array(total.reshape(1, -1)), ("combination",), np.ones(1))


def _numbers(given: ArrayLike) -> Floats:
    """Numbers as an array; nothing where they are not numbers."""
    try:
        return np.array(given, dtype=np.float64)
    except (TypeError, ValueError):
        return np.empty((0, 0))
