"""Rows with amounts on their way to tables: each is divided into parts that lie at the ends of its amounts.

A record has P parts. Of an amount with code u of R units, u · P/R of them lie in the cell `high` and the others in
`low`: those with the lowest numbers are high in every amount that reaches them. A table with one amount, or none, so
counts every record with P parts in all and u · P/R of them high, whichever other amounts there are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from residua.domain import Domain
from residua.source.accumulate import Columns, Weights, taken


@dataclass(frozen=True)
class RecordParts:
    """How the records of a domain with amounts are divided.

    Args:
        parts: into how many parts each is.
        each: the position of every amount, and how many parts one of its units is.
    """

    parts: int
    each: tuple[tuple[int, int], ...]

    @staticmethod
    def of(domain: Domain) -> RecordParts | None:
        """That of a domain with amounts; nothing for one without."""
        units = ((domain.position(name), domain.parts // (domain[name].coded - 1)) for name in domain.amounts)
        return RecordParts(domain.parts, tuple(units)) if domain.amounts else None

    def divided(self, codes: Columns, weights: Weights) -> Iterator[tuple[Columns, Weights]]:
        """The rows again, once per number of amounts that are high, with how many parts of a record each stands for.

        Guarantee: the parts of every row add up to `parts` times its weight, and those that are high in an amount to
        its share of them.
        """
        high = np.array([np.asarray(codes[i], dtype=np.int64) * factor for i, factor in self.each])  # (amounts, rows)
        rows = high.shape[1]
        edges = np.concatenate([np.zeros((1, rows), np.int64), np.sort(high, axis=0), np.full((1, rows), self.parts)])
        for below, above in pairwise(edges):
            held = (above - below) * (1 if weights is None else weights)
            ends = list(codes)
            for (i, _), reached in zip(self.each, high, strict=True):
                ends[i] = (reached > below).astype(np.uint8)
            yield taken(ends, held, np.flatnonzero(held))
