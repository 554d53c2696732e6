"""From what a user says of one attribute (a kind, a level, a matrix, a list of ranges) to the rows asked of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from residua.domain import Attribute, Label
from residua.errors import WorkloadError
from residua.workload.attribute_queries import KINDS, AttributeQueries, MatrixRows
from residua.workload.nested import Identity, Inside, LevelRows
from residua.workload.ordered import range_labels


def attribute_queries(name: str, attribute: Attribute, asked: str | ArrayLike | AttributeQueries) -> AttributeQueries:
    """What is asked of an attribute, from a kind's name or a matrix.

    Raises:
        WorkloadError: an unknown kind, a hierarchy nobody declared, or a matrix that does not fit.
    """
    if isinstance(asked, AttributeQueries):
        if asked.size != attribute.size:
            raise WorkloadError(
                f"the rows asked of {name!r} have {asked.size} columns; it has {attribute.size} values."
            )
        return asked
    if not isinstance(asked, str):
        return _matrix(name, attribute, asked)
    if asked in KINDS:
        return KINDS[asked].of_attribute(name, attribute)
    for level in attribute.hierarchy:
        if asked == level.name:
            return LevelRows(attribute.size, level)
    if " within " in asked:
        return _inside(name, attribute, asked)
    words = [kind for kind in KINDS if kind != MatrixRows.kind]
    known = ", ".join(repr(kind) for kind in (*words, *(level.name for level in attribute.hierarchy)))
    raise WorkloadError(f"{name!r} is asked for {asked!r}; use {known}, or a matrix (levels are declared).")


def _inside(name: str, attribute: Attribute, asked: str) -> Inside:
    """`tract within county=06037`: the groups of a level, or `identity`, in one group of a coarser level."""
    what, _, where = asked.partition(" within ")
    outer, _, label = where.partition("=")
    levels = {level.name: level for level in attribute.hierarchy}
    if (what != "identity" and what not in levels) or outer not in levels:
        there = ", ".join(levels) or "none"
        raise WorkloadError(
            f"{name!r} is asked for {asked!r}; write LEVEL within LEVEL=GROUP, or identity within LEVEL=GROUP, with "
            f"the levels {there}."
        )
    if label not in levels[outer].labels:
        raise WorkloadError(f"{label!r} is no group of level {outer!r} of {name!r}; see its labels.")
    names = [level.name for level in attribute.hierarchy]
    if what != "identity" and names.index(what) >= names.index(outer):
        raise WorkloadError(
            f"{name!r} is asked for {asked!r}, but {what!r} is not finer than {outer!r}; exchange them."
        )
    level = None if what == "identity" else levels[what]
    return Inside(attribute.size, level, levels[outer], levels[outer].labels.index(label))


def listed_ranges(name: str, attribute: Attribute, listed: Sequence[tuple[Label, Label]]) -> MatrixRows:
    """The ranges listed, each by the labels of its first and its last value.

    Raises:
        WorkloadError: no ranges, or an end that is no value of the attribute or comes before the beginning.
    """
    labels = attribute.labels
    ordered = len(labels) - attribute.has_other
    rows, names, label = [], [], range_labels(attribute)
    for ends in listed:
        a, b = range_ends(name, attribute, ends)
        rows.append((np.arange(len(labels)) >= a) & (np.arange(len(labels)) <= b))
        names.append(label(a, b))
    if not rows:
        raise WorkloadError(
            f"no ranges of {name!r} are listed; list at least one, such as ({labels[0]}, {labels[ordered - 1]})."
        )
    return MatrixRows(len(labels), np.array(rows, dtype=np.float64), tuple(names))


def range_ends(name: str, attribute: Attribute, ends: object) -> tuple[int, int]:
    """The codes of a range's first and last value, both included.

    Raises:
        WorkloadError: not a pair, outside the attribute, or the wrong way round.
    """
    labels = attribute.labels[: len(attribute.labels) - attribute.has_other]
    if not isinstance(ends, tuple | list) or len(ends) != 2:
        raise WorkloadError(
            f"{ends!r} is not a range of {name!r}; give its first and its last value, ({labels[0]}, {labels[-1]})."
        )
    for end in ends:
        if isinstance(end, bool) or end not in labels:
            raise WorkloadError(
                f"the range {ends!r} of {name!r} leaves the attribute: {end!r} is none of its values, "
                f"which run from {labels[0]} to {labels[-1]}."
            )
    first, last = labels.index(ends[0]), labels.index(ends[1])
    if last < first:
        raise WorkloadError(f"the range {ends!r} of {name!r} ends before it begins; swap its ends.")
    return first, last


def rows_of_body(name: str, attribute: Attribute, body: Any) -> AttributeQueries:
    """The rows that plain values describe, as `to_body` wrote them."""
    if isinstance(body, str):
        return attribute_queries(name, attribute, body)
    rows = attribute_queries(name, attribute, body["rows"])
    names = tuple(str(text) for text in body["names"])
    return replace(rows, names=names) if names and isinstance(rows, MatrixRows) else rows


def _matrix(name: str, attribute: Attribute, given: Any) -> AttributeQueries:
    try:
        W = np.array(given.toarray() if hasattr(given, "toarray") else given, dtype=np.float64, ndmin=2)
    except (TypeError, ValueError):
        raise WorkloadError(f"the matrix for {name!r} is not made of numbers; give rows of equal length.") from None
    if W.ndim != 2 or W.shape[1] != attribute.size:
        columns = W.shape[1] if W.ndim == 2 else W.shape
        raise WorkloadError(
            f"the matrix for {name!r} has {columns} columns, but the attribute has {attribute.size} values; "
            "give one column per value."
        )
    if not len(W) or not np.isfinite(W).all():
        raise WorkloadError(f"the matrix for {name!r} is empty or holds NaN or infinite entries; correct it.")
    if not W.any(axis=1).all():
        row = int(np.flatnonzero(~W.any(axis=1))[0])
        raise WorkloadError(f"row {row} of the matrix for {name!r} is zero; leave it out.")
    square = W.shape[0] == W.shape[1]  # of a long axis the identity would not fit into memory
    return Identity(W.shape[1]) if square and np.array_equal(W, np.eye(len(W))) else MatrixRows(W.shape[1], W)
