"""One cost stated in every currency: pcost, rho, mu, and epsilon at several deltas."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any

from residua.errors import PrivacyError
from residua.privacy.curves import epsilon_of
from residua.privacy.exact import Pcost, nonnegative, probability, root_up, round_up

DELTAS = (1e-6, 1e-9, 1e-12)
_PRINTED = Context(prec=5, rounding=ROUND_CEILING)


@dataclass(frozen=True)
class Currencies:
    """What a Gaussian mechanism of this pcost guarantees, in every currency.

    `rho = pcost/2`, `mu = √pcost`, and epsilon from the exact Gaussian curve, `mu` rounded up first.

    Guarantee: every figure, printed or not, is at least its true value. A cost of 0 is 0 in all of them.

    Args:
        pcost: finite and at least 0; kept exactly.
        deltas: the probabilities at which epsilon is stated, each strictly between 0 and 1, none twice.

    Raises:
        PrivacyError: when pcost or a delta is anything else.

    Reference: Balle and Wang (2018), Theorem 8.

    Example:
        >>> print(describe(1))
        pcost 1, rho 0.5, mu 1, epsilon 4.8866 at delta 1e-06, 6.174 at delta 1e-09, 7.2385 at delta 1e-12
    """

    pcost: Fraction
    deltas: tuple[float, ...] = DELTAS

    def __post_init__(self) -> None:
        deltas = tuple(probability("deltas", delta, "give probabilities such as 1e-9") for delta in self.deltas)
        if len(set(deltas)) < len(deltas):
            raise PrivacyError(f"deltas must differ from each other, not {deltas!r}; leave out the repeated one.")
        object.__setattr__(self, "pcost", _exact(self.pcost))
        object.__setattr__(self, "deltas", deltas)

    @property
    def rho(self) -> float:
        """The zCDP parameter, rounded up."""
        return round_up(self.pcost / 2)

    @property
    def mu(self) -> float:
        """The GDP parameter, rounded up."""
        return root_up(self.pcost)

    @cached_property
    def epsilons(self) -> tuple[float, ...]:
        """Epsilon at each of the deltas, rounded up."""
        return tuple(epsilon_of(self.mu, delta) if self.pcost else 0.0 for delta in self.deltas)

    def to_dict(self) -> dict[str, float | list[dict[str, float]]]:
        """The same for JSON, in the order of printing."""
        curve = [{"delta": d, "epsilon": e} for d, e in zip(self.deltas, self.epsilons, strict=True)]
        return {"pcost": round_up(self.pcost), "rho": self.rho, "mu": self.mu, "approx_dp": curve}

    def __str__(self) -> str:
        parts = [f"pcost {printed(round_up(self.pcost))}, rho {printed(self.rho)}, mu {printed(self.mu)}"]
        pairs = zip(self.deltas, self.epsilons, strict=True)
        curve = [f"{printed(epsilon)} at delta {delta:g}" for delta, epsilon in pairs]
        return ", ".join(parts + (["epsilon " + ", ".join(curve)] if curve else []))


def describe(pcost: Pcost, deltas: Iterable[float] = DELTAS) -> Currencies:
    """What a Gaussian mechanism of this pcost guarantees, in every currency.

    Example:
        >>> describe(0.25, deltas=[1e-9]).to_dict()
        {'pcost': 0.25, 'rho': 0.125, 'mu': 0.5, 'approx_dp': [{'delta': 1e-09, 'epsilon': 2.9...}]}
    """
    return Currencies(_exact(pcost), tuple(deltas))


def _exact(pcost: Pcost) -> Fraction:
    return nonnegative("pcost", pcost, "give the largest diagonal entry of a privacy cost matrix")


def stated(guarantee: object, receipt: Mapping[str, Any]) -> str:
    """The guarantee of a whole release: with a number of records left out, it costs more than its plan promises."""
    if guarantee is None:
        return "no cost"
    if "left_out" not in receipt:
        return brief(guarantee)
    if receipt["left_out_noise"] == "laplace":
        return f"PureDP(epsilon={printed(float(receipt['epsilon']))})"
    return f"ZCDP(rho={printed(describe(receipt['pcost']).rho)})"


def brief(guarantee: object, *, up: bool = True) -> str:
    """A guarantee as written in Python, its figures to six digits.

    Args:
        guarantee: the guarantee.
        up: round figures up, which promises less; down for what is left to spend.

    Example:
        >>> from residua.privacy import ZCDP
        >>> brief(ZCDP(0.013886418000000003)), brief(ZCDP(0.49999999999999994)), brief(ZCDP(0.1234567), up=False)
        ('ZCDP(rho=0.0138865)', 'ZCDP(rho=0.5)', 'ZCDP(rho=0.123456)')
    """
    context = Context(prec=6, rounding=ROUND_CEILING if up else ROUND_FLOOR)
    return re.sub(r"\d+\.\d+(e-?\d+)?", lambda figure: repr(float(context.create_decimal(figure[0]))), repr(guarantee))


def printed(number: float) -> str:
    """Five digits, rounded up as the figure itself is: 4.88655 is not printed as 4.8865."""
    return f"{float(_PRINTED.create_decimal(Decimal(repr(number)))):.5g}"
