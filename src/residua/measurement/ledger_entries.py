"""What a ledger holds, its amounts, and what it says of itself: what may be spent, what was, and what that means."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from numbers import Rational
from pathlib import Path
from typing import Any, get_args

from residua.errors import LedgerError, named
from residua.plans.noise import Currency
from residua.privacy import GDP, ZCDP, ApproxDP, Guarantee, Nothing, PureDP, Unit
from residua.privacy.exact import probability, pure_to_gdp_pcost, round_up
from residua.privacy.guarantees import affordable, like

_BITS = 4096  # of a cost's numerator and denominator; Python refuses to print much longer integers


@dataclass(frozen=True)
class Header:
    """What is fixed when a ledger is created. The allowance is kept, so that no later rounding can move it."""

    budget: Guarantee
    unit: Unit
    allowed: Fraction
    salt: str
    dataset: str | None
    population: str
    discovery_delta: Fraction = Fraction(0)
    witness: str | None = None
    whose: Mapping[str, Any] | None = field(default=None, hash=False)  # of a part, if its whole knew
    digest: str = ""  # of its line, once that is written


@dataclass(frozen=True)
class Acceptance:
    """A dataset that the curator declared to hold the same people: when, and why it is another.

    `dataset` is its salted digest, `time` is UTC, `digest` identifies this line and all before.
    """

    sequence: int
    time: str
    dataset: str
    why: str
    digest: str


@dataclass(frozen=True)
class Entry:
    """One debit, as the ledger holds it; what `Ledger.debit` returns is its receipt.

    `cost` is in the ledger's currency and for its unit, `time` is UTC, `digest` identifies this entry and all before.
    """

    sequence: int
    time: str
    cost: Fraction
    purpose: str
    detail: Mapping[str, Any] = field(hash=False)
    digest: str

    @property
    def epsilon(self) -> Fraction | None:
        """What was spent as pure DP, where the debit was one in a ledger of another currency."""
        return fraction_of(self.detail["pure_epsilon"]) if "pure_epsilon" in self.detail else None

    @property
    def delta(self) -> Fraction:
        """The probability that nothing is promised, beside the cost: what discovering values spent."""
        return fraction_of(self.detail["delta"]) if "delta" in self.detail else Fraction(0)

    def noise(self, currency: Currency) -> str:
        """What it was spent on, by the ledger's currency: `normal` or `laplace` noise, `discovery`, or `allotted`."""
        if "allotted" in self.detail:
            return "allotted"
        if self.delta:
            return "discovery"  # coins, which are no noise on a number
        return "laplace" if self.epsilon is not None or currency == "epsilon" else "normal"

    @property
    def may_be_laplace(self) -> bool:
        """Whether it was spent on Laplace noise, or allotted to a ledger that may be."""
        return self.epsilon is not None or "allotted" in self.detail


@dataclass(frozen=True)
class Contents:
    """All that a ledger file says, verified, and how many of its bytes say it."""

    header: Header
    entries: tuple[Entry, ...]
    accepted: tuple[Acceptance, ...]
    digests: tuple[str, ...]
    spent: Fraction
    datasets: tuple[str, ...]
    kept: int
    ended: bool

    @property
    def remaining(self) -> Fraction:
        """What is left of the allowance, exactly."""
        return self.header.allowed - self.spent

    @property
    def spent_delta(self) -> Fraction:
        """All deltas together."""
        return sum((entry.delta for entry in self.entries), Fraction(0))

    @property
    def whose(self) -> Mapping[str, Any] | None:
        """Who a person is (`Options.whose`), once the ledger that this is a part of, or a debit, said so."""
        first = next((entry.detail["whose"] for entry in self.entries if "whose" in entry.detail), None)
        return first if self.header.whose is None else self.header.whose

    @property
    def head(self) -> str:
        """The digest of the last line."""
        return self.digests[-1]

    def contains(self, digest: str) -> bool:
        """Whether some line has this digest."""
        return digest in self.digests


def agreed(contents: Contents, whose: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Who a person is, if whoever said so first says the same.

    Raises:
        LedgerError: it says something else. Nothing is spent.
    """
    earlier = contents.whose
    if earlier is not None and dict(earlier) != dict(whose):
        columns = ", ".join(map(repr, earlier["person"]))
        raise LedgerError(
            f"to the ledger {name} a person is who has one {columns} (no_person={earlier['no_person']!r}, "
            f"counts={earlier['counts']!r}); say the same, and rename columns with Source.with_columns if need be. "
            "Nothing was spent."
        )
    return dict(whose)


def text_of(number: Fraction) -> str:
    """A fraction as a ledger writes it."""
    return f"{number.numerator}/{number.denominator}"


def fraction_of(text: str) -> Fraction:
    """The fraction again; ValueError for a negative one."""
    numerator, denominator = text.split("/")
    number = Fraction(int(numerator), int(denominator))
    if number < 0:
        raise ValueError("a negative cost")
    return number


def currency_of(budget: Guarantee) -> Currency:
    """What a ledger of this budget counts in: epsilon for PureDP, pcost for the others."""
    return "epsilon" if isinstance(budget, PureDP) else "pcost"


def converted(budget: Guarantee, cost: Fraction, currency: Currency) -> Fraction:
    """A cost in the budget's own currency, never less than the truth.

    An epsilon-DP mechanism counts as pcost `epsilon²` under ZCDP (it is `epsilon²/2`-zCDP), and as `mu²` of the least
    mu that makes it mu-GDP under GDP and ApproxDP, whose budgets compose as GDP does.

    Raises:
        LedgerError: Gaussian noise in a ledger of pure DP, or no currency.

    Reference: Bun and Steinke (2016), Proposition 1.4; `privacy.exact.pure_to_gdp_pcost`.
    """
    if currency not in get_args(Currency):  # a small cost taken for an epsilon would be squared
        raise LedgerError(f"currency must be 'pcost' or 'epsilon', not {named(currency)}; nothing was spent.")
    if currency == currency_of(budget):
        return cost
    if isinstance(budget, PureDP):
        raise LedgerError(
            f"the ledger promises {budget!r}, which Gaussian noise cannot keep at any scale; nothing was spent: plan "
            f"with PureDP, or keep a ledger with a budget such as ApproxDP(epsilon={budget.epsilon:g}, delta=1e-9)."
        )
    if isinstance(budget, ZCDP):
        return cost * cost
    return pure_to_gdp_pcost(cost)


def allowance(budget: object) -> Fraction:
    """What may be debited in all, in the budget's currency: a pcost, or an epsilon for PureDP.

    Raises:
        LedgerError: when this is no guarantee.
    """
    if not isinstance(budget, ZCDP | GDP | ApproxDP | PureDP):
        raise LedgerError(
            f"budget must be a guarantee, not {named(budget)}; give one such as ZCDP(rho=0.5), GDP(mu=1.0), "
            "ApproxDP(epsilon=1.0, delta=1e-9) or PureDP(epsilon=1.0)."
        )
    return Fraction(budget.epsilon) if isinstance(budget, PureDP) else budget.pcost_allowed()


def exact_cost(cost: object, *, zero: bool = False) -> Fraction:
    """A cost as a Fraction, or LedgerError when it is a float, not above 0, or too long to write down.

    Args:
        cost: a whole number or a fraction.
        zero: whether 0 is allowed: what is measured adds nothing to the most expensive cell, but is on record.
    """
    if not isinstance(cost, Rational) or isinstance(cost, bool):
        raise LedgerError(f"cost must be an exact number, a Fraction, not {named(cost)}; give it as verified.")
    exact = Fraction(int(cost.numerator), int(cost.denominator))
    if exact < 0 or (exact == 0 and not zero):
        raise LedgerError(
            f"cost must be above 0, not {exact}; what costs nothing needs no debit, unless detail says what it is."
        )
    if max(exact.numerator.bit_length(), exact.denominator.bit_length()) > _BITS:
        raise LedgerError(f"cost must have at most {_BITS} bits above and below the line; round it up first.")
    return exact


def exact_delta(delta: float | None) -> Fraction | None:
    """What may be spent on discovery as a Fraction, or PrivacyError when it is no probability."""
    return None if delta is None else Fraction(probability("discovery_delta", delta, "give a small one such as 1e-9"))


def stated(budget: Guarantee, amount: Fraction) -> Guarantee:
    """What was spent as a guarantee in the budget's own type, never less than the truth."""
    if not amount:
        return Nothing()
    return PureDP(round_up(amount)) if isinstance(budget, PureDP) else like(budget, amount)


# ---- what people are shown


def meaning(budget: Guarantee, *, laplace: bool, delta: Fraction = Fraction(0)) -> str:
    """What the total of a ledger stands for, in a sentence or two.

    Args:
        budget: the ledger's.
        laplace: whether a debit was of Laplace noise.
        delta: what discovering values spent.
    """
    if delta:
        return (
            f"{meaning(budget, laplace=laplace)} All this except with probability {round_up(delta):g}, the delta that "
            "was spent on discovering values: add it to every delta that is quoted."
        )
    if isinstance(budget, PureDP):
        return "All releases together are epsilon-DP with the epsilon spent: epsilons add up. Laplace noise only."
    if not laplace:
        return "All releases together are mu-GDP with mu² the pcost spent, and rho-zCDP with rho half of it."
    if isinstance(budget, ZCDP):
        return (
            "All releases together are rho-zCDP with rho half the pcost spent: Laplace noise of epsilon counts as "
            "epsilon²/2. Not everything is Gaussian, so mu and the exact Gaussian curve do not apply to the total."
        )
    return (
        "All releases together are mu-GDP with mu² the pcost spent: Laplace noise of epsilon counts as the mu of "
        "epsilon-DP, 2 Φ⁻¹(e^epsilon/(1 + e^epsilon))."
    )


def shortage(budget: Guarantee, remaining: Fraction, asked: Fraction) -> str:
    """What is left and what is asked, in the budget's own currency.

    Example:
        >>> shortage(ZCDP(rho=0.5), Fraction(1, 5), Fraction(1))
        'rho 0.1 left, the plan needs rho 0.5'
    """
    left, needed = _in_words(budget, remaining, ROUND_FLOOR), _in_words(budget, asked, ROUND_CEILING)
    # Nearer to each other than floats are, both may print alike.
    difference = f", more by {currency_of(budget)} {float(asked - remaining):.2g}" if left == needed else ""
    return f"{left} left, the plan needs {needed}{difference}"


def _in_words(budget: Guarantee, amount: Fraction, rounding: str) -> str:
    """An amount as the first parameter of the budget's own type: rho, mu or epsilon."""
    name = next(iter(vars(budget)))
    value = getattr(stated(budget, amount), name) if amount else 0.0
    end = f" at delta {budget.delta:g}" if isinstance(budget, ApproxDP) else ""
    digits = float(Context(prec=5, rounding=rounding).create_decimal(Decimal(repr(value))))
    return f"{name} {digits:.5g}{end}"


class LedgerFacts:
    """The questions that a ledger answers; each reads the file again, and verifies all of it."""

    _path: Path
    _header: Header

    def _read(self) -> Contents:
        raise NotImplementedError

    @property
    def path(self) -> Path:
        """Where the ledger is."""
        return self._path

    @property
    def budget(self) -> Guarantee:
        """All that may ever be spent."""
        return self._header.budget

    @property
    def currency(self) -> Currency:
        """What the ledger counts in: epsilon where the budget is PureDP, else pcost."""
        return currency_of(self._header.budget)

    @property
    def unit(self) -> Unit:
        """Whom the budget protects."""
        return self._header.unit

    @property
    def population(self) -> str:
        """Who the people are."""
        return self._header.population

    @property
    def identity(self) -> str:
        """What tells this ledger from all others, copies of it excepted: the digest of its first line, salted."""
        return self._header.digest

    @property
    def spent(self) -> Guarantee:
        """All debits together, as a guarantee of the budget's type, rounded up; `Nothing()` before the first.

        It has `.rho` and `.epsilon_at(delta)`, as every guarantee where a theorem allows.
        """
        return stated(self._header.budget, self._read().spent)

    @property
    def remaining(self) -> Guarantee:
        """What is still allowed, as a guarantee of the budget's type, rounded down; `Nothing()` when nothing is.

        A plan may be made for it: `rs.plan(workload, ledger.remaining)`.
        """
        return affordable(self._header.budget, self._read().remaining)

    @property
    def spent_exactly(self) -> Fraction:
        """All debits, exactly: a pcost, or an epsilon where the budget is PureDP."""
        return self._read().spent

    @property
    def remaining_exactly(self) -> Fraction:
        """What is still allowed, exactly, in the same currency."""
        return self._read().remaining

    @property
    def discovery_delta(self) -> float:
        """How much delta may be spent on discovering values, in all; 0 where none was allowed at creation."""
        return float(self._header.discovery_delta)

    @property
    def discovery_delta_spent(self) -> float:
        """How much of it was spent, rounded up; deltas add up."""
        return round_up(self._read().spent_delta)

    @property
    def accepted(self) -> tuple[Acceptance, ...]:
        """The datasets that were declared to hold the same people, oldest first."""
        return self._read().accepted

    @property
    def meaning(self) -> str:
        """What the total stands for, in a sentence; it depends on the budget, and on whether noise was mixed."""
        laplace = any(entry.may_be_laplace for entry in self.entries)
        return meaning(self._header.budget, laplace=laplace, delta=self._read().spent_delta)

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Every debit, oldest first."""
        return self._read().entries

    @property
    def head(self) -> str:
        """The digest of the last line; it stands for all that the ledger says now."""
        return self._read().head

    def contains(self, head: str) -> bool:
        """Whether the ledger once had this head; if not, it was rolled back or is another ledger."""
        return self._read().contains(head)

    def keyed(self, text: str) -> str:
        """A digest of a text that nobody can compute without the ledger (HMAC-SHA256 with its salt)."""
        return hmac.new(self._header.salt.encode(), text.encode("utf-8", "surrogatepass"), "sha256").hexdigest()

    @property
    def choosing_key(self) -> bytes:
        """The secret that decides which of a person's records are counted, 32 bytes: from the ledger's salt.

        It is as old as the ledger, so that all that is ever measured under it counts the same records; it is in the
        ledger's file alone, and lost with it.
        """
        return bytes.fromhex(self.keyed("which records of a person are counted"))
