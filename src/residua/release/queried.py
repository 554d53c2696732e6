"""Tables of prefixes, ranges and levels: one axis per attribute, one row along it per query.

A term of a products workload is such a table. Of a hierarchy each level is a table of its own: all are read off the
same estimates, so that levels add up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product as crossed
from typing import Any

import numpy as np

from residua.domain import Attribute, Domain, Label
from residua.errors import PlanError
from residua.quoting.terms import place_of
from residua.workload.asking import attribute_queries
from residua.workload.attribute_queries import AttributeQueries, Identity
from residua.workload.nested import Hierarchy, Inside
from residua.workload.products import Asked, Products, as_products, product

Term = tuple[tuple[int, AttributeQueries], ...]


@dataclass(frozen=True)
class Part:
    """Some rows of a term that make a table.

    Args:
        title: which table it is, in words.
        rows: which rows of each axis.
        labels: what each of them is.
    """

    title: str
    rows: tuple[slice, ...]
    labels: tuple[tuple[Label, ...], ...]


def by_position(domain: Domain, combination: Mapping[Sequence[str], Any]) -> dict[Sequence[str], Any]:
    """A combination of cells with coefficients by label, `{("sex",): {"Female": 1, "Male": -1}}`, as arrays.

    Of several attributes a label is a tuple, one for each. Coefficients given by position stay as they are.

    Raises:
        PlanError: a label that is none, or a coefficient that is not a number.
    """
    found: dict[Sequence[str], Any] = {}
    for names, given in combination.items():
        if not isinstance(given, Mapping):
            found[names] = given
            continue
        attributes = domain.listed(names)
        array = np.zeros([domain[name].size for name in attributes])
        for label, number in given.items():
            labels = label if len(attributes) > 1 and isinstance(label, tuple) else (label,)
            if len(labels) != len(attributes):
                raise PlanError(
                    f"combination: {label!r} is not a label for each of {attributes!r}; write ('a', 'b'): 1."
                )
            if isinstance(number, bool) or not isinstance(number, int | float | np.number):
                raise PlanError(f"combination: {number!r} is not a number; give coefficients by label.")
            pairs = zip(attributes, labels, strict=True)
            array[tuple(place_of(name, domain[name], each, "combination") for name, each in pairs)] = number
        found[tuple(attributes)] = array
    return found


def term_of(domain: Domain, attributes: Sequence[str], queries: Mapping[str, Asked]) -> Products:
    """The workload of one table: attributes with what is asked of each, their values by default.

    Raises:
        PlanError: queries of an attribute that the table does not have.
    """
    stray = [name for name in queries if name not in attributes]
    if stray:
        raise PlanError(f"queries: {stray[0]!r} is not an attribute of the table {tuple(attributes)!r}; add it there.")
    asked = {name: attribute_queries(name, domain[name], queries.get(name, "identity")) for name in attributes}
    return as_products(product(domain, asked, sets=[tuple(attributes)]))


def single(workload: Products, term: Term) -> Products:
    """One term of a workload as a workload."""
    names = workload.domain.names
    return as_products(
        product(workload.domain, {names[i]: asked for i, asked in term}, sets=[tuple(names[i] for i, _ in term)])
    )


def parts_of(domain: Domain, term: Term) -> Iterator[Part]:
    """The tables that a term makes: one, or one for each level of its hierarchies."""
    axes = [[(domain.names[i], *row) for row in _axis_parts(asked, domain[domain.names[i]])] for i, asked in term]
    for chosen in crossed(*axes):
        title = titled((name, what) for name, what, _, _ in chosen)
        yield Part(title, tuple(rows for _, _, rows, _ in chosen), tuple(labels for *_, labels in chosen))


def whole_part(domain: Domain, term: Sequence[tuple[int, AttributeQueries]]) -> Part:
    """All rows of a term as one table, in the order of the axes given."""
    labels: list[tuple[Label, ...]] = []
    for i, asked in term:
        parts = _axis_parts(asked, domain[domain.names[i]])
        several = len(parts) > 1
        labels.append(tuple(f"{what}={x}" if several and what else x for what, _, xs in parts for x in xs))
    return Part(term_title(domain, term), tuple(slice(None) for _ in term), tuple(labels))


def term_title(domain: Domain, term: Sequence[tuple[int, AttributeQueries]]) -> str:
    """A term in words, such as `age: prefixes × sex`."""
    return titled((domain.names[i], "" if isinstance(asked, Identity) else asked.kind) for i, asked in term)


def titled(axes: Iterable[tuple[str, str]]) -> str:
    """A table in words, from its attributes and what is asked of each; nothing for its values."""
    return " × ".join(f"{name}: {what}" if what else name for name, what in axes) or "(total)"


def _axis_parts(asked: AttributeQueries, attribute: Attribute) -> list[tuple[str, slice, tuple[Label, ...]]]:
    if isinstance(asked, Identity):
        return [("", slice(None), attribute.labels)]
    if isinstance(asked, Inside):
        return [(asked.kind, slice(None), asked.chosen_labels(attribute))]
    if not isinstance(asked, Hierarchy):
        texts = (text.removeprefix(f".{asked.kind}").removeprefix("=") for text in asked.labels(attribute))
        return [(asked.kind, slice(None), tuple(texts))]
    parts: list[tuple[str, slice, tuple[Label, ...]]] = []
    start = 0
    for name, labels in zip(asked.names, asked.groups, strict=True):
        parts.append((name, slice(start, start + len(labels)), tuple(labels)))
        start += len(labels)
    return [*parts, ("", slice(start, None), attribute.labels)]
