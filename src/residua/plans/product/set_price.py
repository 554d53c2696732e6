"""What blocks of residuals and products cost, exactly, from the blocks alone: what the verifier asks of them.

Adding a record to a cell adds `t ⊗ R_i e_j` to block S, whose squared norm is `t² Π_i ‖R_i e_j‖²`. The cell that has
every attribute's heaviest value attains the largest norm in all blocks at once, so that
`Σ_S (t²/s²) Π_{i∈S} max_j ‖R_i e_j‖²` is the cost exactly. With plain strategies every cell costs the same.

What a person with several records, some of them limited, can cost at most:
A person adds z to the table. Block S, measured with precision τ_S by strategies with Gram matrices `G_i = R_iᵀR_i`,
costs `τ_S zᵀ (⊗_{i∈S} G_i ⊗_{i∉S} J) z`, with `J = 11ᵀ` where an attribute is summed over. Let A be the limited
attributes that are measured by the plain residual, `G_i = n² (I − J/n)`, S = T ∪ B with `B = S ∩ A`. In the basis I, J
of every attribute of A (tables in place of residuals; factors n² apart)

    Σ_S τ_S ⊗_{i∈B} (I − J/n_i) ⊗_{i∈A∖B} J  =  Σ_{T,B} s_{T,B} ⊗_{i∈B} I ⊗_{i∈A∖B} J ,
    s_{T,B} = Σ_{B'⊇B} τ_{T∪B'} Π_{i∈B'∖B} (−1/n_i) .

**Theorem.** The price is at most `Σ_{T,B} max(s_{T,B}, 0) · cost_T · F_{T,B}`, with `cost_T = Π_{i∈T} max_j (G_i)_jj`,
`F_{T,B} = min(D_B, f_i for the limited i ∈ T)`, D_B the most ordered pairs of records that agree on B
(`privacy/costs.py`) and f_i below.

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

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from residua.errors import VerificationError
from residua.linalg.arrays import Integers, Objects, column_norms
from residua.linalg.lattice import Set, subsets
from residua.plans.product.balanced import least_in_common
from residua.plans.strategy import MOST_VALUES, Strategy
from residua.plans.verifier import FEWEST_RECORDS, POINT, WORD, require_scales, share
from residua.privacy.costs import Reach

MOST_ENUMERATED = 19  # 2^19 patterns of agreement
_ALIKE = 2**30  # attributes may be alike whose blocks cost the same but for one part in so many

Share = tuple[Set, int]  # the attributes of a block and what it costs one record
Priced = Any  # blocks: a family of sets, which of them are measured, their grids and scales, a strategy per attribute


def added(several: Sequence[Priced]) -> Fraction:
    """What one record costs: exact where all measure an attribute by one strategy, whose heaviest value counts."""
    return Fraction(sum(sum(measurements.costs) for measurements in several), POINT)


def replaced(several: Sequence[Priced]) -> Fraction:
    """What changing one record costs: with plain strategies exact for up to 2^19 patterns, otherwise a bound."""
    return sum((_replacement(*group) for group in _alike(several)), Fraction(0))


def limited(several: Sequence[Priced], reach: Reach) -> Fraction:
    """What a person with limited records costs, as the theorem says."""
    return Fraction(math.ceil(sum((contributed(reach, *group) for group in _alike(several)), Fraction(0))), POINT)


def costs_of(measurements: Priced) -> list[int]:
    """`t² Π_{i∈S} max_j ‖R_i e_j‖² / s²` of each block in fixed point, rounded up."""
    pairs = zip(measurements.grids.tolist(), measurements.scales.tolist(), norms_of(measurements), strict=True)
    return [share(grid * grid * norm, scale) for grid, scale, norm in pairs]


def most_records(measurements: Priced) -> int:
    """How many records may be counted before a measurement could leave 64 bits."""
    entries = measurements.lattice.products(np.array([float(strategy.largest) for strategy in measurements.strategies]))
    largest = float((entries[measurements.measured] * measurements.grids).max())
    return int((WORD - 2**51) // math.ceil(largest * (1 + 2.0**-40)))


def cell_costs(measurements: Priced, most_cells: int) -> tuple[Set, Objects] | None:
    """Which attributes matter and the cost of each of their cells in whole numbers of 2^-200, (n_i, …).

    A cell costs `Σ_S (t²/s²) Π_{i∈S} ‖R_i e_j‖²`, each block rounded up. Attributes whose values all have the same
    norm do not matter; None if those that do have more cells than given.
    """
    used = np.unique(
        np.concatenate([level[_chosen(measurements, k)].ravel() for k, level in enumerate(measurements.lattice.levels)])
    )
    norms = {int(i): measurements.strategies[i].norms for i in used}
    uneven = tuple(i for i in norms if len(set(norms[i])) > 1)
    shape = tuple(len(norms[i]) for i in uneven)
    if math.prod(shape) > most_cells:
        return None
    if not uneven:
        return (), np.zeros(0, dtype=object)
    # One more place along each axis holds the blocks without the attribute; it is added to all others at the end.
    costs: Objects = np.zeros([1, *(n + 1 for n in shape)], dtype=object)
    for row, t, s in _listed(measurements):
        numerator, denominator = s.as_integer_ratio()
        alike = math.prod(norms[i][0] for i in row if i not in uneven)
        squares: Objects = np.array([(t * denominator) ** 2 * alike * POINT], dtype=object)
        for i in (i for i in uneven if i in row):
            squares = np.multiply.outer(squares, np.array(norms[i], dtype=object))
        places = (slice(n) if i in row else slice(n, n + 1) for i, n in zip(uneven, shape, strict=True))
        at = (slice(1), *places)
        costs[at] += (-(-squares // (numerator * numerator))).reshape(costs[at].shape)
    for axis, n in enumerate(shape, start=1):
        costs = np.take(costs, range(n), axis=axis) + np.take(costs, [n], axis=axis)
    return uneven, costs[0]


def check(measurements: Priced) -> None:
    """Refuses strategies that do not fit or are not integer, noise that cannot be sampled, and possible overflow."""
    require_scales(measurements.scales[measurements.independent])
    if [strategy.size for strategy in measurements.strategies] != measurements.sizes.tolist():
        raise VerificationError("the strategies do not fit the attributes; plan again.")
    whole = (one for one in set(measurements.strategies) if not one.plain and not one.tells)
    if not all(np.issubdtype(one.matrix.dtype, np.integer) for one in whole):
        raise VerificationError("a strategy is not made of whole numbers; only integers are measured.")
    if most_records(measurements) < FEWEST_RECORDS:
        raise VerificationError("a measured table is so large that its numbers could overflow; leave it out.")


def heaviest(strategy: Any) -> Any:
    """`max_j ‖R e_j‖²` from the integers themselves, not from what a strategy keeps of itself.

    Along an axis with correlated noise the largest diagonal entry of Γ, by its own verifier.
    """
    if strategy.tells:
        return strategy.price
    return strategy.size * (strategy.size - 1) if strategy.plain else max(column_norms(strategy.matrix), default=0)


def least_ratio(strategy: Any) -> Fraction:
    """The least inner product of two columns over the largest norm; of Γ along an axis."""
    if strategy.tells:
        return Fraction(-strategy.opposed)
    return Fraction(strategy.least_inner, heaviest(strategy)) if heaviest(strategy) else Fraction(0)


def norms_of(measurements: Priced) -> list[Any]:
    """`Π_{i∈S} max_j ‖R_i e_j‖²` of every measured set, exactly."""
    exact: Objects = np.array([heaviest(strategy) for strategy in measurements.strategies], dtype=object)
    products: list[Any] = []
    for k, level in enumerate(measurements.lattice.levels):
        rows = level[_chosen(measurements, k)]
        products += exact[rows].prod(axis=1).tolist() if k else [1] * len(rows)
    return products


def _chosen(measurements: Priced, k: int) -> Integers:
    """Which sets of k attributes are measured, by their place among those."""
    start, stop = measurements.lattice.offsets[k], measurements.lattice.offsets[k + 1]
    return np.asarray(measurements.measured[(measurements.measured >= start) & (measurements.measured < stop)] - start)


def _listed(measurements: Priced) -> list[tuple[Set, int, float]]:
    """The attributes, the grid factor and the noise scale of every block."""
    members = [
        tuple(row)
        for k, level in enumerate(measurements.lattice.levels)
        for row in level[_chosen(measurements, k)].tolist()
    ]
    return list(zip(members, measurements.grids.tolist(), measurements.scales.tolist(), strict=True))


def _alike(several: Sequence[Priced]) -> list[tuple[dict[int, Strategy], list[Share]]]:
    """Blocks that measure every attribute by one strategy, list by list, with what each costs."""
    alike: list[tuple[dict[int, Strategy], list[Share]]] = []
    for measurements in several:
        shares = list(zip([row for row, _, _ in _listed(measurements)], measurements.costs, strict=True))
        used = {i: measurements.strategies[i] for row, cost in shares if cost for i in row}
        for strategies, known in alike:
            if all(strategies.get(i, strategy) == strategy for i, strategy in used.items()):
                strategies.update(used)
                known.extend(shares)
                break
        else:
            alike.append((used, shares))
    return alike


def _replacement(strategies: dict[int, Strategy], shares: list[Share]) -> Fraction:
    """`max_E 2 Σ_{S≠∅} cost_S (1 − Π_{i∈S∖E} r_i)`, with r_i the least inner product of two columns over the norm.

    A safe bound: no column is longer than the norm, and the sum is linear in each inner product, so that it is largest
    with each at its least or at the norm. Of attributes that are alike only the number counts that differ: over all
    sets of t of m, d of which differ, `Π r` adds up to `Σ_h C(d, h) C(m−d, t−h) r^h`. With too many patterns to try
    all, what two cells have in common at least (`balanced.py`), or each block's own worst: its inner product is no less
    than its most negative factor times the norms of the others. The total does not change.
    """
    shares = [(row, cost) for row, cost in shares if row and cost]
    ratios = {i: least_ratio(strategy) for i, strategy in strategies.items()}
    classes, costs = _classes(ratios, shares)
    if math.prod(len(each) + 1 for each in classes) > 2**MOST_ENUMERATED:
        together = dict[Set, int]()
        for row, cost in shares:
            together[row] = together.get(row, 0) + cost  # of several measurements
        worst = sum(
            (max(-cost * min(ratios[i] for i in row), Fraction(0)) for row, cost in together.items()), Fraction(0)
        )
        whole = sum(together.values()) + min(worst, -least_in_common(together, ratios))
        return Fraction(2 * math.ceil(whole), POINT)
    most = np.array(list(costs), dtype=np.int64).reshape(len(costs), len(classes)).max(axis=0, initial=0).tolist()
    met: Objects = np.zeros([n + 1 for n in most], dtype=object)
    for kind, cost in costs.items():
        met[kind] = cost
    denominator = 1
    for each, t in zip(classes, most, strict=True):  # everything is multiplied by the denominator to stay whole
        least, norm = ratios[each[0]].as_integer_ratio()
        table: Objects = np.array([_products(len(each), d, t, least, norm) for d in range(len(each) + 1)], dtype=object)
        met, denominator = np.tensordot(met, table, axes=(0, 1)), denominator * norm**t
    largest = 2 * (met.flat[0] - met.min())
    return Fraction(-(-largest // denominator), POINT)


def _products(m: int, d: int, most: int, least: int, norm: int) -> list[int]:
    """For t up to the most: `Σ_h C(d, h) C(m−d, t−h) r^h` times `norm^most`, with `r = least/norm`."""
    return [
        sum(math.comb(d, h) * math.comb(m - d, t - h) * least**h * norm ** (most - h) for h in range(t + 1))
        for t in range(most + 1)
    ]


def _classes(
    ratios: Mapping[int, Fraction], shares: Sequence[Share]
) -> tuple[list[list[int]], dict[tuple[int, ...], int]]:
    """Classes of attributes that are alike, and what every set costs that has so many of each: never less.

    Attributes may be alike whose ratios and total costs agree. They are taken to be, where the sets of every kind, all
    as expensive as the most expensive one, cost hardly more than those that there are: so prices stay bounds.
    """
    sums, together = dict.fromkeys(ratios, 0), dict[Set, int]()
    for row, cost in shares:
        together[row] = together.get(row, 0) + cost  # of several measurements
        sums.update({i: sums[i] + cost for i in row})
    classes: list[list[int]] = []
    for i in sorted(ratios, key=lambda i: (ratios[i], sums[i])):
        last = classes[-1][-1] if classes else -1
        near = classes and ratios[last] == ratios[i] and (sums[i] - sums[last]) * _ALIKE <= sums[i]
        classes = [*classes[:-1], [*classes[-1], i]] if near else [*classes, [i]]
    for each in (classes, [[i] for i in ratios]):
        costs: dict[tuple[int, ...], int] = {}
        for row, cost in together.items() if len(each) <= MOST_ENUMERATED else ():
            kind = tuple(len(set(members).intersection(row)) for members in each)
            costs[kind] = max(costs.get(kind, 0), cost)
        whole = sum(math.prod(map(math.comb, map(len, each), kind)) * cost for kind, cost in costs.items())
        if not costs or (whole - sum(together.values())) * _ALIKE <= whole:
            break
    return each, costs


# ---- persons with limits


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
    tables: dict[tuple[Set, Set], int] = {}
    limited, everywhere = set(plain), math.prod(n - 1 for n in plain.values())
    for members, cost in shares:
        if limited.isdisjoint(members):  # most sets of many attributes
            tables[members, ()] = tables.get((members, ()), 0) + cost * everywhere
            continue
        B = tuple(i for i in members if i in plain)
        T = tuple(i for i in members if i not in plain)
        around = cost * math.prod(n - 1 for i, n in plain.items() if i not in B)
        for inner in subsets(B):
            signed = around * math.prod(plain[i] for i in inner) * (-1) ** (len(B) - len(inner))
            tables[T, inner] = tables.get((T, inner), 0) + signed
    factor = {i: pairs_of_rows(strategy, reach, i) for i, strategy in rows.items()}
    sums: dict[tuple[Set, Set, bool], int] = {}
    for (T, B), signed in tables.items():
        if signed > 0:
            kind = (B, tuple(i for i in T if i in factor), len(T) == 1) if factor else (B, (), False)
            sums[kind] = sums.get(kind, 0) + signed
    total = sum((_most(reach, factor, *kind) * amount for kind, amount in sums.items()), Fraction(0)) / everywhere
    # A block that was rounded up takes from a smaller table: at most 2^|B| units from each of 2^|B|, K² times.
    return total + (len(shares) * 4 ** len(plain) * reach.records**2 if plain else 0)


def _most(reach: Reach, factor: Mapping[int, tuple[Fraction, Fraction]], B: Set, rows: Set, alone: bool) -> Fraction:
    """`F_{T,B}`, by the limited members of T with other rows, and whether T is one of them alone."""
    return min([Fraction(reach.agreeing(B)), *(factor[i][0 if alone else 1] for i in rows)])


def pairs_of_rows(strategy: Strategy, reach: Reach, attribute: int) -> tuple[Fraction, Fraction]:
    """f_i of a limited attribute with other rows: by positive inner products alone, and by all in absolute value."""
    R = strategy.matrix
    norm = max(column_norms(R), default=0)
    if not norm:
        return Fraction(0), Fraction(0)
    if strategy.size > MOST_VALUES:
        return Fraction(reach.records**2), Fraction(reach.records**2)
    # No entry of RᵀR, and no partial sum, is larger than the sum of norms.
    gram = (R.astype(object) if norm >= 2**62 else R).T @ R
    sums = (most_of_pairs(each, reach.records, reach.limits[attribute]) for each in (np.maximum(gram, 0), np.abs(gram)))
    positive, absolute = (Fraction(int(most), norm) for most in sums)
    return positive, absolute


def most_of_pairs(gram: Objects, records: int, limit: int) -> int:
    """`Σ_ab gram[c_a, c_b]` over K records with at most l in each value, never less; entries not negative, (n, n)."""
    if records >= len(gram) * limit:
        return int(limit**2 * gram.astype(object).sum())
    full, rest = divmod(records, limit)
    ranked = -np.sort(-gram, axis=1)[:, : full + 1].astype(object)
    best = sorted((limit * ranked[:, :full].sum(axis=1) + rest * ranked[:, full]).tolist(), reverse=True)
    return int(limit * sum(best[:full]) + rest * best[full])
