"""Workloads of any linear queries: a matrix over the enumerated cells of some attributes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from residua.domain import Domain
from residua.errors import DomainError, WorkloadError
from residua.printable import printable
from residua.showing import Shown
from residua.workload.marginals import Marginals, checked_weight

if TYPE_CHECKING:  # SciPy's sparse matrices take a third of a second to import: only when they are used
    from scipy.sparse import csr_array

MOST_CELLS = 2**20


@dataclass(frozen=True, eq=False)
class Explicit(Shown):
    """Linear queries over the cells of some attributes. Made by `explicit` and `queries`; `+` joins, `*` weighs.

    Args:
        domain: what the table may hold.
        attributes: positions of the attributes whose cells the queries tell apart, increasing.
        matrix: one row per query, one column per cell of those attributes in row-major order, (queries, cells).
        labels: a label for every query.
        weights: how much each query's variance matters, (queries,), positive.
    """

    domain: Domain
    attributes: tuple[int, ...]
    matrix: csr_array
    labels: tuple[str, ...]
    weights: NDArray[np.float64]

    noun: ClassVar[str] = "queries"  # what `len` counts
    plain: ClassVar[bool] = False  # whether attributes are asked by their values, and nothing else is

    def __post_init__(self) -> None:
        self.weights.setflags(write=False)

    @property
    def queries(self) -> int:
        """How many queries there are."""
        return int(self.matrix.shape[0])

    def __len__(self) -> int:
        return self.queries

    @property
    def cells(self) -> NDArray[np.float64]:
        """One number per query, (queries,)."""
        return np.ones(self.queries)

    def titles(self) -> Iterator[str]:
        """What each query asks, in words."""
        return iter(self.labels)

    def each(self) -> Iterator[Explicit]:
        """Each query as a workload."""
        for i, label in enumerate(self.labels):
            yield Explicit(self.domain, self.attributes, self.matrix[[i]], (label,), self.weights[[i]])

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes whose cells the queries tell apart."""
        return tuple(self.domain.names[i] for i in self.attributes)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """How many values each of those attributes has."""
        return tuple(int(self.domain.sizes[i]) for i in self.attributes)

    def query_labels(self) -> Sequence[str]:
        """A label for every query."""
        return self.labels

    def listed(self) -> Explicit:
        """The same queries over the cells of all their attributes together."""
        return self

    def over(self, attributes: tuple[int, ...]) -> csr_array:
        """The same queries over the cells of more attributes, (queries, cells)."""
        if attributes == self.attributes:
            return self.matrix
        from scipy.sparse import csr_array

        check_cells(self.domain, attributes)
        sizes = [int(self.domain.sizes[i]) for i in attributes]
        # A cell of the wider table belongs to the cell of ours with the same values.
        codes = np.indices(sizes).reshape(len(sizes), math.prod(sizes))
        ours = [attributes.index(i) for i in self.attributes]
        column = (
            np.ravel_multi_index(tuple(codes[j] for j in ours), self.shape) if ours else np.zeros(codes.shape[1], int)
        )
        return csr_array(self.matrix.tocsc()[:, column])

    def __add__(self, other: Explicit | Marginals) -> Explicit:
        from residua.workload.joint import Part, joined

        if not isinstance(other, Part):
            return NotImplemented
        if not isinstance(other, Explicit) or other.domain != self.domain or other.attributes != self.attributes:
            return joined(self, other)
        from scipy.sparse import csr_array, vstack

        matrix = csr_array(vstack([self.matrix, other.matrix], format="csr"))
        weights = np.concatenate([self.weights, other.weights])
        return Explicit(self.domain, self.attributes, matrix, (*self.labels, *other.labels), weights)

    __radd__ = __add__

    def __mul__(self, factor: float) -> Explicit:
        return Explicit(self.domain, self.attributes, self.matrix, self.labels, self.weights * checked_weight(factor))

    __rmul__ = __mul__

    def __repr__(self) -> str:
        names = printable(", ".join(self.names))
        return f"Explicit({self.queries:,} queries over {math.prod(self.shape):,} cells of {names})"


def explicit(
    domain: Domain,
    matrix: ArrayLike | Any,
    *,
    on: Sequence[str] | None = None,
    attributes: Sequence[str] | None = None,
    labels: Sequence[str] | None = None,
    weight: float = 1.0,
) -> Explicit:
    """Asks for any linear queries: each row of a matrix is a query, each column a cell.

    Args:
        domain: what the table may hold.
        matrix: (queries, cells), dense or SciPy sparse; cells in row-major order of the attributes. Or a workload of
            marginals or products, whose queries are then listed one by one.
        on: the attributes that make the cells, in the order of the columns; all of the domain by default. Workloads on
            different attributes are added with `+`, and planned without listing the cells of all of them.
        attributes: another name for `on`.
        labels: a label for every query; `query 0`, … by default.
        weight: how much these queries matter, relative to others added with `+`.

    Raises:
        WorkloadError: the wrong number of columns or labels, NaN, no queries, or too many cells.

    Example:
        >>> domain = Domain({"grade": ["a", "b", "c"]})
        >>> explicit(domain, [[1, 1, 0], [0, 0, 1]], labels=["passed", "failed"])
        Explicit(2 queries over 3 cells of grade)
    """
    from scipy.sparse import csr_array

    if not isinstance(domain, Domain):
        raise WorkloadError(f"domain={domain!r} is not a Domain; declare one with rs.Domain.")
    if on is not None:
        if attributes is not None:
            raise WorkloadError("on and attributes are two names of one thing; give one.")
        attributes = on
    if isinstance(matrix, Marginals) or hasattr(matrix, "families"):
        return _listed(domain, matrix, attributes, labels) * weight
    try:
        positions = domain.positions(domain.names if attributes is None else attributes)
    except DomainError as problem:
        raise WorkloadError(f"attributes: {problem}") from None
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
    return Explicit(domain, tuple(sorted(positions)), rows, named, weights)


def explicit_of_marginals(workload: Marginals) -> Explicit:
    """Marginals as explicit queries over the cells of all attributes they mention."""
    from scipy.sparse import coo_array, csr_array

    domain = workload.domain
    members = [domain.positions(names) for names in workload.sets]
    union = tuple(sorted({i for row in members for i in row}))
    check_cells(domain, union)
    sizes = [int(domain.sizes[i]) for i in union]
    cells = math.prod(sizes)
    codes = np.indices(sizes).reshape(len(sizes), math.prod(sizes))
    rows, start = [], 0
    for row in members:
        shape = [int(domain.sizes[i]) for i in row]
        at = tuple(codes[union.index(i)] for i in row)
        rows.append(start + (np.ravel_multi_index(at, shape) if row else np.zeros(cells, dtype=int)))
        start += math.prod(shape)
    columns = np.tile(np.arange(cells), len(members))
    matrix = csr_array(coo_array((np.ones(len(columns)), (np.concatenate(rows), columns)), shape=(start, cells)))
    weights = np.repeat(workload.weights, workload.cells.astype(np.int64))
    return Explicit(domain, union, matrix, tuple(workload.query_labels()), weights)


def _listed(domain: Domain, workload: Any, attributes: object, labels: object) -> Explicit:
    """Another workload's queries, one by one."""
    from residua.workload.products import as_explicit

    if attributes is not None or labels is not None:
        raise WorkloadError("a workload has its own attributes and labels; leave out attributes and labels.")
    if workload.domain != domain:
        raise WorkloadError("the workload is over another domain; declare one domain for both.")
    return as_explicit(workload)


def check_cells(domain: Domain, attributes: Sequence[int]) -> None:
    """Refuses to enumerate too many cells."""
    cells = math.prod(int(domain.sizes[i]) for i in attributes)
    if cells > MOST_CELLS:
        raise WorkloadError(
            f"these queries tell {cells:,} cells apart, more than {MOST_CELLS:,} can be listed; "
            "use marginals (or products), or queries over fewer attributes."
        )


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
