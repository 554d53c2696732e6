"""SQL that comes from outside: parsed by DuckDB before it runs, and run where it reaches neither files nor network."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

_QUERIES = {"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"}
_WORDS = (  # engine's errors that speak of the query's text alone; all others may quote values of the data
    "ParserException",
    "SyntaxException",
    "BinderException",
    "CatalogException",
    "PermissionException",
    "NotImplementedException",
)


class SqlError(Exception):
    """What is wrong with a text of SQL, in words that end without a full stop; callers say where it stands."""


@dataclass(frozen=True)
class Expression:
    """An expression over the columns of one row, as parsed.

    Args:
        names: the columns it mentions, as they are written, each once.
        tree: the engine's parse.
    """

    names: tuple[str, ...]
    tree: Any

    def renamed(self, names: Mapping[str, str]) -> str:
        """The expression as SQL with columns under other names."""
        tree = json.loads(json.dumps(self.tree))
        for node in nodes(tree):
            if node.get("class") == "COLUMN_REF":
                node["column_names"] = [names.get(node["column_names"][0], node["column_names"][0])]
        text = _asked_parser("SELECT json_deserialize_sql(?::JSON)", json.dumps(tree))
        return text.removeprefix("SELECT ")


def sandbox(database: str | Path = ":memory:") -> Any:
    """A connection without files, network, extensions, Python variables or settings to change; a file is only read."""
    import duckdb

    options: dict[str, Any] = {
        "enable_external_access": "false",
        "autoload_known_extensions": "false",
        "autoinstall_known_extensions": "false",
        "python_enable_replacements": "false",
    }
    connection = duckdb.connect(str(database), read_only=str(database) != ":memory:", config=options)
    without_progress_bar(connection)
    connection.execute("SET lock_configuration = true")
    return connection


def without_progress_bar(connection: Any) -> None:
    """Keeps DuckDB's own progress bar off the terminal."""
    # In a notebook without ipywidgets it is off, and saying so is an error.
    if connection.execute("SELECT current_setting('enable_progress_bar')").fetchall()[0][0]:
        connection.execute("SET SESSION enable_progress_bar = false")


def one_select(text: str) -> str:
    """The text of exactly one SELECT, without what ends it; the name of a table stands for all of it.

    Raises:
        SqlError: a syntax error, several statements, or one that writes.
    """
    text = text.strip().rstrip(";").strip()
    try:
        statements = _statements(text)
    except SqlError as problem:
        if not _is_table(text):
            raise problem from None
        text = f"FROM {text}"
        statements = _statements(text)
    # Once more as it will be asked, in parentheses: whatever ends them early is then another statement or an error.
    if len(statements) != 1 or len(_statements(f"SELECT * FROM ({text}\n) LIMIT 0")) != 1:
        raise SqlError("it is not exactly one SELECT")
    if any(str(node.get("type", "")).endswith("_NODE") and node["type"] not in _QUERIES for node in nodes(statements)):
        raise SqlError("it is not exactly one SELECT: it writes")
    return text


def row_expression(text: str) -> Expression:
    """An expression that says something about each row by itself.

    Raises:
        SqlError: a syntax error, or something that looks at other rows, at tables, at chance or at the clock.
    """
    statements = _statements(f"SELECT ({text}\n)")
    node = statements[0]["node"] if len(statements) == 1 else {}
    alone = len(node.get("select_list", ())) == 1 and node["from_table"]["type"] == "EMPTY"
    if not alone or node["where_clause"] or node["modifiers"] or node["group_expressions"] or node["cte_map"]["map"]:
        raise SqlError("it is more than one expression; write one")
    names: dict[str, None] = {}
    for part in nodes(statements):
        match part.get("class"):
            case "SUBQUERY" | "STAR":
                raise SqlError("it is more than one expression; write one, without subqueries and stars")
            case "WINDOW":
                raise SqlError("it is a window function, which looks at other rows; leave it out")
            case "FUNCTION":
                _check_function(str(part["function_name"]).lower())
            case "COLUMN_REF" if len(part["column_names"]) > 1:
                raise SqlError(f"it names {'.'.join(part['column_names'])!r}; write the name alone, in double quotes")
            case "COLUMN_REF":
                names[part["column_names"][0]] = None
    return Expression(tuple(names), {"error": False, "statements": statements})


def nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """Every node of a parse, without recursion: a sum of a thousand terms is a thousand deep."""
    rest = [tree]
    while rest:
        node = rest.pop()
        if isinstance(node, dict):
            yield node
            rest.extend(node.values())
        elif isinstance(node, list):
            rest.extend(node)


def quoted(name: str) -> str:
    """A name as SQL."""
    return '"' + name.replace('"', '""') + '"'


def engine_words(problem: Exception, *, values: bool = False) -> str:
    """What DuckDB says is wrong, in one line; where its words may quote values, only that they do not fit."""
    if not values and type(problem).__name__ not in _WORDS:
        return "a value cannot be computed or converted"
    first = str(problem).strip().splitlines()[0] if str(problem).strip() else "no reason given"
    return first[:160].rstrip(".")


@cache
def _parser(process: int) -> Any:  # one per process: a connection does not survive a fork, and making one takes 20 ms
    return sandbox()


def _asked_parser(question: str, text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise SqlError("it holds half a character, which no text has") from None
    with _parser(os.getpid()).cursor() as engine:
        return str(engine.execute(question, [text]).fetchall()[0][0])


def _statements(text: str) -> list[Any]:
    try:
        tree = json.loads(_asked_parser("SELECT json_serialize_sql(?)", text))
    except RecursionError:
        raise SqlError("it is nested too deeply; write it with fewer terms") from None
    if tree["error"]:
        raise SqlError(str(tree["error_message"]).splitlines()[0].rstrip(".!"))
    return list(tree["statements"])


def _is_table(text: str) -> bool:
    try:
        (statement,) = _statements(f"FROM {text}")
    except (SqlError, ValueError):
        return False
    table = statement["node"].get("from_table") or {}
    plain = not statement["node"]["modifiers"] and not statement["node"]["where_clause"]
    return plain and table.get("type") == "BASE_TABLE" and not table["alias"]


def _check_function(name: str) -> None:
    aggregates, unstable = _functions()
    if name in aggregates:
        raise SqlError(f"{name}() sums over rows; write what counts in one")
    if name in unstable:
        raise SqlError(f"{name}() is not the same every time; leave out chance, the clock and settings")


@cache
def _functions() -> tuple[frozenset[str], frozenset[str]]:
    """The names of functions that aggregate, and of those whose value is not decided by their arguments."""
    with _parser(os.getpid()).cursor() as engine:
        rows = engine.execute("SELECT function_name, function_type, stability FROM duckdb_functions()").fetchall()
    scalar = {name for name, kind, _ in rows if kind in ("scalar", "macro")}
    aggregates = {name for name, kind, _ in rows if kind == "aggregate"} - scalar
    return frozenset(aggregates), frozenset(
        name for name, _, stability in rows if stability not in ("CONSISTENT", None)
    )


def plain_select(text: str) -> str:
    """The text of one SELECT in whichever dialect, without what ends it; the name of a table stands for all of it.

    A look at the words alone, for engines that parse for themselves: they are asked `SELECT * FROM (…)`, in a
    transaction that may only read where they have one.

    Raises:
        SqlError: several statements, one that does not begin as a query does, or a quote or parenthesis alone.
    """
    text = text.strip().rstrip(";").strip()
    bare = _QUOTED.sub(_blank, text)
    if any(mark in bare for mark in "'\"`") or "/*" in bare or re.search(r"\$\w*\$", bare):
        raise SqlError("it has a quote or a comment that is never closed")
    if ";" in bare:
        raise SqlError("it is not exactly one SELECT")
    depth = 0
    for mark in re.findall(r"[()]", bare):
        depth += 1 if mark == "(" else -1
        if depth < 0:
            break
    if depth:
        raise SqlError("it has a parenthesis without its pair")
    if re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*){0,2}", text) or re.fullmatch(
        r'("[^"]+"|\w+)(\.("[^"]+"|\w+)){0,2}', text
    ):
        return f"SELECT * FROM {text}"
    if not re.match(r"[\s(]*(select|with|values|table|from)\b", bare, re.IGNORECASE):
        raise SqlError("it is not exactly one SELECT")
    if re.search(r"\b(insert|update|delete|merge)\b\s+(into|from|only|\w+\s+set)\b|\binto\b", bare, re.IGNORECASE):
        raise SqlError("it is not exactly one SELECT: it writes")
    return text


_QUOTED = re.compile(  # texts, names and comments: nothing in them is SQL
    r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`[^`]*`|\$(?P<tag>\w*)\$.*?\$(?P=tag)\$|--[^\n]*|/\*.*?\*/", re.DOTALL
)


def _blank(match: re.Match[str]) -> str:
    return " " if match[0][:2] in ("--", "/*") else "x"
