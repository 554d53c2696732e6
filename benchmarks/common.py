"""The algebra of plans: 166,751 residuals in closed form, dense pairs in eigendecompositions, three and more by rounds.

All times are CPU seconds of this process; run with OPENBLAS_NUM_THREADS=1. `--quick` leaves out d = 1024 and n = 200.
"""

from __future__ import annotations

import argparse

import numpy as np

import residua as rs
from benchmarks.dense import seconds
from benchmarks.show import print_rows
from residua.plans.matrix.algebra import least_above
from residua.session.measuring import missing

ADMM = {(20, 3): 0.06, (20, 5): 0.05, (50, 3): 0.13, (50, 5): 0.33, (100, 3): 0.42, (100, 5): 0.82}
ADMM |= {(200, 3): 1.81, (200, 5): 2.97}


def closed_forms() -> None:
    domain = rs.Domain.of_sizes([10] * 100)
    pairs, triples = rs.marginals(domain, ways=[1, 2]), rs.marginals(domain, ways=[1, 2, 3])
    one, two = rs.plan(pairs, rs.ZCDP(0.5)), rs.plan(triples, rs.ZCDP(0.5))
    wide = two.replaced(precisions=two.precisions * np.linspace(0.5, 1.5, len(two.precisions)))
    look, first = rs.common([wide, two]), rs.common([one, two])
    works = {
        "common of two (166,751 sets each)": lambda: rs.common([wide, two]),
        "common of 5,051 and 166,751 sets": lambda: rs.common([one, two]),
        "residual": lambda: rs.residual(two, given=look),
        "top-up": lambda: rs.top_up(two, given=wide),
        "both together": lambda: wide + two,
        "answers": lambda: two.can_answer(look),
        "a finish in a session: what is left, its integers, exact prices": lambda: missing(two, [first]),
    }
    rows = [[name, f"{seconds(work, 1.0):.3f}"] for name, work in works.items()]
    print_rows("Plans of marginals, 100 attributes of 10 values, all 3-way", ["operation", "CPU s (< 1)"], rows)


def dense_pairs(quick: bool) -> None:
    rows = []
    for d in (128, 512) if quick else (128, 512, 1024):
        domain = rs.Domain({"x": rs.Integers(0, d - 1)})
        buckets = np.kron(np.eye(d // 4), np.ones((1, 4)))
        cases = {
            "prefixes, identity": (np.tril(np.ones((d, d))), np.eye(d)),
            "fours, prefixes (nested)": (buckets, np.tril(np.ones((d, d)))),
            "half, half (shared quarter)": (
                np.eye(d)[: d // 2],
                np.eye(d)[d // 4 : 3 * d // 4] @ np.tril(np.ones((d, d))),
            ),
        }
        gram = cases["prefixes, identity"][0].T @ cases["prefixes, identity"][0]
        one = seconds(lambda gram=gram: np.linalg.eigh(gram))
        for name, matrices in cases.items():
            plans = [rs.independent(rs.explicit(domain, matrix), rs.GDP(1.0)) for matrix in matrices]
            look = rs.common(plans)
            spent = seconds(lambda plans=plans: rs.common(plans), 0.1)
            left = seconds(lambda plans=plans, look=look: rs.residual(plans[1], given=look), 0.1)
            figures = [f"{spent:.2f}", f"{left:.2f}", f"{one:.3f}", f"{spent / one:.1f}", f"{look.pcost:.4f}"]
            rows.append([str(d), name, *figures])
    columns = [
        "d",
        "candidates",
        "common CPU s",
        "residual CPU s",
        "one eigh s",
        "common in eighs (≤ 30)",
        "look's pcost",
    ]
    print_rows("Two matrix plans: matrices, integers, checks and price included", columns, rows)


def many(quick: bool) -> None:
    rows = []
    rng = np.random.default_rng(0)
    for (n, k), theirs in ADMM.items():
        if quick and n == 200:
            continue
        matrices = [X @ X.T / n + 0.1 * np.eye(n) for X in rng.normal(size=(k, n, n))]
        found = least_above(matrices)
        spent = seconds(lambda matrices=matrices: least_above(matrices), 0.1)
        rows.append([str(n), str(k), str(found.iterations), f"{found.gap:.1e}", f"{spent:.2f}", f"{theirs:.2f}"])
    columns = ["n", "candidates", "rounds", "certified gap", "CPU s", "prototype's CPU s"]
    print_rows("Three and more: least trace above all, to a certified 1e-6", columns, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    asked = parser.parse_args()
    closed_forms()
    dense_pairs(asked.quick)
    many(asked.quick)


if __name__ == "__main__":
    main()
