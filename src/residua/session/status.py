"""What a session says of itself: what it measured, spent and lost, and what is being chosen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Status:
    """Where a session stands, without any data: what was paid for, what was lost, and what is being chosen.

    Args:
        parts: what was measured and for what, a sentence each, by number.
        lost: the numbers of parts that were paid for and lost in a crash.
        spent: what the session has debited, a pcost.
        remaining: what may still be spent, a pcost.
        choices: the candidates of each choice, and what became of it: "open", how it ended, or that its look is lost.
    """

    parts: Mapping[int, str]
    lost: tuple[int, ...]
    spent: Fraction
    remaining: Fraction
    choices: Mapping[int, tuple[tuple[str, ...], str]]
