"""The verifier of the matrix form: what measuring one integer matrix costs, exactly, from the integers alone.

Changing the data by z changes `B x` by `B z`. Normal noise of scale s hides a change of L2 norm c at a pcost of
`c²/s²`, Laplace noise a change of L1 norm c at `ε = c/s`. One record added or removed has `z = ±e_j`; k records at most
k times that; a record that is replaced has `z = e_i − e_j`. Limits on a person's records make normal noise cheaper
(`contribution.py`); in L1 norm k records in different columns can cost k times as much as one, and do in a table.

Small and trusted: whole numbers and fractions, every step rounded up.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from residua.linalg.arrays import Floats, Integers
from residua.linalg.modes import column_norms, largest_entry
from residua.plans.blocks import rounded_up
from residua.plans.noise import LAPLACE, Noise
from residua.privacy import Unit

_MOST_WORK = 2**31  # subtractions: beyond, twice the sensitivity stands for the most expensive replacement


def price(noise: Noise, B: Integers, scale: float, unit: Unit, *, records: int | None, removable: bool) -> Fraction:
    """What measuring `B x + round(s z)` costs this unit of protection, never less than the truth.

    Args:
        noise: the distribution of z.
        B: the strategy, (rows, columns).
        scale: s; a float is an exact rational.
        unit: whom to protect.
        records: the most records of one person; None if a record is replaced.
        removable: whether a replaced record may also leave every table.
    """
    if noise == LAPLACE:
        return rounded_up(laplace_norm(B, records, removable=removable) / Fraction(scale))
    square = 1 / Fraction(scale) ** 2
    pcost = max(column_norms(B)) * square
    if records is not None:
        return rounded_up(records**2 * pcost)
    return rounded_up(unit.scaled(pcost, replacement_square(B, removable=removable) * square))


# ---- normal noise


def replacement_square(B: Integers, *, removable: bool) -> Fraction:
    """`max_ij ‖B_i − B_j‖²`, from floating-point products widened by a bound on their rounding."""
    moved = moved_columns(B)
    gram = moved.T @ moved
    diagonal = np.diag(gram)
    largest = float((diagonal[:, None] + diagonal[None, :] - 2 * gram).max())
    # Each entry of the product of k terms is off by at most k·2^-52·‖B_i‖‖B_j‖; four of them enter.
    slack = 4 * (len(B) + 4) * 2.0**-52 * float(diagonal.max())
    # A record changed to a cell nobody asks about, or to a value that is left out, is a record removed.
    unasked = max(column_norms(B)) if removable else 0
    return max(Fraction(largest) + Fraction(slack), Fraction(unasked))


def moved_columns(B: Integers) -> Floats:
    """The columns of a strategy, all moved alike so that what they have in common is gone, (rows, columns).

    A strategy for records that are changed may know their number very well: its differences would drown in that.
    Nothing is rounded: entries too large for it are left where they are.
    """
    rows = B.astype(np.float64)
    return rows - rows[:, :1] if float(np.abs(rows).max(initial=0.0)) < 2.0**52 else rows


# ---- Laplace noise


def laplace_norm(B: Integers, records: int | None, *, removable: bool) -> Fraction:
    """What a person with so many records costs in epsilon, or a record that is replaced (None), times the scale."""
    return Fraction(replacement_sum(B, removable=removable) if records is None else records * column_sum(B))


def column_sum(B: Integers) -> int:
    """`max_j Σ_k |B_kj|`, exactly."""
    if len(B) and largest_entry(B) < 2**62 // len(B):
        return int(np.abs(B).sum(axis=0).max(initial=0))
    return max((sum(abs(int(b)) for b in column) for column in B.T), default=0)


def replacement_sum(B: Integers, *, removable: bool) -> int:
    """`max_ij ‖B_i − B_j‖₁`, exactly or, for many columns, `2 max_j ‖B_j‖₁`, which is never less."""
    norm = column_sum(B)
    rows, n = B.shape
    if rows * n * n > _MOST_WORK or largest_entry(B) >= 2**61 // max(rows, 1):
        return 2 * norm
    columns = np.ascontiguousarray(B.T)
    largest = max(int(np.abs(columns[j:] - columns[j]).sum(axis=1).max()) for j in range(n))
    return max(largest, norm if removable else 0)
