"""Target variances as people state them: one for all, a mapping from names, or one for every query.

Whoever thinks in standard deviations, or in margins of error that hold with a confidence, states those instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from residua.errors import DomainError, PlanError, kind_of, named
from residua.linalg.arrays import Floats, Integers
from residua.plans.tails import width
from residua.workload import Workload

Targets = float | Mapping[Sequence[str], float] | Sequence[float] | Floats
Names = str | tuple[str, ...]  # what a part is called: a set of names, of attributes and levels, or a label
USUAL_CONFIDENCE = 0.95
_MOST = 1e150  # its square is still a number
_SHOWN = 8


def as_variances(
    targets: Targets | None, stddev: Targets | None, margin: Targets | None, confidence: float | None, *, laplace: bool
) -> Targets | None:
    """Target variances, from whichever of the three is given; None where none is.

    Raises:
        PlanError: more than one, a confidence without a margin, a margin of Laplace noise, or no positive number.
    """
    stated = {"targets": targets, "stddev": stddev, "margin": margin}
    given = [word for word, value in stated.items() if value is not None]
    if len(given) > 1:
        raise PlanError(
            f"{given[0]} and {given[1]} both say how accurate to be; give one: targets=25.0, variances, is stddev=5.0."
        )
    if confidence is not None and margin is None:
        raise PlanError("confidence belongs to a margin; give margin=10.0 beside it, or leave it out.")
    if stddev is not None:
        return _squared("stddev", stddev, 1.0)
    if margin is not None:
        if laplace:
            raise PlanError(
                "margin is worked out for normal noise; Laplace noise has heavier tails: give stddev instead."
            )
        return _squared("margin", margin, width(USUAL_CONFIDENCE if confidence is None else confidence))
    return targets


def targets_in_words(targets: Targets) -> str:
    """Valid targets as variances and as standard deviations.

    Example:
        >>> targets_in_words(10.0), targets_in_words({("a",): 9.0, ("b",): 100.0})
        ('variances of 10: a standard deviation of 3.16', 'variances of 9 to 100: standard deviations of 3 to 10')
    """
    values = np.asarray([*targets.values()] if isinstance(targets, Mapping) else targets, dtype=np.float64)
    ends = sorted({float(values.min()), float(values.max())})
    variances, stddevs = (" to ".join(f"{end:,.3g}" for end in each) for each in (ends, np.sqrt(ends)))
    return (
        f"variances of {variances}: {'a standard deviation' if len(ends) == 1 else 'standard deviations'} of {stddevs}"
    )


def _squared(word: str, wanted: Targets, reach: float) -> Targets:
    """What is given as so many standard deviations, as variances."""
    try:
        values = np.asarray([*wanted.values()] if isinstance(wanted, Mapping) else wanted)
    except ValueError:  # rows of several lengths
        values = np.asarray(None)
    if values.dtype.kind not in "iuf":
        raise PlanError(f"{word}={named(wanted)} is not a number, a mapping to numbers or an array of numbers.")
    wrong = np.flatnonzero(~((values > 0) & (values < _MOST)))
    if len(wrong):
        of = f" for {[*wanted][wrong[0]]!r}" if isinstance(wanted, Mapping) else ""
        raise PlanError(
            f"{word}: {values.flat[wrong[0]].item()!r}{of} is not a positive number below 1e150; correct it."
        )
    variances = (values / reach) ** 2
    if isinstance(wanted, Mapping):
        return dict(zip(wanted, variances.tolist(), strict=True))
    return variances if variances.ndim else float(variances)


def targets_of(workload: Workload, targets: Targets) -> Floats:
    """Target variances, one per table in the workload's order, or per query where queries are listed.

    Raises:
        PlanError: names that are not asked for, targets that are lacking, uneven within a table, or no variances.
    """
    if not workload.tabular:
        return part_targets(
            targets, workload.queries, lambda: [(label,) for label in workload.labels], lambda: np.arange(len(workload))
        )
    if isinstance(targets, Mapping):
        values = _at_once(workload, targets) if workload.plain else None
        if values is not None and (values > 0).all() and np.isfinite(values).all():
            return values
        _check_attributes(workload, targets)
    return part_targets(
        targets,
        len(workload),
        lambda: [(names,) for names in workload.sets],
        lambda: np.repeat(np.arange(len(workload)), workload.cells.astype(np.int64)),
    )


def part_targets(
    targets: Targets, count: int, names: Callable[[], Sequence[Sequence[Names]]], numbers: Callable[[], Integers]
) -> Floats:
    """The target variance of each part of a workload, (parts,).

    Args:
        targets: as people state them.
        count: how many parts there are.
        names: what each part is called; of several names the first that a mapping has counts.
        numbers: the part of each query, (queries,).

    Raises:
        PlanError: as of `targets_of`.
    """
    if isinstance(targets, Mapping):
        values = _by_names(targets, names())
    elif isinstance(targets, int | float | np.number) and not isinstance(targets, bool):
        values = np.full(count, float(targets))
    else:
        values = _by_queries(targets, count, names, numbers())
    wrong = np.flatnonzero(~((values > 0) & np.isfinite(values)))
    if len(wrong):
        raise _no_variance(float(values[wrong[0]]), names()[wrong[0]][0])
    return values


def _by_names(targets: Mapping[Any, Any], names: Sequence[Sequence[Names]]) -> Floats:
    given: dict[frozenset[str], Any] = {}
    known = {_key(each): each for several in names for each in several}
    for name, target in targets.items():
        key = _key(name)
        if key not in known:
            asked = ", ".join(map(repr, [*known.values()][:_SHOWN])) + (", …" if len(known) > _SHOWN else "")
            raise PlanError(f"targets names {name!r}, which the workload does not ask for; it asks for {asked}.")
        if key in given:
            raise PlanError(f"targets names {name!r} twice; name each set once.")
        try:
            given[key] = float(target)
        except (TypeError, ValueError):
            raise _no_variance(target, name) from None
    values = [next((given[key] for key in map(_key, several) if key in given), None) for several in names]
    if None in values:
        raise PlanError(f"targets has no variance for {names[values.index(None)][0]!r}; give one.")
    return np.array(values, dtype=np.float64)


def _key(name: Any) -> frozenset[str]:
    try:
        return frozenset((name,) if isinstance(name, str) else name)
    except TypeError:
        raise PlanError(f"targets: {kind_of(name)} is not a set of names; list names.") from None


def _no_variance(value: Any, name: Any) -> PlanError:
    shown = kind_of(value)
    return PlanError(f"targets: {shown} for {name!r} is not a positive finite variance; give stddev or margin instead.")


def _by_queries(targets: Any, count: int, names: Callable[[], Sequence[Sequence[Names]]], numbers: Integers) -> Floats:
    try:
        values = np.asarray(targets, dtype=np.float64)
    except (TypeError, ValueError):
        raise PlanError(
            f"targets={named(targets)} is not a number, a mapping or an array of variances; 25.0 is stddev=5.0."
        ) from None
    if values.shape != numbers.shape:
        raise PlanError(
            f"targets has shape {values.shape}; give one for each of the workload's {len(numbers):,} queries."
        )
    least, largest = np.full(count, np.inf), np.full(count, -np.inf)
    with np.errstate(invalid="ignore"):  # what is no number is kept
        np.minimum.at(least, numbers, values)
        np.maximum.at(largest, numbers, values)
    uneven = np.flatnonzero(least < largest)
    if len(uneven):
        raise PlanError(
            f"targets differ between cells of {names()[uneven[0]][0]!r}; give all cells of a table, and all queries of "
            "a kind or of a level, the same target."
        )
    return least


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


def _check_attributes(workload: Workload, targets: Mapping[Any, Any]) -> None:
    for names in targets:
        try:
            workload.domain.positions(names)
        except DomainError as problem:
            raise PlanError(f"targets: {problem}") from None
