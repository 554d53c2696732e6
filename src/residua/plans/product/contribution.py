"""What a person with several records, some of them limited, can cost blocks of a lattice at most.

A person adds z to the table. Block S, measured with precision τ_S by strategies with Gram matrices `G_i = R_iᵀR_i`,
costs `τ_S zᵀ (⊗_{i∈S} G_i ⊗_{i∉S} J) z`, with `J = 11ᵀ` where an attribute is summed over. Let A be the limited
attributes that are measured by the plain residual, `G_i = n² (I − J/n)`, S = T ∪ B with `B = S ∩ A`. In the basis I, J
of every attribute of A (tables in place of residuals; factors n² apart)

    Σ_S τ_S ⊗_{i∈B} (I − J/n_i) ⊗_{i∈A∖B} J  =  Σ_{T,B} s_{T,B} ⊗_{i∈B} I ⊗_{i∈A∖B} J ,
    s_{T,B} = Σ_{B'⊇B} τ_{T∪B'} Π_{i∈B'∖B} (−1/n_i) .

**Theorem.** The price is at most `Σ_{T,B} max(s_{T,B}, 0) · cost_T · F_{T,B}`, with `cost_T = Π_{i∈T} max_j (G_i)_jj`,
`F_{T,B} = min(D_B, f_i for the limited i ∈ T)`, D_B the most ordered pairs of records that agree on B (`persons.py`)
and f_i below.

*Proof.* `q_{T,B}(z) = zᵀ (⊗_T G_i ⊗_B I ⊗_{A∖B} J) z` is not negative, so that terms with `s < 0` can be left out. It
is the sum of `Π_{i∈T} G_i(c_a, c_b)` over the ordered pairs a, b of records that agree on B. Each factor is at most
`max_j (G_i)_jj` in absolute value, and there are at most D_B pairs. For a limited i ∈ T, measured by other rows, the
sum of `|G_i(c_a, c_b)|` over all pairs is at most `f_i max_j (G_i)_jj`: a record with the value v meets at most l
records with each value, together at most l times the largest entries of row v, K/l of them; and at most l records have
each v. (For T = {i} alone, only positive entries count.) ∎

*Where it is exact.* All s ≥ 0, all strategies plain, and one limit, or limits that divide one another and K: K
records, alike in all other attributes, the a-th with value `⌊a/l_i⌋` of each limited i, attain every D_B at once. The
plans that are made for persons have s ≥ 0: raising a negative s to 0 adds precision and costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import combinations
from math import prod

import numpy as np

from residua.linalg.arrays import Objects
from residua.linalg.modes import column_norms
from residua.plans.persons import Reach
from residua.plans.strategy import Strategy

Share = tuple[tuple[int, ...], int]


def contributed(reach: Reach, strategies: Mapping[int, Strategy], shares: Sequence[Share]) -> Fraction:
    """What a person costs blocks that measure each attribute by one strategy at most, in whole numbers of 2^-200.

    Args:
        reach: what the person can do.
        strategies: of each attribute that is measured.
        shares: the attributes of each block and what it costs one record, rounded up by less than 1.
    """
    plain = {i: strategies[i].size for i in reach.limits if i in strategies and strategies[i].plain}
    rows = {i: strategies[i] for i in reach.limits if i in strategies and not strategies[i].plain}
    # One record pays `cost_T Π_B (n_i − 1)/n_i · τ_S` for block S. With `M = Π_A (n_i − 1)` this adds, for B' ⊆ B, the
    # whole number `Π_{B'} n_i · Π_{A∖B} (n_i − 1) · (−1)^|B∖B'|` times itself to `M s_{T,B'} cost_T`.
    tables: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = {}
    limited, everywhere = set(plain), prod(n - 1 for n in plain.values())
    for members, cost in shares:
        if limited.isdisjoint(members):  # most sets of many attributes
            tables[members, ()] = tables.get((members, ()), 0) + cost * everywhere
            continue
        B = tuple(i for i in members if i in plain)
        T = tuple(i for i in members if i not in plain)
        around = cost * prod(n - 1 for i, n in plain.items() if i not in B)
        for inner in _subsets(B):
            signed = around * prod(plain[i] for i in inner) * (-1) ** (len(B) - len(inner))
            tables[T, inner] = tables.get((T, inner), 0) + signed
    factor = {i: pairs_of_rows(strategy, reach, i) for i, strategy in rows.items()}
    sums: dict[tuple[tuple[int, ...], tuple[int, ...], bool], int] = {}
    for (T, B), signed in tables.items():
        if signed > 0:
            kind = (B, tuple(i for i in T if i in factor), len(T) == 1) if factor else (B, (), False)
            sums[kind] = sums.get(kind, 0) + signed
    total = sum((_most(reach, factor, *kind) * amount for kind, amount in sums.items()), Fraction(0)) / everywhere
    # A block that was rounded up takes from a smaller table: at most 2^|B| units from each of 2^|B|, K² times.
    slack = len(shares) * 4 ** len(plain) * reach.records**2 if plain else 0
    return total + slack


def _most(
    reach: Reach,
    factor: Mapping[int, tuple[Fraction, Fraction]],
    B: tuple[int, ...],
    rows: tuple[int, ...],
    alone: bool,
) -> Fraction:
    """`F_{T,B}`, by the limited members of T with other rows, and whether T is one of them alone."""
    return min([Fraction(reach.agreeing(B)), *(factor[i][0 if alone else 1] for i in rows)])


def pairs_of_rows(strategy: Strategy, reach: Reach, attribute: int) -> tuple[Fraction, Fraction]:
    """f_i of a limited attribute with other rows: by positive inner products alone, and by all in absolute value."""
    R = strategy.matrix
    norm = max(column_norms(R), default=0)
    if not norm:
        return Fraction(0), Fraction(0)
    # No entry of RᵀR, and no partial sum, is larger than the sum of norms.
    gram = (R.astype(object) if norm >= 2**62 else R).T @ R
    sums = (most_of_pairs(each, reach.records, reach.limits[attribute]) for each in (np.maximum(gram, 0), np.abs(gram)))
    positive, absolute = (Fraction(int(most), norm) for most in sums)
    return positive, absolute


def most_of_pairs(gram: Objects, records: int, limit: int) -> int:
    """`Σ_ab gram[c_a, c_b]` over K records with at most l in each value, never less; entries not negative, (n, n)."""
    n = len(gram)
    if records >= n * limit:
        return int(limit**2 * gram.astype(object).sum())
    full, rest = divmod(records, limit)
    ranked = -np.sort(-gram, axis=1)[:, : full + 1].astype(object)
    met = limit * ranked[:, :full].sum(axis=1) + rest * ranked[:, full]
    best = sorted(met.tolist(), reverse=True)
    return int(limit * sum(best[:full]) + rest * best[full])


def _subsets(members: tuple[int, ...]) -> Iterable[tuple[int, ...]]:
    return (subset for size in range(len(members) + 1) for subset in combinations(members, size))
