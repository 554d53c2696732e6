"""Signal to noise before the choice: what each candidate would make of the queries that can be estimated already.

With `L, U = estimate ∓ reach · stddev` from what is known, and `σ_i` the standard deviation query i would have under a
candidate, its signal-to-noise ratio lies between `L/σ_i` and `U/σ_i`, as often as the truth lies between L and U.

Reference: common-mechanism, §6.2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from residua.linalg.arrays import Floats
from residua.plans.contract import Plan
from residua.printable import printable
from residua.release.base import Release
from residua.workload import Workload

if TYPE_CHECKING:
    import pyarrow

REACH = 3.0  # standard deviations either side, as in the paper
_SHOWN = 10
_MOST_LISTED = 2**22  # queries times cells


@dataclass(frozen=True, eq=False, repr=False)
class Signal:
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

    def shares(self, snr: float) -> dict[str, float]:
        """Which share of the queries has at least this signal-to-noise ratio, by lower bound, estimate, upper bound."""
        found = {"lower": self.lower, "estimate": self.estimate, "upper": self.upper}
        return {name: float((ratios >= snr).mean()) for name, ratios in found.items()}

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

    def to_arrow(self) -> pyarrow.Table:
        """The table as a pyarrow Table."""
        import pyarrow

        return pyarrow.table(self.columns)

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        names = list(self.columns)
        rows = [names] + [
            [f"{c[i]:.1f}" if isinstance(c, np.ndarray) else printable(str(c[i])) for c in self.columns.values()]
            for i in range(min(len(self), _SHOWN))
        ]
        widths = [max(len(row[j]) for row in rows) for j in range(len(names))]
        lines = ["  ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True)) for row in rows]
        rest = [f"… {len(self) - _SHOWN:,} more rows"] if len(self) > _SHOWN else []
        return "\n".join([f"under {printable(self.candidate)}:", *lines, *rest])


def signal_of(name: str, candidate: Plan, known: Release, workload: Workload, reach: float) -> Signal:
    """Bounds on the signal-to-noise ratio of these queries, all answerable from what is known, under a candidate."""
    found = known.answers(workload).columns
    stddevs = np.sqrt(candidate.variances(workload))
    return Signal(name, tuple(found["query"]), found["estimate"], reach * found["stddev"], stddevs)


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
    return None if workload.plain or not _few(workload) else _single(known, workload.listed())


def _few(workload: Workload) -> bool:
    """Whether the queries are few enough to be listed one by one."""
    return workload.queries * math.prod(workload.shape) <= _MOST_LISTED


def _single(known: Plan, workload: Workload) -> Workload | None:
    good = np.isfinite(known.variances(workload))
    return workload.some(good) if good.any() else None
