"""The one home of tolerances: when two things are the same, and when a proof is good enough. All are relative."""

from __future__ import annotations

import math

from residua.language import mark, numeral, say

# What can be answered.
SUPPORT_TOLERANCE = 1e-9  # a query this close to the measured space is in it

# Ranks and orders of matrices.
WORKLOAD_RANK_TOLERANCE = 1e-10  # singular values of a workload below this share of the largest are none
RANK_TOLERANCE = 1e-12  # singular values of what is measured
SINE_TOLERANCE = 1e-7  # whether a row lies in a space; cosines are blind below 1e-8
ORDER_TOLERANCE = 2.0**-30  # precisions closer than this are one: a measurement's own rounding is 1e-13
MATRIX_ORDER_TOLERANCE = 2.0**-20  # the same for precisions along directions, which integers only come close to

PRICE_TOLERANCE = 1e-6  # a price this close to what it bounds is that

# When planners stop.
MARGINAL_TOLERANCE = 1e-4
PRODUCT_TOLERANCE = 1e-3  # of the noise for given strategies; the plan's own gap counts the strategies as well
DENSE_TOLERANCE = 1e-3
COMMON_TOLERANCE = 1e-6  # of what three or more plans have in common

# What is left unspent, or spent on top, so that the rounding of long sums of floats never exceeds a budget or a target.
BUDGET_SLACK = 1.0 - 2.0**-40  # where a price is a sum of fractions: the relative error of floats is below 1e-13
CORRELATED_SLACK = 1.0 - 2.0**-30  # where it is a pass along an axis, or a sum over a tree
PROOF_SLACK = 1.0 - 2.0**-30  # of what is claimed to be proven of Laplace noise


def nearness(gap: float, comparison_class: str) -> str:
    """How far from its comparison_class a plan can be, as proven; two digits, rounded up, and no less than a millionth.

    Example:
        >>> nearness(5.578e-05, "the best possible")
        'proven within 0.0056 % of the best possible'
        >>> nearness(1.016, "the best possible")
        'not proven the best; the best possible is at most 2.1 times better'
    """
    share = gap + 1 if gap >= 1 else 100 * max(gap, 1e-6)
    digits = 1 - math.floor(math.log10(share))
    rate = f"{math.ceil(share * 10.0**digits - 1e-6) / 10.0**digits:.{max(digits, 0)}f}"
    rate = rate.rstrip("0").rstrip(".") if "." in rate else rate
    if gap >= 1:
        words = mark("not proven the best; {best} is at most {rate} times better")
        return say(words, best=say(comparison_class), rate=numeral(rate))
    return say("proven within {rate} % of {best}", rate=numeral(rate), best=say(comparison_class))
