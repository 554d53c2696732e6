"""Where more budget lowers the error of estimates most: precisions for all sets, once everything was looked at.

A table's error is made of those of its interactions, `E_A² = Σ_{S⊆A} e_S(τ_S)²`: an error of a pair is spread over
further attributes as records are, which keeps its sum of absolute values. The least `Σ_A w_A E_A` under
`Σ_S κ_S τ_S = pcost` has `κ_S τ_S ∝ q_S e_S² Σ_{A⊇S} w_A / E_A` wherever more is spent than was, with q the slope
of e_S on double logarithmic paper: a fixed point that damped rounds find in a few steps. Sets may be bound to rise
together, in given proportions: then it is their sums that are proportional.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from residua.estimation.curves import at_precisions
from residua.linalg.arrays import Booleans, Floats
from residua.linalg.lattice import Lattice

_ROUNDS = 60
_LEAST = 1e-12


@dataclass(frozen=True, eq=False)
class Learned:
    """What a look says of every set of a family.

    Args:
        lattice: the family.
        measured: how precisely each was measured, τ_S, 0 where it was not, (sets,).
        reference: the precision at which each curve begins, above 0 where there is one, (sets,).
        curves: expected errors at multiples of that precision, (sets, factors); 0 where nothing is to be learned.
    """

    lattice: Lattice
    measured: Floats
    reference: Floats
    curves: Floats


def spend(
    learned: Learned,
    weights: Floats,
    costs: Floats,
    pcost: float,
    together: Booleans | None = None,
    proportions: Floats | None = None,
) -> Floats:
    """The precisions that make the expected error least, none below what was measured, (sets,).

    Args:
        learned: what a look said.
        weights: w_A, of the tables asked for, (sets,).
        costs: κ_S, what a precision of 1 costs, (sets,).
        pcost: what all may cost.
        together: which sets rise together, (sets,); none if left out.
        proportions: in which proportions, precisions of those sets, (sets,).
    """
    lattice = learned.lattice
    live = (learned.reference > 0) & (costs > 0)
    floor = learned.measured * costs
    if pcost <= float(floor.sum()) or not live.any():
        return np.array(learned.measured)
    bound = np.zeros(len(lattice), dtype=bool) if together is None else together & live
    shape = np.where(bound, (np.zeros(len(lattice)) if proportions is None else proportions) * costs, 0.0)
    shape /= max(float(shape.sum()), 1e-300)
    ones, safe = np.ones(lattice.attributes), np.where(live, learned.reference, 1.0)
    price = np.where(costs > 0, costs, 1.0)
    spent = _filled(np.where(live, 1.0, 0.0), floor, pcost)
    for number in range(_ROUNDS):
        errors, slopes = at_precisions(learned.curves, safe, spent / price)
        errors = np.where(live, errors, 0.0)
        whole = np.sqrt(np.maximum(lattice.sum_over_subsets(errors**2, ones), _LEAST))
        pull = np.where(live, slopes * errors**2 * lattice.sum_over_supersets(weights / whole, ones), 0.0)
        pull = np.where(bound, shape * float(pull[bound].sum()), pull)
        wanted = _filled(pull, floor, pcost)
        blend = 1.0 if number == 0 else 0.5 if number < _ROUNDS // 2 else 0.25
        spent = _filled(wanted**blend * spent ** (1.0 - blend), floor, pcost)
    return np.asarray(np.maximum(spent / price, learned.measured))


def blended(first: Floats, second: Floats, share: float, measured: Floats, costs: Floats) -> Floats:
    """Precisions between two ways of spending the same, none below what was measured: a geometric mean, filled up."""
    whole = float(first @ costs)
    mean = np.where((first > 0) & (second > 0), first ** (1.0 - share) * second**share, first)
    return np.asarray(_filled(mean * costs, measured * costs, whole) / np.where(costs > 0, costs, 1.0))


def _filled(shares: Floats, floor: Floats, whole: float) -> Floats:
    """`max(c · shares, floor)` with c such that it adds up to the whole."""
    ratio = np.divide(floor, shares, out=np.full_like(floor, np.inf), where=shares > 0)
    order = np.argsort(ratio, kind="stable")
    # With the k smallest ratios above their floor: c · Σ_k shares + Σ_rest floor = whole.
    above, rest = np.cumsum(shares[order]), float(floor.sum()) - np.cumsum(floor[order])
    with np.errstate(divide="ignore", invalid="ignore"):
        c = (whole - rest) / above
    fits = np.flatnonzero(np.isfinite(c) & (c >= ratio[order]))
    return np.asarray(np.maximum(c[fits[-1]] * shares, floor)) if len(fits) else np.array(floor)
