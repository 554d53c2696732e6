"""Terms with more rows than anyone lists: all ranges of 100,000 values are five thousand million."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from residua.errors import PlanError
from residua.release.queried import term_title
from residua.workload import AttributeQueries, Identity, Marginals, as_products, tables_in

MOST_ROWS = 2**26


def is_listable(term: Sequence[tuple[int, AttributeQueries]], most: int = MOST_ROWS) -> bool:
    """Whether a term asks no more rows than this; values, which stand in any table, are not counted."""
    return math.prod(asked.rows for _, asked in term if not isinstance(asked, Identity)) <= most


def too_long(workload: Any) -> list[tuple[str, int]]:
    """The terms of a workload that are too long to list: which each is, in words, and how many numbers it has."""
    tables = tables_in(workload)
    if tables is None or isinstance(tables, Marginals) or tables.cells.max(initial=0.0) <= MOST_ROWS:
        return []
    return [
        (term_title(tables.domain, term), math.prod(asked.rows for _, asked in term))
        for term in as_products(tables).terms()
        if not is_listable(term)
    ]


def require_listable(workload: Any) -> None:
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
