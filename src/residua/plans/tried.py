"""What is said of the strategies that were tried beside the one that is measured."""

from __future__ import annotations

import math
from collections.abc import Sequence

from residua.plans.contract import Candidate

_SHOWN = 4


def tried(candidates: Sequence[Candidate], gap: float) -> tuple[tuple[str, str], ...]:
    """The strategies that were tried, by their loss beside the best; nothing where none were."""
    if not candidates:
        return ()
    others = [f"{each.name} {each.loss / candidates[0].loss - 1:+.0%}" for each in candidates[1:]]
    shown = "; ".join(others[:_SHOWN]) or "none"
    rest = f"; {len(others) - _SHOWN} more are worse" if len(others) > _SHOWN else ""
    found = (("Strategy", f"{candidates[0].name}. Others by their loss: {shown}{rest}"),)
    if not math.isfinite(gap):
        return found
    return (*found, ("", "the bound behind the gap holds for every strategy, and is loose"))
