"""Small releases for the tests of estimation, and their truth."""

from itertools import combinations

import numpy as np
import pyarrow as pa

import residua as rs

SIZES = {"a": 3, "b": 4, "c": 2, "d": 5}
RULES = [{"a": [0], "d": [4]}]


def domain_of_four(*, impossible=()):
    return rs.Domain({name: rs.Integers(0, size - 1) for name, size in SIZES.items()}, impossible=impossible)


def records(random, rows=3000):
    """Four attributes that depend on each other through a hidden class; a = 0 and d = 4 never meet."""
    hidden = random.integers(0, 3, rows)
    a = np.where(random.random(rows) < 0.7, hidden, random.integers(0, 3, rows))
    b = np.where(random.random(rows) < 0.6, hidden, random.integers(0, 4, rows))
    c = (random.random(rows) < 0.2 + 0.3 * hidden).astype(int)
    d = np.minimum(random.poisson(0.5 + hidden, rows), 4)
    d[(a == 0) & (d == 4)] = 0
    return {"a": a, "b": b, "c": c, "d": d}


def parity(random, rows=3000):
    """c is the parity of a and b: no pair tells anything of it."""
    a, b = random.integers(0, 2, rows), random.integers(0, 4, rows)
    return {"a": a, "b": b, "c": (a + b) % 2, "d": random.integers(0, 5, rows)}


def truth(data, names):
    if not names:
        return np.array(float(len(data["a"])))
    table = np.zeros([SIZES[name] for name in names])
    np.add.at(table, tuple(data[name] for name in names), 1.0)
    return table


def measured(tmp_path, data, plan):
    ledger = rs.Ledger(tmp_path / f"ledger-{len(list(tmp_path.iterdir()))}", plan.guarantee, unit=plan.unit)
    return rs.measure(plan, pa.table(data), ledger=ledger)


def released(tmp_path, data, *, rho=0.05, ways=(0, 1, 2, 3), impossible=()):
    workload = rs.marginals(domain_of_four(impossible=impossible), ways=ways)
    return measured(tmp_path, data, rs.plan(workload, rs.ZCDP(rho)))


def subsets(most=4):
    return [names for size in range(most + 1) for names in combinations(SIZES, size)]
