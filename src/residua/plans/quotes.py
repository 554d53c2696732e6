"""What numbers people quote need of a plan: covariances place by place, and how far combinations of noise stray.

Before any data, `plan.assuming(10_000).mean("age", by=["sex"])` takes the numbers from an assumed distribution and
their errors from the plan: the intervals are those around an estimate that happens to be the truth.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import ArrayLike

from residua.domain import Domain, Label
from residua.errors import PlanError, named, nearest
from residua.language import mark, say
from residua.linalg.arrays import Floats, kronecker
from residua.machine import csr_array
from residua.plans.tails import width
from residua.published.table import what_is_counted
from residua.quoting import Answering, Quotable, Term
from residua.quoting.terms import titles
from residua.workload import Workload

Assumed = Mapping[str | tuple[str, ...], Mapping[Label, float] | ArrayLike]
_MOST_ENTRIES = 2**26
_POINTS = 17  # of an interpolated width, which changes by a tenth at most from end to end


@dataclass(frozen=True, eq=False)
class PlanAnswers:
    """How the estimates of a measured plan err: what `residua.quoting.Answering` asks, but for the estimates.

    Args:
        plan: the plan as it is measured.
        reading: how estimates are read off it; None if noise is normal, and nothing was measured yet.
    """

    plan: Any
    estimator: Any
    who: ClassVar[str] = "plan"  # what cannot answer, in an error

    @property
    def domain(self) -> Domain:
        """What the table may hold."""
        return cast("Domain", self.plan.domain)

    @property
    def note(self) -> str:
        """Where a plan was asked for with a bias, intervals would not hold the truth."""
        return mark("answers are biased, as the plan was asked for with a bias") if self.plan.bias else ""

    @property
    def remark(self) -> str:
        """What is counted, where that is not every record."""
        return what_is_counted(self.plan.unit)

    @property
    def lacks(self) -> float:
        """Nothing: no record was left out yet."""
        return 0.0

    def require(self, term: Term) -> None:
        """Refuses what was not measured, and says what was.

        Raises:
            PlanError: it was not.
        """
        if np.isfinite(self.plan.variances(term.workload)).all():
            return
        asked = " × ".join(term.attributes) or "the total"
        tables = None if self.plan.workload is None else self.plan.workload.tables
        sets = () if tables is None else tables.sets
        there = "; ".join(" × ".join(names) or "the total" for names in sets[:6]) + ("; …" if len(sets) > 6 else "")
        known = f" (asked for were: {there})" if there else ""
        raise PlanError(
            f"this {self.who} does not answer what is needed of {asked}{known}; plan for a workload that asks for it, "
            f"such as rs.marginals(domain, [{term.attributes!r}])."
        )

    def covariances(self, first: Term, second: Term, crossed: tuple[int, ...] = ()) -> Floats | None:
        """Place by place, exact; None for a biased plan."""
        return cast("Floats | None", None if self.plan.bias else self.plan._paired(first, second, crossed))

    def running(self, position: int, q: float) -> tuple[Floats, Floats] | None:
        """None: nothing was measured."""
        return None

    def widths(
        self, first: Term, second: Term | None, factors: Floats, confidence: float, together: float
    ) -> float | Floats:
        """One figure for normal noise; for Laplace noise that of each combination."""
        if self.plan.noise.gaussian:
            return width(confidence, together)
        one, other = _one_of_each(first, second) if self.plan.alike else (first, second)
        if other is not None and factors.size > _POINTS * math.prod(one.shape):
            return self._interpolated(one, other, factors, confidence, together)
        each = self._each(one, other, factors, confidence, together)
        return each if second is not None else np.broadcast_to(each, first.shape)

    def _each(self, first: Term, second: Term | None, factors: Floats, confidence: float, together: float) -> Floats:
        """Of every combination by itself, (…, one axis per attribute)."""
        names = tuple(i for i in first.rows if not _all_values(i, first, second))
        cells = math.prod(int(self.plan.domain.sizes[i]) for i in names)
        shape = np.broadcast_shapes(first.shape, factors.shape, first.shape if second is None else second.shape)
        if math.prod(shape) * cells > _MOST_ENTRIES:
            raise PlanError(f"{math.prod(shape):,} intervals over {cells:,} cells are too many; ask for fewer groups.")
        rows = _combinations(first, second, factors).reshape(-1, cells)
        labels = ("",) * len(rows)
        workload = Workload.of_matrix(self.plan.domain, names, csr_array(rows), labels, np.ones(len(rows)))
        return np.asarray(self.estimator.widths(workload, confidence, together), dtype=np.float64).reshape(shape)

    def _interpolated(self, one: Term, other: Term, factors: Floats, confidence: float, together: float) -> Floats:
        """Many factors of few combinations: of each a smooth function of the factor, read between points."""
        above, below = (float(self.plan._paired(term, term, ()).max()) for term in (one, other))
        scale = math.sqrt(above / below) if above > 0 and below > 0 else 1.0
        angles = np.arctan(factors / scale)
        low, high = float(angles.min()), float(angles.max())
        at = (np.tan(np.linspace(low, high, _POINTS)) * scale).reshape(-1, *([1] * len(one.shape)))
        shape = factors.shape[factors.ndim - len(one.shape) :]
        known = np.broadcast_to(self._each(one, other, at, confidence, together), (_POINTS, *shape))
        steps = (angles - low) / max(high - low, 1e-300) * (_POINTS - 1)
        before = np.minimum(steps.astype(np.int64), _POINTS - 2)
        place = tuple(np.indices(shape))
        rise = known[(before + 1, *place)] - known[(before, *place)]
        return np.asarray(known[(before, *place)] + (steps - before) * rise)


@dataclass(frozen=True, eq=False)
class ReleaseAnswers(PlanAnswers):
    """How a release answers what is quoted from it: unbiased estimates, with the exact covariances of its noise.

    Args:
        remark: what its numbers count, in words, where that is not every record, and how much that leaves out.
        lacks: which share of itself each number lacks because of that; infinite where that is unknown.
    """

    remark: str = ""
    lacks: float = 0.0
    who: ClassVar[str] = "release"

    def estimates(self, term: Term) -> Floats:
        """The best unbiased estimates.

        Raises:
            PlanError: what is needed was not measured.
        """
        self.require(term)
        return cast("Floats", self.estimator.answers(term.workload)[0].reshape(term.shape))

    def running(self, position: int, q: float) -> tuple[Floats, Floats] | None:
        """Estimates and variances of the counts at or below each value, less q times all; None for a biased plan."""
        return cast("tuple[Floats, Floats] | None", None if self.plan.bias else self.estimator.running(position, q))


def _one_of_each(first: Term, second: Term | None) -> tuple[Term, Term | None]:
    """One row of every attribute that is told apart by value: where values are measured alike, one stands for all."""
    single = {
        i
        for i, rows in first.rows.items()
        if rows is not None
        and np.isin(rows, (0, 1)).all()
        and (rows.sum(axis=1) == 1).all()
        and (second is None or (others := second.rows[i]) is None or np.array_equal(others, rows))
    }

    def started(term: Term) -> Term:
        rows = {i: part if part is None or i not in single else part[:1] for i, part in term.rows.items()}
        return Term(term.domain, rows)

    return started(first), None if second is None else started(second)


def _all_values(position: int, first: Term, second: Term | None) -> bool:
    return first.rows[position] is None and (second is None or second.rows[position] is None)


def _combinations(first: Term, second: Term | None, factors: Floats) -> Floats:
    """The coefficients of `first − factors · second`, (…, one axis per attribute, cells)."""
    kept = [i for i in first.rows if not _all_values(i, first, second)]
    coefficients = _coefficients(first, kept)
    if second is None:
        return coefficients
    return np.asarray(coefficients - factors[..., None] * _coefficients(second, kept))


def _coefficients(term: Term, kept: Sequence[int]) -> Floats:
    """The coefficient of every cell of some attributes in every product of rows, (rows_1, …, rows_k, cells)."""
    sizes = term.domain.sizes
    rows = ((term.rows[i], np.ones((1, int(sizes[i])))) for i in kept)
    return kronecker(total if own is None else own for own, total in rows).reshape(*term.shape, -1)


def picked(covariances: Floats, first: Term, second: Term, crossed: tuple[int, ...]) -> Floats:
    """Of covariances of all queries of two terms, (queries, queries), those that are asked for place by place."""
    matched = [i for i in first.rows if i not in crossed]
    order = list(first.rows)
    one = np.arange(math.prod(first.shape)).reshape(first.shape)
    two = np.arange(math.prod(second.shape)).reshape(second.shape)
    moved = [order.index(i) for i in (*matched, *crossed)]
    lead = len(matched)
    one, two = (part.transpose(moved).reshape(*(part.shape[k] for k in moved[:lead]), -1) for part in (one, two))
    return covariances[one[..., :, None], two[..., None, :]] if crossed else covariances[one[..., 0], two[..., 0]]


def split(covariances: Floats, first: Term, second: Term, crossed: tuple[int, ...]) -> Floats:
    """Covariances with one axis per attribute, of a crossed one all pairs of rows, with those pairs as the last two."""
    if not crossed:
        return covariances
    shape: list[int] = []
    place: dict[int, int] = {}
    for i, (r, s) in zip(first.rows, zip(first.shape, second.shape, strict=True), strict=True):
        place[i] = len(shape)
        shape += [r, s] if i in crossed else [max(r, s)]
    order = [place[i] for i in first.rows if i not in crossed]
    moved = covariances.reshape(shape).transpose(*order, *(place[i] for i in crossed), *(place[i] + 1 for i in crossed))
    return moved.reshape(*moved.shape[: len(order)], math.prod(shape[place[i]] for i in crossed), -1)


# ---- before any data


class Forecasts(Quotable):
    """The quoted numbers of a plan: what they would be, and how accurate, for an assumed distribution."""

    domain: Domain

    def assuming(self, records: float, distribution: Assumed | None = None) -> AssumedAnswers:
        """What numbers quoted from a release of this plan would be like: `plan.assuming(10_000).mean("age")`.

        Args:
            records: how many records are assumed.
            distribution: attribute → {label: weight} or an array of weights, one per value; a tuple of attributes → an
                array with one axis each. Attributes that are not named are spread evenly; those named apart are
                independent.

        Raises:
            PlanError: not a number of records, or weights that do not fit.
        """
        if isinstance(records, bool) or not isinstance(records, int | float | np.number) or not 0 < records < math.inf:
            raise PlanError(f"records={named(records)} is not a positive number; say how many records are assumed.")
        plan: Any = self
        measurements = None if plan.noise.gaussian else plan.measurements
        estimator = (
            None if measurements is None else plan.estimator(measurements, np.zeros(measurements.cells, dtype=np.int64))
        )
        return AssumedAnswers(plan, estimator, float(records), tuple(_factors(self.domain, distribution or {})))

    def _answering(self) -> Answering:
        raise PlanError(
            "a plan has no data; say how many records to assume: plan.assuming(10_000) has the numbers of that many."
        )


@dataclass(frozen=True, eq=False)
class AssumedAnswers(PlanAnswers, Quotable):
    """An assumed distribution and a plan's errors. Made by `plan.assuming`.

    Args:
        plan, reading: as of `PlanAnswers`.
        records: how many are assumed.
        factors: independent parts of the distribution: the attributes of each, and weights that add up to 1.
    """

    records: float
    factors: tuple[tuple[tuple[int, ...], Floats], ...]

    def _answering(self) -> Answering:
        return self

    @property
    def remark(self) -> str:
        """What is assumed, and what is counted."""
        names = self.domain.names
        given = [names[i] for members, weights in self.factors if np.ptp(weights) > 0 for i in members]
        even = mark("before any data: {records} records are assumed, spread evenly")
        uneven = mark("before any data: {records} records are assumed, spread evenly but for {names}")
        assumed = say(uneven if given else even, records=float(self.records), names=titles(self.domain, given))
        return "; ".join(filter(None, (assumed, super().remark)))

    def estimates(self, term: Term) -> Floats:
        """The assumed counts."""
        self.require(term)
        counts = np.full(term.shape, self.records)
        for members, weights in self.factors:
            part, axes = weights, []
            for i in members:
                rows = term.rows.get(i)
                part = part.sum(axis=0) if rows is None else np.moveaxis(np.tensordot(rows, part, axes=(1, 0)), 0, -1)
                axes += [] if rows is None else [i]
            counts = counts * _spread(part, axes, list(term.rows))
        return counts


def _spread(part: Floats, axes: Sequence[int], order: Sequence[int]) -> Floats:
    """A part over some attributes, in the order of a term's."""
    arranged = np.transpose(part, np.argsort(axes)) if axes else part
    sizes = dict(zip(sorted(axes), arranged.shape, strict=True))
    return arranged.reshape([sizes.get(i, 1) for i in order])


def _factors(domain: Domain, given: Assumed) -> Iterator[tuple[tuple[int, ...], Floats]]:
    """Independent parts of the assumed distribution, each adding up to 1; the rest is even."""
    if not isinstance(given, Mapping):
        raise PlanError(f"distribution={named(given)} is not a mapping from attributes to weights.")
    seen: set[int] = set()
    for names, weights in given.items():
        members = domain.positions((names,) if isinstance(names, str) else names)
        if seen & set(members):
            raise PlanError(f"distribution names an attribute of {names!r} twice; give each once.")
        seen |= set(members)
        yield members, _weights(domain, names, members, weights)
    for i, size in enumerate(domain.sizes.tolist()):
        if i not in seen:
            yield (i,), np.full(size, 1.0 / size)


def _weights(domain: Domain, names: Any, members: tuple[int, ...], given: Any) -> Floats:
    shape = tuple(int(domain.sizes[i]) for i in members)
    if isinstance(given, Mapping) and len(members) == 1:
        labels = domain[domain.names[members[0]]].labels
        stray = [label for label in given if label not in labels]
        if stray:
            shown, remedy = nearest(stray[0], labels)
            raise PlanError(f"distribution: a label{shown} is no value of its attribute; {remedy}")
        given = [given.get(label, 0.0) for label in labels]
    try:
        weights = np.array(given, dtype=np.float64)
    except (TypeError, ValueError):
        weights = np.empty(0)
    if weights.shape != shape or not np.isfinite(weights).all() or (weights < 0).any() or not weights.sum() > 0:
        raise PlanError(f"distribution: the weights of {names!r} must be not negative, not all 0, of shape {shape}.")
    return np.asarray(weights / weights.sum())
