"""Empirical Bayes for one residual: how far its cells are from a model, judged by the noise and by each other.

A cell's deviation from the model is normal with mean 0 and a variance from a scale mixture: multiples θ of
`m^p m̄^(1−p)`, m the model's count of the cell and m̄ their mean, plus a few variances that do not look at the model, up
to the largest deviation seen. Or the cell is empty, its deviation −m: a copy, a function or a hierarchy leaves most
cells of a table empty. The mixture's weights are learned from the table (or begin from those of many tables), the
exponent p by marginal likelihood. Deviations far below the noise shrink to the model; deviations far above it are
kept, whatever the model says: a release without noise is returned as it is.

Reference: Stephens (2017), False discovery rates: a new deal (the scale mixture); Fay and Herriot (1979) (the use).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from residua.linalg.arrays import Floats

EXPONENTS = (0.5, 1.0, 1.5, 2.0)
_MULTIPLES = np.array([0.0, *(2.0**k for k in range(-16, 9))])
_SPIKES = np.array([0.0, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99])  # shares of cells that are as the model says
_SLAB = 8.0 ** -np.arange(4)  # of the largest squared deviation
_RARE = 0.1  # cells' worth of belief that a deviation has nothing to do with the model, for each such variance
_EMPTY = 0.02  # of the cells, to begin with
SCALES = len(_MULTIPLES) + len(_SLAB) + 1  # the last: an empty cell
_ROUNDS = 8
_MOST_CELLS = 2_000  # of a table that weights are learned from
_UNSEEN = 1e-12
_PRIOR = 2.0  # cells' worth of belief in the model
_POOLED = 50.0  # cells' worth of belief in what other tables say
_SEEN = 3.0  # cells that must have a variance of no model before tables are believed to have it


@dataclass(frozen=True, eq=False)
class Prior:
    """What is believed of the deviations of a table before it is seen.

    Args:
        exponent: p.
        weights: of the mixture, (scales,).
    """

    exponent: float
    weights: Floats


@dataclass(frozen=True, eq=False)
class Posterior:
    """What is believed of them once it was.

    Args:
        mean: of each cell's deviation.
        variance: of each cell's deviation, summed over the table.
        prior: the mixture that was learned.
        evidence: log marginal likelihood.
    """

    mean: Floats
    variance: float
    prior: Prior
    evidence: float


def _scales(model: Floats, exponent: float, largest: float, stride: int = 1) -> Floats:
    mean = max(float(model.mean()), 1e-300)
    m = np.maximum(model.ravel()[::stride], 1e-12 * mean)
    base = m**exponent * mean ** (1.0 - exponent)
    apart = np.broadcast_to(largest * np.append(_SLAB, 0.0), (len(m), len(_SLAB) + 1))
    return np.concatenate([base[:, None] * _MULTIPLES, apart], axis=1)


def _likelihood(deviation: Floats, model: Floats, scales: Floats, variance: Floats | float) -> tuple[Floats, float]:
    """The likelihood of each cell under each scale, relative to its largest, and the sum of the logs of those."""
    whole = scales + variance
    log = -0.5 * (np.log(whole) + (deviation**2)[:, None] / whole)
    log[:, -1] = -0.5 * (np.log(whole[:, -1]) + (deviation + model) ** 2 / whole[:, -1])
    top = log.max(axis=1, keepdims=True)
    return np.exp(log - top), float(top.sum())


def _learned(likelihood: Floats, cost: float = 0.0) -> Floats:
    """Weights of the scales: the likeliest two, nothing and one multiple, then a few steps of EM from there.

    Where noise hides all deviations the likelihood is flat, and EM from equal weights would stay near them. `cost` is
    the evidence that a doubling of the mean multiple must bring, in units of log 2.
    """
    count, models = len(likelihood), len(_MULTIPLES)
    first, others = likelihood[:, :1, None], likelihood[:, 1:models, None]
    evidence = np.log(_SPIKES * first + (1.0 - _SPIKES) * others + 1e-300).sum(axis=0)  # (multiples, spikes)
    times = (_MULTIPLES[1:] / _MULTIPLES[1])[:, None]
    evidence += _PRIOR * np.log(_SPIKES + (1.0 - _SPIKES) / (1.0 + times))
    evidence -= cost * np.log1p((1.0 - _SPIKES) * times)
    multiple, spike = np.unravel_index(int(evidence.argmax()), evidence.shape)
    belief = np.zeros(likelihood.shape[1])
    belief[models:] = _RARE
    belief[0] += _PRIOR
    weights = belief / count
    weights[-1] += _EMPTY
    weights[0] += _SPIKES[spike]
    weights[1 + multiple] += 1.0 - _SPIKES[spike]
    weights /= weights.sum()
    for _ in range(_ROUNDS):
        weights = (weights * (likelihood.T @ (1.0 / (likelihood @ weights))) + belief) / (count + belief.sum())
    return weights


def shrunk(deviation: Floats, model: Floats, variance: float, prior: Prior | None = None) -> Posterior:
    """The posterior of a table of deviations whose noise has this variance per cell."""
    squared = deviation.ravel() ** 2
    largest = float(squared.max())
    best: Posterior | None = None
    for exponent in EXPONENTS if prior is None else (prior.exponent,):
        v = _scales(model, exponent, largest)
        likelihood, tops = _likelihood(deviation.ravel(), model.ravel(), v, variance)
        if prior is None:
            weights = _learned(likelihood[:: max(1, len(likelihood) // _MOST_CELLS)])
        else:
            weights, belief = prior.weights, _POOLED * prior.weights
            for _ in range(2):
                step = weights * (likelihood.T @ (1.0 / (likelihood @ weights)))
                weights = (step + belief) / (len(squared) + _POOLED)
        fit = likelihood @ weights
        evidence = float(np.log(fit).sum()) + tops
        if best is None or evidence > best.evidence:
            share = likelihood * weights / fit[:, None]
            kept = v / (v + variance)
            empty = share[:, -1] * model.ravel()
            mean = np.einsum("cj,cj->c", share, kept) * deviation.ravel() - empty
            second = np.einsum("cj,cj->c", share, kept * variance + kept**2 * squared[:, None]) + empty * model.ravel()
            spread = float((second - mean**2).sum())
            best = Posterior(mean.reshape(deviation.shape), spread, Prior(exponent, weights), evidence)
    assert best is not None
    return best


def guarded(posterior: Posterior, deviation: Floats, variance: float, directions: int, doubt: float = 0.0) -> Posterior:
    """A posterior moved back to what was measured, as far as the distance between them is more than it should be.

    With D the squared distance, V the squared noise and C what posterior and noise have in common (by Tweedie's formula
    the sum of the posterior variances), `B + V − 2C = D` in expectation, with B the squared error of the posterior
    mean. The mixture of both whose error is least puts `1 − (V − C)/D` on what was measured: where the prior is right
    that is about 0, and where it is wrong it is what Stein's estimate would keep.

    Args:
        posterior: of the deviations.
        deviation: what was measured of them.
        variance: of the noise, alike in all directions.
        directions: in how many directions the residual can vary.
        doubt: how many standard deviations D may be too large by chance.
    """
    apart = float(((deviation - posterior.mean) ** 2).sum())
    noise = variance * directions
    own = max(noise - posterior.variance, 0.0) * max(1.0 + doubt * np.sqrt(2.0 / max(directions, 1)), 0.0)
    back = 1.0 - own / apart if apart > own else 0.0
    if back <= 0.0:
        return posterior
    mean = posterior.mean + back * (deviation - posterior.mean)
    spread = max(posterior.variance, noise - own * own / apart)
    return Posterior(mean, spread, posterior.prior, posterior.evidence)


def expected(model: Floats, prior: Prior) -> float:
    """The squared deviation that a prior expects of a table that was not measured, summed over its cells."""
    scales = _scales(model, prior.exponent, 0.0)
    return float((scales @ prior.weights).sum() + prior.weights[-1] * (model**2).sum())


def pooled_prior(tables: list[tuple[Floats, Floats, float]], most_cells: int = _MOST_CELLS) -> Prior:
    """The prior that many tables share: (deviation, model, noise variance per cell) each, a sample of its cells."""
    best: tuple[float, Prior] | None = None
    for exponent in EXPONENTS:
        parts, tops = [], 0.0
        for deviation, model, variance in tables:
            stride = max(1, deviation.size // most_cells)
            scales = _scales(model, exponent, float((deviation**2).max()), stride)
            likelihood, top = _likelihood(deviation.ravel()[::stride], model.ravel()[::stride], scales, variance)
            parts.append(likelihood)
            tops += top
        likelihood = np.concatenate(parts)
        weights = _learned(likelihood, cost=1.0)
        # A large variance that one cell of pure noise seems to have adds up over many tables.
        fewest = np.repeat([1.0, _SEEN], [len(_MULTIPLES), len(_SLAB) + 1])
        weights = np.where(weights * len(likelihood) < fewest, _UNSEEN, weights)
        weights /= weights.sum()
        evidence = float(np.log(likelihood @ weights).sum()) + tops
        if best is None or evidence > best[0]:
            best = evidence, Prior(exponent, weights)
    assert best is not None
    return best[1]
