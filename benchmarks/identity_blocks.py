"""Identity plus a few on blocks, a trial beside weighted trees: `python -m benchmarks.identity_blocks [256 512 1024]`.

`A = [I; I ⊗ Θ; Φ ⊗ 1ᵀ] D⁻¹`: the values, p rows within each block of b values (the same in all blocks), q rows that are
constant on blocks; D makes every column add up to 1. Θ and Φ are descended to the least total variance, from random
windows. Not a form of plan: see `docs/decisions/07-pure-dp.md`.
"""

from __future__ import annotations

import sys
import time

import numpy as np
from scipy.optimize import minimize

import residua as rs
from benchmarks.show import print_rows

COLUMNS = ["workload", "trees", "identity plus on blocks", "b, p, q", "CPU s"]
TRIED = ((8, 3, 1.25), (16, 5, 1.0))  # b, p, and q as a share of √(n / b) · 2
ROUNDS, STARTS = 150, 2


def gram(kind: str, n: int) -> tuple[np.ndarray, int]:
    """The Gram matrix of all prefixes or ranges, and how many there are."""
    i = np.arange(n)
    above = n - np.maximum.outer(i, i)
    return (
        (above.astype(float), n) if kind == "prefixes" else ((np.minimum.outer(i, i) + 1.0) * above, n * (n + 1) // 2)
    )


def descended(G: np.ndarray, b: int, p: int, q: int, seed: int) -> float:
    """The least total variance found, of noise of variance 1."""
    n = len(G)
    m = n // b
    rng = np.random.default_rng(seed)

    def loss(x: np.ndarray) -> tuple[float, np.ndarray]:
        theta, phi = x[: p * b].reshape(p, b), x[p * b :].reshape(q, m)
        c = 1 + np.tile(theta.sum(0), m) + np.repeat(phi.sum(0), b)
        inside = np.eye(b) + theta.T @ theta
        inverse = np.linalg.inv(np.kron(np.eye(m), inside) + np.kron(phi.T @ phi, np.ones((b, b))))
        spread = (inverse * c) @ G
        total = float(np.diag(spread) @ c)
        pull = -(spread @ (inverse * c).T).reshape(m, b, m, b)
        toll = 2 * np.diag(spread).reshape(m, b)
        slopes = (
            2 * theta @ np.einsum("kakb->ab", pull) + toll.sum(0),
            2 * phi @ pull.sum((1, 3)) + toll.sum(1),
        )
        return 0.5 * np.log(total), np.concatenate([each.ravel() for each in slopes]) / (2 * total)

    def windows(count: int, cells: int) -> np.ndarray:
        wide = cells / 1.7 ** rng.integers(0, max(1, int(np.log(cells) / np.log(1.7))), count)
        middle = rng.random(count) * cells
        shape = np.exp(-(((np.arange(cells) + 0.5 - middle[:, None]) / (wide[:, None] / 2)) ** 4))
        return shape * rng.random((count, 1)) + 0.01 * rng.random((count, cells))

    start = np.concatenate([windows(p, b).ravel(), windows(q, m).ravel()])
    options = {"maxiter": ROUNDS, "maxcor": 20}
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[(0, None)] * len(start), options=options)
    return float(np.exp(2 * found.fun))


def main(sizes: list[int]) -> None:
    """Prints one table."""
    rows = []
    for n in sizes:
        domain = rs.Domain({"x": rs.Integers(0, n - 1)})
        for kind, ask in (("prefixes", rs.prefixes), ("ranges", rs.ranges)):
            asked = ask(domain, "x")
            tree = rs.plan(asked, rs.PureDP(1.0), form=rs.Tree())
            stated = float(np.sqrt(tree.variances(asked).mean()))
            G, queries = gram(kind, n)
            for b, p, share in TRIED:
                q, begun = round(2 * share * np.sqrt(n / b)), time.process_time()
                best = min(descended(G, b, p, q, seed) for seed in range(STARTS))
                error = np.sqrt(2 * best / queries)
                spent = time.process_time() - begun
                rows.append([f"{kind}, {n:,}", f"{stated:.3f}", f"{error:.3f}", f"{b}, {p}, {q}", f"{spent:.0f}"])
    print_rows("Laplace noise at epsilon 1, root mean square error", COLUMNS, rows)


if __name__ == "__main__":
    main([int(each) for each in sys.argv[1:]] or [256, 512])
