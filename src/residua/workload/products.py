"""Workloads of products: on each attribute of a set its values, prefixes, ranges, groups, or any rows, crossed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import product as crossed
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from residua.domain import Domain, Label
from residua.errors import DomainError, WorkloadError
from residua.linalg.arrays import Floats
from residua.linalg.lattice import Lattice
from residua.showing import Shown
from residua.workload.asking import attribute_queries, listed_ranges
from residua.workload.attribute_queries import AttributeQueries, Identity
from residua.workload.explicit import Explicit, check_cells, explicit_of_marginals
from residua.workload.marginals import TOTAL, Marginals, marginals, renumber

Asked = str | ArrayLike | AttributeQueries


@dataclass(frozen=True, eq=False)
class Family:
    """Terms that ask the same of every attribute they share.

    Args:
        sets: the terms' attribute sets and weights.
        queries: what is asked of each attribute of the domain; of an attribute in no set, its values.
    """

    sets: Marginals
    queries: tuple[AttributeQueries, ...]

    @cached_property
    def rows(self) -> Floats:
        """How many rows are asked of each attribute, (attributes,)."""
        return np.array([float(asked.rows) for asked in self.queries])

    @cached_property
    def cells(self) -> Floats:
        """How many queries each term has, (terms,)."""
        return self.sets.lattice.products(self.rows)[self.sets.numbers]

    @cached_property
    def used(self) -> frozenset[int]:
        """The attributes that some term asks about."""
        lattice, sizes = self.sets.lattice, self.sets.lattice.set_sizes[self.sets.numbers]
        found: set[int] = set()
        for size in np.unique(sizes).tolist():
            rows = self.sets.numbers[sizes == size] - lattice.offsets[size]
            found.update(np.unique(lattice.levels[size][rows]).tolist())
        return frozenset(found)


@dataclass(frozen=True, eq=False)
class Products(Shown):
    """Products of per-attribute queries, each term with a weight. Made by `product`, `prefixes`, `ranges`,
    `hierarchy`; add workloads with `+`, weigh with `*`.

    A term is a set of attributes and, for each of them, rows; its queries are all products of those rows. The queries
    run family by family (terms that ask the same of the attributes they share stand together), term by term, and
    within a term row by row with the attributes in the domain's order.

    Args:
        domain: what the table may hold.
        lattice: the closure of all terms' sets.
        families: the terms.
    """

    domain: Domain
    lattice: Lattice
    families: tuple[Family, ...]

    noun: ClassVar[str] = "terms"  # what `len` counts
    plain: ClassVar[bool] = False  # whether attributes are asked by their values, and nothing else is

    def __len__(self) -> int:
        return sum(len(family.sets) for family in self.families)

    @cached_property
    def weights(self) -> Floats:
        """How much each term matters, (terms,)."""
        return np.concatenate([family.sets.weights for family in self.families])

    @cached_property
    def cells(self) -> Floats:
        """How many queries each term has, (terms,), as floats: they may exceed any integer type."""
        return np.concatenate([family.cells for family in self.families])

    @cached_property
    def sets(self) -> tuple[tuple[str, ...], ...]:
        """The terms' attribute sets by name."""
        return tuple(names for family in self.families for names in family.sets.sets)

    @cached_property
    def queries(self) -> int:
        """How many queries all terms have together."""
        if self.cells.sum() < 2**52:
            return int(self.cells.sum())
        return sum(math.prod(asked.rows for _, asked in self.term(family, k)) for family, k in self._places())

    def term(self, family: Family, place: int) -> tuple[tuple[int, AttributeQueries], ...]:
        """The attributes of a family's term, by position, with what is asked of each."""
        members = self.lattice.members(int(family.sets.numbers[place]))
        return tuple((i, family.queries[i]) for i in members)

    def terms(self) -> Iterator[tuple[tuple[int, AttributeQueries], ...]]:
        """Every term, in order."""
        return (self.term(family, place) for family, place in self._places())

    def _places(self) -> Iterator[tuple[Family, int]]:
        return ((family, place) for family in self.families for place in range(len(family.sets)))

    def titles(self) -> Iterator[str]:
        """What each term is, in words: `age: prefixes × sex`."""
        return (term_title(self.domain, term) for term in self.terms())

    def each(self) -> Iterator[Products | Marginals]:
        """Each term as a workload."""
        names = self.domain.names
        for term in self.terms():
            yield product(self.domain, {names[i]: asked for i, asked in term}, sets=[tuple(names[i] for i, _ in term)])

    def query_labels(self) -> Iterator[str]:
        """A label for every query, such as `age<=30, sex=Female`; the total is called `total`."""
        names = self.domain.names
        for term in self.terms():
            labels = [[names[i] + text for text in asked.labels(self.domain[names[i]])] for i, asked in term]
            yield from (", ".join(parts) or "total" for parts in crossed(*labels))

    def __add__(self, other: Products | Marginals | Explicit) -> Products | Marginals | Explicit:
        from residua.workload.joint import joined

        if isinstance(other, Explicit):
            return joined(self, other)
        return _joined(self, other) if isinstance(other, Products | Marginals) else NotImplemented

    def __radd__(self, other: Marginals | Explicit) -> Products | Marginals | Explicit:
        from residua.workload.joint import joined

        if isinstance(other, Explicit):
            return joined(other, self)
        return _joined(other, self) if isinstance(other, Marginals) else NotImplemented

    def __mul__(self, factor: float) -> Products:
        scaled = tuple(Family(family.sets * factor, family.queries) for family in self.families)
        return Products(self.domain, self.lattice, scaled)

    __rmul__ = __mul__

    def __repr__(self) -> str:
        return f"Products({len(self):,} terms over {len(self.domain)} attributes, {self.queries:,} queries)"


def term_title(domain: Domain, term: Sequence[tuple[int, AttributeQueries]]) -> str:
    """A term in words, such as `age: prefixes × sex`."""
    return titled((domain.names[i], asked.title) for i, asked in term)


def titled(axes: Iterable[tuple[str, str]]) -> str:
    """A table in words, from its attributes and what is asked of each; nothing for its values."""
    return " × ".join(f"{name}: {what}" if what else name for name, what in axes) or TOTAL


def product(
    domain: Domain,
    asked: Mapping[str, Asked],
    *,
    ways: int | Iterable[int] | None = None,
    sets: Iterable[Sequence[str]] | None = None,
    weight: float = 1.0,
) -> Products | Marginals:
    """Asks for products: on each attribute a kind of query or a matrix, all crossed.

    Args:
        domain: what the table may hold.
        asked: attribute → `"identity"` (its values), `"prefixes"`, `"ranges"`, `"hierarchy"` (the groups of its
            levels), or a matrix with one column per value.
        ways: instead of one term on the named attributes, all combinations of so many attributes of the domain, each
            attribute asked as named, the others by their values.
        sets: instead, these attribute sets, asked in the same way.
        weight: how much each query matters, relative to others added with `+`.

    Returns:
        A workload; plain marginals where nothing but values is asked.

    Raises:
        WorkloadError: an unknown kind or attribute, a matrix that does not fit, nothing asked.

    Example:
        >>> domain = Domain.of_sizes({"age": 100, "sex": 2, "region": 9})
        >>> product(domain, {"age": "prefixes", "sex": "identity"})
        Products(1 terms over 3 attributes, 200 queries)
        >>> product(domain, {"age": "ranges"}, ways=[1, 2])
        Products(6 terms over 3 attributes, 60,629 queries)
    """
    if not isinstance(domain, Domain):
        raise WorkloadError(f"domain={domain!r} is not a Domain; declare one with rs.Domain.")
    if not isinstance(asked, Mapping):
        raise WorkloadError(
            f"asked={asked!r} is not a mapping from attributes to queries, such as {{'age': 'ranges'}}."
        )
    queries: list[AttributeQueries] = [Identity(int(n)) for n in domain.sizes]
    for name, kind in asked.items():
        try:
            position = domain.position(name)
        except DomainError as problem:
            raise WorkloadError(f"asked: {problem}") from None
        queries[position] = attribute_queries(name, domain[name], kind)
    if ways is None and sets is None:
        if not asked:
            raise WorkloadError("asked is empty; name at least one attribute, or use rs.marginals for the total.")
        sets = [tuple(asked)]
    return _of_families(domain, [Family(marginals(domain, sets, ways=ways, weight=weight), tuple(queries))])


def prefixes(
    domain: Domain, attribute: str | Sequence[str], *, by: Sequence[str] = (), weight: float = 1.0
) -> Products | Marginals:
    """Asks how many records have each value of an attribute or an earlier one, for each value of the others.

    Example:
        >>> domain = Domain.of_sizes({"age": 100, "sex": 2})
        >>> next(prefixes(domain, "age", by=["sex"]).query_labels())
        'age<=0, sex=0'
    """
    return product(domain, _each(domain, attribute, by, "prefixes"), weight=weight)


def ranges(
    domain: Domain,
    attribute: str | Sequence[str],
    *,
    by: Sequence[str] = (),
    listed: Sequence[tuple[Label, Label]] | None = None,
    weight: float = 1.0,
) -> Products | Marginals:
    """Asks for every range of consecutive values of an attribute (or the ones listed), for each value of the others.

    Args:
        domain: what the table may hold.
        attribute: whose ranges; of several, all their ranges are crossed.
        by: attributes whose values are crossed with the ranges.
        listed: only these ranges, each the labels of its first and its last value.
        weight: how much each query matters.

    Raises:
        WorkloadError: a range outside the attribute, or that ends before it begins.

    Example:
        >>> domain = Domain.of_sizes({"age": 100, "sex": 2})
        >>> ranges(domain, "age", by=["sex"])
        Products(1 terms over 2 attributes, 10,100 queries)
        >>> list(ranges(domain, "age", listed=[(18, 64)]).query_labels())
        ['age=18..64']
    """
    asked = _each(domain, attribute, by, "ranges")
    if listed is not None:
        if not isinstance(attribute, str):
            raise WorkloadError("listed gives the ranges of one attribute; use rs.product with matrices for several.")
        asked[attribute] = listed_ranges(attribute, domain[attribute], listed)
    return product(domain, asked, weight=weight)


def hierarchy(
    domain: Domain, attribute: str | Sequence[str], *, by: Sequence[str] = (), weight: float = 1.0
) -> Products | Marginals:
    """Asks for every group of every level of an attribute, and its values, for each value of the others.

    Raises:
        WorkloadError: the attribute was declared without levels.
    """
    return product(domain, _each(domain, attribute, by, "hierarchy"), weight=weight)


def explicit_of_products(workload: Products) -> Explicit:
    """Products as explicit queries over the cells of all attributes they mention.

    Raises:
        WorkloadError: too many cells to list.
    """
    from scipy.sparse import csr_array, kron, vstack

    domain = workload.domain
    union = tuple(sorted({i for term in workload.terms() for i, _ in term}))
    check_cells(domain, union)
    if workload.queries * math.prod(int(domain.sizes[i]) for i in union) > 2**31:
        raise WorkloadError(f"{workload.queries:,} queries are too many to write out; ask for fewer.")
    blocks = []
    for term in workload.terms():
        asked = dict(term)
        factors = [
            csr_array(asked[i].matrix()) if i in asked else csr_array(np.ones((1, int(domain.sizes[i])))) for i in union
        ]
        blocks.append(reduce(lambda a, b: kron(a, b, format="csr"), factors, csr_array(np.ones((1, 1)))))
    weights = np.repeat(workload.weights, workload.cells.astype(np.int64))
    return Explicit(domain, union, csr_array(vstack(blocks, format="csr")), tuple(workload.query_labels()), weights)


def as_products(workload: Products | Marginals) -> Products:
    """A workload of marginals as products of identities."""
    if isinstance(workload, Products):
        return workload
    identities = tuple(Identity(int(n)) for n in workload.domain.sizes)
    return Products(workload.domain, workload.lattice, (Family(workload, identities),))


def as_explicit(workload: Products | Marginals | Explicit) -> Explicit:
    """Any workload as explicit queries."""
    if isinstance(workload, Products):
        return explicit_of_products(workload)
    return explicit_of_marginals(workload) if isinstance(workload, Marginals) else workload.listed()


def products_of_families(domain: Domain, families: Iterable[Family]) -> Products:
    """A workload of these families as they stand, on one lattice (for files)."""
    listed = list(families)
    lattice = reduce(Lattice.union, (family.sets.lattice for family in listed))
    return Products(domain, lattice, tuple(_on(lattice, family) for family in listed))


def _joined(first: Products | Marginals, second: Products | Marginals) -> Products | Marginals:
    if first.domain != second.domain:
        raise WorkloadError("the two workloads are over different domains; declare one domain for both.")
    return _of_families(first.domain, [*as_products(first).families, *as_products(second).families])


def _of_families(domain: Domain, families: list[Family]) -> Products | Marginals:
    """Families that agree on every attribute they share, made one; plain marginals where only values are asked."""
    merged: list[Family] = []
    for family in families:
        for k, kept in enumerate(merged):
            if all(kept.queries[i] == family.queries[i] for i in kept.used & family.used):
                queries = tuple(kept.queries[i] if i in kept.used else asked for i, asked in enumerate(family.queries))
                merged[k] = Family(kept.sets + family.sets, queries)
                break
        else:
            merged.append(family)
    made = products_of_families(domain, [_trimmed(family) for family in merged])
    if len(merged) == 1 and all(isinstance(made.families[0].queries[i], Identity) for i in made.families[0].used):
        return made.families[0].sets
    return made


def _trimmed(family: Family) -> Family:
    """With the values asked of every attribute that is in no set."""
    queries = [asked if i in family.used else Identity(asked.size) for i, asked in enumerate(family.queries)]
    return Family(family.sets, tuple(queries))


def _on(lattice: Lattice, family: Family) -> Family:
    sets = family.sets
    if sets.lattice is lattice:
        return family
    numbers = renumber(sets.lattice, lattice)[sets.numbers]
    return Family(Marginals(sets.domain, lattice, numbers, sets.weights), family.queries)


def _each(domain: Any, attribute: str | Sequence[str], by: Sequence[str], kind: str) -> dict[str, Asked]:
    if not isinstance(domain, Domain):
        raise WorkloadError(f"domain={domain!r} is not a Domain; declare one with rs.Domain.")
    if isinstance(by, str):
        raise WorkloadError(f"by={by!r} is one name; list attributes, such as [{by!r}].")
    for argument, given in (("attribute", attribute), ("by", by)):
        if not isinstance(given, Iterable):
            raise WorkloadError(f"{argument}={given!r} is not a name or a list of names; name attributes.")
    named = [attribute] if isinstance(attribute, str) else list(attribute)
    try:
        domain.positions([*named, *by])
    except DomainError as problem:
        raise WorkloadError(f"attribute and by: {problem}") from None
    if not named:
        raise WorkloadError(f"attribute is empty; name the attribute whose {kind} are asked.")
    return {**dict.fromkeys(named, kind), **dict.fromkeys(by, "identity")}
