"""A bound for ordered queries together with nested levels, from passes along the axis.

`f = tr S^½` is the nuclear norm of B, the rows of all queries times Q^½: at least `tr YᵀB` for every Y whose columns
are orthonormal. B₀, the ordered queries, has `S₀^½ = U₀ᵀB₀`. A level adds the rows `√(w q_g) e_gᵀ`, with q_g what q
adds up to in a group and e_g a unit vector. With Π the projection onto the groups, `Y = [U₀ (I − Π + c Π); s e_gᵀ …]`,
where c² + s² = 1, has orthonormal columns, so that

    f ≥ tr S₀^½ − (1 − c) t + s Σ_g √(w q_g),   t = Σ_g e_gᵀ S₀^½ e_g,

largest where c : s is t to the sum. A coarser level, whose groups are unions of these, comes in the same way: its unit
vectors lie in the span of the finer ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from residua.linalg.arrays import Floats, Integers
from residua.linalg.chain import OrderedNoise
from residua.linalg.path import Path
from residua.linalg.roots import inverse_root
from residua.plans.solver.ordered import spectrum

_ERROR = 1e-4


@dataclass(frozen=True, eq=False)
class Nested:
    """What the bound is made of, for any weights of the levels.

    Args:
        whole: `tr S₀^½`, rounded down by the error of the root.
        shares: t of each level, the finest first.
        inner: `Σ_g' √q_g' q_g'/q_g` over the groups of level k inside those of level l, (k, l); for k = l `Σ_g √q_g`.
    """

    whole: float
    shares: Sequence[float]
    inner: Floats

    def root(self, weights: Sequence[float], ordered: float = 1.0) -> float:
        """f, at least, where the groups of each level have a weight, and the ordered queries are weighted too."""
        scale = math.sqrt(ordered)
        found, turns = scale * self.whole, [(1.0, 0.0)] * len(weights)
        for level, weight in enumerate(weights):
            share = scale * self.shares[level]
            for k in range(level):  # what finer levels changed
                c, s = turns[k]
                share = c * share + s * math.sqrt(weights[k]) * float(self.inner[k, level])
            added = math.sqrt(weight) * float(self.inner[level, level])
            length = math.hypot(share, added)
            turns[level] = (share / length, added / length) if length else (1.0, 0.0)
            found += length - share
        return found


def nested(path: Path, q: Floats, rows: Sequence[csr_array], codes: Sequence[Integers]) -> Nested:
    """The parts of the bound for these weights q of the cells.

    Args:
        path: the ordered queries.
        q: weights, (n,).
        rows: groups over running sums, for each level, the finest first.
        codes: the group of each value, for each level.
    """
    q = q / q.sum()
    root = inverse_root(*spectrum(path, path.gram_diagonal, q), error=_ERROR)
    whole = float(path.shares(q, root.poles, root.weights).sum())
    sums = [np.bincount(each, weights=q) for each in codes]
    part = OrderedNoise(path, q, root.poles, root.weights * root.poles)
    total = float(root.weights.sum())
    # e_gᵀ S (S + p)⁻¹ e_g = 1 − p Var(g)/q_g, Var(g) in the part of pole p
    shares = [float((total - part.row_variances(each) / held).sum()) for each, held in zip(rows, sums, strict=True)]
    inner = np.zeros((len(codes), len(codes)))
    for k, fine in enumerate(codes):
        firsts = np.unique(fine, return_index=True)[1]
        for level in range(k, len(codes)):
            outer = sums[level][codes[level][firsts]]
            inner[k, level] = float((np.sqrt(sums[k]) * sums[k] / outer).sum())
    low = 1 + root.error
    return Nested(whole / low, [each / low for each in shares], inner)


def in_order(codes: Sequence[Integers]) -> list[int]:
    """Levels of which each is nested in the next, the finest first: those that can be had together."""
    by_size = sorted(range(len(codes)), key=lambda k: -int(codes[k].max()))
    found: list[int] = []
    for k in by_size:
        if not found or _nested(codes[found[-1]], codes[k]):
            found.append(k)
    return found


def _nested(fine: Integers, coarse: Integers) -> bool:
    """Whether runs of the coarse level end only where runs of the fine one do."""
    return not np.any((np.diff(coarse) != 0) & (np.diff(fine) == 0))
