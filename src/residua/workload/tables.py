"""Asking for tables: marginals, and products of rows (prefixes, ranges, groups, any matrix), crossed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from residua.domain import Domain, Label
from residua.errors import WorkloadError, kind_of, named
from residua.linalg.arrays import Integers, Positions
from residua.linalg.lattice import all_sets, closure, extensions
from residua.workload.asking import attribute_queries, listed_ranges
from residua.workload.pieces import LEAST_WEIGHT, Family, checked_weight, identities
from residua.workload.rows import AttributeQueries
from residua.workload.workload import Workload, merged, positions_of, require_domain

_MOST_SETS = 2**25
_POWERS = {"1/sqrt(cells)": -0.5, "1/cells": -1.0}


def marginals(
    domain: Domain,
    sets: Iterable[Sequence[str]] | None = None,
    *,
    ways: int | Iterable[int] | None = None,
    max_cells: int | None = None,
    weight: float | str = 1.0,
) -> Workload:
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
        Workload(7 marginals of 3 attributes, 131 cells)
    """
    require_domain(domain)
    if (sets is None) == (ways is None and max_cells is None):
        raise WorkloadError("say which marginals: either sets=[(…), …], or ways=… and/or max_cells=….")
    power = _POWERS.get(weight) if isinstance(weight, str) else 0.0
    if power is None:
        raise WorkloadError(f"weight={named(weight)} is not a number, nor {' nor '.join(map(repr, _POWERS))}.")
    each = checked_weight(1.0 if isinstance(weight, str) else weight)
    if sets is not None:
        families, order = _listed(domain, sets)
    else:
        families, order = [_of_one_amount(domain, rows) for rows in _enumerated(domain, ways, max_cells)], None
    if not sum(len(rows) for rows in families):
        raise WorkloadError("the workload is empty; ask for at least one marginal.")
    lattice = closure(families, len(domain))
    numbers = np.concatenate([lattice.find(rows) for rows in families])
    if order is not None:
        numbers = numbers[order]
    cells = lattice.products(domain.sizes.astype(np.float64))[numbers] if power else np.ones(len(numbers))
    weights = each * cells**power
    if not (weights >= LEAST_WEIGHT).all():
        raise WorkloadError(f"weight={named(weight)} is beyond what can be computed with; ask for smaller marginals.")
    return Workload.of_families(domain, lattice, (Family(lattice, numbers, weights, identities(domain)),))


def _listed(domain: Domain, sets: Iterable[Sequence[str]]) -> tuple[list[Positions], Integers]:
    """Listed sets as rows by size, and where in those each listed set stands."""
    if isinstance(sets, str):
        raise WorkloadError(f"sets={sets!r} is one name; list attribute sets, such as [({sets!r},)].")
    if not isinstance(sets, Iterable):
        raise WorkloadError(f"sets={named(sets)} is not a list of attribute sets, such as [('age', 'sex')].")
    places: dict[tuple[int, ...], int] = {}
    for names in sets:
        row = tuple(sorted(positions_of(domain, names, "sets")))
        if len(set(names) & set(domain.amounts)) > 1:
            raise WorkloadError(f"the set {tuple(names)!r} holds two amounts; ask for a table of each.")
        if row in places:
            twice = tuple(domain.names[i] for i in row)
            raise WorkloadError(f"the set {twice!r} is listed twice; list it once and give it a weight instead.")
        places[row] = len(places)
    by_size = sorted(places, key=len)
    families = [
        np.array(list(rows), dtype=np.int32).reshape(-1 if size else 1, size)
        for size, rows in groupby(by_size, key=len)
    ]
    return families, np.argsort([places[row] for row in by_size])


def _of_one_amount(domain: Domain, rows: Positions) -> Positions:
    """The sets that hold no two amounts: of each amount there are sums, of no two together."""
    return rows[np.isin(rows, domain.positions(domain.amounts)).sum(axis=1) < 2] if domain.amounts else rows


def _enumerated(domain: Domain, ways: int | Iterable[int] | None, max_cells: int | None) -> list[Positions]:
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
        raise WorkloadError(f"max_cells={named(max_cells)} is not a positive whole number.")
    small = _sets_with_at_most(domain.sizes, min(int(max_cells), 2**62), max(sizes))
    return [rows for rows in small if rows.shape[1] in sizes]


def _sets_with_at_most(sizes: Integers, cells: int, largest: int) -> list[Positions]:
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
        raise WorkloadError(f"ways={named(ways)} is not a list of sizes, such as [1, 2].") from None
    for size in listed:
        if isinstance(size, bool) or not isinstance(size, int | np.integer) or not 0 <= size <= attributes:
            raise WorkloadError(f"ways holds {kind_of(size)}; sizes are whole numbers from 0 to {attributes}.")
    if len(set(listed)) < len(listed):
        raise WorkloadError("ways lists a size twice; list each once.")
    if not listed:
        raise WorkloadError("ways is empty; ask for at least one size, such as ways=[1, 2].")
    return sorted(int(size) for size in listed)


AskedRows = str | ArrayLike | AttributeQueries


def product(
    domain: Domain,
    asked: Mapping[str, AskedRows],
    *,
    ways: int | Iterable[int] | None = None,
    sets: Iterable[Sequence[str]] | None = None,
    weight: float = 1.0,
) -> Workload:
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
        A workload; it is plain where nothing but values is asked.

    Raises:
        WorkloadError: an unknown kind or attribute, a matrix that does not fit, nothing asked.

    Example:
        >>> domain = Domain.of_sizes({"age": 100, "sex": 2, "region": 9})
        >>> product(domain, {"age": "prefixes", "sex": "identity"})
        Workload(1 term over 3 attributes, 200 queries)
        >>> product(domain, {"age": "ranges"}, ways=[1, 2])
        Workload(6 terms over 3 attributes, 60,629 queries)
    """
    require_domain(domain)
    if not isinstance(asked, Mapping):
        raise WorkloadError(
            f"asked={named(asked)} is not a mapping from attributes to queries, such as {{'age': 'ranges'}}."
        )
    queries = list(identities(domain))
    for name, kind in asked.items():
        (position,) = positions_of(domain, [name], "asked")
        queries[position] = attribute_queries(name, domain[name], kind)
    if ways is None and sets is None:
        if not asked:
            raise WorkloadError("asked is empty; name at least one attribute, or use rs.marginals for the total.")
        sets = [tuple(asked)]
    (family,) = marginals(domain, sets, ways=ways, weight=weight).families
    return Workload(domain, (merged(domain, [replace(family, queries=tuple(queries))]),))


def prefixes(
    domain: Domain, attribute: str | Sequence[str], *, by: Sequence[str] = (), weight: float = 1.0
) -> Workload:
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
) -> Workload:
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
        Workload(1 term over 2 attributes, 10,100 queries)
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
) -> Workload:
    """Asks for every group of every level of an attribute, and its values, for each value of the others.

    Raises:
        WorkloadError: the attribute was declared without levels.
    """
    return product(domain, _each(domain, attribute, by, "hierarchy"), weight=weight)


def _each(domain: Any, attribute: str | Sequence[str], by: Sequence[str], kind: str) -> dict[str, AskedRows]:
    require_domain(domain)
    by = (by,) if isinstance(by, str) else by
    for argument, given in (("attribute", attribute), ("by", by)):
        if not isinstance(given, Iterable):
            raise WorkloadError(f"{argument}={named(given)} is not a name or a list of names; name attributes.")
    asked = [attribute] if isinstance(attribute, str) else list(attribute)
    positions_of(domain, [*asked, *by], "attribute and by")
    if not asked:
        raise WorkloadError(f"attribute is empty; name the attribute whose {kind} are asked.")
    return {**dict.fromkeys(asked, kind), **dict.fromkeys(by, "identity")}
