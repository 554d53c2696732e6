"""Public facts that published tables must meet exactly, as people name them: marginals and their cells.

Facts come from outside the data ("the population of each county is public"): a total, whole sub-tables, impossible
cells. They are checked against each other before anything is computed: facts that contradict are named, never averaged.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from residua.domain.attributes import Label
from residua.domain.conditions import impossible_cells
from residua.domain.domain import Domain
from residua.errors import PlanError, kind_of, named

Floats = NDArray[np.float64]
Facts = Mapping[Any, Any] | Iterable[tuple[Any, Any]]  # what is known → how many


def shown(domain: Domain, members: Sequence[int], at: Sequence[int] = ()) -> str:
    """A marginal, or a cell of it, for messages."""
    names = [domain.names[i] for i in members]
    if not names:
        return "the total"
    if not len(at):
        return f"({', '.join(map(repr, names))})"
    return ", ".join(f"{name} = {domain[name].labels[code]!r}" for name, code in zip(names, at, strict=True))


def listed(words: Sequence[str], most: int) -> str:
    """The first few of many words, and how many more there are."""
    more = f" and {len(words) - most:,} more" if len(words) > most else ""
    return ", ".join(words[:most]) + more


def place(values: NDArray[Any]) -> tuple[int, ...]:
    """Where the largest value of an array is."""
    return tuple(int(i) for i in np.unravel_index(int(values.argmax()), values.shape))


def fact_cells(axes: Sequence[tuple[str, Sequence[Label]]], given: Any, what: str) -> Floats:
    """Cells as an array, from an array, a mapping label(s) → count, or a frame with a column `count`; NaN: not given.

    Args:
        axes: what the columns are called, and the labels of each.
        given: the cells.
        what: what errors call them.

    Raises:
        PlanError: labels that there are not, a cell twice, or what is no count.
    """
    names, shape = [name for name, _ in axes], tuple(len(labels) for _, labels in axes)
    if isinstance(given, Mapping):
        rows = [(key if isinstance(key, tuple) else (key,), count) for key, count in given.items()]
        return _of_rows(axes, rows, what)
    if not hasattr(given, "columns"):
        try:
            values = np.array(given, dtype=np.float64)
        except (TypeError, ValueError):
            raise PlanError(f"{what} is {kind_of(given)}; give an array, a mapping, or a frame with 'count'.") from None
        if values.shape != shape:
            raise PlanError(f"{what} has shape {values.shape}; give an array of shape {shape}.")
        if not np.isfinite(values).all():
            raise PlanError(f"{what} holds a value that is not a number; give a count for every cell.")
        return values
    columns = _columns(given)
    missing = [name for name in (*names, "count") if name not in columns]
    if missing or len(columns) > len(names) + 1:
        raise PlanError(f"{what}: the table has the columns {', '.join(columns)}; give {', '.join(names)} and count.")
    rows = [(tuple(columns[name][i] for name in names), count) for i, count in enumerate(columns["count"])]
    return _of_rows(axes, rows, what)


def _columns(frame: Any) -> dict[str, list[Any]]:
    """A frame's columns as lists: ours, pandas, Polars, or Arrow."""
    if isinstance(frame.columns, Mapping):
        return {name: list(column) for name, column in frame.columns.items()}
    if hasattr(frame, "column_names"):  # Arrow
        return {name: frame[name].to_pylist() for name in frame.column_names}
    return {str(name): list(frame[name]) for name in frame.columns}


def _of_rows(axes: Sequence[tuple[str, Sequence[Label]]], rows: list[Any], what: str) -> Floats:
    # Labels are compared as text, so that a CSV file's 17 is the label 17.
    codes = [{str(label): code for code, label in enumerate(labels)} for _, labels in axes]
    values = np.full([len(labels) for _, labels in axes], np.nan)
    for key, count in rows:
        if len(key) != len(axes):
            raise PlanError(
                f"{what}: a cell of {len(key)} labels does not name a value of each attribute; give {len(axes)}."
            )
        for (name, _), label, known in zip(axes, key, codes, strict=True):
            if str(label) not in known:
                raise PlanError(f"{what}: {kind_of(label)} is not a value of {name!r}; see domain[{name!r}].labels.")
        at = tuple(known[str(label)] for label, known in zip(key, codes, strict=True))
        if not np.isnan(values[at]):
            raise PlanError(f"{what} gives {_cell(axes, at)} twice; give it once.")
        try:
            values[at] = float(count)
        except (TypeError, ValueError):
            values[at] = math.nan
        if not math.isfinite(values[at]):
            raise PlanError(f"{what} holds {kind_of(count)}, which is not a count.")
    return values


def _cell(axes: Sequence[tuple[str, Sequence[Label]]], at: Sequence[int]) -> str:
    return ", ".join(f"{name} = {labels[code]!r}" for (name, labels), code in zip(axes, at, strict=True)) or "the total"


_MOST_CELLS = 2**22
_SAME = 1e-9  # relative to the total: two facts that differ by less are the same number


@dataclass(frozen=True, eq=False)
class Fact:
    """A marginal whose cells are public.

    Args:
        members: positions of its attributes, increasing.
        values: its cells, one axis per attribute.
    """

    members: tuple[int, ...]
    values: Floats

    def margin(self, members: Sequence[int]) -> Floats:
        """Its margin on some of its attributes."""
        return np.asarray(self.values.sum(axis=tuple(a for a, i in enumerate(self.members) if i not in members)))


def facts_of(domain: Domain, total: float | None, known: Mapping[Sequence[str], Any] | None) -> tuple[Fact, ...]:
    """The facts a total and a mapping attributes → cells state, checked against each other and the impossible cells.

    Raises:
        PlanError: values that are not counts, or facts that contradict each other or a structural zero.
    """
    facts = [Fact((), np.asarray(_total(total)))] if total is not None else []
    if known is not None and not isinstance(known, Mapping):
        raise PlanError(f"known={named(known)} is not a mapping; write {{('county',): counts, …}}.")
    for names, given in (known or {}).items():
        facts.append(_fact(domain, names, given))
    if len({fact.members for fact in facts}) < len(facts):
        raise PlanError("known: the same marginal is given twice (or the total in two places); give it once.")
    require_agreement(domain, facts)
    if not facts:
        _possible(domain, Fact((), np.ones(())))  # whatever the total, somebody must be possible
    return tuple(facts)


def require_agreement(domain: Domain, facts: Sequence[Fact]) -> None:
    """Refuses facts that contradict each other or the impossible cells.

    Raises:
        PlanError: two of them do; which, and where.
    """
    for first, second in combinations(facts, 2):
        _agree(domain, first, second)
    for fact in facts:
        _possible(domain, fact)


def _total(total: Any) -> float:
    if isinstance(total, bool) or not isinstance(total, int | float | np.number) or not 0 <= float(total) < math.inf:
        raise PlanError(
            f"total={named(total)} is not a count; give a number that is not negative, or 'released' or 'free'."
        )
    return float(total)


def require_counts(domain: Domain, names: Iterable[str]) -> None:
    """Refuses facts about amounts.

    Raises:
        PlanError: one of these attributes is one.
    """
    if domain.holds_amounts(names):
        raise PlanError("facts are counts of records, and known sums of amounts are not met; leave the amount out.")


def _fact(domain: Domain, names: Any, given: Any) -> Fact:
    names = (names,) if isinstance(names, str) else names
    try:
        positions = domain.positions(names)
    except ValueError as problem:
        raise PlanError(f"known: {problem}") from None
    require_counts(domain, names)
    what = f"known: the marginal on {shown(domain, positions)}"
    values = fact_cells([(name, domain[name].labels) for name in names], given, what)
    mask = impossible_cells(domain, names)
    if mask is not None:
        values[np.isnan(values) & mask] = 0.0  # what cannot be need not be listed
    absent = np.isnan(values)
    if absent.any():
        raise PlanError(
            f"{what} has no count for {shown(domain, positions, place(absent))}; list every cell, zeros included."
        )
    if (values < 0).any():
        at = place(-values)
        raise PlanError(f"{what} is negative at {shown(domain, positions, at)} ({values.min():g}); counts are not.")
    ordered = np.array(values.transpose(np.argsort(positions)) if positions else values, order="C")
    ordered.setflags(write=False)
    return Fact(tuple(sorted(positions)), ordered)


def _agree(domain: Domain, first: Fact, second: Fact) -> None:
    """Refuses two facts whose common margins differ."""
    shared = tuple(i for i in first.members if i in second.members)
    a, b = first.margin(shared), second.margin(shared)
    apart = np.abs(a - b)
    if apart.max() <= _SAME * max(1.0, float(a.sum())):
        return
    at = place(apart)
    where = f"at {shown(domain, shared, at)}" if shared else "in total"
    raise PlanError(
        f"known facts contradict each other: {_named(domain, first)} and {_named(domain, second)} "
        f"differ {where}, {a[at]:,.10g} against {b[at]:,.10g}; correct one of them."
    )


def _possible(domain: Domain, fact: Fact) -> None:
    """Refuses a fact that counts somebody where the structural zeros leave no possible cell."""
    if not domain.impossible:
        return
    everyone = {i for rule in domain.impossible for i in domain.positions(rule.names)}
    wider = [everyone, *(set(domain.positions(rule.names)) for rule in domain.impossible)]
    for members in ({*fact.members, *more} for more in wider):
        ordered = sorted(members)
        if math.prod(int(domain.sizes[i]) for i in ordered) > _MOST_CELLS:
            continue
        mask = impossible_cells(domain, [domain.names[i] for i in ordered])
        if mask is None:
            continue
        dead = np.asarray(mask.all(axis=tuple(a for a, i in enumerate(ordered) if i not in fact.members)))
        if (fact.values[dead] > 0).any():
            at = place(dead & (fact.values > 0))
            raise PlanError(
                f"known facts contradict the structural zeros: {_named(domain, fact)} counts {fact.values[at]:,.10g} "
                f"at {shown(domain, fact.members, at)}, which is impossible; correct one of them."
            )


def _named(domain: Domain, fact: Fact) -> str:
    return f"the marginal on {shown(domain, fact.members)}" if fact.members else "the total"
