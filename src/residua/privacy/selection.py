"""How likely a value is released that so many people hold: the best rule there is for its price, as exact numbers.

A value that n of the counted hold is released with probability `p_n`, each value by itself; `p_0 = 0`, so that no value
is invented. Let f be a trade-off function: what telling neighbours apart by one value may at best achieve. Two coins
with probabilities p ≤ q satisfy f exactly when `q ≤ 1 − f(p)`, for f is convex and equal to its inverse. So

    p_n = min over c of 1 − f_c(p_(n−c)),    c = 1, …, the most by which one unit changes one value,

is the largest rule: by induction every other one that treats values separately releases each no more often, whatever n.
One unit changes values by c_1, c_2, … with Σ c_j ≤ k, and f_c is the share of what is paid:

    Laplace currency:  f_c = f_(ε c/k, δ c/k),         f_(ε, δ)(α) = max(0, 1 − δ − e^ε α, e^−ε (1 − δ − α))
    pcost:             f_c = G_(μ c/k) ⊗ f_(0, δ c/k),   (G_μ ⊗ f_(0, δ))(α) = (1 − δ) G_μ(α / (1 − δ))

which compose to (ε, δ) and to `G_μ ⊗ f_(0, δ)`. Where one unit changes k different values by 1 each, as a person whose
values count once, the second has `μ/√k`. For k = 1 the first rule is that of Desfontaines, Voss, Gipson and Mandayam.

`p_n` is a whole number of 2^-128, rounded down in ball arithmetic, and the next one is computed from what was rounded.
A value held by one has `p_1 ≤ δ/k`, so that of all that one unit alone holds, something is released with probability at
most δ; `p_n` reaches 1.

Reference: Desfontaines, Voss, Gipson and Mandayam (2022), arXiv:2006.03684; Dong, Roth and Su (2022), arXiv:1905.02383,
Proposition 2.5, Theorem 3.2 and equation 9.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from flint import arb, ctx, fmpq

from residua.errors import PrivacyError
from residua.privacy.exact import rational

BITS = 128
ONE = 1 << BITS
_PRECISION = 320  # bits of the balls: far more than 2^-128 needs
_MOST = 20_000  # steps of the rule, times the changes that each looks at


def release_chances(price: Fraction, delta: Fraction, k: int, *, pure: bool, once: bool) -> tuple[int, ...]:
    """`p_1, p_2, …` up to the first that is 1, each times 2^128.

    Args:
        price: what the selection may cost a unit: an epsilon if pure, else a pcost.
        delta: the probability that nothing is promised.
        k: by how much a unit changes the counts of all values together.
        pure: whether the price is an epsilon.
        once: whether a unit changes each value by 1 at most.

    Raises:
        PrivacyError: so little that values would have to be held by too many.

    Example:
        >>> chances = release_chances(Fraction(1), Fraction(1, 10**6), 1, pure=True, once=True)
        >>> chances[0] * 10**6 <= ONE, len(chances)
        (True, 28)
    """
    if not once and k * k > _MOST:
        raise PrivacyError(f"with {k:,} records of a unit in one value nothing can be found; protect persons instead.")
    with ctx.workprec(_PRECISION):
        steps = [_step(price, delta, c, k, pure=pure, once=once) for c in range(1, 2 if once else k + 1)]
        chances = [0]
        while chances[-1] < ONE:
            if len(chances) * len(steps) > _MOST:
                raise PrivacyError(
                    "the budget is too small: a value would have to be held by too many to be found; give more, or a "
                    "unit of fewer records."
                )
            least = min(step(chances[-c]) for c, step in enumerate(steps[: len(chances)], 1))
            chances.append(max(chances[-1], min(least, ONE)))
    return tuple(chances[1:])


def _step(price: Fraction, delta: Fraction, c: int, k: int, *, pure: bool, once: bool) -> Callable[[int], int]:
    """`p ↦ 1 − f_c(p)`, rounded down, on whole numbers of 2^-128."""
    share = Fraction(c, k)
    d = _ball(delta * share)
    if pure:
        up = _ball(price * share).exp()

        def step(p: int) -> int:
            a = _ball(Fraction(p, ONE))
            return min(_down(d + up * a), _down(1 - (1 - d - a) / up))

        return step
    shift = (_ball(price * (share if once else share**2)) / 2).sqrt()  # mu / √2
    whole = ONE - int(delta * share * ONE)  # where p is 1 − delta or more

    def gaussian(p: int) -> int:
        if p >= whole:
            return ONE
        if p == 0:
            return _down(d)
        a = _ball(Fraction(p, ONE)) / (1 - d)
        return _down(d + (1 - d) * ((2 * a).erfcinv() - shift).erfc() / 2)

    return gaussian


def _ball(number: Fraction) -> Any:
    return arb(fmpq(number.numerator, number.denominator))


def _down(ball: Any) -> int:
    """The whole number of 2^-128 at or below all of a ball; 0 where the ball says nothing."""
    return max(0, int(rational(ball.lower()) * ONE // 1)) if ball.is_finite() else 0
