"""What a workload asks of blocks, in coordinates: the levels of every attribute, and queries term by term."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from residua.domain import Domain
from residua.errors import PlanError
from residua.linalg.arrays import Floats, Integers
from residua.plans.blockwise.facts import asked as asked_rows
from residua.plans.levels import AttributeLevels, Block, axis_of, dimensions, in_coordinates, shape_of, told_apart
from residua.plans.solver.orbits import GramTerm, Orbits
from residua.workload import AttributeQueries, Workload

MOST_DIMENSIONS = 2000  # of one block
MOST_COORDINATES = 2**12  # of all blocks of one term together
_MOST_ENTRIES = 2**28  # of the Gram matrices of all kinds of terms
_MOST_ROWS = 2**26  # entries of queries that each count by themselves

# Attributes, the classes of each that are distinguished, and the Gram matrix in coordinates of levels and their table.
PosedTerm = tuple[tuple[int, ...], list[Integers], Callable[[Sequence[AttributeLevels], Block, Block], GramTerm]]


def posed(workload: Workload) -> tuple[list[AttributeLevels], list[GramTerm]]:
    """The levels of every attribute, and the Gram matrices of all terms in their coordinates.

    Raises:
        PlanError: a set of attributes with too many cells for a strategy of its own.
    """
    terms = list(_terms(workload))
    axes = _axes(workload.domain, terms)
    by_table: dict[Block, list[GramTerm]] = {}
    for attributes, classes, gram in terms:
        levels = tuple((i, axes[i].level_of(own)) for i, own in zip(attributes, classes, strict=True))
        table = _table(workload.domain, axes, levels)
        by_table.setdefault(table, []).append(gram(axes, levels, table))
    return axes, [_sum(alike) for alike in by_table.values()]


def posed_queries(workload: Workload, scales: Floats) -> tuple[list[AttributeLevels], list[GramTerm]]:
    """The levels of every attribute, and the queries of all terms over the cells of their tables, each times a number.

    Raises:
        PlanError: a set of attributes with too many cells for a strategy of its own, or too many queries.
    """
    domain = workload.domain
    axes = _axes(domain, list(_terms(workload)))
    by_table: dict[Block, list[Floats]] = {}
    entries = 0
    for attributes, rows, at in asked_rows(workload):
        classes = [told_apart(np.moveaxis(rows, k, -1).reshape(-1, rows.shape[k])) for k in range(1, rows.ndim)]
        levels = tuple((i, axes[i].level_of(own)) for i, own in zip(attributes, classes, strict=True))
        table = _table(domain, axes, levels)
        firsts = [axes[i].firsts_of(level) for i, level in levels]
        few = rows[np.ix_(np.arange(len(rows)), *firsts)].reshape(len(rows), -1) * scales[at, None]
        entries += few.size
        if entries > _MOST_ROWS:
            raise PlanError(
                f"the {workload.queries:,} queries are too many to have a target each; minimise TotalVariance, or ask "
                "for fewer."
            )
        by_table.setdefault(table, []).append(few)
    terms = []
    for table, listed in by_table.items():
        rows = np.vstack(listed)
        C = in_coordinates(axes, table, rows)
        terms.append(GramTerm(table, (C.T @ C,), rows=rows))
    return axes, terms


def _axes(domain: Domain, terms: Sequence[PosedTerm]) -> list[AttributeLevels]:
    """The levels of every attribute, from the classes that each term distinguishes."""
    partitions: list[dict[bytes, Integers]] = [{} for _ in range(len(domain))]
    for attributes, classes, _ in terms:
        for i, own in zip(attributes, classes, strict=True):
            partitions[i].setdefault(own.tobytes(), own)
    return [axis_of(int(n), own.values()) for n, own in zip(domain.sizes, partitions, strict=True)]


def _terms(workload: Workload) -> Iterator[PosedTerm]:
    """The parts of a workload that ask of one set of attributes, whose values are in classes."""
    for part in workload.parts:
        if part.tabular:
            for term, weight in zip(part.terms(), part.weights.tolist(), strict=True):
                rows = [asked for _, asked in term]
                yield tuple(i for i, _ in term), [_classes(each) for each in rows], partial(_of_rows, rows, weight)
        else:
            probe = np.random.default_rng(0).standard_normal(part.queries)  # equal columns, equal sums
            sums = np.asarray(part.matrix.tocsc().T @ probe).reshape(part.shape)
            classes = [told_apart(np.moveaxis(sums, axis, -1).reshape(-1, n)) for axis, n in enumerate(part.shape)]
            yield part.attributes, classes, partial(_of_queries, part)


def _classes(rows: AttributeQueries) -> Integers:
    """The classes of values that no row distinguishes."""
    if rows.plain:
        return np.arange(rows.size)
    return told_apart(rows.gram())  # columns of the Gram matrix are equal where those of the rows are


def _of_queries(part: Workload, axes: Sequence[AttributeLevels], levels: Block, table: Block) -> GramTerm:
    """Listed queries in coordinates."""
    firsts = [axes[i].firsts_of(level) for i, level in levels]
    at = np.ravel_multi_index(np.ix_(*firsts), part.shape).ravel() if firsts else np.zeros(1, dtype=np.int64)
    C = in_coordinates(axes, table, part.matrix.tocsc()[:, at].toarray() * np.sqrt(part.weights)[:, None])
    return GramTerm(table, (C.T @ C,))


def _of_rows(
    rows: Sequence[AttributeQueries], weight: float, axes: Sequence[AttributeLevels], levels: Block, table: Block
) -> GramTerm:
    """A product of rows in coordinates; attributes of which it asks the total are left out."""
    factors = []
    for asked, (i, level) in zip(rows, levels, strict=True):
        first, inverse = axes[i].firsts_of(level), axes[i].inverses[level]
        factor = inverse.T @ asked.gram()[np.ix_(first, first)] @ inverse
        if level:
            factors.append(factor)
        else:
            weight *= float(factor[0, 0])
    return GramTerm(table, tuple(factors), weight)


def _table(domain: Domain, axes: Sequence[AttributeLevels], levels: Block) -> Block:
    """The block of all that is asked, without attributes of which the total is.

    Raises:
        PlanError: too many cells for a strategy of its own.
    """
    table = tuple((i, level) for i, level in levels if level)
    cells = math.prod(shape_of(axes, table))
    if cells > MOST_COORDINATES or dimensions(axes, table) > MOST_DIMENSIONS:
        names = ", ".join(domain.names[i] for i, _ in table)
        raise PlanError(
            f"the queries of {names} tell {cells:,} cells apart, more than {MOST_COORDINATES:,}, the most for a "
            "strategy of their own; group values (rs.Bins, levels), or ask for marginals and products apart from "
            "queries that tie attributes together."
        )
    return table


def _sum(terms: list[GramTerm]) -> GramTerm:
    """Terms on one table as one."""
    if len(terms) == 1:
        return terms[0]
    return GramTerm(terms[0].table, (np.asarray(sum(term.weight * term.matrix() for term in terms)),))


def check_memory(orbits: Orbits, axes: Sequence[AttributeLevels]) -> None:
    """Refuses what is too much to hold at once.

    Raises:
        PlanError: it is.
    """
    if sum(math.prod(shape_of(axes, term.table)) ** 2 for term, _ in orbits.terms) > _MOST_ENTRIES:
        raise PlanError(
            f"what is asked of {len(orbits.terms):,} kinds of tables is too much to hold at once; ask for fewer, or "
            "group values."
        )
