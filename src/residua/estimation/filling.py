"""How rows are made, attribute by attribute: in which order, from which tables of those before each, raked and chosen.

A junction tree would hold the joint table of every clique. Instead, each attribute's chances given the attributes
before it are a product of factors, one per table that it shares with them, raked until rows and tables agree (iterative
proportional fitting over the rows themselves). So nothing larger than a table of three attributes is ever formed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.special import rel_entr

from residua.errors import PlanError
from residua.estimation.fit import Fitted, Progress
from residua.estimation.kernels import choose, multiply, rake
from residua.estimation.observed import Members, Public
from residua.estimation.tables import EstimatedTables
from residua.linalg.arrays import Booleans, Floats, Integers

PAIRS, PARENTS = 24, 4  # at most: tables of two per attribute, and attributes whose pairs give tables of three
MOST_CELLS = 200_000  # of a table that is raked to


@dataclass(frozen=True, eq=False)
class GivenShares:
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
    def normalised(self) -> GivenShares:
        """The same with rows of sum 1, where they are not of zeros."""
        sums = self.shares.sum(axis=1, keepdims=True)
        shares = np.divide(self.shares, sums, out=np.zeros_like(self.shares), where=sums > 0)
        return GivenShares(self.others, self.shape, shares)


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
    givens: tuple[GivenShares, ...]
    near: Members
    bans: tuple[Ban, ...]
    public: GivenShares | None


def information(fitted: Fitted) -> Floats:
    """How much each pair of attributes tells of each other, in nats, (attributes, attributes)."""
    d, total = len(fitted.values.sizes), max(fitted.total, 1e-300)
    shared = np.zeros((d, d))
    for i, j in combinations(range(d), 2):
        each = rel_entr(fitted.pair(i, j) / total, np.outer(fitted.single(i), fitted.single(j)) / total**2)
        shared[i, j] = shared[j, i] = max(float(each[np.isfinite(each)].sum()), 0.0)
    return shared


def steps_of(tables: EstimatedTables, wanted: Sequence[int]) -> list[Step]:
    """The attributes (positions) in the order in which rows get them, and what each rests on."""
    information_of = information(tables.fitted)
    order = _order(tables.public, information_of, wanted)
    return [_step(tables, information_of, tuple(order[:number]), i) for number, i in enumerate(order)]


def _order(public: Public, shared: Floats, wanted: Sequence[int]) -> list[int]:
    """Attributes of public tables and of rules first; then always the one that those before it tell most of."""
    left = list(wanted)
    alone = {i for fact in public.facts for i in fact.members}
    first = {i for fact in public.facts for i in fact.members if len(fact.members) > 1}
    ruled = {i for rule in public.domain.impossible for i in public.domain.positions(rule.names)}
    order: list[int] = []
    while left:
        best = max(
            left,
            key=lambda i: (
                i in first,
                i in ruled,
                i in alone,
                shared[i, order].sum() if order else shared[i, list(wanted)].sum(),
            ),
        )
        order.append(best)
        left.remove(best)
    return order


def _step(tables: EstimatedTables, shared: Floats, before: Members, i: int) -> Step:
    fitted, public = tables.fitted, tables.public
    near = tuple(sorted(before, key=lambda j: -shared[i, j]))
    givens = [_given(tables, i, (j,)) for j in near[:PAIRS]]
    pairs = combinations(near[:PARENTS], 2)
    givens += [_given(tables, i, pair) for pair in pairs if _cells(tables, (i, *pair)) <= MOST_CELLS]
    known = _public(public, before, i)
    if known is not None and len(known.others) > 1:
        givens.append(known.normalised)
    single = fitted.single(i) / max(float(fitted.single(i).sum()), 1e-300)
    givens.sort(key=lambda given: (len(given.others), -near.index(given.others[0])))
    return Step(i, single, tuple(givens), near, _bans(public, before, i), known)


def _public(public: Public, before: Members, i: int) -> GivenShares | None:
    """The largest public table of this attribute and of some before it, in counts."""
    parts = [
        (tuple(j for j in fact.members if j == i or j in before), fact) for fact in public.facts if i in fact.members
    ]
    if not parts:
        return None
    members, fact = max(parts, key=lambda one: len(one[0]))
    counts = np.moveaxis(fact.margin(members), members.index(i), -1)
    return GivenShares(
        tuple(j for j in members if j != i), counts.shape[:-1], np.array(counts.reshape(-1, counts.shape[-1]))
    )


def _cells(tables: EstimatedTables, members: Sequence[int]) -> int:
    return int(np.prod([int(tables.fitted.values.sizes[j]) for j in members]))


def _given(tables: EstimatedTables, i: int, others: Members) -> GivenShares:
    """The shares of an attribute's values given others, from the table of all of them."""
    members = tuple(sorted((i, *others)))
    table = np.moveaxis(tables.table(members), members.index(i), -1)
    inside = sorted(others)
    table = table.transpose([*(inside.index(j) for j in others), len(others)])
    return GivenShares(others, table.shape[:-1], table.reshape(-1, table.shape[-1])).normalised


def _bans(public: Public, before: Members, i: int) -> tuple[Ban, ...]:
    """The rules that this attribute is the last of; rules of two and three attributes are in the tables as well."""
    domain = public.domain
    bans = []
    for rule in domain.impossible:
        members = domain.positions(rule.names)
        if i in members and set(members) <= {i, *before}:
            masks = {}
            for name, labels in rule.conditions:
                mask = np.zeros(domain[name].size, dtype=bool)
                mask[[domain[name].labels.index(label) for label in labels]] = True
                masks[domain.position(name)] = mask
            bans.append(Ban(tuple((j, masks[j]) for j in members if j != i), masks[i]))
    return tuple(bans)


Codes = NDArray[np.int32]
_PART, _FEWEST, _MOST_CHANCES = 65_536, 4_096, 2**24
_ROUNDS, _LATER = 25, 4  # of raking: in the first part, and in the others, which begin where it ended
_TILT = 4.0  # how strongly debts decide: a value that is owed one row is e^4 times as likely
_LEAST = 1e-100  # a chance that no tilt makes likely
_CLOSE = 2e-3  # of the rows: raking stops when all tables are this near


def part_sizes(rows: int, largest: int) -> list[int]:
    """How many rows each part has; all but the last alike, smaller where an attribute has very many values."""
    size = min(_PART, max(_FEWEST, _MOST_CHANCES // max(largest, 1)))
    return [size] * (rows // size) + ([rows % size] if rows % size else [])


def filled(
    steps: Sequence[Step], attributes: int, rows: int, random: np.random.Generator, say: Progress
) -> Iterator[Codes]:
    """Rows of codes, (rows of a part, attributes), part by part; rows of the whole are in no order."""
    columns = [_Column(step, rows) for step in steps]
    sizes = part_sizes(rows, max((len(step.single) for step in steps), default=1))
    for number, size in enumerate(sizes):
        codes = np.full((attributes, size), -1, dtype=np.int32)
        for done, column in enumerate(columns):
            column.fill(codes, random, last=number == len(sizes) - 1)
            if number == 0:
                say("making rows", done * size // len(columns), rows)
        say("making rows", sum(sizes[: number + 1]), rows)
        yield np.ascontiguousarray(codes.T[random.permutation(size)])


class _Column:
    """One attribute, and what earlier parts left: factors of its tables, quotas, debts."""

    def __init__(self, step: Step, rows: int) -> None:
        self.step = step
        self.factors = [np.ones_like(given.shares) for given in step.givens]
        # What quotas are about: a public table, or the attribute alone.
        self.table = GivenShares((), (), step.single[None, :]) if step.public is None else step.public
        self.quotas: Integers | None = None
        self.rows = rows
        self.first = True

    def fill(self, codes: Codes, random: np.random.Generator, *, last: bool) -> None:
        """Chooses this attribute's values for the rows of a part, in place."""
        step, n = self.step, codes.shape[1]
        chances = self._chances(codes)
        groups = self.table.groups(codes)
        quotas = self._quotas(groups, last=last)
        # Rows that the nearest attributes make alike stand together, in no order among themselves.
        keys = [random.random(n), *(codes[j] for j in reversed(step.near[:3]))]
        if self.table.others:
            keys.append(groups)
        order = np.lexsort(keys)
        chosen = np.empty(n, dtype=np.int32)
        owed = random.random(len(step.single)) - 0.5
        choose(chances, order, groups, quotas, random.random(n), owed, _TILT, chosen)
        if (chosen < 0).any():
            raise PlanError(
                "the structural zeros leave some rows no value of an attribute; declare them of the smallest sets of "
                "attributes that they are about."
            )
        codes[step.attribute] = chosen
        assert self.quotas is not None
        taken = np.bincount(groups * len(step.single) + chosen, minlength=self.quotas.size)
        self.quotas = self.quotas - taken.reshape(self.quotas.shape)
        self.first = False

    def _chances(self, codes: Codes) -> Floats:
        """The chances of each value for each row, raked to all tables, (rows, values)."""
        step, n = self.step, codes.shape[1]
        chances = np.tile(step.single, (n, 1))
        for ban in step.bans:
            hit = np.ones(n, dtype=bool)
            for j, named in ban.others:
                hit &= named[codes[j]]
            chances[np.ix_(hit, ban.values)] = 0.0
        possible = chances > 0 if step.public is not None else None
        groups = [given.groups(codes) for given in step.givens]
        if not self.first:
            for group, factors in zip(groups, self.factors, strict=True):
                multiply(chances, group, factors)
        # Only the first part's factors are kept: what each part adds to them would otherwise grow without end.
        kept = self.factors if self.first else [factors.copy() for factors in self.factors]
        for _ in range(_ROUNDS if self.first else _LATER):
            apart = [
                rake(chances, group, given.shares, factors)
                for group, given, factors in zip(groups, step.givens, kept, strict=True)
            ]
            if max(apart, default=0.0) <= _CLOSE * n:
                break
        sums = chances.sum(axis=1, keepdims=True)
        np.divide(chances, sums, out=chances, where=sums > 0)
        if possible is not None:  # what is public is met, even where an estimate says that nobody is
            np.maximum(chances, _LEAST, out=chances, where=possible)
        return chances

    def _quotas(self, groups: Integers, *, last: bool) -> Integers:
        """How many rows of the part get each value, in each group of a public table (or in all), (groups, values)."""
        counts = self.table.shares
        inside = np.bincount(groups, minlength=len(counts))
        if self.quotas is None:
            alone = len(groups) == self.rows  # then the sizes of the groups are known already
            sizes = inside if alone else apportioned(counts.sum(axis=1)[None, :], np.array([self.rows]))[0]
            self.quotas = apportioned(counts, sizes)
        left = np.maximum(self.quotas, 0)
        if last and (left.sum(axis=1) == inside).all():
            return left
        return np.minimum(apportioned(left.astype(np.float64), inside), left)


def apportioned(weights: Floats, sizes: Integers) -> Integers:
    """Whole numbers in proportion to each row of weights (g, k), with these sums, by the largest remainders.

    Example:
        >>> apportioned(np.array([[1.0, 1.0, 2.0]]), np.array([6])).tolist()
        [[2, 1, 3]]
    """
    sums = weights.sum(axis=1, keepdims=True)
    exact = np.divide(weights * sizes[:, None], sums, out=np.zeros_like(weights), where=sums > 0)
    whole = np.floor(exact + 1e-9)
    ranks = np.argsort(np.argsort(-(exact - whole), axis=1, kind="stable"), axis=1, kind="stable")
    counts = whole + (ranks < (sizes - whole.sum(axis=1))[:, None])
    return np.where(sums > 0, counts, 0).astype(np.int64)
