"""Which of many unknown values are found at equal (epsilon, delta): our rule beside noise and a threshold.

10,000 values, the n-th held by 100,000/n records. The rules are stated here in our own words from what is published:
two-sided geometric noise and the least threshold whose exact tail is at most delta, and normal
noise of the exact Gaussian curve at half of delta with a threshold for the other half. Expected numbers, no
simulation; a value that one record holds is released with probability at most delta by each.

python -m benchmarks.discovery
"""

from __future__ import annotations

import math
from fractions import Fraction
from statistics import NormalDist

import numpy as np

import residua as rs
from benchmarks.show import print_rows
from residua.privacy.selection import ONE, release_chances

HELD = np.maximum(100_000 // np.arange(1, 10_001), 1)


def ours(price: Fraction, delta: float, *, pure: bool) -> float:
    """By the optimal rule at this price."""
    chances = release_chances(price, Fraction(delta), 1, pure=pure, once=True)
    table = np.array([float(Fraction(chance, ONE)) for chance in chances])
    return float(table[np.minimum(HELD, len(table)) - 1].sum())


def geometric(epsilon: float, delta: float) -> float:
    """By two-sided geometric noise and its exact threshold."""
    ratio = math.exp(-epsilon)
    threshold = 1 + math.ceil(math.log(delta * (1 + ratio)) / -epsilon)  # P(noise ≥ t) = ratio^t / (1 + ratio), t > 0
    beyond = (threshold - HELD).astype(float)
    tail = np.where(beyond > 0, ratio ** np.maximum(beyond, 0), 1 + ratio - ratio ** (1 - np.minimum(beyond, 0)))
    return float((tail / (1 + ratio)).sum())


def normal(epsilon: float, delta: float) -> float:
    """By normal noise and a threshold, each for half of delta."""
    scale = 1 / math.sqrt(rs.ApproxDP(epsilon, delta / 2).pcost_allowed())
    threshold = 1 + scale * NormalDist().inv_cdf(1 - delta / 2)
    return sum(1 - NormalDist().cdf((threshold - held) / scale) for held in HELD.tolist())


def main() -> None:
    """Prints the table."""
    rows = []
    for epsilon in (0.1, 0.5, 1.0, 2.0):
        for delta in (1e-6, 1e-9):
            gaussian = rs.ApproxDP(epsilon, delta / 2).pcost_allowed()
            figures = (
                ours(Fraction(epsilon), delta, pure=True),
                geometric(epsilon, delta),
                ours(gaussian, delta / 2, pure=False),
                normal(epsilon, delta),
            )
            rows.append([f"{epsilon:g}", f"{delta:g}", *(f"{figure:,.0f}" for figure in figures)])
    head = [
        "epsilon",
        "delta",
        "ours, Laplace currency",
        "geometric and threshold",
        "ours, Gaussian",
        "normal, threshold",
    ]
    print_rows("Values found, of 10,000", head, rows)


if __name__ == "__main__":
    main()
