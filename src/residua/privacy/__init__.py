"""Guarantees, what they cost, conversions that round against us, and the unit of protection."""

from residua.privacy.costs import (
    AddRemove as AddRemove,
    Contribution as Contribution,
    Currencies as Currencies,
    Person as Person,
    ReplaceOne as ReplaceOne,
    Unit as Unit,
    describe as describe,
)
from residua.privacy.exact import delta_of as delta_of, epsilon_of as epsilon_of, mu_of as mu_of
from residua.privacy.guarantees import (
    GDP as GDP,
    ZCDP as ZCDP,
    ApproxDP as ApproxDP,
    Guarantee as Guarantee,
    Nothing as Nothing,
    PureDP as PureDP,
)
