"""How estimates err, whatever they are read off: variances and covariances of all that can be asked.

A plan is one such thing; its estimates beside known facts are another (`conditional.py`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike

from residua.domain import Domain
from residua.errors import PlanError
from residua.linalg.arrays import Floats
from residua.plans.estimator import Asked, Query, as_workload, combination_query, require_same_domain
from residua.plans.quotes import picked
from residua.quoting import Term
from residua.workload import Workload, marginals

Per = Literal["query", "term"]
_MOST_QUERIES = 2**28
_MOST_PAIRS = 2**24


class Uncertainty(ABC):
    """Unbiased estimates, and how they err: two questions answered by whoever knows, and what follows from them."""

    domain: Domain  # what the table may hold

    @property
    def by_names(self) -> tuple[str, ...]:
        """The attributes that make groups of people, each of which may have a plan of its own; none in most forms."""
        return ()

    @property
    def family(self) -> Any:
        """The lattice whose precisions the plan's tables have; None for a plan that has none."""
        return None

    @abstractmethod
    def _variances(self, workload: Workload) -> Floats:
        """The variance of every query, (queries,); infinite where it cannot be answered."""

    @abstractmethod
    def _covariance(self, first: Workload, second: Workload) -> Floats:
        """Covariances between the queries of two workloads, all of them answerable, (queries, queries)."""

    @property
    def alike(self) -> bool:
        """Whether all values of an attribute are measured alike."""
        return False

    def _paired(self, first: Term, second: Term, crossed: tuple[int, ...]) -> Floats:
        """Covariances place by place, from those of all queries; forms know better ways."""
        if math.prod(first.shape) * math.prod(second.shape) > _MOST_PAIRS:
            raise PlanError("these groups are too many for a plan of this form; ask for fewer.")
        return picked(self._covariance(first.workload, second.workload), first, second, crossed)

    def combination_variance(self, combination: Mapping[Sequence[str], ArrayLike]) -> float:
        """Variance of a linear combination of cells that can be answered: attribute set → an array over its cells."""
        variance = float(self._variances(combination_query(self.domain, combination))[0])
        if not np.isfinite(variance):
            raise PlanError("this plan does not answer this combination; plan for a workload that asks for it.")
        return variance

    def _term_variances(self, workload: Workload) -> Floats:
        """The mean variance of each term's queries, (terms,); infinite where some cannot be answered."""
        return np.asarray(np.add.reduceat(self._variances(workload), workload.starts) / workload.cells)

    def largest_variances(self, workload: Workload) -> Floats:
        """The largest variance of each term's queries, (terms,); infinite where they are too many to look at."""
        if workload.queries > 2**24:
            return np.full(len(workload), np.inf)
        return np.asarray(np.maximum.reduceat(self.variances(workload), workload.starts))

    def _cell_variances(self, positions: tuple[int, ...]) -> Floats:
        """The variances of the cells of a marginal, attributes in the domain's order; infinite if unanswerable."""
        names = [self.domain.names[i] for i in positions]
        shape = [int(self.domain.sizes[i]) for i in positions]
        return self._variances(marginals(self.domain, [names])).reshape(shape)

    def supports(self, asked: Asked) -> bool:
        """Whether a workload, the marginal on some attributes, or one query can be answered without bias."""
        if isinstance(asked, Workload):
            return bool(np.isfinite(self.variances(asked, per="term")).all())
        if isinstance(asked, Mapping):
            return bool(np.isfinite(self._variances(as_workload(self.domain, asked)[0])).all())
        return bool(np.isfinite(self._cell_variances(self._sorted(asked))).all())

    @overload
    def variance(self, asked: Query) -> float: ...

    @overload
    def variance(self, asked: Sequence[str]) -> Floats: ...

    def variance(self, asked: Sequence[str] | Query) -> float | Floats:
        """The variance of every cell of the marginal on some attributes, or of one query.

        Args:
            asked: names of attributes; or a query, attribute → a label, labels, a range or coefficients, such as
                `{"age": rs.between(18, 64), "sex": "Female"}`.

        Returns:
            An array with one axis per attribute, in the order of the names, infinite in groups of people that cannot
            tell; for a query, one number.

        Raises:
            PlanError: the plan, or no group of one that differs by group, can answer it.
        """
        if isinstance(asked, Mapping):
            return float(self.covariance(asked))
        names = self._names(asked)
        positions = self.domain.positions(names)
        variances = self._cell_variances(tuple(sorted(positions)))
        known = np.isfinite(variances)
        if not (known.any() if self.by_names else known.all()):
            who = "no group answers" if self.by_names else "this plan does not answer"
            raise PlanError(f"{who} the marginal on {names!r}; plan for a workload that asks for it.")
        return np.asarray(variances.transpose(np.argsort(np.argsort(positions))))

    def variances(self, workload: Workload, *, per: Per = "query") -> Floats:
        """The variance of every query of a workload, (queries,); infinite where it cannot be answered.

        Args:
            workload: any workload over the plan's domain.
            per: `"query"`; or `"term"` for one number per term (a marginal, or a product of rows): the mean of its
                queries' variances, of workloads with more queries than an array can hold.
        """
        require_same_domain(self.domain, workload)
        if per == "term":
            return self._term_variances(workload)
        if per != "query":
            raise PlanError(f"per={per!r} is not 'query' or 'term'.")
        if workload.queries > _MOST_QUERIES:
            raise PlanError(
                f"the workload has {workload.queries:,} queries, too many for one array; ask for their means with "
                "variances(workload, per='term')."
            )
        return self._variances(workload)

    def total_variance(self, workload: Workload) -> float:
        """The sum of the variances of all queries, each times its weight."""
        return float((workload.weights * workload.cells) @ self.variances(workload, per="term"))

    @overload
    def covariance(self, asked: Query, other: Query | None = None) -> float: ...

    @overload
    def covariance(self, asked: Workload | Sequence[str], other: Asked | None = None) -> Floats: ...

    def covariance(self, asked: Asked, other: Asked | None = None) -> float | Floats:
        """Covariances of all queries of a workload, or between those of two, (queries, queries); of two queries, one.

        Args:
            asked: a workload, the names of a marginal's attributes (its cells run row by row in the order of the
                names), or one query, as for `variance`.
            other: the same; `asked` itself if left out.

        Raises:
            PlanError: a query cannot be answered, or there are too many for a matrix.
        """
        first, order = as_workload(self.domain, asked)
        second, other_order = (first, order) if other is None else as_workload(self.domain, other)
        if first.queries * second.queries > 2**27:
            raise PlanError(
                f"a covariance matrix of {first.queries:,} by {second.queries:,} queries is too large; ask for the "
                "queries you need, or combination_variance for a sum."
            )
        if not (self.supports(first) and self.supports(second)):
            raise PlanError("this plan does not answer all of these queries; plan for a workload that has them.")
        covariances = self._covariance(first, second)
        if isinstance(asked, Mapping) and (other is None or isinstance(other, Mapping)):
            return float(covariances[0, 0])
        return covariances[order][:, other_order]

    def _names(self, attributes: Iterable[str]) -> tuple[str, ...]:
        """Names of attributes, all of them the domain's."""
        try:
            return tuple(self.domain.names[i] for i in self.domain.positions(attributes))
        except (TypeError, ValueError) as problem:
            raise PlanError(f"attributes: {problem}") from None

    def _sorted(self, attributes: Iterable[str]) -> tuple[int, ...]:
        return tuple(sorted(self.domain.positions(self._names(attributes))))
