"""What a dictionary of attributes and values means, wherever one is given: one rule for counts and for plans.

    {"sex": "Female"}                      a label: that value
    {"age": [18, 19, 20]}                  a list, set or `range`: any of these values
    {"age": rs.between(18, 64)}            from the first to the last, both included, in the domain's order
    {"age": np.array([0.0, 1.0, …])}       an array of fractions or truth values: a coefficient per value

A tuple is refused: (18, 64) could mean two values or a range. So is an array of whole numbers, which could be labels or
coefficients.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from residua.domain import Attribute, Between, Domain, Label
from residua.domain.conditions import codes_of
from residua.errors import DomainError, PlanError
from residua.linalg.arrays import Array, Floats

Chosen = Label | Iterable[Label] | Between | Array
Where = Mapping[str, Chosen]


def selected(domain: Domain, where: Where, *, argument: str = "where") -> dict[str, Floats]:
    """Attribute → a coefficient per value, (n,), by the rule above.

    Args:
        domain: what the table may hold.
        where: the dictionary.
        argument: what errors call it.

    Raises:
        PlanError: not a dictionary, or a choice that means nothing or two things.
        DomainError: an unknown attribute.
    """
    if not isinstance(where, Mapping):
        raise PlanError(f"{argument}={where!r} is not a dictionary; give {{attribute: label, labels or rs.between}}.")
    return {name: coefficients(domain, name, chosen, argument=argument) for name, chosen in where.items()}


def coefficients(domain: Domain, name: str, chosen: Chosen, *, argument: str = "where") -> Floats:
    """A coefficient per value of one attribute, (n,); see `selected`."""
    attribute = domain[name]
    if isinstance(chosen, np.ndarray) and chosen.ndim:
        if chosen.dtype.kind not in "OU":  # of labels, which text and objects are
            return _given(argument, name, attribute, chosen)
        chosen = chosen.tolist()
    coefficient = np.zeros(attribute.size)
    try:
        codes = codes_of(name, attribute, chosen)
    except DomainError as problem:
        raise PlanError(f"{argument}: {problem}") from None
    if len(set(codes)) < len(codes):
        raise PlanError(f"{argument}: {name!r} needs distinct labels; name each once.")
    coefficient[codes] = 1.0
    return coefficient


def _given(argument: str, name: str, attribute: Attribute, chosen: Array) -> Floats:
    if chosen.dtype.kind not in "fb":
        raise PlanError(
            f"{argument}: {name} is an array of {chosen.dtype}, which could be labels or coefficients; give labels as "
            "a list (.tolist()), coefficients as fractions (.astype(float))."
        )
    coefficient = np.array(chosen, dtype=np.float64)
    if coefficient.shape != (attribute.size,) or not np.isfinite(coefficient).all():
        raise PlanError(
            f"{argument}: the coefficients of {name!r} must be {attribute.size} finite numbers, one per value."
        )
    return coefficient
