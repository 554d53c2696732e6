"""Pieces of a workload: tables, as terms on a lattice of attribute sets with rows asked of every attribute; or any
linear queries, as rows of a matrix over the enumerated cells of some attributes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product as crossed
from typing import Any

import numpy as np

from residua.domain import Domain
from residua.errors import WorkloadError, named
from residua.linalg.arrays import Booleans, Floats, Integers, Positions, sparse_kronecker
from residua.linalg.lattice import SetFamily, closure_of
from residua.machine import csr_array, vstack
from residua.showing import printable
from residua.workload.rows import AttributeQueries, Identity

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

    query_labels = titles

    def listed(self) -> ListedQueries:
        """They are."""
        return self

    def over(self, attributes: tuple[int, ...]) -> csr_array:
        """The same queries over the cells of more attributes, (queries, cells)."""
        if attributes == self.attributes:
            return self.matrix
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

    def some(self, chosen: Booleans | Integers | slice) -> ListedQueries:
        """The queries chosen, by a truth value for each or by their numbers."""
        places = np.arange(self.queries)[chosen]
        labels = tuple(self.labels[i] for i in places.tolist())
        return replace(self, matrix=csr_array(self.matrix[places]), labels=labels, weights=self.weights[places])

    def beside(self, other: ListedQueries) -> ListedQueries:
        """These queries and others over the same cells."""
        matrix = csr_array(vstack([self.matrix, other.matrix], format="csr"))
        weights = np.concatenate([self.weights, other.weights])
        return replace(self, matrix=matrix, labels=(*self.labels, *other.labels), weights=weights)

    def __repr__(self) -> str:
        names = printable(", ".join(self.domain.names[i] for i in self.attributes))
        return f"{self.queries:,} queries over {math.prod(self.shape):,} cells of {names}"


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
        raise WorkloadError(f"weight={named(weight)} is not a positive number; leave out what does not matter.")
    if not LEAST_WEIGHT <= weight <= _LARGEST_WEIGHT:  # products with it must stay numbers
        raise WorkloadError(f"weight={named(weight)} is beyond what can be computed with; give weights nearer to 1.")
    return float(weight)


Term = tuple[tuple[int, AttributeQueries], ...]


@dataclass(frozen=True, eq=False)
class Family:
    """Terms that ask the same of every attribute they share.

    Args:
        lattice: a closure that holds the terms' attribute sets.
        numbers: the sets' numbers in the lattice, (terms,), distinct.
        weights: how much each term matters, (terms,), positive.
        queries: what is asked of each attribute of the domain; of an attribute in no set, its values.
    """

    lattice: SetFamily
    numbers: Integers
    weights: Floats
    queries: tuple[AttributeQueries, ...]

    def __post_init__(self) -> None:
        for array in (self.numbers, self.weights):
            array.setflags(write=False)

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def plain(self) -> bool:
        """Whether every term is a marginal: of each attribute its values."""
        return all(self.queries[i].plain for i in self.used)

    @cached_property
    def rows(self) -> Floats:
        """How many rows are asked of each attribute, (attributes,)."""
        return np.array([float(asked.rows) for asked in self.queries])

    @cached_property
    def cells(self) -> Floats:
        """How many queries each term has, (terms,), as floats: they may exceed any integer type."""
        return self.lattice.products(self.rows)[self.numbers]

    def by_size(self) -> Iterator[tuple[Integers, Positions]]:
        """Terms with equally many attributes: where they stand in the order asked, and their attributes."""
        sizes = self.lattice.set_sizes[self.numbers]
        for size in np.flatnonzero(np.bincount(sizes)).tolist():
            at = np.flatnonzero(sizes == size)
            yield at, self.lattice.levels[size][self.numbers[at] - self.lattice.offsets[size]]

    @cached_property
    def used(self) -> frozenset[int]:
        """The attributes that some term asks about."""
        return frozenset().union(*(rows.ravel().tolist() for _, rows in self.by_size()))

    def members(self) -> list[tuple[int, ...]]:
        """The attributes of each term by position, in the order asked."""
        members: list[tuple[int, ...]] = [()] * len(self)
        for at, rows in self.by_size():
            for place, row in zip(at.tolist(), rows.tolist(), strict=True):
                members[place] = tuple(row)
        return members

    def on(self, lattice: SetFamily) -> Family:
        """The same terms by their numbers in another lattice that holds them."""
        if self.lattice is lattice:
            return self
        return replace(self, lattice=lattice, numbers=renumber(self.lattice, lattice)[self.numbers])


@dataclass(frozen=True, eq=False)
class TableTerms:
    """Terms of products, each the cells of a marginal or rows of another kind on some of its attributes, crossed.

    The queries run family by family (terms that ask the same of the attributes they share stand together), term by
    term, and within a term row by row with the attributes in the domain's order.

    Args:
        domain: what the table may hold.
        lattice: the closure of all terms' sets.
        families: the terms.
    """

    domain: Domain
    lattice: SetFamily
    families: tuple[Family, ...]

    tabular = True

    @property
    def plain(self) -> bool:
        """Whether every term is a marginal, and asked once."""
        return len(self.families) == 1 and self.families[0].plain

    @cached_property
    def numbers(self) -> Integers:
        """Each term's number in the lattice, (terms,)."""
        numbers = np.concatenate([family.numbers for family in self.families])
        numbers.setflags(write=False)
        return numbers

    @cached_property
    def weights(self) -> Floats:
        """How much each term matters, (terms,)."""
        return np.concatenate([family.weights for family in self.families])

    @cached_property
    def cells(self) -> Floats:
        """How many queries each term has, (terms,)."""
        return np.concatenate([family.cells for family in self.families])

    @cached_property
    def query_weights(self) -> Floats:
        """How much each query matters, (queries,)."""
        return np.repeat(self.weights, self.cells.astype(np.int64))

    @cached_property
    def queries(self) -> int:
        """How many queries all terms have together."""
        if self.cells.sum() < 2**52:
            return int(self.cells.sum())
        return sum(math.prod(asked.rows for _, asked in term) for term in self.terms())

    @cached_property
    def attributes(self) -> tuple[int, ...]:
        """Positions of the attributes that some term asks about, increasing."""
        return tuple(sorted(set().union(*(family.used for family in self.families))))

    @cached_property
    def sets(self) -> tuple[tuple[str, ...], ...]:
        """The terms' attribute sets by name, in the order asked."""
        names = self.domain.names
        return tuple(tuple(names[i] for i in row) for family in self.families for row in family.members())

    def terms(self) -> Iterator[Term]:
        """Every term: its attributes by position, with what is asked of each."""
        for family in self.families:
            for row in family.members():
                yield tuple((i, family.queries[i]) for i in row)

    def each(self) -> Iterator[TableTerms]:
        """Each term by itself, on the lattice of its own sets."""
        plain = identities(self.domain)
        for family in self.families:
            for members, weight in zip(family.members(), family.weights.tolist(), strict=True):
                lattice = closure_of([members], len(self.domain))
                queries = list(plain)
                for i in members:
                    queries[i] = family.queries[i]
                alone = Family(lattice, np.array([lattice.number(members)]), np.array([weight]), tuple(queries))
                yield TableTerms(self.domain, lattice, (alone,))

    def titles(self) -> Iterator[str]:
        """What each term is, in words: `age: prefixes × sex`."""
        return (term_title(self.domain, term) for term in self.terms())

    def query_labels(self) -> Iterator[str]:
        """A label for every query, such as `age<=30, sex=Female`; the total is called `total`."""
        names = self.domain.names
        for term in self.terms():
            labels = [[names[i] + text for text in asked.labels(self.domain[names[i]])] for i, asked in term]
            yield from (", ".join(parts) or "total" for parts in crossed(*labels))

    def listed(self) -> ListedQueries:
        """The queries as rows of a matrix over the cells of all attributes they mention.

        Raises:
            WorkloadError: too many cells to list, or too many queries to write out.
        """
        union, sizes = self.attributes, self.domain.sizes
        check_cells(self.domain, union)
        if not self.plain and self.queries * math.prod(int(sizes[i]) for i in union) > 2**31:
            raise WorkloadError(f"{self.queries:,} queries are too many to write out; ask for fewer.")
        blocks, totals = [], {i: csr_array(np.ones((1, int(sizes[i])))) for i in union}
        for term in self.terms():
            asked = dict(term)
            blocks.append(sparse_kronecker(asked[i].sparse() if i in asked else totals[i] for i in union))
        matrix = csr_array(vstack(blocks, format="csr"))
        return ListedQueries(self.domain, union, matrix, tuple(self.query_labels()), self.query_weights)

    def weighed(self, factor: float) -> TableTerms:
        """The same terms, that much more important."""
        return self.with_weights(self.weights * checked_weight(factor))

    def split(self, values: Floats | Booleans) -> list[Any]:
        """Values of all terms, (terms,), family by family."""
        return np.split(values, np.cumsum([len(family) for family in self.families])[:-1])

    def with_weights(self, weights: Floats) -> TableTerms:
        """The same terms with other weights, (terms,)."""
        pairs = zip(self.families, self.split(weights), strict=True)
        return replace(self, families=tuple(replace(family, weights=own) for family, own in pairs))

    def some(self, chosen: Booleans | Integers | slice) -> TableTerms:
        """The terms chosen, by a truth value for each or by their numbers; they stay in order."""
        good = np.zeros(len(self.numbers), dtype=bool)
        good[chosen] = True
        kept = (
            replace(family, numbers=family.numbers[own], weights=family.weights[own])
            for family, own in zip(self.families, self.split(good), strict=True)
            if own.any()
        )
        return replace(self, families=tuple(kept))

    def __repr__(self) -> str:
        terms, over = len(self.numbers), len(self.domain)
        if self.plain:
            return f"{terms:,} marginal{'s' if terms != 1 else ''} of {over} attributes, {self.queries:,} cells"
        return f"{terms:,} term{'s' if terms != 1 else ''} over {over} attributes, {self.queries:,} queries"


def term_title(domain: Domain, term: Sequence[tuple[int, AttributeQueries]]) -> str:
    """A term in words, such as `age: prefixes × sex`."""
    return titled((domain.names[i], asked.title) for i, asked in term)


def titled(axes: Iterable[tuple[str, str]]) -> str:
    """A table in words, from its attributes and what is asked of each; nothing for its values."""
    return " × ".join(f"{name}: {what}" if what else name for name, what in axes) or "(total)"


def identities(domain: Domain) -> tuple[AttributeQueries, ...]:
    """Of every attribute its values: what marginals ask."""
    return tuple(map(Identity, domain.sizes.tolist()))


def renumber(source: SetFamily, target: SetFamily) -> Integers:
    """For every set of one family, its number in another that holds it (−1 where it does not), (sets,)."""
    if source.same_sets(target):
        return np.arange(len(source))
    return np.concatenate([target.find(level) for level in source.levels])


def applied(term: Sequence[tuple[int, AttributeQueries]], marginal: Floats, first: int = 0) -> Floats:
    """The queries of a term, (…, rows_1, …, rows_k), from the marginal on its attributes, (…, n_1, …, n_k).

    Args:
        term: what is asked of each attribute.
        marginal: the table, or several.
        first: how many axes come before those of the attributes.
    """
    for axis, (_, asked) in enumerate(term, start=first):
        if not asked.plain:
            marginal = np.moveaxis(asked.summed(np.moveaxis(marginal, axis, 0)), 0, axis)
    return marginal
