"""What is publicly known of the tables to be estimated: some margins, and cells that nobody can be in."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from residua.domain import Domain, impossible_cells
from residua.linalg.arrays import Booleans, Floats
from residua.projection.facts import Fact

Members = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Public:
    """Public facts about a domain's tables.

    Args:
        domain: what the table may hold, and what is impossible in it.
        facts: marginals whose cells are public, the total among them.
    """

    domain: Domain
    facts: tuple[Fact, ...] = ()

    def known(self, members: Members) -> Floats | None:
        """The marginal on these attributes (positions, increasing), if it is public."""
        for fact in self.facts:
            if set(members) <= set(fact.members):
                return fact.margin(members)
        return None

    def possible(self, members: Members) -> Booleans:
        """Which cells of a marginal a record can be in, as far as rules about its attributes say."""
        shape = [int(self.domain.sizes[i]) for i in members]
        mask = impossible_cells(self.domain, [self.domain.names[i] for i in members])
        return np.ones(shape, dtype=bool) if mask is None else ~mask

    def possible_values(self, attribute: int) -> Booleans:
        """Which values of an attribute a record can have: not those that a rule of two attributes leaves no cell."""
        found = self.possible((attribute,))
        for rule in self.domain.impossible:
            members = tuple(sorted(self.domain.positions(rule.names)))
            if attribute in members and len(members) == 2:
                axis = 1 - members.index(attribute)
                found = found & self.possible(members).any(axis=axis)
        return found
