"""How many records people have: with noise, to choose a bound by; and exactly, for the curator's eyes."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from residua.domain import Domain
from residua.errors import PrivacyError, named
from residua.linalg.arrays import Floats, Integers
from residua.linalg.lattice import Layout, closure, layout_of
from residua.measurement.job import (
    Progress,
    account_of,
    checked_data,
    paying,
    require_agreement,
    step_of,
    told_of_debit,
    without_records,
)
from residua.measurement.ledger import Ledger
from residua.measurement.ledger_entries import allowance, currency_of
from residua.noise import rounded_laplace, rounded_normal
from residua.plans.noise import LAPLACE, LARGEST_SCALE, NORMAL, SMALLEST_SCALE, Noise
from residua.plans.tails import reaches, width
from residua.privacy import Guarantee, Person
from residua.privacy.costs import record_count
from residua.privacy.exact import root_up, round_up
from residua.release.base import Estimate
from residua.source import source_of
from residua.source.bound import KEY_BYTES, MOST_TOLD, Loss, PersonBound, bound_of
from residua.source.counting import Counted

MOST = 1024
_ANY = Person(records=1)  # how many records of each person count does not matter here
_EXACT = 8  # up to so many records, each number has a count of its own
_SEEN = 5.5  # standard deviations: of normal noise alone not one look in a million shows persons with many records


@dataclass(frozen=True, eq=False, repr=False)
class RecordsPerPerson:
    """How many persons have how many records, with noise: holds no true count, and may be published.

    Guarantee: the counts are unbiased, each with the standard deviation `stddev`. A person is in one of the counts,
    which changes by 1, whatever number of records the person has: that is what it cost.

    Args:
        lows: the least number of records of each count; the last has no end.
        counts: persons with so many records, with noise, (counts,).
        aside: the noise.
        sequence: the ledger's debit.
        digest: of that line of the ledger.

    Reference: docs/persons.md.
    """

    lows: tuple[int, ...]
    counts: Integers
    aside: Aside
    sequence: int
    digest: str

    def __post_init__(self) -> None:
        self.counts.setflags(write=False)

    @property
    def stddev(self) -> float:
        """The standard deviation of every count."""
        return self.aside.stddev

    @property
    def most(self) -> int:
        """Persons with so many records or more are counted together."""
        return self.lows[-1]

    @property
    def labels(self) -> tuple[str, ...]:
        """What each count is of: "3", "11 to 15", "1024 or more"."""
        ends = [low - 1 for low in self.lows[1:]]
        named = [str(low) if low == end else f"{low} to {end}" for low, end in zip(self.lows, ends, strict=False)]
        return (*named, f"{self.most} or more")

    def persons(self, *, confidence: float = 0.95) -> Estimate:
        """How many persons there are."""
        return self._sum(np.ones(len(self.counts)), confidence)

    def left_out(self, records: int, *, confidence: float = 0.95) -> Estimate:
        """How many records would not be counted under `rs.Person(records=…)`.

        As if persons were spread evenly within each count, and had no more than `most` records; the interval is for the
        noise alone.

        Raises:
            PrivacyError: no number of records.
        """
        return self._sum(self._means(0) - self._means(record_count(records)), confidence)

    def recommend(self, share: float = 0.9) -> int:
        """The least bound at which about this share of the records is counted, by the noisy counts.

        A smaller bound is less noise and more that is left out; which matters more depends on what is asked.

        Raises:
            PrivacyError: no share between 0 and 1, or too many persons have `most` records or more to tell.
        """
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share < 1:
            raise PrivacyError(f"share={named(share)} is not a share between 0 and 1; say 0.9, for example.")
        seen = np.where(self.counts > _SEEN * self.stddev, self.counts, 0)
        if seen[-1] or not seen.any():
            why = f"persons have {self.most:,} records or more" if seen[-1] else "there are too few persons to tell"
            raise PrivacyError(f"no bound can be recommended: {why}; ask again with a larger most, or a larger budget.")
        every = float(seen @ self._means(0))
        return next(k for k in range(1, self.most + 1) if float(seen @ self._means(k)) >= share * every)

    def _means(self, bound: int) -> Floats:
        """How many records of a person are counted under a bound (0: all), on average within each count."""
        sizes = [np.arange(low, high) for low, high in zip(self.lows, (*self.lows[1:], self.most + 1), strict=True)]
        return np.array([float(np.mean(np.minimum(size, bound) if bound else size)) for size in sizes])

    def _sum(self, weights: Floats, confidence: float) -> Estimate:
        estimate, stddev = float(weights @ self.counts), self.stddev * float(np.linalg.norm(weights))
        reach = width(confidence) * stddev  # checks the confidence
        if self.aside.noise != NORMAL:
            reach = float(reaches((weights * self.aside.scale)[None, :], 1 - confidence)[0]) + float(weights.sum()) / 2
        return Estimate(estimate, stddev, estimate - reach, estimate + reach)

    def __repr__(self) -> str:
        pairs = zip(self.labels, self.counts.tolist(), strict=True)
        return f"RecordsPerPerson({', '.join(f'{label}: {n}' for label, n in pairs)}; stddev {self.stddev:.3g})"


def _lows(most: int) -> tuple[int, ...]:
    """Every number up to 8, then steps by a factor of about √2, up to `most`: sums of few counts have little noise."""
    lows = list(range(1, min(_EXACT, most) + 1))
    while lows[-1] < most:
        lows.append(min(max(round(lows[-1] * 2**0.5), lows[-1] + 1), most))
    return tuple(lows)


def records_per_person(
    source: Any,
    domain: Domain,
    budget: Guarantee,
    *,
    ledger: Ledger | str | Path,
    most: int = MOST,
    purpose: str = "records per person",
    progress: Progress | None = None,
) -> RecordsPerPerson:
    """A look at how many records people have, with exact noise, paid for: to choose the bound of a plan by.

    Every person is in one count, so that the cost does not depend on any bound: `1 / scale²`, or `1 / scale` for
    Laplace noise. The ledger is one for persons, whichever bound it was made with: a bound belongs to a plan.

    Args:
        source: the data, which names the person column.
        domain: what the records may hold; those that a policy drops do not count.
        budget: what to spend: ZCDP, GDP or ApproxDP for normal noise, PureDP for Laplace noise.
        ledger: the dataset's ledger, or the path of one that exists.
        most: persons with so many records or more are counted together.
        purpose: what the ledger notes.
        progress: called with the step, how much is done, and of how much if known.

    Raises:
        SourceError: the data names no person, or does not fit the domain. Nothing is spent.
        LedgerError: the budget does not allow it, or the ledger protects no persons. Nothing is spent.
        PrivacyError: a budget or a `most` that means nothing. Nothing is spent.

    Example:
        >>> import residua as rs, pyarrow as pa, tempfile
        >>> domain = rs.Domain({"sex": ["F", "M"]})
        >>> visits = pa.table({"id": [i // 3 for i in range(3000)], "sex": ["F"] * 1500 + ["M"] * 1500})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     ledger = rs.Ledger(f"{folder}/visits.ledger", rs.ZCDP(0.5), unit=rs.Person(records=5))
        ...     look = rs.records_per_person(
        ...         rs.Source.frame(visits, person="id"), domain, rs.ZCDP(0.02), ledger=ledger)
        >>> look.recommend(share=0.95), bool(abs(look.counts[2] - 1000) < 50)
        (3, True)
    """
    if isinstance(most, bool) or not isinstance(most, int) or not 1 <= most < MOST_TOLD:
        raise PrivacyError(
            f"most={named(most)} is not a whole number from 1 to {MOST_TOLD - 1:,}; say 1024, for example."
        )
    aside = aside_within(budget, 1)
    account = account_of(ledger, _ANY)
    data = source_of(source)
    require_agreement(data.options, _ANY, domain)
    bound, total = _any_bound(domain), _total(domain)
    pay = paying(account, aside.cost, purpose, data, aside.noise.currency)
    with data.snapshot() as still:
        checked = checked_data(still, domain, progress=progress, bound=bound)
        try:
            entry, _ = pay(checked.fingerprint)

            def work() -> Integers:
                held = _loss(checked.count(total, step_of("counting", progress), bound, parts=domain.parts)).held
                return aside.noisy(np.add.reduceat(held, _lows(most)))

            counts = told_of_debit(work, entry)
        finally:
            checked.forget()
    return RecordsPerPerson(_lows(most), counts, aside, entry.sequence, entry.digest)


def show_records_per_person(
    source: Any, domain: Domain, notice: Callable[[Loss], None], *, progress: Progress | None = None
) -> None:
    """Shows the curator, and nobody else, how many records people really have. Costs nothing: publish nothing of it.

    A bound that is chosen by looking at true counts is chosen by looking at the data, which no guarantee covers; to
    choose within the ledger, use `records_per_person`.

    Args:
        source: the data, which names the person column.
        domain: what the records may hold.
        notice: called once; its `held` counts the persons with 0, 1, 2, … records.
        progress: called with the step, how much is done, and of how much if known.
    """
    data = source_of(source)
    require_agreement(data.options, _ANY, domain)
    step, bound = step_of("reading", progress), _any_bound(domain)
    notice(without_records(lambda: _loss(data.count(domain, _total(domain), step, bound))))


def _any_bound(domain: Domain) -> PersonBound:
    """Which records a bound would choose does not matter here, nor how many: so any key will do."""
    return bound_of(_ANY, domain, secrets.token_bytes(KEY_BYTES))


def _total(domain: Domain) -> Layout:
    return layout_of(closure([], len(domain)), domain.sizes)


def _loss(counted: Counted) -> Loss:
    assert counted.tallies.loss is not None
    return counted.tallies.loss


@dataclass(frozen=True)
class Aside:
    """Noise for whole numbers of which one person changes one, by at most `most`.

    Guarantee: `cost` is exact: `(most / scale)²` for normal noise, `most / scale` for Laplace noise.

    Args:
        noise: normal or Laplace.
        scale: of the noise before rounding.
        most: by how much a person changes the numbers.
    """

    noise: Noise
    scale: float
    most: int

    @property
    def cost(self) -> Fraction:
        """What it costs a person, in the currency of the noise."""
        ratio = Fraction(self.most) / Fraction(self.scale)
        return ratio * ratio if self.noise == NORMAL else ratio

    @property
    def stddev(self) -> float:
        """The standard deviation of the noise, rounding included."""
        return math.sqrt(self.noise.variance(self.scale))

    def noisy(self, integers: Integers) -> Integers:
        """The numbers with noise."""
        draw = rounded_normal if self.noise == NORMAL else rounded_laplace
        return np.asarray(integers + draw(self.scale, integers.shape))


def aside_within(budget: Guarantee, most: int) -> Aside:
    """The least noise that costs no more than a budget.

    Raises:
        PrivacyError: a budget too small for any noise that can be sampled.
        LedgerError: no guarantee.
    """
    allowed = allowance(budget)
    noise = LAPLACE if currency_of(budget) == "epsilon" else NORMAL
    if allowed <= 0:
        raise PrivacyError(f"budget={budget!r} allows nothing; give more.")
    ratio = Fraction(most) / allowed
    scale = max(round_up(ratio) if noise == LAPLACE else root_up(ratio * most), SMALLEST_SCALE)
    if scale > LARGEST_SCALE:
        raise PrivacyError(
            f"budget={budget!r} needs more noise than can be sampled; give more, or count fewer records."
        )
    aside = Aside(noise, scale, most)
    assert aside.cost <= allowed
    return aside
