"""Which candidate each group should have: the rule of `recommend.py`, for all groups at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from residua.linalg.arrays import Booleans, Floats, Integers
from residua.session.recommend import By

if TYPE_CHECKING:
    import pyarrow


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
        found: dict[str | None, int] = {name: int((self.chosen == k).sum()) for k, name in enumerate(self.names)}
        return {**found, None: int((self.chosen < 0).sum())}

    def to_arrow(self, by: Sequence[str]) -> pyarrow.Table:
        """One row for each group: its labels, the candidate, whether to step, and the shares."""
        import pyarrow

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
        told = [f"{count:,} {name!r}" for name, count in self.counts.items() if name is not None]
        steps = int(self.stepping.sum())
        rest = int((self.chosen < 0).sum()) - steps
        more = [*([f"{steps:,} to step"] if steps else []), *([f"{rest:,} to stop"] if rest else [])]
        return f"Verdicts({len(self.groups):,} groups: {', '.join([*told, *more])})"


def judged(
    found: Sequence[Shares], depths: Integers, *, share: float, by: By, chain: bool
) -> tuple[Integers, Booleans, Floats]:
    """The rule for every group: the candidate, whether to step first, and the shares.

    A later candidate is worth choosing when it still serves the queries of the first; the last such is chosen. In a
    chain only the next one is judged. Where not even the first can serve, nothing is chosen.

    Args:
        found: the shares of each candidate, in their order, on the same queries.
        depths: how many candidates were dropped in each group by stepping, (groups,).
        share: which share of the queries must be good enough.
        by: what to judge by.
        chain: whether looks are nested.
    """
    shares = np.stack([each[by] for each in found], axis=1)
    groups, last = len(depths), len(found) - 1
    good = shares >= share
    good[np.arange(len(found))[None, :] <= depths[:, None]] = False  # those before, and the first that stands
    rows = np.arange(groups)
    stepping = np.zeros(groups, dtype=bool)
    if chain:
        stepping = good[rows, np.minimum(depths + 1, last)] & (depths < last - 1)
    latest = np.where(good.any(axis=1), last - np.argmax(good[:, ::-1], axis=1), depths)
    upper = np.stack([each["upper"] for each in found], axis=1)
    hopeless = ~good.any(axis=1) & (upper[rows, depths] < share)
    return np.where(stepping | hopeless, -1, latest), stepping, shares
