"""What may be asked of one attribute: its values, prefixes, ranges, the groups of a hierarchy, or any matrix.

An attribute with n values is asked the rows of a matrix W, (rows, n). Planners need `WᵀW`, `W v` and `diag(W K Wᵀ)`;
where W is large and regular (all n(n+1)/2 ranges) these are prefix sums and W is never written out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from residua.domain import Attribute, Label, Level
from residua.errors import WorkloadError

Floats = NDArray[np.float64]
KINDS = ("identity", "prefixes", "ranges", "hierarchy")


@dataclass(frozen=True, eq=False)
class AttributeQueries(ABC):
    """The rows asked of one attribute with `size` values; two are equal when they ask the same rows."""

    kind: ClassVar[str]
    size: int

    @property
    @abstractmethod
    def rows(self) -> int:
        """How many rows there are."""

    @abstractmethod
    def matrix(self) -> Floats:
        """W itself, (rows, n)."""

    @abstractmethod
    def labels(self, attribute: Attribute) -> Iterator[str]:
        """What each row asks, in words, without the attribute's name."""

    def gram(self) -> Floats:
        """`WᵀW`, (n, n)."""
        W = self.matrix()
        return np.asarray(W.T @ W)

    def weighted_gram(self, weights: Floats) -> Floats:
        """`Wᵀ diag(weights) W`, (n, n)."""
        W = self.matrix()
        return np.asarray((W * weights[:, None]).T @ W)

    def times(self, vector: Floats) -> Floats:
        """`W v`, (rows,)."""
        return np.asarray(self.matrix() @ vector)

    def diagonal(self, matrix: Floats) -> Floats:
        """`diag(W K Wᵀ)`, (rows,), for a symmetric K, (n, n)."""
        W = self.matrix()
        return np.asarray(np.einsum("ij,ij->i", W @ matrix, W))

    @property
    def key(self) -> Hashable:
        """What two equal sets of rows have in common and others have not."""
        return (self.kind, self.size)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AttributeQueries) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


class Identity(AttributeQueries):
    """Every value by itself: the attribute of a marginal."""

    kind = "identity"

    @property
    def rows(self) -> int:
        """One row a value."""
        return self.size

    def matrix(self) -> Floats:
        """The identity matrix."""
        return np.eye(self.size)

    def times(self, vector: Floats) -> Floats:
        """The vector itself."""
        return vector

    def diagonal(self, matrix: Floats) -> Floats:
        """The diagonal itself."""
        return np.asarray(np.diagonal(matrix))

    def labels(self, attribute: Attribute) -> Iterator[str]:
        """`=Female`, …"""
        return (f"={label}" for label in attribute.labels)


@dataclass(frozen=True, eq=False)
class _Ordered(AttributeQueries):
    """Rows over values in their order; the cell of other values, which has no place in it, is a row by itself.

    Args:
        size: how many values there are, the other ones' cell included.
        other: whether the last cell is that of other values.
    """

    other: bool = False

    @property
    def ordered(self) -> int:
        """How many values have a place in the order."""
        return self.size - self.other

    @property
    def key(self) -> Hashable:
        """The kind, the size, and whether there is a cell of other values."""
        return (self.kind, self.size, self.other)

    def matrix(self) -> Floats:
        """W itself, (rows, n)."""
        W = np.zeros((self.rows, self.size))
        W[: self.rows - self.other, : self.ordered] = self._rows()
        if self.other:
            W[-1, -1] = 1.0
        return W

    def _rows(self) -> Floats:
        raise NotImplementedError

    def _with_other(self, values: Floats, last: float) -> Floats:
        return np.append(values, last) if self.other else values


class Prefixes(_Ordered):
    """For every value, how many records have it or an earlier one."""

    kind = "prefixes"

    @property
    def rows(self) -> int:
        """One row a value."""
        return self.size

    def _rows(self) -> Floats:
        return np.tril(np.ones((self.ordered, self.ordered)))

    def times(self, vector: Floats) -> Floats:
        """Running sums."""
        return self._with_other(np.cumsum(vector[: self.ordered]), float(vector[-1]))

    def diagonal(self, matrix: Floats) -> Floats:
        """Sums of the leading square blocks."""
        square = matrix[: self.ordered, : self.ordered]
        return self._with_other(np.diagonal(square.cumsum(axis=0).cumsum(axis=1)).copy(), float(matrix[-1, -1]))

    def labels(self, attribute: Attribute) -> Iterator[str]:
        """`<=30`, …"""
        for label in attribute.labels[: self.ordered]:
            yield f"<={label}"
        if self.other:
            yield f"={attribute.labels[-1]}"


class Ranges(_Ordered):
    """Every range of consecutive values, by its first value, then by its last."""

    kind = "ranges"

    @property
    def rows(self) -> int:
        """n(n+1)/2 ranges."""
        return self.ordered * (self.ordered + 1) // 2 + self.other

    def _rows(self) -> Floats:
        first, last = (ends[:, None] for ends in np.triu_indices(self.ordered))
        cell = np.arange(self.ordered)
        return ((first <= cell) & (cell <= last)).astype(np.float64)

    def gram(self) -> Floats:
        """Entry (i, j), i ≤ j, counts the ranges that hold both: (i + 1)(n − j)."""
        n = self.ordered
        i, j = np.minimum.outer(np.arange(n), np.arange(n)), np.maximum.outer(np.arange(n), np.arange(n))
        V = np.zeros((self.size, self.size))
        V[:n, :n] = (i + 1.0) * (n - j)
        if self.other:
            V[-1, -1] = 1.0
        return V

    def weighted_gram(self, weights: Floats) -> Floats:
        """Two-dimensional prefix sums of the weights."""
        n = self.ordered
        square = np.zeros((n, n))
        square[np.triu_indices(n)] = weights[: n * (n + 1) // 2]
        covering = np.cumsum(np.cumsum(square, axis=0)[:, ::-1], axis=1)[:, ::-1]
        V = np.zeros((self.size, self.size))
        V[:n, :n] = np.triu(covering) + np.triu(covering, 1).T
        if self.other:
            V[-1, -1] = weights[-1]
        return V

    def times(self, vector: Floats) -> Floats:
        """Differences of running sums."""
        sums = np.concatenate([[0.0], np.cumsum(vector[: self.ordered])])
        first, last = np.triu_indices(self.ordered)
        return self._with_other(sums[last + 1] - sums[first], float(vector[-1]))

    def diagonal(self, matrix: Floats) -> Floats:
        """Sum of each square block on the diagonal of K."""
        n = self.ordered
        prefix = np.zeros((n + 1, n + 1))
        prefix[1:, 1:] = matrix[:n, :n].cumsum(axis=0).cumsum(axis=1)
        corner = np.diagonal(prefix)
        a, b = np.triu_indices(n)
        found = corner[b + 1] - prefix[a, b + 1] - prefix[b + 1, a] + corner[a]
        return self._with_other(np.maximum(found, 0.0), float(matrix[-1, -1]))

    def labels(self, attribute: Attribute) -> Iterator[str]:
        """`=17..30`, …"""
        for a, b in zip(*np.triu_indices(self.ordered), strict=True):
            yield f"={attribute.labels[a]}..{attribute.labels[b]}" if a < b else f"={attribute.labels[a]}"
        if self.other:
            yield f"={attribute.labels[-1]}"


@dataclass(frozen=True, eq=False)
class Hierarchy(AttributeQueries):
    """The groups of every level, coarsest level first, and the values themselves last.

    Args:
        size: how many values there are.
        names: the levels' names, coarsest first.
        groups: the labels of each level's groups.
        codes: for each level the group of every value.
    """

    names: tuple[str, ...]
    groups: tuple[tuple[str, ...], ...]
    codes: tuple[tuple[int, ...], ...]

    kind = "hierarchy"

    @property
    def rows(self) -> int:
        """Groups of all levels, and values."""
        return sum(len(labels) for labels in self.groups) + self.size

    @property
    def key(self) -> Hashable:
        """The levels."""
        return (self.kind, self.size, self.names, self.groups, self.codes)

    def matrix(self) -> Floats:
        """Indicators of the groups, then the identity."""
        levels = [
            (np.arange(len(labels))[:, None] == np.array(codes)).astype(np.float64)
            for labels, codes in zip(self.groups, self.codes, strict=True)
        ]
        return np.vstack([*levels, np.eye(self.size)])

    def labels(self, attribute: Attribute) -> Iterator[str]:
        """`.state=CA`, …, `=LA`, …"""
        for name, labels in zip(self.names, self.groups, strict=True):
            yield from (f".{name}={label}" for label in labels)
        yield from (f"={label}" for label in attribute.labels)


@dataclass(frozen=True, eq=False)
class LevelRows(AttributeQueries):
    """The groups of one level of a hierarchy. Its kind is the level's name.

    Args:
        size: how many values there are.
        level: the level.
    """

    level: Level

    @property
    def kind(self) -> str:  # type: ignore[override]  # a constant of the other classes
        """The level's name: what it is asked by."""
        return self.level.name

    @property
    def rows(self) -> int:
        """One row a group."""
        return len(self.level)

    @property
    def key(self) -> Hashable:
        """The level."""
        return ("level", self.size, self.level)

    def matrix(self) -> Floats:
        """Indicators of the groups."""
        return self.level.matrix()

    def labels(self, attribute: Attribute) -> Iterator[str]:
        """`.state=CA`, …"""
        return (f".{self.level.name}={label}" for label in self.level.labels)


@dataclass(frozen=True, eq=False)
class MatrixRows(AttributeQueries):
    """Any rows a user gives.

    Args:
        size: how many values there are.
        given: W, (rows, n).
        names: what each row asks, in words; `[0]`, … without.
    """

    given: Floats
    names: tuple[str, ...] = ()

    kind = "matrix"

    def __post_init__(self) -> None:
        self.given.setflags(write=False)

    @property
    def rows(self) -> int:
        """How many rows were given."""
        return len(self.given)

    @cached_property
    def key(self) -> Hashable:
        """The entries and their names."""
        return (self.kind, self.given.shape, (self.given + 0.0).tobytes(), self.names)

    def matrix(self) -> Floats:
        """The rows as given."""
        return self.given

    def labels(self, attribute: Attribute) -> Iterator[str]:
        """`[0]`, …"""
        return iter(self.names) if self.names else (f"[{row}]" for row in range(self.rows))


def attribute_queries(name: str, attribute: Attribute, asked: str | ArrayLike | AttributeQueries) -> AttributeQueries:
    """What is asked of an attribute, from a kind's name or a matrix.

    Raises:
        WorkloadError: an unknown kind, a hierarchy nobody declared, or a matrix that does not fit.
    """
    if isinstance(asked, AttributeQueries):
        if asked.size != attribute.size:
            raise WorkloadError(
                f"the rows asked of {name!r} have {asked.size} columns; it has {attribute.size} values."
            )
        return asked
    if not isinstance(asked, str):
        return _matrix(name, attribute, asked)
    if asked == "identity":
        return Identity(attribute.size)
    if asked in ("prefixes", "ranges"):
        other = attribute.has_other
        return Prefixes(attribute.size, other) if asked == "prefixes" else Ranges(attribute.size, other)
    if asked == "hierarchy":
        return _hierarchy(name, attribute)
    for level in attribute.hierarchy:
        if asked == level.name:
            return LevelRows(attribute.size, level)
    known = ", ".join(repr(kind) for kind in (*KINDS, *(level.name for level in attribute.hierarchy)))
    raise WorkloadError(f"{name!r} is asked for {asked!r}; use {known}, or a matrix (levels are declared).")


def listed_ranges(name: str, attribute: Attribute, listed: Sequence[tuple[Label, Label]]) -> MatrixRows:
    """The ranges listed, each by the labels of its first and its last value.

    Raises:
        WorkloadError: no ranges, or an end that is no value of the attribute or comes before the beginning.
    """
    labels = attribute.labels
    ordered = len(labels) - attribute.has_other
    rows, names = [], []
    for ends in listed:
        a, b = range_ends(name, attribute, ends)
        rows.append((np.arange(len(labels)) >= a) & (np.arange(len(labels)) <= b))
        names.append(f"={labels[a]}..{labels[b]}")
    if not rows:
        raise WorkloadError(
            f"no ranges of {name!r} are listed; list at least one, such as ({labels[0]}, {labels[ordered - 1]})."
        )
    return MatrixRows(len(labels), np.array(rows, dtype=np.float64), tuple(names))


def range_ends(name: str, attribute: Attribute, ends: object) -> tuple[int, int]:
    """The codes of a range's first and last value, both included.

    Raises:
        WorkloadError: not a pair, outside the attribute, or the wrong way round.
    """
    labels = attribute.labels[: len(attribute.labels) - attribute.has_other]
    if not isinstance(ends, tuple | list) or len(ends) != 2:
        raise WorkloadError(
            f"{ends!r} is not a range of {name!r}; give its first and its last value, ({labels[0]}, {labels[-1]})."
        )
    for end in ends:
        if isinstance(end, bool) or end not in labels:
            raise WorkloadError(
                f"the range {ends!r} of {name!r} leaves the attribute: {end!r} is none of its values, "
                f"which run from {labels[0]} to {labels[-1]}."
            )
    first, last = labels.index(ends[0]), labels.index(ends[1])
    if last < first:
        raise WorkloadError(f"the range {ends!r} of {name!r} ends before it begins; swap its ends.")
    return first, last


def _hierarchy(name: str, attribute: Attribute) -> Hierarchy:
    levels: Sequence[Any] = getattr(attribute, "hierarchy", ())
    if not levels:
        raise WorkloadError(f"the attribute {name!r} has no levels; declare them, such as levels={{'state': {{…}}}}.")
    coarsest_first = tuple(reversed(levels))
    return Hierarchy(
        attribute.size,
        tuple(level.name for level in coarsest_first),
        tuple(tuple(level.labels) for level in coarsest_first),
        tuple(tuple(level.codes) for level in coarsest_first),
    )


def _matrix(name: str, attribute: Attribute, given: Any) -> AttributeQueries:
    try:
        W = np.array(given.toarray() if hasattr(given, "toarray") else given, dtype=np.float64, ndmin=2)
    except (TypeError, ValueError):
        raise WorkloadError(f"the matrix for {name!r} is not made of numbers; give rows of equal length.") from None
    if W.ndim != 2 or W.shape[1] != attribute.size:
        columns = W.shape[1] if W.ndim == 2 else W.shape
        raise WorkloadError(
            f"the matrix for {name!r} has {columns} columns, but the attribute has {attribute.size} values; "
            "give one column a value."
        )
    if not len(W) or not np.isfinite(W).all():
        raise WorkloadError(f"the matrix for {name!r} is empty or holds NaN or infinite entries; correct it.")
    if not W.any(axis=1).all():
        row = int(np.flatnonzero(~W.any(axis=1))[0])
        raise WorkloadError(f"row {row} of the matrix for {name!r} is zero; leave it out.")
    return Identity(attribute.size) if np.array_equal(W, np.eye(attribute.size)) else MatrixRows(attribute.size, W)
