"""What is asked: one type for marginals, products of rows, listed queries, and all of these together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce

import numpy as np

from residua.domain import Domain
from residua.errors import DomainError, WorkloadError, named
from residua.linalg.arrays import Booleans, Floats, Integers, Positions
from residua.linalg.lattice import SetFamily, closure
from residua.machine import csr_array, vstack
from residua.showing import Shown, printable
from residua.workload.asking import attribute_queries
from residua.workload.pieces import Family, ListedQueries, TableTerms, Term, identities
from residua.workload.rows import AttributeQueries


@dataclass(frozen=True, eq=False)
class Workload(Shown):
    """Queries over a domain, each with a weight. Made by `marginals`, `product`, `prefixes`, `ranges`, `hierarchy`,
    `queries` and `explicit`; add workloads with `+`, weigh with `*`.

    A workload is *tabular* where its terms are tables: of each attribute of a set its values (a *plain* marginal) or
    rows of another kind, crossed. Where some queries are listed as rows of a matrix, every query is a term by itself;
    queries over different attributes stay in parts, each over the cells of its own attributes.

    Args:
        domain: what the table may hold.
        pieces: tables or listed queries, over that domain.
        places: which query of the whole each query of the pieces is, piece by piece; None where they are in order.
    """

    domain: Domain
    pieces: tuple[TableTerms | ListedQueries, ...]
    places: Integers | None = None

    def __post_init__(self) -> None:
        if self.places is not None:
            self.places.setflags(write=False)

    @classmethod
    def of_families(cls, domain: Domain, lattice: SetFamily, families: Sequence[Family]) -> Workload:
        """The terms of families on one lattice, as they stand."""
        return cls(domain, (TableTerms(domain, lattice, tuple(families)),))

    @classmethod
    def of_matrix(
        cls, domain: Domain, attributes: tuple[int, ...], matrix: csr_array, labels: Sequence[str], weights: Floats
    ) -> Workload:
        """The rows of a matrix over the cells of some attributes; see `ListedQueries`."""
        return cls(domain, (ListedQueries(domain, attributes, matrix, tuple(labels), weights),))

    # What it is

    @property
    def tabular(self) -> bool:
        """Whether every term is a table."""
        return len(self.pieces) == 1 and self.pieces[0].tabular

    @property
    def plain(self) -> bool:
        """Whether every term is a marginal."""
        return len(self.pieces) == 1 and self.pieces[0].plain

    @property
    def with_rows(self) -> bool:
        """Whether every term is a table, some with rows that are not the values."""
        return self.tabular and not self.plain

    @property
    def noun(self) -> str:
        """What `len` counts: tables, terms of products, or queries."""
        return "tables" if self.plain else "terms" if self.tabular else "queries"

    @property
    def in_parts(self) -> bool:
        """Whether its queries are listed part by part."""
        return len(self.pieces) > 1

    @cached_property
    def parts(self) -> tuple[Workload, ...]:
        """Each piece as a workload."""
        return tuple(Workload(self.domain, (piece,)) for piece in self.pieces) if self.in_parts else (self,)

    def placed(self) -> Iterator[tuple[Workload, Integers]]:
        """The parts, each with the places of its queries in the whole."""
        places, start = np.arange(self.queries) if self.places is None else self.places, 0
        for part in self.parts:
            yield part, places[start : start + part.queries]
            start += part.queries

    @cached_property
    def tables(self) -> Workload | None:
        """What is asked in tables: all of it, the parts of it that are tables, or None."""
        if self.tabular:
            return self
        families = [family for piece in self.pieces if isinstance(piece, TableTerms) for family in piece.families]
        return Workload(self.domain, (merged(self.domain, families),)) if families else None

    @cached_property
    def published(self) -> Workload | None:
        """What is asked in tables, as people read them: amounts as sums."""
        tables, domain = self.tables, self.domain
        if tables is None or not domain.amounts:
            return tables
        sums = {domain.position(name): attribute_queries(name, domain[name], "sum") for name in domain.amounts}
        families = (
            replace(family, queries=tuple(sums.get(i, rows) for i, rows in enumerate(family.queries)))
            for family in tables.families
        )
        return Workload(domain, (merged(domain, families),))

    @property
    def as_read(self) -> Workload:
        """The same as people read it, where all of it is tables."""
        return self if not self.tabular or self.published is None else self.published

    @cached_property
    def single_queries(self) -> Workload | None:
        """What is asked as single queries: all of it, the parts of it that are no tables, or None."""
        listed = tuple(piece for piece in self.pieces if not piece.tabular)
        if len(listed) in (0, len(self.pieces)):
            return self if listed else None
        return Workload(self.domain, listed)

    # Its terms

    def __len__(self) -> int:
        return len(self.weights)

    @cached_property
    def queries(self) -> int:
        """How many queries there are."""
        return sum(piece.queries for piece in self.pieces)

    @cached_property
    def weights(self) -> Floats:
        """How much each term's variances matter, (terms,); a query that is listed is a term by itself."""
        weights = self.pieces[0].weights if not self.in_parts else self.query_weights
        weights.setflags(write=False)
        return weights

    @cached_property
    def cells(self) -> Floats:
        """How many queries each term has, (terms,), as floats: they may exceed any integer type."""
        return self._tables.cells if self.tabular else np.ones(self.queries)

    @cached_property
    def starts(self) -> Integers:
        """Which query is the first of each term, (terms,)."""
        return np.cumsum(np.concatenate([[0], self.cells[:-1].astype(np.int64)]))

    @cached_property
    def query_weights(self) -> Floats:
        """How much each query's variance matters, (queries,)."""
        return np.concatenate([piece.query_weights for piece in self.pieces])[self._order]

    @property
    def lattice(self) -> SetFamily:
        """The closure of all tables' attribute sets."""
        return self._tables.lattice

    @property
    def families(self) -> tuple[Family, ...]:
        """Tables that ask the same of every attribute they share, together."""
        return self._tables.families

    @property
    def numbers(self) -> Integers:
        """Each table's number in the lattice, (terms,)."""
        return self._tables.numbers

    @property
    def sets(self) -> tuple[tuple[str, ...], ...]:
        """Each table's attributes by name."""
        return self._tables.sets

    def titles(self) -> Iterator[str]:
        """What each term is, in words: `age: prefixes × sex`."""
        return self.pieces[0].titles() if not self.in_parts else iter(self.labels)

    def each(self) -> Iterator[Workload]:
        """Each term as a workload."""
        (piece,) = self.pieces if self.tabular else self.listed().pieces
        return (Workload(self.domain, (alone,)) for alone in piece.each())

    def terms(self) -> Iterator[Term]:
        """Every table: its attributes by position, with what is asked of each."""
        return self._tables.terms()

    @property
    def _tables(self) -> TableTerms:
        (piece,) = self.pieces if len(self.pieces) == 1 else (None,)
        if not isinstance(piece, TableTerms):
            raise WorkloadError(f"{self!r} is not made of tables alone; ask for marginals or products.")
        return piece

    # Its queries

    @cached_property
    def attributes(self) -> tuple[int, ...]:
        """Positions of the attributes that some query names, increasing."""
        return tuple(sorted({i for piece in self.pieces for i in piece.attributes}))

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes that some query names."""
        return tuple(self.domain.names[i] for i in self.attributes)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """How many values each of those attributes has."""
        return tuple(int(self.domain.sizes[i]) for i in self.attributes)

    def query_labels(self) -> Iterator[str]:
        """A label for every query, such as `age=17, sex=Female`; the total is called `total`."""
        return self.pieces[0].query_labels() if not self.in_parts else iter(self.labels)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """A label for every query."""
        labels = [label for piece in self.pieces for label in piece.query_labels()]
        return tuple(labels) if self.places is None else tuple(labels[i] for i in self._order.tolist())

    @cached_property
    def matrix(self) -> csr_array:
        """One row per query over the cells of all attributes, where these can be listed, (queries, cells).

        Raises:
            WorkloadError: they are too many.
        """
        return self.over(self.attributes)

    def over(self, attributes: tuple[int, ...]) -> csr_array:
        """The queries over the cells of these attributes, which hold all of theirs, (queries, cells)."""
        rows = [piece.listed().over(attributes) for piece in self.pieces]
        return rows[0] if len(rows) == 1 else csr_array(vstack(rows, format="csr")[self._order])

    def listed(self) -> Workload:
        """The same queries over the cells of all their attributes together, where these can be listed."""
        if not self.in_parts:
            return self if not self.tabular else Workload(self.domain, (self._tables.listed(),))
        return Workload.of_matrix(self.domain, self.attributes, self.matrix, self.labels, self.weights)

    @property
    def _order(self) -> Integers:
        """Where each query of the whole stands among those of the pieces, (queries,)."""
        return np.arange(self.queries) if self.places is None else np.argsort(self.places)

    # Other workloads

    def some(self, chosen: Booleans | Integers | slice) -> Workload:
        """The terms chosen, by a truth value for each or by number; single queries over all attributes' cells."""
        (piece,) = self.pieces if self.tabular else self.listed().pieces
        return Workload(self.domain, (piece.some(chosen),))

    def with_weights(self, weights: Floats) -> Workload:
        """The same tables with other weights, (terms,)."""
        return Workload(self.domain, (self._tables.with_weights(weights),))

    def on(self, lattice: SetFamily) -> Workload:
        """The same tables by their numbers in another lattice that holds their sets."""
        return Workload.of_families(self.domain, lattice, [family.on(lattice) for family in self.families])

    def __add__(self, other: Workload) -> Workload:
        return added([self, other]) if isinstance(other, Workload) else NotImplemented

    def __mul__(self, factor: float) -> Workload:
        return Workload(self.domain, tuple(piece.weighed(factor) for piece in self.pieces), self.places)

    __rmul__ = __mul__

    def __repr__(self) -> str:
        if not self.in_parts:
            return f"Workload({self.pieces[0]!r})"
        named = printable(", ".join(self.names[:8])) + (" and others" if len(self.names) > 8 else "")
        return f"Workload({self.queries:,} queries in {len(self.pieces):,} parts of {named})"


def added(parts: Sequence[Workload]) -> Workload:
    """The sum of workloads, their queries in the order given; tables are merged, listed queries never widened.

    Raises:
        WorkloadError: workloads over different domains.
    """
    domain = parts[0].domain
    if any(part.domain is not domain and part.domain != domain for part in parts):
        raise WorkloadError("the two workloads are over different domains; declare one domain for both.")
    if len(parts) == 1:
        return parts[0]
    if all(part.tabular for part in parts):
        return Workload(domain, (merged(domain, (family for part in parts for family in part.families)),))
    first, *others = (piece for part in parts for piece in part.pieces)
    if isinstance(first, ListedQueries) and not any(part.in_parts for part in parts):
        same = [piece for piece in others if isinstance(piece, ListedQueries) and piece.attributes == first.attributes]
        if len(same) == len(others):
            for piece in same:
                first = first.beside(piece)
            return Workload(domain, (first,))
    starts = np.cumsum([0, *(part.queries for part in parts)])
    places = [start + there for start, part in zip(starts, parts, strict=False) for _, there in part.placed()]
    return Workload(domain, tuple(piece for part in parts for piece in part.pieces), np.concatenate(places))


def on_one_lattice(domain: Domain, families: Iterable[Family]) -> TableTerms:
    """Terms of these families as they stand, on one lattice."""
    listed = list(families)
    lattice = reduce(SetFamily.union, (family.lattice for family in listed))
    return TableTerms(domain, lattice, tuple(family.on(lattice) for family in listed))


def merged(domain: Domain, families: Iterable[Family]) -> TableTerms:
    """Families that agree on every attribute they share, as one, with the values asked of every unused attribute."""
    groups: list[list[Family]] = []
    asked: list[dict[int, AttributeQueries]] = []  # of each group, what it asks of the attributes it uses
    for family in families:
        own = {i: family.queries[i] for i in family.used}
        for group, theirs in zip(groups, asked, strict=True):
            if all(theirs[i] == own[i] for i in theirs.keys() & own.keys()):
                group.append(family)
                theirs.update(own)
                break
        else:
            groups.append([family])
            asked.append(own)
    plain = identities(domain)
    whole = (
        replace(united(group), queries=tuple(theirs.get(i, rows) for i, rows in enumerate(plain)))
        for group, theirs in zip(groups, asked, strict=True)
    )
    return on_one_lattice(domain, whole)


def united(families: Sequence[Family]) -> Family:
    """Families of which the first one's rows are asked by all as one, in one step however many they are.

    A set asked for in several terms keeps its first place and gets all weights.
    """
    lattice = families[0].lattice
    if any(family.lattice is not lattice for family in families):
        levels = [level for family in families for level in family.lattice.levels]
        lattice = closure(levels, len(families[0].queries))
    numbers = _asked_by_all(families, lattice)
    first, inverse = np.unique(numbers, return_index=True, return_inverse=True)[1:]
    weights = np.zeros(len(first))
    np.add.at(weights, inverse, np.concatenate([family.weights for family in families]))
    order = np.argsort(first)
    return Family(lattice, numbers[first][order], weights[order], families[0].queries)


def _asked_by_all(families: Sequence[Family], lattice: SetFamily) -> Integers:
    """The numbers in a lattice of all sets that these ask for, one after the other."""
    starts = np.cumsum([0, *(len(family) for family in families)])
    by_size: dict[int, list[tuple[Integers, Positions]]] = {}
    for start, family in zip(starts, families, strict=False):
        for at, rows in family.by_size():
            by_size.setdefault(rows.shape[1], []).append((start + at, rows))
    numbers = np.empty(starts[-1], dtype=np.int64)
    for parts in by_size.values():
        places, sets = zip(*parts, strict=True)
        numbers[np.concatenate(places)] = lattice.find(np.concatenate(sets))
    return numbers


def require_domain(domain: object) -> None:
    """Refuses what is no domain."""
    if not isinstance(domain, Domain):
        raise WorkloadError(f"domain={named(domain)} is not a Domain; declare one with rs.Domain.")


def positions_of(domain: Domain, names: Iterable[str], argument: str) -> tuple[int, ...]:
    """The positions of attributes, or an error that names the argument."""
    try:
        return domain.positions(names)
    except DomainError as problem:
        raise WorkloadError(f"{argument}: {problem}") from None
