"""Guarantees in places that held a number before: used as a number they still work in this version, with a warning."""

import numbers
import operator
import warnings
from collections.abc import Callable
from fractions import Fraction
from typing import Any


class OnceANumber:
    """A guarantee that equals another of its type with the same parameters, and can be used as the pcost it allows.

    `ledger.spent` and `ledger.remaining` were numbers in version 0.1.0. Arithmetic and comparisons with numbers give
    what they gave then, up to the rounding of a float, and a DeprecationWarning.
    """

    def _number(self) -> Fraction:
        """What the ledger's number was: a pcost, or an epsilon for PureDP."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        if type(other) is type(self):
            return vars(self) == vars(other)
        if isinstance(other, numbers.Real) and not isinstance(other, bool):
            return bool(self._as_number(3) == other)
        return NotImplemented

    def __hash__(self) -> int:
        return hash((type(self), *vars(self).values()))

    def __float__(self) -> float:
        return float(self._as_number(3))

    def __lt__(self, other: Any) -> Any:
        return self._with(operator.lt, other)

    def __le__(self, other: Any) -> Any:
        return self._with(operator.le, other)

    def __gt__(self, other: Any) -> Any:
        return self._with(operator.gt, other)

    def __ge__(self, other: Any) -> Any:
        return self._with(operator.ge, other)

    def __add__(self, other: Any) -> Any:
        return self._with(operator.add, other)

    def __radd__(self, other: Any) -> Any:
        return self._with(operator.add, other)

    def __sub__(self, other: Any) -> Any:
        return self._with(operator.sub, other)

    def __rsub__(self, other: Any) -> Any:
        return self._with(lambda own, given: given - own, other)

    def __mul__(self, other: Any) -> Any:
        return self._with(operator.mul, other)

    def __rmul__(self, other: Any) -> Any:
        return self._with(operator.mul, other)

    def __truediv__(self, other: Any) -> Any:
        return self._with(operator.truediv, other)

    def _with(self, operation: Callable[[Any, Any], Any], other: Any) -> Any:
        if isinstance(other, OnceANumber):  # two of the ledger's numbers were subtracted and compared, too
            return operation(self._as_number(4), other._number())
        return operation(self._as_number(4), other) if isinstance(other, numbers.Real) else NotImplemented

    def _as_number(self, above: int) -> Fraction:
        warnings.warn(
            "a guarantee was used as a number; ask it for .rho or .epsilon_at(delta), or the ledger for spent_exactly "
            "or remaining_exactly.",
            DeprecationWarning,
            stacklevel=above,
        )
        return self._number()
