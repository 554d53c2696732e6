"""Estimates once whole marginals, or nodes of a tree, are known: without a matrix, at any size.

Where a whole marginal is known, so are the blocks of all its subsets: they are measured without noise, and all others
stay as they are. On a tree, a known node is a node of boundless precision, and passes over the tree do the rest: what
the facts add to estimates solves the same least squares, with nothing measured but what the known nodes lack.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, cast

import numpy as np

from residua.domain.facts import Fact
from residua.linalg.arrays import Booleans, Floats, Integers
from residua.linalg.lattice import Set, closure, subsets
from residua.plans.contract import Plan
from residua.plans.estimator import Answerable, Estimator
from residua.plans.operators.nesting import Nesting, Nodes
from residua.plans.operators.tree import TreeNodes
from residua.plans.operators.tree_piece import TreePiece
from residua.plans.product.piece_estimator import PieceEstimator
from residua.plans.product.piece_measurements import PieceMeasurements
from residua.plans.product.plan import ProductPlan
from residua.plans.product.set_estimator import ResidualEstimator
from residua.plans.product.set_measurements import ResidualMeasurements
from residua.release.known import CONTRADICTION, contradiction, widths_beside
from residua.release.pooled_pieces import averaged_sets
from residua.workload import Identity, renumber

_BOUNDLESS = 1e100  # times the largest precision of a tree: nothing is subtracted there that could cancel


# ---- whole marginals, beside residuals


@dataclass(frozen=True, eq=False)
class ExactSets(ProductPlan):
    """A plan of residuals of which some are known without noise.

    Args:
        exact: which sets, (sets,).
        Others as for `ProductPlan`.
    """

    exact: Booleans | None = None

    @cached_property
    def noise_variances(self) -> Floats:
        """`σ²_S` of every set, 0 where it is known."""
        with np.errstate(divide="ignore"):
            return np.where(cast("Booleans", self.exact), 0.0, 1.0 / self.precisions)


@dataclass(frozen=True, eq=False)
class KnownMargins(ResidualEstimator):
    """Estimates from blocks of which some are known exactly."""

    summarised: str = ""

    @property
    def summary(self) -> str:
        """What was measured, in words."""
        return self.summarised


def takes_margins(estimator: Estimator) -> bool:
    """Whether what is known of whole marginals is known of the blocks that were measured."""
    plan = estimator.plan
    return isinstance(estimator, ResidualEstimator) and plan.by_residuals and not plan.axes


def with_margins(estimator: Any, facts: Sequence[Fact]) -> Estimator:
    """Estimates of residuals beside whole marginals that are known."""
    plan, own = estimator.plan, estimator.measurements
    known: dict[Set, Floats] = {}
    for fact in facts:
        for subset in subsets(fact.members):
            known.setdefault(subset, fact.margin(subset))
    sizes = sorted({len(members) for members in known})
    listed = [[each for each in known if len(each) == k] for k in sizes]
    rows = [np.array(each, dtype=np.int32).reshape(len(each), k) for k, each in zip(sizes, listed, strict=True)]
    lattice = plan.lattice.union(closure(rows, len(plan.domain)))
    exact = np.zeros(len(lattice), dtype=bool)
    exact[[lattice.number(members) for members in known]] = True
    kept = {field.name: getattr(plan, field.name) for field in fields(Plan) if field.name != "domain"}
    beside = ExactSets(plan.domain, lattice, plan.on(lattice), plan.strategies, exact=exact, **kept)
    measured = np.flatnonzero(exact | (beside.precisions > 0))
    grids, scales = np.ones(len(lattice), dtype=np.int64), np.ones(len(lattice))
    there = renumber(own.lattice, lattice)[own.measured]
    grids[there], scales[there] = own.grids, own.scales
    grids[exact] = 1
    blocks = ResidualMeasurements(
        lattice, own.sizes, measured, grids[measured], scales[measured], own.strategies, own.drops, own.names
    )
    integers = averaged_sets(beside, blocks, [(plan, own, estimator.noisy)]).astype(np.float64)
    for members, margin in known.items():
        place, _, _ = blocks.where(lattice.number(members))
        integers[place] = blocks._applied(members, cast("Integers", margin[None])).ravel()
    said = f"{estimator.summary} Beside it {len(facts):,} marginals are known."
    return KnownMargins(beside, blocks, integers, said)


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


@dataclass(frozen=True, eq=False)
class NodesEstimator(PieceEstimator):
    """Estimates over a tree, and what known nodes add to them.

    Args:
        own: the estimates without them.
        Others, of what they add, as for `PieceEstimator`.
    """

    own: PieceEstimator

    @property
    def summary(self) -> str:
        """What was measured, in words."""
        return f"{self.own.summary} Beside it nodes of the tree are known."

    def along(self, asked: Any, rows: Any, count: int) -> Floats:
        """Both together."""
        return self.own.along(asked, rows, count) + super().along(asked, rows, count)

    def widths(self, asked: Answerable, confidence: float, together: float) -> float | Floats:
        """Of Laplace noise a bound for whatever is a sum of it."""
        return widths_beside(self.plan, asked, confidence, together)


def trees_of(estimator: PieceEstimator, members: Set) -> list[TreeNodes]:
    """The trees that tell all cells of some short attributes, in all their sets; none where something else does."""
    parts = [estimator.plan.parts.get(subset) for subset in subsets(members)]
    trees = [each for each in parts if isinstance(each, TreeNodes)]
    return trees if len(trees) == len(parts) else []


def with_nodes(estimator: PieceEstimator, facts: Sequence[KnownNodes]) -> Estimator:
    """Estimates over a tree beside nodes that are known.

    Raises:
        PlanError: they contradict each other.
    """
    tree: TreeNodes = estimator.plan.parts[()]
    nesting, start = tree.nesting, tree.start
    leaves = any(fact.level == start for fact in facts)
    if leaves:  # nodes of the finest level are kept alike: each becomes a level of its own above itself
        alone = np.arange(nesting.sizes[start], dtype=np.int32)
        names, parents = nesting.names, nesting.parents
        names, parents = (*names[: start + 1], "", *names[start + 1 :]), (*parents[:start], alone, *parents[start:])
        nesting = Nesting(names, parents)
    pieces = []
    for piece in estimator.measurements.pieces:
        about = [fact for fact in facts if set(piece.members) <= set(fact.members)]
        if about:
            pieces.append(_corrected(estimator, cast("TreePiece", piece), nesting, about, leaves=leaves))
    own = estimator.measurements
    blocks = PieceMeasurements(own.sizes, own.attribute, tuple(pieces), own.drops, own.names)
    plan = estimator.plan.with_parts({**estimator.plan.parts, **{each.members: each.operator for each in pieces}})
    known = NodesEstimator(plan, blocks, np.broadcast_to(np.int64(0), (blocks.cells,)), estimator)
    for fact in facts:
        added = PieceEstimator.along(known, *_asked(estimator, fact, fact.level + leaves))
        apart = np.abs(added - _lacking(estimator, fact))
        if apart.max(initial=0.0) > CONTRADICTION * max(1.0, float(np.abs(fact.values).max(initial=0.0))):
            raise contradiction(fact.what)
    return known


def _asked(estimator: PieceEstimator, fact: KnownNodes, level: int) -> tuple[Any, Nodes, int]:
    short = {i: Identity(int(estimator.plan.domain.sizes[i])) for i in fact.members}
    return short, Nodes(level, fact.nodes), len(fact.nodes)


def _lacking(estimator: PieceEstimator, fact: KnownNodes) -> Floats:
    """What the estimates of known nodes lack, (nodes, n_1, …, n_k)."""
    return np.asarray(fact.values - estimator.along(*_asked(estimator, fact, fact.level)))


def _corrected(
    estimator: PieceEstimator, piece: TreePiece, nesting: Nesting, facts: Sequence[KnownNodes], *, leaves: bool
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
