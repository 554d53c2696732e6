"""Asking for linear queries one by one: a matrix over enumerated cells, or SQL that DuckDB evaluates on them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from residua.domain import OTHER, Attribute, Dates, Domain, Integers
from residua.errors import WorkloadError, kind_of, listing, named, nearest
from residua.machine import csr_array, duckdb, pyarrow as pa, vstack
from residua.sql import Expression, SqlError, engine_words, expression_sandbox, row_expression, within_time
from residua.workload.pieces import ListedQueries, check_cells, checked_weight
from residua.workload.selecting import resolved
from residua.workload.workload import Workload, positions_of, require_domain


def explicit(
    domain: Domain,
    matrix: ArrayLike | Any,
    *,
    on: Sequence[str] | None = None,
    labels: Sequence[str] | None = None,
    weight: float = 1.0,
) -> Workload:
    """Asks for any linear queries: each row of a matrix is a query, each column a cell.

    Args:
        domain: what the table may hold.
        matrix: (queries, cells), dense or SciPy sparse; cells in row-major order of the attributes. Or a workload,
            whose queries are then listed one by one.
        on: the attributes that make the cells, in the order of the columns; all of the domain by default. Workloads on
            different attributes are added with `+`, and planned without listing the cells of all of them.
        labels: a label for every query; `query 0`, … by default.
        weight: how much these queries matter, relative to others added with `+`.

    Raises:
        WorkloadError: the wrong number of columns or labels, NaN, no queries, or too many cells.

    Example:
        >>> domain = Domain({"grade": ["a", "b", "c"]})
        >>> explicit(domain, [[1, 1, 0], [0, 0, 1]], labels=["passed", "failed"])
        Workload(2 queries over 3 cells of grade)
    """
    require_domain(domain)
    if isinstance(matrix, Workload):
        return _listed(domain, matrix, on, labels) * weight
    positions = positions_of(domain, domain.names if on is None else on, "on")
    check_cells(domain, positions)
    rows = _sparse(matrix)
    cells = math.prod(int(domain.sizes[i]) for i in positions)
    if rows.shape[1] != cells:
        raise WorkloadError(f"matrix has {rows.shape[1]:,} columns, but there are {cells:,} cells; give one per cell.")
    order = np.argsort(positions)
    if not np.array_equal(order, np.arange(len(positions))):
        given = np.arange(cells).reshape([int(domain.sizes[i]) for i in positions])
        rows = csr_array(rows.tocsc()[:, given.transpose(order).ravel()])
    named = tuple(labels) if labels is not None else tuple(f"query {i}" for i in range(rows.shape[0]))
    if len(named) != rows.shape[0]:
        raise WorkloadError(f"labels has {len(named)} entries for {rows.shape[0]} queries; give one per query.")
    weights = np.full(rows.shape[0], checked_weight(weight))
    return Workload.of_matrix(domain, tuple(sorted(positions)), rows, named, weights)


def _listed(domain: Domain, workload: Workload, on: object, labels: object) -> Workload:
    """Another workload's queries, one by one."""
    if on is not None or labels is not None:
        raise WorkloadError("a workload has its own attributes and labels; leave out on and labels.")
    if workload.domain != domain:
        raise WorkloadError("the workload is over another domain; declare one domain for both.")
    return workload.listed()


def _sparse(matrix: Any) -> csr_array:
    try:
        rows = csr_array(matrix if hasattr(matrix, "tocsr") else np.atleast_2d(np.asarray(matrix, dtype=np.float64)))
    except (TypeError, ValueError):
        raise WorkloadError("matrix is not a matrix of numbers; give rows of equal length.") from None
    rows = csr_array(rows.astype(np.float64))
    rows.sum_duplicates()
    rows.eliminate_zeros()
    if not np.isfinite(rows.data).all():
        raise WorkloadError("matrix holds NaN or infinite entries; correct them.")
    if rows.shape[0] == 0:
        raise WorkloadError("matrix has no rows; ask for at least one query.")
    return rows


_CELL = "residua cell"
_MOST_READ = 10_000  # characters of a query that are searched for names


def queries(domain: Domain, expressions: Sequence[str] | Mapping[str, str], *, weight: float = 1.0) -> Workload:
    """Asks for counts of records that satisfy predicates, or sums of numeric expressions, written in SQL.

    Each query is listed over the cells of the attributes that it names, so that a domain may have any number of others.

    A cell's value of an attribute is its label: text, or a whole number; a bin's label is text; a date's is its first
    day. Bins are compared with numbers as well, by edges (`age < 30` where 30 is one), months and other units with
    their labels; a comparison that cuts through a cell is refused. `sex = female` means `sex = 'female'`, and a name
    that the domain gives a value stands for it. The cell of other values is `'(other)'` where labels are text and NULL
    where they are numbers or dates; a predicate that is NULL is not satisfied. Names are compared as they are written,
    in upper and lower case; those that are not plain words are quoted: `"marital-status" = 'Widowed'`.

    Args:
        domain: what the table may hold.
        expressions: SQL, one per query; or label → SQL.
        weight: how much these queries matter, relative to others added with `+`.

    Raises:
        WorkloadError: an unknown attribute, a syntax error (the engine's own words), no queries, too many cells.

    Example:
        >>> from residua.domain import Integers
        >>> domain = Domain({"age": Integers(0, 99), "sex": ["Female", "Male"]})
        >>> queries(domain, ["age >= 18 and sex = 'Female'", "age"])
        Workload(2 queries in 2 parts of age, sex)
    """
    require_domain(domain)
    if isinstance(expressions, str):
        raise WorkloadError('expressions is one text; list them: ["age >= 18", …].')
    if not isinstance(expressions, Iterable):
        raise WorkloadError(f'expressions={named(expressions)} is not a list of texts; list them: ["age >= 18", …].')
    asked = expressions if isinstance(expressions, Mapping) else list(expressions)  # errors look at what was given
    for text in [*asked, *(asked.values() if isinstance(asked, Mapping) else ())]:
        if not isinstance(text, str):
            raise WorkloadError(f'expressions holds {kind_of(text)}, not SQL; write predicates such as "age >= 18".')
    texts = dict(asked) if isinstance(asked, Mapping) else {text: text for text in asked}
    if not texts:
        raise WorkloadError("expressions is empty; ask for at least one query.")
    if not isinstance(asked, Mapping) and len(texts) < len(asked):
        raise WorkloadError("a query is listed twice; list it once and give it a weight instead.")
    parsed = {label: _parsed(domain, text, n) for n, (label, text) in enumerate(texts.items(), 1)}
    mentioned = {label: tuple(sorted(domain.positions(one.names))) for label, one in parsed.items()}
    columns = _columns(domain)
    sql = {label: _under(columns, texts[label], one) for label, one in parsed.items()}
    engine = expression_sandbox()
    numbers = {label: at for at, label in enumerate(texts)}
    each = checked_weight(weight)
    parts, places = [], []
    for attributes in dict.fromkeys(mentioned.values()):
        check_cells(domain, attributes)
        labels = [label for label, own in mentioned.items() if own == attributes]
        pairs = [(texts[label], sql[label]) for label in labels]
        matrix = csr_array(vstack(list(_evaluated(engine, domain, attributes, pairs)), format="csr"))
        parts.append(ListedQueries(domain, attributes, matrix, tuple(labels), np.full(len(labels), each)))
        places += [numbers[label] for label in labels]
    return Workload(domain, tuple(parts), np.array(places, dtype=np.int64) if len(parts) > 1 else None)


def _parsed(domain: Domain, text: str, number: int) -> Expression:
    """An expression over the attributes, from the engine's own parse of it; names are compared as they are written.

    A text of which no word is near to an attribute may be data: it is named by its number, and the engine's words,
    which quote it, are left out.
    """
    related = any(nearest(word, domain.names)[0] for word in re.findall(r"\w+", text[:_MOST_READ]))
    query = f"query {text!r}" if related else f"query number {number}"
    if not text.strip():
        raise WorkloadError(f'{query} is not SQL text; write one such as "age >= 18".')
    try:
        parsed = resolved(domain, row_expression(text))
    except SqlError as problem:
        hidden = f"a syntax error; write a condition on {listing(domain.names)}"
        words = hidden if not related and "syntax error" in str(problem) else problem
        raise WorkloadError(f"{query}: {words}.") from None
    except WorkloadError as problem:
        raise WorkloadError(f"{query}: {problem}") from None
    unknown = [name for name in parsed.names if name not in domain]
    if unknown:
        shown, remedy = nearest(unknown[0], domain.names)
        shown = f" {unknown[0]!r}" if related else shown
        raise WorkloadError(
            f"{query} names the unknown attribute{shown}; {remedy} "
            "Names are compared as written; one that is not a plain word is written in double quotes."
        )
    return parsed


def _columns(domain: Domain) -> dict[str, str]:
    """The name of each attribute's column in the engine, which takes names that differ in case only for one."""
    columns: dict[str, str] = {}
    taken = {_CELL}
    for name in domain.names:
        column, i = name, 2
        while column.lower() in taken:
            column, i = f"{name} {i}", i + 1
        columns[name] = column
        taken.add(column.lower())
    return columns


def _under(columns: Mapping[str, str], text: str, parsed: Expression) -> str:
    """The expression with the engine's names, as it was written where it says the same."""
    same = not parsed.rewritten and all(columns[name] == name for name in parsed.names)
    return text if same else parsed.renamed(columns)


def _evaluated(
    engine: Any, domain: Domain, attributes: tuple[int, ...], texts: Sequence[tuple[str, str]]
) -> Iterator[csr_array]:
    """Every expression (as written, as asked) on every cell of these attributes, (1, cells) each."""
    sizes = [int(domain.sizes[i]) for i in attributes]
    cells = math.prod(sizes)
    codes = np.indices(sizes).reshape(len(sizes), cells)
    numbers = np.arange(max(cells, 2))  # two rows at least, so that an aggregate shows by returning fewer
    columns, names = {}, _columns(domain)
    for i, code in zip(attributes, codes, strict=True):
        values = _values(domain.attributes[domain.names[i]])
        columns[names[domain.names[i]]] = values.take(pa.array(code[numbers % cells]))
    engine.register("cells", pa.table({**columns, _CELL: pa.array(numbers)}))
    for text, sql in texts:
        try:
            kind = engine.execute(f"SELECT typeof({sql}\n) FROM cells LIMIT 1").fetchall()[0][0]
            if kind in ("VARCHAR", "DATE", "TIMESTAMP", "BLOB"):
                raise WorkloadError(
                    f"query {text!r} is {kind.lower()}, not a condition or a number; compare it with something."
                )
            every = f'SELECT CAST(({sql}\n) AS DOUBLE) AS value FROM cells ORDER BY "{_CELL}"'
            with within_time(engine):
                values, again = (engine.execute(every).fetchnumpy()["value"] for _ in range(2))
        except duckdb.Error as problem:
            words = engine_words(problem, values=True)  # cells are declared, not data
            raise WorkloadError(f"query {text!r}: {words}. A bin is compared by its label, as text.") from None
        if len(values) != len(numbers):
            raise WorkloadError(f'query {text!r} sums over cells; write what counts in one cell, such as "age >= 18".')
        row = np.ma.filled(values, 0.0)[:cells]
        if not np.array_equal(row, np.ma.filled(again, 0.0)[:cells], equal_nan=True):
            raise WorkloadError(f"query {text!r} is another number every time; leave out what is random.")
        if not row.any():
            raise WorkloadError(f"query {text!r} is zero on every cell; check the spelling of its labels.")
        if not np.isfinite(row).all():
            raise WorkloadError(f"query {text!r} is not a finite number on some cells; correct it.")
        yield csr_array(row[None])


def _values(attribute: Attribute) -> Any:
    if attribute.summed:
        raise WorkloadError("a query names an amount, of which sums are known and no values; ask for its sum or mean.")
    if isinstance(attribute, Dates):
        return pa.array([*attribute.starts, *([None] if attribute.has_other else [])], pa.date32())
    labels: list[Any] = list(attribute.labels)
    numeric = isinstance(attribute, Integers) or all(isinstance(label, int) for label in attribute.declared_labels)
    if attribute.has_other and numeric:
        labels[labels.index(OTHER)] = None
    return pa.array(labels)
