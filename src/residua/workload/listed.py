"""Any linear queries: rows of a matrix over the enumerated cells of some attributes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from residua.domain import Domain
from residua.errors import DomainError, WorkloadError
from residua.linalg.arrays import Booleans, Floats, Integers
from residua.showing import printable

if TYPE_CHECKING:  # SciPy's sparse matrices take a third of a second to import: only when they are used
    from scipy.sparse import csr_array

MOST_CELLS = 2**20
LEAST_WEIGHT, _LARGEST_WEIGHT = 1e-300, 1e100


@dataclass(frozen=True, eq=False)
class ListedQueries:
    """Linear queries over the cells of some attributes.

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
    weights: Floats

    tabular = plain = False

    def __post_init__(self) -> None:
        self.weights.setflags(write=False)

    @property
    def queries(self) -> int:
        """How many queries there are."""
        return int(self.matrix.shape[0])

    @property
    def query_weights(self) -> Floats:
        """How much each query matters, (queries,)."""
        return self.weights

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """How many values each of the attributes has."""
        return tuple(int(self.domain.sizes[i]) for i in self.attributes)

    def each(self) -> Iterator[ListedQueries]:
        """Each query by itself."""
        return (self.some(np.array([i])) for i in range(self.queries))

    def titles(self) -> Iterator[str]:
        """What each query asks, in words."""
        return iter(self.labels)

    def query_labels(self) -> Iterator[str]:
        """A label for every query."""
        return iter(self.labels)

    def listed(self) -> ListedQueries:
        """They are."""
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

    def weighed(self, factor: float) -> ListedQueries:
        """The same queries, that much more important."""
        return replace(self, weights=self.weights * checked_weight(factor))

    def some(self, chosen: Booleans | Integers) -> ListedQueries:
        """The queries chosen, by a truth value for each or by their numbers."""
        from scipy.sparse import csr_array

        places = np.arange(self.queries)[chosen]
        labels = tuple(self.labels[i] for i in places.tolist())
        return replace(self, matrix=csr_array(self.matrix[places]), labels=labels, weights=self.weights[places])

    def beside(self, other: ListedQueries) -> ListedQueries:
        """These queries and others over the same cells."""
        from scipy.sparse import csr_array, vstack

        matrix = csr_array(vstack([self.matrix, other.matrix], format="csr"))
        weights = np.concatenate([self.weights, other.weights])
        return replace(self, matrix=matrix, labels=(*self.labels, *other.labels), weights=weights)

    def __repr__(self) -> str:
        names = printable(", ".join(self.domain.names[i] for i in self.attributes))
        return f"{self.queries:,} queries over {math.prod(self.shape):,} cells of {names}"


def require_domain(domain: object) -> None:
    """Refuses what is no domain."""
    if not isinstance(domain, Domain):
        raise WorkloadError(f"domain={domain!r} is not a Domain; declare one with rs.Domain.")


def positions_of(domain: Domain, names: Iterable[str], argument: str) -> tuple[int, ...]:
    """The positions of attributes, or an error that names the argument."""
    try:
        return domain.positions(names)
    except DomainError as problem:
        raise WorkloadError(f"{argument}: {problem}") from None


def check_cells(domain: Domain, attributes: Sequence[int]) -> None:
    """Refuses to enumerate too many cells.

    Raises:
        WorkloadError: there are too many.
    """
    cells = math.prod(int(domain.sizes[i]) for i in attributes)
    if cells > MOST_CELLS:
        raise WorkloadError(
            f"these queries tell {cells:,} cells apart, more than {MOST_CELLS:,} can be listed; "
            "use marginals (or products), or queries over fewer attributes."
        )


def checked_weight(weight: float) -> float:
    """A weight that is a positive finite number, or an error."""
    if isinstance(weight, bool) or not isinstance(weight, int | float | np.number) or not 0 < weight < math.inf:
        raise WorkloadError(f"weight={weight!r} is not a positive number; leave out what does not matter.")
    if not LEAST_WEIGHT <= weight <= _LARGEST_WEIGHT:  # products with it must stay numbers
        raise WorkloadError(f"weight={weight!r} is beyond what can be computed with; give weights nearer to 1.")
    return float(weight)
