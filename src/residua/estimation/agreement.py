"""Pairs that some three-way table could have: tables of pairs are moved together until every triple can be raked.

Three tables of pairs that agree on their single attributes need not be margins of any one table, least where one
attribute all but decides another. Triples that cannot be raked are raked as far as they go, each pair becomes the mean
of what its triples say, and so on: what the triples then have is what the pairs say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np

from residua.estimation.facts import Public
from residua.estimation.mixture import Values
from residua.estimation.raking import raked
from residua.linalg.arrays import Floats

Triple = tuple[int, int, int]
_MOST_CELLS = 20_000_000  # of all triples that are looked at
_DECIDED = 0.35  # of an attribute's entropy that is left once another is known: from here on it counts as decided
TOLERANCE = 1e-6
_FIRST, _ROUNDS, _LOOKS = 400, 400, 3


def agreeing(
    public: Public, values: Values, singles: Floats, pairs: Floats, say: Callable[[str, int, int], object]
) -> Floats:
    """The tables of pairs, those of contested triples moved until they agree with a table of three."""
    pairs = pairs.copy()
    total = float(singles[values.of(0)].sum()) if len(values.sizes) else 0.0
    triples = _suspects(values, singles, pairs)
    for _ in range(_LOOKS):
        contested = [triple for triple in triples if _apart(public, values, pairs, triple) > TOLERANCE * total]
        if not contested:
            break
        _reconcile(public, values, singles, pairs, contested, total, say)
    return pairs


def _suspects(values: Values, singles: Floats, pairs: Floats) -> list[Triple]:
    """All triples if they are few, else those in which one attribute all but decides another."""
    d = len(values.sizes)
    cells = values.sizes.astype(float)
    every = (cells.sum() ** 3 - 3 * cells.sum() * (cells**2).sum() + 2 * (cells**3).sum()) / 6
    if every <= _MOST_CELLS:
        return [(a, b, c) for a, b, c in combinations(range(d), 3)]
    entropy = [_entropy(singles[values.of(i)]) for i in range(d)]
    found: dict[Triple, None] = {}
    budget = float(_MOST_CELLS)
    for a, b in combinations(range(d), 2):
        both = _entropy(pairs[values.of(a), values.of(b)])
        if min(both - entropy[b] - _DECIDED * entropy[a], both - entropy[a] - _DECIDED * entropy[b]) >= 0:
            continue
        for other in set(range(d)) - {a, b}:
            first, second, third = sorted((a, b, other))
            budget -= cells[a] * cells[b] * cells[other]
            if budget > 0:
                found[first, second, third] = None
    return list(found)


def _entropy(table: Floats) -> float:
    p = table.ravel()[table.ravel() > 0] / max(float(table.sum()), 1e-300)
    return float(-(p * np.log(p)).sum())


def _margins(values: Values, pairs: Floats, triple: Triple) -> list[Floats]:
    """The tables of a triple's pairs, in the order of the axis that each is summed over."""
    a, b, c = (values.of(i) for i in triple)
    return [pairs[b, c], pairs[a, c], pairs[a, b]]


def _apart(public: Public, values: Values, pairs: Floats, triple: Triple) -> float:
    first = public.possible(triple).astype(np.float64)
    return raked(first, _margins(values, pairs, triple), tolerance=TOLERANCE / 2, rounds=_FIRST)[1]


def _reconcile(
    public: Public,
    values: Values,
    singles: Floats,
    pairs: Floats,
    triples: Sequence[Triple],
    total: float,
    say: Callable[[str, int, int], object],
) -> None:
    # As near to its margins as it gets before pairs are moved: what raking has not yet done is no contradiction.
    tables = [
        raked(public.possible(triple).astype(np.float64), _margins(values, pairs, triple), TOLERANCE / 2, _FIRST)[0]
        for triple in triples
    ]
    for number in range(_ROUNDS):
        sums: dict[tuple[int, int], list[Floats]] = {}
        apart = 0.0
        for j, triple in enumerate(triples):
            margins = _margins(values, pairs, triple)
            tables[j], _ = raked(tables[j], margins, tolerance=0.0, rounds=2)
            for axis, margin in enumerate(margins):
                own = tables[j].sum(axis=axis)
                apart = max(apart, float(np.abs(own - margin).max()))
                pair = tuple(i for k, i in enumerate(triple) if k != axis)
                sums.setdefault((pair[0], pair[1]), []).append(own)
        for (a, b), found in sums.items():
            if public.known((a, b)) is None:
                at, back = (values.of(a), values.of(b)), (values.of(b), values.of(a))
                mean = np.mean(found, axis=0)
                pairs[at] = raked(mean, [singles[at[1]], singles[at[0]]], rounds=20)[0]
                pairs[back] = pairs[at].T
        if number % 10 == 0:
            say("reconciling tables of pairs", number, _ROUNDS)
        if apart <= 0.3 * TOLERANCE * total:
            break
