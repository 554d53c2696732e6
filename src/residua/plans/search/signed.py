"""Strategies of any rows and signs on few cells, by descents from many starts.

A strategy `A = Z D⁻¹`, D the column sums of |Z|, has sensitivity 1 whatever Z is, and the loss `tr (AᵀA)⁻¹ V`. |z| has
a kink at 0, where good strategies have most of their entries, so that plain descents end anywhere. So |z| is first
`√(z² + w²)`, with w smaller from stage to stage; then entries that are nearly 0 are left out, and the others descend to
the end, where the loss is smooth. All starts are fixed, so that plans repeat. Nothing is proven of the best.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from residua.linalg.arrays import Booleans, Floats
from residua.plans.search.strategies import Judged, Slopes, lowest, sensitivity

FEW_CELLS = range(6, 15)
_MORE_ROWS = (0, 1, 3)  # than cells
_SEEDS, _FIRST, _KEPT = 12, 9, 6
_GAIN = 1e-3  # relative: where the first starts win less, others are not tried
_ROUGH, _FINE = (0.03, 0.01), (0.003, 0.001)  # w, as a share of a column's sum
_ROUNDS = {"rough": 60, "fine": 600, "last": 1000}
_NOTHING = 0.01  # of a column's sum: smaller entries are left out
_RIDGE = 1e-12


def signed_rows(asked: Judged, least: float) -> Floats | None:
    """The best strategy found, (rows, n), sensitivity 1; None where it is not better than a known loss.

    Args:
        asked: the queries, on few cells, judged by their total.
        least: the loss to beat.
    """
    starts = _starts(asked.cells)
    first = _best_of(asked, starts[:_FIRST], _KEPT // 3)
    if asked.loss(first) > (1 - _GAIN) * least:
        return None
    return min((first, _best_of(asked, starts[_FIRST:], _KEPT)), key=asked.loss)


def _best_of(asked: Judged, starts: Sequence[Floats], kept: int) -> Floats:
    """The best after rough descents from all starts, and fine ones from the better of them."""
    tried = [_descended(asked, start, _ROUGH, _ROUNDS["rough"]) for start in starts]
    return min((_finished(asked, Z) for Z in sorted(tried, key=asked.loss)[:kept]), key=asked.loss)


def _starts(n: int) -> list[Floats]:
    """Random rows, and the cells with a little of everything."""
    starts = []
    for seed in range(_SEEDS):
        for more in _MORE_ROWS:
            rng = np.random.default_rng(1000 * (n + more) + seed)
            noise = rng.standard_normal((n + more, n))
            starts.append(_scaled(0.3 * noise + np.eye(n + more, n) if seed % 2 else noise))
    return starts


def _scaled(Z: Floats) -> Floats:
    return np.asarray(Z / np.abs(Z).sum(axis=0))


def _descended(asked: Judged, Z: Floats, widths: Sequence[float], rounds: int) -> Floats:
    every = np.ones(Z.shape, dtype=bool)
    for width in widths:
        Z = _scaled(_lowered(asked, Z, every, width, rounds))
    return Z


def _finished(asked: Judged, Z: Floats) -> Floats:
    """The strategy after the last stages, without entries that are nearly nothing."""
    Z = _descended(asked, Z, _FINE, _ROUNDS["fine"])
    kept = np.abs(Z) > _NOTHING
    if np.linalg.matrix_rank(np.where(kept, Z, 0.0)) < Z.shape[1]:
        return Z
    last = _lowered(asked, np.where(kept, Z, 0.0), kept, 0.0, _ROUNDS["last"])
    last = last[np.abs(last).any(axis=1)]
    last = last / sensitivity(last)
    return min((last, Z), key=asked.loss)


def _lowered(asked: Judged, Z: Floats, kept: Booleans, width: float, rounds: int) -> Floats:
    """The entries that are kept, after a descent."""
    options = {"maxiter": rounds, "maxcor": 20, "maxfun": 10 * rounds, "ftol": 1e-12, "gtol": 1e-9}
    lower = np.zeros(Z.shape)
    lower[kept] = lowest(_loss(asked.gram, kept, width), [Z[kept]], [(None, None)] * int(kept.sum()), **options)[1]
    return lower


def _loss(V: Floats, kept: Booleans, width: float) -> Slopes:
    """`log tr (AᵀA)⁻¹ V` and its slopes, for the entries that are kept."""
    ridge = _RIDGE * np.eye(len(V))

    def objective(x: Floats) -> tuple[float, Floats]:
        Z, soft = np.zeros(kept.shape), np.zeros(kept.shape)
        Z[kept] = x
        soft[kept] = np.sqrt(x * x + width * width)
        sums = np.maximum(soft.sum(axis=0), 1e-300)
        A = Z / sums
        inverse = np.linalg.inv(A.T @ A + ridge)
        half = inverse @ V
        value = float(np.trace(half))
        slope = -2.0 * A @ (half @ inverse)
        turn = np.divide(Z, soft, out=np.zeros(kept.shape), where=soft > 0)
        slope = (slope - turn * (slope * A).sum(axis=0)) / sums
        return float(np.log(value)), slope[kept] / value

    return objective
