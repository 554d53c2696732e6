"""What a workload asks of blocks, in coordinates: the levels of every attribute, and queries term by term."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

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

Asked = tuple[tuple[int, ...], list[AttributeQueries] | Workload, float]


def posed(workload: Workload) -> tuple[list[AttributeLevels], list[GramTerm]]:
    """The levels of every attribute, and the Gram matrices of all terms in their coordinates.

    Raises:
        PlanError: a set of attributes with too many cells for a strategy of its own.
    """
    terms = list(_terms(workload))
    told = [_told(attributes, asked) for attributes, asked, _ in terms]
    axes = _axes(workload.domain, terms, told)
    by_table: dict[Block, list[GramTerm]] = {}
    for (attributes, asked, weight), classes in zip(terms, told, strict=True):
        pairs = ((i, axes[i].level_of(own)) for i, own in zip(attributes, classes, strict=True))
        term = _term(workload.domain, axes, attributes, tuple(pairs), asked, weight)
        by_table.setdefault(term.table, []).append(term)
    return axes, [_sum(alike) for alike in by_table.values()]


def posed_queries(workload: Workload, scales: Floats) -> tuple[list[AttributeLevels], list[GramTerm]]:
    """The levels of every attribute, and the queries of all terms over the cells of their tables, each times a number.

    Raises:
        PlanError: a set of attributes with too many cells for a strategy of its own, or too many queries.
    """
    domain, terms = workload.domain, list(_terms(workload))
    axes = _axes(domain, terms, [_told(attributes, asked) for attributes, asked, _ in terms])
    by_table: dict[Block, list[Floats]] = {}
    entries = 0
    for attributes, rows, at in asked_rows(workload):
        told = [told_apart(np.moveaxis(rows, k, -1).reshape(-1, rows.shape[k])) for k in range(1, rows.ndim)]
        levels = [axes[i].level_of(own) for i, own in zip(attributes, told, strict=True)]
        table = tuple((i, level) for i, level in zip(attributes, levels, strict=True) if level)
        _check_table(domain, axes, table)
        firsts = [axes[i].firsts_of(level) for i, level in zip(attributes, levels, strict=True)]
        few = rows[np.ix_(np.arange(len(rows)), *firsts)].reshape(len(rows), -1) * scales[at, None]
        entries += few.size
        if entries > _MOST_ROWS:
            raise PlanError(
                f"the {workload.queries:,} queries are too many to have a target each; minimise TotalVariance, or ask "
                "for fewer."
            )
        by_table.setdefault(table, []).append(few)
    found = []
    for table, listed in by_table.items():
        rows = np.vstack(listed)
        C = in_coordinates(axes, table, rows)
        found.append(GramTerm(table, (C.T @ C,), rows=rows))
    return axes, found


def _axes(domain: Domain, terms: Sequence[Asked], told: Sequence[list[Integers]]) -> list[AttributeLevels]:
    """The levels of every attribute, from the classes that each term tells apart."""
    partitions: list[dict[bytes, Integers]] = [{} for _ in range(len(domain))]
    for (attributes, _, _), classes in zip(terms, told, strict=True):
        for i, own in zip(attributes, classes, strict=True):
            partitions[i].setdefault(own.tobytes(), own)
    return [axis_of(int(n), own.values()) for n, own in zip(domain.sizes, partitions, strict=True)]


def _terms(workload: Workload) -> Iterator[Asked]:
    """The parts of a workload that ask of one set of attributes: positions, what is asked, the weight."""
    if workload.in_parts:
        for part in workload.parts:
            yield from _terms(part)
    elif not workload.tabular:
        yield workload.attributes, workload, 1.0
    else:
        for term, weight in zip(workload.terms(), workload.weights.tolist(), strict=True):
            yield tuple(i for i, _ in term), [asked for _, asked in term], weight


def _told(attributes: tuple[int, ...], asked: list[AttributeQueries] | Workload) -> list[Integers]:
    """The classes of values that no query tells apart, for each attribute."""
    if not isinstance(asked, Workload):
        return [_classes(rows) for rows in asked]
    columns = asked.matrix.tocsc()
    probe = np.random.default_rng(0).standard_normal(asked.queries)  # equal columns, equal sums
    table = np.asarray(columns.T @ probe).reshape(asked.shape)
    return [told_apart(np.moveaxis(table, axis, -1).reshape(-1, n)) for axis, n in enumerate(asked.shape)]


def _classes(rows: AttributeQueries) -> Integers:
    if rows.plain:
        return np.arange(rows.size)
    return told_apart(rows.gram())  # columns of the Gram matrix are equal where those of the rows are


def _term(
    domain: Domain,
    axes: Sequence[AttributeLevels],
    attributes: tuple[int, ...],
    levels: Block,
    asked: list[AttributeQueries] | Workload,
    weight: float,
) -> GramTerm:
    """One term in coordinates; attributes of which it asks the total are left out."""
    table = tuple((i, level) for i, level in levels if level)
    _check_table(domain, axes, table)
    firsts = [axes[i].firsts_of(level) for i, level in levels]
    if isinstance(asked, Workload):
        at = np.ravel_multi_index(np.ix_(*firsts), asked.shape).ravel() if firsts else np.zeros(1, dtype=np.int64)
        C = in_coordinates(axes, table, asked.matrix.tocsc()[:, at].toarray() * np.sqrt(asked.weights)[:, None])
        return GramTerm(table, (C.T @ C,), weight)
    factors = []
    for rows, first, (i, level) in zip(asked, firsts, levels, strict=True):
        inverse = axes[i].inverses[level]
        factor = inverse.T @ rows.gram()[np.ix_(first, first)] @ inverse
        if level:
            factors.append(factor)
        else:
            weight *= float(factor[0, 0])
    return GramTerm(table, tuple(factors), weight)


def _check_table(domain: Domain, axes: Sequence[AttributeLevels], table: Block) -> None:
    cells = math.prod(shape_of(axes, table))
    if cells > MOST_COORDINATES or dimensions(axes, table) > MOST_DIMENSIONS:
        names = ", ".join(domain.names[i] for i, _ in table)
        raise PlanError(
            f"the queries of {names} tell {cells:,} cells apart, more than {MOST_COORDINATES:,}, the most for a "
            "strategy of their own; group values (rs.Bins, levels), or ask for marginals and products apart from "
            "queries that tie attributes together."
        )


def _sum(terms: list[GramTerm]) -> GramTerm:
    """Terms on one table as one."""
    if len(terms) == 1:
        return terms[0]
    return GramTerm(terms[0].table, (np.asarray(sum(term.weight * term.matrix() for term in terms)),))


def check_memory(found: Orbits, axes: Sequence[AttributeLevels]) -> None:
    """Refuses what is too much to hold at once.

    Raises:
        PlanError: it is.
    """
    entries = sum(math.prod(shape_of(axes, term.table)) ** 2 for term, _ in found.terms)
    if entries > _MOST_ENTRIES:
        raise PlanError(
            f"what is asked of {len(found.terms):,} kinds of tables is too much to hold at once; ask for fewer, or "
            "group values."
        )
