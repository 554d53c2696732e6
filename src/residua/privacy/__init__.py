"""Guarantees, what they cost, conversions that round against us, and the unit of protection."""

from residua.privacy.currencies import Currencies, describe
from residua.privacy.curves import delta_of, epsilon_of, mu_of
from residua.privacy.guarantees import GDP, ZCDP, ApproxDP, Guarantee, Nothing, PureDP
from residua.privacy.unit import AddRemove, Contribution, Person, ReplaceOne, Unit

__all__ = [
    "GDP",
    "ZCDP",
    "AddRemove",
    "ApproxDP",
    "Contribution",
    "Currencies",
    "Guarantee",
    "Nothing",
    "Person",
    "PureDP",
    "ReplaceOne",
    "Unit",
    "delta_of",
    "describe",
    "epsilon_of",
    "mu_of",
]
