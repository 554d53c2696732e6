"""How wide an interval must be: for one number, or for many at once."""

from __future__ import annotations

import math
from statistics import NormalDist

from residua.errors import PlanError


def width(confidence: float, together: float = 1) -> float:
    """How many standard deviations either side of an estimate the truth lies within, with this confidence.

    For `together` numbers at once the chance that all intervals hold is at least `confidence`, whatever their
    correlations.

    Guarantee: exact for one normal estimate; for several, at least the confidence stated.

    Reference: Šidák (1967), for centred normal vectors: `P(all |X_i| ≤ c_i) ≥ Π P(|X_i| ≤ c_i)`.

    Example:
        >>> round(width(0.95), 4), round(width(0.95, together=10), 4)
        (1.96, 2.7996)
    """
    check_confidence(confidence)
    # 1 − confidence^(1/m), without losing digits when m is large.
    miss = -math.expm1(math.log(confidence) / together)
    return -NormalDist().inv_cdf(miss / 2)


def check_confidence(confidence: float) -> None:
    """Refuses what is no probability.

    Raises:
        PlanError: it is not between 0 and 1.
    """
    if isinstance(confidence, bool) or not isinstance(confidence, int | float) or not 0 < confidence < 1:
        raise PlanError(f"confidence={confidence!r} is not a probability between 0 and 1, such as 0.95.")
