"""Names of version 0.1.0 that plans still answer to, with a warning; they end with version 0.2."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from residua.linalg.arrays import Floats


class OldNames:
    """Questions that plans answered under other names."""

    def answers(self, other: Any) -> bool:
        """Now `can_answer`."""
        found: bool = self._now("answers(plan)", "can_answer(plan)").can_answer(other)
        return found

    def marginal_variances(self, workload: Any) -> Floats:
        """Now `variances(workload, per="term")`."""
        plan = self._now("marginal_variances(workload)", 'variances(workload, per="term")')
        found: Floats = plan.variances(workload, per="term")
        return found

    def term_variances(self, workload: Any) -> Floats:
        """Now `variances(workload, per="term")`."""
        plan = self._now("term_variances(workload)", 'variances(workload, per="term")')
        found: Floats = plan.variances(workload, per="term")
        return found

    def query_variance(self, query: Any) -> float:
        """Now `variance(query)`."""
        found: float = self._now("query_variance(query)", "variance(query)").variance(_as_before(query))
        return found

    def query_covariance(self, query: Any, other: Any) -> float:
        """Now `covariance(query, other)`."""
        plan = self._now("query_covariance(query, other)", "covariance(query, other)")
        found: float = plan.covariance(_as_before(query), _as_before(other))
        return found

    def cell_covariance(self, cell: Any, other: Any) -> float:
        """Now `covariance(cell, other)`."""
        found: float = self._now("cell_covariance(cell, other)", "covariance(cell, other)").covariance(cell, other)
        return found

    def _now(self, before: str, now: str) -> Any:
        warnings.warn(f"plan.{before} is now {now}; the old name ends with 0.2.", DeprecationWarning, stacklevel=3)
        return self


def _as_before(query: Any) -> Any:
    """A query in which a list still means coefficients, as it did; today it means labels."""
    if not isinstance(query, Mapping):
        return query
    return {name: np.array(part, dtype=np.float64) if isinstance(part, list) else part for name, part in query.items()}
