"""Optimal mechanisms for any matrix of linear queries, each with a proof of how good it is.

Arrays in, arrays out: nothing here knows about domains, tables or guarantees. `queries` (what is asked, well-posed) →
`dense_response` (the best mechanism for given weights) → `level`, `interior` and the fixed point of `saddle` (methods
on one dual) → `solve` (chooses, and re-checks with `certificate`). `refined` picks the best of many optima,
`approximate` trades noise for bias.
"""
