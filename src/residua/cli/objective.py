"""What a specification wants to be least: `[objective] minimise`, with the number that some of these have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from residua.errors import SpecError
from residua.plans import LargestVariances, MaxVariance, PNormVariance, TotalVariance
from residua.plans.objectives import Objective

OBJECTIVES = ("total", "max", "largest", "p-norm")
NUMBERS = {"p": "p-norm", "count": "largest"}  # key → the objective that has it
USUAL_ORDER, USUAL_COUNT = 2, 10


def objective_of(settings: Mapping[str, Any], has_targets: bool) -> Objective | None:
    """The objective that `[objective]` names; None where targets, or estimates, say what is best."""
    name = settings.get("minimise")
    if name is not None and name not in (*OBJECTIVES, "estimates"):
        known = ", ".join(f'"{each}"' for each in OBJECTIVES)
        raise SpecError(f'[objective] minimise = {name!r} is not {known} or "estimates"; use one of them.')
    if name == "estimates":
        if has_targets or len(settings) > 1:
            raise SpecError('[objective] minimise = "estimates" has neither targets nor other keys; remove them.')
        return None
    if name is not None and has_targets and name != "max":
        raise SpecError('targets already mean minimise = "max"; remove [objective] minimise or the targets.')
    for key, owner in NUMBERS.items():
        if key in settings and name != owner:
            raise SpecError(f'[objective] {key} belongs to minimise = "{owner}"; remove it or say so.')
    if name == "p-norm":
        return PNormVariance(settings.get("p", USUAL_ORDER))
    if name == "largest":
        return LargestVariances(settings.get("count", USUAL_COUNT))
    if has_targets:
        return None
    return MaxVariance() if name == "max" else TotalVariance()
