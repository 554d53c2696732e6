"""Where more budget lowers the error of estimates most: curves of the error by precision, and precisions for all sets.

Once a residual was looked at, each of its cells has a posterior over the variances of its deviation from the model. A
cell whose deviation has variance v, measured with noise of variance s², errs by `√(2/π · v s² / (v + s²))` on average.
The sum over cells and scales is a curve in s², which is all that spending needs to know of a table. Singles and pairs
are judged by what was measured of them. Larger tables are judged by their scores where there are some,
`‖m_A − model_A‖₁` with noise: what is left of a score once the errors of its margins are taken away is the error that
measuring the table's own interaction would remove; else by what was measured of the interactions of their size.

A table's error is made of those of its interactions, `E_A² = Σ_{S⊆A} e_S(τ_S)²`: an error of a pair is spread over
further attributes as records are, which keeps its sum of absolute values. The least `Σ_A w_A E_A` under
`Σ_S κ_S τ_S = pcost` has `κ_S τ_S ∝ q_S e_S² Σ_{A⊇S} w_A / E_A` wherever more is spent than was, with q the slope
of e_S on double logarithmic paper: a fixed point that damped rounds find in a few steps. Sets may be bound to rise
together, in given proportions: then it is their sums that are proportional.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from residua.estimation.fit import Fitted, Progress, fitted
from residua.estimation.observed import Members, Observed, Public
from residua.estimation.shrinkage import Prior, responsibilities, shrunk
from residua.estimation.tables import EstimatedTables
from residua.linalg.arrays import Booleans, Floats
from residua.linalg.lattice import SetFamily

FACTORS = 4.0 ** np.arange(9)  # of the precision that it was measured with
_MOST_CELLS = 1_500
MEAN = math.sqrt(2.0 / math.pi)  # of the absolute value of a standard normal


def error_curve(deviation: Floats, model: Floats, variance: float, prior: Prior) -> Floats:
    """The expected sum of absolute errors at each multiple of the precision, (factors,).

    Args:
        deviation: what was measured, minus the model.
        model: the model's table.
        variance: of the noise of a cell.
        prior: what is believed of the deviations.
    """
    stride = max(1, deviation.size // _MOST_CELLS)
    scales, share = responsibilities(deviation, model, variance, prior, stride)
    noise = variance / FACTORS
    errors = [float((share * np.sqrt(scales * s / (scales + s))).sum()) for s in noise]
    return MEAN * deviation.size / len(share) * np.array(errors)


def at_precisions(curves: Floats, measured: Floats, wanted: Floats) -> tuple[Floats, Floats]:
    """The error of each set at a precision no less than measured, and how it falls: `−d log error / d log τ`.

    Args:
        curves: one per set, (sets, factors).
        measured: the precision at the first factor, (sets,).
        wanted: (sets,).
    """
    step = math.log(FACTORS[1])
    at = np.clip(np.log(np.maximum(wanted / measured, 1.0)) / step, 0.0, None)
    left = np.minimum(at.astype(np.int64), len(FACTORS) - 2)
    logs = np.log(np.maximum(curves, 1e-300))
    rows = np.arange(len(curves))
    low, high = logs[rows, left], logs[rows, left + 1]
    slopes = np.clip((low - high) / step, 0.0, 0.5)
    inside = np.minimum(at - left, 1.0)
    beyond = np.maximum(at - left - 1.0, 0.0)  # past the last factor the error falls as noise does
    errors = np.exp(low - slopes * step * inside - 0.5 * step * beyond)
    # Between two points the slope moves from one piece to the next, so that rounds settle.
    after = np.clip((logs[rows, left + 1] - logs[rows, np.minimum(left + 2, len(FACTORS) - 1)]) / step, 0.0, 0.5)
    after = np.where(left + 2 < len(FACTORS), after, 0.5)
    return errors, (1.0 - inside) * slopes + inside * after


_ROUNDS = 60
_LEAST = 1e-12


@dataclass(frozen=True, eq=False)
class Learned:
    """What a look says of every set of a family.

    Args:
        lattice: the family.
        measured: how precisely each was measured, τ_S, 0 where it was not, (sets,).
        reference: the precision at which each curve begins, above 0 where there is one, (sets,).
        curves: expected errors at multiples of that precision, (sets, factors); 0 where nothing is to be learned.
    """

    lattice: SetFamily
    measured: Floats
    reference: Floats
    curves: Floats


def spend(
    learned: Learned,
    weights: Floats,
    costs: Floats,
    pcost: float,
    together: Booleans | None = None,
    proportions: Floats | None = None,
) -> Floats:
    """The precisions that make the expected error least, none below what was measured, (sets,).

    Args:
        learned: what a look said.
        weights: w_A, of the tables asked for, (sets,).
        costs: κ_S, what a precision of 1 costs, (sets,).
        pcost: what all may cost.
        together: which sets rise together, (sets,); none if left out.
        proportions: in which proportions, precisions of those sets, (sets,).
    """
    lattice = learned.lattice
    live = (learned.reference > 0) & (costs > 0)
    floor = learned.measured * costs
    if pcost <= float(floor.sum()) or not live.any():
        return np.array(learned.measured)
    bound = np.zeros(len(lattice), dtype=bool) if together is None else together & live
    shape = np.where(bound, (np.zeros(len(lattice)) if proportions is None else proportions) * costs, 0.0)
    shape /= max(float(shape.sum()), 1e-300)
    ones, safe = np.ones(lattice.attributes), np.where(live, learned.reference, 1.0)
    price = np.where(costs > 0, costs, 1.0)
    spent = _filled(np.where(live, 1.0, 0.0), floor, pcost)
    for number in range(_ROUNDS):
        errors, slopes = at_precisions(learned.curves, safe, spent / price)
        errors = np.where(live, errors, 0.0)
        whole = np.sqrt(np.maximum(lattice.sum_over_subsets(errors**2, ones), _LEAST))
        pull = np.where(live, slopes * errors**2 * lattice.sum_over_supersets(weights / whole, ones), 0.0)
        pull = np.where(bound, shape * float(pull[bound].sum()), pull)
        wanted = _filled(pull, floor, pcost)
        blend = 1.0 if number == 0 else 0.5 if number < _ROUNDS // 2 else 0.25
        spent = _filled(wanted**blend * spent ** (1.0 - blend), floor, pcost)
    return np.asarray(np.maximum(spent / price, learned.measured))


def blended(first: Floats, second: Floats, share: float, measured: Floats, costs: Floats) -> Floats:
    """Precisions between two ways of spending the same, none below what was measured: a geometric mean, filled up."""
    whole = float(first @ costs)
    mean = np.where((first > 0) & (second > 0), first ** (1.0 - share) * second**share, first)
    return np.asarray(_filled(mean * costs, measured * costs, whole) / np.where(costs > 0, costs, 1.0))


def _filled(shares: Floats, floor: Floats, whole: float) -> Floats:
    """`max(c · shares, floor)` with c such that it adds up to the whole."""
    ratio = np.divide(floor, shares, out=np.full_like(floor, np.inf), where=shares > 0)
    order = np.argsort(ratio, kind="stable")
    # With the k smallest ratios above their floor: c · Σ_k shares + Σ_rest floor = whole.
    above, rest = np.cumsum(shares[order]), float(floor.sum()) - np.cumsum(floor[order])
    with np.errstate(divide="ignore", invalid="ignore"):
        c = (whole - rest) / above
    fits = np.flatnonzero(np.isfinite(c) & (c >= ratio[order]))
    return np.asarray(np.maximum(c[fits[-1]] * shares, floor)) if len(fits) else np.array(floor)


_MOST_TABLES = 600  # of three or more attributes that are looked at one by one; the others are taken as their mean
_NOISIEST = 32.0  # how far above what a score says the noise of a table is where its curve begins


def learned(
    observed: Observed,
    public: Public,
    total: float,
    total_variance: float,
    lattice: SetFamily,
    progress: Progress | None = None,
) -> tuple[Learned, Fitted]:
    """What was measured says of every set of a family, and the tables of singles and pairs that it was said beside."""
    curves, measured = np.zeros((len(lattice), len(FACTORS))), np.zeros(len(lattice))
    numbers = {members: number for number, members in enumerate(lattice)}
    for members, number in numbers.items():
        variance = observed.variance(members) if members else total_variance
        measured[number] = 1.0 / variance if 0 < variance < math.inf else 0.0
    curves[0] = MEAN * math.sqrt(total_variance) / np.sqrt(FACTORS)

    def seen(members: Members, deviation: Floats, model: Floats, prior: Prior) -> None:
        if members in numbers:
            curves[numbers[members]] = error_curve(deviation, model, observed.cell_variance(members), prior)

    fit = fitted(observed, public, total, total_variance, progress, seen=seen)
    tables = EstimatedTables(observed, public, fit)
    for size in range(3, len(lattice.levels)):
        prior = tables.prior(size)
        if prior is None:
            continue
        fit.priors[size] = prior
        first, last = int(lattice.offsets[size]), int(lattice.offsets[size + 1])
        chosen = np.flatnonzero(measured[first:last] > 0) + first
        sample = chosen[:: max(1, math.ceil(len(chosen) / _MOST_TABLES))]
        for number in sample.tolist():
            members = lattice.members(number)
            deviation, model = tables.deviation(members)
            posterior = shrunk(deviation, model, observed.cell_variance(members), prior)
            seen(members, deviation, model, posterior.prior)
        others = np.setdiff1d(chosen, sample)
        if len(others):
            curves[others] = curves[sample].mean(axis=0)
    return Learned(lattice, measured, np.array(measured), curves), fit


def with_scores(
    known: Learned, values: Mapping[Members, float], stddev: float, cells: Floats, costs: Floats
) -> Learned:
    """What scores of larger tables add: each says what measuring the table's own interaction could remove.

    Args:
        known: what was measured says.
        values: the scores.
        stddev: of their noise; a score is believed but for one of these.
        cells: how many cells each set has, (sets,).
        costs: κ of each set, (sets,).
    """
    lattice = known.lattice
    below = lattice.sum_over_subsets(known.curves[:, 0] ** 2, np.ones(lattice.attributes))
    reference, curves = known.reference.copy(), known.curves.copy()
    for members, value in values.items():
        number = lattice.number(members)
        own = below[number] - curves[number, 0] ** 2
        apart = math.sqrt(max(max(value - stddev, 0.0) ** 2 - own, 0.0))
        reference[number] = 0.0
        if apart > 0 and costs[number] > 0:
            # Noise of deviation σ adds MEAN σ √κ per cell; the curve begins where that is many times the deviation.
            one = MEAN * cells[number] * math.sqrt(costs[number])
            reference[number] = max((one / (_NOISIEST * apart)) ** 2, known.measured[number])
            noise = one / np.sqrt(reference[number] * FACTORS)
            # Noise above the deviation hides it; only below that is something gained.
            curves[number] = apart * noise / (apart**4 + noise**4) ** 0.25
    return Learned(lattice, known.measured, reference, curves)
