"""Raking: the table nearest to a first guess (in relative entropy) with given margins; pairs that triples could have.

Three tables of pairs that agree on their single attributes need not be margins of any one table, least where one
attribute all but decides another. Triples that cannot be raked are raked as far as they go, each pair becomes the mean
of what its triples say, and so on: what the triples then have is what the pairs say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np
from scipy.special import entr

from residua.estimation.kernels import rake_three
from residua.estimation.mixture import Pairs
from residua.estimation.observed import Public
from residua.linalg.arrays import Floats

_WORTH_COMPILING = 100  # cells: below, NumPy is as fast
_NOTHING = 1e-200  # of a count: a margin over a smaller sum may be no finite number


def raked(first: Floats, margins: Sequence[Floats], tolerance: float = 1e-9, rounds: int = 400) -> tuple[Floats, float]:
    """A table with these margins, one per axis summed over, and how far it is from them at most, in counts.

    Cells that are zero stay zero; where no such table has all margins, the rounds end and the distance says so. Of up
    to three attributes it is that before the last round, which no round makes larger where there is such a table.

    Args:
        first: the first guess, not negative, (n_1, …, n_k).
        margins: margins[j] is the table summed over axis j, non-negative.
        tolerance: when to stop, relative to the total.
        rounds: when to stop in any case.
    """
    total = max(float(margins[0].sum()), 1e-300)
    if first.ndim == 3 and first.size >= _WORTH_COMPILING:
        whole = np.array(first, order="C")
        a, b, c = (np.ascontiguousarray(margin) for margin in margins)
        return whole, float(rake_three(whole, a, b, c, tolerance * total, rounds, _NOTHING))
    if first.ndim == 2:
        return _raked_pair(first, margins, tolerance * total, rounds)
    table = first
    apart = np.inf
    for _ in range(rounds):
        apart = 0.0
        for axis, margin in enumerate(margins):
            now = table.sum(axis=axis)
            apart = max(apart, float(np.abs(now - margin).max()))
            factor = np.divide(margin, now, out=np.zeros_like(now), where=now > _NOTHING)
            table = table * np.expand_dims(factor, axis)
        if apart <= tolerance * total:
            return table, apart
    return table, max(float(np.abs(table.sum(axis=axis) - margin).max()) for axis, margin in enumerate(margins))


def _raked_pair(first: Floats, margins: Sequence[Floats], tolerance: float, rounds: int) -> tuple[Floats, float]:
    """The same for two attributes, by a factor for each row and each column."""
    apart, rows, columns = np.inf, np.ones(len(first)), np.ones(first.shape[1])
    for _ in range(rounds):
        now = rows @ first
        apart = float(np.abs(columns * now - margins[0]).max())
        columns = np.divide(margins[0], now, out=np.zeros_like(now), where=now > _NOTHING)
        now = first @ columns
        apart = max(apart, float(np.abs(rows * now - margins[1]).max()))
        rows = np.divide(margins[1], now, out=np.zeros_like(now), where=now > _NOTHING)
        if apart <= tolerance:
            break
    return rows[:, None] * first * columns, apart


Triple = tuple[int, int, int]
Progress = Callable[[str, int, int], object]  # what is being done, how much is done, and of how much
_MOST_CELLS = 20_000_000  # of all triples that are looked at
_DECIDED = 0.35  # of an attribute's entropy that is left once another is known: from here on it counts as decided
TOLERANCE = 1e-6
_FIRST, _ROUNDS, _LOOKS = 400, 400, 3


def agreeing(public: Public, singles: Floats, pairs: Pairs, say: Progress) -> Pairs:
    """The tables of pairs, those of contested triples moved until they agree with a table of three."""
    values, pairs = pairs.values, Pairs(pairs.values, pairs.flat.copy())
    total = float(singles[values.of(0)].sum()) if len(values.sizes) else 0.0
    triples = _suspects(singles, pairs)
    for _ in range(_LOOKS):
        contested = [triple for triple in triples if _apart(public, pairs, triple) > TOLERANCE * total]
        if not contested:
            break
        _reconcile(public, singles, pairs, contested, TOLERANCE * total, say)
    return pairs


def _suspects(singles: Floats, pairs: Pairs) -> list[Triple]:
    """All triples if they are few, else those in which one attribute all but decides another.

    Each is in the order of its attributes' sizes: raking meets the smallest table of its pairs last, which is the most
    precise one where they contradict each other.
    """
    values, d = pairs.values, len(pairs.values.sizes)
    order = np.argsort(values.sizes, kind="stable").tolist()
    cells = values.sizes.astype(float)
    every = (cells.sum() ** 3 - 3 * cells.sum() * (cells**2).sum() + 2 * (cells**3).sum()) / 6
    if every <= _MOST_CELLS:
        return [(a, b, c) for a, b, c in combinations(order, 3)]
    entropy = [_entropy(singles[values.of(i)]) for i in range(d)]
    suspects: dict[Triple, None] = {}
    budget = float(_MOST_CELLS)
    for a, b in combinations(range(d), 2):
        both = _entropy(pairs[a, b])
        if min(both - entropy[b] - _DECIDED * entropy[a], both - entropy[a] - _DECIDED * entropy[b]) >= 0:
            continue
        for other in set(range(d)) - {a, b}:
            budget -= cells[a] * cells[b] * cells[other]
            if budget > 0:
                first, second, third = sorted((a, b, other), key=order.index)
                suspects[first, second, third] = None
    return list(suspects)


def _entropy(table: Floats) -> float:
    return float(entr(table / max(float(table.sum()), 1e-300)).sum())


def _margins(pairs: Pairs, triple: Triple) -> list[Floats]:
    """The tables of a triple's pairs, in the order of the axis that each is summed over."""
    a, b, c = triple
    return [pairs[b, c], pairs[a, c], pairs[a, b]]


def _possible(public: Public, triple: Triple) -> Floats:
    inside = sorted(triple)
    return public.possible(tuple(inside)).astype(np.float64).transpose([inside.index(i) for i in triple])


def _apart(public: Public, pairs: Pairs, triple: Triple) -> float:
    return raked(_possible(public, triple), _margins(pairs, triple), tolerance=TOLERANCE / 2, rounds=_FIRST)[1]


def _reconcile(
    public: Public, singles: Floats, pairs: Pairs, triples: Sequence[Triple], tolerance: float, say: Progress
) -> None:
    # As near to its margins as it gets before pairs are moved: what raking has not yet done is no contradiction.
    tables = [raked(_possible(public, triple), _margins(pairs, triple), TOLERANCE / 2, _FIRST)[0] for triple in triples]
    for number in range(_ROUNDS):
        sums: dict[tuple[int, int], list[Floats]] = {}
        apart = 0.0
        for j, triple in enumerate(triples):
            margins = _margins(pairs, triple)
            tables[j], _ = raked(tables[j], margins, tolerance=0.0, rounds=2)
            for axis, margin in enumerate(margins):
                own = tables[j].sum(axis=axis)
                apart = max(apart, float(np.abs(own - margin).max()))
                a, b = (i for k, i in enumerate(triple) if k != axis)
                sums.setdefault((min(a, b), max(a, b)), []).append(own if a < b else own.T)
        for (a, b), tables_of_pair in sums.items():
            if public.known((a, b)) is None:
                margins = [singles[pairs.values.of(b)], singles[pairs.values.of(a)]]
                pairs[a, b] = raked(np.mean(tables_of_pair, axis=0), margins, rounds=20)[0]
        if number % 10 == 0:
            say("reconciling tables of pairs", number, _ROUNDS)
        if apart <= 0.3 * tolerance:
            break
