"""Which marginals to measure: one set left out, added, merged or exchanged at a time, while that helps.

The descent of a split (`split`) drops sets but never takes one up, and ends in the nearest of many local optima. From
there: leave a set out, put two together into their joint table, exchange one for a set above or below it, or measure
one more; split epsilon again, and keep what is better, until nothing is. How many are looked at and tried is bounded
by the number of sets, so that thousands of them take seconds and no more memory than a few splits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import blake2b

import numpy as np

from residua.linalg.arrays import Booleans, Floats, Integers
from residua.plans.search.split import Split

Sets = frozenset[int]
_GAIN = 1e-4  # relative: what is worth an exchange
_FEW_ROUNDS, _ROUNDS = 12, 60  # of descent after each, and after those that are kept
_MOST_TRIES = 250
_MOST_WORK = 40_000  # sets of the lattice times tries: beyond, planning would take more than seconds
_MOST_PAIRS = 300_000  # pairs of sets looked at for each kind of exchange: all of them up to some hundred sets


def exchanged(split: Split, shares: Floats, told: Callable[[float], None] | None = None) -> Floats:
    """A split at least as good: no single exchange improves it, or as many were tried as time allows.

    Args:
        split: what it is judged by.
        shares: of every set of the lattice, (sets,).
        told: called after every try with the least loss so far.
    """
    tries = min(_MOST_WORK // len(split.lattice), _MOST_TRIES)
    rows = [frozenset(row) for row in split.lattice]
    best, least = shares, split.loss(shares)
    seen: set[bytes] = set()
    found = True
    while found:
        found = False
        used = best > 0
        even = float(best.sum()) / int(used.sum())
        for out, into in _exchanges(split, used, rows):
            trial = best.copy()
            trial[out] = 0.0
            trial[into] = max([even, *best[out].tolist()])
            chosen = blake2b(np.packbits(trial > 0).tobytes(), digest_size=16).digest()
            if chosen in seen:
                continue
            seen.add(chosen)
            if not tries:
                return best
            tries -= 1
            trial = split.improved(trial, _FEW_ROUNDS)
            found = split.loss(trial) < least * (1 - _GAIN)
            if found:
                best = split.improved(trial, _ROUNDS)
                least = split.loss(best)
            if told:
                told(least)
            if found:
                break
    return best


def _exchanges(split: Split, used: Booleans, rows: list[Sets]) -> Iterator[tuple[list[int], list[int]]]:
    """What to leave out, and what to measure instead, by number; every asked set can be answered afterwards."""
    known = {row: number for number, row in enumerate(rows)}
    chosen = np.flatnonzero(used).tolist()
    alone = _alone(split, used)
    for one in chosen:
        if not alone[one] and len(chosen) > 1:
            yield [one], []
    pairs = 0
    for place, one in enumerate(chosen):
        for other in chosen[:place]:
            joint = known.get(rows[one] | rows[other])
            if joint is not None:
                yield [one, other], [joint]
        pairs += place
        if pairs > _MOST_PAIRS:
            break
    unused = np.flatnonzero(~used).tolist()
    for place, one in enumerate(chosen):
        if place * len(unused) > _MOST_PAIRS:
            break
        for other in unused:
            if rows[one] < rows[other] or (rows[other] < rows[one] and alone[other] == alone[one]):
                yield [one], [other]
    for other in unused:
        yield [], [other]


def _alone(split: Split, used: Booleans) -> Integers:
    """How many asked sets below each set are answered by one measured set alone, (sets,).

    A measured set can be left out if there are none; or exchanged for one below it that has them all.
    """
    ones = np.ones(len(split.sizes))
    covering = split.lattice.sum_over_supersets(used.astype(np.float64), ones)
    asked = np.zeros(len(used))
    asked[split.numbers] = covering[split.numbers] < 1.5
    return np.rint(split.lattice.sum_over_subsets(asked, ones)).astype(np.int64)
