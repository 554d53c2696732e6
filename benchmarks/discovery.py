"""Which of many unknown values are found at equal (epsilon, delta): our rule beside noise and a threshold.

10,000 values, the n-th held by 100,000/n records. The rules are stated here in our own words from what is published:
two-sided geometric noise and the least threshold whose exact tail is at most delta, and normal
noise of the exact Gaussian curve at half of delta with a threshold for the other half. Expected numbers, no
simulation; a value that one record holds is released with probability at most delta by each. The last is what dpsynth
does for single records.

For persons who hold up to ten values each, dpsynth describes DP-SIPS (Swanberg, Desfontaines and Haney 2023,
arXiv:2301.01998): in three rounds, with more of the budget from round to round, each person supports some of the values
that were not found yet, with weights whose squares add up to 1; sums get normal noise, and a threshold that new values
of one person pass with probability at most delta. Means of five simulations, beside expected numbers of ours, of one
and of five values of each person chosen at random.

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


PERSONS, MOST, VALUES = 20_000, 10, 20_000
ROUNDS, FACTOR = 3, 0.3  # as dpsynth has them


def holdings(random: np.random.Generator) -> np.ndarray:
    """Who holds what, (pairs, 2): persons with 1 to 10 values, the n-th value as frequent as 1/n."""
    persons = np.repeat(np.arange(PERSONS), random.integers(1, MOST + 1, PERSONS))
    chance = 1 / np.arange(1, VALUES + 1)
    return np.unique(np.stack([persons, random.choice(VALUES, len(persons), p=chance / chance.sum())], axis=1), axis=0)


def some_of_each(pairs: np.ndarray, most: int, random: np.random.Generator) -> np.ndarray:
    """At most so many values of each person, chosen at random."""
    mixed = pairs[random.permutation(len(pairs))]
    mixed = mixed[np.argsort(mixed[:, 0], kind="stable")]
    _, first, inverse = np.unique(mixed[:, 0], return_index=True, return_inverse=True)
    return mixed[np.arange(len(mixed)) - first[inverse.ravel()] < most]


def in_rounds(pairs: np.ndarray, pcost: float, delta: float, most: int, random: np.random.Generator) -> int:
    """How many values DP-SIPS finds."""
    shares = FACTOR ** np.arange(ROUNDS)[::-1]
    found = np.zeros(VALUES, dtype=bool)
    for share in shares / shares.sum():
        kept = some_of_each(pairs[~found[pairs[:, 1]]], most, random)
        weights = 1 / np.sqrt(np.bincount(kept[:, 0], minlength=PERSONS))[kept[:, 0]]
        sums, scale = np.bincount(kept[:, 1], weights, VALUES), 1 / math.sqrt(pcost * share)
        k = np.arange(1, most + 1)
        miss = [NormalDist().inv_cdf((1 - delta * share) ** (1 / each)) for each in k.tolist()]
        threshold = float((1 / np.sqrt(k) + scale * np.array(miss)).max())
        held = np.bincount(kept[:, 1], minlength=VALUES) > 0
        found |= held & (sums + scale * random.standard_normal(VALUES) > threshold)
    return int(found.sum())


def of_persons(pairs: np.ndarray, pcost: Fraction, delta: float, most: int, random: np.random.Generator) -> float:
    """How many values our rule finds, of at most so many of each person."""
    chances = release_chances(pcost, Fraction(delta), most, pure=False, once=True)
    table = np.array([0.0, *(float(Fraction(chance, ONE)) for chance in chances)])
    held = np.bincount(some_of_each(pairs, most, random)[:, 1], minlength=VALUES)
    return float(table[np.minimum(held, len(table) - 1)].sum())


def persons() -> None:
    """Prints the table of persons with several values."""
    random, rows = np.random.default_rng(1), []
    pairs = holdings(random)
    for epsilon in (0.5, 1.0, 2.0):
        for delta in (1e-6, 1e-9):
            pcost = rs.ApproxDP(epsilon, delta / 2).pcost_allowed()
            ours_of = [of_persons(pairs, pcost, delta / 2, most, random) for most in (1, 5, MOST)]
            rounds = [
                np.mean([in_rounds(pairs, float(pcost), delta / 2, most, random) for _ in range(5)])
                for most in (1, MOST)
            ]
            rows.append([f"{epsilon:g}", f"{delta:g}", *(f"{figure:,.0f}" for figure in (*ours_of, *rounds))])
    head = ["epsilon", "delta", "ours, 1 of each", "ours, 5", "ours, 10", "DP-SIPS, 1 of each a round", "DP-SIPS, 10"]
    print_rows(f"Values found, of {len(np.unique(pairs[:, 1])):,} that {PERSONS:,} persons hold", head, rows)


def main() -> None:
    """Prints the tables."""
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
        "normal, threshold (dpsynth)",
    ]
    print_rows("Values found, of 10,000", head, rows)
    persons()


if __name__ == "__main__":
    main()
