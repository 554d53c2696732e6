"""Strategies for persons with limited records: the best for single records, with some of every cell measured by itself.

A person with limited records pays little for cells measured one by one, and much for rows that hold many of them. So
`Γ = (1 − a) Γ*/max diag + a I` is tried for some a, Γ* the best for single records. Nothing is proven of the choice;
the plan's gap counts what it costs.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from residua.linalg.arrays import Floats

_SHARES = (0.0, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95, 1.0)
_MOST_WORK = 2**31
_NOTHING = 1e-12


def blended(
    strategy: Floats, queries: Floats, *, total: bool, price: Callable[[Floats], float]
) -> tuple[Floats, float]:
    """The strategy of least loss times price, (rows, cells), and its loss times the cost of one record.

    Args:
        strategy: the best for single records, (rows, cells).
        queries: scaled so that their largest variance counts, or the sum of their variances, (queries, cells).
        total: whether the sum counts.
        price: what a strategy costs a person.
    """
    gram = strategy.T @ strategy
    gram = gram / np.diag(gram).max()
    best, least, achieved = strategy, np.inf, np.inf
    for share in _SHARES if queries.size * len(gram) <= _MOST_WORK else _SHARES[:1]:
        mixed = (1.0 - share) * gram + share * np.eye(len(gram))
        values, vectors = np.linalg.eigh(mixed)
        kept = values > _NOTHING * values[-1]
        rows = np.sqrt(values[kept])[:, None] * vectors[:, kept].T
        parts = queries @ (vectors[:, kept] / np.sqrt(values[kept]))
        variances = (parts**2).sum(axis=1)
        loss = float(variances.sum() if total else variances.max())
        paid = price(rows)
        if loss * paid < least:
            best, least, achieved = rows, loss * paid, loss * float(np.diag(mixed).max())
    return best, achieved
