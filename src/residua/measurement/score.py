"""`rs.score`: how far public tables are from the data, one number each, with exact noise; a second door to data.

The score of a table A is `‖m_A − μ_A‖₁`, with m the true counts and μ a table that is public already. μ is rounded to
whole numbers of 2^-16 first: `μ = M / 2^16`, so that `2^16` scores are integers, and what one record does to them is
exact, too. One record added or removed changes one cell of m by 1, hence each score by at most 1 (the triangle
inequality); k records of a person by at most k, wherever they are; a record that is replaced by at most 2. So n scores
move by at most `Δ √n` in all, and with normal noise of deviation σ they cost `n Δ² / σ²`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from statistics import NormalDist
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from residua.domain import Domain
from residua.errors import PlanError, PrivacyError, VerificationError, named
from residua.linalg.arrays import Floats, Integers
from residua.linalg.lattice import Layout, batches, layout_of_sets
from residua.measurement.job import Job, Progress, paying
from residua.measurement.ledger import Ledger
from residua.plans.measurements import Batch, Measurements
from residua.plans.noise import LARGEST_SCALE, NORMAL, SMALLEST_SCALE, Noise
from residua.plans.tails import check_confidence
from residua.plans.verifier import WORD, Profile, even, require_scales, rounded_up
from residua.privacy import Guarantee, PureDP, Unit
from residua.privacy.exact import root_up
from residua.showing import with_bar
from residua.source import source_of


@dataclass(frozen=True, eq=False, repr=False)
class Scores:
    """How far tables are from what models say of them, `‖m − μ‖₁` in counts, with noise. Made by `rs.score`.

    Guarantee: each score is unbiased, with normal noise of deviation `stddev` (rounding included), independent of all
    others. Holds no true count and may be published.

    Args:
        attributes: the tables.
        values: their scores, (tables,).
        stddev: of the noise of each.
        sequence: the ledger's debit.
        digest: of that line of the ledger.
    """

    attributes: tuple[tuple[str, ...], ...]
    values: Floats
    stddev: float
    sequence: int
    digest: str

    def __post_init__(self) -> None:
        self.values.setflags(write=False)

    def upper(self, confidence: float = 0.95) -> Floats:
        """What each model is off by at most, with this confidence, each by itself, (tables,)."""
        check_confidence(confidence)
        return np.asarray(np.maximum(self.values + NormalDist().inv_cdf(confidence) * self.stddev, 0.0))

    def __len__(self) -> int:
        return len(self.attributes)

    def __repr__(self) -> str:
        return f"Scores({len(self)} tables, stddev={self.stddev:.4g})"


@with_bar("scoring")
def score(
    domain: Domain,
    models: Mapping[Sequence[str], Any],
    source: Any,
    budget: Guarantee,
    *,
    ledger: Ledger | str | Path,
    purpose: str = "scores",
    progress: Progress | bool | None = None,
) -> Scores:
    """Measures how far public tables are from the data: `‖m_A − μ_A‖₁ + N(0, σ²)` for any number of tables.

    Whether a model is good enough, or which of very many tables it fits worst, for a share of what measuring those
    tables would cost: a score is one number, whatever the size of its table. As with every measurement, integers and
    their price are checked before the data, the ledger is debited before it is counted, and noise is exact.

    Guarantee: the scores satisfy the budget for the ledger's unit, whatever the models: n scores cost pcost `n Δ² / σ²`
    with Δ = 1 for one record added or removed, k for a person with at most k records, 2 for a record replaced. The
    models must be public: they are not protected, and what they hold may be read off.

    Args:
        domain: what the data may hold.
        models: attributes → a table of counts, such as `estimated.estimates(attributes)`.
        source: the data, as for `rs.measure`.
        budget: what to spend on all scores together: `rs.ZCDP`, `rs.GDP` or `rs.ApproxDP`.
        ledger: the dataset's ledger, or the path of one that exists.
        purpose: what the ledger notes.
        progress: `True` draws a bar; or a function, called with the step, how much is done, and of how much.

    Raises:
        PlanError: no models, or tables that do not fit the domain.
        PrivacyError, LedgerError, SourceError: as for `rs.measure`; nothing is spent.

    Example:
        >>> import residua as rs, pyarrow as pa, tempfile
        >>> domain = rs.Domain({"sex": ["F", "M"], "answer": ["no", "yes"]})
        >>> data = pa.table({"sex": ["F", "M"] * 500, "answer": ["no", "yes"] * 500})
        >>> guess = {("sex", "answer"): [[250, 250], [250, 250]]}            # independence: off by 1000
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     ledger = rs.Ledger(f"{folder}/survey.ledger", rs.ZCDP(rho=0.5))
        ...     scores = rs.score(domain, guess, data, rs.ZCDP(rho=0.02), ledger=ledger)
        >>> round(scores.stddev, 2), bool(abs(scores.values[0] - 1000) < 50)
        (5.0, True)
    """
    account = ledger if isinstance(ledger, Ledger) else Ledger(ledger)
    data = source_of(source)
    measurements = scores_within(domain, models, budget, account.unit)
    pay = paying(account, NORMAL.promised(measurements.cost(account.unit), budget), purpose, data)
    steps = None if isinstance(progress, bool) else progress
    return scored(Job(measurements, domain, account.unit, data, pay, steps))


def scores_within(
    domain: Domain, models: Mapping[Sequence[str], Any], budget: Guarantee, unit: Unit
) -> ScoreMeasurements:
    """Scores with the least noise that a budget allows.

    Raises:
        PlanError: models that do not fit.
        PrivacyError: a budget that allows no normal noise, or none that can be sampled.
    """
    if not isinstance(domain, Domain):
        raise PlanError(f"domain={named(domain)} is not a domain; give the one that the data is declared by.")
    if not isinstance(budget, Guarantee) or isinstance(budget, PureDP):
        raise PrivacyError(f"budget={named(budget)} has no normal noise; give rs.ZCDP, rs.GDP or rs.ApproxDP.")
    measurements = compile_scores(domain, models, 1.0)
    allowed = budget.pcost_allowed()
    if allowed <= 0:
        raise PrivacyError(f"budget={budget!r} allows nothing; give more.")
    # One step more than the root: the price is rounded up, too.
    scale = math.nextafter(root_up(Fraction(len(models) * (GRID * records_moved(unit)) ** 2) / allowed), math.inf)
    if not SMALLEST_SCALE <= scale <= LARGEST_SCALE:
        raise PrivacyError(f"budget={budget!r} needs noise that cannot be sampled exactly; give another.")
    return replace(measurements, scale=scale)


def scored(job: Job) -> Scores:
    """Check, pay, count, add noise, forget: scores instead of tables, through the same steps as `rs.measure`."""
    measurements = cast("ScoreMeasurements", job.measurements)
    steps, _, entry, _ = job.measured()
    names = tuple(tuple(job.domain.names[i] for i in members) for members in measurements.order)
    stddev = math.sqrt(NORMAL.variance(measurements.scale)) / GRID
    return Scores(names, (steps + measurements.totals) / GRID, stddev, entry.sequence, entry.digest)


GRID = 2**16  # steps of one count
_BATCH_CELLS = 1_000_000


def records_moved(unit: Unit) -> int:
    """By how much one table changes at most, in absolute values added up, for this unit of protection."""
    contribution = unit.contribution
    return 2 if contribution is None else contribution.records


@dataclass(frozen=True, eq=False)
class ScoreMeasurements(Measurements):
    """Integer scores of tables: `Σ |2^16 m − M| − Σ M`, which is 0 where there are no records.

    Args:
        layout: the tables, each scored once.
        models: M, in this layout, not negative, (cells,).
        scale: of the noise of each score before rounding, in steps of the grid.
    """

    layout: Layout
    models: Integers
    scale: float

    @property
    def noise(self) -> Noise:
        """Normal."""
        return NORMAL

    @property
    def cells(self) -> int:
        """One integer per table."""
        return sum(len(group.numbers) for group in self.layout)

    @property
    def counted(self) -> Layout:
        """The tables themselves."""
        return self.layout

    @property
    def order(self) -> list[tuple[int, ...]]:
        """The tables, in the order of their scores."""
        return [tuple(row) for group in self.layout for row in group.members.tolist()]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Which models, with which noise."""
        return {"models": self.models, "scale": np.array([self.scale])}

    # ---- price

    def price(self, unit: Unit) -> Fraction:
        """`n Δ² / σ²`, in fractions, rounded up: limits on a person's records make scores no cheaper."""
        self.check()
        return rounded_up(records_moved(unit) ** 2 * self.added([self]))

    def check(self) -> None:
        """Refuses models that are not whole numbers of the grid, and noise that cannot be sampled."""
        require_scales(np.array([self.scale]))
        if self.models.dtype != np.int64 or self.models.shape != (self.layout.cells,):
            raise VerificationError("the models are not whole numbers, one per cell; this is a defect.")
        if len(self.models) and (int(self.models.min()) < 0 or self.most_records < 1):
            raise VerificationError("a model is negative, or too large for 64 bits; give tables of counts.")

    @classmethod
    def added(cls, several: Sequence[ScoreMeasurements]) -> Fraction:
        """A record changes every score by one count at most."""
        return sum((each.cells * (GRID / Fraction(each.scale)) ** 2 for each in several), Fraction(0))

    @classmethod
    def replaced(cls, several: Sequence[ScoreMeasurements]) -> Fraction:
        """By two counts."""
        return 4 * cls.added(several)

    def profile(self) -> Profile:
        """The same in every cell."""
        return even(self.added([self]))

    @property
    def most_records(self) -> int:
        """How many records may be counted before a score could leave 64 bits: `2^16 N + Σ M` is the most it can be."""
        largest = max((int(total) for group in self.layout for total in self._totals(group)), default=0)
        return WORD // GRID - 2 * largest // GRID - 2

    def _totals(self, group: Any) -> Integers:
        """`Σ M` of each table of a group; models are below 2^40 counts each, which `compile_scores` sees to."""
        return np.asarray(group.view(self.models).reshape(len(group.numbers), -1).sum(axis=1))

    @property
    def totals(self) -> Integers:
        """`Σ M` of each table, in the order of the scores, (tables,)."""
        parts = [self._totals(group) for group in self.layout]
        return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)

    # ---- measuring

    def batches(self) -> Sequence[Batch]:
        """Tables of one shape, about a million cells at a time."""
        parts, start = [], 0
        for group in self.layout:
            for part in batches(len(group.numbers), group.cells, _BATCH_CELLS):
                count = part.stop - part.start
                parts.append(Batch(start, np.full(count, self.scale), (group, part)))
                start += count
        return parts

    def integers(self, batch: Batch, tables: Integers) -> Integers:
        """The scores of a batch, exactly, (tables, 1)."""
        group, part = batch.work
        true = group.view(tables)[part].reshape(part.stop - part.start, -1)
        model = group.view(self.models)[part].reshape(true.shape)
        apart = true * GRID
        apart -= model
        np.abs(apart, out=apart)
        apart -= model
        return np.asarray(apart.sum(axis=1, keepdims=True))


def compile_scores(domain: Domain, models: Mapping[Sequence[str], Any], scale: float) -> ScoreMeasurements:
    """Scores of tables beside models of them.

    Args:
        domain: what the data may hold.
        models: attributes → a table of counts, not negative; the order of attributes is the order of its axes.
        scale: of the noise of each score, in counts.

    Raises:
        PlanError: no models, or a table of another shape, not finite or negative.
    """
    if domain.amounts:
        raise PlanError("domain has amounts, of which tables have no scores; leave them out.")
    if not isinstance(models, Mapping) or not models:
        raise PlanError("models is empty or no mapping; give attributes → a table of counts that is public.")
    tables: dict[tuple[int, ...], NDArray[np.float64]] = {}
    for names, given in models.items():
        positions = list(domain.positions(domain.listed(names)))
        members = tuple(sorted(positions))
        table = np.asarray(given, dtype=np.float64)
        if table.shape != tuple(int(domain.sizes[i]) for i in positions):
            raise PlanError(f"the model of {tuple(names)!r} has shape {table.shape}; give one cell per value of each.")
        if not np.isfinite(table).all() or (table < 0).any() or float(table.sum()) >= 2.0**40:
            raise PlanError(f"the model of {tuple(names)!r} holds no counts: each must be finite and not negative.")
        if members in tables:
            raise PlanError(f"there are two models of {tuple(names)!r}; give one.")
        tables[members] = table.transpose(np.argsort(positions))
    layout = layout_of_sets(tables, domain.sizes)
    flat = np.zeros(layout.cells, dtype=np.int64)
    measurements = ScoreMeasurements(layout, flat, float(scale) * GRID)
    starts = (group.start + group.cells * i for group in layout for i in range(len(group.numbers)))
    for members, start in zip(measurements.order, starts, strict=True):
        table = tables[members]
        flat[start : start + math.prod(table.shape)] = np.rint(table * GRID).astype(np.int64).ravel()
    flat.setflags(write=False)
    return measurements
