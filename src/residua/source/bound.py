"""How many records of one person are counted."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Bound:
    """At most so many records of one person are counted.

    Args:
        records: how many.
    """

    records: int
