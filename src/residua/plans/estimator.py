"""Questions, facts and estimates: what may be asked of a plan, what is known from elsewhere, and how answers are read.

One may ask about a workload, the marginal on some attributes, one query, or a linear combination of cells. Facts that
are known are equalities: what some sums of cells are.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from residua.domain import Domain
from residua.errors import DomainError, PlanError, WorkloadError, kind_of, named
from residua.linalg.arrays import Array, Floats, Integers
from residua.linalg.lattice import Group
from residua.machine import csr_array
from residua.plans.cells import Grouping
from residua.plans.tails import check_confidence, mixed_reach, width
from residua.workload import AttributeQueries, MatrixRows, Term, Workload, applied, marginals, product, selected
from residua.workload.files import workload_of_body, workload_to_body

CONTRADICTION = 1e-6  # of the largest fact: facts that differ by less are the same number


def contradiction(what: str) -> PlanError:
    """What is said of facts that cannot all be true."""
    return PlanError(f"facts contradict each other: {what} cannot hold beside the others; correct one of them.")


@dataclass(frozen=True, eq=False)
class Equality:
    """Known sums: all or some of the products of rows of some attributes, or of listed queries.

    Args:
        what: what is known, in words.
        domain: what the table may hold.
        asked: position of an attribute, increasing → its rows; None where queries are listed.
        values: what is known, one axis per attribute, or flat; NaN where nothing is.
        listed: the queries, if they are.
    """

    what: str
    domain: Domain
    asked: Mapping[int, AttributeQueries] | None
    values: Floats
    listed: Workload | None = None

    @cached_property
    def known(self) -> Any:
        """Which of them are known."""
        return ~np.isnan(self.values)

    @property
    def members(self) -> tuple[int, ...]:
        """The attributes, by position."""
        return tuple(self.asked or ())

    @property
    def is_marginal(self) -> bool:
        """Whether it is a marginal, and whole."""
        return self.asked is not None and all(each.plain for each in self.asked.values()) and bool(self.known.all())

    @cached_property
    def queries(self) -> tuple[Workload, Integers]:
        """A workload, and which of its queries are known; of single cells, no more rows than these have."""
        if self.asked is None:
            assert self.listed is not None
            return self.listed, np.flatnonzero(self.known)
        places = np.nonzero(self.known) if self.known.ndim else ()
        rows, at = {}, []
        for (i, each), place in zip(self.asked.items(), places, strict=True):
            used, inverse = np.unique(place, return_inverse=True)
            rows[i] = MatrixRows(each.size, each.sparse()[used].toarray()) if len(used) < each.rows else each
            at.append(inverse)
        names = {self.domain.names[i]: each for i, each in rows.items()}
        shape = [each.rows for each in rows.values()]
        chosen = np.ravel_multi_index(tuple(at), shape) if shape else np.zeros(1, dtype=np.int64)
        return product(self.domain, names, sets=[tuple(names)]), np.asarray(chosen, dtype=np.int64)

    # ---- files

    def to_body(self) -> dict[str, Any]:
        """What is known, as plain values."""
        rows = {self.domain.names[i]: each for i, each in (self.asked or {}).items()}
        workload = self.listed if self.asked is None else product(self.domain, rows, sets=[tuple(rows)])
        at = np.flatnonzero(self.known)
        return {
            "what": self.what,
            "asked": workload_to_body(workload),
            "crossed": self.asked is not None,
            "at": at.tolist(),
            "values": self.values.ravel()[at].tolist(),
        }

    @classmethod
    def of_body(cls, domain: Domain, body: dict[str, Any]) -> Equality:
        """The equality that plain values describe."""
        workload = workload_of_body(domain, body["asked"])
        if workload is None:
            raise ValueError("a fact is of nothing")
        asked = dict(next(iter(workload.terms()))) if body["crossed"] else None
        shape = [workload.queries] if asked is None else [each.rows for each in asked.values()]
        values = np.full(shape, np.nan)
        values.reshape(-1)[body["at"]] = body["values"]
        return cls(str(body["what"]), domain, asked, values, workload)


_MOST_CELLS = 2**27
Query = Mapping[str, Any]  # attribute → a label, labels, a range of labels, or coefficients
Asked = Workload | Sequence[str] | Query
Combination = Mapping[Sequence[str], ArrayLike]
Answerable = tuple[str, ...] | Workload | Combination


def as_workload(domain: Domain, asked: Asked) -> tuple[Workload, Integers | slice]:
    """What is asked as a workload, and which of its queries comes at each place.

    Raises:
        PlanError: over another domain, unknown attributes or labels.
    """
    if isinstance(asked, Workload):
        require_same_domain(domain, asked)
        return asked, slice(None)
    try:
        if isinstance(asked, Mapping):
            return _of_query(domain, asked), slice(None)
        positions = domain.positions(asked)
        names = [domain.names[i] for i in positions]
        shape = [int(domain.sizes[i]) for i in sorted(positions)]
        if math.prod(shape) > _MOST_CELLS:
            many = f"{math.prod(shape):,}"
            raise PlanError(
                f"a covariance matrix of {many} by {many} queries is too large; ask for the queries you need, or "
                "combination_variance for a sum."
            )
        cells = np.arange(int(np.prod(shape))).reshape(shape).transpose(np.argsort(np.argsort(positions)))
        return marginals(domain, [names]), cells.ravel()
    except (DomainError, WorkloadError, TypeError) as problem:
        raise PlanError(f"asked: {problem}") from None


def require_workload(workload: object, *, plain: bool = False) -> Workload:
    """A workload, or of marginals alone, or an error.

    Raises:
        PlanError: it is something else.
    """
    if isinstance(workload, Workload) and (workload.plain or not plain):
        return workload
    what, makers = ("of marginals", "rs.marginals") if plain else ("", "rs.marginals, rs.product or rs.queries")
    raise PlanError(f"workload={kind_of(workload)} is not a workload {what}".rstrip() + f"; make one with {makers}.")


def require_same_domain(domain: Domain, workload: object) -> None:
    """Refuses a workload over another domain, and what is no workload.

    Raises:
        PlanError: it is.
    """
    asked = require_workload(workload).domain
    if asked is not domain and asked != domain:
        raise PlanError("the plan and the workload are over different domains; declare one domain for both.")


def _of_query(domain: Domain, query: Query) -> Workload:
    """One product of rows as a workload of one query."""
    domain.positions(query)  # refuses unknown names in the same words as everywhere
    (family,) = marginals(domain, [tuple(query)]).families
    queries = list(family.queries)
    for name, row in selected(domain, query, argument="query").items():
        queries[domain.position(name)] = MatrixRows(len(row), row[None, :])
    return Workload.of_families(domain, family.lattice, [replace(family, queries=tuple(queries))])


def combined(domain: Domain, combination: Mapping[Any, ArrayLike]) -> dict[tuple[int, ...], Floats]:
    """A linear combination of cells: positions, increasing → coefficients, one axis per attribute.

    Raises:
        PlanError: nothing, or coefficients that do not fit.
    """
    if not isinstance(combination, Mapping):
        raise PlanError(f"combination={named(combination)} is not a mapping; give {{attributes: coefficients}}.")
    if not combination:
        raise PlanError("combination is empty; give coefficients for at least one marginal.")
    parts: dict[tuple[int, ...], Floats] = {}
    for names, given in combination.items():
        positions = domain.positions(names)
        shape = tuple(int(domain.sizes[i]) for i in positions)
        coefficients = _numbers(given)
        if coefficients.shape != shape or not np.isfinite(coefficients).all():
            raise PlanError(f"the coefficients of {tuple(names)!r} must be finite and of shape {shape}.")
        members = tuple(sorted(positions))
        inner = coefficients.transpose(np.argsort(positions))
        parts[members] = parts[members] + inner if members in parts else inner
    return parts


def in_one_table(domain: Domain, parts: Mapping[tuple[int, ...], Floats]) -> tuple[tuple[int, ...], Floats]:
    """A combination as coefficients over the cells of all its attributes together."""
    union = tuple(sorted({i for members in parts for i in members}))
    sizes = [int(domain.sizes[i]) for i in union]
    total = np.zeros(sizes)
    for members, part in parts.items():
        total = total + part.reshape([n if i in members else 1 for i, n in zip(union, sizes, strict=True)])
    return union, total


def combination_query(domain: Domain, combination: Mapping[Sequence[str], ArrayLike]) -> Workload:
    """A linear combination of cells as one query."""
    attributes, total = in_one_table(domain, combined(domain, combination))
    return Workload.of_matrix(domain, attributes, csr_array(total.reshape(1, -1)), ("combination",), np.ones(1))


def _numbers(given: ArrayLike) -> Floats:
    """Numbers as an array; nothing where they are not numbers."""
    try:
        return np.array(given, dtype=np.float64)
    except (TypeError, ValueError):
        return np.empty((0, 0))


# ---- estimates


@dataclass(frozen=True, eq=False)
class Clique:
    """One noisy measurement of a set of attributes: its residual, or rows of coefficients over its cells.

    Args:
        members: the attributes.
        values: what was measured, flat.
        stddev: of the noise.
        rows: the coefficients, (rows, cells); None for the table minus its mean along every axis.
    """

    members: tuple[int, ...]
    values: Floats
    stddev: float
    rows: Floats | None = None


@dataclass(frozen=True, eq=False)
class Estimator(ABC):
    """Estimates from measurements: unbiased, of least variance, and consistent with each other.

    Guarantee: an interval holds the truth with at least the confidence stated; several at once by Šidák's inequality
    for normal noise, by the union bound for Laplace noise.

    Args:
        plan: as it was really measured, the rounding of noise to integers included.
        measurements: what was measured.
        noisy: the noisy integers, (cells,); of plans measured in many groups, (many, cells).
    """

    plan: Any
    measurements: Any
    noisy: Array

    @property
    @abstractmethod
    def summary(self) -> str:
        """What was measured, in words."""

    @abstractmethod
    def marginal(self, positions: tuple[int, ...]) -> Floats:
        """The estimate of a marginal, attributes in the domain's order, (…, n_1, …, n_k).

        What no measurement sees counts as zero: the plan says whether cells, or queries of them, are unbiased.
        """

    def of_term(self, term: Term) -> Floats:
        """The estimates of a table of queries, (…, rows_1, …, rows_k), from the marginal on its attributes."""
        return applied(term, self.marginal(tuple(i for i, _ in term)), first=self.noisy.ndim - 1)

    def estimates(self, workload: Workload) -> Floats:
        """The estimate of every query, whether it can be answered or not, (…, queries)."""
        many = self.noisy.shape[:-1]
        if workload.in_parts:
            estimates = np.empty((*many, workload.queries))
            for part, places in workload.placed():
                estimates[..., places] = self.estimates(part)
            return estimates
        if not workload.tabular:
            return np.asarray(self.marginal(workload.attributes).reshape(*many, -1) @ workload.matrix.T)
        tables = [self.of_term(term).reshape(*many, -1) for term in workload.terms()]
        return tables[0] if len(tables) == 1 else np.concatenate(tables, axis=-1)

    def answers(self, workload: Workload) -> tuple[Floats, Floats]:
        """Estimates and variances of every query of a workload, (queries,) each.

        Raises:
            PlanError: a query cannot be answered.
        """
        variances = self.plan.variances(workload)
        if not np.isfinite(variances).all():
            raise PlanError("the release does not answer all these queries; plan for a workload that asks for them.")
        return self.estimates(workload), variances

    def combination(self, combination: Combination) -> tuple[float, float]:
        """Estimate and variance of a linear combination of cells.

        Raises:
            PlanError: it cannot be answered.
        """
        variance = float(self.plan.combination_variance(combination))
        parts = combined(self.plan.domain, combination)
        return sum(float((self.marginal(members) * part).sum()) for members, part in parts.items()), variance

    def as_query(self, combination: Combination) -> tuple[float, float]:
        """The same, of the combination as one query over the cells of all its attributes together."""
        estimate, variance = self.answers(combination_query(self.plan.domain, combination))
        return float(estimate[0]), float(variance[0])

    def conditioned(self, equalities: Sequence[Equality]) -> tuple[Estimator, Sequence[Equality]]:
        """Estimates beside those facts whose structure needs no matrix, and the facts that are left; see `conditional`.

        Raises:
            PlanError: they contradict each other.
        """
        return self, equalities

    def whitened(self) -> tuple[Grouping, Floats, Floats]:
        """Cells, rows and measurements whose noise is independent with variance 1.

        Raises:
            PlanError: too many cells, or noise that is not normal.
        """
        if not self.plan.noise.gaussian:
            raise PlanError(f"{self.plan!r} has Laplace noise; give releases with Gaussian noise.")
        return (*self.plan.over_cells(), self._whitened())

    def _whitened(self) -> Floats:
        """What was measured along the rows of `plan.over_cells`, with normal noise of variance 1, (rows,)."""
        raise NotImplementedError

    def cliques(self) -> list[Clique]:
        """What was measured of each set of attributes, each with its own independent normal noise.

        Raises:
            PlanError: measurements that are not of this kind.
        """
        raise PlanError("what was measured has no independent parts with normal noise, each of one set of attributes.")

    def all_marginals(self) -> Iterator[tuple[Group, slice, Floats]]:
        """Every marginal of a family of sets in batches of equal shape, streamed: (group, which tables, estimates).

        Raises:
            PlanError: the form, or its strategies, do not rebuild tables in batches.
        """
        raise PlanError("these measurements are not read in batches; read the tables with release.tables or estimates.")

    def running(self, position: int, q: float) -> tuple[Floats, Floats] | None:
        """Estimates and variances of `C_j − q N` for the running sums C of a long attribute, N the last, (n,) each.

        None where they are not read without a matrix.
        """
        return None

    def widths(self, asked: Answerable, confidence: float, together: float) -> float | Floats:
        """How many standard deviations intervals reach: one figure for all, or one for each number, flat.

        NaN for a biased plan, whose intervals would not hold the truth.
        """
        if self.plan.noise.gaussian:
            reach = width(confidence, together)
            return float(np.nan) if self.plan.bias else reach
        check_confidence(confidence)
        return self._reaches(asked, (1.0 - confidence) / together)

    def _reaches(self, asked: Answerable, chance: float) -> float | Floats:
        """How many standard deviations errors stray at most, but for this chance; here of any sums of Laplace noise."""
        count = asked.queries if isinstance(asked, Workload) else 1
        if isinstance(asked, tuple):
            count = self.plan.domain.cells(asked)
        return mixed_reach(np.ones(count), chance)
