"""How accurate a [[workload]] entry must be: a variance, a stddev, or a margin of error at some confidence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from residua.errors import PlanError, SpecError
from residua.plans.tails import width

KEYS = frozenset({"variance", "stddev", "margin", "confidence"})
USUAL_CONFIDENCE = 0.95
_MOST = 1e150  # its square is still a number


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
