"""Asking for any linear queries: a matrix over the enumerated cells of some attributes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from residua.domain import Domain
from residua.errors import WorkloadError
from residua.workload.listed import check_cells, checked_weight, positions_of, require_domain
from residua.workload.workload import Workload

if TYPE_CHECKING:
    from scipy.sparse import csr_array


def explicit(
    domain: Domain,
    matrix: ArrayLike | Any,
    *,
    on: Sequence[str] | None = None,
    labels: Sequence[str] | None = None,
    weight: float = 1.0,
) -> Workload:
    """Asks for any linear queries: each row of a matrix is a query, each column a cell.

    Args:
        domain: what the table may hold.
        matrix: (queries, cells), dense or SciPy sparse; cells in row-major order of the attributes. Or a workload,
            whose queries are then listed one by one.
        on: the attributes that make the cells, in the order of the columns; all of the domain by default. Workloads on
            different attributes are added with `+`, and planned without listing the cells of all of them.
        labels: a label for every query; `query 0`, … by default.
        weight: how much these queries matter, relative to others added with `+`.

    Raises:
        WorkloadError: the wrong number of columns or labels, NaN, no queries, or too many cells.

    Example:
        >>> domain = Domain({"grade": ["a", "b", "c"]})
        >>> explicit(domain, [[1, 1, 0], [0, 0, 1]], labels=["passed", "failed"])
        Workload(2 queries over 3 cells of grade)
    """
    from scipy.sparse import csr_array

    require_domain(domain)
    if isinstance(matrix, Workload):
        return _listed(domain, matrix, on, labels) * weight
    positions = positions_of(domain, domain.names if on is None else on, "on")
    check_cells(domain, positions)
    rows = _sparse(matrix)
    cells = math.prod(int(domain.sizes[i]) for i in positions)
    if rows.shape[1] != cells:
        raise WorkloadError(f"matrix has {rows.shape[1]:,} columns, but there are {cells:,} cells; give one per cell.")
    order = np.argsort(positions)
    if not np.array_equal(order, np.arange(len(positions))):
        given = np.arange(cells).reshape([int(domain.sizes[i]) for i in positions])
        rows = csr_array(rows.tocsc()[:, given.transpose(order).ravel()])
    named = tuple(labels) if labels is not None else tuple(f"query {i}" for i in range(rows.shape[0]))
    if len(named) != rows.shape[0]:
        raise WorkloadError(f"labels has {len(named)} entries for {rows.shape[0]} queries; give one per query.")
    weights = np.full(rows.shape[0], checked_weight(weight))
    return Workload.of_matrix(domain, tuple(sorted(positions)), rows, named, weights)


def _listed(domain: Domain, workload: Workload, on: object, labels: object) -> Workload:
    """Another workload's queries, one by one."""
    if on is not None or labels is not None:
        raise WorkloadError("a workload has its own attributes and labels; leave out on and labels.")
    if workload.domain != domain:
        raise WorkloadError("the workload is over another domain; declare one domain for both.")
    return workload.listed()


def _sparse(matrix: Any) -> csr_array:
    from scipy.sparse import csr_array

    try:
        rows = csr_array(matrix if hasattr(matrix, "tocsr") else np.atleast_2d(np.asarray(matrix, dtype=np.float64)))
    except (TypeError, ValueError):
        raise WorkloadError("matrix is not a matrix of numbers; give rows of equal length.") from None
    rows = csr_array(rows.astype(np.float64))
    rows.sum_duplicates()
    rows.eliminate_zeros()
    if not np.isfinite(rows.data).all():
        raise WorkloadError("matrix holds NaN or infinite entries; correct them.")
    if rows.shape[0] == 0:
        raise WorkloadError("matrix has no rows; ask for at least one query.")
    return rows
