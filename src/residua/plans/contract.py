"""What every plan is, a privacy cost matrix in some compact form, and what measuring one comes down to."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, cast

from numpy.typing import NDArray

from residua.domain import Domain
from residua.privacy import Guarantee, Unit
from residua.workload import Explicit, Marginals, Products

Currency = Literal["pcost", "epsilon"]


class Blocks(ABC):
    """What a plan really measures: integers, exact noise scales, and nothing else. Priced by the kind's verifier."""

    @property
    @abstractmethod
    def cells(self) -> int:
        """How many integers are measured."""

    @property
    def currency(self) -> Currency:
        """What the verifier's price is in: a pcost for Gaussian noise, an epsilon for Laplace noise."""
        return "pcost"

    @abstractmethod
    def arrays(self) -> dict[str, NDArray[Any]]:
        """What a saved release keeps of the blocks beside the plan."""


class Plan(ABC):
    """Noise decided before any data is seen. Made by `rs.plan`; `Plan.load` reads any kind of saved plan."""

    rival: ClassVar[str] = "the best possible"  # what `gap` compares the plan with
    domain: Domain
    guarantee: Guarantee | None
    unit: Unit
    objective: str
    gap: float
    bias: float = 0.0
    workload: Marginals | Products | Explicit | None

    @property
    @abstractmethod
    def pcost(self) -> float:
        """The privacy cost for one record added or removed: the largest diagonal entry of Γ."""

    @property
    @abstractmethod
    def unit_pcost(self) -> float:
        """The privacy cost for the plan's unit of protection."""

    def save(self, path: str | Path) -> None:
        """Writes the plan to a JSON file that `Plan.load` reads."""
        from residua.plans.storage import save_plan

        save_plan(self, Path(path))

    def replaced(self, **changes: Any) -> Self:
        """The same plan with some fields changed."""
        made: Self = replace(cast("Any", self), **changes)
        return made

    def answers(self, other: Plan) -> bool:
        """Whether whatever `other` would release can be computed from this plan's release: `Γ_other ⪯ Γ`.

        Raises:
            PlanError: plans over different domains or units, or plans that cannot be compared.

        Reference: common-mechanism, Theorem 3.5.
        """
        from residua.plans.algebra import answers

        return answers(self, other)

    def equivalent(self, other: Plan) -> bool:
        """Whether each of the two plans answers the other: `Γ_other = Γ`."""
        from residua.plans.algebra import equivalent

        return equivalent(self, other)

    def __add__(self, other: Plan) -> Plan:
        from residua.plans.algebra import compose

        return compose(self, other)

    @staticmethod
    def load(path: str | Path) -> Plan:
        """Reads a saved plan, refusing a file that was changed.

        Raises:
            FileError: missing, damaged, changed, or of another version.
        """
        from residua.plans.storage import load_plan

        return load_plan(Path(path))
