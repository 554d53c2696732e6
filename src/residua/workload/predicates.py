"""Queries written as SQL: predicates and numeric expressions over the attributes, evaluated on the cells by DuckDB."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from residua.domain import OTHER, Attribute, Domain, Integers
from residua.errors import WorkloadError
from residua.workload.explicit import Explicit, check_cells
from residua.workload.marginals import checked_weight

_MOST_AT_ONCE = 200


def queries(domain: Domain, expressions: Sequence[str] | Mapping[str, str], *, weight: float = 1.0) -> Explicit:
    """Asks for counts of records that satisfy predicates, or sums of numeric expressions, written in SQL.

    A cell's value of an attribute is its label: text, or a whole number; a bin's label is text. The cell of other
    values is `'(other)'` where labels are text and NULL where they are numbers; a predicate that is NULL is not
    satisfied. Names that are not plain words are quoted: `"marital-status" = 'Widowed'`.

    Args:
        domain: what the table may hold.
        expressions: SQL, one a query; or label → SQL.
        weight: how much these queries matter, relative to others added with `+`.

    Raises:
        WorkloadError: an unknown attribute, a syntax error (the engine's own words), no queries, too many cells.

    Example:
        >>> from residua.domain import Integers
        >>> domain = Domain({"age": Integers(0, 99), "sex": ["Female", "Male"]})
        >>> queries(domain, ["age >= 18 and sex = 'Female'", "age"])
        Explicit(2 queries over 200 cells of age, sex)
    """
    from scipy.sparse import csr_array, vstack

    if not isinstance(domain, Domain):
        raise WorkloadError(f"domain={domain!r} is not a Domain; declare one with rs.Domain.")
    if isinstance(expressions, str):
        raise WorkloadError('expressions is one text; list them: ["age >= 18", …].')
    if not isinstance(expressions, Iterable):
        raise WorkloadError(f'expressions={expressions!r} is not a list of texts; list them: ["age >= 18", …].')
    expressions = expressions if isinstance(expressions, Mapping) else list(expressions)
    for text in [*expressions, *(expressions.values() if isinstance(expressions, Mapping) else ())]:
        if not isinstance(text, str):
            raise WorkloadError(f'expressions holds {text!r}, which is not SQL; write predicates such as "age >= 18".')
    named = dict(expressions) if isinstance(expressions, Mapping) else {text: text for text in expressions}
    if not named:
        raise WorkloadError("expressions is empty; ask for at least one query.")
    if not isinstance(expressions, Mapping) and len(named) < len(expressions):
        raise WorkloadError("a query is listed twice; list it once and give it a weight instead.")
    engine = _engine()
    mentioned = {label: _mentioned(engine, domain, text) for label, text in named.items()}
    union = tuple(sorted({i for found in mentioned.values() for i in found}))
    check_cells(domain, union)
    rows: dict[str, Any] = {}
    for attributes in dict.fromkeys(mentioned.values()):
        labels = [label for label, found in mentioned.items() if found == attributes]
        for start in range(0, len(labels), _MOST_AT_ONCE):
            chosen = labels[start : start + _MOST_AT_ONCE]
            matrix = csr_array(_evaluated(engine, domain, attributes, [named[label] for label in chosen]))
            weights = np.ones(len(chosen))
            part = Explicit(domain, attributes, matrix, tuple(chosen), weights).over(union)
            rows.update({label: part[[i]] for i, label in enumerate(chosen)})
    matrix = csr_array(vstack([rows[label] for label in named], format="csr"))
    return Explicit(domain, union, matrix, tuple(named), np.full(len(named), checked_weight(weight)))


def _engine() -> Any:
    import duckdb

    # No files, no network: a query over cells must not reach data.
    return duckdb.connect(config={"enable_external_access": "false", "lock_configuration": "true"})


def _mentioned(engine: Any, domain: Domain, text: str) -> tuple[int, ...]:
    """The attributes an expression mentions, from the engine's own parse of it."""
    if not isinstance(text, str) or not text.strip():
        raise WorkloadError(f'query {text!r} is not SQL text; write one such as "age >= 18".')
    parsed = json.loads(engine.execute("SELECT json_serialize_sql(?)", [f"SELECT ({text}\n)"]).fetchall()[0][0])
    if parsed["error"]:
        raise WorkloadError(f"query {text!r}: {parsed['error_message']}.")
    if len(parsed["statements"]) != 1 or _holds(parsed, "SUBQUERY"):
        raise WorkloadError(f"query {text!r} is more than one expression over the attributes; write one.")
    lower = {name.lower(): i for i, name in enumerate(domain.names)}
    found = set()
    for names in _references(parsed):
        if len(names) != 1 or names[0].lower() not in lower:
            there = ", ".join(domain.names[:8])
            raise WorkloadError(
                f"query {text!r} names the unknown attribute {'.'.join(names)!r}; there are {there} "
                "(a name that is not a plain word is written in double quotes)."
            )
        found.add(lower[names[0].lower()])
    return tuple(sorted(found))


def _references(node: Any) -> list[list[str]]:
    if isinstance(node, list):
        return [names for child in node for names in _references(child)]
    if not isinstance(node, dict):
        return []
    here = [node["column_names"]] if node.get("class") == "COLUMN_REF" else []
    return here + [names for child in node.values() for names in _references(child)]


def _holds(node: Any, kind: str) -> bool:
    if isinstance(node, list):
        return any(_holds(child, kind) for child in node)
    if isinstance(node, dict):
        return node.get("class") == kind or any(_holds(child, kind) for child in node.values())
    return False


def _evaluated(engine: Any, domain: Domain, attributes: tuple[int, ...], texts: Sequence[str]) -> Any:
    """Every expression on every cell of these attributes, (expressions, cells)."""
    import duckdb
    import pyarrow as pa

    sizes = [int(domain.sizes[i]) for i in attributes]
    cells = math.prod(sizes)
    codes = np.indices(sizes).reshape(len(sizes), cells)
    numbers = np.arange(max(cells, 2))  # two rows at least, so that an aggregate shows by returning fewer
    columns = {}
    for i, code in zip(attributes, codes, strict=True):
        values = _values(domain.attributes[domain.names[i]])
        columns[domain.names[i]] = values.take(pa.array(code[numbers % cells]))
    engine.register("cells", pa.table({**columns, "residua cell": pa.array(numbers)}))
    found = np.empty((len(texts), cells))
    for row, text in zip(found, texts, strict=True):
        try:
            kind = engine.execute(f"SELECT typeof({text}\n) FROM cells LIMIT 1").fetchall()[0][0]
            if kind in ("VARCHAR", "DATE", "TIMESTAMP", "BLOB"):
                raise WorkloadError(
                    f"query {text!r} is {kind.lower()}, not a condition or a number; compare it with something."
                )
            every = f'SELECT CAST(({text}\n) AS DOUBLE) AS value FROM cells ORDER BY "residua cell"'
            values, again = (engine.execute(every).fetchnumpy()["value"] for _ in range(2))
        except duckdb.Error as problem:
            words = str(problem).splitlines()[0].rstrip(".")
            raise WorkloadError(f"query {text!r}: {words}. A bin is compared by its label, as text.") from None
        if len(values) != len(numbers):
            raise WorkloadError(f'query {text!r} sums over cells; write what counts in one cell, such as "age >= 18".')
        row[:] = np.ma.filled(values, 0.0)[:cells]
        if not np.array_equal(row, np.ma.filled(again, 0.0)[:cells], equal_nan=True):
            raise WorkloadError(f"query {text!r} is another number every time; leave out what is random.")
        if not row.any():
            raise WorkloadError(f"query {text!r} is zero on every cell; check the spelling of its labels.")
    if not np.isfinite(found).all():
        wrong = texts[int(np.flatnonzero(~np.isfinite(found).all(axis=1))[0])]
        raise WorkloadError(f"query {wrong!r} is not a finite number on some cells; correct it.")
    return found


def _values(attribute: Attribute) -> Any:
    import pyarrow as pa

    labels: list[Any] = list(attribute.labels)
    numeric = isinstance(attribute, Integers) or all(isinstance(label, int) for label in attribute.declared_labels)
    if attribute.has_other and numeric:
        labels[labels.index(OTHER)] = None
    return pa.array(labels)
