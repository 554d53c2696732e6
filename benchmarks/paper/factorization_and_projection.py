"""Factorization and projection: the norms of section 2, and Theorem 3.1 in practice.

The lecture has no tables and no figures; what its text states is computed, and its bounds are drawn beside errors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

import numpy as np

import residua as rs
from benchmarks.paper.charts import lines
from benchmarks.paper.tables import Asked, Drawing, Entry, Table
from residua.plans.search.strategies import hierarchy
from residua.projection.simplex import nearest_histogram

TITLE = "Factorization and projection (lecture notes on query release)"
ABOUT = "Errors at privacy cost 1 (c = 1), in the units of each statement."
MISSING: dict[str, str] = {}


def tables(asked: Asked) -> list[Table]:
    """Factorization norms, approximate ones, and Theorem 3.1."""
    return [norms(), approximate(), theorem_table(asked)]


def _of(rows: np.ndarray) -> rs.Plan:
    return rs.explicit(rs.Domain.of_sizes({"x": rows.shape[1]}), rows)


def norms() -> Table:
    """Section 2.1: repeated queries, independent ones, thresholds."""
    repeated = np.tile([1.0, 1, 0, 0, 1], (4, 1))
    rows = [
        ("one query four times (18), by noise on each", [Entry(2.0, math.sqrt(4), 3)]),
        ("one query four times (18), factorised (19)", [Entry(1.0, rs.analysis.factorisation_norm(_of(repeated)), 3)]),
        ("eight single cells", [Entry(1.0, rs.analysis.factorisation_norm(_of(np.eye(8))), 3)]),
    ]
    thresholds = np.tril(np.ones((8, 8)))
    tree = hierarchy(8)
    by_tree = math.sqrt(((thresholds @ np.linalg.pinv(tree)) ** 2).sum() / 8 * tree.sum(axis=0).max())
    rows += [
        ("eight thresholds, noise on each", [Entry(None, math.sqrt(8), 3)]),
        ("eight thresholds, binary tree (exercise 2.1), least squares", [Entry(None, by_tree, 3)]),
        ("eight thresholds, best factorisation", [Entry(None, rs.analysis.factorisation_norm(_of(thresholds)), 3)]),
    ]
    return Table("Section 2.1", "‖R‖·‖M‖ of factorisations, root mean square error per query", ["γ"], rows)


@cache
def _biased(alpha: float) -> float:
    thresholds = _of(np.tril(np.ones((16, 16))))
    if not alpha:
        return rs.analysis.factorisation_norm(thresholds, tolerance=1e-5)
    plan = rs.plan(thresholds, rs.GDP(mu=1.0), form=rs.Matrix(bias=alpha))
    return math.sqrt(float(plan.variances(plan.workload).mean()))


def approximate() -> Table:
    """Definition 2.5: γ_α of 16 thresholds never grows with α, and is γ at 0."""
    alphas = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4)
    rows = [(f"α = {alpha:g}", [Entry(None, _biased(alpha), 3)]) for alpha in alphas]
    return Table("Section 2.2", "Approximate factorisation norm of 16 thresholds (Definition 2.5)", ["γ_α"], rows)


@cache
def theorem(k: int = 4096, m: int = 256, repeats: int = 5) -> list[tuple[int, float, float, float]]:
    """(n, error of noise, error after projection, the proof's bound), root mean square over queries, at rho = 1/2.

    A histogram sums to 1 and c = 1: σ = √k/n. The bound is (51) with E max |⟨c_j, Z⟩| ≤ σ √k √(2 ln 2m).
    """
    random = np.random.default_rng(0)
    F = random.choice([-1.0, 1.0], (k, m))
    rows = []
    for n in (2**i for i in range(4, 15)):
        sigma = np.sqrt(k) / n
        before, after = [], []
        for _ in range(repeats):
            a = F @ (random.multinomial(n, random.dirichlet(np.ones(m))) / n)
            noisy = a + sigma * random.standard_normal(k)
            fit = nearest_histogram(F, noisy, total=1.0)
            before.append(np.linalg.norm(noisy - a) / np.sqrt(k))
            after.append(np.linalg.norm(F @ fit.coordinates - a) / np.sqrt(k))
            if after[-1] > before[-1]:
                raise AssertionError("projection increased the error")
        bound = np.sqrt(2.0 * sigma * np.sqrt(2.0 * np.log(2.0 * m)) / np.sqrt(k))
        rows.append((n, float(np.mean(before)), float(np.mean(after)), float(bound)))
    return rows


def theorem_table(asked: Asked) -> Table:
    rows = [(f"{n:,}", [Entry(None, value, 4) for value in values]) for n, *values in theorem()]
    columns = ["Gaussian noise", "noise + projection", "the proof's bound"]
    return Table("Theorem 3.1", "Error per query: 4,096 random ±1 queries on 256 cells", columns, rows,
                 "Five datasets each; the projection was never further from the truth.")  # fmt: skip


def drawings(made: Sequence[Table], asked: Asked) -> list[Drawing]:
    """Theorem 3.1, and the norms of thresholds."""
    names = "Gaussian noise", "noise + projection", "bound of the proof"
    series = {name: [(row[0], row[k]) for row in theorem()] for k, name in enumerate(names, start=1)}
    alphas = {"γ_α of 16 thresholds": [(float(label[4:]), entries[0].ours) for label, entries in made[1].rows]}
    growth = {"noise on each": [], "binary tree": [], "best factorisation": []}
    for d in (2, 4, 8, 16, 32, 64, 128):
        thresholds, tree = np.tril(np.ones((d, d))), hierarchy(d)
        growth["noise on each"].append((d, math.sqrt(d)))
        error = ((thresholds @ np.linalg.pinv(tree)) ** 2).sum() / d * tree.sum(axis=0).max()
        growth["binary tree"].append((d, math.sqrt(error)))
        growth["best factorisation"].append((d, rs.analysis.factorisation_norm(_of(thresholds))))
    return [
        Drawing("Theorem 3.1", "Error per query before and after projection, and the proof's bound.",
                lines("Theorem 3.1", series, "records n", "root mean square error", log="xy", dashed=names[2:])),
        Drawing("Definition 2.5", "How much error a systematic one of α per record saves.",
                lines("Approximate factorisation", alphas, "α", "γ_α")),
        Drawing("Section 2.1", "Thresholds: noise on each, the binary tree, the best factorisation.",
                lines("Factorisations of thresholds", growth, "thresholds", "root mean square error", log="x")),
    ]  # fmt: skip
