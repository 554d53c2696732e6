"""What whoever follows the planning is told: how many steps were made, and the gap so far."""

from __future__ import annotations

import math

from residua.plans.saddle import Progress


class Steps:
    """Counts steps and turns losses into gaps, which never grow; `bound` is set once it is known."""

    def __init__(self, progress: Progress | None) -> None:
        self.progress = progress
        self.bound = 1.0
        self._count = -1
        self._least = math.inf

    def told(self, loss: float) -> None:
        """One more step, with the least loss it knows."""
        self._count += 1
        self._least = min(self._least, loss)
        if self.progress:
            self.progress(self._count, self._least / self.bound - 1.0)
