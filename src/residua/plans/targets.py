"""Target variances as people state them: one for all, a mapping from attribute sets, or one for every query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from residua.errors import DomainError, PlanError
from residua.linalg.arrays import Floats
from residua.workload import Workload

Targets = float | Mapping[Sequence[str], float] | Sequence[float] | Floats


def targets_of(workload: Workload, targets: Targets) -> Floats:
    """Target variances, one per marginal in the workload's order, from any of the ways to state them."""
    if isinstance(targets, Mapping):
        scales = _mapped(workload, targets)
    elif isinstance(targets, int | float | np.number) and targets is not True and targets is not False:
        scales = np.full(len(workload), float(targets))
    else:
        scales = _listed(workload, targets)
    if not (np.isfinite(scales).all() and (scales > 0).all()):
        wrong = workload.sets[int(np.flatnonzero(~((scales > 0) & np.isfinite(scales)))[0])]
        raise PlanError(f"targets: the target variance of {wrong!r} is not a positive finite number; correct it.")
    return scales


def _mapped(workload: Workload, targets: Mapping[Sequence[str], float]) -> Floats:
    found = _at_once(workload, targets) if workload.plain else None
    return _one_by_one(workload, targets) if found is None else found


def _at_once(workload: Workload, targets: Mapping[Sequence[str], float]) -> Floats | None:
    """The targets of a mapping that names every marginal once and nothing else; None where it does not."""
    domain, lattice = workload.domain, workload.lattice
    if len(targets) != len(workload) or not {*map(type, targets)} <= {tuple, list, frozenset}:
        return None
    place = {name: i for i, name in enumerate(domain.names)}
    try:
        flat = np.fromiter(map(place.__getitem__, chain.from_iterable(targets)), dtype=np.int32)
        values = np.fromiter(targets.values(), dtype=np.float64, count=len(targets))
    except (KeyError, TypeError, ValueError):
        return None
    lengths = np.fromiter(map(len, targets), dtype=np.int64, count=len(targets))
    starts = np.cumsum(lengths) - lengths
    numbers = np.full(len(targets), -1, dtype=np.int64)
    for size in np.unique(lengths).tolist():
        chosen = np.flatnonzero(lengths == size)
        rows = np.sort(flat[starts[chosen, None] + np.arange(size)].reshape(len(chosen), size), axis=1)
        if (rows[:, 1:] == rows[:, :-1]).any():
            return None
        numbers[chosen] = lattice.find(rows)
    if (numbers < 0).any():
        return None
    scales = np.full(len(lattice), np.nan)
    scales[numbers] = values
    named = np.zeros(len(lattice), dtype=bool)
    named[numbers] = True
    # As many names as marginals, and every marginal named: so each is named once, and nothing else is.
    return scales[workload.numbers] if named[workload.numbers].all() else None


def _one_by_one(workload: Workload, targets: Mapping[Sequence[str], float]) -> Floats:
    place: dict[frozenset[str], list[int]] = {}
    for i, asked in enumerate(workload.sets):  # a set may be asked in several ways: one target for all of them
        place.setdefault(frozenset(asked), []).append(i)
    scales: list[Any] = [None] * len(workload)
    for names, target in targets.items():
        try:
            workload.domain.positions(names)
        except DomainError as problem:
            raise PlanError(f"targets: {problem}") from None
        at = place.get(frozenset(names), [])
        if not at:
            raise PlanError(
                f"targets names {tuple(names)!r}, which the workload does not ask for; add it or remove it."
            )
        if scales[at[0]] is not None:
            raise PlanError(f"targets names {tuple(names)!r} twice; name each set once.")
        try:
            variance = float(target)
        except (TypeError, ValueError):
            raise PlanError(f"targets: {target!r} for {tuple(names)!r} is not a variance.") from None
        for i in at:
            scales[i] = variance
    if None in scales:
        lacking = workload.sets[scales.index(None)]
        raise PlanError(f"targets has no variance for {lacking!r}; give one for every marginal of the workload.")
    return np.array(scales, dtype=np.float64)


def listed_targets(targets: Any, queries: int) -> Floats:
    """Target variances that are given one for each query, (queries,).

    Raises:
        PlanError: they are no numbers, or not as many.
    """
    try:
        values = np.asarray(targets, dtype=np.float64)
    except (TypeError, ValueError):
        raise PlanError(f"targets={targets!r} is not a number, a mapping or an array of variances.") from None
    if values.shape != (queries,):
        raise PlanError(f"targets has shape {values.shape}; give one for each of the workload's {queries:,} queries.")
    return values


def _listed(workload: Workload, targets: Sequence[float] | Floats) -> Floats:
    values = listed_targets(targets, workload.queries)
    least, largest = (extreme.reduceat(values, workload.starts) for extreme in (np.minimum, np.maximum))
    if (least < largest).any():
        uneven = workload.sets[int(np.flatnonzero(least < largest)[0])]
        raise PlanError(f"targets differ between cells of {uneven!r}; give all cells of a marginal the same target.")
    return np.asarray(least)
