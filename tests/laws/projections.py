"""Small releases for the tests of projection, and what their projection must be by a general solver."""

from itertools import combinations

import cvxpy as cp
import numpy as np
import pyarrow as pa

import residua as rs

IMPOSSIBLE = [{"age": [0, 1], "work": ["yes", "both"]}]


def domain_of_three(*, impossible=()):
    return rs.Domain(
        {"age": rs.Integers(0, 4), "sex": ["F", "M"], "work": ["no", "yes", "both"]}, impossible=impossible
    )


def people(rng, rows=60):
    age = rng.integers(0, 5, rows)
    work = np.where(age < 2, "no", rng.choice(["no", "yes", "both"], rows))
    return pa.table({"age": age, "sex": rng.choice(["F", "M"], rows), "work": work})


def released(tmp_path, workload, rho=0.02, data=None, rng=None):
    """A noisy release: many cells below zero."""
    data = people(rng or np.random.default_rng(0)) if data is None else data
    folder = tmp_path / f"ledger-{len(list(tmp_path.iterdir()))}"
    return rs.measure(rs.plan(workload, rs.ZCDP(rho)), data, ledger=rs.Ledger(folder, rs.ZCDP(rho)))


def all_two_way(tmp_path, *, impossible=(), rho=0.02):
    return released(tmp_path, rs.marginals(domain_of_three(impossible=impossible), ways=[1, 2]), rho)


def queries_release(tmp_path, *, impossible=(), rho=0.02):
    asked = rs.queries(
        domain_of_three(impossible=impossible),
        {
            "all": "1",
            "young": "age <= 1",
            "older women": "age >= 2 and sex = 'F'",
            "at work": "work = 'yes'",
            "years": "age",
        },
    )
    return released(tmp_path, asked, rho)


def centred(table):
    for axis in range(table.ndim):
        table = table - table.mean(axis=axis, keepdims=True)
    return table


def nearest_tables(release, *, weights, total=None, known=(), zeros=None):
    """The projection of all 2-way tables of three attributes by a general solver, in the given residual weights.

    Variables are the three tables; weights: set of positions → weight of its residual. Returns the tables by pair.
    """
    sizes = [int(n) for n in release.domain.sizes]
    names = release.domain.names
    pairs = list(combinations(range(3), 2))
    tables = {pair: cp.Variable([sizes[i] for i in pair], nonneg=True) for pair in pairs}

    def margin(pair, i):
        return cp.sum(tables[pair], axis=1 - pair.index(i))

    conditions, loss = [], 0
    for i in range(3):
        first, second = [pair for pair in pairs if i in pair]
        conditions.append(margin(first, i) == margin(second, i))
        apart = margin(first, i) - release.estimates([names[i]])
        loss += weights[(i,)] * cp.sum_squares(apart - cp.sum(apart) / sizes[i])
    whole = cp.sum(tables[pairs[0]])
    conditions += [cp.sum(tables[pair]) == whole for pair in pairs]
    loss += weights[()] * cp.square(whole - float(release.estimates([])))
    for pair in pairs:
        n, m = (sizes[i] for i in pair)
        apart = tables[pair] - release.estimates([names[i] for i in pair])
        loss += weights[pair] * cp.sum_squares((np.eye(n) - 1 / n) @ apart @ (np.eye(m) - 1 / m))
    if total is not None:
        conditions.append(whole == total)
    for i, values in known:
        conditions.append(margin(next(pair for pair in pairs if i in pair), i) == values)
    for pair, mask in (zeros or {}).items():
        conditions.append(cp.multiply(tables[pair], mask) == 0)
    cp.Problem(cp.Minimize(loss), conditions).solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10)
    return {pair: tables[pair].value for pair in pairs}
