"""The one home of tolerances: when two things are the same, and when a proof is good enough. All are relative."""

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
