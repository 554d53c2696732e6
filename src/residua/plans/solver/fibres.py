"""The least total variance along one axis that is crossed with others: one optimum for each set of these.

Split by sets T of the other attributes, a workload is a sum over T of queries along the axis, with Gram matrix G_T:
what is centred along T, times matrices along the axis (`fibres/facts.py`). A plan is a Γ_T for each, and a record in
cell k of the axis costs `Σ_T κ_T (Γ_T)_kk`. With weights q on the cells, `S_T = κ_T Q^½ G_T Q^½` and
`F = Σ_T tr S_T^½`, no plan has a total variance × pcost below F², and

    Γ_T = Q^-½ S_T^½ Q^-½ / (κ_T F)

is best for these weights. The update of q is that of one axis (`ordered.py`), by the sum of what all T pay in a cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from residua.linalg.arrays import Floats
from residua.linalg.conductances import Network
from residua.linalg.path import Path
from residua.linalg.roots import InverseRoot, inverse_root
from residua.plans.solver.ordered import Step, spectrum

_POWER = 1.9
_COARSE, _FINE = 1e-3, 1e-5


@dataclass(frozen=True, eq=False)
class FibreSolution:
    """Weights of the cells, the poles of each part's noise, and F.

    Args:
        q: the weights, (n,).
        roots: of each part, a rational approximation of `S^-½`.
        total: F.
        rounds: how many rounds it took.
    """

    q: Floats
    roots: tuple[InverseRoot, ...]
    total: float
    rounds: int


def least_of_fibres(
    parts: Sequence[Path | Network],
    factors: Sequence[float],
    even: float,
    *,
    tolerance: float,
    most_rounds: int = 500,
    step: Step | None = None,
) -> FibreSolution:
    """The weights of cells that are best for several parts together, to within a relative `tolerance`.

    Args:
        parts: queries along the axis.
        factors: what `S^½` of each part is multiplied by.
        even: what is paid in every cell alike.
        tolerance: how far from the best is near enough.
        most_rounds: how many rounds at most.
        step: is told how far it is.
    """
    diagonals = [part.gram_diagonal for part in parts]
    q = sum((factor * np.sqrt(each) for factor, each in zip(factors, diagonals, strict=True)), np.zeros(parts[0].size))
    q = q / q.sum()
    best = 0.0
    for rounds in range(1, most_rounds + 1):
        roots = _roots(parts, diagonals, q, min(_COARSE, tolerance / 8))
        shares = even * q
        for part, factor, root in zip(parts, factors, roots, strict=True):
            shares = shares + factor * part.shares(q, root.poles, root.weights)
        f, error = float(shares.sum()), max(root.error for root in roots)
        best = max(best, f / (1 + error))
        ratios = shares / (q * f)
        gap = float(ratios.max()) * (f / best) ** 2 * (1 + error) ** 2 - 1
        if step:
            step(rounds, gap)
        if gap <= tolerance:
            break
        q = q * ratios**_POWER
        q /= q.sum()
    return FibreSolution(q, tuple(_roots(parts, diagonals, q, min(_FINE, tolerance / 8))), f, rounds)


def _roots(parts: Sequence[Path | Network], diagonals: Sequence[Floats], q: Floats, error: float) -> list[InverseRoot]:
    both = zip(parts, diagonals, strict=True)
    return [inverse_root(*spectrum(part, diagonal, q), error=error) for part, diagonal in both]
