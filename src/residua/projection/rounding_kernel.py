"""A compiled loop: whole numbers with given sums of rows and columns, near a table and not negative."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

import numpy as np

from residua.machine import compiled

_NEAR = 1e-9  # to the next whole number


@compiled
def transported(target, rows, columns):
    """Row by row the largest remainders of what each column is owed so far, (m, n).

    Guarantee: not negative, with exactly these sums; they are whole, not negative and of one total. Each row is given
    what fits into the columns that are left, which is always enough. Where the target is zero something is given only
    if the rest of the row has no room.
    """
    m, n = target.shape
    given = np.zeros((m, n), np.int64)
    left, owed, scale = columns.copy(), np.zeros(n), np.zeros(n)
    for j in range(n):
        total = target[:, j].sum()
        scale[j] = columns[j] / total if total > 0.0 else 0.0
    for i in range(m):
        missing = rows[i]
        for j in range(n):
            owed[j] += target[i, j] * scale[j]
            if target[i, j] > 0.0:
                given[i, j] = min(max(int(np.floor(owed[j] + _NEAR)), 0), left[j])
            missing -= given[i, j]
        while missing != 0:
            best, most = -1, -np.inf
            for j in range(n):
                apart = owed[j] - given[i, j]
                if missing < 0 and given[i, j] > 0 and -apart > most:
                    best, most = j, -apart
                if missing > 0 and given[i, j] < left[j]:
                    apart -= 0.0 if target[i, j] > 0.0 else 1e18
                    if apart > most:
                        best, most = j, apart
            step = 1 if missing > 0 else -1
            given[i, best] += step
            missing -= step
        for j in range(n):
            owed[j] -= given[i, j]
            left[j] -= given[i, j]
    return given
