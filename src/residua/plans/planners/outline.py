"""What is asked of a hierarchy with many values: its levels, sets of short attributes, weights and targets."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from residua.domain import Domain
from residua.errors import PlanError
from residua.plans.forms import Task
from residua.plans.objectives import MaxVariance
from residua.plans.questions import Workload
from residua.plans.solver.nested import Part, Problem, Wanted
from residua.plans.tree.facts import coefficient
from residua.plans.tree.nesting import Nesting, nesting_of
from residua.plans.tree.rows import Nodes, terms_of, tree_rows
from residua.workload import Identity, Marginals, Products, as_products
from residua.workload.nested import Hierarchy, LevelRows

MOST_SHORT = 8  # attributes


def nested_attribute(workload: Workload, least: int) -> int | None:
    """The attribute whose levels are asked for, if all else is values of other attributes."""
    if not isinstance(workload, Products):  # marginals ask for values alone
        return None
    found: set[int] = set()
    for family in workload.families:  # not by terms: there may be millions
        for i in family.used:
            if isinstance(family.queries[i], Hierarchy | LevelRows):
                found.add(i)
            elif not isinstance(family.queries[i], Identity):
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
    problem: Problem


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
        parts.append(Part(math.prod(1.0 - 1.0 / int(domain.sizes[i]) for i in members), tree, levels.index(own[0])))
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
        nesting, levels, sets, [starts[members] for members in sets], Problem(base, tuple(parts), tuple(wanted))
    )


def asked_tables(task: Task, attribute: int, nesting: Nesting) -> list[tuple[tuple[int, ...], int, float, float]]:
    """Every table that is asked for: its short attributes, its level, its weight and its target."""
    asked: dict[tuple[tuple[int, ...], int], float] = {}
    for term, weight in terms_of(task.workload):
        short = tuple(sorted(set(term) - {attribute}))
        for rows in tree_rows(term.get(attribute), nesting):
            assert isinstance(rows, Nodes)
            asked[short, rows.level] = asked.get((short, rows.level), 0.0) + weight
    targets = task.objective.targets if isinstance(task.objective, MaxVariance) else None
    found = _targets(task.workload.domain, attribute, nesting, targets, list(asked)) if targets is not None else None
    return [
        (short, level, weight, 1.0 / weight if found is None else found[short, level])
        for (short, level), weight in asked.items()
    ]


def _targets(
    domain: Domain, attribute: int, nesting: Nesting, targets: Any, tables: list[tuple[tuple[int, ...], int]]
) -> dict[tuple[tuple[int, ...], int], float]:
    """The target of every table: one for all, or by the names of levels and attributes.

    In a mapping a level's name stands for the attribute on that level, the attribute's own name for its values, or for
    all its levels that are not named.
    """
    if isinstance(targets, int | float) and not isinstance(targets, bool):
        given = {table: float(targets) for table in tables}
    elif isinstance(targets, Mapping):
        given = {}
        for names, target in sorted(targets.items(), key=lambda item: _rank(item[0], nesting)):
            for table in _named(domain, attribute, nesting, names, tables):
                given[table] = target
    else:
        raise PlanError(
            "targets of a hierarchy are one number, or a mapping such as {('state',): 25.0, ('county', 'sex'): 100.0}."
        )
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


def _rank(names: Any, nesting: Nesting) -> int:
    """Names of levels come after the attribute's own, so that they hold where both are given."""
    return int(any(name in nesting.names[1:] for name in ((names,) if isinstance(names, str) else tuple(names))))


def _named(
    domain: Domain, attribute: int, nesting: Nesting, names: Any, tables: list[tuple[tuple[int, ...], int]]
) -> list[tuple[tuple[int, ...], int]]:
    """The tables that a key of a mapping of targets means."""
    listed = (names,) if isinstance(names, str) else tuple(names)
    levels = [name for name in listed if name in nesting.names[1:] and name]
    rest = [name for name in listed if name not in levels]
    if len(levels) > 1:
        raise PlanError(f"targets names {listed!r}, two levels at once; name one.")
    try:
        short = set(domain.positions(rest))
    except ValueError as problem:
        raise PlanError(f"targets: {problem}; levels are {', '.join(n for n in nesting.names if n)}.") from None
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


def _called(domain: Domain, attribute: int, nesting: Nesting, table: tuple[tuple[int, ...], int]) -> tuple[str, ...]:
    short, level = table
    name = nesting.names[level] or (domain.names[attribute] if level == 0 else "")
    return tuple(each for each in (name, *(domain.names[i] for i in short)) if each)


def products_of(workload: Workload) -> Products:
    """A workload of tables or products as products."""
    assert isinstance(workload, Products | Marginals)
    return as_products(workload)
