"""What a session says of itself: what it measured, spent and lost, and what is being chosen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from residua.privacy import Guarantee


@dataclass(frozen=True)
class Status:
    """Where a session stands, without any data: what was paid for, what was lost, and what is being chosen.

    Args:
        parts: what was measured and for what, a sentence each, by number.
        lost: the numbers of parts that were paid for and lost in a crash.
        spent: what the session has debited, as a guarantee of the ledger's type, rounded up.
        remaining: what may still be spent, as such a guarantee, rounded down.
        choices: the candidates of each choice, and what became of it: "open", how it ended, or that its look is lost.
        spent_exactly: what the session has debited, a pcost.
        remaining_exactly: what may still be spent, a pcost.
    """

    parts: Mapping[int, str]
    lost: tuple[int, ...]
    spent: Guarantee
    remaining: Guarantee
    choices: Mapping[int, tuple[tuple[str, ...], str]]
    spent_exactly: Fraction
    remaining_exactly: Fraction
