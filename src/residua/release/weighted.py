"""`rs.weighted`: totals of the population from a release of survey weights, noise and sampling error shown apart.

With weights w_i clipped at `most`, a total T = Σ w_i of the respondents in a cell estimates how many people of the
population are in it. Where respondents were drawn independently (with replacement, or each by itself), its variance is
about Σ w_i² at most. That sum is, in the order in which it is taken:

- measured, of the total and of one-way tables (`squares`, by `rs.measure_survey`). Of other cells Σ w²/Σ w is taken to
  be the largest that their one-way tables have, or what these make if their effects multiply, whichever is more;
- bounded, by a public ratio, or by `most`: Σ w² ≤ most · Σ w, whatever the sample.

In strata, n_h respondents were drawn in each of them; the variance is Σ_h n_h/(n_h − 1) (Σ w² − T_h²/n_h), with T_h the
part of the cell that is in stratum h (linearised, drawn with replacement: too large for large sampling fractions).

In clusters, of which n_h were drawn in each stratum, the variance is that between their totals T_hc in the cell,
Σ_h n_h/(n_h − 1) (Σ_c T_hc² − T_h²/n_h). It is worked out from the released table by cluster: noisy totals have squares
that are too large by the variance of their noise, which is known and taken off. Nothing more is measured or paid for.
Noise in what variances are worked out from is allowed for with one standard deviation, upwards.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np

from residua.domain import Label
from residua.errors import PlanError, kind_of, named
from residua.linalg.arrays import Floats
from residua.plans.tails import width
from residua.published.table import Table
from residua.release.base import Estimate, Release


@dataclass(frozen=True, eq=False)
class Weighted:
    """Totals of the population, each with an interval for noise and sampling error together. Made by `rs.weighted`.

    Args:
        release: of data with survey weights.
        ratio: Σ w²/Σ w of the sample, or a bound on it.
        design_effect: by how much clusters and calibration change the variance of totals.
        squares: a release of the squares of the weights, if they were measured.
        stratum: the attribute that respondents were drawn by, if there was one.
        sampled: how many were drawn in each of its values.
        clusters: the attribute whose values were drawn as a whole, if one was.
    """

    release: Release
    ratio: float
    design_effect: float = 1.0
    squares: Release | None = None
    stratum: str | None = None
    sampled: tuple[int, ...] = ()
    clusters: str | None = None

    def table(self, attributes: Sequence[str], *, confidence: float = 0.95) -> Table:
        """The weighted marginal on these attributes.

        Columns: `estimate`, `stddev`, `lower` and `upper` of the total in the population; `noise` and `sampling`, the
        standard deviations of which `stddev` is made; `protection`, the share of the variance that privacy adds.

        Raises:
            PlanError: the release cannot answer this table, or not by stratum.
        """
        table = self.release.table(attributes, confidence=confidence)
        totals, noise = self._totals(table.attributes)
        variance = self.design_effect * self._variance(table.attributes)
        stddev = np.sqrt(noise**2 + variance)
        reach = np.hypot(
            np.reshape(table.width * noise.ravel(), noise.shape), self._quantile(confidence) * np.sqrt(variance)
        )
        apart = {"noise": noise, "sampling": np.sqrt(variance), "protection": noise**2 / stddev**2}
        said = (None, "", confidence, None, self._counts, {name: each.ravel() for name, each in apart.items()})
        return Table(table.domain, table.attributes, totals, stddev, (reach / stddev).ravel(), *said)

    def total(self, *, confidence: float = 0.95) -> Estimate:
        """How many people the population has, by the weights."""
        columns = self.table([], confidence=confidence).columns
        return Estimate(*(float(columns[name][0]) for name in ("estimate", "stddev", "lower", "upper")))

    def _totals(self, names: tuple[str, ...]) -> tuple[Floats, Floats]:
        """Weighted totals, and the standard deviations of their noise."""
        return _with_noise(self.release, names, float(self.release.receipt["weights_step"]))

    def _variance(self, names: tuple[str, ...]) -> Floats:
        """The sampling variance of each cell, without a design effect."""
        if self.clusters is not None:
            return self._between(self.clusters, names)
        if self.stratum is None:
            totals, noise = self._totals(names)
            return np.maximum(self._ratios(names) * np.maximum(totals + noise, 0.0), 0.0)
        within = names if self.stratum in names else (self.stratum, *names)
        totals, noise = self._totals(within)
        axis = within.index(self.stratum)
        drawn = np.reshape(self.sampled, [-1 if i == axis else 1 for i in range(len(within))])
        ratios = self._ratios(within) * drawn / (drawn - 1)
        shared = np.maximum(totals - noise, 0.0) ** 2 / (drawn - 1)
        away = () if self.stratum in names else axis
        unsure = np.sqrt(((ratios * noise) ** 2).sum(axis=away))
        return np.asarray(np.maximum((ratios * totals - shared).sum(axis=away), 0.0) + unsure)

    def _between(self, clusters: str, names: tuple[str, ...]) -> Floats:
        """The variance between clusters of each cell, one standard deviation of its own noise more."""
        if clusters in names:
            raise PlanError(f"{clusters!r} are the clusters that were drawn; ask for tables of other attributes.")
        beside = () if self.stratum is None or self.stratum in names else (self.stratum,)
        each, noise = self._totals((clusters, *beside, *names))
        sums, of_sums = self._totals((*beside, *names))
        by_stratum = [-1 if name == self.stratum else 1 for name in (*beside, *names)]
        drawn = np.reshape(self.sampled, by_stratum) if self.stratum else float(len(each))
        squares = (each**2 - noise**2).sum(axis=0) - (sums**2 - of_sums**2) / drawn
        unsure = np.sqrt((4 * np.maximum(each**2 - noise**2, 0.0) * noise**2 + 2 * noise**4).sum(axis=0))
        variance = drawn / (drawn - 1) * (np.maximum(squares, 0.0) + unsure)
        return np.asarray(variance.sum(axis=0) if beside else variance)

    def _quantile(self, confidence: float) -> float:
        """Of Student's distribution where few clusters tell the variance, of the normal one elsewhere."""
        if self.clusters is None:
            return width(confidence)
        from scipy.special import stdtrit

        drawn = self.sampled or (self.release.domain[self.clusters].size,)
        return float(stdtrit(sum(drawn) - len(drawn), (1 + confidence) / 2))

    def _ratios(self, names: tuple[str, ...]) -> Floats | float:
        """Σ w²/Σ w of each cell, or what bounds it."""
        if self.squares is None:
            return self.ratio
        overall = self._measured(())
        ratios = [
            np.reshape(self._measured((name,)), [-1 if k == i else 1 for k in range(len(names))])
            for i, name in enumerate(names)
            if (name,) in self.squares.sets
        ]
        product = math.prod((each / overall for each in ratios), start=overall)
        return np.minimum(reduce(np.maximum, ratios, product), self.ratio)

    def _measured(self, names: tuple[str, ...]) -> Floats:
        """Σ w²/Σ w of the total or of a one-way table, as measured and one standard deviation more."""
        assert self.squares is not None
        step = float(self.release.receipt["weights_step"]) * float(self.release.receipt["weights_most"])
        squares, noise = _with_noise(self.squares, names, step)
        totals = self._totals(names)[0]
        with np.errstate(divide="ignore"):
            return np.where(totals > 0, (np.maximum(squares, 0.0) + noise) / np.maximum(totals, 0.0), np.inf)

    @property
    def _counts(self) -> str:
        column, most = self.release.receipt["weights"], float(self.release.receipt["weights_most"])
        grounds = (
            f"variance at most {self.ratio:g} times the total" if self.squares is None else "from measured squares"
        )
        grounds = grounds if self.clusters is None else f"between clusters of {self.clusters!r}"
        drawn = "independently" if self.stratum is None else f"in strata of {self.stratum!r}"
        effect = "" if self.design_effect == 1 else f", times {self.design_effect:g} for clusters"
        unused = " and ".join(
            ["strata"] * (self.stratum is None) + ["clusters"] * (self.design_effect == 1 and not self.clusters)
        )
        return (
            f"sums of the survey weights in column {column!r}, those above {most:g} counted as {most:g}; sampling "
            f"error: {grounds}, as of respondents drawn {drawn}{effect}"
            + (f"; {unused} are not used" if unused else "")
        )


def _with_noise(release: Release, names: tuple[str, ...], step: float) -> tuple[Floats, Floats]:
    table = release.table(names)
    return table.estimates * step, np.reshape(table.columns["stddev"], table.estimates.shape) * step


def weighted(
    release: Release,
    *,
    squares: Release | None = None,
    ratio: float | None = None,
    design_effect: float = 1.0,
    strata: Mapping[str, Mapping[Label, int]] | None = None,
    clusters: str | None = None,
) -> Weighted:
    """Totals of the population, with sampling error, from a release of data with survey weights (`rs.Weights`).

    Args:
        release: what `rs.measure` gave.
        squares: a release of `weights.squares` of the same data; `rs.measure_survey` makes both.
        ratio: Σ w²/Σ w of the whole sample, if that is publicly known; `most`, which no sample exceeds, if left out.
            It must hold in every cell that is asked for: where weights differ between cells, take the largest.
        design_effect: what the variance of totals is multiplied by, for clusters, if that is publicly known.
        strata: the attribute that respondents were drawn by → how many were drawn in each of its values, which is
            public: `{"region": {"north": 400, "south": 900}}`. Beside `clusters`, how many clusters.
        clusters: the attribute whose values (villages, schools, segments of streets) were drawn as a whole, all of them
            declared. The release must answer tables by cluster, and by stratum where there are strata.

    Raises:
        PlanError: a release without survey weights, squares of other data, or a number that means nothing.
    """
    if not isinstance(release, Release) or "weights" not in release.receipt or "weights_squared" in release.receipt:
        raise PlanError("release is not one of survey weights; give the source weights=rs.Weights(…).")
    most = float(release.receipt["weights_most"])
    ratio = most if ratio is None else ratio
    for name, value, largest in (("ratio", ratio, most), ("design_effect", design_effect, math.inf)):
        number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        if not number or not 0 < value <= largest:
            raise PlanError(
                f"{name}={named(value)} is not a positive number up to {largest:g}; leave it out if not known."
            )
    if squares is not None:
        _require_squares(release, squares)
    if clusters is not None and (clusters not in release.domain or release.domain[clusters].size < 2):
        raise PlanError(
            f"clusters={named(clusters)} is no attribute of two or more clusters; declare them in the domain."
        )
    return Weighted(release, float(ratio), float(design_effect), squares, *_strata(release, strata), clusters)


def squares_folder(release: Path) -> Path:
    """Where the squares of the weights are that a saved release is of."""
    return release.with_name(f"{release.name}-squares")


def _require_squares(release: Release, squares: Any) -> None:
    """Refuses squares of other weights, or of another domain."""
    said = ("weights", "weights_most", "weights_step", "ledger")
    if not isinstance(squares, Release) or "weights_squared" not in squares.receipt:
        raise PlanError("squares is not a release of squared weights; make both with rs.measure_survey.")
    if squares.domain != release.domain or any(squares.receipt.get(k) != release.receipt.get(k) for k in said):
        raise PlanError("squares is of other data, or of other weights, than release; make both with one ledger.")


def _strata(release: Release, strata: Any) -> tuple[str | None, tuple[int, ...]]:
    """The attribute, and how many respondents were drawn in each of its values."""
    if strata is None:
        return None, ()
    if not isinstance(strata, Mapping) or len(strata) != 1 or not set(strata) <= set(release.domain.names):
        raise PlanError(f"strata={named(strata)} names no attribute; say strata={{'region': {{'north': 400, …}}}}.")
    [(name, drawn)] = strata.items()
    labels = release.domain[name].labels
    if not isinstance(drawn, Mapping) or set(drawn) != set(labels):
        raise PlanError(f"strata: say how many respondents were drawn in each value of {name!r}.")
    for label in labels:
        if isinstance(drawn[label], bool) or not isinstance(drawn[label], int) or drawn[label] < 2:
            raise PlanError(
                f"strata: {kind_of(drawn[label])} is not a number of respondents above 1, without which there is no "
                "variance in a stratum; merge it with another."
            )
    return name, tuple(drawn[label] for label in labels)
