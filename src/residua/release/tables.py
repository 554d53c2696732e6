"""The tables of a release: of prefixes, ranges and levels, with one axis per attribute; and all of them, streamed.

A term of a products workload is a table with one row along each axis per query. Of a hierarchy each level is a table of
its own: all are read off the same estimates, so that levels add up.

Tables that follow each other share most of their margins: of half a million cells' worth of them, every margin is
rebuilt once, by the kernels that rebuild tables of one shape together. No more than that is in memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product as crossed
from typing import Any

import numpy as np
from numpy.typing import NDArray

from residua.domain import Domain, Label
from residua.errors import PlanError, nearest
from residua.linalg.arrays import Floats, Integers
from residua.linalg.lattice import closure
from residua.plans.product.set_estimator import FamilyEstimator
from residua.quoting.terms import by_label
from residua.workload import AskedRows, AttributeQueries, Term, Workload, attribute_queries, product, term_title, titled

MOST_ROWS = 2**26


@dataclass(frozen=True)
class TermTable:
    """Some rows of a term that make a table.

    Args:
        title: which table it is, in words.
        rows: which rows of each axis.
        labels: what each of them is; None for the attributes' values.
    """

    title: str
    rows: tuple[slice, ...]
    labels: tuple[tuple[Label, ...], ...] | None


def by_position(domain: Domain, combination: Mapping[Sequence[str], Any]) -> dict[Sequence[str], Any]:
    """A combination of cells with coefficients by label, `{("sex",): {"Female": 1, "Male": -1}}`, as arrays.

    Of several attributes a label is a tuple, one for each. Coefficients given by position stay as they are.

    Raises:
        PlanError: a label that is none, or a coefficient that is not a number.
    """
    return {
        names: np.nan_to_num(by_label(domain, domain.listed(names), given, "combination"))
        if isinstance(given, Mapping)
        else given
        for names, given in combination.items()
    }


def term_of(domain: Domain, attributes: Sequence[str], queries: Mapping[str, AskedRows]) -> Workload:
    """The workload of one table: attributes with what is asked of each, their values by default.

    Raises:
        PlanError: queries of an attribute that the table does not have.
    """
    stray = [name for name in queries if name not in attributes]
    if stray:
        shown, _ = nearest(stray[0], domain.names)
        raise PlanError(f"queries: a name{shown} is not among the table's attributes; add it there.")
    usual = {name: "sum" if domain[name].summed else "identity" for name in attributes}
    asked = {name: attribute_queries(name, domain[name], queries.get(name, usual[name])) for name in attributes}
    return product(domain, asked, sets=[tuple(attributes)])


def parts_of(domain: Domain, term: Term) -> Iterator[TermTable]:
    """The tables that a term makes: one, or one for each level of its hierarchies."""
    axes = [[(domain.names[i], *row) for row in asked.tables(domain[domain.names[i]])] for i, asked in term]
    for chosen in crossed(*axes):
        title = titled((name, what) for name, what, _, _ in chosen)
        yield TermTable(title, tuple(rows for _, _, rows, _ in chosen), tuple(labels for *_, labels in chosen))


def whole_part(domain: Domain, term: Sequence[tuple[int, AttributeQueries]]) -> TermTable:
    """All rows of a term as one table, in the order of the axes given."""
    labels: list[tuple[Label, ...]] = []
    for i, asked in term:
        parts = asked.tables(domain[domain.names[i]])
        several = len(parts) > 1
        labels.append(tuple(f"{what}={x}" if several and what else x for what, _, xs in parts for x in xs))
    return TermTable(term_title(domain, term), tuple(slice(None) for _ in term), tuple(labels))


# ---- terms with more rows than anyone lists: all ranges of 100,000 values are five thousand million


def is_listable(term: Sequence[tuple[int, AttributeQueries]], most: int = MOST_ROWS) -> bool:
    """Whether a term asks no more rows than this; values, which stand in any table, are not counted."""
    return math.prod(asked.rows for _, asked in term if asked.title) <= most


def too_long(workload: Workload | None) -> list[tuple[str, int]]:
    """The terms of a workload that are too long to list: which each is, in words, and how many numbers it has."""
    tables = None if workload is None else workload.tables
    if tables is None or tables.plain or tables.cells.max(initial=0.0) <= MOST_ROWS:
        return []
    return [
        (term_title(tables.domain, term), math.prod(asked.rows for _, asked in term))
        for term in tables.terms()
        if not is_listable(term)
    ]


def require_listable(workload: Workload | None) -> None:
    """Refuses to list a workload with a term that is too long.

    Raises:
        PlanError: there is one.
    """
    for title, numbers in too_long(workload):
        raise PlanError(refusal(title, numbers))


def refusal(title: str, numbers: int, *, left_out: bool = False) -> str:
    """Why a term is not listed, and what to ask instead."""
    why = "too many to list, and was left out" if left_out else "too many to list"
    return (
        f"the table {title!r} has {numbers:,} numbers, {why}; ask for single ones with residua count, or for quantiles "
        "with residua quantile (in Python: count, quantile)."
    )


_BATCH_CELLS = 500_000


def streams(estimator: Any, workload: Any) -> bool:
    """Whether tables are rebuilt many at a time: marginals, measured by plain residuals or as they are."""
    return (
        estimator.plan.family is not None
        and workload.plain
        and bool(estimator.plan.family.plain)
        and not estimator.plan.bias
        and bool(np.isfinite(estimator.plan.family.variances(workload, per="term")).all())
    )


def rebuilt_tables(estimator: FamilyEstimator, workload: Workload) -> Iterator[tuple[tuple[int, ...], Floats, float]]:
    """The tables of a workload that `streams`, in its order: positions of attributes, estimates, standard error."""
    stddevs = np.sqrt(estimator.plan.family.variances(workload, per="term"))
    for part in _batches(workload.cells):
        chosen = np.arange(part.start, part.stop)
        tables = {}
        for batch in rebuilt_batches(estimator, workload, chosen):
            for term, members, estimates in zip(
                batch.terms.tolist(), batch.members.tolist(), batch.estimates, strict=True
            ):
                own = estimates if len(chosen) == 1 else estimates.copy()  # else overwritten
                tables[term] = (tuple(members), own, float(stddevs[term]))
        for term in chosen.tolist():
            yield tables.pop(term)


@dataclass(frozen=True, eq=False)
class RebuiltBatch:
    """Tables of one shape, until the next batch is asked for.

    Args:
        terms: which of the workload's tables these are, (tables,).
        members: the positions of their attributes, increasing, (tables, k).
        estimates: (tables, n_1, …, n_k).
    """

    terms: Integers
    members: NDArray[np.int32]
    estimates: Floats


def rebuilt_batches(estimator: FamilyEstimator, workload: Workload, chosen: Integers) -> Iterator[RebuiltBatch]:
    """Some tables of plain marginals, from no more measurements than they need, in batches of equal shape.

    Args:
        reading: of plain residuals.
        workload: of plain marginals.
        chosen: which of its tables, by their places.
    """
    lattice, numbers = workload.lattice, workload.numbers[chosen]
    sizes = lattice.set_sizes[numbers]
    levels = {k: lattice.levels[k][numbers[sizes == k] - lattice.offsets[k]] for k in np.unique(sizes)}
    plan = estimator.plan
    whole = plan.family is plan and len(chosen) == len(workload)
    if whole and all((plan.lattice.find(rows) >= 0).all() for rows in levels.values()):
        family, batches = plan.lattice, estimator.all_marginals()  # nothing is copied
    else:
        family = closure(list(levels.values()), lattice.attributes)
        batches = estimator.part(family).all_marginals()
    terms = np.full(len(family), -1)
    for k, rows in levels.items():
        terms[family.find(rows)] = chosen[sizes == k]
    for group, part, tables in batches:
        own = terms[group.numbers[part]]
        kept = np.flatnonzero(own >= 0)
        if len(kept):
            estimates = tables if len(kept) == len(tables) else tables[kept]
            yield RebuiltBatch(own[kept], group.members[part][kept], estimates)


def _batches(cells: Floats) -> Iterator[slice]:
    """Tables that follow each other, of about as many cells as are rebuilt at once."""
    places = ((np.cumsum(cells) - cells) // _BATCH_CELLS).astype(np.int64)
    for first, stop in pairwise([0, *(np.flatnonzero(np.diff(places)) + 1).tolist(), len(cells)]):
        yield slice(first, stop)
