"""Estimates of product plans once whole marginals, or nodes of a tree, are known: without a matrix, at any size.

Where a whole marginal is known, so are the blocks of all its subsets: they are measured without noise, and all others
stay as they are. On a tree, a known node is a node of boundless precision, and passes over the tree do the rest: what
the facts add to estimates solves the same least squares, with nothing measured but what the known nodes lack.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, cast

import numpy as np

from residua.domain.facts import Fact
from residua.linalg.arrays import Floats, Integers
from residua.linalg.lattice import Set, SetFamily, closure_of, subsets
from residua.plans.conditional import Conditional
from residua.plans.estimator import CONTRADICTION, Equality, contradiction
from residua.plans.operators.nesting import Nesting, Nodes
from residua.plans.operators.tree import TreeNodes
from residua.plans.operators.tree_piece import TreePiece
from residua.plans.product.facts import ProductUncertainty
from residua.plans.product.piece_measurements import PieceMeasurements
from residua.plans.product.set_measurements import ResidualMeasurements
from residua.workload import AttributeQueries, Identity, renumber

_BOUNDLESS = 1e100  # times the largest precision of a tree: nothing is subtracted there that could cancel


@dataclass(frozen=True, eq=False)
class ConditionalProduct(ProductUncertainty, Conditional):
    """How estimates of a product plan err once some blocks, or nodes of a tree, are known.

    Args:
        lattice: the sets of which something is known.
        noise_variances: `σ²` of each that is left, (sets,).
        parts: the operator of each set that is measured along an attribute, with the noise that is left.
        Others as for `Conditional`.
    """

    lattice: SetFamily
    noise_variances: Floats
    parts: Mapping[Set, Any]

    strategies = property(attrgetter("own.strategies"))
    attribute = property(attrgetter("own.attribute"))


# ---- whole marginals, beside residuals


def with_margins(estimator: Any, equalities: Sequence[Equality]) -> Any:
    """Estimates of residuals beside whole marginals that are known."""
    plan, own = estimator.plan, estimator.measurements
    known: dict[Set, Floats] = {}
    for each in equalities:
        fact = Fact(each.members, each.values)
        for subset in subsets(fact.members):
            known.setdefault(subset, fact.margin(subset))
    lattice = plan.lattice.union(closure_of(known, len(plan.domain)))
    exact = np.array([lattice.number(members) for members in known])
    with np.errstate(divide="ignore"):
        noise = 1.0 / plan.on(lattice)
    noise[exact] = 0.0
    there = renumber(own.lattice, lattice)[own.measured]
    grids, scales = np.ones(len(lattice), dtype=np.int64), np.ones(len(lattice))
    grids[there], scales[there] = own.grids, own.scales
    grids[exact] = 1
    measured = np.flatnonzero(np.isfinite(noise))
    blocks = ResidualMeasurements(
        lattice, own.sizes, measured, grids[measured], scales[measured], own.strategies, own.drops, own.names
    )
    values = np.zeros(blocks.cells)
    numbers = renumber(own.lattice, lattice)
    for group in own.layout:  # what was measured stays as it is, in its new place
        places = blocks.layout.starts[numbers[group.numbers], None] + np.arange(group.cells)
        values[places] = estimator.noisy[group.start : group.stop].reshape(len(group.numbers), -1)
    for members, margin in known.items():
        place, _, _ = blocks.where(lattice.number(members))
        values[place] = blocks._applied(members, cast("Integers", margin[None])).ravel()
    beside = ConditionalProduct(plan, lattice, noise, plan.parts)
    said = f" Beside it {len(equalities):,} marginals are known."
    return replace(estimator, plan=beside, measurements=blocks, noisy=values, beside=said)


# ---- nodes of a tree


@dataclass(frozen=True, eq=False)
class KnownNodes:
    """Some nodes of one level of a tree, in which all cells of some short attributes are known.

    Args:
        what: what is known, in words.
        members: the short attributes.
        level: the level, of the tree as it was measured.
        nodes: which of its nodes, (nodes,).
        values: what is known of each, (nodes, n_1, …, n_k).
    """

    what: str
    members: Set
    level: int
    nodes: Integers
    values: Floats


@dataclass(frozen=True, eq=False)
class _Lacking(TreePiece):
    """Least squares over a tree in which known nodes lack something, and nothing else does.

    Args:
        lacking: level → what its nodes lack, (nodes, fibres).
        Others as for `TreePiece`.
    """

    lacking: Mapping[int, Floats]

    def _measured(self, measured: Integers, level: int, rows: slice) -> Any:
        own = self.lacking.get(level)
        return super()._measured(measured, level, rows) if own is None else own[rows] * self.unit


def known_nodes(plan: Any, equality: Equality) -> KnownNodes | None:
    """A fact as nodes of the tree that was measured; None where it is something else."""
    axis = plan.attribute
    short = tuple(i for i in equality.members if i != axis)
    parts = [plan.parts.get(subset) for subset in subsets(short)]
    trees = [each for each in parts if isinstance(each, TreeNodes)]  # in all sets, or something else tells their cells
    if equality.asked is None or len(trees) < len(parts) or not all(equality.asked[i].plain for i in short):
        return None
    along = equality.asked.get(axis)
    level = _level(trees[0].nesting, along)
    if level is None or any(level < tree.start for tree in trees):
        return None
    place = equality.members.index(axis) if along is not None else 0
    values = np.moveaxis(equality.values, place, 0) if along is not None else equality.values[None]
    known = ~np.isnan(values.reshape(len(values), -1))
    if (known.any(axis=1) != known.all(axis=1)).any():
        return None
    nodes = np.flatnonzero(known.all(axis=1))
    return KnownNodes(equality.what, short, level, nodes, values[nodes])


def _level(nesting: Nesting, asked: AttributeQueries | None) -> int | None:
    if asked is None:
        return nesting.root
    if asked.plain:
        return 0
    level = asked.whole_level
    return nesting.level(level.name) if level is not None and level.name in nesting.names[1:] else None


def nodes_added(estimator: Any, facts: Sequence[KnownNodes]) -> tuple[ConditionalProduct, PieceMeasurements]:
    """How estimates over a tree err beside nodes that are known, and what these nodes add to them."""
    tree: TreeNodes = estimator.plan.parts[()]
    nesting, leaves = tree.nesting, known_leaves(estimator, facts)
    if leaves:  # nodes of the finest level are kept alike: each becomes a level of its own above itself
        start = tree.start
        alone = np.arange(nesting.sizes[start], dtype=np.int32)
        names, parents = nesting.names, nesting.parents
        names, parents = (*names[: start + 1], "", *names[start + 1 :]), (*parents[:start], alone, *parents[start:])
        nesting = Nesting(names, parents)
    pieces = []
    for piece in estimator.measurements.pieces:
        about = [fact for fact in facts if set(piece.members) <= set(fact.members)]
        if about:
            pieces.append(_corrected(estimator, cast("TreePiece", piece), nesting, about, leaves=leaves))
    plan, own = estimator.plan, estimator.measurements
    parts = {**plan.parts, **{each.members: each.operator for each in pieces}}
    beside = ConditionalProduct(plan, plan.lattice, plan.noise_variances, parts)
    return beside, PieceMeasurements(own.sizes, own.attribute, tuple(pieces), own.drops, own.names)


def known_leaves(estimator: Any, facts: Sequence[KnownNodes]) -> bool:
    """Whether nodes of the finest level are known."""
    return any(fact.level == estimator.plan.parts[()].start for fact in facts)


def require_met(estimator: Any, facts: Sequence[KnownNodes], added: Any) -> None:
    """Refuses nodes that contradict each other: what they add to estimates does not make up for what these lack.

    Raises:
        PlanError: they do.
    """
    finer = known_leaves(estimator, facts)
    for fact in facts:
        apart = np.abs(added(*_asked(estimator, fact, fact.level + finer)) - _lacking(estimator, fact))
        if apart.max(initial=0.0) > CONTRADICTION * max(1.0, float(np.abs(fact.values).max(initial=0.0))):
            raise contradiction(fact.what)


def _asked(estimator: Any, fact: KnownNodes, level: int) -> tuple[Any, Nodes, int]:
    short = {i: Identity(int(estimator.plan.domain.sizes[i])) for i in fact.members}
    return short, Nodes(level, fact.nodes), len(fact.nodes)


def _lacking(estimator: Any, fact: KnownNodes) -> Floats:
    """What the estimates of known nodes lack, (nodes, n_1, …, n_k)."""
    return np.asarray(fact.values - estimator.along(*_asked(estimator, fact, fact.level)))


def _corrected(
    estimator: Any, piece: TreePiece, nesting: Nesting, facts: Sequence[KnownNodes], *, leaves: bool
) -> _Lacking:
    """The residual on some short attributes along a tree of which some nodes are known."""
    tree: TreeNodes = piece.operator
    precisions = [np.asarray(each) for each in tree.precisions]
    if leaves:
        finest = precisions[0] if len(precisions[0]) == 1 else precisions[0][tree.nesting.parents[tree.start]]
        precisions[:1] = [finest, np.zeros(1)]
    largest, lacking = max(float(each.max()) for each in precisions), dict[int, Floats]()
    for fact in facts:
        level, of_nodes = fact.level + leaves, _lacking(estimator, fact)
        for axis, i in reversed(list(enumerate(fact.members, start=1))):
            if i in piece.members:
                of_nodes = of_nodes - of_nodes.mean(axis=axis, keepdims=True)
            else:
                of_nodes = of_nodes.sum(axis=axis)
        known = np.array(np.broadcast_to(precisions[level - tree.start], nesting.sizes[level]))
        known[fact.nodes] = _BOUNDLESS * largest
        precisions[level - tree.start] = known
        own = lacking.setdefault(level, np.zeros((nesting.sizes[level], piece.fibres)))
        own[fact.nodes] = of_nodes.reshape(len(fact.nodes), piece.fibres)
    operator = replace(tree, nesting=nesting, precisions=tuple(precisions))
    scales = [np.ones(int(k == 0 or tree.start + k in lacking)) for k in range(len(precisions))]
    return _Lacking(piece.members, piece.sizes, operator, piece.grid, tuple(scales), lacking)
