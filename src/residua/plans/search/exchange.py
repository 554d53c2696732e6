"""Improving the choice of measured marginals, one exchange at a time.

A descent of the split (`split.improved`) drops sets but never takes one up, and ends in the nearest of many local
optima. From there: leave a set out, put two together into their joint table, exchange one for a set above or below
it, or measure one more; split epsilon again, and keep what is better, until nothing is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from residua.linalg.arrays import Floats
from residua.plans.search.split import Split

Sets = frozenset[int]
_GAIN = 1e-4  # relative: what is worth an exchange
_FEW_ROUNDS, _ROUNDS = 12, 60  # of descent after each, and after those that are kept
_MOST_TRIES, _MOST_SEEN = 250, 4000
_MOST_WORK = 40_000  # sets of the lattice times tries: beyond, planning would take more than seconds


def exchanged(split: Split, shares: Floats, told: Callable[[float], None] | None = None) -> Floats:
    """A split at least as good: no single exchange improves it, or as many were tried as time allows.

    Args:
        split: what it is judged by.
        shares: of every set of the lattice, (sets,).
        told: called after every try with the least loss so far.
    """
    tries = min(_MOST_WORK // len(split.lattice), _MOST_TRIES)
    rows = [frozenset(row) for row in split.lattice]
    numbers = {row: number for number, row in enumerate(rows)}
    best, least = shares, split.loss(shares)
    seen: set[frozenset[int]] = set()
    found = True
    while found:
        found = False
        used = np.flatnonzero(best > 0)
        for out, into in _exchanges([rows[i] for i in used], rows):
            trial = best.copy()
            trial[[numbers[row] for row in out]] = 0.0
            trial[[numbers[row] for row in into]] = max([best.sum() / len(used), *(best[numbers[row]] for row in out)])
            chosen = frozenset(np.flatnonzero(trial > 0).tolist())
            if chosen in seen or not chosen:
                continue
            seen.add(chosen)
            if not tries or len(seen) > _MOST_SEEN:
                return best
            if not np.isfinite(split.loss(trial)):
                continue
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


def _exchanges(used: list[Sets], rows: list[Sets]) -> Iterator[tuple[list[Sets], list[Sets]]]:
    """What to leave out, and what to measure instead."""
    known = set(rows)
    for one in used:
        yield [one], []
    for place, one in enumerate(used):
        for other in used[:place]:
            if one | other in known:
                yield [one, other], [one | other]
    for one in used:
        for other in rows:
            if other not in used and (one < other or other < one):
                yield [one], [other]
    for other in rows:
        if other not in used:
            yield [], [other]
