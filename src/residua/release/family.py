"""Releases that read marginals of a family of attribute sets off their measurements: what all kinds of them share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from residua.release.base import Release

Floats = NDArray[np.float64]


class FamilyRelease(Release):
    """A release of marginals, or of queries on them."""

    _asked_as = "tables"

    @abstractmethod
    def _marginal(self, positions: tuple[int, ...]) -> Floats:
        """Estimates of the marginal on attributes in their own order; the plan says whether they are unbiased."""

    @property
    def sets(self) -> tuple[tuple[str, ...], ...]:
        """The attribute sets that were asked for."""
        workload: Any = self.planned.workload
        return () if workload is None else tuple(workload.sets)

    def estimates(self, attributes: Sequence[str]) -> Floats:
        """Unbiased estimates of the marginal on these attributes, an array with one axis each, in this order.

        Raises:
            PlanError: the release cannot answer this marginal.
        """
        self._stddev(tuple(attributes))  # says so, if it cannot
        return np.array(self._in_order(attributes), order="C")

    def __repr__(self) -> str:
        return f"Release({len(self.sets):,} {self._asked_as}, {self.planned.guarantee!r}, {self.planned.unit})"

    def _combined(self, combination: Mapping[Sequence[str], ArrayLike]) -> tuple[float, float]:
        plan: Any = self.plan
        variance = float(plan.combination_variance(combination))  # says so, if it cannot be answered
        parts = (
            float((self._in_order(names) * np.asarray(coefficients, dtype=np.float64)).sum())
            for names, coefficients in combination.items()
        )
        return sum(parts), variance

    def _in_order(self, attributes: Sequence[str]) -> Floats:
        positions = self.domain.positions(attributes)
        return self._marginal(tuple(sorted(positions))).transpose(np.argsort(np.argsort(positions)))
