"""Ordered values divided into runs, these into runs again, up to one that holds all: as equal as they can be.

A run of m values has b parts, the first `m mod b` of them with one value more than the others. So on each level runs
have one of two sizes, f and f + 1, and what parts a run has follows from its size: every level has two kinds of run at
most, however many runs there are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from residua.linalg.arrays import Integers


@dataclass(frozen=True)
class BucketShape:
    """Runs on levels: those of level 0 consist of values, the last level is one run of all.

    Args:
        size: how many values there are.
        parts: how many parts a run of each level has, from fine to coarse; of the finest the most.

    Example:
        >>> shape = BucketShape(11, (3, 2, 2))
        >>> shape.counts, [each.tolist() for each in shape.sizes]
        ((4, 2, 1), [[3, 3, 3, 2], [6, 5], [11]])
    """

    size: int
    parts: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.parts or any(not isinstance(b, int) or b < 1 for b in self.parts):
            raise ValueError("the runs have no parts")
        if self.counts[0] > self.size or self.parts[0] != -(-self.size // self.counts[0]):
            raise ValueError("the runs do not hold the values")

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """How many runs each level has."""
        return tuple(math.prod(self.parts[level + 1 :]) for level in range(len(self.parts)))

    @cached_property
    def least(self) -> tuple[int, ...]:
        """How many values the shorter kind of run has, per level."""
        return tuple(self.size // count for count in self.counts)

    @cached_property
    def sizes(self) -> tuple[Integers, ...]:
        """How many values each run has, (runs,) per level."""
        found = [np.array([self.size])]
        for b in self.parts[:0:-1]:
            whole, more = np.divmod(found[0][:, None], b)
            found.insert(0, (whole + (np.arange(b) < more)).ravel())
        return tuple(found)

    def kinds(self, level: int) -> tuple[int, ...]:
        """The kinds of run on a level: 0 for the shorter, 1 for the longer one."""
        return (0, 1) if self.size % self.counts[level] else (0,)

    def kind_of(self, level: int) -> Integers:
        """The kind of every run, (runs,)."""
        return np.asarray(self.sizes[level] - self.least[level])

    def columns(self, level: int, kind: int) -> int:
        """How many parts a run has; on the finest level that is how many values."""
        return self.parts[level] if level else self.least[0] + kind

    def part_kinds(self, level: int, kind: int) -> Integers:
        """The kinds of the parts of a run above the finest level, (parts,)."""
        whole, more = divmod(self.least[level] + kind, self.parts[level])
        return np.asarray(whole + (np.arange(self.parts[level]) < more) - self.least[level - 1])

    @cached_property
    def starts(self) -> Integers:
        """The first value of every run of the finest level, (runs,)."""
        return np.asarray(np.cumsum(self.sizes[0]) - self.sizes[0])

    def places(self, values: Integers) -> list[tuple[Integers, Integers]]:
        """For each level the run that holds each value, and in which of its parts, from fine to coarse."""
        run = np.searchsorted(self.starts, values, side="right") - 1
        found = [(run, values - self.starts[run])]
        for b in self.parts[1:]:
            run, part = np.divmod(run, b)
            found.append((run, part))
        return found

    def padded(self, coefficients: np.ndarray, runs: slice = slice(None)) -> np.ndarray:
        """Something of the values of some runs, with nothing where a run is shorter, (runs, parts, …)."""
        sizes = self.sizes[0][runs]
        found = np.zeros((len(sizes), self.parts[0], *coefficients.shape[1:]), dtype=coefficients.dtype)
        found[self.filled(runs)] = coefficients
        return found

    def filled(self, runs: slice = slice(None)) -> np.ndarray:
        """Which parts of some runs of the finest level are values, (runs, parts)."""
        return np.arange(self.parts[0]) < self.sizes[0][runs][:, None]
