"""Guarantees, what they cost, conversions that round against us, and the unit of protection."""

from residua.privacy.conversions import (
    gdp_to_approx,
    gdp_to_zcdp,
    pure_to_approx,
    pure_to_gdp,
    pure_to_zcdp,
    zcdp_to_approx_for_any_mechanism,
)
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
    "gdp_to_approx",
    "gdp_to_zcdp",
    "mu_of",
    "pure_to_approx",
    "pure_to_gdp",
    "pure_to_zcdp",
    "zcdp_to_approx_for_any_mechanism",
]
