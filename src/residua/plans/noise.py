"""The noise of a plan as a value: normal or Laplace, with what each is priced in, its variance, and its promise."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, TypeVar

import numpy as np

from residua.errors import VerificationError
from residua.linalg.arrays import Floats
from residua.privacy import Guarantee, PureDP, exact
from residua.privacy.guarantees import like

Currency = Literal["pcost", "epsilon"]
Scale = TypeVar("Scale", float, Floats)
ROUNDING_VARIANCE = 1.0 / 12.0  # what rounding to whole numbers adds to normal noise
SMALLEST_SCALE, LARGEST_SCALE = 0.5, 2.0**40  # between these, noise is sampled exactly
INVISIBLE_SCALE = 2.0**20  # at this scale, rounding adds less than one part in 10^13 to the variance


@dataclass(frozen=True)
class Noise:
    """What is added to every measured integer, exactly sampled and rounded.

    Args:
        name: `"normal"`, `"laplace"`, or `"ordered"`: normal noise that is correlated along an axis.
        currency: what its price is in: a pcost (L2 norms) for normal noise, an epsilon (L1 norms) for Laplace noise.
    """

    name: Literal["normal", "laplace", "ordered"]
    currency: Currency

    @property
    def gaussian(self) -> bool:
        """Whether it is normal, correlated or not: what it costs adds up in Γ."""
        return self.currency == "pcost"

    def promised(self, cost: Fraction, guarantee: Guarantee | None) -> Fraction:
        """The cost, if the guarantee covers it.

        Raises:
            VerificationError: more expensive than promised, or nothing is promised.
        """
        if guarantee is None:
            raise VerificationError("the plan promises no guarantee; plan again.")
        if self.currency == "pcost":
            allowed = guarantee.pcost_allowed()
        else:
            allowed = Fraction(guarantee.epsilon) if isinstance(guarantee, PureDP) else Fraction(-1)
        if cost > allowed:
            unit = "epsilon " if self.currency == "epsilon" else ""
            raise VerificationError(
                f"what would be measured costs {unit}{float(cost):.6g}, more than {guarantee!r} allows; the plan was "
                "altered, plan again. Nothing was spent."
            )
        return cost

    # ---- accuracy

    def variance(self, scale: Scale) -> Scale:
        """The variance of rounded noise of this scale, the rounding included."""
        return rounded_laplace_variance(scale) if self.currency == "epsilon" else scale**2 + ROUNDING_VARIANCE

    def simulated(self, scales: Floats, random: np.random.Generator) -> Floats:
        """Noise of these scales, one number each; rounding, invisible beside normal noise, is left out there."""
        if self.gaussian:
            return np.asarray(random.standard_normal(scales.shape) * scales)
        return np.rint(random.laplace(0.0, scales, scales.shape))


# ---- which there are

NORMAL = Noise("normal", "pcost")
ORDERED = Noise("ordered", "pcost")  # normal, correlated along an axis
LAPLACE = Noise("laplace", "epsilon")
NOISES = {noise.name: noise for noise in (NORMAL, LAPLACE)}


# ---- accuracy, and what a cost promises


def rounded_laplace_variance(scale: Scale) -> Scale:
    """The variance of `round(s·x)`, x standard Laplace: `cosh u / (2 sinh² u)` with `u = 1/(2s)`.

    From `P(±k) = e^(−k/s) sinh u` and `Σ k² r^k = r(1 + r)/(1 − r)³` with `r = e^(−2u)`. It is `2 s² + 1/12` less
    terms of order `1/s²`.

    Example:
        >>> round(rounded_laplace_variance(10.0) - 200, 6)
        0.08326
    """
    u = 0.5 / scale  # written in e^(−u), which cannot overflow
    variance = np.exp(-u) * (1 + np.exp(-2 * u)) / np.expm1(-2 * u) ** 2
    return float(variance) if isinstance(scale, float) else np.asarray(variance)


def guarantee_like(example: Guarantee | None, pcost: float) -> Guarantee | None:
    """What a cost guarantees, in the currency of another guarantee; nothing to guarantee for a cost of 0."""
    # What is measured costs a rounding more than the sum of floats says.
    spent = pcost * (1.0 + 2.0**-40)
    if not spent:
        return None
    return PureDP(exact.root_up(Fraction(spent))) if isinstance(example, PureDP) else like(example, spent)
