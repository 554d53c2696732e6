"""Blockwise plans for any queries of a few attributes each, and for products that ask an attribute in several ways.

What the workload tells apart of each attribute becomes its levels; every set of levels that some query needs is a block
with the strategy that is best for it (`solver/blockwise.py`), rounded to integers. Blocks that nobody asks for, and
directions of a block that nobody asks for, are measured a ten-thousandth as strongly, so that everything on these cells
is answerable whatever rounding did (a hundred-millionth of the cost).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from residua.domain import Domain
from residua.errors import PlanError
from residua.linalg.arrays import Floats, Integers
from residua.plans.cells import MOST_COLUMNS
from residua.plans.contract import Plan
from residua.plans.forms import Form, Lattice, Task
from residua.plans.joint.measured import Rows
from residua.plans.joint.plan import JointPlan
from residua.plans.lattice.plan import LatticePlan
from residua.plans.levels.axes import Axis, axis_of, told_apart
from residua.plans.levels.family import Block, closed, dimensions, in_coordinates, shape_of
from residua.plans.matrix.integers import FILLING
from residua.plans.noise import guarantee_like
from residua.plans.objectives import TotalVariance, described
from residua.plans.persons import by_cells
from residua.plans.questions import Workload
from residua.plans.solver.blockwise import Blockwise as Solver
from residua.plans.solver.blockwise import Solved
from residua.plans.solver.orbits import Orbits, Term, orbits
from residua.privacy import ZCDP
from residua.workload import AttributeQueries, Explicit, Identity, Joint, as_products, parts_of

LISTED_CELLS = 2**20  # beyond these, cells of all attributes together are never listed
_FEW_CELLS = 1500  # up to these, a matrix plan takes seconds
_WORTH_TRYING = 0.02  # a proven gap of one strategy per attribute
MOST_DIMENSIONS = 2000  # of one block
MOST_CELLS = 2**14  # of the table behind a block
MOST_COORDINATES = 2**12  # of all blocks of one term together
_MOST_ENTRIES = 2**28  # of the Gram matrices of all kinds of terms
_LARGEST = 2.0**30
_SLACK = 1.0 - 2.0**-40
_ROUNDS = 40

Asked = tuple[tuple[int, ...], list[AttributeQueries] | Explicit, float]


@dataclass(frozen=True)
class Blockwise(Form):
    """A strategy for each set of attributes and levels, instead of one for each attribute: `form=rs.Blockwise()`.

    For workloads that ask an attribute in several ways, or tie attributes together, over many cells. `rs.plan` chooses
    it by itself for queries that tie attributes together over more cells than can be listed, and over few cells for
    products that one strategy per attribute serves badly. Only releases over few cells can be projected.
    """

    def plan(self, task: Task) -> JointPlan:
        """The plan."""
        return plan_joint(task.workload, task)


def blockwise_first(workload: Explicit, task: Task, form: Form | None) -> bool:
    """Whether explicit queries are planned block by block: where wanted, or their parts have too many cells in all.

    A matrix plan is better by up to a few percent of the variance, and takes the cube of the cells.
    """
    if isinstance(form, Lattice):
        return True
    if form is not None or not isinstance(workload, Joint):
        return False
    cells = math.prod(workload.shape)
    if cells > LISTED_CELLS:
        return True
    if cells <= _FEW_CELLS or not isinstance(task.objective, TotalVariance):
        return False
    probe = np.random.default_rng(0).standard_normal(workload.queries)  # equal columns, equal sums
    return len(np.unique(workload.matrix.T @ probe)) > _FEW_CELLS


def blockwise_if_better(made: LatticePlan, task: Task) -> Plan:
    """A plan for products, or one with a strategy for each block where one strategy per attribute is far from the best.

    Args:
        made: the plan with one strategy per attribute, and its proven gap.
        task: what the plan is for.
    """
    if not isinstance(task.objective, TotalVariance) or not by_cells(task.unit) or made.workload is None:
        return made
    used = {i for family in as_products(made.workload).families for i in family.used}
    few = math.prod(int(made.domain.sizes[i]) for i in used) <= MOST_COLUMNS  # releases over more cannot be projected
    if not few or not _WORTH_TRYING < made.gap < math.inf:
        return made
    try:
        other = plan_joint(made.workload, task)
    except PlanError:  # a block too large for a strategy of its own
        return made
    better = (
        other.unit_pcost < made.unit_pcost
        if task.guarantee is None
        else other.total_variance(made.workload) < made.total_variance(made.workload)
    )
    return other if better else made


def plan_joint(workload: Workload, task: Task) -> JointPlan:
    """A blockwise plan of least total variance for a budget, or (without one) for a largest acceptable loss.

    Raises:
        PlanError: another objective, or a set of attributes with too many cells for a strategy of its own.
    """
    if not isinstance(task.objective, TotalVariance):
        raise PlanError(
            f"{type(task.objective).__name__} is not for queries of many attributes together; use TotalVariance, or "
            "plan over few cells with form=rs.Matrix()."
        )
    axes, terms = posed(workload)
    blocks = closed(term.table for term in terms)
    found = orbits(axes, terms, blocks)
    _check_memory(found, axes)
    solved = Solver(axes, found).solve(task.effort.tolerance, min(task.effort.limit, _ROUNDS), task.effort.progress)
    strategies, shares = rounded(solved)
    made = JointPlan(
        domain=workload.domain,
        axes=tuple(axes),
        blocks_of=tuple(blocks),
        numbers=tuple(found.kinds[block] for block in blocks),
        strategies=strategies,
        precisions=shares[[found.kinds[block] for block in blocks]],
        guarantee=task.guarantee,
        unit=task.unit,
        workload=workload,
        objective=described(task.objective),
    )
    if made.unit_pcost <= 0:
        raise PlanError("replacing a record changes none of these tables; they can be published without noise.")
    achieved = made.total_variance(workload) * made.pcost
    gap = max(achieved / solved.bound - 1.0, 0.0) if by_cells(task.unit) else math.inf
    made = made.replaced(gap=gap)
    if task.allowed is not None:
        return made.replaced(precisions=made.precisions * (task.allowed / made.unit_pcost * _SLACK))
    made = made.replaced(precisions=made.precisions * (achieved / made.pcost / task.loss / _SLACK))
    return made.replaced(guarantee=guarantee_like(ZCDP(1.0), made.unit_pcost))


# ---- what is asked, in coordinates


def posed(workload: Workload) -> tuple[list[Axis], list[Term]]:
    """The levels of every attribute, and the Gram matrices of all terms in their coordinates.

    Raises:
        PlanError: a set of attributes with too many cells for a strategy of its own.
    """
    domain, terms = workload.domain, list(_terms(workload))
    partitions: list[dict[bytes, Integers]] = [{} for _ in range(len(domain))]
    told = [_told(attributes, asked) for attributes, asked, _ in terms]
    for (attributes, _, _), classes in zip(terms, told, strict=True):
        for i, own in zip(attributes, classes, strict=True):
            partitions[i].setdefault(own.tobytes(), own)
    axes = [axis_of(int(n), own.values()) for n, own in zip(domain.sizes, partitions, strict=True)]
    by_table: dict[Block, list[Term]] = {}
    for (attributes, asked, weight), classes in zip(terms, told, strict=True):
        pairs = ((i, axes[i].level_of(own)) for i, own in zip(attributes, classes, strict=True))
        term = _term(domain, axes, attributes, tuple(pairs), asked, weight)
        by_table.setdefault(term.table, []).append(term)
    return axes, [_sum(alike) for alike in by_table.values()]


def _terms(workload: Workload) -> Iterator[Asked]:
    """The parts of a workload that ask of one set of attributes: positions, what is asked, the weight."""
    if isinstance(workload, Joint):
        for part, _ in parts_of(workload):
            yield from _terms(part)
    elif isinstance(workload, Explicit):
        yield workload.attributes, workload, 1.0
    else:
        products = as_products(workload)
        for term, weight in zip(products.terms(), products.weights.tolist(), strict=True):
            yield tuple(i for i, _ in term), [asked for _, asked in term], weight


def _told(attributes: tuple[int, ...], asked: list[AttributeQueries] | Explicit) -> list[Integers]:
    """The classes of values that no query tells apart, for each attribute."""
    if not isinstance(asked, Explicit):
        return [_classes(rows) for rows in asked]
    columns = asked.matrix.tocsc()
    probe = np.random.default_rng(0).standard_normal(asked.queries)  # equal columns, equal sums
    table = np.asarray(columns.T @ probe).reshape(asked.shape)
    return [told_apart(np.moveaxis(table, axis, -1).reshape(-1, n)) for axis, n in enumerate(asked.shape)]


def _classes(rows: AttributeQueries) -> Integers:
    if isinstance(rows, Identity):
        return np.arange(rows.size)
    return told_apart(rows.gram())  # columns of the Gram matrix are equal where those of the rows are


def _term(
    domain: Domain,
    axes: Sequence[Axis],
    attributes: tuple[int, ...],
    levels: Block,
    asked: list[AttributeQueries] | Explicit,
    weight: float,
) -> Term:
    """One term in coordinates; attributes of which it asks the total are left out."""
    table = tuple((i, level) for i, level in levels if level)
    cells = math.prod(shape_of(axes, table))
    if cells > MOST_COORDINATES or dimensions(axes, table) > MOST_DIMENSIONS:
        names = ", ".join(domain.names[i] for i, _ in table)
        raise PlanError(
            f"the queries of {names} tell {cells:,} cells apart, more than {MOST_COORDINATES:,}, the most for a "
            "strategy of their own; group values (rs.Bins, levels), or ask for marginals and products apart from "
            "queries that tie attributes together."
        )
    firsts = [axes[i].firsts_of(level) for i, level in levels]
    if isinstance(asked, Explicit):
        at = np.ravel_multi_index(np.ix_(*firsts), asked.shape).ravel() if firsts else np.zeros(1, dtype=np.int64)
        C = in_coordinates(axes, table, asked.matrix.tocsc()[:, at].toarray() * np.sqrt(asked.weights)[:, None])
        return Term(table, (C.T @ C,), weight)
    factors = []
    for rows, first, (i, level) in zip(asked, firsts, levels, strict=True):
        inverse = axes[i].inverses[level]
        factor = inverse.T @ rows.gram()[np.ix_(first, first)] @ inverse
        if level:
            factors.append(factor)
        else:
            weight *= float(factor[0, 0])
    return Term(table, tuple(factors), weight)


def _sum(terms: list[Term]) -> Term:
    """Terms on one table as one."""
    if len(terms) == 1:
        return terms[0]
    return Term(terms[0].table, (np.asarray(sum(term.weight * term.matrix() for term in terms)),))


def _check_memory(found: Orbits, axes: Sequence[Axis]) -> None:
    entries = sum(math.prod(shape_of(axes, term.table)) ** 2 for term, _ in found.terms)
    if entries > _MOST_ENTRIES:
        raise PlanError(
            f"what is asked of {len(found.terms):,} kinds of tables is too much to hold at once; ask for fewer, or "
            "group values."
        )


# ---- integers


def rounded(solved: Solved) -> tuple[tuple[Rows, ...], Floats]:
    """Every kind's strategy in integers, with every direction of its block, and its share of the cost."""
    shares = np.array([float((rows**2).sum(axis=0).max(initial=0.0)) for rows in solved.rows])
    little = float(shares.max()) * FILLING**2
    strategies = []
    for kind, (rows, missing) in enumerate(zip(solved.rows, solved.missing, strict=True)):
        strength = math.sqrt(float(shares[kind])) * FILLING if len(rows) else math.sqrt(little)
        strategies.append(Rows(_integers(np.vstack([rows, missing * (strength / _longest(missing))]))))
        shares[kind] = max(float(shares[kind]), little)
    return tuple(strategies), shares


def _longest(rows: Floats) -> float:
    """The largest column norm; 1 where there is none."""
    return math.sqrt(float((rows**2).sum(axis=0).max(initial=0.0))) or 1.0


def _integers(rows: Floats) -> Integers:
    """The nearest integers at the largest power of two that leaves room for records."""
    bits = math.floor(math.log2(_LARGEST / float(np.abs(rows).max())))
    return np.rint(rows * 2.0**bits).astype(np.int64)
