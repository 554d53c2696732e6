"""Comparisons of an attribute with a constant, as its cells can answer them.

Bins are compared with numbers where the numbers are edges; months, weeks and other units with their own labels, or with
days that begin or end one; values with bare words (`sex = female`) and with the names that the domain gives them. What
part of a cell would meet is refused: no cell can tell.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, timedelta
from typing import Any, cast

import numpy as np

from residua.domain import OTHER, Attribute, Bins, Dates, Domain
from residua.domain.words import names_of
from residua.errors import WorkloadError
from residua.linalg.arrays import Booleans, Floats
from residua.sql import Expression, literal, nodes, quoted, sql_of, tree_of

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
        return None if meant is None else f"{quoted(name)} {operator} {literal(meant)}"
    of_cells = isinstance(attribute, Bins) or (isinstance(attribute, Dates) and attribute.unit != "day")
    if other.get("class") != "CONSTANT" or not (of_cells or attribute.words.meanings):
        return None
    constant = sql_of(other)
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
