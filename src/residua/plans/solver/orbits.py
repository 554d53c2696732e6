"""Blocks that are alike, so that each kind is solved once: attributes are told apart by what is asked of them.

Attributes begin alike where their levels are; round by round, those that stand in different terms, or beside different
attributes, are told apart (colour refinement). What is computed of a block depends on the colours around it alone, so
that blocks of one colour have one solution.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from residua.linalg.arrays import Floats, Integers
from residua.plans.levels import AttributeLevels, Block, below, shape_of


@dataclass(frozen=True, eq=False)
class GramTerm:
    """Queries of one set of attributes, by the Gram matrix of their coordinates.

    Args:
        table: the attributes and the levels that the queries tell apart.
        factors: the Gram matrix itself, (cells, cells), or one for each attribute, whose product it is.
        weight: what it is multiplied by.
        rows: the queries over the cells of the table, (queries, cells), where each counts by itself.
    """

    table: Block
    factors: tuple[Floats, ...]
    weight: float = 1.0
    rows: Floats | None = None

    @property
    def product(self) -> bool:
        """Whether there is a Gram matrix for each attribute."""
        return len(self.factors) == len(self.table)

    @property
    def key(self) -> Hashable:
        """What is the same for the same queries of other attributes."""
        asked = self.factors if self.rows is None else (self.rows,)
        return (self.weight, *(each.tobytes() for each in asked))

    def matrix(self) -> Floats:
        """The Gram matrix itself, without the weight."""
        product: Floats = np.ones((1, 1))
        for factor in self.factors:
            product = np.asarray(np.kron(product, factor), dtype=np.float64)
        return product

    def positions(self, axes: Sequence[AttributeLevels]) -> tuple[int, ...]:
        """A number for each attribute, the same for those that can change places."""
        positions = list(range(len(self.table)))
        for b, (j, level) in enumerate(self.table):
            for a, (i, other) in enumerate(self.table[:b]):
                if positions[a] == a and level == other and axes[i] == axes[j] and self._swapped(axes, a, b):
                    positions[b] = a
                    break
        return tuple(positions)

    def swapped_rows(self, axes: Sequence[AttributeLevels], a: int, b: int) -> Integers | None:
        """The query that each becomes when two attributes change places, (queries,); None if one becomes none."""
        assert self.rows is not None
        shape = shape_of(axes, self.table)
        turned = np.swapaxes(self.rows.reshape(-1, *shape), 1 + a, 1 + b).reshape(len(self.rows), -1) + 0.0
        at = {row.tobytes(): k for k, row in enumerate(self.rows + 0.0)}  # no negative zeros
        places = [at.get(np.ascontiguousarray(row).tobytes(), -1) for row in turned]
        return None if -1 in places or len(at) < len(places) else np.array(places, dtype=np.int64)

    def _swapped(self, axes: Sequence[AttributeLevels], a: int, b: int) -> bool:
        if self.rows is not None:
            return self.swapped_rows(axes, a, b) is not None
        if self.product:
            return np.array_equal(self.factors[a], self.factors[b])
        shape = shape_of(axes, self.table)
        order = list(range(len(shape)))
        order[a], order[b] = b, a
        V = self.factors[0].reshape(*shape, *shape)
        return np.allclose(V, V.transpose(*order, *(len(shape) + i for i in order)), rtol=1e-12, atol=1e-9)


@dataclass(frozen=True, eq=False)
class Orbits:
    """Kinds of terms and blocks.

    Args:
        terms: one term of each kind, and how many there are.
        kinds: the kind of each block.
        examples: one block of each kind.
        counts: how many blocks there are of each.
    """

    terms: tuple[tuple[GramTerm, int], ...]
    kinds: dict[Block, int]
    examples: tuple[Block, ...]
    counts: tuple[int, ...]


def orbits(axes: Sequence[AttributeLevels], terms: Sequence[GramTerm], blocks: Sequence[Block]) -> Orbits:
    """Terms and blocks by kind."""
    keys = _numbered([term.key for term in terms])
    places = [term.positions(axes) for term in terms]
    colours = _numbered([axis.key for axis in axes])
    inside: list[list[int]] = [[] for _ in axes]
    for number, term in enumerate(terms):
        for i, _ in term.table:
            inside[i].append(number)
    while True:
        seen = [_seen(term, key, where, colours) for term, key, where in zip(terms, keys, places, strict=True)]
        signatures: list[Hashable] = []
        for i, colour in enumerate(colours):
            around = Counter((seen[t], places[t][_position(terms[t], i)]) for t in inside[i])
            signatures.append((colour, frozenset(around.items())))
        new = _numbered(signatures)
        if len(set(new)) == len(set(colours)):
            break
        colours = new
    ordered: dict[Hashable, list[GramTerm]] = {}
    for term, key, where in zip(terms, keys, places, strict=True):
        ordered.setdefault((key, where, tuple((colours[i], n) for i, n in term.table)), []).append(term)
    above: dict[Block, Counter[Hashable]] = {block: Counter() for block in blocks}
    for t, term in enumerate(terms):
        for block in below(term.table):
            if block in above:
                above[block][seen[t], tuple(places[t][_position(term, i)] for i, _ in block)] += 1
    described = [(tuple((colours[i], n) for i, n in block), frozenset(above[block].items())) for block in blocks]
    numbers = _numbered(described)
    examples: dict[int, Block] = {}
    for block, number in zip(blocks, numbers, strict=True):
        examples.setdefault(number, block)
    counts = Counter(numbers)
    return Orbits(
        tuple((alike[0], len(alike)) for alike in ordered.values()),
        dict(zip(blocks, numbers, strict=True)),
        tuple(examples[number] for number in range(len(examples))),
        tuple(counts[number] for number in range(len(examples))),
    )


def _seen(term: GramTerm, key: int, where: tuple[int, ...], colours: Sequence[int]) -> Hashable:
    return key, frozenset(Counter((p, colours[i], n) for p, (i, n) in zip(where, term.table, strict=True)).items())


def _position(term: GramTerm, attribute: int) -> int:
    return next(at for at, (i, _) in enumerate(term.table) if i == attribute)


def _numbered(values: Sequence[Hashable]) -> list[int]:
    """Each value by the order in which it is first met."""
    known: dict[Hashable, int] = {}
    return [known.setdefault(value, len(known)) for value in values]
