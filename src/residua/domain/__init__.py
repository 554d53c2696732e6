"""What the table may hold: attributes, and the domain they make."""

from residua.domain.amounts import Amount as Amount
from residua.domain.attributes import (
    Anonymous as Anonymous,
    Attribute as Attribute,
    Bins as Bins,
    Categories as Categories,
    Integers as Integers,
    Label as Label,
    Policy as Policy,
)
from residua.domain.code_lists import CodeList as CodeList
from residua.domain.conditions import (
    Between as Between,
    Rule as Rule,
    between as between,
    impossible_cells as impossible_cells,
)
from residua.domain.dates import Dates as Dates
from residua.domain.domain import (
    Domain as Domain,
    domain_of_settings as domain_of_settings,
    settings_of_domain as settings_of_domain,
)
from residua.domain.levels import OTHER as OTHER, Level as Level
