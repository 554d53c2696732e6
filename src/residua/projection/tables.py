"""Tables of a projection: estimates or whole counts, without error bars, since biased numbers have none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from numpy.typing import NDArray

from residua.domain import Domain, Label
from residua.errors import PlanError
from residua.linalg.arrays import Floats
from residua.release.table import Columns, label_columns


@dataclass(frozen=True, eq=False, repr=False)
class ProjectedTable(Columns):
    """A table of a projection, tidy: attributes, estimate. There is no error bar: the estimates are biased.

    Args:
        domain: where the labels come from.
        attributes: the table's attributes, in the order asked.
        estimates: not negative, consistent with every other table of the projection, (n_1, …, n_k).
        labels: what each row of each axis is, where that is not the attributes' values (prefixes, ranges, levels).
        title: which table this is, in words.
    """

    domain: Domain
    attributes: tuple[str, ...]
    estimates: Floats
    labels: tuple[Sequence[Label], ...] | None = None
    title: str = ""

    def __post_init__(self) -> None:
        self.estimates.setflags(write=False)

    @property
    def keys(self) -> tuple[str, ...]:
        """The table's attributes."""
        return self.attributes

    def __len__(self) -> int:
        return self.estimates.size

    @cached_property
    def columns(self) -> dict[str, Any]:
        """The columns by name: labels as lists, estimates as an array."""
        labels = label_columns(self.domain, self.attributes, self.estimates.shape, self.labels)
        return {**labels, "estimate": self.estimates.ravel()}


@dataclass(frozen=True, eq=False, repr=False)
class CountTable(Columns):
    """A marginal in whole or fractional counts, as other programs read it: attributes, count.

    Args:
        domain: where the labels come from.
        attributes: the table's attributes, in the order asked.
        counts: one per cell, (n_1, …, n_k).
        margin_error: how far a margin of the table is from that of the table it was rounded from, at most.
    """

    domain: Domain
    attributes: tuple[str, ...]
    counts: NDArray[Any]
    margin_error: float = 0.0

    def __post_init__(self) -> None:
        self.counts.setflags(write=False)
        if "count" in self.attributes:
            raise PlanError("the attribute 'count' would be taken for the column of counts; rename it in the domain.")

    @property
    def keys(self) -> tuple[str, ...]:
        """The table's attributes."""
        return self.attributes

    def __len__(self) -> int:
        return self.counts.size

    @cached_property
    def columns(self) -> dict[str, Any]:
        """The columns by name: labels as lists, counts as an array."""
        return {**label_columns(self.domain, self.attributes, self.counts.shape), "count": self.counts.ravel()}


@dataclass(frozen=True, eq=False, repr=False)
class ProjectedAnswers(Columns):
    """Answers of a projection: query, estimate. There is no error bar: the estimates are biased."""

    labels: tuple[str, ...]
    estimates: Floats

    @property
    def keys(self) -> tuple[str, ...]:
        """The query's label."""
        return ("query",)

    def __len__(self) -> int:
        return len(self.estimates)

    @cached_property
    def columns(self) -> dict[str, Any]:
        """The columns by name: labels as a list, estimates as an array."""
        return {"query": list(self.labels), "estimate": self.estimates}
