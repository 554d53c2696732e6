"""What the table may hold: attributes, and the domain they make."""

from residua.domain.amounts import Amount
from residua.domain.attributes import Anonymous, Attribute, Bins, Categories, Integers, Label, Policy
from residua.domain.code_lists import CodeList
from residua.domain.conditions import Between, Rule, between, impossible_cells
from residua.domain.dates import Dates
from residua.domain.domain import Domain, domain_of_settings, settings_of_domain
from residua.domain.levels import OTHER, Level

__all__ = [
    "OTHER",
    "Amount",
    "Anonymous",
    "Attribute",
    "Between",
    "Bins",
    "Categories",
    "CodeList",
    "Dates",
    "Domain",
    "Integers",
    "Label",
    "Level",
    "Policy",
    "Rule",
    "between",
    "domain_of_settings",
    "impossible_cells",
    "settings_of_domain",
]
