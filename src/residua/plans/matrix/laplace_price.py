"""What Laplace noise on integers costs each unit of protection, in whole numbers.

Changing the data by z changes `B x` by `B z`, and independent Laplace noise of scale s hides a change of L1 norm c at
`ε = c/s`. One record added or removed has `z = ±e_j`; k records at most k times that; a record that is replaced has
`z = e_i − e_j`.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from residua.errors import VerificationError
from residua.privacy import AddRemove, ReplaceOne, Unit

Integers = NDArray[np.int64]
_MOST_WORK = 2**31  # subtractions: beyond, twice the sensitivity stands for the dearest replacement


def column_norm(B: Integers) -> int:
    """`max_j Σ_k |B_kj|`, exactly."""
    if len(B) and int(np.abs(B).max()) < 2**62 // len(B):
        return int(np.abs(B).sum(axis=0).max(initial=0))
    return max((sum(abs(int(b)) for b in column) for column in B.T), default=0)


def replacement_norm(B: Integers, *, removable: bool) -> int:
    """`max_ij ‖B_i − B_j‖₁`, exactly or, for many columns, `2 max_j ‖B_j‖₁`, which is never less.

    Args:
        B: the strategy.
        removable: whether a replaced record may also leave every table.
    """
    norm = column_norm(B)
    rows, n = B.shape
    if rows * n * n > _MOST_WORK or int(np.abs(B).max(initial=0)) >= 2**61 // max(rows, 1):
        return 2 * norm
    columns = np.ascontiguousarray(B.T)
    largest = max(int(np.abs(columns[j:] - columns[j]).sum(axis=1).max()) for j in range(n))
    return max(largest, norm if removable else 0)


def epsilon_of_unit(unit: Unit, norm: int, replaced: int) -> Fraction:
    """What a unit of protection costs, times the noise scale.

    Raises:
        VerificationError: an unknown unit.
    """
    if isinstance(unit, AddRemove):
        return Fraction(unit.records * norm)
    if isinstance(unit, ReplaceOne):
        return Fraction(replaced)
    raise VerificationError(f"unit={unit!r} is not one that Laplace noise is priced for; use AddRemove or ReplaceOne.")
