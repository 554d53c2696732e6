"""Workloads of marginals: which tables are wanted, and how much each matters."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from residua.domain import Domain
from residua.errors import DomainError, WorkloadError
from residua.linalg.lattice import Lattice, all_sets, closure, extensions, row_keys
from residua.showing import Shown

_MOST_SETS = 2**25
_LEAST_WEIGHT, _LARGEST_WEIGHT = 1e-300, 1e100
TOTAL = "(total)"  # the title of the table without attributes
_POWERS = {"1/sqrt(cells)": -0.5, "1/cells": -1.0}


@dataclass(frozen=True, eq=False)
class Marginals(Shown):
    """Marginals of a domain, each with a weight. Made by `marginals`; add workloads with `+`, weigh with `*`.

    The queries are the cells of the marginals: marginal by marginal in the order asked, cells row by row with
    the attributes in the domain's order.

    Args:
        domain: what the table may hold.
        lattice: the closure of the wanted sets.
        numbers: the wanted sets' numbers in the lattice, (marginals,), distinct.
        weights: how much each matters, (marginals,), positive.
    """

    domain: Domain
    lattice: Lattice
    numbers: NDArray[np.int64]
    weights: NDArray[np.float64]

    noun: ClassVar[str] = "tables"  # what `len` counts
    plain: ClassVar[bool] = True  # whether attributes are asked by their values, and nothing else is

    def __post_init__(self) -> None:
        for array in (self.numbers, self.weights):
            array.setflags(write=False)

    def __len__(self) -> int:
        return len(self.numbers)

    @cached_property
    def cells(self) -> NDArray[np.float64]:
        """How many cells each marginal has, (marginals,), as floats: they may exceed any integer type."""
        return self.lattice.products(self.domain.sizes.astype(np.float64))[self.numbers]

    @property
    def queries(self) -> int:
        """How many cells all marginals have together."""
        sizes = self.domain.sizes.tolist()
        if self.cells.sum() < 2**52:
            return int(self.cells.sum())
        return sum(math.prod(sizes[i] for i in self.lattice.members(int(number))) for number in self.numbers)

    @cached_property
    def sets(self) -> tuple[tuple[str, ...], ...]:
        """The wanted attribute sets by name, in the order asked."""
        names = np.array(self.domain.names, dtype=object)
        lattice, sizes = self.lattice, self.lattice.set_sizes[self.numbers]
        found: list[tuple[str, ...]] = [()] * len(self)
        for size in np.unique(sizes).tolist():
            at = np.flatnonzero(sizes == size)
            rows = names[lattice.levels[size][self.numbers[at] - lattice.offsets[size]]]
            for place, row in zip(at.tolist(), rows.tolist(), strict=True):
                found[place] = tuple(row)
        return tuple(found)

    def titles(self) -> Iterator[str]:
        """What each table is, in words: `age × sex`."""
        return (" × ".join(names) or TOTAL for names in self.sets)

    def each(self) -> Iterator[Marginals]:
        """Each table as a workload."""
        return (marginals(self.domain, [names]) for names in self.sets)

    def query_labels(self) -> Iterator[str]:
        """A label for every query, such as `age=17, sex=Female`; the total is called `total`."""
        for attributes in self.sets:
            labels = [self.domain[name].labels for name in attributes]
            for cell in np.ndindex(*(len(values) for values in labels)):
                pairs = (f"{name}={values[i]}" for name, values, i in zip(attributes, labels, cell, strict=True))
                yield ", ".join(pairs) or "total"

    def __add__(self, other: Marginals) -> Marginals:
        if not isinstance(other, Marginals):
            return NotImplemented
        return united([self, other])

    def __mul__(self, factor: float) -> Marginals:
        return Marginals(self.domain, self.lattice, self.numbers, self.weights * checked_weight(factor))

    __rmul__ = __mul__

    def __repr__(self) -> str:
        return f"Marginals({len(self):,} of {len(self.domain)} attributes, {self.queries:,} cells)"


def united(parts: Sequence[Marginals]) -> Marginals:
    """The sum of workloads of one domain, in one step however many they are.

    Raises:
        WorkloadError: workloads over different domains.
    """
    domain, lattice = parts[0].domain, parts[0].lattice
    if any(part.domain is not domain and part.domain != domain for part in parts):
        raise WorkloadError("the two workloads are over different domains; declare one domain for both.")
    if any(part.lattice is not lattice for part in parts):
        lattice = closure([level for part in parts for level in part.lattice.levels], len(domain))
    numbers = _asked_by_all(parts, lattice)
    # A set asked for in several terms keeps its first place and gets all weights.
    first, inverse = np.unique(numbers, return_index=True, return_inverse=True)[1:]
    weights = np.zeros(len(first))
    np.add.at(weights, inverse, np.concatenate([part.weights for part in parts]))
    order = np.argsort(first)
    return Marginals(domain, lattice, numbers[first][order], weights[order])


def marginals(
    domain: Domain,
    sets: Iterable[Sequence[str]] | None = None,
    *,
    ways: int | Iterable[int] | None = None,
    max_cells: int | None = None,
    weight: float | str = 1.0,
) -> Marginals:
    """Asks for marginals: the ones listed, all of some sizes, or all that are small.

    Args:
        domain: what the table may hold.
        sets: attribute sets by name; `()` is the total.
        ways: sizes: 1 asks for every attribute's own table, 2 for all pairs, …; 0 for the total.
        max_cells: only marginals with at most this many cells (alone: of any size, the total included).
        weight: how much each of these marginals matters, relative to others added with `+`: a number for all, or
            `"1/sqrt(cells)"` or `"1/cells"`, by how many cells each has. Objectives weigh variances of cells, so that
            large tables get most of a budget; these weights give more to small ones.

    Raises:
        WorkloadError: nothing asked for, a set listed twice, or a weight that is not positive.
        DomainError: an unknown attribute.

    Example:
        >>> domain = Domain.of_sizes({"a": 10, "b": 3, "c": 2})
        >>> marginals(domain, ways=[1, 2]) + 2 * marginals(domain, [("a", "b", "c")])
        Marginals(7 of 3 attributes, 131 cells)
    """
    if not isinstance(domain, Domain):
        raise WorkloadError(f"domain={domain!r} is not a Domain; declare one with rs.Domain.")
    if (sets is None) == (ways is None and max_cells is None):
        raise WorkloadError("say which marginals: either sets=[(…), …], or ways=… and/or max_cells=….")
    power = _POWERS.get(weight) if isinstance(weight, str) else 0.0
    if power is None:
        raise WorkloadError(f"weight={weight!r} is not a number, nor {' nor '.join(map(repr, _POWERS))}.")
    each = checked_weight(1.0 if isinstance(weight, str) else weight)
    if sets is not None:
        families, order = _listed(domain, sets)
    else:
        families, order = _enumerated(domain, ways, max_cells), None
    if not sum(len(rows) for rows in families):
        raise WorkloadError("the workload is empty; ask for at least one marginal.")
    lattice = closure(families, len(domain))
    numbers = np.concatenate([lattice.find(rows) for rows in families])
    if order is not None:
        numbers = numbers[order]
    cells = lattice.products(domain.sizes.astype(np.float64))[numbers] if power else np.ones(len(numbers))
    weights = each * cells**power
    if not (weights >= _LEAST_WEIGHT).all():
        raise WorkloadError(f"weight={weight!r} is beyond what can be computed with; ask for smaller marginals.")
    return Marginals(domain, lattice, numbers, weights)


def _asked_by_all(parts: Sequence[Marginals], lattice: Lattice) -> NDArray[np.int64]:
    """The numbers in a family of all sets that these ask for, one after the other."""
    sizes = np.concatenate([part.lattice.set_sizes[part.numbers] for part in parts])
    numbers = np.empty(len(sizes), dtype=np.int64)
    for size in np.unique(sizes).tolist():
        rows = [
            part.lattice.levels[size][
                part.numbers[part.lattice.set_sizes[part.numbers] == size] - part.lattice.offsets[size]
            ]
            for part in parts
            if size < len(part.lattice.levels)
        ]
        numbers[sizes == size] = lattice.find(np.concatenate(rows))
    return numbers


def renumber(source: Lattice, target: Lattice) -> NDArray[np.int64]:
    """For every set of one family, its number in another that holds it (−1 where it does not), (sets,)."""
    if source.same_sets(target):
        return np.arange(len(source))
    return np.concatenate([target.find(level) for level in source.levels])


def _listed(domain: Domain, sets: Iterable[Sequence[str]]) -> tuple[list[NDArray[np.int32]], NDArray[np.int64]]:
    """Listed sets as rows by size, and where in those each listed set stands."""
    by_size: dict[int, list[tuple[int, ...]]] = {}
    listed: list[tuple[int, int]] = []
    if isinstance(sets, str):
        raise WorkloadError(f"sets={sets!r} is one name; list attribute sets, such as [({sets!r},)].")
    if not isinstance(sets, Iterable):
        raise WorkloadError(f"sets={sets!r} is not a list of attribute sets, such as [('age', 'sex')].")
    for names in sets:
        try:
            row = tuple(sorted(domain.positions(names)))
        except DomainError as problem:
            raise WorkloadError(f"sets: {problem}") from None
        rows = by_size.setdefault(len(row), [])
        listed.append((len(row), len(rows)))
        rows.append(row)
    families = []
    for size, rows in sorted(by_size.items()):
        array = np.array(rows, dtype=np.int32).reshape(len(rows), size)
        keys, counts = np.unique(row_keys(array, len(domain)), return_counts=True)
        if (counts > 1).any():
            twice = rows[int(np.flatnonzero(row_keys(array, len(domain)) == keys[counts > 1][0])[0])]
            names = tuple(domain.names[i] for i in twice)
            raise WorkloadError(f"the set {names!r} is listed twice; list it once and give it a weight instead.")
        families.append(array)
    starts = dict(zip(sorted(by_size), np.cumsum([0, *(len(rows) for rows in families)]), strict=False))
    return families, np.array([starts[size] + place for size, place in listed], dtype=np.int64)


def _enumerated(domain: Domain, ways: int | Iterable[int] | None, max_cells: int | None) -> list[NDArray[np.int32]]:
    d = len(domain)
    sizes = range(d + 1) if ways is None else _ways(ways, d)
    if max_cells is None:
        wanted = sum(math.comb(d, size) for size in sizes)
        if wanted > _MOST_SETS:
            raise WorkloadError(
                f"ways asks for {wanted:,} marginals, and {_MOST_SETS:,} are the most that memory is used for (about "
                "200 bytes each); ask for fewer ways, or for those of at most max_cells."
            )
        return [all_sets(d, size) for size in sizes]
    if isinstance(max_cells, bool) or not isinstance(max_cells, int | np.integer) or max_cells < 1:
        raise WorkloadError(f"max_cells={max_cells!r} is not a positive whole number.")
    small = _sets_with_at_most(domain.sizes, min(int(max_cells), 2**62), max(sizes))
    return [rows for rows in small if rows.shape[1] in sizes]


def _sets_with_at_most(sizes: NDArray[np.int64], cells: int, largest: int) -> list[NDArray[np.int32]]:
    """All sets whose marginal has at most `cells` cells, level by level: every subset of a small set is small."""
    families = [np.empty((1, 0), dtype=np.int32)]
    products = np.ones(1, dtype=np.int64)
    d = len(sizes)
    for size in range(1, largest + 1):
        rows = families[-1]
        if len(rows) * d > _MOST_SETS:
            raise WorkloadError(
                f"max_cells={cells:,} asks for millions of {size}-way marginals; lower it, or set ways."
            )
        parent, last = extensions(rows, d)
        small = products[parent] <= cells // sizes[last]
        families.append(np.column_stack([rows[parent[small]], last[small]]))
        products = products[parent[small]] * sizes[last[small]]
    return families


def _ways(ways: int | Iterable[int], attributes: int) -> list[int]:
    try:
        listed = [ways] if isinstance(ways, int | np.integer) else list(ways)
    except TypeError:
        raise WorkloadError(f"ways={ways!r} is not a list of sizes, such as [1, 2].") from None
    for size in listed:
        if isinstance(size, bool) or not isinstance(size, int | np.integer) or not 0 <= size <= attributes:
            raise WorkloadError(f"ways holds {size!r}; sizes are whole numbers from 0 to {attributes}.")
    if len(set(listed)) < len(listed):
        raise WorkloadError(f"ways={listed} lists a size twice; list each once.")
    if not listed:
        raise WorkloadError("ways is empty; ask for at least one size, such as ways=[1, 2].")
    return sorted(int(size) for size in listed)


def checked_weight(weight: float) -> float:
    """A weight that is a positive finite number, or an error."""
    if isinstance(weight, bool) or not isinstance(weight, int | float | np.number) or not 0 < weight < math.inf:
        raise WorkloadError(f"weight={weight!r} is not a positive number; leave out what does not matter.")
    if not _LEAST_WEIGHT <= weight <= _LARGEST_WEIGHT:  # products with it must stay numbers
        raise WorkloadError(f"weight={weight!r} is beyond what can be computed with; give weights nearer to 1.")
    return float(weight)
