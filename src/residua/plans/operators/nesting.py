"""The levels of one attribute as a chain of parents: its values, the levels from fine to coarse, and the root.

Where values are ordered, sums of neighbours have their variances by passes over levels (`Order`). Given a parent's
error e, those of its children are `k_c e + η_c` with `Cov η = diag z − z zᵀ/u`, independent of all that is outside (see
`residua.linalg.tree`). So two numbers per node, the variance of what lies before it and its covariance with the node,
go down the tree; and a sum over the first values of a node is `κ e + ξ`, with κ and the variance of ξ going up it. A
range is one such sum at either end, and whole children between, of the first node that holds both ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from residua.domain import Attribute
from residua.errors import PlanError
from residua.linalg.arrays import Array, Floats, Integers, Positions
from residua.linalg.tree import NestedTree, SolvedTree
from residua.machine import remembered
from residua.workload import AttributeQueries


@dataclass(frozen=True, eq=False)
class Nesting:
    """Nodes on levels: level 0 are the values, the last level is the root.

    Args:
        names: what each level is called; nothing for values, and for a root that is no declared level.
        parents: for every level but the last the place of each node's parent in the next level.
    """

    names: tuple[str, ...]
    parents: tuple[Positions, ...]

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """How many nodes each level has."""
        return (*(len(parent) for parent in self.parents), 1)

    @property
    def root(self) -> int:
        """The last level."""
        return len(self.parents)

    @cached_property
    def ordered(self) -> bool:
        """Whether every node is a run of neighbouring values, in their order."""
        return all(bool((np.diff(parent) >= 0).all()) for parent in self.parents)

    def same(self, other: Nesting) -> bool:
        """Whether the other is the same tree."""
        return self is other or (self.sizes == other.sizes and all(map(np.array_equal, self.parents, other.parents)))

    def level(self, name: str) -> int:
        """The level of this name."""
        return self.names.index(name, 1)

    @remembered
    def between(self, low: int, high: int) -> Positions:
        """For each node of a level the node of a coarser one that it lies in, (nodes,)."""
        ancestors = np.arange(self.sizes[low], dtype=np.int32) if low == high else self.parents[low]
        for level in range(low + 1, high):
            ancestors = self.parents[level][ancestors]
        return ancestors

    def tree(self, levels: Sequence[int], *, alike: bool) -> NestedTree:
        """The tree of some levels, the last of them the root.

        Args:
            levels: increasing.
            alike: whether nodes of the first level with one parent are kept once.
        """
        parents = [self.between(a, b) for a, b in pairwise(levels)]
        if not parents or not alike:
            return NestedTree(tuple(parents), np.ones(self.sizes[levels[0]]))
        many = np.bincount(parents[0], minlength=self.sizes[levels[1]]).astype(np.float64)
        parents[0] = np.arange(self.sizes[levels[1]], dtype=np.int32)
        return NestedTree(tuple(parents), many)


@lru_cache(maxsize=8)
def nesting_of(attribute: Attribute) -> Nesting:
    """The levels of an attribute."""
    names, parents, below = [""], [], np.arange(attribute.size, dtype=np.int32)
    for level in attribute.hierarchy:
        codes = np.asarray(level.codes, dtype=np.int32)
        first = np.zeros(int(below.max()) + 1, dtype=np.int32)
        first[below] = codes
        names.append(level.name)
        parents.append(first)
        below = codes
    if not parents or int(below.max()):
        names.append("")
        parents.append(np.zeros(int(below.max()) + 1, dtype=np.int32))
    for each in parents:
        each.setflags(write=False)
    return Nesting(tuple(names), tuple(parents))


@lru_cache(maxsize=8)
def branched(size: int, counts: tuple[int, ...]) -> Nesting:
    """Levels over ordered values that are no declared ones: so many nodes each, as equal as they can be.

    Args:
        size: how many values there are.
        counts: how many nodes each level between the values and the root has, from fine to coarse.

    Example:
        >>> [each.tolist() for each in branched(5, (3, 2)).parents]
        [[0, 0, 1, 1, 2], [0, 0, 1], [0, 0]]
    """
    levels = (size, *counts, 1)
    if any(not low >= high >= 1 for low, high in pairwise(levels)):
        raise ValueError("a level has more nodes than the one below it")
    parents = tuple(
        np.zeros(low, np.int32) if high == 1 else (np.arange(low, dtype=np.int64) * high // low).astype(np.int32)
        for low, high in pairwise(levels)
    )
    for each in parents:
        each.setflags(write=False)
    return Nesting(("",) * len(levels), parents)


MOST_ROWS = 4096  # of any coefficients over many values
MOST_RUNS = 2**26  # ranges that are listed


@dataclass(frozen=True, eq=False)
class Nodes:
    """Nodes of one level, all of them or some.

    Args:
        level: which level.
        chosen: which of its nodes; None for all.
    """

    level: int
    chosen: Array | None = None

    def count(self, nesting: Nesting) -> int:
        """How many there are."""
        return nesting.sizes[self.level] if self.chosen is None else len(self.chosen)

    def picked(self, values: Array) -> Array:
        """Of something of all nodes of the level that of these."""
        return values if self.chosen is None else values[self.chosen]


@dataclass(frozen=True, eq=False)
class AnyRows:
    """Any coefficients over the values, (rows, values)."""

    given: Floats

    def count(self, nesting: Nesting) -> int:
        """How many rows there are."""
        return len(self.given)


@dataclass(frozen=True, eq=False)
class Runs:
    """All prefixes, or all ranges, of ordered values.

    Args:
        size: how many values there are.
        ranges: whether all ranges; else prefixes.
    """

    size: int
    ranges: bool

    def count(self, nesting: Nesting) -> int:
        """How many there are."""
        return self.size * (self.size + 1) // 2 if self.ranges else self.size

    def ends(self) -> tuple[Integers, Integers]:
        """The first and the last value of each.

        Raises:
            PlanError: too many to list.
        """
        if not self.ranges:
            return np.zeros(self.size, dtype=np.int64), np.arange(self.size)
        if self.size * (self.size + 1) // 2 > MOST_RUNS:
            raise PlanError(
                f"all ranges of {self.size:,} values are too many to list; ask for their mean (per='term') or for "
                "single ones."
            )
        return np.triu_indices(self.size)

    @property
    def given(self) -> Floats:
        """The same as coefficients over values, (rows, values)."""
        first, last = self.ends()
        places = np.arange(self.size)
        return ((first[:, None] <= places) & (places <= last[:, None])).astype(np.float64)


TreeRows = Nodes | AnyRows | Runs


def tree_rows(asked: AttributeQueries | None, nesting: Nesting) -> list[TreeRows]:
    """What is asked along the tree; nothing is the root."""
    if asked is None:
        return [Nodes(nesting.root)]
    nested = asked.nested()
    if nested is not None and all(level is None or level.name in nesting.names for level, _ in nested):
        return [Nodes(0 if level is None else nesting.level(level.name), chosen) for level, chosen in nested]
    if asked.along in ("prefixes", "ranges") and nesting.ordered:
        return [Runs(asked.size, asked.along == "ranges")]
    if asked.rows > MOST_ROWS:
        raise PlanError(
            f"{asked.rows:,} rows over {asked.size:,} values are too many beside a tree; ask for its levels, or for at "
            f"most {MOST_ROWS:,} rows."
        )
    return [AnyRows(asked.matrix())]


@dataclass(frozen=True, eq=False)
class Order:
    """The values of an ordered nesting, all its nodes solved; values of one parent are alike.

    Args:
        nesting: the levels, `nesting.ordered`.
        solved: least squares over them, from the values up.
    """

    nesting: Nesting
    solved: SolvedTree

    def _of(self, level: int, what: tuple[Floats, ...]) -> Floats:
        """Something of every node of a level."""
        return what[0][self.nesting.parents[0]] if level == 0 and self.nesting.root else what[level]

    @cached_property
    def _before(self) -> tuple[Floats, ...]:
        """Of every level but the root: `Σ z` over the earlier children of the same parent."""
        variances: list[Floats] = []
        for level, parent in enumerate(self.nesting.parents):
            z = self._of(level, self.solved.z)
            first = np.searchsorted(parent, np.arange(self.nesting.sizes[level + 1]))
            if level == 0:
                variances.append((np.arange(len(parent)) - first[parent]) * z)
            else:
                sums = np.cumsum(z) - z
                variances.append(sums - sums[first][parent])
        return tuple(variances)

    def prefixes(self) -> Floats:
        """The variance of every prefix, (values,)."""
        before, with_own = np.zeros(1), np.zeros(1)  # Var of what lies before a node; its covariance with the node
        for level in range(self.nesting.root - 1, -1, -1):
            parent = self.nesting.parents[level]
            k, u = self._of(level, self.solved.k), self.solved.u[level + 1][parent]
            S, g, V = self._before[level], with_own[parent], self.solved.V[level + 1][parent]
            K = S / u
            before = before[parent] + 2 * K * g + K**2 * V + S * (1.0 - K)
            with_own = k * (g + K * V - S)
        return np.asarray(before + 2 * with_own + self._of(0, self.solved.V))

    def ranges(self, first: Integers, last: Integers) -> Floats:
        """The variance of the sum from one value to another, both included, (ranges,)."""
        variance = self._of(0, self.solved.V)[first]
        open_ = np.flatnonzero(first != last)
        left: Any = first[open_]
        right: Any = last[open_]
        kappa, kappa_last = np.zeros(len(open_)), np.ones(len(open_))
        rest = np.zeros(len(open_))
        for level, parent in enumerate(self.nesting.parents):
            if not len(open_):
                break
            z, S = self._of(level, self.solved.z), self._before[level]
            up, up_last = parent[left], parent[right]
            u, u_last = self.solved.u[level + 1][up], self.solved.u[level + 1][up_last]
            met = up == up_last
            # Whole children between the ends, and parts of the two at the ends.
            between = np.where(met, S[right] - S[left] - z[left], 0.0)
            ends = 1.0 - kappa
            total = ends * z[left] + between + kappa_last * z[right]
            squares = ends**2 * z[left] + between + kappa_last**2 * z[right]
            here = rest + squares - total**2 / u + (total / u) ** 2 * self.solved.V[level + 1][up]
            variance[open_[met]] = here[met]
            # Ends that have not met: what lies before each inside its parent.
            own, own_last = S[left] + kappa * z[left], S[right] + kappa_last * z[right]
            rest = rest + S[left] + kappa**2 * z[left] - own**2 / u
            rest = rest + S[right] + kappa_last**2 * z[right] - own_last**2 / u_last
            kappa, kappa_last, left, right = own / u, own_last / u_last, up, up_last
            go = ~met
            open_, left, right = open_[go], left[go], right[go]
            kappa, kappa_last, rest = kappa[go], kappa_last[go], rest[go]
        return variance

    def sum_over_ranges(self) -> float:
        """The variances of all ranges, added up: `(n + 1) Σ Var P_j − Var Σ P_j` with P the prefixes."""
        n = self.nesting.sizes[0]
        return float((n + 1) * self.prefixes().sum() - self._squared(np.arange(n, 0, -1, dtype=np.float64)))

    def _squared(self, coefficients: Floats) -> float:
        """The variance of one combination of values."""
        A: Floats = coefficients
        total = 0.0
        for level, parent in enumerate(self.nesting.parents):
            z, k = self._of(level, self.solved.z), self._of(level, self.solved.k)
            up = np.asarray(
                np.bincount(parent, weights=A * k, minlength=self.nesting.sizes[level + 1]), dtype=np.float64
            )
            total += float(((A - up[parent]) ** 2) @ z)
            A = up
        return total + float(A[0] ** 2 * self.solved.V[-1][0])
