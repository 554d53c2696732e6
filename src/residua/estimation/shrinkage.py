"""Empirical Bayes for one residual: how far its cells are from a model, judged by the noise and by each other.

A cell's deviation from the model is normal with mean 0 and a variance from a scale mixture: multiples of the model's
count of the cell, plus a few variances that do not look at the model, up to the largest deviation seen. Or the cell is
empty, its deviation minus the count. The mixture's weights are learned from the table (or begin from those of many
tables). Deviations far below the noise shrink to the model; deviations far above it are kept, whatever the model says:
a release without noise is returned as it is. Where that explains a table far better, one attribute is taken to be a
function of the others, as a copy, a level of a hierarchy or a sum is (`decided`).

Reference: Stephens (2017), False discovery rates: a new deal (the scale mixture); Fay and Herriot (1979) (the use).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from residua.linalg.arrays import Booleans, Floats

_MULTIPLES = np.array([0.0, *(2.0**k for k in range(-16, 9))])
_SPIKES = np.array([0.0, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99])  # shares of cells that are as the model says
_SLAB = 8.0 ** -np.arange(4)  # of the largest squared deviation
_RARE = 0.1  # cells' worth of belief that a deviation has nothing to do with the model, for each such variance
_EMPTY = 0.02  # of the cells, to begin with
SCALES = len(_MULTIPLES) + len(_SLAB) + 1  # the last: an empty cell
_ROUNDS = 8
_MOST_CELLS = 2_000  # of a table that weights are learned from
_AT_ONCE = 2**14  # cells
_FAR_BETTER = 10.0  # evidence that an attribute is decided by others must bring
_TOGETHER, _LEAST = 8, 1e-35  # likelihoods that are multiplied before a logarithm is taken; and each of them
_UNSEEN, _UNHEARD = 1e-12, 1e-11  # weights that stand for none, and those that no cell is asked about
_PRIOR = 2.0  # cells' worth of belief in the model
_POOLED = 50.0  # cells' worth of belief in what other tables say
_EVERY = np.ones(SCALES, dtype=bool)
_SEEN = 3.0  # cells that must have a variance of no model before tables are believed to have it


Prior = Floats  # what is believed of deviations before they are seen: the weights of the mixture, (scales,)


@dataclass(frozen=True, eq=False)
class Posterior:
    """What is believed of them once it was.

    Args:
        mean: of each cell's deviation.
        variance: of each cell's deviation, summed over the table.
        prior: the mixture that was learned.
        evidence: log marginal likelihood.
        decided: whether one attribute is taken to be decided by the others.
    """

    mean: Floats
    variance: float
    prior: Prior
    evidence: float
    decided: bool = False


def _scales(model: Floats, largest: float, mean: float, live: Booleans = _EVERY) -> Floats:
    """The variance of a deviation under each scale (of those that live), (cells, scales)."""
    multiples, slab = _MULTIPLES[live[: len(_MULTIPLES)]], np.append(_SLAB, 0.0)[live[len(_MULTIPLES) :]]
    base = np.maximum(model, 1e-12 * mean)
    apart = np.broadcast_to(largest * slab, (len(base), len(slab)))
    return np.concatenate([base[:, None] * multiples, apart], axis=1)


def _likelihood(deviation: Floats, model: Floats, scales: Floats, variance: float) -> tuple[Floats, float]:
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
    first, others, blocks = likelihood[:, :1], likelihood[:, 1:models], np.arange(0, count, _TOGETHER)
    evidence = np.empty((models - 1, len(_SPIKES)))
    for number, spike in enumerate(_SPIKES.tolist()):  # products of likelihoods: fewer logarithms
        mixed = np.maximum(spike * first + (1.0 - spike) * others, _LEAST)
        evidence[:, number] = np.log(np.multiply.reduceat(mixed, blocks, axis=0)).sum(axis=0)
    times = (_MULTIPLES[1:] / _MULTIPLES[1])[:, None]
    evidence += _PRIOR * np.log(_SPIKES + (1.0 - _SPIKES) / (1.0 + times))
    evidence -= cost * np.log1p((1.0 - _SPIKES) * times)
    multiple, nothing = np.unravel_index(int(evidence.argmax()), evidence.shape)
    belief = np.zeros(likelihood.shape[1])
    belief[models:] = _RARE
    belief[0] += _PRIOR
    weights = belief / count
    weights[-1] += _EMPTY
    weights[0] += _SPIKES[nothing]
    weights[1 + multiple] += 1.0 - _SPIKES[nothing]
    weights /= weights.sum()
    return _refined(likelihood, weights, belief, _ROUNDS)


def _refined(likelihood: Floats, weights: Floats, belief: Floats, rounds: int) -> Floats:
    """Weights of the scales after some rounds of EM, with so many cells' worth of belief in each."""
    for _ in range(rounds):
        weights = (weights * (likelihood.T @ (1.0 / (likelihood @ weights))) + belief) / (
            len(likelihood) + belief.sum()
        )
    return weights


def shrunk(deviation: Floats, model: Floats, variance: float, prior: Prior | None = None) -> Posterior:
    """The posterior of a table of deviations whose noise has this variance per cell."""
    own, expected, mean = deviation.ravel(), model.ravel(), max(float(model.mean()), 1e-300)
    largest, step = float((own**2).max()), max(1, len(own) // _MOST_CELLS)
    likelihood, tops = _likelihood(own[::step], expected[::step], _scales(expected[::step], largest, mean), variance)
    weights = _learned(likelihood) if prior is None else _refined(likelihood, prior, _POOLED * prior, 2)
    evidence = (float(np.log(likelihood @ weights).sum()) + tops) * len(own) / len(likelihood)
    means, spread = np.empty(len(own)), 0.0
    live = weights > _UNHEARD
    live[-1] = True  # the empty cell, which stands last
    for start in range(0, len(own), _AT_ONCE):
        at = slice(start, start + _AT_ONCE)
        scales = _scales(expected[at], largest, mean, live)
        likelihood, _ = _likelihood(own[at], expected[at], scales, variance)
        share = likelihood * weights[live]
        share /= share.sum(axis=1, keepdims=True)
        kept = scales / (scales + variance)
        empty = share[:, -1] * expected[at]
        means[at] = np.einsum("cj,cj->c", share, kept) * own[at] - empty
        second = np.einsum("cj,cj->c", share, kept * variance + kept**2 * (own[at] ** 2)[:, None])
        spread += float((second + empty * expected[at] - means[at] ** 2).sum())
    return Posterior(means.reshape(deviation.shape), spread, weights, evidence)


def decided(posterior: Posterior, deviation: Floats, model: Floats, variance: float) -> Posterior:
    """The posterior where one attribute is a function of the others, if that explains the measurement far better.

    A copy, a hierarchy, a sum: all records of a cell of the other attributes have one value, which one with the
    probabilities of the model before and with their posterior after the measurement.
    """
    best = posterior
    for axis in range(deviation.ndim) if variance > 0 else ():
        own, table = np.moveaxis(model, axis, -1), np.moveaxis(model + deviation, axis, -1)
        sums = own.sum(axis=-1, keepdims=True)
        with np.errstate(divide="ignore", invalid="ignore"):
            log = np.where(own > 0, np.log(own / sums), -np.inf) + sums * (table - sums / 2.0) / variance
        log = np.where(sums > 0, log, 0.0)
        top = log.max(axis=-1, keepdims=True)
        whole = top + np.log(np.exp(log - top).sum(axis=-1, keepdims=True))
        evidence = float(whole[sums > 0].sum() - 0.5 * ((table**2).sum() / variance + table.size * np.log(variance)))
        if evidence > max(best.evidence, posterior.evidence + _FAR_BETTER):
            share = np.exp(log - whole)
            mean, spread = np.moveaxis(share * sums - own, -1, axis), float((share * (1.0 - share) * sums**2).sum())
            if spread < posterior.variance:  # else noise leaves open which value it is
                best = Posterior(mean, spread, posterior.prior, evidence, True)
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
    return replace(posterior, mean=mean, variance=max(posterior.variance, noise - own * own / apart))


def expected(model: Floats, prior: Prior) -> float:
    """The squared deviation that a prior expects of a table that was not measured, summed over its cells."""
    square, mean = 0.0, max(float(model.mean()), 1e-300)
    for start in range(0, model.size, _AT_ONCE):
        part = model.ravel()[start : start + _AT_ONCE]
        own = _scales(part, 0.0, mean) @ prior
        square += float((own + prior[-1] * part**2).sum())
    return square


def pooled_prior(tables: Iterable[tuple[Floats, Floats, float]], most_cells: int = _MOST_CELLS) -> Prior | None:
    """The prior that many tables share: (deviation, model, noise variance per cell) each, a sample of its cells.

    None if there is no table. One table is looked at after the other, so that a generator need not hold them all.
    """
    parts = []
    for deviation, model, variance in tables:
        stride = max(1, deviation.size // most_cells)
        mean, part = max(float(model.mean()), 1e-300), model.ravel()[::stride]
        scales = _scales(part, float((deviation**2).max()), mean)
        parts.append(_likelihood(deviation.ravel()[::stride], part, scales, variance)[0])
    if not parts:
        return None
    likelihood = np.concatenate(parts)
    weights = _learned(likelihood, cost=1.0)
    # A large variance that one cell of pure noise seems to have adds up over many tables.
    fewest = np.repeat([1.0, _SEEN], [len(_MULTIPLES), len(_SLAB) + 1])
    weights = np.where(weights * len(likelihood) < fewest, _UNSEEN, weights)
    return np.asarray(weights / weights.sum())
