"""Guarantees, what they cost, conversions that round against us, and the unit of protection."""

from residua.privacy.costs import AddRemove, Contribution, Currencies, Person, ReplaceOne, Unit, describe
from residua.privacy.exact import delta_of, epsilon_of, mu_of
from residua.privacy.guarantees import GDP, ZCDP, ApproxDP, Guarantee, Nothing, PureDP

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
