"""What is asked of a hierarchy with many values: its levels, sets of short attributes, weights and targets."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from residua.domain import Domain
from residua.errors import PlanError
from residua.linalg.arrays import Floats
from residua.plans.objectives import MaxVariance
from residua.plans.operators.correlated import terms_of
from residua.plans.operators.nesting import Nesting, Nodes, nesting_of, tree_rows
from residua.plans.planners.offers import Task
from residua.plans.product.facts import coefficient
from residua.plans.solver.nested import NestedProblem, TreePart, Wanted
from residua.plans.targets import listed_targets
from residua.workload import AttributeQueries, Workload

MOST_SHORT = 8  # attributes

AskedTable = tuple[tuple[int, ...], int]  # short attributes, and a level


def nested_attribute(workload: Workload, least: int) -> int | None:
    """The attribute whose levels are asked for, if all else is values of other attributes."""
    if not workload.with_rows:  # marginals ask for values alone
        return None
    found: set[int] = set()
    for family in workload.families:  # not by terms: there may be millions
        for i in family.used:
            if family.queries[i].by_levels:
                found.add(i)
            elif not family.queries[i].plain:
                return None
    if len(found) != 1:
        return None
    (attribute,) = found
    short = workload.lattice.used - {attribute}
    return attribute if len(short) <= MOST_SHORT and int(workload.domain.sizes[attribute]) >= least else None


@dataclass(frozen=True, eq=False)
class Outline:
    """What is to be planned.

    Args:
        nesting: the levels of the attribute.
        levels: those that are asked for, and the root.
        sets: the sets of short attributes.
        starts: the finest asked level of each.
        problem: the same for the solver.
    """

    nesting: Nesting
    levels: list[int]
    sets: list[tuple[int, ...]]
    starts: list[int]
    problem: NestedProblem


def outlined(task: Task, attribute: int) -> Outline:
    """What is asked of the levels of an attribute."""
    domain, nesting = task.workload.domain, nesting_of(task.workload.domain[task.workload.domain.names[attribute]])
    tables = asked_tables(task, attribute, nesting)
    levels = sorted({level for _, level, _, _ in tables} | {nesting.root})
    starts: dict[tuple[int, ...], int] = {}
    for short, level, _, _ in tables:
        for size in range(len(short) + 1):
            for members in combinations(short, size):
                if all(int(domain.sizes[i]) > 1 for i in members):
                    starts[members] = min(starts.get(members, level), level)
    sets = sorted(starts, key=lambda members: (len(members), members))
    parts = []
    for members in sets:
        own = [level for level in levels if level >= starts[members]]
        tree = nesting.tree(own, alike=starts[members] == levels[0])
        parts.append(TreePart(math.prod(1.0 - 1.0 / int(domain.sizes[i]) for i in members), tree, levels.index(own[0])))
    sizes = domain.sizes.tolist()
    wanted = []
    for short, level, weight, target in tables:
        shares = [
            (number, coefficient(members, short, sizes))
            for number, members in enumerate(sets)
            if set(members) <= set(short)
        ]
        cells = math.prod(sizes[i] for i in short)
        wanted.append(Wanted(levels.index(level), weight * cells, target, tuple(shares), cells))
    base = nesting.tree(levels, alike=True)
    return Outline(
        nesting, levels, sets, [starts[members] for members in sets], NestedProblem(base, tuple(parts), tuple(wanted))
    )


def asked_tables(task: Task, attribute: int, nesting: Nesting) -> list[tuple[tuple[int, ...], int, float, float]]:
    """Every table that is asked for: its short attributes, its level, its weight and its target.

    Of a table that several terms ask for, the sum of variances counts with the sum of their weights, the largest
    `weight · variance` with the largest of them.
    """
    asked: dict[AskedTable, list[float]] = {}
    for term, weight in terms_of(task.workload):
        short = tuple(sorted(set(term) - {attribute}))
        for rows in _levels_of(term, attribute, nesting):
            asked.setdefault((short, rows.level), []).append(weight)
    targets = task.objective.targets if isinstance(task.objective, MaxVariance) else None
    given = None if targets is None else _targets(task.workload, attribute, nesting, targets, list(asked))
    return [
        (*table, sum(weights), 1.0 / max(weights) if given is None else given[table])
        for table, weights in asked.items()
    ]


def _levels_of(term: dict[int, AttributeQueries], attribute: int, nesting: Nesting) -> list[Nodes]:
    """The levels that a term asks for, in the order of its queries."""
    return [rows for rows in tree_rows(term.get(attribute), nesting) if isinstance(rows, Nodes)]


def _targets(
    workload: Workload, attribute: int, nesting: Nesting, targets: Any, tables: list[AskedTable]
) -> dict[AskedTable, float]:
    """The target of every table: one for all, by the names of levels and attributes, or one for every query."""
    domain = workload.domain
    given: dict[AskedTable, Any]
    if isinstance(targets, Mapping):
        given = _mapped(domain, attribute, nesting, targets, tables)
    elif isinstance(targets, int | float | np.number) and not isinstance(targets, bool):
        given = {table: float(targets) for table in tables}
    else:
        given = _listed(workload, attribute, nesting, targets)
    for table in tables:
        if table not in given:
            raise PlanError(f"targets has no variance for {_called(domain, attribute, nesting, table)!r}; give one.")
        target = given[table]
        if isinstance(target, bool) or not isinstance(target, int | float) or not 0 < target < math.inf:
            raise PlanError(
                f"targets: the target variance of {_called(domain, attribute, nesting, table)!r} is not positive and "
                "finite; correct it."
            )
    return {table: float(target) for table, target in given.items()}


def _mapped(
    domain: Domain, attribute: int, nesting: Nesting, targets: Mapping[Any, Any], tables: list[AskedTable]
) -> dict[AskedTable, Any]:
    """Targets by names: a level's name stands for the attribute on that level, the attribute's own for all others."""
    given = {}
    for names, target in sorted(targets.items(), key=lambda item: _rank(item[0], nesting)):
        for table in _named(domain, attribute, nesting, names, tables):
            given[table] = target
    return given


def _listed(workload: Workload, attribute: int, nesting: Nesting, targets: Any) -> dict[AskedTable, float]:
    """Targets that are listed query by query; a table that two terms ask for has to meet the targets of both."""
    values = listed_targets(targets, workload.queries)
    given: dict[AskedTable, float] = {}
    start = 0
    for term, _ in terms_of(workload):
        end = start + math.prod(asked.rows for asked in term.values())
        for table, own in _by_table(term, attribute, nesting, values[start:end]):
            if own.min() < own.max():
                raise PlanError(
                    f"targets differ between queries of {_called(workload.domain, attribute, nesting, table)!r}; give "
                    "all queries of a level the same target."
                )
            given[table] = float(np.minimum(own.min(), given.get(table, math.inf)))  # keeps what is no number
        start = end
    return given


def _by_table(
    term: dict[int, AttributeQueries], attribute: int, nesting: Nesting, values: Floats
) -> Iterator[tuple[AskedTable, Floats]]:
    """The tables that a term asks for, each with what is given for its queries."""
    members = sorted(term)
    own = values.reshape([term[i].rows for i in members])
    own = np.moveaxis(own, members.index(attribute), 0) if attribute in term else own[None]
    short, first = tuple(i for i in members if i != attribute), 0
    for rows in _levels_of(term, attribute, nesting):
        last = first + rows.count(nesting)
        yield (short, rows.level), own[first:last]
        first = last


def _rank(names: Any, nesting: Nesting) -> int:
    """Names of levels come after the attribute's own, so that they hold where both are given."""
    return int(any(name in nesting.names[1:] for name in ((names,) if isinstance(names, str) else tuple(names))))


def _named(domain: Domain, attribute: int, nesting: Nesting, names: Any, tables: list[AskedTable]) -> list[AskedTable]:
    """The tables that a key of a mapping of targets means."""
    listed = (names,) if isinstance(names, str) else tuple(names)
    levels = [name for name in listed if name in nesting.names[1:] and name]
    rest = [name for name in listed if name not in levels]
    if len(levels) > 1:
        raise PlanError(f"targets names {listed!r}, two levels at once; name one.")
    try:
        short = set(domain.positions(rest))
    except ValueError as problem:
        known = ", ".join(repr(name) for name in nesting.names if name)
        raise PlanError(f"targets: {str(problem).rstrip('.')}; levels are {known}.") from None
    own = attribute in short
    short -= {attribute}
    found = [
        (members, level)
        for members, level in tables
        if set(members) == short and (level == nesting.level(levels[0]) if levels else own or level == nesting.root)
    ]
    if not found:
        raise PlanError(f"targets names {listed!r}, which the workload does not ask for; add it or remove it.")
    return found


def _called(domain: Domain, attribute: int, nesting: Nesting, table: AskedTable) -> tuple[str, ...]:
    short, level = table
    name = nesting.names[level] or (domain.names[attribute] if level == 0 else "")
    return tuple(each for each in (name, *(domain.names[i] for i in short)) if each)


def products_of(workload: Workload) -> Workload:
    """A workload of tables or products as products."""
    assert workload.tabular
    return workload
