"""A few whole numbers with exact noise, beside what a plan measures."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from residua.errors import PrivacyError
from residua.linalg.arrays import Integers
from residua.measurement.ledger_entries import allowance, currency_of
from residua.noise import rounded_laplace, rounded_normal
from residua.plans.noise import LAPLACE, LARGEST_SCALE, NORMAL, SMALLEST_SCALE, Noise
from residua.privacy import Guarantee
from residua.privacy.exact import root_up, round_up


@dataclass(frozen=True)
class Aside:
    """Noise for whole numbers of which one person changes one, by at most `most`.

    Guarantee: `cost` is exact: `(most / scale)²` for normal noise, `most / scale` for Laplace noise.

    Args:
        noise: normal or Laplace.
        scale: of the noise before rounding.
        most: by how much a person changes the numbers.
    """

    noise: Noise
    scale: float
    most: int

    @property
    def cost(self) -> Fraction:
        """What it costs a person, in the currency of the noise."""
        ratio = Fraction(self.most) / Fraction(self.scale)
        return ratio * ratio if self.noise == NORMAL else ratio

    @property
    def stddev(self) -> float:
        """The standard deviation of the noise, rounding included."""
        return math.sqrt(self.noise.variance(self.scale))

    def noisy(self, integers: Integers) -> Integers:
        """The numbers with noise."""
        draw = rounded_normal if self.noise == NORMAL else rounded_laplace
        return np.asarray(integers + draw(self.scale, integers.shape))


def aside_within(budget: Guarantee, most: int, name: str = "budget") -> Aside:
    """The least noise that costs no more than a budget.

    Raises:
        PrivacyError: a budget too small for any noise that can be sampled.
        LedgerError: no guarantee.
    """
    allowed = allowance(budget)
    noise = LAPLACE if currency_of(budget) == "epsilon" else NORMAL
    if allowed <= 0:
        raise PrivacyError(f"{name}={budget!r} allows nothing; give more.")
    ratio = Fraction(most) / allowed
    scale = max(round_up(ratio) if noise == LAPLACE else root_up(ratio * most), SMALLEST_SCALE)
    if scale > LARGEST_SCALE:
        raise PrivacyError(
            f"{name}={budget!r} needs more noise than can be sampled; give more, or count fewer records."
        )
    aside = Aside(noise, scale, most)
    assert aside.cost <= allowed
    return aside
