"""Answers to single queries as a table of one axis, so that every format can hold them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from residua.domain import Categories, Domain
from residua.workload import Workload

AXIS, TITLE = "query", "Queries"
RECORDS, OTHER = "records", "as each query says"


@dataclass(frozen=True, eq=False)
class Answered:
    """Published answers, as formats see a table: one attribute, `query`, whose values are the labels of the queries.

    Args:
        domain: that attribute.
        columns: labels and numbers.
    """

    domain: Domain
    columns: dict[str, Any]
    labels: None = None
    title: str = TITLE
    attributes: tuple[str, ...] = (AXIS,)
    keys: tuple[str, ...] = (AXIS,)

    def __len__(self) -> int:
        return len(self.columns[AXIS])


def answered(published: Any, **options: Any) -> Iterator[Answered]:
    """What was asked as queries, as one table; nothing where all is tables."""
    workload: Workload | None = published.plan.workload
    asked = None if workload is None else workload.single_queries
    if asked is None:
        return
    columns = published.answers(asked, **options).columns
    seen: Counter[str] = Counter()
    labels = tuple(numbered(label, seen) for label in columns[AXIS])
    yield Answered(Domain({AXIS: Categories(labels)}), {**columns, AXIS: list(labels)})


def unit_of(workload: Workload | None) -> str:
    """What numbers count: records, or whatever queries add up."""
    parts = () if workload is None else workload.parts
    rows = [part.matrix.data for part in parts if not part.tabular]
    return RECORDS if all(np.isin(each, (0.0, 1.0)).all() for each in rows) else OTHER


def numbered(name: str, seen: Counter[str]) -> str:
    """A name as it is; one that was seen before gets a number."""
    seen[name] += 1
    return name if seen[name] == 1 else f"{name} ({seen[name]})"
