"""How rows are made, attribute by attribute: in which order, and from which tables of those before each.

A junction tree would hold the joint table of every clique. Instead, each attribute's chances given the attributes
before it are a product of factors, one per table that it shares with them, raked until rows and tables agree (iterative
proportional fitting over the rows themselves). So nothing larger than a table of three attributes is ever formed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from residua.estimation.facts import Members, Public
from residua.estimation.fit import Fitted
from residua.estimation.tables import Tables
from residua.linalg.arrays import Booleans, Floats, Integers

PAIRS, PARENTS = 24, 4  # at most: tables of two per attribute, and attributes whose pairs give tables of three
MOST_CELLS = 200_000  # of a table that is raked to


@dataclass(frozen=True, eq=False)
class Given:
    """The shares of an attribute's values given the values of others.

    Args:
        others: positions of the other attributes.
        shape: how many values each of them has.
        shares: (values of the others, flat; values of the attribute), each row of sum 1, or of zeros where nobody is.
    """

    others: Members
    shape: tuple[int, ...]
    shares: Floats

    def groups(self, codes: NDArray[np.int32]) -> Integers:
        """The group of each row, by its values of the others, (rows,); `codes` has a row per attribute."""
        if not self.others:
            return np.zeros(codes.shape[1], dtype=np.int64)
        return np.asarray(np.ravel_multi_index([codes[j] for j in self.others], self.shape), dtype=np.int64)

    @property
    def normalised(self) -> Given:
        """The same with rows of sum 1, where they are not of zeros."""
        sums = self.shares.sum(axis=1, keepdims=True)
        shares = np.divide(self.shares, sums, out=np.zeros_like(self.shares), where=sums > 0)
        return Given(self.others, self.shape, shares)


@dataclass(frozen=True, eq=False)
class Ban:
    """A rule about impossible cells, at the last of its attributes.

    Args:
        others: for each other attribute of the rule, its position and which of its values the rule names.
        values: which values of this attribute it names.
    """

    others: tuple[tuple[int, Booleans], ...]
    values: Booleans


@dataclass(frozen=True, eq=False)
class Step:
    """What one attribute's values are chosen from.

    Args:
        attribute: its position.
        single: its own table, of sum 1.
        givens: tables that it shares with attributes before it, the most informative last.
        near: the attributes before it that tell most of it, the most informative first.
        bans: what it must not have beside values of attributes before it.
        public: a public table that it completes: the positions of the others, and its counts, (others, flat; values).
    """

    attribute: int
    single: Floats
    givens: tuple[Given, ...]
    near: Members
    bans: tuple[Ban, ...]
    public: Given | None


def information(fitted: Fitted) -> Floats:
    """How much each pair of attributes tells of each other, in nats, (attributes, attributes)."""
    starts = fitted.values.starts
    p = fitted.pairs / max(fitted.total, 1e-300)
    singles = fitted.singles / max(fitted.total, 1e-300)
    with np.errstate(divide="ignore", invalid="ignore"):
        each = np.where(p > 0, p * (np.log(p) - np.log(np.outer(singles, singles))), 0.0)
    each = np.where(np.isfinite(each), each, 0.0)
    return np.maximum(np.add.reduceat(np.add.reduceat(each, starts, axis=0), starts, axis=1), 0.0)


def steps_of(tables: Tables, wanted: Sequence[int]) -> list[Step]:
    """The attributes (positions) in the order in which rows get them, and what each rests on."""
    told = information(tables.fitted)
    np.fill_diagonal(told, 0.0)
    order = _order(tables.public, told, wanted)
    return [_step(tables, told, tuple(order[:number]), i) for number, i in enumerate(order)]


def _order(public: Public, told: Floats, wanted: Sequence[int]) -> list[int]:
    """Attributes of public tables and of rules first; then always the one that those before it tell most of."""
    left = list(wanted)
    first = {i for fact in public.facts for i in fact.members if len(fact.members) > 1}
    ruled = {i for rule in public.domain.impossible for i in public.domain.positions(rule.names)}
    order: list[int] = []
    while left:
        best = max(
            left, key=lambda i: (i in first, i in ruled, told[i, order].sum() if order else told[i, list(wanted)].sum())
        )
        order.append(best)
        left.remove(best)
    return order


def _step(tables: Tables, told: Floats, before: Members, i: int) -> Step:
    fitted, public = tables.fitted, tables.public
    near = tuple(sorted(before, key=lambda j: -told[i, j]))
    givens = [_given(tables, i, (j,)) for j in near[:PAIRS]]
    pairs = combinations(near[:PARENTS], 2)
    givens += [_given(tables, i, pair) for pair in pairs if _cells(tables, (i, *pair)) <= MOST_CELLS]
    known = _public(public, before, i)
    if known is not None and len(known.others) > 1:
        givens.append(known.normalised)
    single = fitted.single(i) / max(float(fitted.single(i).sum()), 1e-300)
    givens.sort(key=lambda given: (len(given.others), -near.index(given.others[0])))
    return Step(i, single, tuple(givens), near, _bans(public, before, i), known)


def _public(public: Public, before: Members, i: int) -> Given | None:
    """The largest public table of this attribute and of some before it, in counts."""
    found = [
        (tuple(j for j in fact.members if j == i or j in before), fact) for fact in public.facts if i in fact.members
    ]
    if not found:
        return None
    members, fact = max(found, key=lambda one: len(one[0]))
    counts = np.moveaxis(fact.margin(members), members.index(i), -1)
    return Given(tuple(j for j in members if j != i), counts.shape[:-1], np.array(counts.reshape(-1, counts.shape[-1])))


def _cells(tables: Tables, members: Sequence[int]) -> int:
    return int(np.prod([int(tables.fitted.values.sizes[j]) for j in members]))


def _given(tables: Tables, i: int, others: Members) -> Given:
    """The shares of an attribute's values given others, from the table of all of them."""
    members = tuple(sorted((i, *others)))
    table = np.moveaxis(tables.table(members), members.index(i), -1)
    inside = sorted(others)
    table = table.transpose([*(inside.index(j) for j in others), len(others)])
    return Given(others, table.shape[:-1], table.reshape(-1, table.shape[-1])).normalised


def _bans(public: Public, before: Members, i: int) -> tuple[Ban, ...]:
    """The rules that this attribute is the last of; rules of two and three attributes are in the tables as well."""
    domain = public.domain
    found = []
    for rule in domain.impossible:
        members = domain.positions(rule.names)
        if i in members and set(members) <= {i, *before}:
            masks = {}
            for name, labels in rule.conditions:
                mask = np.zeros(domain[name].size, dtype=bool)
                mask[[domain[name].labels.index(label) for label in labels]] = True
                masks[domain.position(name)] = mask
            found.append(Ban(tuple((j, masks[j]) for j in members if j != i), masks[i]))
    return tuple(found)
