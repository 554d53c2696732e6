"""Plans for hierarchies with many values: levels of one attribute, crossed with tables of short attributes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

import numpy as np

from residua.domain import Domain
from residua.errors import PlanError
from residua.linalg.arrays import Floats
from residua.linalg.tree import Levels
from residua.plans.forms import Form, Task
from residua.plans.noise import guarantee_like
from residua.plans.objectives import MaxVariance, TotalVariance, described
from residua.plans.planners.forecast import Forecast
from residua.plans.questions import Workload
from residua.plans.solver.nested import NestedSolution, Part, Problem, Wanted, best_largest, best_total
from residua.plans.tree.facts import coefficient
from residua.plans.tree.nesting import Nesting, nesting_of
from residua.plans.tree.plan import TreePlan
from residua.plans.tree.rows import Nodes, terms_of, tree_rows
from residua.privacy import ZCDP
from residua.workload import Explicit, Identity, Marginals, Products, as_products
from residua.workload.nested import Hierarchy, LevelRows

MANY = 1025  # values: below, dense plans of hierarchies are quick, a little better, and combine with every other plan
_MOST_SHORT = 8
_SLACK = 1 - 2.0**-30
_SECONDS, _BYTES = 1e-5, 200.0  # per node above the finest level and set: to plan it


@dataclass(frozen=True)
class Tree(Form):
    """A plan over the levels of one attribute: for hierarchies, levels and values, crossed with short attributes.

    Hierarchies of many values get this form by themselves; say it for shorter ones.

    Args:
        precisions: `"node"`, a precision for each node, within a thousandth of the best possible; or `"level"`, one for
            each level, about a hundredth above it, priced by one sum of fractions.
    """

    precisions: Literal["node", "level"] = "node"

    def plan(self, task: Task) -> TreePlan:
        """The best plan over the tree.

        Raises:
            PlanError: the workload or the objective is not of this kind.
        """
        if self.precisions not in ("node", "level"):
            raise PlanError(f"precisions={self.precisions!r} is not 'node' or 'level'.")
        attribute = _attribute(task.workload, least=1)
        if attribute is None:
            raise PlanError(
                "form=rs.Tree() is for levels and values of one attribute, crossed with values of at most "
                f"{_MOST_SHORT} others; leave the form out."
            )
        made = plan_tree(task, attribute, each=self.precisions)
        if made is None:
            raise PlanError(
                "form=rs.Tree() is for total variance, the largest variance, or targets; leave minimise out."
            )
        return made


def tree_by_itself(task: Task) -> int | None:
    """The attribute over whose levels a plan is made unasked; None where there is none, or not many values."""
    return _attribute(task.workload, least=MANY)


def _attribute(workload: Workload, least: int) -> int | None:
    """The attribute whose levels are asked for, if all else is values of other attributes."""
    if isinstance(workload, Explicit):
        return None
    found: set[int] = set()
    for asked, _ in terms_of(workload):
        for i, queries in asked.items():
            if isinstance(queries, Hierarchy | LevelRows):
                found.add(i)
            elif not isinstance(queries, Identity):
                return None
    if len(found) != 1:
        return None
    (attribute,) = found
    short = {i for row in workload.lattice for i in row} - {attribute}
    return attribute if len(short) <= _MOST_SHORT and int(workload.domain.sizes[attribute]) >= least else None


def plan_tree(task: Task, attribute: int, each: Literal["node", "level"] = "node") -> TreePlan | None:
    """The best plan over the levels of an attribute; None where the objective is not of that kind.

    Args:
        task: what the plan is for.
        attribute: the attribute with levels.
        each: what has a precision of its own.
    """
    if not isinstance(task.objective, TotalVariance | MaxVariance):
        return None
    outline = _outlined(task, attribute)
    nodes = sum(sum(part.tree.sizes) for part in outline.problem.parts)
    Forecast(nodes * _SECONDS, nodes * _BYTES, f"a tree of {outline.nesting.sizes[0]:,} values").check()
    if isinstance(task.objective, TotalVariance):
        solution = best_total(outline.problem, each, task.effort.tolerance, task.effort.progress)
    else:
        over: Literal["nodes", "levels"] = "nodes" if task.objective.over == "queries" else "levels"
        solution = best_largest(outline.problem, each, over, task.effort.tolerance, task.effort.progress)
    return _made(task, attribute, outline, solution)


@dataclass(frozen=True, eq=False)
class _Outline:
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


def _outlined(task: Task, attribute: int) -> _Outline:
    domain, nesting = task.workload.domain, nesting_of(task.workload.domain[task.workload.domain.names[attribute]])
    tables = _tables(task, attribute, nesting)
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
    return _Outline(
        nesting, levels, sets, [starts[members] for members in sets], Problem(base, tuple(parts), tuple(wanted))
    )


def _tables(task: Task, attribute: int, nesting: Nesting) -> list[tuple[tuple[int, ...], int, float, float]]:
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


def _made(task: Task, attribute: int, outline: _Outline, solution: NestedSolution) -> TreePlan:
    found = []
    for start, levels in zip(outline.starts, solution.precisions, strict=True):
        found.append(_on_all_levels(outline, start, levels))
    made = TreePlan(
        task.workload.domain,
        attribute,
        tuple(outline.sets),
        tuple(outline.starts),
        tuple(found),
        task.guarantee,
        task.unit,
        _products(task.workload),
        described(task.objective),
        gap=max(solution.loss / solution.bound - 1.0, 0.0) + 1e-8,
    )
    unit_cost = made.unit_pcost
    factor = task.allowed * _SLACK / unit_cost if task.allowed is not None else _wanted_factor(task, made)
    reach = task.unit.contribution
    exact = reach is not None and not reach.limits
    made = made.replaced(
        precisions=tuple(tuple(each * factor for each in levels) for levels in made.precisions),
        gap=made.gap if exact else math.inf,
    )
    if task.guarantee is None:
        made = made.replaced(guarantee=guarantee_like(ZCDP(1.0), made.unit_pcost))
    return made


def _wanted_factor(task: Task, made: TreePlan) -> float:
    """By how much the precisions are to be multiplied for the loss that was asked for."""
    if isinstance(task.objective, TotalVariance):
        loss = made.total_variance(_products(task.workload))
    else:
        over = task.objective.over if isinstance(task.objective, MaxVariance) else "queries"
        loss = max(
            float(_variances(made, short, level).max() if over == "queries" else _variances(made, short, level).mean())
            / target
            for short, level, _, target in _tables(task, made.attribute, made.nesting)
        )
    return loss / task.loss * (1.0 + 1e-8)  # rounding to integers adds less


def _variances(made: TreePlan, short: tuple[int, ...], level: int) -> Floats:
    """The variance of a cell of each node's table, (nodes,)."""
    sizes = made.domain.sizes.tolist()
    parts = (
        coefficient(facts.members, short, sizes) * facts.of_nodes(level, facts.solved.V)
        for facts in made.facts
        if set(facts.members) <= set(short)
    )
    return np.asarray(sum(parts))


def _on_all_levels(outline: _Outline, start: int, levels: Levels) -> tuple[Floats, ...]:
    """Precisions of asked levels on all of them, 0 where nothing is measured; of the finest level by parent."""
    nesting = outline.nesting
    own = [level for level in outline.levels if level >= start]
    found: list[Floats] = []
    for level in range(start, nesting.root + 1):
        if level not in own:
            found.append(np.zeros(1))
            continue
        each = np.asarray(levels[own.index(level)])
        each = each.astype(np.float32).astype(np.float64)  # seven digits are plenty, and half the file
        if level == start and len(each) > 1 and level < nesting.root:
            each = _by_parent(outline, start, each)
        found.append(each)
    return tuple(found)


def _by_parent(outline: _Outline, start: int, each: Floats) -> Floats:
    """Precisions of the finest level, one per node of the next declared level."""
    nesting = outline.nesting
    if start == outline.levels[0]:  # one per node of the next asked level
        above = outline.levels[1]
        return each[nesting.between(start + 1, above)]
    least = np.full(nesting.sizes[start + 1], np.inf)  # one per node: children of one parent differ little
    np.minimum.at(least, nesting.parents[start], each)
    return least


def _products(workload: Workload) -> Products:
    assert isinstance(workload, Products | Marginals)
    return as_products(workload)
