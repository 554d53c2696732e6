"""Estimates of small data at small budgets: finite, not negative, of their total, at once, no worse than silence."""

from __future__ import annotations

import os
from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest

import residua as rs
from residua.language import speaking

RELEASES = int(os.environ.get("RESIDUA_RANDOM_RELEASES", "200"))


def random_release(random, folder, records=None, budget=None):
    """A release of up to six attributes of up to eight values, few records or none, any budget, and its data.

    Some have an attribute that another decides or copies, some a rule that makes cells impossible.
    """
    sizes = random.integers(1, 9, int(random.integers(1, 7)))
    records = int(random.choice([0, 1, 5, 20, 200, 1304])) if records is None else records
    if len(sizes) > 1 and random.random() < 0.2:
        sizes[1] = sizes[0]
    codes = [np.minimum((random.random(records) ** random.choice([1, 2, 6]) * n).astype(int), n - 1) for n in sizes]
    impossible = []
    if len(sizes) > 1 and random.random() < 0.5:
        codes[1] = codes[0] % sizes[1]  # one attribute decides another
    elif len(sizes) > 1 and sizes[0] > 1 and random.random() < 0.5:
        codes[0] = np.where(codes[1] == 0, codes[0] // 2, codes[0])
        names = rs.Domain.of_sizes(sizes.tolist()).names
        impossible = [{names[0]: list(range((int(sizes[0]) + 1) // 2, int(sizes[0]))), names[1]: 0}]
    domain = rs.Domain.of_sizes(sizes.tolist())
    if impossible:
        domain = rs.Domain({name: domain[name] for name in domain.names}, impossible=impossible)
    data = pa.table(dict(zip(domain.names, codes, strict=True)))
    budget = budget or rs.ApproxDP(float(10 ** random.uniform(-2.5, 1)), 1e-9)
    workload = rs.marginals(domain, ways=list(range(int(random.integers(1, min(3, len(sizes)) + 1)) + 1)))
    planner = [rs.plan, rs.plan_estimates][int(random.integers(2))]
    ledger = rs.Ledger.create(folder / f"{random.integers(2**62)}.ledger", budget)
    return rs.measure(planner(workload, budget), data, ledger=ledger), codes, records


def counted(codes, shape, members):
    flat = np.ravel_multi_index([codes[i] for i in members], shape)
    return np.bincount(flat, minlength=int(np.prod(shape))).reshape(shape)


@pytest.mark.parametrize("part", range(4))
def test_no_estimate_of_a_small_release_is_negative_or_no_number(tmp_path, part):
    for number in range(part * RELEASES // 4, (part + 1) * RELEASES // 4):
        random = np.random.default_rng([7, number])
        release, codes, records = random_release(random, tmp_path)
        total = records if number % 2 and records else None
        single = tuple(release.domain.names[:1])
        known = {single: counted(codes, release.domain.sizes[:1], (0,))} if number % 4 == 3 and records else None
        estimated = rs.estimate(release, total=total, known=known)
        for members in (s for k in (1, 2, 3) for s in combinations(range(len(codes)), k)):
            names = [release.domain.names[i] for i in members]
            table = estimated.estimates(names)
            assert np.isfinite(table).all(), number
            assert table.min() >= 0
            assert table.sum() <= estimated.total * (1 + 1e-6)
            assert np.isfinite(estimated.accuracy(names).rmse)
            if total is not None:
                assert np.abs(table - counted(codes, table.shape, members)).sum() <= 2.001 * records


def test_at_a_budget_that_tells_nothing_the_tables_are_small_and_say_so(tmp_path):
    """The released total is 200 ± 1,000: one estimate in 300 is above twice the truth; that of five in nine, never."""
    far, said = [], 0
    for number in range(9):
        release, codes, records = random_release(
            np.random.default_rng([8, number]), tmp_path, 200, rs.ApproxDP(0.01, 1e-9)
        )
        table = rs.estimate(release).table(release.domain.names[:1])
        far.append(float(np.abs(table.estimates - counted(codes, table.estimates.shape, (0,))).sum()) / records)
        said += "the total is not known" in table.note
    assert np.median(far) <= 2
    assert said >= 4


def shares(records, rho):
    """Which share of a budget for three-way tables goes to tables of 0, 1, 2 and 3 attributes."""
    workload = rs.marginals(rs.Domain.of_sizes([3, 4, 5, 6]), ways=3)
    plan = rs.plan_estimates(workload, rs.ZCDP(rho), records=records)
    spent = plan.precisions * plan.costs
    return [float(spent[plan.lattice.set_sizes == ways].sum() / spent.sum()) for ways in range(4)]


def test_what_noise_drowns_gets_little_of_the_budget_and_more_records_or_budget_go_to_larger_tables():
    total, _, pairs, triples = np.transpose([shares(100, 1e-3), shares(10_000, 1e-3), shares(10_000, 10.0)])
    assert total[0] > 2 * total[1] >= 2 * total[2] > 0
    assert pairs[0] < pairs[1]
    assert triples[0] == pytest.approx(0.02, abs=1e-3)  # enough to tell how strong they are
    assert triples[2] > 4 * triples[1]
    assert shares(None, 0.1) == shares(10_000, 0.1)
    for nothing in (0, -5, True, "many", float("nan")):
        with pytest.raises(rs.errors.PlanError, match="records="):
            shares(nothing, 0.1)


def test_a_release_that_is_mostly_noise_says_what_to_read_instead_with_the_share_that_noise_moves(tmp_path):
    """The share is known before data; that of one release varies by a fiftieth of it."""
    random = np.random.default_rng(4)
    codes = random.integers(0, 6, (3, 1000))
    domain = rs.Domain.of_sizes([6, 6, 6])
    data = pa.table(dict(zip(domain.names, codes, strict=True)))
    shares, advice = [], []
    for number, rho in enumerate((0.02, 1000.0)):
        ledger = rs.Ledger.create(tmp_path / f"{number}.ledger", rs.ZCDP(rho))
        release = rs.measure(rs.plan(rs.marginals(domain, ways=[1, 2]), rs.ZCDP(rho)), data, ledger=ledger)
        pairs = [(i, j) for i, j in combinations(range(3), 2)]
        tables = [release.estimates([domain.names[i] for i in pair]) for pair in pairs]
        off = [np.abs(table - counted(codes, (6, 6), pair)).sum() for table, pair in zip(tables, pairs, strict=True)]
        shares.append(float(np.mean(off)) / 2000)
        advice.append(release.advice)
        with speaking("de"):
            assert ("Rauschen verschiebt" in release.advice) == bool(advice[-1])
    assert advice[1] == ""
    assert "table of 2 attributes" in advice[0]
    assert "rs.estimate" in advice[0]
    stated = float(advice[0].split("%")[0].split()[-1]) / 100
    assert 0.6 * stated < shares[0] < 1.5 * stated
