"""`rs.weighted`: totals of the population from a release of survey weights, noise and sampling error shown apart.

With weights w_i clipped at `most`, a total T = Σ w_i of the respondents in a cell estimates how many people of the
population are in it. Where respondents were drawn independently (with replacement, or each by itself), its variance is
about Σ w_i² at most, and Σ w_i² ≤ most · Σ w_i: nothing but the total is needed, and no budget. Who knows Σ w²/Σ w of
the sample, which is the mean weight times Kish's design effect and often published, has narrower intervals.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from residua.errors import PlanError
from residua.plans.tails import width
from residua.published.table import Table
from residua.release.base import Estimate, Release


@dataclass(frozen=True, eq=False)
class Weighted:
    """Totals of the population, each with an interval for noise and sampling error together. Made by `rs.weighted`.

    Args:
        release: of data with survey weights.
        ratio: Σ w²/Σ w of the sample, or a bound on it.
        design_effect: by how much clusters, strata and calibration change the variance of totals.
    """

    release: Release
    ratio: float
    design_effect: float

    def table(self, attributes: Sequence[str], *, confidence: float = 0.95) -> Table:
        """The weighted marginal on these attributes.

        Columns: `estimate`, `stddev`, `lower` and `upper` of the total in the population; `noise` and `sampling`, the
        standard deviations of which `stddev` is made; `protection`, the share of the variance that privacy adds.

        Raises:
            PlanError: the release cannot answer this table.
        """
        table = self.release.table(attributes, confidence=confidence)
        step, shape = float(self.release.receipt["weights_step"]), table.estimates.shape
        totals, noise = table.estimates * step, np.broadcast_to(table.stddev, shape) * step
        # One standard deviation more than the estimate: a total that noise makes small has not less sampling error.
        variance = self.design_effect * self.ratio * np.maximum(totals + noise, 0.0)
        stddev = np.sqrt(noise**2 + variance)
        reach = np.hypot(np.reshape(table.width * noise.ravel(), shape), width(confidence) * np.sqrt(variance))
        apart = {"noise": noise, "sampling": np.sqrt(variance), "protection": noise**2 / stddev**2}
        said = (None, "", confidence, None, self._counts, {name: each.ravel() for name, each in apart.items()})
        return Table(table.domain, table.attributes, totals, stddev, (reach / stddev).ravel(), *said)

    def total(self, *, confidence: float = 0.95) -> Estimate:
        """How many people the population has, by the weights."""
        columns = self.table([], confidence=confidence).columns
        return Estimate(*(float(columns[name][0]) for name in ("estimate", "stddev", "lower", "upper")))

    @property
    def _counts(self) -> str:
        column, most = self.release.receipt["weights"], float(self.release.receipt["weights_most"])
        effect = f", times {self.design_effect:g}" if self.design_effect != 1 else "; strata and clusters are not used"
        return (
            f"sums of the survey weights in column {column!r}, those above {most:g} counted as {most:g}; sampling "
            f"error: variance at most {self.ratio:g} times the total, as of respondents drawn independently{effect}"
        )


def weighted(release: Release, *, ratio: float | None = None, design_effect: float = 1.0) -> Weighted:
    """Totals of the population, with sampling error, from a release of data with survey weights (`rs.Weights`).

    Args:
        release: what `rs.measure` gave.
        ratio: Σ w²/Σ w of the whole sample, if that is publicly known; `most`, which no sample exceeds, if left out.
            It must hold in every cell that is asked for: where weights differ between cells, take the largest.
        design_effect: what the variance of totals is multiplied by, for clusters, if that is publicly known.

    Raises:
        PlanError: a release without survey weights, or a number that means nothing.
    """
    if not isinstance(release, Release) or "weights" not in release.receipt:
        raise PlanError("release is not one of survey weights; give the source weights=rs.Weights(…).")
    most = float(release.receipt["weights_most"])
    ratio = most if ratio is None else ratio
    for name, value, largest in (("ratio", ratio, most), ("design_effect", design_effect, math.inf)):
        number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        if not number or not 0 < value <= largest:
            raise PlanError(f"{name}={value!r} is not a positive number up to {largest:g}; leave it out if not known.")
    return Weighted(release, float(ratio), float(design_effect))
