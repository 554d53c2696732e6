"""How often intervals held, by the size of the cell: what the rows of the benchmark of coverage are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

SIZES = {"0": 0, "1 to 4": 1, "5 to 19": 5, "20 to 99": 20, "100 and more": 100}


@dataclass
class Held:
    """Intervals of the same numbers in many releases."""

    sizes: Any  # the true counts, (numbers,)
    held: list[Any] = field(default_factory=list)
    width: list[Any] = field(default_factory=list)

    def add(self, truth: Any, lower: Any, upper: Any, cut: bool = False) -> None:
        """One release, (numbers,), or many, (releases, numbers)."""
        slack = 1e-6 * (1 + np.abs(truth))
        held = (lower - slack <= truth) & (truth <= upper + slack)
        width = np.maximum(upper, 0) - np.maximum(lower, 0) if cut else upper - lower
        self.held.append(np.reshape(held, (-1, len(self.sizes))))
        self.width.append(np.reshape(width, (-1, len(self.sizes))))

    def figures(self) -> Iterator[tuple[Any, ...]]:
        """For each size: its name, cells, how many of 100 held, standard error, mean width, releases."""
        place = np.searchsorted(list(SIZES.values()), self.sizes, side="right") - 1
        held, width = np.concatenate(self.held), np.concatenate(self.width)
        for k, name in enumerate(SIZES):
            if not (chosen := place == k).any():
                continue
            each = 100 * held[:, chosen].mean(axis=1)
            own = width[:, chosen]
            wide = own[np.isfinite(own)].mean() if np.isfinite(own).any() else np.inf
            error = each.std() / np.sqrt(len(each))
            yield name, int(chosen.sum()), f"{each.mean():.3f}", f"{error:.3f}", f"{wide:.5g}", len(each)


Row = tuple[str, str, str, str, str, Held]  # number, form, noise, after, data
Group = Callable[[int], Iterator[Row]]
