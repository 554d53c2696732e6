"""The strategies that were tried beside the one that is measured, as plans and files keep them and people see them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_SHOWN = 4


@dataclass(frozen=True)
class Candidate:
    """A strategy that was tried.

    Args:
        name: which one.
        loss: the plan's objective under it, at the plan's budget.
    """

    name: str
    loss: float


def candidates_to_body(candidates: Sequence[Candidate]) -> list[dict[str, Any]]:
    """The strategies that were tried as plain values."""
    return [{"name": each.name, "loss": each.loss} for each in candidates]


def candidates_of_body(body: list[dict[str, Any]]) -> tuple[Candidate, ...]:
    """The strategies that plain values describe."""
    return tuple(Candidate(str(each["name"]), float(each["loss"])) for each in body)


def tried(candidates: Sequence[Candidate], gap: float) -> tuple[tuple[str, str], ...]:
    """The strategies that were tried, by their loss beside the best; nothing where none were."""
    if not candidates:
        return ()
    others = [f"{each.name} {each.loss / candidates[0].loss - 1:+.0%}" for each in candidates[1:]]
    shown = "; ".join(others[:_SHOWN]) or "none"
    rest = f"; {len(others) - _SHOWN} more are worse" if len(others) > _SHOWN else ""
    strategy = (("Strategy", f"{candidates[0].name}. Others by their loss: {shown}{rest}"),)
    if not math.isfinite(gap):
        return strategy
    return (*strategy, ("", "the bound behind the gap holds for every strategy, and is loose"))
