"""Frames and arrays that are given where something else belongs are named in the error, and none of them is shown."""

from collections import Counter, deque, namedtuple
from dataclasses import dataclass
from types import MappingProxyType, SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import residua as rs
from residua.errors import PlanError

DOMAIN = rs.Domain({"a": ["x", "y"], "b": rs.Integers(0, 3)})
ASKED = rs.marginals(DOMAIN, ways=[1])
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


def test_what_is_no_data_is_still_quoted() -> None:
    with pytest.raises(rs.ResiduaError, match="'nope'"):
        rs.marginals(DOMAIN, sets=[["nope"]])
    error = rs.ResiduaError("two\nlines of a library")
    assert str(error) == "two\\nlines of a library"


def test_damaged_columns_are_not_looked_into() -> None:
    """A text that ends far outside what is there, which no quick look notices: reading it would end the process."""
    places = pa.py_buffer(np.array([0, 10**9, 2], np.int32))
    damaged = pa.Array.from_buffers(pa.string(), 2, [None, places, pa.py_buffer(b"xy")])
    ours = {"__name__": "residua.reading", "error": rs.ResiduaError}
    exec("def read(column, batch): return error(\"'b.feather' is damaged\")", ours)
    told = ours["read"](damaged, pa.record_batch([damaged], names=["name"]))  # type: ignore[operator]
    assert str(told) == "'b.feather' is damaged"


def test_errors_in_writing_a_value_are_not_looked_into_in_turn():
    """A plan that cannot be priced says so where it is written: once, and not at every level of a search for data."""

    class Bent:
        written = 0

        def __repr__(self):
            Bent.written += 1
            raise PlanError("this plan has no price")

    scope = {"__name__": "residua.toy", "PlanError": PlanError}
    exec("def refuse(several):\n    raise PlanError('no plan of these')", scope)
    Bent.__module__ = "residua.toy"
    with pytest.raises(PlanError, match="no plan of these"):
        scope["refuse"]([Bent(), Bent()])
    assert Bent.written <= 2
