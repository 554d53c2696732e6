"""What all plans along one ordered attribute share: every question about it is one about its running sums."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array

from residua.errors import PlanError
from residua.linalg.arrays import Floats
from residua.linalg.path import over_running_sums
from residua.plans.axis.rows import rows_of, terms_of
from residua.plans.contract import Plan
from residua.plans.questions import combined, in_one_table
from residua.quoting import Term
from residua.workload import AttributeQueries, Workload


class AlongPlan(Plan):
    """A plan that measures one attribute alone; how accurate sums of its values are is for the form to say."""

    attribute: int

    @property
    def name(self) -> str:
        """The attribute that is measured."""
        return self.domain.names[self.attribute]

    @property
    def size(self) -> int:
        """How many values it has."""
        return int(self.domain.sizes[self.attribute])

    @property
    def measured_attributes(self) -> tuple[int, ...]:
        """The attribute alone."""
        return (self.attribute,)

    @property
    def slack(self) -> float:
        """0 where the price is exact; infinite for replacements and limited persons, of whom a bound alone is known."""
        reach = self.unit.contribution
        return math.inf if reach is None or reach.limits else 0.0

    @property
    def remarks(self) -> tuple[tuple[str, str], ...]:
        """Whether its price is a bound alone."""
        loose = ("Price", "a bound; what it really costs is not computed and may be much less")
        return (loose,) if self.slack else ()

    @property
    def details(self) -> dict[str, Any]:
        """What else was tried, and that the price is a bound of unknown slack, where it is."""
        return {**super().details, "price_slack": None} if self.slack else super().details

    # ---- accuracy

    @abstractmethod
    def row_variances(self, rows: csr_array) -> Floats:
        """The variance of each combination of running sums, rounding included, (rows,), from rows over them."""

    @abstractmethod
    def row_covariances(self, first: csr_array, second: csr_array) -> Floats:
        """Covariances of combinations of running sums, rounding included, (rows of the first, of the second)."""

    @abstractmethod
    def _term_variance(self, asked: dict[int, AttributeQueries]) -> float:
        """The mean variance of a term's queries."""

    def _variances(self, workload: Workload) -> Floats:
        rows, answered = rows_of(workload, self.attribute)
        return np.where(answered, self.row_variances(rows), np.inf)

    def _term_variances(self, workload: Workload) -> Floats:
        if not workload.tabular:
            return super()._term_variances(workload)
        return np.array([self._term_variance(asked) for asked, _ in terms_of(workload)])

    def _cell_variances(self, positions: tuple[int, ...]) -> Floats:
        if not self._is_along(positions):
            return np.full([int(self.domain.sizes[i]) for i in positions], np.inf)
        return super()._cell_variances(positions)

    def _is_along(self, positions: tuple[int, ...]) -> bool:
        """Whether of some attributes none but the measured one has several values."""
        return all(i == self.attribute or self.domain.sizes[i] == 1 for i in positions)

    def table_along(self, positions: tuple[int, ...], values: Floats, total: float) -> Floats:
        """The table on some attributes, from the numbers of the measured one's values, (n,), and their total.

        Raises:
            PlanError: another attribute has several values.
        """
        if not self._is_along(positions):
            raise PlanError(f"only {self.name!r} was measured; plan for a workload that asks for the rest.")
        return np.reshape(values if self.attribute in positions else total, [self.domain.sizes[i] for i in positions])

    def _covariance(self, first: Workload, second: Workload) -> Floats:
        return self.row_covariances(rows_of(first, self.attribute)[0], rows_of(second, self.attribute)[0])

    def _paired(self, first: Term, second: Term, crossed: tuple[int, ...]) -> Floats:
        """Variances from those of running sums; covariances from those of all queries."""
        if first is second and not crossed:
            return self._variances(first.workload).reshape(first.shape)
        return super()._paired(first, second, crossed)

    def combined_row(self, combination: Mapping[Any, ArrayLike]) -> csr_array:
        """A linear combination of cells as a row over running sums, (1, n)."""
        members, total = in_one_table(self.domain, combined(self.domain, combination))
        others = tuple(place for place, i in enumerate(members) if i != self.attribute)
        along = total.mean(axis=others, keepdims=True)
        if (np.abs(total - along) > 1e-12 * np.abs(total).max(initial=0.0)).any():
            raise PlanError(f"this plan measures {self.name!r} alone; plan for a workload that asks for the rest.")
        return over_running_sums(csr_array(np.broadcast_to(along.ravel(), (1, self.size))))

    def combination_variance(self, combination: Mapping[Any, ArrayLike]) -> float:
        """Variance of a linear combination of cells."""
        return float(self.row_variances(self.combined_row(combination))[0])
