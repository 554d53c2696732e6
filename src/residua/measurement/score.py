"""`rs.score`: how far public tables are from the data, one number each, with exact noise; a second door to data."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np

from residua.bars import with_bar
from residua.domain import Domain
from residua.errors import LedgerError, PlanError, PrivacyError
from residua.linalg.arrays import Floats
from residua.measurement.ledger import Entry, Ledger
from residua.measurement.measure import Progress, checked_data, counter_of, step_of
from residua.measurement.memory import secure_memory
from residua.measurement.noisy import noisy
from residua.measurement.rehearsal import rehearse
from residua.measurement.score_blocks import GRID, ScoreBlocks, compile_scores, records_moved
from residua.measurement.told import told_of_debit
from residua.plans.noise import LARGEST_SCALE, NORMAL, SMALLEST_SCALE
from residua.plans.tails import check_confidence
from residua.privacy import Guarantee, PureDP, Unit
from residua.privacy.exact import root_up
from residua.source import Source, source_of
from residua.source.bound import KEY_BYTES, bound_of, require_agreement

Pay = Callable[[str], tuple[Entry, Ledger]]


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
    blocks, order = scores_within(domain, models, budget, account.unit)
    cost = NORMAL.promised(blocks.cost(account.unit), budget)

    def pay(fingerprint: str) -> tuple[Entry, Ledger]:
        entry = account.debit(cost, purpose=purpose, dataset=fingerprint, whose=data.options.whose)
        return entry, account

    told = None if isinstance(progress, bool) else progress
    return scored(domain, blocks, order, data, account.unit, pay, told)


def scores_within(
    domain: Domain, models: Mapping[Sequence[str], Any], budget: Guarantee, unit: Unit
) -> tuple[ScoreBlocks, list[tuple[int, ...]]]:
    """Scores with the least noise that a budget allows.

    Raises:
        PlanError: models that do not fit.
        PrivacyError: a budget that allows no normal noise, or none that can be sampled.
    """
    if not isinstance(domain, Domain):
        raise PlanError(f"domain={domain!r} is not a domain; give the one that the data is declared by.")
    if not isinstance(budget, Guarantee) or isinstance(budget, PureDP):
        raise PrivacyError(f"budget={budget!r} has no normal noise; give rs.ZCDP, rs.GDP or rs.ApproxDP.")
    if not isinstance(models, Mapping) or not models:
        raise PlanError("models is empty or no mapping; give attributes → a table of counts that is public.")
    allowed = budget.pcost_allowed()
    if allowed <= 0:
        raise PrivacyError(f"budget={budget!r} allows nothing; give more.")
    # One step more than the root: the price is rounded up, too.
    scale = math.nextafter(root_up(Fraction(len(models) * (GRID * records_moved(unit)) ** 2) / allowed), math.inf)
    if not SMALLEST_SCALE <= scale <= LARGEST_SCALE:
        raise PrivacyError(f"budget={budget!r} needs noise that cannot be sampled exactly; give another.")
    blocks, order = compile_scores(domain, models, 1.0)
    return ScoreBlocks(blocks.layout, blocks.models, scale), order


def scored(
    domain: Domain,
    blocks: ScoreBlocks,
    order: Sequence[tuple[int, ...]],
    data: Source,
    unit: Unit,
    pay: Pay,
    progress: Progress | None = None,
) -> Scores:
    """Check, pay, count, add noise, forget: scores instead of tables, through the same steps as `rs.measure`."""
    require_agreement(data.options, unit, domain)
    trial = bound_of(unit, domain, secrets.token_bytes(KEY_BYTES))
    with data.snapshot() as still:
        checked = checked_data(still, domain, blocks.most_records, progress, trial)
        try:
            secure_memory(blocks)
            rehearse(blocks, still.rows_hint())
            entry, ledger = pay(checked.fingerprint)
            if not isinstance(entry, Entry):
                raise LedgerError("no debit was made; nothing was measured.")
            bound = None if trial is None else bound_of(unit, domain, ledger.choosing_key)
            counter = counter_of(checked, progress, lambda tallies: None, bound)
            steps = told_of_debit(lambda: noisy(blocks, counter, step_of("adding noise", progress)), entry)
        finally:
            checked.forget()
    names = tuple(tuple(domain.names[i] for i in members) for members in order)
    stddev = math.sqrt(NORMAL.variance(blocks.scale)) / GRID
    return Scores(names, (steps + blocks.totals) / GRID, stddev, entry.sequence, entry.digest)
