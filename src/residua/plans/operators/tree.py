"""A tree over an attribute's values: every node measured, each with its own precision.

The nodes are those of the attribute's declared levels, or of levels of neighbouring values. With Laplace noise there is
one precision per level. Of the finest measured level one precision is kept per parent: nodes below are alike.

How far estimates with Laplace noise stray: an answer q has the coefficient `τ Cov(q, e)` at each node, e the node's
error, so that the node's share in the variance of q is `τ Cov(q, e)²/Var q`: τ V for a node's own estimate, at most τ V
for any other. A prefix or range is `A e + ξ` in every node, `0 ≤ A ≤ 1`, and with `D = Cov(q, e) − A u` it is
`Cov(q, e_c) = k_c D + z_c A_c` for a child and `D_c = k_c D − (u_c − z_c) A_c`: D is never positive, so that
`|Cov(q, e_c)|` is at most z_c or k_c |D|, from the root down. Bounds on the largest share are all that `mixed_reach`
and `ruled_reach` need.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from residua.domain import Attribute
from residua.errors import PlanError, VerificationError
from residua.linalg.arrays import Floats
from residua.linalg.tree import SolvedTree
from residua.machine import csr_array
from residua.plans.noise import LAPLACE, NOISES, NORMAL, Noise
from residua.plans.operators.contract import Operator
from residua.plans.operators.nesting import (
    AnyRows,
    Nesting,
    Nodes,
    Order,
    Runs,
    TreeRows,
    branched,
    nesting_of,
    tree_rows,
)
from residua.plans.operators.tree_piece import TreePiece, piece_of
from residua.plans.statements import packed, unpacked
from residua.plans.tails import known_reaches, mixed_reach, ruled_reach
from residua.privacy import Unit
from residua.workload import AttributeQueries

_MOST_ENTRIES = 2**28  # of coefficients over nodes
_MOST_LEVELS = 64  # of a tree over few values
_MOST_VALUES = 2**25  # of a tree in a file
_MOST_COEFFICIENTS, _FEW_COEFFICIENTS = 2**25, 2**23  # of listed rows; of prefixes and ranges, which have a bound
_ROUNDING = 1e-12  # of the largest coefficient of a row
_SAME = 1e-9  # relative: precisions that differ by less are rounding apart


@dataclass(frozen=True, eq=False)
class TreeNodes(Operator):
    """How accurately every node is measured.

    Args:
        nesting: the levels.
        start: the finest measured level; 0 are the values.
        precisions: per level from `start` to the root: one number for a whole level (0 where it is not measured), or
            one per node; of the finest level one per parent.
        noise: normal, or Laplace.
        counts: how many nodes each level between values and root has, fine to coarse, where these are no declared
            levels but runs of neighbouring values.
    """

    kind: ClassVar[str] = "tree"
    poses: ClassVar[str] = "a tree"

    nesting: Nesting
    start: int
    precisions: tuple[Floats, ...]
    noise: Noise = NORMAL
    counts: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.nesting.root or len(self.precisions) != self.nesting.root - self.start + 1:
            raise PlanError("the precisions do not fit the levels of the tree; plan again.")
        if any(not len(each) for each in self.precisions):
            raise PlanError("a level of the tree has no precision; plan again.")
        for each in self.precisions:
            each.setflags(write=False)  # priced once: what is drawn must stay what was priced

    @property
    def size(self) -> int:  # type: ignore[override]
        """How many values the attribute has."""
        return self.nesting.sizes[0]

    @property
    def has_values(self) -> bool:
        """Unless the root alone is measured: the total of the attribute."""
        return self.start < self.nesting.root

    @property
    def levels(self) -> tuple[Any, ...]:
        """Of each declared level the parents of its nodes."""
        return self.nesting.parents if self.counts is None else ()

    # ---- accuracy

    @cached_property
    def solved(self) -> SolvedTree:
        """Least squares over the tree; nodes of the finest level with one parent are alike."""
        return self.nesting.tree(range(self.start, self.nesting.root + 1), alike=True).solved(self.precisions)

    @cached_property
    def order(self) -> Order | None:
        """What is known of prefixes and ranges; None where what is measured is coarser than values."""
        return Order(self.nesting, self.solved) if self.start == 0 else None

    def of_nodes(self, level: int, what: Sequence[Floats]) -> Floats:
        """Something of every node of a level, (nodes,)."""
        own = what[level - self.start]
        return own[self.nesting.parents[level]] if level == self.start and level < self.nesting.root else own

    def measured(self) -> list[int]:
        """The levels that are measured."""
        return [self.start + k for k, each in enumerate(self.precisions) if each.any()]

    def precisions_of(self, level: int) -> Floats:
        """The precision of every node of a level, (nodes,)."""
        sizes = self.solved.tree.sizes
        return self.of_nodes(level, [np.broadcast_to(p, n) for p, n in zip(self.precisions, sizes, strict=True)])

    def variances(self, asked: AttributeQueries | None) -> Floats:
        """Level by level; of prefixes and ranges from passes over the tree."""
        if asked is not None and not self.has_values and asked.rows * self.size > _MOST_ENTRIES:
            return np.full(asked.rows, np.inf)
        return np.concatenate([self.variances_along(rows) for rows in tree_rows(asked, self.nesting)])

    def variances_along(self, rows: TreeRows) -> Floats:
        """The variance of what is asked along the tree, (rows,); infinite where it is finer than what is measured."""
        if isinstance(rows, Nodes):
            if rows.level < self.start:
                return np.full(rows.count(self.nesting), np.inf)
            return rows.picked(self.of_nodes(rows.level, self.solved.V))
        if isinstance(rows, Runs) and self.order is not None:
            return self.order.ranges(*rows.ends()) if rows.ranges else self.order.prefixes()
        nodes = self.injected(rows)
        if nodes is not None:
            return np.asarray(self._combined(nodes, nodes, diagonal=True))
        if rows.count(self.nesting) == 1:
            return np.full(1, np.inf)
        return np.concatenate([self.variances_along(AnyRows(row[None])) for row in rows.given])

    def mean_variance(self, asked: AttributeQueries | None) -> float:
        """Of all ranges in closed form."""
        total, count = 0.0, 0
        for rows in tree_rows(asked, self.nesting):
            many = rows.count(self.nesting)
            total, count = total + many * self.mean_along(rows), count + many
        return total / count

    def mean_along(self, rows: TreeRows) -> float:
        """The mean variance of what is asked along the tree."""
        if isinstance(rows, Nodes) and rows.chosen is None and rows.level == self.start < self.nesting.root:
            return float(self.solved.V[0] @ self.solved.tree.many) / self.nesting.sizes[self.start]
        if isinstance(rows, Runs) and rows.ranges and self.order is not None:
            return self.order.sum_over_ranges() / rows.count(self.nesting)
        return float(self.variances_along(rows).mean())

    def injected(self, rows: TreeRows) -> tuple[int, Floats] | None:
        """What is asked as coefficients of the nodes of one level, (nodes, rows); None where it is too fine."""
        if isinstance(rows, Nodes):
            if rows.level < self.start:
                return None
            size, count = self.nesting.sizes[rows.level], rows.count(self.nesting)
            _require_room(size, count)
            nodes = np.zeros((size, count))
            nodes[np.arange(size) if rows.chosen is None else rows.chosen, np.arange(count)] = 1.0
            return rows.level, nodes
        _require_room(self.nesting.sizes[0], rows.count(self.nesting))
        given = rows.given
        if self.start == 0:
            return 0, given.T
        onto = self.nesting.between(0, self.start)
        nodes = np.zeros((self.nesting.sizes[self.start], len(given)))
        nodes[onto] = given.T
        apart = np.abs(nodes[onto] - given.T).max(axis=0) > _ROUNDING * np.abs(given).max(axis=1)
        return None if apart.any() else (self.start, nodes)

    def covariances(self, asked: AttributeQueries | None, other: AttributeQueries | None) -> Floats:
        """Level by level."""
        ones, others = tree_rows(asked, self.nesting), tree_rows(other, self.nesting)
        return np.block([[self._between(a, b) for b in others] for a in ones])

    def _between(self, first: TreeRows, second: TreeRows) -> Floats:
        one, other = self.injected(first), self.injected(second)
        if one is None or other is None:
            return np.full((first.count(self.nesting), second.count(self.nesting)), np.inf)
        return self._combined(one, other)

    def _combined(self, one: tuple[int, Floats], other: tuple[int, Floats], *, diagonal: bool = False) -> Floats:
        """Covariances of combinations of nodes, (rows, rows); or of each with the one at its place, (rows,).

        With coefficients A of nodes and `Ā = Σ_children k A` of a parent they are
        `A_root B_root V_root + Σ_children z (A − Ā)(B − B̄)`, from level to level.
        """
        low = min(one[0], other[0])
        A, B = (np.zeros((self.nesting.sizes[low], each[1].shape[1])) for each in (one, other))
        way = "nr,nr->r" if diagonal else "nr,ns->rs"
        total: Any = 0.0
        for level in range(low, self.nesting.root + 1):
            A = A + one[1] if level == one[0] else A
            B = B + other[1] if level == other[0] else B
            if level == self.nesting.root:
                break
            k, z = self.of_nodes(level, self.solved.k), self.of_nodes(level, self.solved.z)
            parent = self.nesting.parents[level]
            A_up, B_up = (_pushed(each * k[:, None], parent, self.nesting.sizes[level + 1]) for each in (A, B))
            total = total + np.einsum(way, (A - A_up[parent]) * z[:, None], B - B_up[parent], optimize=True)
            A, B = A_up, B_up
        return np.asarray(total + float(self.solved.V[-1][0]) * np.einsum(way, A, B))

    def row_variances(self, rows: csr_array) -> Floats:
        """Of any coefficients over the values."""
        return self.variances_along(AnyRows(rows.toarray()))

    def row_covariances(self, rows: csr_array, others: csr_array) -> Floats:
        """Of any coefficients over the values."""
        return self._between(AnyRows(rows.toarray()), AnyRows(others.toarray()))

    # ---- intervals under Laplace noise

    def reaches(self, asked: AttributeQueries | None, chance: float) -> Floats:
        """From what each node contributes to an answer, or bounds of it."""
        return np.concatenate([self._reaches(rows, chance) for rows in tree_rows(asked, self.nesting)])

    def row_reaches(self, rows: csr_array, chance: float) -> Floats:
        """From what each node contributes to an answer."""
        return self._reaches(AnyRows(rows.toarray()), chance)

    def _reaches(self, rows: TreeRows, chance: float) -> Floats:
        """One by one where they are few, by bounds where they are many, (rows,)."""
        count = rows.count(self.nesting)
        coefficients, most = count * sum(self.nesting.sizes[self.start :]), self.largest_share
        if isinstance(rows, Nodes) and rows.level >= self.start:
            share = rows.picked(self._shares[rows.level - self.start])
            return np.minimum(mixed_reach(np.full(count, most), chance), ruled_reach(share, chance))
        if isinstance(rows, Runs) and coefficients > _FEW_COEFFICIENTS:
            return mixed_reach(np.minimum(self.largest_coefficient / self.variances_along(rows), most), chance)
        if isinstance(rows, Nodes) or coefficients > _MOST_COEFFICIENTS:
            return mixed_reach(np.full(count, most), chance)
        return known_reaches(self.coefficients(rows), chance)

    @cached_property
    def _shares(self) -> list[Floats]:
        """Of each level, the share of every node's own noise in the variance of its estimate, (nodes,)."""
        levels = range(self.start, self.nesting.root + 1)
        return [self.precisions_of(level) * self.of_nodes(level, self.solved.V) for level in levels]

    @cached_property
    def largest_share(self) -> float:
        """The largest share of one node in its own variance."""
        return max(float(each.max()) for each in self._shares)

    @property
    def largest_coefficient(self) -> float:
        """At least `τ Cov(q, e)²` of any prefix or range q and any node."""
        solved, start = self.solved, self.start
        below = float(solved.u[-1][0] - solved.V[-1][0])  # at least −D of any node of the level above
        largest = float(self.precisions_of(self.nesting.root)[0]) * float(solved.V[-1][0]) ** 2
        for level in range(self.nesting.root - 1, start - 1, -1):
            k, z = float(self.of_nodes(level, solved.k).max()), self.of_nodes(level, solved.z)
            most = max(float(z.max()), k * below)
            largest = max(largest, float(self.precisions_of(level).max()) * most**2)
            below = k * below + (float((solved.u[level - start] - z).max()) if level > start else 0.0)
        return largest

    def coefficients(self, rows: TreeRows) -> Floats:
        """`√τ Cov(q, e)` of every measured node, (nodes, rows): their squares add up to the variance."""
        nodes, nesting, solved = self.injected(rows), self.nesting, self.solved
        if nodes is None:
            return np.full((1, rows.count(nesting)), np.inf)
        above = [nodes[1]]
        for level in range(self.start, nesting.root):
            k = self.of_nodes(level, solved.k)[:, None]
            above.append(_pushed(above[-1] * k, nesting.parents[level], nesting.sizes[level + 1]))
        covariance = above[-1] * float(solved.V[-1][0])
        coefficients = [covariance * np.sqrt(self.precisions_of(nesting.root))[:, None]]
        for level in range(nesting.root - 1, self.start - 1, -1):
            parent, A = nesting.parents[level], above[level - self.start]
            k, z = (self.of_nodes(level, each)[:, None] for each in (solved.k, solved.z))
            covariance = k * covariance[parent] + z * (A - above[level + 1 - self.start][parent])
            coefficients.append(covariance * np.sqrt(self.precisions_of(level))[:, None])
        return np.concatenate(coefficients)

    # ---- algebra

    def scaled(self, factor: float) -> TreeNodes:
        """All precisions, by the factor."""
        return replace(self, precisions=tuple(each * factor for each in self.precisions))

    def ratio_to(self, other: Operator) -> float | None:
        """Of the same tree, where all precisions differ by the same factor."""
        if not isinstance(other, TreeNodes) or not self.nesting.same(other.nesting):
            return None
        alike = all(getattr(self, name) == getattr(other, name) for name in ("start", "noise", "counts"))
        pairs = list(zip(self.precisions, other.precisions, strict=False))
        if not alike or any(a.shape != b.shape for a, b in pairs):
            return None
        factor = float(self.precisions[0].flat[0] / other.precisions[0].flat[0])
        return factor if all(bool((np.abs(a - factor * b) <= _SAME * np.abs(a)).all()) for a, b in pairs) else None

    def root(self) -> Floats:
        """One row per measured node."""
        self.require_short()
        rows = [np.zeros((0, self.size))]
        for level in self.measured():
            nodes = self.nesting.between(0, level) == np.arange(self.nesting.sizes[level])[:, None]
            rows.append(nodes * np.sqrt(self.precisions_of(level))[:, None])
        return np.concatenate(rows)

    # ---- measuring

    def exactly_priced(self, unit: Unit) -> bool:
        """Of replacements with Laplace noise, too."""
        return super().exactly_priced(unit) or (self.noise == LAPLACE and unit.contribution is None)

    def piece(self, members: tuple[int, ...], sizes: tuple[int, ...]) -> TreePiece:
        """Residuals in every measured node."""
        return piece_of(self, members, sizes)

    # ---- what people are shown, and files

    def described(self, attribute: Attribute, name: str) -> tuple[str, str]:
        """How many nodes each level has."""
        sizes = " · ".join(
            f"{n:,}{f' {level}' if level else ''}"
            for level, n in zip(self.nesting.names[::-1], self.nesting.sizes[::-1], strict=True)
        )
        return "Tree", f"nodes of {name!r}: {sizes}"

    def to_body(self) -> dict[str, Any]:
        """The precisions, as packed text."""
        return {
            "kind": self.kind,
            "start": self.start,
            "precisions": [packed(each) for each in self.precisions],
            "noise": self.noise.name,
            "counts": None if self.counts is None else list(self.counts),
        }

    @classmethod
    def of_body(cls, body: dict[str, Any], attribute: Attribute, axes: Sequence[Any]) -> TreeNodes:
        """The operator that plain values describe; what does not fit the tree is refused."""
        counts = None if body["counts"] is None else tuple(int(count) for count in body["counts"])
        if attribute.size > _MOST_VALUES:
            raise ValueError(f"its tree has more than {_MOST_VALUES:,} values")
        if counts is not None and sum(counts) > 2 * attribute.size + _MOST_LEVELS:
            raise ValueError("its tree has more nodes than a tree over so few values needs")
        nesting = nesting_of(attribute) if counts is None else branched(attribute.size, counts)
        start = int(body["start"])
        levels = range(start, nesting.root + 1)
        if start < 0 or len(body["precisions"]) != len(levels):
            raise ValueError("it measures a level that the attribute lacks")
        # Of the finest level one precision per parent, of which there are no more than nodes.
        precisions = tuple(
            unpacked(text, nesting.sizes[level]) for text, level in zip(body["precisions"], levels, strict=True)
        )
        tree = cls(nesting, start, precisions, NOISES[body["noise"]], counts)
        try:
            tree.piece((), ()).record_costs(attribute.size)
        except VerificationError as problem:
            raise ValueError(str(problem)) from None
        return tree


# ---- accuracy


def _pushed(values: Floats, parent: np.ndarray, size: int) -> Floats:
    """Sums over children, (parents, rows)."""
    return np.array([np.bincount(parent, weights=each, minlength=size) for each in values.T]).reshape(-1, size).T


def _require_room(nodes: int, rows: int) -> None:
    if nodes * rows > _MOST_ENTRIES:
        raise PlanError(
            f"{rows:,} rows over {nodes:,} nodes are too many for a matrix; ask for coarser levels or fewer queries."
        )


def total_alone(size: int, variance: float) -> TreeNodes:
    """The total of an attribute of so many values, and nothing else of it: a tree of which the root is measured."""
    return TreeNodes(branched(size, ()), 1, (np.array([1.0 / variance]),), counts=())


def nodes_of(plan: Any) -> dict[tuple[int, ...], TreeNodes]:
    """The trees of a plan, by sets of short attributes; none where something else is measured along the attribute."""
    trees = {members: each for members, each in plan.parts.items() if isinstance(each, TreeNodes)}
    return trees if len(trees) == len(plan.parts) else {}
