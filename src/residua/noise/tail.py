"""A symmetric distribution as the samplers see it: its upper tail, in ball arithmetic."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import RLock

from flint import arb, ctx

_PRECISION_LOCK = RLock()


@dataclass(frozen=True)
class Tail:
    """A distribution symmetric about zero, by its upper tail `T(x) = P(X > x)` for x ≥ 0.

    Every function maps balls to balls that hold all true values (`arb`), at the working precision.

    Attributes:
        name: What the distribution is called.
        survival: `T`, from x ≥ 0 to the probability in (0, 1/2].
        quantile: `f = T⁻¹`, from p in (0, 1/2] to x ≥ 0.
        taylor: `taylor(p, order)` is the list of `|f⁽ⁿ⁾(p)| / n!` for n = 0 … order. The sign of the n-th
            derivative must be (−1)ⁿ on all of (0, 1/2], so that each of them is largest at the smallest p.
    """

    name: str
    survival: Callable[[arb], arb]
    quantile: Callable[[arb], arb]
    taylor: Callable[[arb, int], list[arb]]


@contextmanager
def precision(bits: int) -> Iterator[None]:
    """Work in balls of `bits` bits; one thread at a time, because python-flint has one precision for all."""
    with _PRECISION_LOCK, ctx.workprec(bits):
        yield
