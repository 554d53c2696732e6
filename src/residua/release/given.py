"""A release beside known facts: the equalities that people name, and the best estimates that meet them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from residua.domain import Domain, Label, impossible_cells
from residua.domain.facts import Fact, Facts, fact_cells, require_agreement
from residua.errors import PlanError
from residua.linalg.arrays import Floats, Integers
from residua.plans.contract import Plan
from residua.plans.estimator import Estimator
from residua.plans.operators.nesting import Nesting
from residua.plans.product.piece_estimator import PieceEstimator
from residua.release.base import Answered, Release
from residua.release.known import KnownPlan, KnownSums, Sums, contradiction
from residua.release.known_structure import KnownNodes, takes_margins, trees_of, with_margins, with_nodes
from residua.workload import (
    AttributeQueries,
    Identity,
    MatrixRows,
    Workload,
    attribute_queries,
    product,
    queries,
    selected,
)


@dataclass(frozen=True, eq=False, repr=False)
class Given(Answered):
    """A release beside facts that are known from elsewhere; made by `release.given`.

    It answers all that the release answers. Facts are not measured: it is not pooled, projected or saved; those are
    done with the release itself.

    Args:
        planned: the plan as it was made.
        receipt: what the ledger recorded when it was debited.
        estimator: the best estimates beside the facts.
        facts: how many numbers are known.
    """

    planned: Plan
    receipt: Mapping[str, Any]
    estimator: Estimator
    facts: int

    def __repr__(self) -> str:
        return f"{super().__repr__()} beside {self.facts:,} facts"


def given(release: Release, facts: Facts) -> Given:
    """A release beside known facts; see `Release.given`."""
    if release.planned.bias:
        raise PlanError("a release with a bias answers other queries than were asked; facts are given to ones without.")
    named = [_equality(release.domain, what, number) for what, number in _pairs(facts)]
    zeros = [each for each in _zeros(release.domain) if _answered(release.plan, each)]
    equalities = [each for each in (*named, *zeros) if each.known.any()]
    if not equalities:
        raise PlanError("facts is empty; name at least one, such as {(): 32_561} for the total.")
    whole = [Fact(each.members, each.values) for each in equalities if each.is_marginal]
    require_agreement(release.domain, whole)
    estimator, rest = release.estimator, equalities
    if takes_margins(estimator) and whole:
        estimator, rest = with_margins(estimator, whole), [each for each in rest if not each.is_marginal]
    elif isinstance(estimator, PieceEstimator):
        nodes = {at: known for at, each in enumerate(rest) if (known := _nodes(estimator, each)) is not None}
        if nodes:
            estimator = with_nodes(estimator, [*nodes.values()])
        rest = [each for at, each in enumerate(rest) if at not in nodes]
    if rest:
        estimator = _beside(release, estimator, rest)
    return Given(release.planned, release.receipt, estimator, sum(int(each.known.sum()) for each in equalities))


@dataclass(frozen=True, eq=False)
class Equality:
    """Known sums: all or some of the products of rows of some attributes, or of listed queries.

    Args:
        what: what is known, in words.
        domain: what the table may hold.
        asked: position of an attribute, increasing → its rows; None where queries are listed.
        values: what is known, one axis per attribute, or flat; NaN where nothing is.
        listed: the queries, if they are.
    """

    what: str
    domain: Domain
    asked: Mapping[int, AttributeQueries] | None
    values: Floats
    listed: Workload | None = None

    @cached_property
    def known(self) -> Any:
        """Which of them are known."""
        return ~np.isnan(self.values)

    @property
    def members(self) -> tuple[int, ...]:
        """The attributes, by position."""
        return tuple(self.asked or ())

    @property
    def is_marginal(self) -> bool:
        """Whether it is a marginal, and whole."""
        return self.asked is not None and all(each.plain for each in self.asked.values()) and bool(self.known.all())

    @cached_property
    def queries(self) -> tuple[Workload, Integers]:
        """A workload, and which of its queries are known; of single cells, no more rows than these have."""
        if self.asked is None:
            assert self.listed is not None
            return self.listed, np.flatnonzero(self.known)
        places = np.nonzero(self.known) if self.known.ndim else ()
        rows, at = {}, []
        for (i, each), place in zip(self.asked.items(), places, strict=True):
            used, inverse = np.unique(place, return_inverse=True)
            some = len(used) < each.rows
            rows[i] = MatrixRows(each.size, each.sparse()[used].toarray()) if some else each
            at.append(inverse)
        names = {self.domain.names[i]: each for i, each in rows.items()}
        shape = [each.rows for each in rows.values()]
        chosen = np.ravel_multi_index(tuple(at), shape) if shape else np.zeros(1, dtype=np.int64)
        return product(self.domain, names, sets=[tuple(names)]), np.asarray(chosen, dtype=np.int64)


def _pairs(facts: Facts) -> Iterator[tuple[Any, Any]]:
    pairs = facts.items() if isinstance(facts, Mapping) else facts
    if isinstance(facts, str) or not isinstance(pairs, Iterable):
        raise PlanError(f"facts={facts!r} is not a dictionary of facts; write {{('county',): counts, …}}.")
    for pair in pairs:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise PlanError(f"facts holds {pair!r}; give pairs (what is known, how many).")
        yield pair


def _equality(domain: Domain, what: Any, number: Any) -> Equality:
    if isinstance(what, Workload):
        return Equality(f"{what!r}", domain, None, _numbers(number, (what.queries,), what), what)
    if isinstance(what, Mapping):
        rows = {domain.position(name): row for name, row in selected(domain, what, argument="facts").items()}
        asked = {i: MatrixRows(len(rows[i]), rows[i][None, :]) for i in sorted(rows)}
        return Equality(f"{dict(what)!r}", domain, asked, _numbers(number, (), what).reshape([1] * len(asked)))
    if isinstance(what, str) and _axis(domain, what) is None:
        return Equality(repr(what), domain, None, _numbers(number, (), what).reshape(1), queries(domain, [what]))
    names = [what] if isinstance(what, str) else what
    if not isinstance(names, Sequence):
        raise PlanError(f"facts: {what!r} is not a set of attributes, a condition, or a workload.")
    axes = []
    for name in names:
        axis = _axis(domain, name)
        if axis is None:
            domain.positions([name] if isinstance(name, str) else name)  # says what is wrong with it
            raise PlanError(f"facts: {name!r} is not an attribute, or ATTRIBUTE.LEVEL.")
        axes.append(axis)
    positions = [position for position, _, _ in axes]
    if len(set(positions)) < len(positions):
        raise PlanError(f"facts: {tuple(names)!r} names an attribute twice; name each once.")
    said = f"the marginal on {tuple(names)!r}" if names else "the total"
    values = fact_cells(
        [(name, labels) for name, (_, _, labels) in zip(names, axes, strict=True)], number, f"facts: {said}"
    )
    order = np.argsort(positions)
    return Equality(said, domain, {axes[k][0]: axes[k][1] for k in order}, np.array(values.transpose(order), order="C"))


def _numbers(given: Any, shape: tuple[int, ...], what: Any) -> Floats:
    try:
        values = np.array(given, dtype=np.float64)
    except (TypeError, ValueError):
        values = np.full(1, np.nan)
    if values.shape != shape or not np.isfinite(values).all():
        raise PlanError(f"facts: {given!r} is not what {what!r} can be; give {'a number' if not shape else 'numbers'}.")
    return values


def _axis(domain: Domain, name: Any) -> tuple[int, AttributeQueries, Sequence[Label]] | None:
    """An attribute, or one of its levels as ATTRIBUTE.LEVEL: its position, the rows, and the labels of these."""
    if name in domain:
        attribute = domain[name]
        return domain.position(name), Identity(attribute.size), attribute.labels
    first, _, level = str(name).rpartition(".")
    if first not in domain or level not in [each.name for each in domain[first].hierarchy]:
        return None
    return domain.position(first), attribute_queries(first, domain[first], level), domain[first].level(level).labels


def _zeros(domain: Domain) -> Iterator[Equality]:
    """The structural zeros that the domain declares."""
    for names in dict.fromkeys(rule.names for rule in domain.impossible):
        mask = impossible_cells(domain, names)
        assert mask is not None
        rows: dict[int, AttributeQueries] = {domain.position(name): Identity(domain[name].size) for name in names}
        yield Equality(f"that no record has {names!r} as declared", domain, rows, np.where(mask, 0.0, np.nan))


def _answered(plan: Plan, equality: Equality) -> bool:
    workload, chosen = equality.queries
    return bool(np.isfinite(plan.variances(workload)[chosen]).all())


def _nodes(estimator: PieceEstimator, equality: Equality) -> KnownNodes | None:
    """A fact as nodes of the tree that was measured; None where it is something else."""
    axis = estimator.plan.attribute
    short = tuple(i for i in equality.members if i != axis)
    trees = trees_of(estimator, short)
    if equality.asked is None or not trees or not all(equality.asked[i].plain for i in short):
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


def _beside(release: Release, estimator: Estimator, equalities: Sequence[Equality]) -> Estimator:
    """Estimates beside any sums that are known.

    Raises:
        PlanError: what was not measured, or facts that contradict each other.
    """
    parts = tuple(each.queries for each in equalities)
    first = [np.sqrt(release.plan.variances(workload)[chosen]) for workload, chosen in parts]
    now = [np.sqrt(estimator.plan.variances(workload)[chosen]) for workload, chosen in parts]
    for each, stddevs in zip(equalities, now, strict=True):
        if not np.isfinite(stddevs).all():
            raise PlanError(
                f"facts: the release does not tell {each.what}, so that nothing follows from it; leave it out, or know "
                "whole marginals."
            )
    scales = np.concatenate([np.where(np.isfinite(a), a, b) for a, b in zip(first, now, strict=True)])
    sums = Sums(estimator.plan, parts, np.where(scales > 0, scales, 1.0))
    values = np.concatenate([each.values[each.known].ravel() for each in equalities])
    known = KnownSums(estimator, KnownPlan.beside(estimator.plan, sums), values)
    wrong = sums.contradicted(known.lacking, values)
    if wrong is not None:
        at = np.cumsum([len(each) for each in first])
        raise contradiction(equalities[int(np.searchsorted(at, wrong, side="right"))].what)
    return known
