"""Laws of which marginals a Laplace plan measures: against every choice there is, and what is told on the way."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest

import residua as rs
from residua.linalg.lattice import closure
from residua.plans.search.split import EpsilonSplit, _exchanges, exchanged

CASES = [
    ((3, 4, 6), ["ac", "a", "b", "c", "ab", "abc"]),
    ((3, 10, 2), ["b", "c", "bc"]),
    ((2, 6, 2), ["c", "bc", "a"]),
    ((10, 6, 10), ["ac", "a", "abc", "ab", "bc", "b"]),
    ((2, 2, 3, 2), ["ab", "cd", "a", "d"]),
]


def _split(sizes, sets, objective):
    domain = rs.Domain.of_sizes(dict(zip("abcd", sizes, strict=False)))
    workload = rs.marginals(domain, [tuple(names) for names in sets])
    everything = np.arange(len(sizes), dtype=np.int32).reshape(1, -1)
    lattice = closure([*workload.lattice.levels, everything], len(sizes))
    numbers = np.concatenate([lattice.find(level) for level in workload.lattice.levels])[workload.numbers]
    worst = isinstance(objective, rs.MaxVariance)
    masses = np.ones(len(workload)) if worst else workload.weights * workload.cells
    return workload, EpsilonSplit(lattice, domain.sizes, numbers, masses, worst)


def _least(split, most):
    """The least loss of any choice of up to so many sets, each with its own split."""
    rows = [set(row) for row in split.lattice]
    asked = [rows[number] for number in split.numbers]
    found = math.inf
    for count in range(1, most + 1):
        for chosen in combinations(range(len(rows)), count):
            if all(any(one <= rows[number] for number in chosen) for one in asked):
                shares = np.zeros(len(rows))
                shares[list(chosen)] = 1.0
                found = min(found, split.loss(split.improved(shares, 60)))
    return found


@pytest.mark.parametrize("objective", [rs.TotalVariance(), rs.MaxVariance()], ids=["total", "max"])
@pytest.mark.parametrize(("sizes", "sets"), CASES)
def test_no_choice_of_marginals_is_better(sizes, sets, objective):
    workload, split = _split(sizes, sets, objective)
    plan = rs.plan(workload, rs.PureDP(1.0), minimise=objective)
    best = _least(split, 3 if len(sizes) == 3 else 2)
    assert plan.candidates[0].loss <= best * (1 + 1e-3)
    masses = plan.variances(workload)
    achieved = masses.max() if split.worst else masses.sum()
    assert plan.candidates[0].loss == pytest.approx(achieved, rel=1e-4)


def test_tables_are_merged_into_one_where_that_is_best():
    """One table of all 256 cells answers a k-way cell with variance `2 · 2^(8 − k)`; no greedy packing finds it."""
    workload = rs.marginals(rs.Domain.of_sizes(dict.fromkeys("abcdefgh", 2)), ways=[1, 2, 3])
    plan = rs.plan(workload, rs.PureDP(1.0))
    together = sum(math.comb(8, k) * 2**k * 2 * 2 ** (8 - k) for k in (1, 2, 3))
    assert plan.candidates[0].loss <= together * (1 + 1e-6)


def test_exchanging_never_hurts_and_takes_up_what_was_dropped():
    _, split = _split((3, 10, 2), ["b", "c", "bc"], rs.MaxVariance())
    rule = np.zeros(len(split.lattice))
    rule[split.numbers] = 1.0
    before = split.improved(rule)
    told: list[float] = []
    after = exchanged(split, before, told.append)
    assert split.loss(after) < split.loss(before) * 0.9
    assert told == sorted(told, reverse=True)
    assert told[-1] == pytest.approx(split.loss(after))


@pytest.mark.parametrize("kind", ["queries", "marginals"])
def test_progress_counts_up_while_the_gap_falls(kind):
    if kind == "marginals":
        workload = rs.marginals(rs.Domain.of_sizes({"a": 3, "b": 4, "c": 2}), ways=[1, 2])
    else:
        workload = rs.explicit(rs.Domain.of_sizes({"x": 12}), np.tril(np.ones((12, 12))))
    heard: list[tuple[int, float]] = []
    plan = rs.plan(workload, rs.PureDP(1.0), progress=lambda step, gap: heard.append((step, gap)))
    steps, gaps = zip(*heard, strict=True)
    assert steps == tuple(range(len(steps)))
    assert len(steps) > 10
    assert gaps[0] == math.inf
    assert list(gaps) == sorted(gaps, reverse=True)
    assert gaps[-1] == pytest.approx(plan.gap, rel=1e-4)


@pytest.mark.parametrize(("sizes", "sets"), CASES)
def test_exchanges_are_those_after_which_everything_asked_can_be_answered(sizes, sets):
    _, split = _split(sizes, sets, rs.TotalVariance())
    rows = [frozenset(row) for row in split.lattice]
    rng = np.random.default_rng(1)
    for _ in range(20):
        used = rng.random(len(rows)) < 0.5
        used[split.numbers[rng.integers(len(split.numbers))]] = True
        shares = used.astype(np.float64)
        if not np.isfinite(split.loss(shares)):
            continue
        offered = {(tuple(out), tuple(into)) for out, into in _exchanges(split, used, rows)}
        for out, into in offered:
            trial = shares.copy()
            trial[list(out)], trial[list(into)] = 0.0, 1.0
            assert np.isfinite(split.loss(trial))
        for one in np.flatnonzero(used).tolist():  # and none of these is missing
            left = shares.copy()
            left[one] = 0.0
            assert (((one,), ()) in offered) == (left.any() and np.isfinite(split.loss(left)))
            for other in np.flatnonzero(~used).tolist():
                if rows[other] < rows[one]:
                    left[other] = 1.0
                    assert (((one,), (other,)) in offered) == np.isfinite(split.loss(left))
                    left[other] = 0.0


def test_many_attributes_take_few_tries(monkeypatch):
    losses = []
    loss = EpsilonSplit.loss
    monkeypatch.setattr(EpsilonSplit, "loss", lambda self, shares: (losses.append(1), loss(self, shares))[1])
    workload = rs.marginals(rs.Domain.of_sizes({f"x{i}": 3 for i in range(60)}), ways=[1, 2])
    plan = rs.plan(workload, rs.PureDP(1.0))
    assert len(losses) < 400  # each takes time in proportion to the sets; there were thousands
    assert plan.unit_epsilon <= 1.0
