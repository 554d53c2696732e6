"""Ordered queries and nested groups as an electrical network: everything about them in passes over a tree.

In running sums C every query is a spring: a value between neighbours, a group between the sums at its two ends, a
prefix between a sum and C_{−1} = 0. All prefixes and all ranges together are springs from every sum to a hub (`path.py`
has the same star as a path); with prefixes alone the hub is C_{−1} itself. `G + p Q⁻¹`, G the Gram matrix of all
queries, adds a spring `p/q_i` between the sums around value i. Springs are conductances, and covariances resistances.

Groups are nested: seen from outside, an interval of the tree (`nesting.py`) is a triangle of three springs, between
its two ends and the hub. Two neighbouring intervals become one by taking out the vertex between them: its star of three
springs k, c, g of sum t becomes a triangle of springs `k c/t`, `k g/t`, `c g/t`. One pass from the leaves finds all
triangles, one from the root what is outside of them.

**Errors.** Conductances are only added, multiplied and divided. One step changes each spring of its triangle by a
factor `e^±10u` at most, u = 2⁻⁵³ (no chain is of more than nine operations), and leaves the rest alone. What a network
conducts between two of its vertices, or what is left of it between any when others are taken out, is a quotient of two
sums of products of springs, each product over a forest (Kirchhoff). A forest has no more than two of the three springs
of a triangle, so that both sums change by `e^±20u`, their quotient by `e^±40u`. At most n + 1 vertices are taken out,
and the n springs `p/q_i` err by 2u each: all results are right to a factor `e^±(44 n + 64) u`, which `relative_error`
exceeds. A product that underflows errs by less than 2⁻⁸⁰⁰, and no result changes by more than its springs do. Where the
hub is C_{−1}, the spring between them is 2⁵⁰⁰ in these passes: of springs below 2⁴⁰² (`plans/axis/price.py` admits no
others) that takes less than 2⁻⁹⁷ of a result.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from residua.linalg.arrays import Floats, Integers
from residua.linalg.nesting import Nesting
from residua.linalg.path import Path

_RIGID = 2.0**500


@dataclass(frozen=True, eq=False)
class Network:
    """The Gram matrix of ordered queries and of nested groups, by the springs of its running sums.

    Args:
        nesting: the groups.
        grounds: springs from each running sum to the hub, (n,).
        first: the spring from the hub to C_{−1}; infinite where they are one.
        springs: of single values, (n,).
        held: of groups, (groups,).
    """

    nesting: Nesting
    grounds: Floats
    first: float
    springs: Floats
    held: Floats

    @property
    def size(self) -> int:
        """How many values the axis has."""
        return self.nesting.size

    @cached_property
    def path(self) -> Path:
        """The same without groups, and of values what all of them have."""
        ends = 0.0 if math.isinf(self.first) else 1 / self.first
        return Path(1 / self.grounds[:-1], ends, float(1 / self.grounds[-1]), float(self.springs.min()))

    @cached_property
    def _springs(self) -> tuple[Floats, Floats]:
        """Springs of single values, (n,), and of intervals where they are in the tree, (n,).

        Those between the same two sums are added up in floats, and that is what they are from then on.
        """
        places = self.nesting.places
        single, chords = self.springs.copy(), np.zeros(self.size)
        alone = places < 0
        np.add.at(single, -1 - places[alone], self.held[alone])
        np.add.at(chords, places[~alone], self.held[~alone])
        return single, chords

    @property
    def arguments(self) -> tuple[Integers, Integers, Integers, float, Floats, Floats, Floats]:
        """What the passes take."""
        tree = self.nesting
        return tree.low, tree.cut, tree.high, min(self.first, _RIGID), self.grounds, *self._springs

    @property
    def gram_diagonal(self) -> Floats:
        """The diagonal of the Gram matrix, (n,)."""
        from residua.linalg.network_kernels import cover

        after = np.cumsum(self.grounds[::-1])[::-1]
        if math.isinf(self.first):
            found = after.copy()
        else:
            before = self.first + np.append(0.0, np.cumsum(self.grounds[:-1]))
            found = after * (before / (before[-1] + self.grounds[-1]))
        low, cut, high, _, _, springs, chords = self.arguments
        cover(low, cut, high, springs, chords, found, np.empty(self.size))
        return found

    def shares(self, q: Floats, poles: Floats, weights: Floats) -> Floats:
        """`Σ_j a_j [S (S + p_j)⁻¹]_ii` for `S = Q^½ G Q^½`, (n,)."""
        from residua.linalg.network_kernels import shares

        found, room = np.zeros(self.size), np.empty((2, 3, self.size))
        shares(*self.arguments, q, poles, weights, found, *room)
        return found


def star_network(nesting: Nesting, prefixes: Floats, ranges: float, springs: Floats, held: Floats) -> Network:
    """The network of prefixes, (n,), all ranges, values, (n,), and groups, (groups,), by their weights.

    With ranges, prefixes are of one weight: springs w between all sums and r more to C_{−1} are those of a star to a
    hub, `w (n + 1) + r` to each sum and that times `(w + r)/w` to C_{−1}.
    """
    if not ranges:
        return Network(nesting, prefixes, math.inf, springs, held)
    to_each = prefixes + ranges * (nesting.size + 1)
    return Network(nesting, to_each, float(to_each[0] * (1 + prefixes[0] / ranges)), springs, held)


def relative_error(n: int) -> float:
    """How far a result over n values may be off, relatively: more than `e^((44n + 64) u) − 1`, underflow included."""
    return math.expm1((64 * n + 128) * 2.0**-53)
