"""Tables with given margins that are nowhere near zero, to mix into tables of which some cells are a little negative.

With only the total given, all records spread evenly. With margins q of single attributes given, a share δ of the
records evenly and the others independently: `n (δ ⊗e_i + (1 − δ) ⊗q'_i)` with `q_i/n = δ e_i + (1 − δ) q'_i`. No cell
of it is below δ times that of the even table, and δ is as large as the margins allow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from residua.linalg.arrays import Floats
from residua.linalg.layout import Group, Layout


@dataclass(frozen=True, eq=False)
class Interior:
    """Such tables, for one record.

    Args:
        evenness: δ; 0 if there are none, or if they are not known.
        rests: q' of each attribute, adding up to 1.
    """

    evenness: float
    rests: Sequence[Floats]

    def coordinates(self, layout: Layout, even: Sequence[Floats], rests: Sequence[Floats]) -> Floats:
        """The coordinates of these tables on all sets of a layout, from those of e and of q' along each attribute."""
        found = np.empty(layout.cells)
        for group in layout:
            parts = self.evenness * _crossed(group, even) + (1.0 - self.evenness) * _crossed(group, rests)
            group.view(found)[...] = parts
        return found


def interior_of(fixed: Mapping[tuple[int, ...], Floats], even: Sequence[Floats]) -> Interior:
    """The interior of all tables with given margins (attribute positions → cells); `even` is e of each attribute."""
    shares: list[Floats] = list(even)
    if not fixed:
        return Interior(1.0, shares)
    total = float(fixed.get((), np.asarray(0.0)))
    if total <= 0 or any(len(members) > 1 for members in fixed):
        return Interior(0.0, shares)
    for members, cells in fixed.items():
        if members:
            shares[members[0]] = cells / total
    delta = min(float((share / e).min()) for share, e in zip(shares, even, strict=True))
    if delta >= 1.0 - 1e-12:
        return Interior(1.0, even)
    if delta <= 1e-12:
        return Interior(0.0, even)
    rests = [(share - delta * e) / (1.0 - delta) for share, e in zip(shares, even, strict=True)]
    return Interior(delta, rests)


def _crossed(group: Group, vectors: Sequence[Floats]) -> Floats:
    """Outer products of the members' vectors, (tables, n_1, …, n_k)."""
    tables = np.ones(len(group.numbers))
    for j in range(group.members.shape[1]):
        along = np.stack([vectors[i] for i in group.members[:, j]])
        tables = tables[..., None] * along.reshape(len(along), *[1] * j, along.shape[1])
    return tables
