"""Whom the noise protects and how well, in words and odds that need no formula.

The odds are those of the best possible guesser, who knows all other records and has to tell two datasets apart that
differ by the protected change. Under mu-GDP, tests obey `power ≤ Φ(Φ⁻¹(false alarms) + mu)`, and a guess between two
equally likely cases is right with probability `Φ(mu/2)` at most; under epsilon-DP, `e^ε/(1 + e^ε)` and
`min(e^ε α, 1 − e^−ε (1 − α))`. Every figure is rounded up.

Reference: Dong, Roth and Su (2022), Definition 2.6; Kairouz, Oh and Viswanath (2015), Theorem 2.1, for epsilon-DP.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

from residua.language import numeral, say
from residua.plans.contract import Plan
from residua.privacy import AddRemove, Person, ReplaceOne, describe
from residua.privacy.costs import stated
from residua.published.table import protects
from residua.release.folder import in_currencies

_FALSE_ALARMS = (0.01, 0.001)


@dataclass(frozen=True)
class Odds:
    """What the best guesser can do at most.

    Args:
        right: how often a guess between two equally likely cases is right, of 1.
        recognised: share of false alarms → the share of people recognised at most.
    """

    right: float
    recognised: Mapping[float, float]


@dataclass(frozen=True)
class Protection:
    """How strongly something is protected, for people.

    Args:
        unit: what is hidden, as a sentence part: "whether any one record is in the data".
        change: the change of the data, as the guarantee names it.
        guarantee: the guarantee as written in Python.
        noise: "normal" or "Laplace".
        odds: what an attacker can do at most; None where nothing was spent.
        cost: the pcost, or under Laplace noise the epsilon, all told.
    """

    unit: str
    change: str
    guarantee: str
    noise: str
    odds: Odds | None
    cost: float

    @property
    def currencies(self) -> list[tuple[str, str, str]]:
        """Name, figure and what it is, of every currency."""
        return in_currencies("epsilon" if self.noise == "Laplace" else "pcost", self.cost) if self.cost else []

    @property
    def guess(self) -> str | None:
        """How many of 100 guesses are right at most."""
        return None if self.odds is None else hundred(self.odds.right)


def protection(plan: Plan, receipt: Mapping[str, Any] | None = None) -> Protection:
    """What a plan guarantees; what was really spent, where a receipt says so."""
    receipt = receipt or {}
    currency, planned = plan.noise.currency, plan.unit_pcost if plan.noise.gaussian else plan.unit_epsilon
    shield = _protection(plan.unit, stated(plan.guarantee, receipt), currency, float(receipt.get(currency, planned)))
    return replace(shield, change=protects(plan.unit, receipt))


def spent_protection(currency: str, cost: float, unit: Any, spent: str) -> Protection:
    """The same of a session, which has spent a pcost or an epsilon."""
    return _protection(unit, spent, currency, cost)


def _protection(unit: Any, guarantee: str, currency: str, cost: float) -> Protection:
    noise = "Laplace" if currency == "epsilon" else "normal"
    return Protection(secret(unit), str(unit), guarantee, noise, odds_of(noise, cost) if cost else None, cost)


def odds_of(noise: str, cost: float) -> Odds:
    """The odds against what Laplace noise of some epsilon protects, or normal noise of some pcost."""
    return pure_odds(cost) if noise == "Laplace" else normal_odds(describe(cost).mu)


def normal_odds(mu: float) -> Odds:
    """The odds against mu-GDP, rounded up.

    Example:
        >>> odds = normal_odds(1.0)
        >>> odds.right, odds.recognised[0.01]
        (0.692, 0.093)
    """
    normal = NormalDist()
    recognised = {alarms: _up(normal.cdf(normal.inv_cdf(alarms) + mu)) for alarms in _FALSE_ALARMS}
    return Odds(_up(normal.cdf(mu / 2)), recognised)


def pure_odds(epsilon: float) -> Odds:
    """The odds against epsilon-DP, rounded up.

    Example:
        >>> pure_odds(1.0)
        Odds(right=0.732, recognised={0.01: 0.028, 0.001: 0.003})
    """
    growth = math.exp(min(epsilon, 700.0))
    recognised = {alarms: _up(min(growth * alarms, 1 - (1 - alarms) / growth)) for alarms in _FALSE_ALARMS}
    return Odds(_up(growth / (1 + growth)), recognised)


def secret(unit: Any) -> str:
    """What a unit of protection hides, as the object of a sentence."""
    if isinstance(unit, ReplaceOne):
        return say("which values any one record has")
    if isinstance(unit, AddRemove) and unit.records == 1:
        return say("whether any one record is in the data")
    if isinstance(unit, AddRemove):
        return say("whether any one person, with up to {n} records, is in the data", n=unit.records)
    if isinstance(unit, Person):
        return say("whether any one person, with up to {n} counted records, is in the data", n=unit.records)
    return say("the difference that {unit} makes", unit=unit)


def hundred(share: float) -> str:
    """A share as so many of 100.

    Example:
        >>> hundred(0.692), hundred(0.5), hundred(1.0)
        ('69.2', '50', '100')
    """
    return numeral(f"{100 * share:.1f}".removesuffix(".0"))


def _up(share: float) -> float:
    """Rounded up to a thousandth, and never to certainty unless it is."""
    return min(math.ceil((share - 1e-12) * 1000) / 1000, 1.0)
