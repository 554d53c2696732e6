"""Lists of the largest counts, with how sure their order is.

Every place of the list has an interval for its true rank: by how many others it is surely exceeded, and how many it
surely exceeds, all comparisons of one count at once (Šidák). So each rank interval holds with at least the confidence.

The probabilities are of another kind: what the release says of the truth if nothing else is known. The truth is then
normal around the estimates, with their covariances; `in_top` is the probability that a count is among the k largest,
and `order` that the whole list stands in its true order. They are found by simulation, from the published numbers.

Reference: Klein, Wright and Wieczorek (2020), for confidence intervals of ranks.
"""

from __future__ import annotations

from statistics import NormalDist

import numpy as np

from residua.errors import PlanError
from residua.linalg.arrays import Floats, Integers
from residua.published.streaming import of_one_type
from residua.quoting.intervals import Confidence, linear
from residua.quoting.question import Question
from residua.quoting.quoted import Quoted
from residua.quoting.terms import Axis, By, groups_of

_MOST_CELLS = 4096
_DRAWS, _NUMBERS = (1_000, 10_000), 4_000_000  # a probability is right to 0.005, of thousands of counts to 0.016


def top(question: Question, attributes: By, k: int) -> Quoted:
    """The k largest counts, largest first, with rank intervals and the probability of the order."""
    answering = question.answering
    groups = groups_of(answering.domain, attributes, question.where, argument="attributes")
    count = groups.count
    if isinstance(k, bool) or not isinstance(k, int) or not k >= 1:
        raise PlanError(f"k={k!r} is not a positive whole number; say how many places the list has.")
    if not groups.axes or count > _MOST_CELLS:
        raise PlanError(
            f"attributes: there are {count:,} counts to compare; a list is made of 2 to {_MOST_CELLS:,}, so name "
            "attributes, use where, or a coarser level."
        )
    term = groups.term()
    counts = linear(answering, term, question.level(min(k, count))).arranged(groups, term)
    flat = counts.estimate.ravel()
    chosen = np.argsort(-flat, kind="stable")[:k]
    crossing = tuple(groups.domain.position(name) for name in groups.names)
    covariance = answering.covariances(term, term, crossing)
    places: dict[str, list[object]] = {}
    remarks = []
    if covariance is not None:
        joint = covariance.reshape(count, count)  # pairs run in the order of `crossing`
        low, high = rank_intervals(flat, joint, question.level(1))
        in_top, order = _probabilities(flat, joint, chosen)
        places = {"rank_lower": low[chosen].tolist(), "rank_upper": high[chosen].tolist(), "in_top": in_top.tolist()}
        remarks.append(f"probability of this order: {order:.2f}")
    codes = np.unravel_index(chosen, groups.shape)
    keys = {name: of_one_type(labels)[at].tolist() for (name, labels), at in zip(groups.axes, codes, strict=True)}
    ranks: Axis = ("rank", tuple(range(1, len(chosen) + 1)))
    what = f"largest counts of {' × '.join(groups.names)}"
    listed = counts.mapped(lambda part: np.array(part.ravel()[chosen]))
    return question.quoted(what, listed, *remarks, axes=(ranks,), keys=keys, extra=places)


def rank_intervals(estimates: Floats, covariance: Floats, level: Confidence) -> tuple[Integers, Integers]:
    """The least and the largest rank of each count, (…, n), 1 for the largest count."""
    n = estimates.shape[-1]
    width = NormalDist().inv_cdf(0.5 + level.probability ** (1 / max(n - 1, 1)) / 2)
    variances = np.diagonal(covariance)
    spread = np.sqrt(np.maximum(variances[:, None] + variances[None, :] - 2 * covariance, 0.0))
    apart = estimates[..., None, :] - estimates[..., :, None]
    reach = np.where(np.eye(n, dtype=bool), np.inf, width * spread)
    return 1 + (apart > reach).sum(axis=-1), n - (apart < -reach).sum(axis=-1)


def _probabilities(estimates: Floats, covariance: Floats, chosen: Integers) -> tuple[Floats, float]:
    """Of each chosen count, to be among the k largest; and of the list, to be in the true order."""
    k = len(chosen)
    far = np.sqrt(np.maximum(np.diagonal(covariance), 0.0)).max() * 8
    near = np.flatnonzero(estimates >= estimates[chosen[-1]] - 2 * far)
    rest = near[~np.isin(near, chosen)]
    listed = np.concatenate([chosen, rest])
    joint = covariance[np.ix_(listed, listed)]
    tiny = 1e-9 * max(float(np.diagonal(joint).max()), 1e-300)  # a covariance matrix need not have full rank
    root = np.linalg.cholesky(joint + tiny * np.eye(len(listed)))
    # A numerical integral, not noise: the same list is said to be as sure every time.
    count = int(np.clip(_NUMBERS // len(listed), *_DRAWS))
    normal = np.random.default_rng(0).standard_normal((count, len(listed)))
    draws = estimates[listed] + normal @ root.T
    ahead = draws[:, k:].max(axis=1, initial=-np.inf)
    least = np.partition(draws, len(listed) - k, axis=1)[:, len(listed) - k]
    ordered = (np.diff(draws[:, :k], axis=1) < 0).all(axis=1) & (draws[:, k - 1] > ahead)
    return (draws[:, :k] >= least[:, None]).mean(axis=0), float(ordered.mean())
