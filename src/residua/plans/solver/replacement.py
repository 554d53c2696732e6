"""Least cost of replacing one record: differences of cells are guarded, not cells.

Replacing a record of cell i by one of cell j moves the answers of S by `S_i − S_j`, so the cost is the largest
`‖S_i − S_j‖²` over pairs. Whatever is the same for all cells (the number of records) is free. With one cell as
reference and `x'` the counts of the others, `W x = W' x' + w · n` with `W' = W − w 1ᵀ`, and the guarded vectors are the
units (pairs with the reference) and their differences. Weights y on pairs make a Laplacian `L(y) = C Cᵀ`, which takes
the place of diag(y): `A = diag(√p) W' C = Z diag(s) Uᵀ`, `X = C^-ᵀ U diag(s) Uᵀ C⁻¹`, and all else is as in `level`.

Only pairs that bind matter: rounds are made with a few, and those that turn out to cost more are added. A bound from
some pairs is a bound for all.

A record may also vanish (a cell nobody asks about, a value that is dropped): then the reference is that empty cell, and
the number of records is not free.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from residua.linalg.arrays import Floats
from residua.plans.solver.level import Round, climb

MOST_CELLS = 96  # five seconds or so
_TALL = 8  # times as many queries as cells: too many to weigh one by one
_FREE = 2.0**10  # how much stronger than the rest the number of records is measured, where that is free
_SQUARABLE = 1e-11  # as in `response`
_FEW = 400  # pairs that are all taken at once
_OUTER = 20
_ROUNDS = 40


@dataclass(frozen=True, eq=False)
class Replacement:
    """A mechanism and a bound for it.

    Args:
        strategy: S, (rows, cells).
        achieved: largest cost of a replacement times the loss (largest variance, or weighted sum).
        bound: no mechanism goes below it.
    """

    strategy: Floats
    achieved: float
    bound: float


def least_replacement(W: Floats, tolerance: float, *, total: bool, removable: bool) -> Replacement | None:
    """Least replacement cost times loss for scaled queries W, (m, cells), of distinct cells.

    Args:
        W: rows divided by √target (the largest variance counts) or times √weight (their sum does).
        tolerance: the gap to reach.
        total: whether the sum counts.
        removable: whether a record may be replaced by none.

    Returns:
        The mechanism, or None where this method does not apply: too many cells, or queries that leave a direction out.
    """
    m, cells = W.shape
    relative = W if removable else W[:, 1:] - W[:, :1]
    if total and m > cells:
        relative = np.asarray(np.linalg.qr(relative, mode="r"), dtype=np.float64)
    if cells > MOST_CELLS or len(relative) > _TALL * cells or not relative.shape[1]:
        return None
    if np.linalg.matrix_rank(relative, rtol=1e-9) < relative.shape[1]:
        return None
    strategy, achieved, bound = _Pairs(relative, total).solve(tolerance)
    if not removable:
        free = np.full((1, cells), _FREE * float(np.abs(strategy).max()))
        strategy = np.vstack([np.hstack([np.zeros((len(strategy), 1)), strategy]), free])
    return Replacement(strategy, achieved, bound)


class _Pairs:
    """Rounds over a working set of pairs (i, j) of n + 1 cells, the last being the reference; pairs with it first."""

    def __init__(self, W: Floats, total: bool) -> None:
        self.W, self.total, self.n = W, total, W.shape[1]
        self.gram = W.T @ W
        self.i, self.j = np.arange(self.n), np.full(self.n, self.n)

    def solve(self, tolerance: float) -> tuple[Floats, float, float]:
        """The strategy on the n cells, its largest cost times its loss, and the bound."""
        apart = np.sqrt(_differences(self.gram))
        self._add(apart, max(_FEW, 3 * self.n))
        theta = apart[self.i, self.j]
        if not self.total:
            theta = np.concatenate([theta, np.linalg.norm(self.W, axis=1)])
        kept, achieved, bound, beyond = np.empty((0, 0)), np.inf, 0.0, 0.1  # by how much pairs left out cost more
        for _ in range(_OUTER):
            best = climb(self.at, theta, len(self.i), max(0.5 * tolerance, 0.2 * beyond), _ROUNDS)
            now, root = best.plan.at, best.plan.root
            rows = now.cells[: self.n] * np.sqrt(now.f)
            strategy = (rows if root is None else rows @ root).T
            costs = _differences(strategy.T @ strategy)
            bound = max(bound, best.bound)
            seen = float(costs[self.i, self.j].max())
            beyond = float(costs.max()) / seen - 1.0
            primal = best.loss * (1.0 + beyond)
            if primal < achieved:
                kept, achieved = strategy, primal
            if achieved <= bound * (1.0 + tolerance):
                break
            guarded = len(now.cells)
            fresh = self._add(np.where(costs > seen, costs, 0.0), 6 * self.n)
            theta = np.concatenate([now.theta[:guarded], np.full(fresh, 0.1 / guarded), now.theta[guarded:]])
        return kept, achieved, bound

    def _add(self, costs: Floats, most: int) -> int:
        """Adds the most expensive pairs that are not in yet, and says how many."""
        open_ = np.triu(np.ones_like(costs, dtype=bool), 1)
        open_[np.minimum(self.i, self.j), np.maximum(self.i, self.j)] = False
        i, j = np.nonzero(open_ & (costs > 0))
        costliest = np.argsort(-costs[i, j], kind="stable")[:most]
        self.i, self.j = np.concatenate([self.i, i[costliest]]), np.concatenate([self.j, j[costliest]])
        return len(costliest)

    def at(self, theta: Floats) -> Round:
        """The best mechanism for these weights."""
        n, guarded = self.n, len(self.i)
        C = np.linalg.cholesky(self._laplacian(theta[:guarded]))
        image = (self.W if self.total else np.sqrt(theta[guarded:, None]) * self.W) @ C
        energies, U = np.linalg.eigh(image.T @ image)
        if energies[0] < _SQUARABLE * energies[-1]:
            _, s, Ut = np.linalg.svd(image, full_matrices=False)
            energies, U = s**2, Ut.T
        s = np.sqrt(energies)
        f = float(s.sum())
        units = np.zeros((n + 1, n))
        units[:n] = linalg.solve_triangular(C, U, trans=1, lower=True, check_finite=False) * np.sqrt(s / f)
        # Of a total only the sum of squares of the answers counts, and in these coordinates it is that of √(s/f).
        answers = np.diag(np.sqrt(s / f)) if self.total else self.W @ (C @ U) / np.sqrt(s * f)
        return Round(units[self.i] - units[self.j], answers, s, theta, self.total)

    def _laplacian(self, y: Floats) -> Floats:
        """`Σ y_k u_k u_kᵀ` over the pairs' vectors, without the reference, (n, n)."""
        A = np.zeros((self.n + 1, self.n + 1))
        A[self.i, self.j] = y
        A = A + A.T
        return np.asarray((np.diag(A.sum(axis=1)) - A)[: self.n, : self.n])


def _differences(gram: Floats) -> Floats:
    """`‖S_i − S_j‖²` for all pairs of cells and the reference, whose column is zero, from Sᵀ S, (n + 1, n + 1)."""
    padded = np.pad(gram, (0, 1))
    diagonal = np.diagonal(padded)
    return np.asarray(np.maximum(diagonal[:, None] + diagonal - 2.0 * padded, 0.0))
