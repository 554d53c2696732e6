"""Frames and arrays that are given where something else belongs are named in the error, and none of them is shown."""

import ast
import inspect
from collections import Counter, deque, namedtuple
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import residua as rs

DOMAIN = rs.Domain({"a": ["x", "y"], "b": rs.Integers(0, 3)})
ASKED = rs.marginals(DOMAIN, ways=[1])
PLAN = rs.plan(ASKED, rs.ZCDP(0.5))
NAMES = {"name": ["Anna Schmidt", "Bob"], "diagnosis": ["F32.1", "X"]}
Row = namedtuple("Row", "name diagnosis")


@dataclass
class Record:
    name: str = "Anna Schmidt"


class Patient:
    def __repr__(self) -> str:
        return "Anna Schmidt, F32.1"


DATA = {
    "pandas": pd.DataFrame(NAMES),
    "series": pd.Series(NAMES["name"], name="name"),
    "categories": pd.Series(NAMES["name"]).astype("category"),
    "polars": pl.DataFrame(NAMES),
    "arrow": pa.table(NAMES),
    "array": np.array(NAMES["name"]),
    "objects": np.array([["Anna Schmidt", "F32.1"]], dtype=object),
    "index": pd.Index(NAMES["name"]),
    "batch": pa.RecordBatch.from_pydict(NAMES),
    "structured": np.array([("Anna Schmidt", 3)], dtype=[("name", "U20"), ("n", int)]),
    "rows": [{"name": "Anna Schmidt"}],
    "dictionary": {"name": ["Anna Schmidt"]},
    "frames": [pd.DataFrame(NAMES)],
    "nested": {"name": {0: "Anna Schmidt"}},
    "values": NAMES.values(),
    "items": NAMES.items(),
    "queue": deque([{"name": "Anna Schmidt"}]),
    "pairs": [("Anna Schmidt", "F32.1"), ("Bob", "X")],
    "deque": deque(NAMES["name"]),
    "counter": Counter(NAMES["name"]),
    "named tuple": Row("Anna Schmidt", "F32.1"),
    "keys": dict.fromkeys(NAMES["name"]).keys(),
    "texts": dict(enumerate(NAMES["name"])).values(),
    "proxy": MappingProxyType(NAMES),
    "namespace": SimpleNamespace(name="Anna Schmidt"),
    "record": Record(),
    "object": Patient(),
    "category type": pd.Series(NAMES["name"]).astype("category").dtype,
    "bytes": bytearray(b"Anna Schmidt"),
    "slice": slice("Anna Schmidt", "Bob"),
    "several rows": pd.DataFrame(NAMES).set_index(["name", "diagnosis"]).index,
}
COLUMNS = {name: DATA[name] for name in ("series", "categories", "array", "index", "category type", "deque")}
CALLS = {
    "domain": rs.Domain,
    "workload": rs.marginals,
    "plan": rs.plan,
    "budget": lambda given: rs.plan(ASKED, given),
    "targets": lambda given: rs.plan(ASKED, targets=given),
    "objective": lambda given: rs.plan(ASKED, rs.ZCDP(0.5), minimise=given),
    "unit": lambda given: rs.plan(ASKED, rs.ZCDP(0.5), unit=given),
    "guarantee": rs.ZCDP,
    "records": rs.AddRemove,
    "measured": lambda given: rs.measure(given, given, ledger=given),
    "projected": rs.project,
    "variances": lambda given: rs.plan(ASKED, rs.ZCDP(0.5)).variances(given),
    "low": lambda given: rs.Integers(given, 3),
    "first": lambda given: rs.Dates(given, "2024-01-01"),
    "ways": lambda given: rs.marginals(DOMAIN, ways=given),
    "person": lambda given: rs.Source.frame(pa.table(NAMES), person=given),
}


NO_MISTAKE = [("domain", "dictionary"), ("domain", "proxy"), ("person", "deque"), ("person", "named tuple")]
CASES = [(call, data) for call in CALLS for data in DATA if (call, data) not in NO_MISTAKE]


@pytest.mark.parametrize(("call", "data"), CASES)
def test_no_row_is_quoted(call: str, data: str) -> None:
    with pytest.raises(rs.ResiduaError) as caught:
        CALLS[call](DATA[data])
    said = f"{caught.value} {caught.value!r} {caught.value.args}"
    assert not [text for text in ("Anna", "Bob", "F32") if text in said], said


@pytest.mark.parametrize("data", COLUMNS)
def test_no_value_of_a_column_is_quoted(data: str) -> None:
    calls = {
        "bins": rs.Bins,
        "intervals": rs.Bins.of_intervals,
        "amounts": lambda given: rs.clips(rs.plan(ASKED, rs.ZCDP(0.5)), "a", amounts=given, records=9),
        "queries": lambda given: rs.queries(DOMAIN, given),
        "sets": lambda given: rs.marginals(DOMAIN, sets=given),
        "source": lambda given: rs.measure(rs.plan(ASKED, rs.ZCDP(0.5)), [*given] and given, ledger="no.ledger"),
    }
    for call in calls.values():
        with pytest.raises((rs.ResiduaError, TypeError)) as caught:
            call(COLUMNS[data])
        said = f"{caught.value} {caught.value!r} {caught.value.args}"
        assert not [text for text in ("Anna", "Schmidt", "Bob", "F32") if text in said], said


def test_what_is_near_to_something_declared_is_quoted() -> None:
    domain = rs.Domain({"age": rs.Integers(0, 9), "sex": ["Female", "Male"]})
    calls = {
        "'agee'; did you mean 'age'": lambda: rs.marginals(domain, sets=[["agee"]]),
        "'Age'; did you mean 'age'": lambda: rs.marginals(domain, sets=[["Age"]]),
        "'Femal' is not a value of 'sex'; did you mean 'Female'": lambda: rs.Domain(
            domain.attributes, impossible=[{"sex": "Femal", "age": 3}]
        ),
        "number 2 of 2.; there are 'age', 'sex'": lambda: rs.marginals(domain, sets=[["age", "Anna"]]),
        "query 'agee > 3' names the unknown attribute 'agee'": lambda: rs.queries(domain, ["agee > 3"]),
        "query number 2: a syntax error; write a condition on 'age'": lambda: rs.queries(
            domain, ["age > 3", "Anna S F3"]
        ),
        "'typed' is not": lambda: rs.plan(ASKED, rs.ZCDP(0.5), minimise="typed"),
    }
    for said, call in calls.items():
        with pytest.raises(rs.ResiduaError, match=said):
            call()
    assert str(rs.ResiduaError("two\nlines of a library")) == "two\\nlines of a library"


TEXT = "Anna Schmidt F32.1"
INSIDE = {
    "a text": [TEXT],
    "of several": ["a", TEXT],
    "tuple": (TEXT,),
    "set": {TEXT},
    "lists": [[TEXT]],
    "known set": [["a", TEXT]],
    "twice": [TEXT, TEXT],
    "key": {TEXT: 1},
    "key of labels": {TEXT: ["x"]},
    "cell": {("a", TEXT): 1},
    "value": {"a": TEXT},
    "values": {"a": [TEXT, TEXT]},
    "inner key": {"a": {TEXT: ["x"]}},
    "member": {"a": {"level": {"x": [TEXT]}}},
    "pairs": [("a", TEXT)],
    "rules": [{"a": TEXT}],
    "numbers": [8_341_725.25, 5],
    "wages": {"b": [52_911_407]},
    "exception": ValueError(TEXT),
    "frame": DATA["pandas"],
    "array": DATA["array"],
}
GIVEN: dict[str, Any] = {
    "domain": DOMAIN,
    "attributes": ["a"],
    "attribute": "b",
    "names": ["a"],
    "name": "a",
    "workload": ASKED,
    "plan": PLAN,
    "plans": [PLAN],
    "given": PLAN,
    "guarantee": rs.ZCDP(0.1),
    "budget": rs.ZCDP(0.1),
    "by": ["a"],
    "of": {"a": "x"},
    "numerator": {"a": "x"},
    "denominator": {"b": [0, 1]},
    "between": "a",
    "first": "x",
    "second": "y",
    "over": "a",
    "weights": {"x": 1.0, "y": 1.0},
    "q": 0.5,
    "asked": {"a": "identity"},
    "matrix": np.eye(2),
    "expressions": ["a = 'x'"],
    "sizes": [2, 3],
    "values": ["x", "y"],
    "edges": [0, 1],
    "intervals": [(0, 1)],
    "low": 0,
    "high": 3,
    "amounts": [1.0],
    "records": 9,
    "column": "a",
    "most": 3.0,
    "facts": [({"a": "x"}, 50)],
    "combination": {("a",): [1.0, 0.0]},
    "workloads": [ASKED],
    "paths": "no.csv",
    "query": "select 1",
    "frame": pa.table(NAMES),
    "path": "no.delta",
}
OF = {
    "domain": (DOMAIN, ("cells", "listed", "positions", "of_sizes", "draft")),
    "attribute": (DOMAIN["a"], ("described", "level")),
    "bins": (rs.Bins, ("of_intervals",)),
    "plan": (PLAN, ("assuming", "combination_variance", "covariance", "supports", "variance", "variances")),
    "quoted": (
        PLAN,
        ("difference", "mean", "quantile", "ratio", "relative_difference", "share", "standardised", "top"),
    ),
    "source": (rs.Source, ("csv", "delta", "duckdb", "excel", "frame", "jsonl", "parquet", "spss", "sql")),
}
PUBLIC = {
    **{name: getattr(rs, name) for name in rs.__all__ if inspect.isfunction(getattr(rs, name))},
    **{kind.__name__: kind for kind in (rs.Domain, rs.Categories, rs.Integers, rs.Bins, rs.Amount, rs.CodeList)},
    **{kind.__name__: kind for kind in (rs.Person, rs.Weights, rs.ZCDP, rs.ApproxDP, rs.MaxVariance, rs.Stakeholders)},
    **{f"{of}.{name}": getattr(each, name) for of, (each, names) in OF.items() for name in names},
}
MEASURING = ("discover", "measure", "measure_survey", "records_per_person", "score", "allot", "common", "top_up")
AFTER = ("change", "estimate", "for_mbi", "pooled", "project", "weighted")  # of a release, which is no data


def parameters(call: Any) -> tuple[dict[str, Any], list[str]]:
    """What must be given, and every name under which something can be."""
    needed: dict[str, Any] = {}
    names: list[str] = []
    for each in inspect.signature(call).parameters.values():
        if each.kind is not each.VAR_KEYWORD:
            names.append(each.name)
        elif each.name == "asked":
            names += ["by", "where"]
        if each.default is each.empty and each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL):
            needed[each.name] = GIVEN.get(each.name, "a")
    return needed, [name for name in names if name != "progress"]


@pytest.mark.parametrize("call", [name for name in PUBLIC if name not in (*MEASURING, *AFTER)])
def test_nothing_that_a_collection_holds_is_shown_whatever_argument_it_is_given_for(call: str) -> None:
    needed, names = parameters(PUBLIC[call])
    for name, (kind, shape) in product(names, INSIDE.items()):
        try:
            PUBLIC[call](**{**needed, name: shape})
        except Exception as problem:
            said = f"{problem} {problem!r}"
            leaks = [text for text in ("Anna", "Schmidt", "Bob", "F32", "8341725", "52911407") if text in said]
            assert not leaks, f"{name} is {kind}: {said}"


# What sentences may write as it is: names that were looked up in the domain before, guarantees and units that are.
CHECKED = {
    "domain/domain.py": {"name", "names"},
    "domain/levels.py": {"value"},
    "measurement/job.py": {"account.unit"},
    "measurement/ledger_entries.py": {"earlier['counts']", "earlier['no_person']"},
    "measurement/score.py": {"tuple(names)"},
    "plans/contract.py": {"names"},
    "plans/estimator.py": {"tuple(names)"},
    "plans/noise.py": {"guarantee"},
    "plans/objectives.py": {"names"},
    "plans/quotes.py": {"names"},
    "plans/strata/making.py": {"by"},
    "privacy/costs.py": {"lacking[0]"},
    "projection/alternating.py": {"members"},
    "projection/rounded.py": {"members"},
    "quoting/terms.py": {"domain.names[position]"},
    "release/given.py": {"tuple(names)"},
    "release/weighted.py": {"name"},
    "report/theme.py": {"name"},  # typed in a file
    "session/state.py": {"budget", "held"},
    "source/bound.py": {"absent[0]", "summed[0]"},
}
OURS = (
    "str", "bytes", "Path", "str | Path", "tuple[str, ...]", "Domain", "Attribute", "Level", "Plan", "Release",
    "Ledger", "Cube", "Projected", "Question", "Unit", "Guarantee", "Term", "Account", "Folder", "Header", "Entry",
    "Kind", "Records", "Options", "Members", "Set", "DeclaredCells",
)  # fmt: skip
NAMING = ("named", "kind_of", "nearest", "listing", "len", "type", "str", "shown_uri")


def written(node: ast.AST) -> set[str]:
    """The variables whose values an expression writes: not those it only names."""
    if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) in NAMING:
        return set()
    if isinstance(node, ast.Compare) or (
        isinstance(node, ast.Attribute) and node.attr in ("__name__", "name", "names")
    ):
        return set()
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
        return {f"self.{node.attr}"}
    own = {node.id} if isinstance(node, ast.Name) else set()
    return own.union(*map(written, ast.iter_child_nodes(node)))


def arguments(function: ast.FunctionDef, outer: frozenset[str]) -> frozenset[str]:
    """What a public function was given, or a private one of any type, and the variables made from it."""
    given = function.args
    public = not function.name.startswith("_") or function.name in ("__init__", "__post_init__", "_validate")
    each = [*given.posonlyargs, *given.args, *given.kwonlyargs, *filter(None, [given.vararg, given.kwarg])]
    kinds = {a.arg: ast.unparse(a.annotation or ast.Constant(0)) for a in each if a.arg not in ("self", "cls")}
    known = outer | {a for a, kind in kinds.items() if kind in ("Any", "object") or (public and kind not in OURS)}
    fields = function.name in ("__post_init__", "_validate")
    pairs = [(n.iter, n.target) for n in ast.walk(function) if isinstance(n, ast.For | ast.comprehension)]
    pairs += [(n.value, n.targets[0]) for n in ast.walk(function) if isinstance(n, ast.Assign) and len(n.targets) == 1]
    before = frozenset[str]()
    while before != known:
        before = known
        for value, target in pairs:
            from_given = written(value) & known or (fields and any(name.startswith("self.") for name in written(value)))
            known |= {n.id for n in ast.walk(target) if isinstance(n, ast.Name)} if from_given else set()
    return known | (frozenset({"self."}) if fields else frozenset())


def unnamed(node: ast.AST, known: frozenset[str]) -> Iterator[str]:
    """What errors write of arguments as it is, with `!r`."""
    if isinstance(node, ast.FunctionDef):
        if not any(isinstance(each, ast.Raise) for each in ast.walk(node)):
            return
        known = arguments(node, known)
    if isinstance(node, ast.Raise) and node.exc is not None:
        for value in ast.walk(node.exc):
            if isinstance(value, ast.FormattedValue) and value.conversion == ord("r"):
                names = written(value.value)
                if names & known or ("self." in known and any(name.startswith("self.") for name in names)):
                    yield ast.unparse(value.value)
    for child in ast.iter_child_nodes(node):
        yield from unnamed(child, known)


def test_no_error_writes_an_argument_as_it_is() -> None:
    """Whatever is given may be data: an error writes it through `named`, what a collection holds through `nearest`."""
    root = Path(rs.__file__).parent
    found = {
        file.relative_to(root).as_posix(): set(unnamed(ast.parse(file.read_text(encoding="utf-8")), frozenset()))
        for file in root.rglob("*.py")
        if file.relative_to(root).parts[0] not in ("cli", "ui", "testing")  # whose arguments were typed
    }
    assert not {
        file: names - CHECKED.get(file, set()) for file, names in found.items() if names - CHECKED.get(file, set())
    }
