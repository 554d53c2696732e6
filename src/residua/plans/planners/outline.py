"""What is asked of a hierarchy with many values: its levels, sets of short attributes, weights and targets."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from residua.domain import Domain
from residua.linalg.arrays import Integers
from residua.linalg.lattice import Set, subsets
from residua.plans.objectives import MaxVariance
from residua.plans.operators.correlated import terms_of
from residua.plans.operators.nesting import Nesting, Nodes, nesting_of, tree_rows
from residua.plans.planners.offers import Task
from residua.plans.product.facts import coefficient
from residua.plans.solver.nested import NestedProblem, TreePart, Wanted
from residua.plans.targets import Names, part_targets
from residua.workload import AttributeQueries, Workload

MOST_SHORT = 8  # attributes


def nested_attribute(workload: Workload, least: int) -> int | None:
    """The attribute whose levels are asked for, if all else is values of other attributes."""
    if not workload.with_rows:  # marginals ask for values alone
        return None
    nested: set[int] = set()
    for family in workload.families:  # not by terms: there may be millions
        for i in family.used:
            if family.queries[i].by_levels:
                nested.add(i)
            elif not family.queries[i].plain:
                return None
    if len(nested) != 1:
        return None
    (attribute,) = nested
    short = workload.lattice.used - {attribute}
    return attribute if len(short) <= MOST_SHORT and int(workload.domain.sizes[attribute]) >= least else None


@dataclass(frozen=True, eq=False)
class Outline:
    """What is to be planned.

    Args:
        nesting: the levels of the attribute.
        levels: those that are asked for, and the root.
        starts: the finest asked level of each set of short attributes.
        problem: the same for the solver.
    """

    nesting: Nesting
    levels: list[int]
    starts: dict[Set, int]
    problem: NestedProblem


def outlined(task: Task, attribute: int) -> Outline:
    """What is asked of the levels of an attribute."""
    domain = task.workload.domain
    nesting, sizes = nesting_of(domain[domain.names[attribute]]), domain.sizes.tolist()
    tables = asked_tables(task, attribute, nesting)
    levels = sorted({level for _, level in tables} | {nesting.root})
    finest: dict[Set, int] = {}
    for short, level in tables:
        for members in subsets(short):
            if all(sizes[i] > 1 for i in members):
                finest[members] = min(finest.get(members, level), level)
    starts = {members: finest[members] for members in sorted(finest, key=lambda members: (len(members), members))}
    parts = []
    for members, start in starts.items():
        own = [level for level in levels if level >= start]
        tree = nesting.tree(own, alike=start == levels[0])
        parts.append(TreePart(coefficient(members, members, sizes), tree, levels.index(own[0])))
    wanted = []
    for (short, level), (weight, target) in tables.items():
        shares = [(k, coefficient(each, short, sizes)) for k, each in enumerate(starts) if set(each) <= set(short)]
        cells = math.prod(sizes[i] for i in short)
        wanted.append(Wanted(levels.index(level), weight * cells, target, tuple(shares)))
    problem = NestedProblem(nesting.tree(levels, alike=True), tuple(parts), tuple(wanted))
    return Outline(nesting, levels, starts, problem)


def asked_tables(task: Task, attribute: int, nesting: Nesting) -> dict[tuple[Set, int], tuple[float, float]]:
    """The weight and the target of every table that is asked for, by its short attributes and its level.

    Of a table that several terms ask for, the sum of variances counts with the sum of their weights, the largest
    `weight · variance` with the largest of them; it has to meet the targets of all.
    """
    terms = [(term, weight, _levels_of(term, attribute, nesting)) for term, weight in terms_of(task.workload)]
    parts = [
        (tuple(sorted(set(term) - {attribute})), rows.level, weight)
        for term, weight, levels in terms
        for rows in levels
    ]
    targets = [1.0 / weight for *_, weight in parts]
    if isinstance(task.objective, MaxVariance) and task.objective.targets is not None:
        targets = part_targets(
            task.objective.targets,
            len(parts),
            lambda: [_names(task.workload.domain, attribute, nesting, short, level) for short, level, _ in parts],
            lambda: np.concatenate(_numbers(terms, attribute, nesting)),
        ).tolist()
    tables: dict[tuple[Set, int], tuple[float, float]] = {}
    for (short, level, weight), target in zip(parts, targets, strict=True):
        known = tables.get((short, level), (0.0, math.inf))
        tables[short, level] = known[0] + weight, min(known[1], target)
    return tables


def _levels_of(term: dict[int, AttributeQueries], attribute: int, nesting: Nesting) -> list[Nodes]:
    """The levels that a term asks for, in the order of its queries."""
    return [rows for rows in tree_rows(term.get(attribute), nesting) if isinstance(rows, Nodes)]


def _names(domain: Domain, attribute: int, nesting: Nesting, short: Set, level: int) -> list[Names]:
    """What a table is called in a mapping of targets: by its level, and by the attribute where that is not named."""
    others = tuple(domain.names[i] for i in short)
    own: list[Names] = [(nesting.names[level], *others)] if level and nesting.names[level] else []
    whole: list[Names] = [others] if level == nesting.root else []
    return [*own, *whole, (domain.names[attribute], *others)]


def _numbers(
    terms: list[tuple[dict[int, AttributeQueries], float, list[Nodes]]], attribute: int, nesting: Nesting
) -> list[Integers]:
    """The number of the part, a level of a term, of each query of every term."""
    numbers, first = [], 0
    for term, _, levels in terms:
        along = np.repeat(np.arange(first, first + len(levels)), [rows.count(nesting) for rows in levels])
        members = sorted(term)
        along = along.reshape([-1 if i == attribute else 1 for i in members])
        numbers.append(np.broadcast_to(along, [term[i].rows for i in members]).ravel())
        first += len(levels)
    return numbers
