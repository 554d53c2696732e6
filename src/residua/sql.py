"""SQL that comes from outside: parsed by DuckDB before it runs, and run where it reaches neither files nor network."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast

from residua.machine import duckdb

_QUERIES = {"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"}
# Kinds of the engine's errors that speak of the query's text alone; all others may quote values of the data.
_WORDS = [f"{kind}Exception" for kind in ["Parser", "Syntax", "Binder", "Catalog", "Permission", "NotImplemented"]]
_MOST_SECONDS = 60.0  # that an expression may take over the cells of a domain, or over a batch of records
_MOST_MEMORY = "2GB"
# What an expression may call. None makes text longer than its arguments together: a few that do, nested, would fill any
# memory, and DuckDB neither counts such text nor stops while it is made.
_NAMES = """
+ - * / // % ** ^ & | << >> ~ @ || ^@ ~~ !~~ ~~* !~~* ~~~ = != < <= > >= __between xor
like_escape not_like_escape ilike_escape not_ilike_escape
abs acos acosh add asin asinh atan atan2 atanh bit_count cbrt ceil ceiling cos cosh cot degrees divide even exp
factorial fdiv floor fmod gamma gcd greatest greatest_common_divisor isfinite isinf isnan lcm least
least_common_multiple lgamma ln log log10 log2 mod multiply nextafter pi pow power radians round round_even
roundbankers sign signbit sin sinh sqrt subtract tan tanh trunc
ascii bit_length char_length character_length chr concat concat_ws contains ends_with hash instr lcase left len length
lower lpad ltrim md5 nfc_normalize octet_length ord position prefix regexp_extract regexp_full_match regexp_matches
regexp_replace replace reverse right rpad rtrim sha1 sha256 split_part starts_with strip_accents strlen strpos substr
substring suffix translate trim ucase unicode upper
age century date_add date_diff date_part date_sub date_trunc datediff datepart datesub datetrunc day dayname
dayofmonth dayofweek dayofyear days_in_month decade epoch epoch_ms epoch_ns epoch_us era hour isodow isoyear julian
last_day make_date make_time make_timestamp microsecond millennium millisecond minute month monthname nanosecond
quarter second strftime strptime time_bucket timezone timezone_hour timezone_minute to_centuries to_days to_decades
to_hours to_microseconds to_millennia to_milliseconds to_minutes to_months to_quarters to_seconds to_timestamp to_weeks
to_years try_strptime week weekday weekofyear year yearweek
array_contains if list_contains list_has list_value nullif typeof
"""
_FUNCTIONS = frozenset(_NAMES.split())
_TYPES = re.compile(
    r"u?(tiny|small|big|huge)?int(eger)?|int\d+|float\d*|real|double.*|decimal|numeric|(var|bp)?char|text|string|"
    r"bool(ean)?|date(time)?|time.*|interval|uuid"
)


class SqlError(Exception):
    """What is wrong with a text of SQL, in words that end without a full stop; callers say where it stands."""


@dataclass(frozen=True)
class Expression:
    """An expression over the columns of one row, as parsed.

    Args:
        names: the columns it mentions, as they are written, each once.
        tree: the engine's parse.
        rewritten: whether it is not as it was written.
    """

    names: tuple[str, ...]
    tree: Any
    rewritten: bool = False

    def renamed(self, names: Mapping[str, str]) -> str:
        """The expression as SQL with columns under other names."""
        tree = json.loads(json.dumps(self.tree))
        for node in nodes(tree):
            if node.get("class") == "COLUMN_REF":
                node["column_names"] = [names.get(node["column_names"][0], node["column_names"][0])]
        return _asked_parser("SELECT json_deserialize_sql(?::JSON)", json.dumps(tree)).removeprefix("SELECT ")


def sandbox(database: str | Path = ":memory:", *, memory: str | None = None) -> Any:
    """A connection without files, network, extensions, Python variables or settings to change; a file is only read."""
    options: dict[str, Any] = {
        "enable_external_access": "false",
        "autoload_known_extensions": "false",
        "autoinstall_known_extensions": "false",
        "python_enable_replacements": "false",
        **({} if memory is None else {"memory_limit": memory}),
    }
    connection = duckdb.connect(str(database), read_only=str(database) != ":memory:", config=options)
    without_progress_bar(connection)
    connection.execute("SET lock_configuration = true")
    return connection


def expression_sandbox() -> Any:
    """A sandbox for expressions alone, which need little memory."""
    return sandbox(memory=_MOST_MEMORY)


@contextmanager
def within_time(engine: Any) -> Iterator[None]:
    """Interrupts an engine that computes expressions for too long; it then raises, as for any other error."""
    timer = threading.Timer(_MOST_SECONDS, engine.interrupt)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


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
        SqlError: a syntax error, something that looks at other rows, at tables, at chance or at the clock, or a
            function or a type that is not among those that expressions may use.
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
            case "LAMBDA":
                raise SqlError("it holds a lambda; write it without")
            case "FUNCTION":
                _check_function(str(part["function_name"]).lower(), part)
            case "TYPE":
                _check_type(str(part["type_name"]))
            case "CAST" if "cast_type" in part:  # DuckDB before version 2
                _check_type(str(part["cast_type"]["id"]))
            case "COLUMN_REF" if len(part["column_names"]) > 1:
                raise SqlError(f"it names {'.'.join(part['column_names'])!r}; write the name alone, in double quotes")
            case "COLUMN_REF":
                names[part["column_names"][0]] = None
    return Expression(tuple(names), {"error": False, "statements": statements})


def tree_of(text: str) -> dict[str, Any]:
    """The parse of one expression, as a part of others."""
    return cast("dict[str, Any]", _statements(f"SELECT {text}")[0]["node"]["select_list"][0])


def sql_of(part: Mapping[str, Any]) -> str:
    """A part of a parse as SQL."""
    (statement,) = _statements("SELECT 1")
    statement["node"]["select_list"] = [part]
    tree = {"error": False, "statements": [statement]}
    return _asked_parser("SELECT json_deserialize_sql(?::JSON)", json.dumps(tree)).removeprefix("SELECT ")


def literal(value: str | int) -> str:
    """A text or a whole number as SQL."""
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


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
    if type(problem).__name__ == "InterruptException":
        return f"it takes longer than {_MOST_SECONDS:g} s"
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


def _check_type(name: str) -> None:
    if not _TYPES.fullmatch(name.lower()):
        raise SqlError(f"it casts to {name}; cast to numbers, text, truth values, dates or times alone")


def _check_growth(name: str, arguments: list[str | None]) -> None:
    """Refuses what would make text grow without bound; an argument is its text where it is a literal, else None."""
    texts = dict(enumerate(arguments))
    match name:
        case "lpad" | "rpad":
            fits = (texts.get(1) or "").isdecimal() and len(texts[1] or "") < 4
            rule = "takes a length below 1000, written as a number"
        case "replace":
            old, new = texts.get(1), texts.get(2)
            fits, rule = old is not None and new is not None and len(new) <= len(old), "takes texts, the new no longer"
        case "regexp_replace":
            fits, rule = texts.get(2) == "", "only removes: its third argument is ''"
        case "concat_ws":
            fits, rule = texts.get(0) is not None, "takes its separator as a text"
        case _:
            return
    if not fits:
        raise SqlError(f"{name}() {rule}; other text is made in a query, or before")


def _literal(node: Any) -> str | None:
    held = node.get("literal") or node.get("value") or {}
    return str(held.get("text", held.get("value"))) if node.get("class") == "CONSTANT" else None


def _check_function(name: str, node: Mapping[str, Any]) -> None:
    aggregates, unstable = _functions()
    if name in aggregates:
        raise SqlError(f"{name}() sums over rows; write what counts in one")
    if name in unstable:
        raise SqlError(f"{name}() is not the same every time; leave out chance, the clock and settings")
    if name not in _FUNCTIONS:
        raise SqlError(f"{name}() is not among the functions that an expression may use (docs/specification.md)")
    given = node.get("arguments", node.get("children", []))  # by name in DuckDB 2
    _check_growth(name, [_literal(each.get("expression", each)) for each in given])


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


def plain_select(text: str, dialect: str | None = None) -> str:
    """The text of one SELECT in some dialect, without what ends it; the name of a table stands for all of it.

    A look at the words alone, for engines that parse for themselves: they are asked `SELECT * FROM (…)`, prepared as
    one statement, in a transaction that may only read where they have one. Engines differ in what is a text, a name or
    a comment, in which nothing is SQL: an engine that is not known is given what is one SELECT in every reading.

    Raises:
        SqlError: several statements, one that does not begin as a query does, or a quote or parenthesis alone.
    """
    text = text.strip().rstrip(";").strip()
    if re.fullmatch(r'("[^"]+"|[^\W\d]\w*)(\.("[^"]+"|[^\W\d]\w*)){0,2}', text):
        return f"SELECT * FROM {text}"
    for estimator in [_READINGS[dialect]] if dialect in _READINGS else _READINGS.values():
        _require_select(estimator.sub(_blank, text))
    return text


def _require_select(bare: str) -> None:
    """Refuses what is not one SELECT, of a query without its texts, names and comments."""
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
    if not re.match(r"[\s(]*(select|with|values|table|from)\b", bare, re.IGNORECASE):
        raise SqlError("it is not exactly one SELECT")
    if re.search(r"\b(insert|update|delete|merge)\b\s+(into|from|only|\w+\s+set)\b|\binto\b", bare, re.IGNORECASE):
        raise SqlError("it is not exactly one SELECT: it writes")


_TEXT, _NAME, _ESCAPED = r"'(?:[^']|'')*'", r'"(?:[^"]|"")*"', r"'(?:[^'\\]|\\.|'')*'"
_LINE, _COMMENT = r"--[^\n]*", r"/\*(?:(?!/\*).)*?\*/"  # one comment within another is left, and refused
_CONTINUED = rf"(?:(?:\s|{_LINE})*{_ESCAPED})*"  # on another line, a text of PostgreSQL goes on in the same way
_READINGS = {
    dialect: re.compile("|".join(parts), re.DOTALL)
    for dialect, parts in {
        "postgresql": (
            rf"(?<![\w$])[eE]{_ESCAPED}{_CONTINUED}",
            _TEXT,
            _NAME,
            r"(?<![\w$])\$(?P<tag>(?:[^\W\d]\w*)?)\$.*?\$(?P=tag)\$",
            _LINE,
            _COMMENT,
        ),
        "sqlite": (_TEXT, _NAME, r"`(?:[^`]|``)*`", r"\[[^\]]*\]", _LINE, _COMMENT),
        "snowflake": (_ESCAPED, _NAME, r"\$\$.*?\$\$", _LINE, r"//[^\n]*", _COMMENT),
        "bigquery": (
            *(rf"{mark * 3}(?:[^\\]|\\.)*?{mark * 3}" for mark in "'\""),
            *(rf"{mark}(?:[^{mark}\\]|\\.)*{mark}" for mark in "'\"`"),
            r"#[^\n]*",
            _LINE,
            _COMMENT,
        ),
    }.items()
}


def _blank(match: re.Match[str]) -> str:
    return " " if match[0][:2] in ("--", "/*", "//") or match[0][0] == "#" else "x"
