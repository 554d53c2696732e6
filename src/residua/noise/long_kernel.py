"""The compiled loop of `long_table.py`; whoever needs no second words does not load the compiler for it."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

from typing import Any

import numpy as np

from residua.compiling import compiled
from residua.noise.long_table import STEP_BITS
from residua.noise.pairs import plus, times, two_sum
from residua.noise.table import FIRST_BINADE, SEGMENT_BITS

_compiled: Any = compiled  # without fastmath, as the proof asks
_SHIFT = 52 - SEGMENT_BITS
_FIRST = (1023 + FIRST_BINADE) << SEGMENT_BITS
_STEP = 2.0**-STEP_BITS


@_compiled
def evaluate(words, seconds, positions, bits, rows, high, low, bounds):
    """ẑ as pairs and their bounds, (n,) each."""
    last = rows.shape[0] - 1
    for i in range(words.size):
        j = min((bits[i] >> _SHIFT) - _FIRST, last)
        if j < 0:
            high[i], low[i], bounds[i] = 0.0, 0.0, np.inf
            continue
        r = rows[j]
        v = words[i] >> np.uint64(1)
        off = np.int64(v - np.uint64(positions[i]))  # exact: in whole numbers that wrap around
        beyond = np.float64(off) + np.float64(seconds[i]) * 2.0**-64
        ta, tb = two_sum((positions[i] - r[0]) * _STEP, beyond * _STEP)
        q = r[27]
        for n in range(26, 18, -1):
            q = r[n] + ta * q
        qa, qb = q, 0.0
        for n in range(17, 0, -2):
            qa, qb = times(ta, tb, qa, qb)
            qa, qb = plus(r[n], r[n + 1], qa, qb)
        high[i], low[i], bounds[i] = qa, qb, r[28]
