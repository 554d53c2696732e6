"""The compiled loop that splits what a parent has among its children."""

from __future__ import annotations

from typing import Any

from residua.compiling import compiled


@compiled
def split_among(order: Any, offsets: Any, values: Any, weights: Any, wanted: Any, nonnegative: bool) -> None:
    """Moves the children's values, in place, to the nearest that add up to what is wanted of each parent.

    Least `Σ (x − y)²/w` with `Σ x` given, and x not negative: `x = max(y + w m, 0)`. Those that would be negative are
    left out round by round.
    """
    for parent in range(len(offsets) - 1):
        low, high = offsets[parent], offsets[parent + 1]
        for cell in range(values.shape[1]):
            total = wanted[parent, cell]
            if nonnegative and total <= 0.0:
                for at in range(low, high):
                    values[order[at], cell] = 0.0
                continue
            left = -1
            shift = 0.0
            while True:
                among, weight, count = 0.0, 0.0, 0
                for at in range(low, high):
                    child = order[at]
                    if left < 0 or not nonnegative or values[child, cell] + weights[child] * shift > 0.0:
                        among += values[child, cell]
                        weight += weights[child]
                        count += 1
                shift = (total - among) / weight
                if count == left or not nonnegative:
                    break
                left = count
            for at in range(low, high):
                child = order[at]
                moved = values[child, cell] + weights[child] * shift
                values[child, cell] = moved if not nonnegative or moved > 0.0 else 0.0
