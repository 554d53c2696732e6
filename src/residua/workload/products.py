"""Asking for products: on each attribute of a set its values, prefixes, ranges, groups, or any rows, crossed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from numpy.typing import ArrayLike

from residua.domain import Domain, Label
from residua.errors import WorkloadError
from residua.workload.asking import attribute_queries, listed_ranges
from residua.workload.attribute_queries import AttributeQueries
from residua.workload.listed import positions_of, require_domain
from residua.workload.marginals import marginals
from residua.workload.terms import identities, merged
from residua.workload.workload import Workload

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
            f"asked={asked!r} is not a mapping from attributes to queries, such as {{'age': 'ranges'}}."
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
    if isinstance(by, str):
        raise WorkloadError(f"by={by!r} is one name; list attributes, such as [{by!r}].")
    for argument, given in (("attribute", attribute), ("by", by)):
        if not isinstance(given, Iterable):
            raise WorkloadError(f"{argument}={given!r} is not a name or a list of names; name attributes.")
    named = [attribute] if isinstance(attribute, str) else list(attribute)
    positions_of(domain, [*named, *by], "attribute and by")
    if not named:
        raise WorkloadError(f"attribute is empty; name the attribute whose {kind} are asked.")
    return {**dict.fromkeys(named, kind), **dict.fromkeys(by, "identity")}
