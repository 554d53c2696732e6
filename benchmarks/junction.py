"""A small junction tree: fits a graphical model to noisy tables, for the benchmark of AIM alone.

Tables are keyed by sorted tuples of attribute numbers. `mbi` compiles a program per structure, five to nine CPU seconds
for each round of AIM on Adult with a hundred steps of descent (measured on this machine); this takes a tenth. Larger
trees are kept in single precision.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.folding import Clique, add_all, margin, margins, scale

_DOUBLE = 2**16  # cells of a tree that is kept in double precision


def maximal_cliques(sizes: list[int], cliques: Iterable[Clique]) -> list[Clique]:
    """The maximal cliques of a triangulation: eliminates the attribute whose clique has the fewest cells, first."""
    near = [{i} for i in range(len(sizes))]
    for clique in cliques:
        for i in clique:
            near[i].update(clique)
    logs = [math.log(size) for size in sizes]
    left = set(range(len(sizes)))
    cost = {i: sum(logs[j] for j in near[i]) for i in left}
    found: list[set[int]] = []
    while left:
        i = min(left, key=cost.__getitem__)
        clique = near[i]
        if not any(clique <= other for other in found):
            found.append(set(clique))
        left.discard(i)
        rest = clique - {i}
        for j in rest:
            near[j] = (near[j] | rest) - {i}
            cost[j] = sum(logs[k] for k in near[j])
    return [tuple(sorted(clique)) for clique in found]


def megabytes(sizes: list[int], cliques: Iterable[Clique]) -> float:
    """The size of the tree's tables, eight bytes per cell."""
    return sum(math.prod(sizes[i] for i in clique) for clique in maximal_cliques(sizes, cliques)) * 8 / 2**20


@dataclass(frozen=True)
class Tree:
    """The junction tree of some cliques.

    Args:
        sizes: of the attributes.
        cliques: the maximal cliques, in the order of messages from the root.
        parents: the number of each clique's parent; its own for a root.
    """

    sizes: tuple[int, ...]
    cliques: tuple[Clique, ...]
    parents: tuple[int, ...]

    @staticmethod
    def of(sizes: list[int], cliques: Iterable[Clique]) -> Tree:
        """A tree of largest separators (Prim)."""
        found = maximal_cliques(sizes, cliques)
        order, parents = [0], [0]
        best = {j: (len(set(found[0]) & set(found[j])), 0) for j in range(1, len(found))}
        while best:
            j = max(best, key=lambda k: best[k][0])
            parents.append(best.pop(j)[1])
            order.append(j)
            for k in best:
                shared = len(set(found[j]) & set(found[k]))
                if shared > best[k][0]:
                    best[k] = (shared, len(order) - 1)
        return Tree(tuple(sizes), tuple(found[j] for j in order), tuple(parents))

    def separator(self, number: int) -> Clique:
        """What a clique shares with its parent."""
        return tuple(i for i in self.cliques[number] if i in self.cliques[self.parents[number]])

    def home(self, clique: Clique) -> int | None:
        """The number of the smallest tree clique that holds these attributes."""
        held = [n for n, own in enumerate(self.cliques) if set(clique) <= set(own)]
        return min(held, key=lambda n: math.prod(self.sizes[i] for i in self.cliques[n])) if held else None

    def beliefs(self, potentials: Mapping[Clique, Any], homes: Mapping[Clique, int]) -> list[Any]:
        """The distribution of each tree clique, each of sum 1."""
        cells = sum(math.prod(self.sizes[i] for i in clique) for clique in self.cliques)
        kind = np.float64 if cells <= _DOUBLE else np.float32
        own: list[dict[Clique, Any]] = [{} for _ in self.cliques]
        for clique, table in potentials.items():
            own[homes[clique]][clique] = table.astype(kind)
        tables: list[Any] = [None] * len(own)
        sums: list[Any] = [None] * len(own)
        for n in range(len(own) - 1, -1, -1):
            logs = np.zeros([self.sizes[i] for i in self.cliques[n]], dtype=kind)
            add_all(logs, self.cliques[n], own[n])
            most = logs.max()
            logs -= most
            tables[n] = np.exp(logs, out=logs)
            if n:
                shared, above = self.separator(n), own[self.parents[n]]
                sums[n] = margin(tables[n], self.cliques[n], shared)
                with np.errstate(divide="ignore"):
                    message = np.log(sums[n]) + most
                above[shared] = above[shared] + message if shared in above else message
        tables[0] /= tables[0].sum()
        for n in range(1, len(own)):
            shared, p = self.separator(n), self.parents[n]
            wanted = margin(tables[p], self.cliques[p], shared)
            ratio = np.divide(wanted, sums[n], out=np.zeros_like(wanted), where=sums[n] > 0)
            scale(tables[n], self.cliques[n], ratio, shared)
        return tables


@dataclass(frozen=True)
class Model:
    """A fitted model: any table of it, exactly.

    Args:
        tree: of its cliques.
        beliefs: the distribution of each.
        total: of its counts.
    """

    tree: Tree
    beliefs: list[Any]
    total: float
    kept: dict[int, dict[Clique, Any]] = field(default_factory=dict)

    def prepare(self, cliques: Iterable[Clique]) -> None:
        """Makes the margins that these tables will need, those of one table of the tree together."""
        wanted: dict[int, set[Clique]] = {}
        for clique in cliques:
            home = self.tree.home(clique)
            if home is not None:
                wanted.setdefault(home, set()).add(clique)
        for n, some in wanted.items():
            self.kept.setdefault(n, {}).update(margins(self.beliefs[n], self.tree.cliques[n], some))

    def _margin(self, n: int, clique: Clique) -> Any:
        """A margin of one table of the tree, from the smallest table that was made of it."""
        known = self.kept.setdefault(n, {})
        if clique not in known:
            known[self.tree.cliques[n]] = self.beliefs[n]
            above = min((own for own in known if set(clique) <= set(own)), key=lambda own: known[own].size)
            known[clique] = margin(known[above], above, clique)
        return known[clique]

    def table(self, clique: Clique) -> Any:
        """The marginal on a clique: from one table of the tree, or along the branch that joins its attributes."""
        home = self.tree.home(clique)
        if home is not None:
            return self.total * self._margin(home, clique).astype(np.float64)
        branch = self._branch(clique)
        operands: list[Any] = []
        for n in branch:
            own = self.tree.cliques[n]
            inside: set[int] = set()
            for m in branch:
                if m != branch[0] and (m == n or self.tree.parents[m] == n):
                    inside.update(self.tree.separator(m))
            kept = tuple(i for i in own if i in inside or i in clique)
            part = self._margin(n, kept).astype(np.float64)
            if n != branch[0]:
                shared = self.tree.separator(n)
                below = margin(part, kept, shared)
                part = part / np.maximum(_spread(below, shared, kept), 1e-300)
            operands += [part, list(kept)]
        return self.total * np.einsum(*operands, list(clique), optimize="greedy")

    def _branch(self, clique: Clique) -> list[int]:
        """The cliques of the smallest subtree that holds these attributes, the topmost first."""
        parents = self.tree.parents
        keep = set(range(len(parents)))
        while True:  # drops leaves and roots that the rest does without
            children = {n: [m for m in keep if m != n and parents[m] == n] for n in keep}
            for n in sorted(keep, reverse=True):
                near = children[n] + ([parents[n]] if n and parents[n] in keep else [])
                wanted = set(clique) & set(self.tree.cliques[n])
                if len(near) == 1 and wanted <= set(self.tree.cliques[near[0]]):
                    keep.discard(n)
                    break
            else:
                return sorted(keep)


def fitted(
    sizes: list[int],
    measured: Mapping[Clique, tuple[Any, float]],
    total: float,
    potentials: dict[Clique, Any],
    *,
    steps: int,
    tolerance: float = 1e-5,
) -> Model:
    """Mirror descent on the squared loss, steps doubled while they help and halved when they do not.

    Args:
        sizes: of the attributes.
        measured: each table's noisy counts and the variance of their noise.
        total: of the model's counts.
        potentials: where to start; changed in place, so that the next fit starts there.
        steps: at most so many.
        tolerance: stops when ten steps lower the loss by less than this share.
    """
    tree = Tree.of(sizes, measured)
    homes = {}
    for clique in measured:
        home = tree.home(clique)
        assert home is not None
        homes[clique] = home
        potentials.setdefault(clique, np.zeros([sizes[i] for i in clique]))
    beliefs, loss, slopes = _loss(tree, homes, measured, total, potentials)
    step = 2.0 * min(variance for _, variance in measured.values()) / total
    history = [loss]
    for _ in range(steps):
        for _ in range(25):
            tried = {clique: table - step * slopes[clique] for clique, table in potentials.items()}
            new, lower, next_slopes = _loss(tree, homes, measured, total, tried)
            if lower <= loss:
                break
            step /= 2
        else:
            break
        potentials.update(tried)
        beliefs, loss, slopes = new, lower, next_slopes
        step *= 1.3
        history.append(loss)
        if len(history) > 10 and history[-10] - loss < tolerance * loss:
            break
    return Model(tree, beliefs, total)


def _loss(tree: Tree, homes: Any, measured: Any, total: float, potentials: Any) -> tuple[list[Any], float, Any]:
    beliefs = tree.beliefs(potentials, homes)
    loss, slopes = 0.0, {}
    for n, table in enumerate(beliefs):
        for clique, shares in margins(table, tree.cliques[n], [r for r in measured if homes[r] == n]).items():
            noisy, variance = measured[clique]
            apart = total * shares.astype(np.float64) - noisy
            loss += float((apart**2).sum()) / (2 * variance)
            slopes[clique] = apart / variance
    return beliefs, loss, slopes


def _spread(table: Any, own: Clique, wanted: Clique) -> Any:
    """A table with axes of length one where it lacks attributes."""
    shape = [table.shape[own.index(i)] if i in own else 1 for i in wanted]
    return table.reshape(shape)
