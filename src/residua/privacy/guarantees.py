"""The four guarantees a budget or a claim can be stated in, one type each, and what each allows to be spent.

The common measure is `pcost`, the largest diagonal entry of the privacy cost matrix of a linear Gaussian
mechanism. `pcost_allowed` goes from a budget to it and rounds down; `of_pcost` goes from it to
a claim and rounds up. So no claim is better than the truth, and what is spent never exceeds what was allowed.

Each states the facts that people quote, where a theorem allows: `rho`, and `epsilon_at(delta)`, both true of every
mechanism with the guarantee and rounded up. (`epsilon` is a parameter of two types and, with a delta, a method of the
others.)
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, cast, runtime_checkable

from residua.errors import PrivacyError, named
from residua.privacy import exact
from residua.privacy.exact import Pcost


@runtime_checkable
class Guarantee(Protocol):
    """What every guarantee states: how much a Gaussian mechanism may cost under it."""

    def pcost_allowed(self) -> Fraction:
        """The largest pcost whose Gaussian mechanism satisfies this guarantee, rounded down."""

    if TYPE_CHECKING:  # isinstance would ask for it, and ApproxDP has none

        @property
        def rho(self) -> float:
            """The rho of zero-concentrated DP, rounded up."""

    def epsilon_at(self, delta: float) -> float:
        """The epsilon of approximate DP at this delta, rounded up."""


@dataclass(frozen=True)
class ZCDP:
    """Zero-concentrated differential privacy, `rho`-zCDP.

    Rényi divergence of order α between neighbouring outputs is at most `rho · α`, for every α > 1.
    A Gaussian mechanism has exactly `rho = pcost / 2`.

    Guarantee: `pcost_allowed` is exactly `2 rho`; `of_pcost` is the smallest float rho that is true.

    Args:
        rho: finite and above 0.

    Raises:
        PrivacyError: when rho is anything else.

    Reference: Bun and Steinke (2016), Definition 1.1 and Proposition 1.6.

    Example:
        >>> ZCDP(rho=0.5).pcost_allowed()
        Fraction(1, 1)
        >>> ZCDP.of_pcost(0.25)
        ZCDP(rho=0.125)
    """

    rho: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "rho", exact.positive("rho", self.rho, "give a budget such as ZCDP(rho=0.5)"))

    def pcost_allowed(self) -> Fraction:
        """The largest pcost that is `rho`-zCDP: exactly `2 rho`."""
        return 2 * Fraction(self.rho)

    def epsilon(self, delta: float) -> float:
        """The epsilon that every `rho`-zCDP mechanism has at this delta; a Gaussian one has less (`describe`).

        Example:
            >>> ZCDP(rho=0.5).epsilon(1e-6)
            5.2215...
        """
        return exact.epsilon_of_rho(self.rho, delta)

    epsilon_at = epsilon

    @classmethod
    def of_pcost(cls, pcost: Pcost) -> Self:
        """The guarantee of a Gaussian mechanism with this pcost, rounded up."""
        return cls(exact.round_up(_spent(pcost) / 2))


@dataclass(frozen=True)
class GDP:
    """Gaussian differential privacy, `mu`-GDP.

    Telling neighbours apart is at least as hard as telling N(0, 1) from N(mu, 1).
    A Gaussian mechanism has exactly `mu = √pcost`.

    Guarantee: `pcost_allowed` is exactly `mu²`; `of_pcost` is the smallest float mu that is true.

    Args:
        mu: finite and above 0.

    Raises:
        PrivacyError: when mu is anything else.

    Reference: Dong, Roth and Su (2022), arXiv:1905.02383, Definition 2.6 and Theorem 2.7.

    Example:
        >>> GDP(mu=0.5).pcost_allowed()
        Fraction(1, 4)
        >>> GDP.of_pcost(2)
        GDP(mu=1.4142135623730951)
    """

    mu: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "mu", exact.positive("mu", self.mu, "give a budget such as GDP(mu=1.0)"))

    def pcost_allowed(self) -> Fraction:
        """The largest pcost that is `mu`-GDP: exactly `mu²`."""
        return Fraction(self.mu) ** 2

    @property
    def rho(self) -> float:
        """`mu²/2`: every `mu`-GDP mechanism is `mu²/2`-zCDP; rounded up."""
        return exact.round_up(Fraction(self.mu) ** 2 / 2)

    def epsilon(self, delta: float) -> float:
        """The epsilon at this delta, from the exact Gaussian curve.

        Example:
            >>> GDP(mu=1.0).epsilon(1e-6)
            4.886554...
        """
        return exact.epsilon_of(self.mu, delta)

    epsilon_at = epsilon

    @classmethod
    def of_pcost(cls, pcost: Pcost) -> Self:
        """The guarantee of a Gaussian mechanism with this pcost, rounded up."""
        return cls(exact.root_up(_spent(pcost)))


@dataclass(frozen=True)
class ApproxDP:
    """Approximate differential privacy, `(epsilon, delta)`-DP.

    `P(output in S) <= e^epsilon P'(output in S) + delta` for neighbours and every set S. The exact curve of a
    Gaussian mechanism is `delta = Φ(mu/2 − epsilon/mu) − e^epsilon Φ(−mu/2 − epsilon/mu)` with `mu = √pcost`.

    Guarantee: `pcost_allowed` is a float, at most the true value and within 1e-12 of it (relatively; it
    is never more than 1e10); `of_pcost` is never below the true value.

    Args:
        epsilon: finite and above 0.
        delta: strictly between 0 and 1; well below one over the number of people.

    Raises:
        PrivacyError: when epsilon or delta is anything else.

    Reference: Balle and Wang (2018), Theorem 8.

    Example:
        >>> float(ApproxDP(epsilon=1.0, delta=1e-6).pcost_allowed())
        0.0560289...
        >>> ApproxDP.of_pcost(1, delta=1e-6)
        ApproxDP(epsilon=4.886554..., delta=1e-06)
        >>> ApproxDP.of_pcost(1, epsilon=1.0)
        ApproxDP(epsilon=1.0, delta=0.126936...)
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        budget = "give a budget such as ApproxDP(epsilon=1.0, delta=1e-9)"
        object.__setattr__(self, "epsilon", exact.positive("epsilon", self.epsilon, budget))
        object.__setattr__(self, "delta", exact.probability("delta", self.delta, budget))

    def pcost_allowed(self) -> Fraction:
        """The largest pcost on the safe side of the exact Gaussian curve, rounded down to a float."""
        pcost = exact.round_down(Fraction(exact.mu_of(self.epsilon, self.delta)) ** 2)
        if pcost == 0:
            raise PrivacyError(f"{self!r} allows a pcost too small for a float; give a larger epsilon or delta.")
        return Fraction(pcost)

    @property
    def rho(self) -> float:
        """Raises PrivacyError: one point of the curve bounds no rho."""
        raise PrivacyError(f"{self!r} bounds no rho: no theorem goes there; budget with ZCDP or GDP to quote one.")

    def epsilon_at(self, delta: float) -> float:
        """The epsilon at this delta, which must not be smaller than the guarantee's own."""
        if exact.probability("delta", delta, "give a small probability such as 1e-9") < self.delta:
            raise PrivacyError(f"{self!r} says nothing at delta={named(delta)}; ask at delta {self.delta!r} or above.")
        return self.epsilon

    @classmethod
    def of_pcost(cls, pcost: Pcost, *, delta: float | None = None, epsilon: float | None = None) -> Self:
        """The guarantee of a Gaussian mechanism with this pcost at a given delta or epsilon, rounded up.

        Where epsilon 0 is true already, the smallest positive float stands for it.
        """
        mu = exact.root_up(_spent(pcost))
        if delta is not None and epsilon is None:
            return cls(max(exact.epsilon_of(mu, delta), math.ulp(0.0)), delta)
        if epsilon is not None and delta is None:
            least = exact.delta_of(mu, epsilon)
            if least == 1:
                raise PrivacyError(f"epsilon={named(epsilon)} needs delta 1 at this pcost; give a larger epsilon.")
            return cls(epsilon, least)
        raise PrivacyError(
            f"exactly one of delta and epsilon must be given, not delta={named(delta)} and epsilon={named(epsilon)}; "
            "leave out the one you want to know."
        )


@dataclass(frozen=True)
class PureDP:
    """Pure differential privacy, `epsilon`-DP.

    `P(output in S) <= e^epsilon P'(output in S)` for neighbours and every set S.

    Guarantee: no Gaussian mechanism has it, and `pcost_allowed` says so.

    Args:
        epsilon: finite and above 0.

    Raises:
        PrivacyError: when epsilon is anything else.

    Reference: Dwork, McSherry, Nissim and Smith (2006).

    Example:
        >>> PureDP(epsilon=1.0)
        PureDP(epsilon=1.0)
    """

    epsilon: float

    def __post_init__(self) -> None:
        budget = "give a budget such as PureDP(epsilon=1.0)"
        object.__setattr__(self, "epsilon", exact.positive("epsilon", self.epsilon, budget))

    def pcost_allowed(self) -> Fraction:
        """Raises PrivacyError: Gaussian noise is unbounded in privacy loss, whatever its scale."""
        raise PrivacyError(
            f"{self!r} cannot be met by Gaussian noise at any scale; "
            "add a delta, ApproxDP(epsilon=…, delta=1e-9), or ask for ZCDP or GDP."
        )

    @property
    def rho(self) -> float:
        """`epsilon²/2`: every `epsilon`-DP mechanism is `epsilon²/2`-zCDP (Bun and Steinke 2016); rounded up."""
        return exact.round_up(Fraction(self.epsilon) ** 2 / 2)

    @property
    def mu(self) -> float:
        """`2 Φ⁻¹(e^ε/(1 + e^ε))`: every `epsilon`-DP mechanism is `mu`-GDP (`pure_to_gdp_pcost`); rounded up.

        Example:
            >>> PureDP(epsilon=1.0).mu
            1.2320...
        """
        return exact.root_up(exact.pure_to_gdp_pcost(Fraction(self.epsilon)))

    def epsilon_at(self, delta: float) -> float:
        """Epsilon, at every delta."""
        exact.probability("delta", delta, "give a small probability such as 1e-9")
        return self.epsilon


@dataclass(frozen=True)
class Nothing:
    """No cost at all: what an unused ledger has spent, and what an exhausted one has left. It is no budget.

    Example:
        >>> Nothing().rho, Nothing().epsilon_at(1e-9)
        (0.0, 0.0)
    """

    def pcost_allowed(self) -> Fraction:
        """Raises PrivacyError: nothing can be measured for nothing."""
        raise PrivacyError("nothing is left to spend, and nothing can be measured for that; give a budget above 0.")

    rho: ClassVar[float] = 0.0
    mu: ClassVar[float] = 0.0

    def epsilon(self, delta: float | None = None) -> float:
        """0, at every delta."""
        return 0.0

    epsilon_at = epsilon


def like(example: Guarantee | None, pcost: Pcost) -> Guarantee:
    """The guarantee of a Gaussian mechanism with this pcost in the type of another, rounded up; ZCDP where it has none.

    Example:
        >>> like(GDP(mu=2.0), 1)
        GDP(mu=1.0)
    """
    if isinstance(example, ApproxDP):
        return ApproxDP.of_pcost(pcost, delta=example.delta)
    return (GDP if isinstance(example, GDP) else ZCDP).of_pcost(pcost)


def _spent(pcost: Pcost) -> Fraction:
    spent = exact.nonnegative("pcost", pcost, "give the largest diagonal entry of a privacy cost matrix")
    if spent == 0:
        raise PrivacyError("pcost must be above 0, not 0, to need a guarantee; a mechanism without cost tells nothing.")
    return spent


# ---- files

_GUARANTEES = {"zcdp": ZCDP, "gdp": GDP, "approx": ApproxDP, "pure": PureDP}


def guarantee_to_body(guarantee: Guarantee | None) -> dict[str, Any] | None:
    """A guarantee as plain values."""
    if guarantee is None:
        return None
    kind = next(kind for kind, cls in _GUARANTEES.items() if isinstance(guarantee, cls))
    return {"kind": kind, **vars(guarantee)}


def guarantee_of_body(body: dict[str, Any] | None) -> Guarantee | None:
    """The guarantee that plain values describe."""
    if body is None:
        return None
    parameters = {key: value for key, value in body.items() if key != "kind"}
    return cast("Guarantee", _GUARANTEES[body["kind"]](**parameters))


def affordable(budget: Guarantee, amount: Fraction) -> Guarantee:
    """What is left as a guarantee in the budget's own type, rounded down: what it allows can be debited."""
    allowed = Fraction(budget.epsilon) if isinstance(budget, PureDP) else budget.pcost_allowed()
    if amount == allowed:
        return budget
    if isinstance(budget, ApproxDP):
        return _affordable_epsilon(budget, amount)
    if isinstance(budget, GDP):
        mu = exact.root_up(amount)
        mu = mu if Fraction(mu) ** 2 <= amount else math.nextafter(mu, 0.0)
        return GDP(mu) if mu else Nothing()
    left = exact.round_down(amount if isinstance(budget, PureDP) else amount / 2)
    if not left:
        return Nothing()
    return PureDP(left) if isinstance(budget, PureDP) else ZCDP(left)


def _affordable_epsilon(budget: ApproxDP, amount: Fraction) -> Guarantee:
    """The epsilon of the curve at the budget's delta, lowered until what it allows is no more than the amount."""
    epsilon = exact.epsilon_of(exact.root_up(amount), budget.delta) if amount else 0.0
    for digits in range(50, 10, -2):
        if not epsilon:  # at so little, delta alone suffices: no epsilon stands for it
            break
        if ApproxDP(epsilon, budget.delta).pcost_allowed() <= amount:
            return ApproxDP(epsilon, budget.delta)
        epsilon *= 1.0 - 2.0**-digits
    return Nothing()


LEFT_OUT_SHARE = 0.02  # of what a release for persons spends, on how many records it leaves out
SAMPLING_SHARE = 0.05  # of what a survey spends, on the squares of its weights


def for_tables(budget: Guarantee) -> Guarantee:
    """What remains of a budget for persons once the share for what is left out is kept, rounded down."""
    return without_share(budget, LEFT_OUT_SHARE)


def without_share(budget: Guarantee, share: float) -> Guarantee:
    """What remains of a budget once a share of it is kept, rounded down."""
    allowed = Fraction(budget.epsilon) if isinstance(budget, PureDP) else budget.pcost_allowed()
    kept = affordable(budget, allowed * (1 - Fraction(share)))
    return budget if isinstance(kept, Nothing) else kept
