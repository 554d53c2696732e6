"""What is said to be optimal, beside CVXPY or brute force: one row per figure, `python -m benchmarks.optimal`.

Each row is a function: what it is about, our figure, whose figure stands beside it, and that figure. A certified plan
must be within its gap of the judge, and a search at most as bad as the best known.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import residua as rs
from benchmarks.show import print_rows
from residua.projection.realisable import realisable_tables


@dataclass(frozen=True)
class Row:
    """One figure.

    Args:
        what: which problem, in words.
        ours: what we reach.
        judge: what stands beside it.
        best: the judge's figure.
    """

    what: str
    ours: float
    judge: str
    best: float


def replaced_marginals() -> Row:
    """Eight binary attributes, 1-way, one record replaced: the total is public, so that 8 counts at cost 2 remain."""
    asked = rs.marginals(rs.Domain.of_sizes([2] * 8), ways=1)
    plan = rs.plan(asked, rs.GDP(mu=1.0), unit=rs.ReplaceOne())
    return Row("replaced: 8 binary attributes, 1-way, total variance", plan.total_variance(asked), "closed form", 128.0)


def prefixes(n: int, known: float) -> Callable[[], Row]:
    """Prefixes under pure DP at epsilon 1, beside plain signed descents."""

    def row() -> Row:
        asked = rs.explicit(rs.Domain.of_sizes({"x": n}), np.tril(np.ones((n, n))))
        plan = rs.plan(asked, rs.PureDP(epsilon=1.0))
        return Row(f"pure DP: {n} prefixes, total variance", plan.total_variance(asked), "signed descents", known)

    return row


def three_pairs() -> Row:
    """By how much every dataset misses pairs of three binary attributes that always differ: all 8 cells tried."""
    domain = rs.Domain.of_sizes({"a": 2, "b": 2, "c": 2})
    table = np.array([[0.0, 5.0], [5.0, 0.0]])
    tables = dict.fromkeys(itertools.combinations(range(3), 2), table)
    answer = realisable_tables(domain, tables)
    # Of three pairs two differ at most: 10 records are missing in one of the tables, of 6 cells that differ or agree.
    return Row("realisable: three pairs that always differ, missed in some cell", answer.missed, "by hand", 5 / 3)


def approximate_norm() -> Row:
    """γ_α of all 1- and 2-way tables of 3 × 2 cells at α = 0.2, beside CVXPY's semidefinite program."""
    import cvxpy as cp

    asked = rs.marginals(rs.Domain.of_sizes([3, 2]), ways=[1, 2])
    F, alpha = asked.listed().matrix.toarray(), 0.2
    k, n = F.shape
    whole, near = cp.Variable((k + n, k + n), PSD=True), cp.Variable((k, n))
    moved = [cp.norm(near[:, j] - F[:, j]) <= alpha * np.sqrt(k) for j in range(n)]
    costs = [whole[k + j, k + j] <= 1 for j in range(n)]
    problem = cp.Problem(cp.Minimize(cp.trace(whole[:k, :k])), [whole[:k, k:] == near, *moved, *costs])
    problem.solve(solver=cp.CLARABEL)
    ours = rs.analysis.factorisation_norm(asked, alpha=alpha)
    return Row("γ_α of 1- and 2-way tables of 3 × 2 cells, α = 0.2", ours, "CVXPY", float(np.sqrt(problem.value / k)))


def product_norm() -> Row:
    """γ of prefixes crossed with ranges, attribute by attribute, beside all queries in one matrix."""
    asked = rs.product(rs.Domain.of_sizes([4, 5]), {"a0": "prefixes", "a1": "ranges"})
    each, whole = (rs.analysis.factorisation_norm(one, tolerance=1e-6) for one in (asked, asked.listed()))
    return Row("γ of prefixes × ranges, 4 × 5 cells", each, "one matrix", whole)


ROWS: list[Callable[[], Row]] = [
    replaced_marginals,
    prefixes(8, 70.26),
    prefixes(9, 85.29),
    prefixes(10, 100.59),
    three_pairs,
    approximate_norm,
    product_norm,
]


def main() -> None:
    rows = [each() for each in ROWS]
    shown = [[r.what, f"{r.ours:,.5g}", f"{r.best:,.5g}", r.judge, f"{r.ours / r.best - 1:+.2%}"] for r in rows]
    print_rows("Optimal, beside a judge", ["problem", "ours", "judge's", "judge", "ours beside it"], shown)


if __name__ == "__main__":
    main()
