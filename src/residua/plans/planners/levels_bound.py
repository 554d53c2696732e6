"""What no plan along an axis is below where levels are asked beside prefixes, ranges and values."""

from __future__ import annotations

import numpy as np

from residua.linalg.arrays import Floats
from residua.linalg.path import Path
from residua.plans.axis.runs import level_rows
from residua.plans.planners.along import Along
from residua.plans.solver.nested_bound import Nested, in_order, nested
from residua.workload.nested import LevelRows

_ROUNDS = 4
_SHARES = np.concatenate([[0.0], np.geomspace(1e-4, 0.95, 40)])


def total_with_levels(found: Along, path: Path, q: Floats) -> float:
    """No total variance × pcost is below this, whatever q is; the path is of all that is asked but the levels."""
    levels = [(asked, weight) for asked, weight, _ in found.parts if isinstance(asked, LevelRows)]
    parts, kept = _parts([asked for asked, _ in levels], path, q)
    others = sum(weight * asked.rows for k, (asked, weight) in enumerate(levels) if k not in kept)
    return parts.root([levels[k][1] for k in kept]) ** 2 + others


def largest_with_levels(found: Along, scales: Floats, path: Path, q: Floats) -> float:
    """No largest variance / scale × pcost is below this.

    The path is of weights of all that is asked but the levels, whose sum of `weight × scale` is 1. Levels get a share
    of that, the same for all groups of one; the best is sought.
    """
    scaled = zip(found.parts, scales.tolist(), strict=True)
    levels = [(asked, scale) for (asked, *_), scale in scaled if isinstance(asked, LevelRows)]
    parts, kept = _parts([asked for asked, _ in levels], path, q)
    per_share = np.array([1 / (levels[k][1] * levels[k][0].rows) for k in kept])
    shares = np.zeros(len(kept))

    def root(tried: Floats) -> float:
        return parts.root((tried * per_share).tolist(), 1 - float(tried.sum()))

    for _ in range(_ROUNDS):
        for k in range(len(kept)):
            room = 1 - float(shares.sum()) + float(shares[k])
            each = [np.where(np.arange(len(kept)) == k, room * share, shares) for share in _SHARES]
            shares = max(each, key=root)
    return root(shares) ** 2


def _parts(levels: list[LevelRows], path: Path, q: Floats) -> tuple[Nested, list[int]]:
    codes = [np.asarray(asked.level.codes, dtype=np.int64) for asked in levels]
    kept = in_order(codes)
    return nested(path, q, [level_rows(levels[k]) for k in kept], [codes[k] for k in kept]), kept
