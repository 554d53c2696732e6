"""What conditions on attributes mean, wherever they are given: dictionaries and SQL, one rule for counts and for plans.

    {"sex": "Female"}                      a label: that value
    {"age": [18, 19, 20]}                  a list, set or `range`: any of these values
    {"age": rs.between(18, 64)}            from the first to the last, both included, in the domain's order
    {"age": np.array([0.0, 1.0, …])}       an array of fractions or truth values: a coefficient per value

A tuple is refused: (18, 64) could mean two values or a range. So is an array of whole numbers, which could be labels or
coefficients.

In SQL, attributes are compared with constants as their cells can answer. Bins are compared with numbers where these are
edges; months, weeks and other units with their own labels, or with days that begin or end one; values with bare words
(`sex = female`) and with the names that the domain gives them. What part of a cell would meet is refused: no cell can
tell. Comparisons joined by AND need no engine, and loading DuckDB takes longer than counting: only what means the same
in SQL beyond doubt is read so, and only where it is met by some cell; all else, and every mistake, is left to DuckDB.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date, timedelta
from typing import Any, cast

import numpy as np

from residua.domain import OTHER, Attribute, Between, Bins, Dates, Domain, Label
from residua.domain.conditions import codes_of
from residua.domain.words import names_of
from residua.errors import DomainError, PlanError, WorkloadError, named, nearest
from residua.linalg.arrays import Array, Booleans, Floats
from residua.sql import Expression, literal, nodes, quoted, sql_of, tree_of
from residua.workload.pieces import MOST_CELLS

Chosen = Label | Iterable[Label] | Between | Array
Where = Mapping[str, Chosen]


def selected(domain: Domain, where: Where, *, argument: str = "where") -> dict[str, Floats]:
    """Attribute → a coefficient per value, (n,), by the rule above.

    Args:
        domain: what the table may hold.
        where: the dictionary.
        argument: what errors call it.

    Raises:
        PlanError: not a dictionary, or a choice that means nothing or two things.
        DomainError: an unknown attribute.
    """
    if not isinstance(where, Mapping):
        raise PlanError(
            f"{argument}={named(where)} is not a dictionary; give {{attribute: label, labels or rs.between}}."
        )
    return {name: coefficients(domain, name, chosen, argument=argument) for name, chosen in where.items()}


def coefficients(domain: Domain, name: str, chosen: Chosen, *, argument: str = "where") -> Floats:
    """A coefficient per value of one attribute, (n,); see `selected`."""
    attribute = domain[name]
    if isinstance(chosen, np.ndarray) and chosen.ndim:
        if chosen.dtype.kind not in "OU":  # of labels, which text and objects are
            return _given(argument, name, attribute, chosen)
        chosen = chosen.tolist()
    coefficient = np.zeros(attribute.size)
    try:
        codes = codes_of(name, attribute, chosen)
    except DomainError as problem:
        raise PlanError(f"{argument}: {problem}") from None
    if len(set(codes)) < len(codes):
        raise PlanError(f"{argument}: {name!r} needs distinct labels; name each once.")
    coefficient[codes] = 1.0
    return coefficient


def _given(argument: str, name: str, attribute: Attribute, chosen: Array) -> Floats:
    if chosen.dtype.kind not in "fb":
        raise PlanError(
            f"{argument}: {name} is an array of {chosen.dtype}, which could be labels or coefficients; give labels as "
            "a list (.tolist()), coefficients as fractions (.astype(float))."
        )
    coefficient = np.array(chosen, dtype=np.float64)
    if coefficient.shape != (attribute.size,) or not np.isfinite(coefficient).all():
        raise PlanError(
            f"{argument}: the coefficients of {name!r} must be {attribute.size} finite numbers, one per value."
        )
    return coefficient


Ends = tuple[Floats, Floats, Booleans]  # of cells: from, to, whether `to` is in
_OPERATORS = {
    "COMPARE_LESSTHAN": "<",
    "COMPARE_LESSTHANOREQUALTO": "<=",
    "COMPARE_GREATERTHAN": ">",
    "COMPARE_GREATERTHANOREQUALTO": ">=",
    "COMPARE_EQUAL": "=",
    "COMPARE_NOTEQUAL": "!=",
}
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_CONTRARY = {">": "<=", ">=": "<", "!=": "="}
_NOT_IN = "COMPARE_NOT_IN"
_MOST_SHOWN = 8
Part = tuple[Any, str, Any]  # a column, an operator, and what it is compared with


def resolved(domain: Domain, expression: Expression) -> Expression:
    """The expression with every comparison that a cell must answer written by labels and first days.

    Raises:
        WorkloadError: a comparison that some cell cannot answer; which edges can be compared with.
    """
    rewritten = False
    for node in list(nodes(expression.tree)):
        parts, joint = _parts(node)
        each = [_comparison(domain, *part) for part in parts]
        if not any(each):
            continue
        texts = [f"({new or _as_written(*part)})" for new, part in zip(each, parts, strict=True)]
        whole = tree_of(f"{'NOT ' if node['type'] == _NOT_IN else ''}({joint.join(texts)})")
        node.clear()
        node.update(whole)
        rewritten = True
    names = (node["column_names"][0] for node in nodes(expression.tree) if node.get("class") == "COLUMN_REF")
    return Expression(tuple(dict.fromkeys(names)), expression.tree, rewritten=True) if rewritten else expression


def _parts(node: Mapping[str, Any]) -> tuple[list[Part], str]:
    """The comparisons of a column with something that a node consists of, and how they are joined."""
    match node.get("class"), node.get("type"):
        case "COMPARISON", str(kind) if kind in _OPERATORS:
            operator = _OPERATORS[kind]
            if node["left"].get("class") == "CONSTANT":
                return [(node["right"], _TURNED.get(operator, operator), node["left"])], ""
            return [(node["left"], operator, node["right"])], ""
        case "BETWEEN", "COMPARE_BETWEEN":
            return [(node["input"], ">=", node["lower"]), (node["input"], "<=", node["upper"])], " AND "
        case "OPERATOR", "COMPARE_IN" | "COMPARE_NOT_IN":
            return [(node["children"][0], "=", child) for child in node["children"][1:]], " OR "
    return [], ""


def _as_written(column: Any, operator: str, other: Any) -> str:
    return f"{sql_of(column)} {operator} {sql_of(other)}"


def _comparison(domain: Domain, column: Any, operator: str, other: Any) -> str | None:
    """A comparison as SQL that means the same of every cell; None where it may stand as it is."""
    name = _name(column)
    if name not in domain:
        return None
    attribute, word = domain[name], _name(other)
    if word and word not in domain:
        meant = _label(attribute, word)
        if meant is None:
            remedy = nearest(word, attribute.labels)[1]
            raise WorkloadError(f"{named(word)} is neither a value of {named(name)} nor an attribute; {remedy}")
        return f"{quoted(name)} {operator} {literal(meant)}"
    of_cells = isinstance(attribute, Bins) or (isinstance(attribute, Dates) and attribute.unit != "day")
    if other.get("class") != "CONSTANT":
        return None
    constant = sql_of(other)
    if isinstance(attribute, Dates) and constant[0].isdigit():
        raise WorkloadError(f"compare {named(name)} with a date in quotes, such as '{attribute.declared_labels[0]}'.")
    if not (of_cells or attribute.words.meanings):
        return None
    text = constant[1:-1].replace("''", "'") if constant.startswith("'") else None
    if isinstance(attribute, Bins) and text is None:
        return _of_bins(name, attribute, operator, constant)
    if isinstance(attribute, Dates) and text is not None:
        return _of_units(name, attribute, operator, text)
    meant = _label(attribute, text) if text is not None and operator in ("=", "!=") else None
    return None if meant is None or meant == text else f"{quoted(name)} {operator} {literal(meant)}"


def _name(node: Any) -> str:
    """The column that a node is, if it is one."""
    return str(node["column_names"][0]) if node.get("class") == "COLUMN_REF" else ""


def _label(attribute: Attribute, word: str) -> str | int | None:
    """The value that a word names: its label, or what the domain calls it."""
    if word in attribute.labels:
        return word
    named = [label for label, name in names_of(attribute).items() if name == word]
    return next((label for label in attribute.labels if str(label) in named), None)


def _of_bins(name: str, attribute: Bins, operator: str, constant: str) -> str | None:
    try:
        number = float(constant)
    except ValueError:  # NULL, TRUE
        return None
    inside = cells_of_bins(attribute, operator, number)
    if inside is None:
        edges = np.array(attribute.edges)
        shown = [f"{edge:g}" for edge in edges[np.argsort(np.abs(edges - number))[:_MOST_SHOWN]] if np.isfinite(edge)]
        raise WorkloadError(
            f"{name} {operator} {constant} cuts through a bin of {name!r}; its bins can be compared by < and >= with "
            f"their edges, such as {', '.join(sorted(shown, key=float))}."
        )
    labels = [label for label, chosen in zip(attribute.declared_labels, inside, strict=True) if chosen]
    column = quoted(name)
    members = f"{column} IN ({', '.join(map(literal, labels))})" if labels else f"{column} IS NULL"
    return f"CASE WHEN {column} <> {literal(OTHER)} THEN {members} END" if attribute.has_other else members


def cells_of_bins(attribute: Bins, operator: str, number: float) -> Booleans | None:
    """Which bins meet a comparison with a number; None where one would with a part of it."""
    edges = np.array(attribute.edges)
    last = np.arange(len(edges) - 1) == len(edges) - 2
    return _answered((edges[:-1], edges[1:], last), operator, number)


def _of_units(name: str, attribute: Dates, operator: str, text: str) -> str | None:
    if text in attribute.declared_labels:
        start = attribute.starts[attribute.declared_labels.index(text)]
        return f"{quoted(name)} {operator} {literal(start.isoformat())}"
    try:
        day = date.fromisoformat(text)
    except ValueError:
        return None
    starts = np.array([start.toordinal() for start in attribute.starts], dtype=np.float64)
    ends = np.append(starts[1:] - 1, attribute.last.toordinal())
    if _answered((starts, ends, np.ones(len(starts), dtype=bool)), operator, day.toordinal()) is None:
        place = int(np.searchsorted(starts, day.toordinal(), side="right")) - 1
        first, after = attribute.starts[place], date.fromordinal(int(ends[place])) + timedelta(days=1)
        raise WorkloadError(
            f"{name} {operator} '{text}' cuts through a {attribute.unit} of {name!r}; compare it with "
            f"'{attribute.declared_labels[place]}', or by < and >= with first days, '{first}' or '{after}'."
        )
    return None


def _answered(cells: Ends, operator: str, number: float) -> Booleans | None:
    """Which cells meet a comparison with all they may hold; None where one would with a part of it."""
    if operator in _CONTRARY:
        contrary = _answered(cells, _CONTRARY[operator], number)
        return None if contrary is None else ~contrary
    first, last, closed = cells
    sure: dict[str, Callable[[], tuple[Any, Any]]] = {  # cells that meet it, cells that do not
        "<": lambda: ((last < number) | (~closed & (last == number)), first >= number),
        "<=": lambda: (last <= number, first > number),
        "=": lambda: (closed & (first == number) & (last == number), (number < first) | ~_reaches(cells, number)),
    }
    inside, outside = sure[operator]()
    return cast("Booleans", inside) if (inside | outside).all() else None


def _reaches(cells: Ends, number: float) -> Booleans:
    _, last, closed = cells
    return (number < last) | (closed & (number == last))


_NAME = r'(?P<name>[A-Za-z_]\w*|"(?:[^"]|"")+")'
_VALUE = r"(?:-?\d{1,15}(?![\w.])|'(?:[^']|'')*')"
_ONE = re.compile(
    rf"\s*{_NAME}\s*(?:(?P<operator><=|>=|<>|!=|<|>|=)\s*(?P<value>{_VALUE})"
    rf"|\bbetween\s*(?P<first>{_VALUE})\s*and\b\s*(?P<last>{_VALUE})"
    rf"|\bin\s*\(\s*(?P<listed>{_VALUE}(?:\s*,\s*{_VALUE})*)\s*\))\s*(?P<more>\band\b|$)",
    re.IGNORECASE | re.ASCII,
)
_COMPARED: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "=": operator.eq, "!=": operator.ne,
}  # fmt: skip


def plain_condition(domain: Domain, text: str) -> dict[str, Floats] | None:
    """Attribute → 1 for each of its values that meets a condition and 0 for others, (n,); None: ask DuckDB."""
    chosen: dict[str, Booleans] = {}
    for name, parts in _comparisons(text):
        met = [_met(domain[name], *part) for part in parts] if name in domain else [None]
        if any(each is None for each in met):
            return None
        together = np.logical_or if parts[0][0] == "in" else np.logical_and
        chosen[name] = together.reduce([each for each in met if each is not None]) & chosen.get(name, True)
    possible = all(mask.any() for mask in chosen.values()) and math.prod(map(len, chosen.values())) <= MOST_CELLS
    return {name: mask.astype(np.float64) for name, mask in chosen.items()} if possible and chosen else None


def _comparisons(text: str) -> Iterator[tuple[str, list[tuple[str, str | int]]]]:
    """Each attribute that is compared, and with what; an attribute without a name for what cannot be read."""
    at, more = 0, True
    while more:
        match = _ONE.match(text, at)
        if match is None:
            yield "", [("=", "")]
            return
        name = match["name"]
        listed = [("in", _value(each)) for each in re.findall(_VALUE, match["listed"] or "")]
        pair = [(">=", _value(match["first"])), ("<=", _value(match["last"]))] if match["first"] else []
        one = [] if match["value"] is None else [(match["operator"].replace("<>", "!="), _value(match["value"]))]
        yield name[1:-1].replace('""', '"') if name.startswith('"') else name, listed + pair + one
        at, more = match.end(), bool(match["more"])


def _value(written: str) -> str | int:
    return written[1:-1].replace("''", "'") if written.startswith("'") else int(written)


def _met(attribute: Attribute, compared: str, value: str | int) -> Booleans | None:
    """Which cells meet a comparison, (n,); None where it takes an engine to say."""
    compared = "=" if compared == "in" else compared
    met = np.zeros(attribute.size, dtype=bool)
    if isinstance(value, int):
        if isinstance(attribute, Bins):
            inside = cells_of_bins(attribute, compared, value)
        elif not isinstance(attribute, Dates) and all(isinstance(label, int) for label in attribute.declared_labels):
            inside = _COMPARED[compared](np.array(attribute.declared_labels), value)
        else:
            return None
        if inside is not None:
            met[: attribute.declared] = inside  # the cell of other values is NULL, and meets nothing
        return None if inside is None else met
    labels = attribute.labels
    texts = not isinstance(attribute, Dates) and all(isinstance(label, str) for label in labels)
    if not texts or compared not in ("=", "!=") or value not in labels:
        return None
    met[labels.index(value)] = True
    return met if compared == "=" else ~met
