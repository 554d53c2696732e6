"""Rows of codes, part by part: each attribute raked to its tables over the rows of the part, then chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from residua.errors import PlanError
from residua.estimation.conditionals import Given, Step
from residua.linalg.arrays import Floats, Integers

Codes = NDArray[np.int32]
Progress = Callable[[str, int, int], object]
_PART, _FEWEST, _MOST_CHANCES = 65_536, 4_096, 2**24
_ROUNDS, _LATER = 25, 4  # of raking: in the first part, and in the others, which begin where it ended
_TILT = 4.0  # how strongly debts decide: a value that is owed one row is e^4 times as likely
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
        self.table = Given((), (), step.single[None, :]) if step.public is None else step.public
        self.quotas: Integers | None = None
        self.rows = rows
        self.first = True

    def fill(self, codes: Codes, random: np.random.Generator, *, last: bool) -> None:
        """Chooses this attribute's values for the rows of a part, in place."""
        from residua.estimation.row_kernels import choose  # takes long to load

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
        from residua.estimation.row_kernels import multiply, rake  # takes long to load

        step, n = self.step, codes.shape[1]
        chances = np.tile(step.single, (n, 1))
        for ban in step.bans:
            hit = np.ones(n, dtype=bool)
            for j, named in ban.others:
                hit &= named[codes[j]]
            chances[np.ix_(hit, ban.values)] = 0.0
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
        return np.asarray(np.divide(chances, sums, out=chances, where=sums > 0))

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
    found = whole + (ranks < (sizes - whole.sum(axis=1))[:, None])
    return np.where(sums > 0, found, 0).astype(np.int64)
