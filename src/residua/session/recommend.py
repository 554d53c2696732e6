"""Which candidate to finish: at least a share x of the queries with a signal-to-noise ratio of at least y.

Candidates are ordered: the first is the primary analysis, coarse and safe; each later one offers more and is noisier.
A later candidate is worth choosing when it still serves the analysis before it: at least a share x of the queries
asked first has a signal-to-noise ratio of y or more under it. That may be judged by the estimates, which is right most
often, or by their lower bounds, which errs towards the first candidate. With groups, each is judged by itself.

With `L, U = estimate ∓ reach · stddev` from what is known, and `σ_i` the standard deviation query i would have under a
candidate, its signal-to-noise ratio lies between `L/σ_i` and `U/σ_i`, as often as the truth lies between L and U.

Reference: common-mechanism, §6.2 and §7.5.3. The paper writes its rule with lower bounds; the accuracies of its Table 7
are those of the estimates (benchmarks/choosing.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, cast, get_args

import numpy as np

from residua.errors import PlanError, named
from residua.linalg.arrays import Booleans, Floats, Integers
from residua.machine import pyarrow
from residua.plans.contract import Plan
from residua.published.columns import Columns
from residua.release.base import Release
from residua.workload import Workload

By = Literal["lower", "estimate", "upper"]


@dataclass(frozen=True)
class Recommendation:
    """What to do after a look.

    Args:
        action: `"finish"` the named candidate, `"step"` to look further without the first, or `"stop"` here.
        candidate: the candidate to finish; None for `"step"` and `"stop"`.
        reason: why, in a sentence.
        shares: for each candidate, which share of the queries is good enough, by lower bound, estimate, upper bound.
    """

    action: str
    candidate: str | None
    reason: str
    shares: Mapping[str, Mapping[By, float]]


def recommended(signals: Sequence[Signal], *, share: float, snr: float, by: By, chain: bool) -> Recommendation:
    """Applies the rule to the queries of the first candidate under each candidate.

    Args:
        signals: one for each candidate still standing, in their order, on the same queries.
        share: x, which share of the queries must be good enough.
        snr: y, the least signal-to-noise ratio that is good enough.
        by: what to judge by.
        chain: whether the look can be refined step by step, so that later candidates are judged later.
    """
    check_rule(share, snr, by)
    shares, names = {signal.candidate: signal.shares(snr) for signal in signals}, [each.candidate for each in signals]
    alone = [{key: np.array([value]) for key, value in own.items()} for own in shares.values()]
    (chosen,), (stepping,), _ = judged(alone, np.zeros(1, dtype=np.int64), share=share, by=by, chain=chain)
    first = names[0]
    asked = f"at least {share:.0%} of the queries with a signal-to-noise ratio of {snr:g} or more"
    if stepping:
        return Recommendation("step", None, f"{names[1]!r} still serves the queries of {first!r}: {asked}", shares)
    if chosen < 0:
        return Recommendation("stop", None, f"not even {first!r} can give {asked}", shares)
    still = f"{names[chosen]!r} still serves the queries of {first!r}: {asked}"
    reason = still if chosen else f"no later candidate gives {asked}"
    return Recommendation("finish", names[chosen], reason, shares)


def check_rule(share: float, snr: float, by: By) -> None:
    """Refuses a rule that means nothing."""
    for name, value, most in (("share", share, 1.0), ("snr", snr, math.inf)):
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not 0 < value <= most or value == math.inf:
            limit = f" up to {most:g}" if most < math.inf else ""
            raise PlanError(f"{name}={named(value)} is not a positive number{limit}; correct it.")
    judged_by(by)


def judged_by(by: str) -> By:
    """What to judge by, known to be one of the three."""
    if by not in get_args(By):
        raise PlanError(f"by={by!r} is not 'lower', 'estimate' or 'upper'; use one of them.")
    return cast("By", by)


REACH = 3.0  # standard deviations either side, as in the paper
_MOST_LISTED = 2**22  # queries times cells


@dataclass(frozen=True, eq=False, repr=False)
class Signal(Columns):
    """What a candidate would make of some queries: estimates so far, and bounds on the signal-to-noise ratio.

    Args:
        candidate: its name.
        labels: a label for every query.
        estimates: what is known of them, (queries,).
        bounds: how far that may be off either way, (queries,).
        stddevs: the standard deviation each would have under the candidate, infinite if it cannot answer, (queries,).
    """

    candidate: str
    labels: tuple[str, ...]
    estimates: Floats
    bounds: Floats
    stddevs: Floats

    @cached_property
    def lower(self) -> Floats:
        """A lower bound on each signal-to-noise ratio, (queries,)."""
        return np.asarray((self.estimates - self.bounds) / self.stddevs)

    @cached_property
    def upper(self) -> Floats:
        """An upper bound on each signal-to-noise ratio, (queries,)."""
        return np.asarray((self.estimates + self.bounds) / self.stddevs)

    @cached_property
    def estimate(self) -> Floats:
        """The signal-to-noise ratio as estimated, (queries,)."""
        return np.asarray(self.estimates / self.stddevs)

    def shares(self, snr: float) -> dict[By, float]:
        """Which share of the queries has at least this signal-to-noise ratio, by lower bound, estimate, upper bound."""
        shares = shares_of(self.estimates[None], self.bounds[None], self.stddevs, snr)
        return {by: float(share[0]) for by, share in shares.items()}

    @property
    def keys(self) -> tuple[str, ...]:
        """The queries."""
        return ("query",)

    @property
    def columns(self) -> dict[str, Any]:
        """The columns by name."""
        return {
            "query": list(self.labels),
            "estimate": self.estimates,
            "lower": self.estimates - self.bounds,
            "upper": self.estimates + self.bounds,
            "stddev": self.stddevs,
            "snr_lower": self.lower,
            "snr_upper": self.upper,
        }

    @property
    def note(self) -> str:
        """Under which candidate."""
        return f"under {self.candidate}"

    def __len__(self) -> int:
        return len(self.labels)


def signal_of(name: str, candidate: Plan, known: Release, workload: Workload, reach: float) -> Signal:
    """Bounds on the signal-to-noise ratio of these queries, all answerable from what is known, under a candidate."""
    answers = known.answers(workload).columns
    stddevs = np.sqrt(candidate.variances(workload))
    return Signal(name, tuple(answers["query"]), answers["estimate"], reach * answers["stddev"], stddevs)


def answerable(known: Plan, workload: Workload) -> Workload | None:
    """The part of a workload that is answerable from what is known, None if nothing is.

    Of marginals and products, the terms that are answerable as a whole; of products of which no term is, the single
    queries that are, if they are not too many to list (the last of all prefixes is the total).
    """
    if not workload.tabular:
        return _single(known, workload)
    good = np.isfinite(known.variances(workload, per="term"))
    if good.any():
        return workload.some(good)
    few = workload.queries * math.prod(workload.shape) <= _MOST_LISTED
    return _single(known, workload.listed()) if few and not workload.plain else None


def _single(known: Plan, workload: Workload) -> Workload | None:
    good = np.isfinite(known.variances(workload))
    return workload.some(good) if good.any() else None


Shares = Mapping[By, Floats]  # which share of each group's queries is good enough, (groups,), by what it is judged


def shares_of(estimates: Floats, bounds: Floats, noise: Floats, snr: float) -> Shares:
    """Which share of each group's queries has at least this signal-to-noise ratio; of those that can be estimated.

    Args:
        estimates: of the queries within each group, (groups, queries within).
        bounds: how far they may be off, infinite where a query cannot be estimated yet.
        noise: of each query under a candidate.
        snr: the least ratio that is good enough.
    """
    known, wanted = np.isfinite(bounds), snr * noise
    there = np.maximum(known.sum(axis=1), 1)
    with np.errstate(invalid="ignore"):
        return {
            "lower": (known & (estimates - bounds >= wanted)).sum(axis=1) / there,
            "estimate": (known & (estimates >= wanted)).sum(axis=1) / there,
            "upper": (known & (estimates + bounds >= wanted)).sum(axis=1) / there,
        }


@dataclass(frozen=True, eq=False)
class Verdicts(Mapping[Any, str | None]):
    """What to do in each group after a look: group → the candidate to finish; None to leave it at the look.

    Args:
        groups: every group, its label or a tuple of labels.
        names: the candidates.
        chosen: which each group should have, −1 for none, (groups,).
        stepping: the groups in which a further look is worth it first, (groups,).
        shares: which share of each group's queries is good enough under each candidate, (groups, candidates).
    """

    groups: Sequence[Any]
    names: tuple[str, ...]
    chosen: Integers
    stepping: Booleans
    shares: Floats

    def __getitem__(self, group: Any) -> str | None:
        try:
            number = int(self.chosen[list(self.groups).index(group)])
        except ValueError:
            raise KeyError(group) from None
        return None if number < 0 else self.names[number]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.groups)

    def __len__(self) -> int:
        return len(self.groups)

    def listed(self) -> list[str | None]:
        """The candidate of every group, in their order."""
        return [None if k < 0 else self.names[k] for k in self.chosen.tolist()]

    @property
    def counts(self) -> dict[str | None, int]:
        """How many groups should have each candidate; None for those that should stop or step."""
        counts: dict[str | None, int] = {name: int((self.chosen == k).sum()) for k, name in enumerate(self.names)}
        return {**counts, None: int((self.chosen < 0).sum())}

    def to_arrow(self, by: Sequence[str]) -> pyarrow.Table:
        """One row for each group: its labels, the candidate, whether to step, and the shares."""
        columns = list(zip(*self.groups, strict=True)) if len(by) > 1 else [tuple(self.groups)]
        table: dict[str, Any] = {
            name: [str(label) for label in column] for name, column in zip(by, columns, strict=True)
        }
        table["candidate"] = self.listed()
        table["step"] = self.stepping
        for k, name in enumerate(self.names):
            table[f"share under {name}"] = self.shares[:, k]
        return pyarrow.table(table)

    def __repr__(self) -> str:
        each = [f"{count:,} {name!r}" for name, count in self.counts.items() if name is not None]
        steps = int(self.stepping.sum())
        rest = int((self.chosen < 0).sum()) - steps
        more = [*([f"{steps:,} to step"] if steps else []), *([f"{rest:,} to stop"] if rest else [])]
        return f"Verdicts({len(self.groups):,} groups: {', '.join([*each, *more])})"


def judged(
    each: Sequence[Shares], depths: Integers, *, share: float, by: By, chain: bool
) -> tuple[Integers, Booleans, Floats]:
    """The rule for every group: the candidate, whether to step first, and the shares.

    A later candidate is worth choosing when it still serves the queries of the first; the last such is chosen. In a
    chain only the next one is judged. Where not even the first can serve, nothing is chosen.

    Args:
        each: the shares of each candidate, in their order, on the same queries.
        depths: how many candidates were dropped in each group by stepping, (groups,).
        share: which share of the queries must be good enough.
        by: what to judge by.
        chain: whether looks are nested.
    """
    shares = np.stack([own[by] for own in each], axis=1)
    groups, last = len(depths), len(each) - 1
    after = np.arange(len(each)) - depths[:, None]  # the first that stands is not judged, nor are those before it
    good = (shares >= share) & (after > 0) & ((after == 1) | (not chain))
    rows = np.arange(groups)
    stepping = good.any(axis=1) & (depths < last - 1) & chain
    latest = np.where(good.any(axis=1), last - np.argmax(good[:, ::-1], axis=1), depths)
    hopeless = ~good.any(axis=1) & (np.stack([own["upper"] for own in each], axis=1)[rows, depths] < share)
    return np.where(stepping | hopeless, -1, latest), stepping, shares
