"""Asking for marginals: the ones listed, all of some sizes, or all that are small."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from residua.domain import Domain
from residua.errors import WorkloadError
from residua.linalg.lattice import all_sets, closure, extensions, row_keys
from residua.workload.listed import LEAST_WEIGHT, checked_weight, positions_of, require_domain
from residua.workload.terms import Family, identities
from residua.workload.workload import Workload

_MOST_SETS = 2**25
_POWERS = {"1/sqrt(cells)": -0.5, "1/cells": -1.0}


def marginals(
    domain: Domain,
    sets: Iterable[Sequence[str]] | None = None,
    *,
    ways: int | Iterable[int] | None = None,
    max_cells: int | None = None,
    weight: float | str = 1.0,
) -> Workload:
    """Asks for marginals: the ones listed, all of some sizes, or all that are small.

    Args:
        domain: what the table may hold.
        sets: attribute sets by name; `()` is the total.
        ways: sizes: 1 asks for every attribute's own table, 2 for all pairs, …; 0 for the total.
        max_cells: only marginals with at most this many cells (alone: of any size, the total included).
        weight: how much each of these marginals matters, relative to others added with `+`: a number for all, or
            `"1/sqrt(cells)"` or `"1/cells"`, by how many cells each has. Objectives weigh variances of cells, so that
            large tables get most of a budget; these weights give more to small ones.

    Raises:
        WorkloadError: nothing asked for, a set listed twice, or a weight that is not positive.
        DomainError: an unknown attribute.

    Example:
        >>> domain = Domain.of_sizes({"a": 10, "b": 3, "c": 2})
        >>> marginals(domain, ways=[1, 2]) + 2 * marginals(domain, [("a", "b", "c")])
        Workload(7 marginals of 3 attributes, 131 cells)
    """
    require_domain(domain)
    if (sets is None) == (ways is None and max_cells is None):
        raise WorkloadError("say which marginals: either sets=[(…), …], or ways=… and/or max_cells=….")
    power = _POWERS.get(weight) if isinstance(weight, str) else 0.0
    if power is None:
        raise WorkloadError(f"weight={weight!r} is not a number, nor {' nor '.join(map(repr, _POWERS))}.")
    each = checked_weight(1.0 if isinstance(weight, str) else weight)
    if sets is not None:
        families, order = _listed(domain, sets)
    else:
        families, order = _enumerated(domain, ways, max_cells), None
    if not sum(len(rows) for rows in families):
        raise WorkloadError("the workload is empty; ask for at least one marginal.")
    lattice = closure(families, len(domain))
    numbers = np.concatenate([lattice.find(rows) for rows in families])
    if order is not None:
        numbers = numbers[order]
    cells = lattice.products(domain.sizes.astype(np.float64))[numbers] if power else np.ones(len(numbers))
    weights = each * cells**power
    if not (weights >= LEAST_WEIGHT).all():
        raise WorkloadError(f"weight={weight!r} is beyond what can be computed with; ask for smaller marginals.")
    return Workload.of_families(domain, lattice, (Family(lattice, numbers, weights, identities(domain)),))


def _listed(domain: Domain, sets: Iterable[Sequence[str]]) -> tuple[list[NDArray[np.int32]], NDArray[np.int64]]:
    """Listed sets as rows by size, and where in those each listed set stands."""
    by_size: dict[int, list[tuple[int, ...]]] = {}
    listed: list[tuple[int, int]] = []
    if isinstance(sets, str):
        raise WorkloadError(f"sets={sets!r} is one name; list attribute sets, such as [({sets!r},)].")
    if not isinstance(sets, Iterable):
        raise WorkloadError(f"sets={sets!r} is not a list of attribute sets, such as [('age', 'sex')].")
    for names in sets:
        row = tuple(sorted(positions_of(domain, names, "sets")))
        rows = by_size.setdefault(len(row), [])
        listed.append((len(row), len(rows)))
        rows.append(row)
    families = []
    for size, rows in sorted(by_size.items()):
        array = np.array(rows, dtype=np.int32).reshape(len(rows), size)
        keys, counts = np.unique(row_keys(array, len(domain)), return_counts=True)
        if (counts > 1).any():
            twice = rows[int(np.flatnonzero(row_keys(array, len(domain)) == keys[counts > 1][0])[0])]
            names = tuple(domain.names[i] for i in twice)
            raise WorkloadError(f"the set {names!r} is listed twice; list it once and give it a weight instead.")
        families.append(array)
    starts = dict(zip(sorted(by_size), np.cumsum([0, *(len(rows) for rows in families)]), strict=False))
    return families, np.array([starts[size] + place for size, place in listed], dtype=np.int64)


def _enumerated(domain: Domain, ways: int | Iterable[int] | None, max_cells: int | None) -> list[NDArray[np.int32]]:
    d = len(domain)
    sizes = range(d + 1) if ways is None else _ways(ways, d)
    if max_cells is None:
        wanted = sum(math.comb(d, size) for size in sizes)
        if wanted > _MOST_SETS:
            raise WorkloadError(
                f"ways asks for {wanted:,} marginals, and {_MOST_SETS:,} are the most that memory is used for (about "
                "200 bytes each); ask for fewer ways, or for those of at most max_cells."
            )
        return [all_sets(d, size) for size in sizes]
    if isinstance(max_cells, bool) or not isinstance(max_cells, int | np.integer) or max_cells < 1:
        raise WorkloadError(f"max_cells={max_cells!r} is not a positive whole number.")
    small = _sets_with_at_most(domain.sizes, min(int(max_cells), 2**62), max(sizes))
    return [rows for rows in small if rows.shape[1] in sizes]


def _sets_with_at_most(sizes: NDArray[np.int64], cells: int, largest: int) -> list[NDArray[np.int32]]:
    """All sets whose marginal has at most `cells` cells, level by level: every subset of a small set is small."""
    families = [np.empty((1, 0), dtype=np.int32)]
    products = np.ones(1, dtype=np.int64)
    d = len(sizes)
    for size in range(1, largest + 1):
        rows = families[-1]
        if len(rows) * d > _MOST_SETS:
            raise WorkloadError(
                f"max_cells={cells:,} asks for millions of {size}-way marginals; lower it, or set ways."
            )
        parent, last = extensions(rows, d)
        small = products[parent] <= cells // sizes[last]
        families.append(np.column_stack([rows[parent[small]], last[small]]))
        products = products[parent[small]] * sizes[last[small]]
    return families


def _ways(ways: int | Iterable[int], attributes: int) -> list[int]:
    try:
        listed = [ways] if isinstance(ways, int | np.integer) else list(ways)
    except TypeError:
        raise WorkloadError(f"ways={ways!r} is not a list of sizes, such as [1, 2].") from None
    for size in listed:
        if isinstance(size, bool) or not isinstance(size, int | np.integer) or not 0 <= size <= attributes:
            raise WorkloadError(f"ways holds {size!r}; sizes are whole numbers from 0 to {attributes}.")
    if len(set(listed)) < len(listed):
        raise WorkloadError(f"ways={listed} lists a size twice; list each once.")
    if not listed:
        raise WorkloadError("ways is empty; ask for at least one size, such as ways=[1, 2].")
    return sorted(int(size) for size in listed)
