"""Amounts of a ledger: what a budget allows, what may be debited, and how an amount is told."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from numbers import Rational

from residua.errors import LedgerError
from residua.privacy import GDP, ZCDP, ApproxDP, Guarantee, PureDP

_BITS = 4096  # of a cost's numerator and denominator; Python refuses to print much longer integers


def allowance(budget: object) -> Fraction:
    """What may be debited in all: a pcost. A ledger in another currency (epsilon, for PureDP) begins here.

    Raises:
        LedgerError: when this is no guarantee.
        PrivacyError: when no Gaussian mechanism can meet it.
    """
    if not isinstance(budget, ZCDP | GDP | ApproxDP | PureDP):
        raise LedgerError(
            f"budget must be a guarantee, not {budget!r}; give one such as ZCDP(rho=0.5), GDP(mu=1.0) or "
            "ApproxDP(epsilon=1.0, delta=1e-9)."
        )
    return budget.pcost_allowed()


def exact_cost(cost: object, *, zero: bool = False) -> Fraction:
    """A cost as a Fraction, or LedgerError when it is a float, not above 0, or too long to write down.

    Args:
        cost: a whole number or a fraction.
        zero: whether 0 is allowed: what is measured adds nothing to the dearest cell, but is on record.
    """
    if not isinstance(cost, Rational) or isinstance(cost, bool):
        raise LedgerError(f"cost must be an exact number, a Fraction, not {cost!r}; give it as verified.")
    exact = Fraction(int(cost.numerator), int(cost.denominator))
    if exact < 0 or (exact == 0 and not zero):
        raise LedgerError(
            f"cost must be above 0, not {exact}; what costs nothing needs no debit, unless detail says what it is."
        )
    if max(exact.numerator.bit_length(), exact.denominator.bit_length()) > _BITS:
        raise LedgerError(f"cost must have at most {_BITS} bits above and below the line; round it up first.")
    return exact


def shortage(budget: Guarantee, remaining: Fraction, asked: Fraction) -> str:
    """What is left and what is asked, in the budget's own currency.

    Example:
        >>> shortage(ZCDP(rho=0.5), Fraction(1, 5), Fraction(1))
        'rho 0.1 left, the plan needs rho 0.5'
    """
    left, needed = _told(budget, remaining, ROUND_FLOOR), _told(budget, asked, ROUND_CEILING)
    # Nearer to each other than floats are, both may print alike.
    difference = f", more by pcost {float(asked - remaining):.2g}" if left == needed else ""
    return f"{left} left, the plan needs {needed}{difference}"


def _told(budget: Guarantee, pcost: Fraction, rounding: str) -> str:
    name, end, value = "pcost", "", float(pcost)
    if isinstance(budget, ZCDP):
        name, value = "rho", ZCDP.of_pcost(pcost).rho if pcost else 0.0
    elif isinstance(budget, GDP):
        name, value = "mu", GDP.of_pcost(pcost).mu if pcost else 0.0
    elif isinstance(budget, ApproxDP):
        name, end = "epsilon", f" at delta {budget.delta:g}"
        value = ApproxDP.of_pcost(pcost, delta=budget.delta).epsilon if pcost else 0.0
    digits = float(Context(prec=5, rounding=rounding).create_decimal(Decimal(repr(value))))
    return f"{name} {digits:.5g}{end}"
