"""How near to the best possible a plan is, in words."""

from __future__ import annotations

import math


def nearness(gap: float, rival: str) -> str:
    """How far from its rival a plan can be; two digits, rounded up, and no less than a millionth.

    Example:
        >>> nearness(5.578e-05, "the best possible"), nearness(1.016, "the best possible")
        ('within 0.0056 % of the best possible', 'within a factor of 2.1 of the best possible')
    """
    share = gap + 1 if gap >= 1 else 100 * max(gap, 1e-6)
    digits = 1 - math.floor(math.log10(share))
    told = f"{math.ceil(share * 10.0**digits - 1e-6) / 10.0**digits:.{max(digits, 0)}f}"
    told = told.rstrip("0").rstrip(".") if "." in told else told
    return f"within a factor of {told} of {rival}" if gap >= 1 else f"within {told} % of {rival}"
