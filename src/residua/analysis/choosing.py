"""Ways to choose among candidates that a session's looks are compared with; for public or synthetic data only.

None of these functions protects anything: they tell how often a rule would choose rightly, before it is used.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from residua.errors import PlanError, named
from residua.linalg.arrays import Floats, Integers


def thresholds(totals: ArrayLike, choices: ArrayLike) -> Floats:
    """The thresholds of a total at which the next candidate is chosen that make the fewest wrong choices.

    Args:
        totals: how many people each group has, (groups,).
        choices: the number of the right candidate for each, from 0, (groups,).

    Reference: common-mechanism, §7.5.2 (the rule of the Census Bureau's "Detailed DHC").

    Example:
        >>> thresholds([10, 20, 900, 1000, 5000], [0, 0, 1, 1, 2])
        array([ 900., 5000.])
    """
    counts, right = np.asarray(totals, dtype=np.float64), np.asarray(choices)
    if counts.ndim != 1 or counts.shape != right.shape or not len(counts) or (right < 0).any():
        raise PlanError("totals and choices must have one number for each group, and choices none below 0.")
    order = np.argsort(counts, kind="stable")
    cuts = []
    for level in range(1, int(right.max()) + 1):
        above = (right[order] >= level).astype(int)
        wrong = np.concatenate([[0], np.cumsum(above)]) + np.concatenate([np.cumsum((1 - above)[::-1])[::-1], [0]])
        cut = int(wrong.argmin())
        cuts.append(counts[order][cut] if cut < len(order) else math.inf)
    return np.array(cuts)


def counts_between(seen: ArrayLike, cuts: ArrayLike) -> Integers:
    """The candidate that each total leads to: how many thresholds it reaches, (groups,).

    Args:
        seen: what is known of each total, exact or noisy, (groups,).
        cuts: the thresholds.
    """
    return np.asarray((np.asarray(seen)[:, None] >= np.asarray(cuts)[None, :]).sum(axis=1))


def choice_probabilities(qualities: ArrayLike, epsilon: float, sensitivity: float = 1.0) -> Floats:
    """How likely the exponential mechanism chooses each candidate: in proportion to `exp(ε q / 2Δ)`, (…, candidates).

    Args:
        qualities: how good each candidate is on some data, (…, candidates).
        epsilon: what the choice costs, under pure DP.
        sensitivity: by how much one record changes a quality at most.

    Reference: common-mechanism, §3.5.2; McSherry and Talwar (2007).

    Example:
        >>> choice_probabilities([10.0, 12.0], epsilon=1.0).round(3)
        array([0.269, 0.731])
    """
    if not 0 < epsilon < math.inf or not 0 < sensitivity < math.inf:
        raise PlanError(f"epsilon={named(epsilon)} and sensitivity={named(sensitivity)} must be positive numbers.")
    scores = np.asarray(qualities, dtype=np.float64) * (epsilon / (2 * sensitivity))
    likely = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(likely / likely.sum(axis=-1, keepdims=True))
