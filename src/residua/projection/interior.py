"""A primal-dual interior point (Mehrotra's predictor and corrector), and with it nearest tables that share coordinates.

Minimise `½ Σ_k r_kᵀ Q_k r_k − gᵀ r` over coordinates r with `A_k r_k ≥ 0`, r_k being those of table k. A coordinate
that one table alone has is private to it; the Newton system is solved for the private ones table by table, and once
for those that are shared. With slacks s = A r and multipliers z, the dual value at z is lower than the primal one by
`zᵀs + ½ dᵀ Q⁻¹ d`, d the dual residual: that is the gap, whatever the path was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from residua.linalg.arrays import Booleans, Floats, Integers
from residua.projection.problem import Progress

_ROUNDS = 200
_BACK = 0.9995  # of the way to the boundary
_TINY = 1e-13  # of the largest diagonal entry: what a direction that nothing measures weighs


class Quadratic(Protocol):
    """A convex quadratic function of coordinates, and cells linear in them that may not be negative."""

    def gradient(self, r: Floats) -> Floats:
        """`∇f(r)`, 0 where nothing moves."""

    def cells(self, r: Floats) -> Floats:
        """`A r`."""

    def adjoint(self, values: Floats) -> Floats:
        """`Aᵀ v`, 0 where nothing moves."""

    def factored(self, weights: Floats) -> Callable[[Floats], Floats]:
        """What solves `∇²f + Aᵀ diag(weights) A`.

        Raises:
            LinAlgError: that is not positive, for rounding.
        """


@dataclass(frozen=True, eq=False)
class Iterate:
    """Where the path is: coordinates, slacks, their multipliers and those of the equations; what each is missed by."""

    coordinates: Floats
    slacks: Floats
    multipliers: Floats
    prices: Floats
    dual: Floats
    primal: Floats
    off: Floats


def central_path(
    function: Quadratic, r: Floats, s: Floats, z: Floats, E: Floats, e: Floats
) -> Iterator[tuple[int, Iterate]]:
    """The central path to the least value under `E r = e` and `A r ≥ 0`, point by point, as far as rounding lets it.

    Args:
        function: what is least.
        r: coordinates to begin at.
        s: slacks, positive.
        z: their multipliers, positive.
        E: equations, (equations, coordinates).
        e: what they say, (equations,).
    """
    nu = np.zeros(len(e))
    for number in range(1, _ROUNDS + 1):
        dual = function.gradient(r) - E.T @ nu - function.adjoint(z)
        primal, off = function.cells(r) - s, E @ r - e
        yield number, Iterate(r, s, z, nu, dual, primal, off)
        try:
            solve = function.factored(z / s)
        except LinAlgError:
            return
        across = solve(E.T) if len(E) else E.T
        mean, aimed = float(s @ z) / len(s), -s * z
        for correcting in (False, True):
            moved = solve(function.adjoint((aimed - z * primal) / s) - dual)
            dnu = np.linalg.lstsq(E @ across, -off - E @ moved, rcond=None)[0] if len(E) else nu
            moved = moved + across @ dnu
            ds = function.cells(moved) + primal
            dz = (aimed - z * ds) / s
            step = min(_longest(s, ds), _longest(z, dz))  # a quadratic function couples both
            if not correcting:
                after = float((s + step * ds) @ (z + step * dz)) / len(s)
                aimed = (after / mean) ** 3 * mean - s * z - ds * dz
        if not 1e-12 < step < np.inf:
            return
        r, s, z, nu = r + step * moved, s + step * ds, z + step * dz, nu + step * dnu


def _longest(values: Floats, change: Floats) -> float:
    """How far along a change values stay positive, at most 1."""
    falling = change < 0
    return min(1.0, _BACK * float((-values[falling] / change[falling]).min(initial=np.inf)))


@dataclass(frozen=True, eq=False)
class TablePiece:
    """One table.

    Args:
        at: where its coordinates stand among all, (coordinates of the table,).
        cells: A_k, its cells from its coordinates, (cells, coordinates).
        square: Q_k, symmetric, (coordinates, coordinates).
    """

    at: Integers
    cells: Floats
    square: Floats


class _Tables:
    """The tables, with the coordinates that are free.

    Args:
        pieces: the tables.
        linear: g, (coordinates,).
        free: which may move, (coordinates,).
    """

    def __init__(self, pieces: Sequence[TablePiece], linear: Floats, free: Booleans) -> None:
        size = len(linear)
        self.pieces, self.size, self.free, self.linear = pieces, size, free, linear
        often = np.zeros(size, dtype=np.int64)
        for piece in pieces:
            often[piece.at] += 1
        self.shared = np.flatnonzero(free & (often > 1))
        place = np.full(size, -1, dtype=np.int64)
        place[self.shared] = np.arange(len(self.shared))
        self.own = [np.flatnonzero(free[piece.at] & (often[piece.at] == 1)) for piece in pieces]
        self.both = [np.flatnonzero(place[piece.at] >= 0) for piece in pieces]
        self.into = [place[piece.at[both]] for piece, both in zip(pieces, self.both, strict=True)]
        self.ends = np.cumsum([0, *(len(piece.cells) for piece in pieces)])

    def split(self, values: Floats) -> list[Floats]:
        """Values of all cells, table by table."""
        return [values[a:b] for a, b in zip(self.ends[:-1], self.ends[1:], strict=True)]

    def cells(self, r: Floats) -> Floats:
        """`A r`."""
        return np.concatenate([piece.cells @ r[piece.at] for piece in self.pieces])

    def adjoint(self, values: Floats) -> Floats:
        """`Aᵀ v`, 0 where nothing moves."""
        sums = np.zeros(self.size)
        for piece, own in zip(self.pieces, self.split(values), strict=True):
            sums[piece.at] += piece.cells.T @ own
        return np.where(self.free, sums, 0.0)

    def gradient(self, r: Floats) -> Floats:
        """`Q r − g`, 0 where nothing moves."""
        product = -self.linear
        for piece in self.pieces:
            product[piece.at] += piece.square @ r[piece.at]
        return np.where(self.free, product, 0.0)

    def factored(self, weights: Floats | None) -> Callable[[Floats], Floats]:
        """What solves `Q + Aᵀ diag(weights) A`, or Q alone."""
        systems = [piece.square for piece in self.pieces]
        if weights is not None:
            systems = [
                piece.square + (piece.cells * w[:, None]).T @ piece.cells
                for piece, w in zip(self.pieces, self.split(weights), strict=True)
            ]
        return _Factored(self, systems).solve


class _Factored:
    """A Newton system, its private parts eliminated."""

    def __init__(self, tables: _Tables, systems: Sequence[Floats]) -> None:
        self.tables, self.parts = tables, []
        schur = np.zeros((len(tables.shared), len(tables.shared)))
        for H, own, both, into in zip(systems, tables.own, tables.both, tables.into, strict=True):
            private, across = _cholesky(H[np.ix_(own, own)]), H[np.ix_(own, both)]
            schur[np.ix_(into, into)] += H[np.ix_(both, both)]
            schur[np.ix_(into, into)] -= across.T @ cho_solve(private, across)
            self.parts.append((private, across))
        self.schur = _cholesky(schur)

    def solve(self, right: Floats) -> Floats:
        """The solution, 0 where nothing moves."""
        tables, solution = self.tables, np.zeros(self.tables.size)
        reduced = right[tables.shared]
        for piece, own, into, (private, across) in zip(tables.pieces, tables.own, tables.into, self.parts, strict=True):
            np.subtract.at(reduced, into, across.T @ cho_solve(private, right[piece.at[own]]))
        shared = cho_solve(self.schur, reduced)
        solution[tables.shared] = shared
        for piece, own, into, (private, across) in zip(tables.pieces, tables.own, tables.into, self.parts, strict=True):
            solution[piece.at[own]] = cho_solve(private, right[piece.at[own]] - across @ shared[into])
        return solution


def _cholesky(matrix: Floats) -> tuple[Floats, bool]:
    ridge = _TINY * float(matrix.diagonal().max(initial=1e-300))
    for _ in range(8):
        try:
            factor, lower = cho_factor(matrix + ridge * np.eye(len(matrix)), lower=True)
            return factor, lower
        except np.linalg.LinAlgError:
            ridge *= 100.0
    raise ArithmeticError("a Newton system is not positive")  # no matrix of this kind


def nearest_tables(
    pieces: Sequence[TablePiece],
    linear: Floats,
    start: Floats,
    free: Booleans,
    *,
    nonnegative: bool,
    enough: float,
    progress: Progress | None = None,
) -> tuple[Floats, float, float]:
    """The coordinates of least objective whose tables are not negative; the gap of twice that; the most negative cell.

    Args:
        pieces: the tables.
        linear: g, (coordinates,).
        start: coordinates to begin at, with the values of those that are held, (coordinates,).
        free: which coordinates may move, (coordinates,).
        nonnegative: whether cells may not be negative.
        enough: the gap at which to stop.
        progress: called with the round and the gap.
    """
    tables, r = _Tables(pieces, linear, free), np.array(start)
    alone = tables.factored(None)
    if not nonnegative:
        return r - alone(tables.gradient(r)), 0.0, 0.0
    s = np.maximum(tables.cells(r), 1e-3 * (1.0 + abs(float(np.abs(r).max())) / len(r)))
    z = np.full(len(s), (abs(float(r @ tables.gradient(r))) + 1.0) / float(s.sum()))
    best: tuple[float, Floats] = (np.inf, r)
    for number, point in central_path(tables, r, s, z, np.zeros((0, len(r))), np.zeros(0)):
        gap = 2.0 * float(point.slacks @ point.multipliers) + float(point.dual @ alone(point.dual))
        if float(np.abs(point.primal).max()) <= 1e-9 * (1.0 + float(point.slacks.max())) and gap < best[0]:
            best = (gap, point.coordinates)
        if progress:
            progress(number, gap)
        if best[0] <= enough:
            break
    gap, r = best
    return r, max(gap, 0.0), max(0.0, -float(tables.cells(r).min()))
