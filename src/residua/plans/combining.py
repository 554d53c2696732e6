"""How plans are combined: forms with an algebra of their own register it here, once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from residua.errors import PlanError, kind_of
from residua.showing import ReportedPlan
from residua.workload import Workload

Progress = Callable[[int, float], None]


class Algebra(Protocol):
    """What can be done with plans that belong together. A module may be one."""

    def compose(self, first: Any, second: Any, /) -> Any:
        """The plan that runs both."""

    def can_answer(self, plan: Any, other: Any, /) -> bool:
        """Whether what the other releases can be computed from what the plan releases."""

    def common(self, plans: Sequence[Any], serving: Workload | None = None, progress: Progress | None = None, /) -> Any:
        """The most that all of them release; where that is not unique, best for the queries that it shall serve."""

    def residual(self, plan: Any, given: Any, /) -> Any:
        """What is left of a plan once `given` is known."""

    def top_up(self, plan: Any, given: Sequence[Any], /) -> Any:
        """What is missing of a plan beside all that is given."""


_CLOSED: list[tuple[Callable[[Sequence[Any]], bool], Algebra]] = []
_GENERAL: dict[bool, Algebra] = {}  # of normal noise, and of Laplace noise


def register_closed(applies: Callable[[Sequence[Any]], bool], algebra: Any) -> None:
    """Registers closed forms, for all plans to which they apply."""
    _CLOSED.append((applies, algebra))


def register_general(algebra: Any, *, gaussian: bool) -> None:
    """Registers the one algebra for all plans with normal, or with Laplace noise, that no closed form applies to."""
    _GENERAL[gaussian] = algebra


def algebra_of(plans: Sequence[Any]) -> Algebra:
    """The algebra that all these plans belong to: closed forms where they apply, else the general one.

    Raises:
        PlanError: not plans, plans over different domains or units, with a bias, or with normal and Laplace noise.
    """
    first, others = plans[0], [plan for plan in plans if not isinstance(plan, ReportedPlan)]
    if others:
        raise PlanError(f"{kind_of(others[0])} is not a plan; make one with rs.plan.")
    for plan in plans:
        if plan.noise.gaussian != first.noise.gaussian:
            raise PlanError(
                "plans with normal and with Laplace noise cannot be combined; plan both with PureDP, or both without."
            )
        if plan.domain != first.domain:
            raise PlanError("the plans are over different domains; plan over one domain.")
        if plan.unit != first.unit:
            raise PlanError("the plans protect different units; plan with one unit.")
        if plan.bias:
            raise PlanError("a plan with a bias answers other queries than were asked; combine plans without one.")
    return next((algebra for applies, algebra in _CLOSED if applies(plans)), _GENERAL[first.noise.gaussian])
