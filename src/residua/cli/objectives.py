"""What a specification wants: what is least, how accurate each entry must be, and what if it wanted something else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any

from residua.cli.options import WhatIf
from residua.errors import PlanError, SpecError
from residua.plans import LargestVariances, MaxVariance, PNormVariance, TotalVariance
from residua.plans.objectives import Objective
from residua.plans.tails import width
from residua.plans.targets import USUAL_CONFIDENCE

# Name → what makes the objective, and the key of its number with the usual value, if it has one.
OBJECTIVES: dict[str, tuple[Callable[..., Objective], dict[str, float]]] = {
    "total": (TotalVariance, {}),
    "max": (MaxVariance, {}),
    "largest": (LargestVariances, {"count": 10}),
    "p-norm": (PNormVariance, {"p": 2}),
}
NUMBERS = {key: name for name, (_, usual) in OBJECTIVES.items() for key in usual} | {"records": "estimates"}
TARGETS = frozenset({"variance", "stddev", "margin", "confidence"})
_MOST = 1e150  # its square is still a number
SPENDING = ("rho", "mu", "epsilon", "delta")


def section(content: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A section of a specification, empty where there is none.

    Raises:
        SpecError: it is not a table.
    """
    settings = content.get(name, {})
    if not isinstance(settings, Mapping):
        raise SpecError(f"{name} is not a table; write [{name}] and its keys below.")
    return settings


def objective_of(settings: Mapping[str, Any], has_targets: bool) -> Objective | None:
    """The objective that `[objective]` names; None where targets, or estimates, say what is best."""
    name = settings.get("minimise")
    if name is not None and name not in (*OBJECTIVES, "estimates"):
        known = ", ".join(f'"{each}"' for each in OBJECTIVES)
        raise SpecError(f'[objective] minimise = {name!r} is not {known} or "estimates"; use one of them.')
    if name == "estimates":
        if has_targets or not set(settings) <= {"minimise", "records"}:
            raise SpecError('[objective] minimise = "estimates" has no targets and no key but records; remove them.')
        return None
    if name is not None and has_targets and name != "max":
        raise SpecError('targets already mean minimise = "max"; remove [objective] minimise or the targets.')
    for key, owner in NUMBERS.items():
        if key in settings and name != owner:
            raise SpecError(f'[objective] {key} belongs to minimise = "{owner}"; remove it or say so.')
    if has_targets:
        return None
    make, usual = OBJECTIVES[name or "total"]
    return make(**{key: settings.get(key, value) for key, value in usual.items()})


def target_of(term: Mapping[str, Any]) -> float | None:
    """The variance that every query of an entry may have at most; None if the entry does not say.

    A margin of m at confidence c means that a published number is within m of the truth with probability c; for
    normal noise that is the variance `(m / z)²`, with z the width of an interval of confidence c.

    Raises:
        SpecError: two targets, one that is not a positive number, or a confidence without a margin.
    """
    given = [key for key in ("variance", "stddev", "margin") if key in term]
    if len(given) > 1:
        raise SpecError(f"[[workload]] has both {given[0]} and {given[1]}; give one.")
    if "confidence" in term and given != ["margin"]:
        raise SpecError("[[workload]] confidence belongs to a margin; write margin = 50 beside it, or remove it.")
    if not given:
        return None
    value = term[given[0]]
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < _MOST:
        raise SpecError(f"[[workload]] {given[0]} = {value!r} is not a positive number below 1e150; correct it.")
    if given == ["variance"]:
        return float(value)
    try:
        reach = width(term.get("confidence", USUAL_CONFIDENCE)) if given == ["margin"] else 1.0
    except PlanError as problem:
        raise SpecError(f"[[workload]] {problem}") from None
    return (value / reach) ** 2


def changed(content: Mapping[str, Any], what_if: WhatIf) -> dict[str, Any]:
    """The tables of a specification file with these changes; the file's own mistakes stay for its reader."""
    content = dict(content)
    privacy, objective = dict(section(content, "privacy")), dict(section(content, "objective"))
    spending = {key: value for key, value in vars(what_if).items() if key in SPENDING and value is not None}
    target = {key: getattr(what_if, key) for key in TARGETS if getattr(what_if, key, None) is not None}
    if "confidence" in target and "margin" not in target:
        raise SpecError("--confidence belongs to --margin; give both, or neither.")
    if spending or target:
        kept = {"epsilon": ("delta",), "delta": ("epsilon",)}.get("".join(spending), ())
        privacy = {key: value for key, value in privacy.items() if key not in SPENDING or key in kept} | spending
    if what_if.records is not None:
        privacy = {key: value for key, value in privacy.items() if key != "replace"} | {"records": what_if.records}
    if target and isinstance(content.get("workload"), list):
        content["workload"] = [_aimed(term, target) for term in content["workload"]]
        objective = {key: value for key, value in objective.items() if key not in ("minimise", *NUMBERS)}
    if what_if.minimise is not None:
        own = {key: value for key, value in objective.items() if NUMBERS.get(key, what_if.minimise) == what_if.minimise}
        objective = own | {"minimise": what_if.minimise}
    return {**content, "privacy": privacy, "objective": objective}


def _aimed(term: Any, target: Mapping[str, Any]) -> Any:
    if not isinstance(term, Mapping):
        return term
    return {key: value for key, value in term.items() if key not in TARGETS} | dict(target)


def known_keys(where: str, settings: Any, known: set[str]) -> None:
    """Refuses a key that means nothing, and says which was probably meant."""
    if not isinstance(settings, Mapping):
        raise SpecError(f"{where} is not a table of keys and values; write it as one.")
    for key in settings:
        if key not in known:
            near = get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(sorted(known))}."
            raise SpecError(f"{where} has an unknown key {key!r}; {hint}")
