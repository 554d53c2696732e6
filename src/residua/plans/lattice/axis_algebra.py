"""The algebra of plans along one axis: as lattice plans, where all of them share the axis's noise."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from residua.plans.combining import Progress, register_closed
from residua.plans.lattice.algebra import LATTICE, agree
from residua.plans.lattice.from_axis import lattice_of


def applies(plans: Sequence[Any]) -> bool:
    """Whether some are plans along an axis, and all agree once they are lattice plans."""
    return any(getattr(plan, "correlated", None) for plan in plans) and agree(_all(plans))


def compose(first: Any, second: Any) -> Any:
    """The plan that runs both and pools what they measure."""
    return LATTICE.compose(*_all([first, second]))


def can_answer(plan: Any, other: Any) -> bool:
    """Whether what `other` releases can be computed from what `plan` releases."""
    return LATTICE.can_answer(*_all([plan, other]))


def common(plans: Sequence[Any], progress: Progress | None = None) -> Any:
    """The most that all these plans release, whichever of them is chosen."""
    return LATTICE.common(_all(plans), progress)


def residual(plan: Any, given: Any) -> Any:
    """What is left of a plan once `given` is known."""
    return LATTICE.residual(*_all([plan, given]))


def top_up(plan: Any, given: Sequence[Any]) -> Any:
    """The least to measure so that everything is at least as accurate as the plan says."""
    first, *others = _all([plan, *given])
    return LATTICE.top_up(first, others)


def _all(plans: Sequence[Any]) -> list[Any]:
    return [lattice_of(plan) if getattr(plan, "correlated", None) else plan for plan in plans]


register_closed(applies, sys.modules[__name__])
