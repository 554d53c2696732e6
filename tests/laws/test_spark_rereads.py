"""Spark reads data again when it loses an executor; data that changed meanwhile is never counted with the rest.

The toy of Spark asks every task again for each partition that it makes, so that the data can change between any two of
these readings, as it could on a cluster that loses what it shuffled.
"""

import traceback
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import residua as rs
from residua.errors import SourceError
from residua.linalg.lattice import closure, layout_of
from residua.source import Source, source_of, spark
from residua.source.bound import bound_of
from tests.toy_spark import DataFrame

SIZES = {"a": 4, "b": 3}


def table_of(rows: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    columns = {name: rng.integers(0, size, rows) for name, size in SIZES.items()}
    return pa.table({**columns, "id": rng.integers(0, 20, rows)})


BEFORE, AFTER = table_of(90, 1), table_of(90, 2)


def changing(after: int) -> tuple[DataFrame, list[int]]:
    """A frame of three partitions, of which one is read as another table from some reading of it on."""
    readings = [0]

    def steady(start: int) -> Iterator[Any]:
        return iter(BEFORE[start : start + 30].to_batches())

    def changes() -> Iterator[Any]:
        readings[0] += 1
        return iter((BEFORE if readings[0] <= after else AFTER)[:30].to_batches())

    return DataFrame([changes, lambda: steady(30), lambda: steady(60)], BEFORE.column_names), readings


def counted(source: Source, persons: bool) -> Any:
    domain = rs.Domain.of_sizes(SIZES)
    lattice = closure([np.array([[0, 1]], dtype=np.int32)], 2)
    bound = bound_of(rs.Person(records=2), domain, bytes(range(32))) if persons else None
    return source.count(domain, layout_of(lattice, domain.sizes), None, bound)


@pytest.mark.parametrize("persons", [False, True], ids=["records", "persons"])
@pytest.mark.parametrize("blocks", [False, True], ids=["whole", "blocks"])
def test_all_tables_count_the_records_of_one_reading_or_there_are_none(
    persons: bool, blocks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if blocks:
        monkeypatch.setattr(spark, "_SMALL_CELLS", 0)
        monkeypatch.setattr(spark, "_BLOCK_CELLS", 4)
    options = {"person": "id"} if persons else {}
    wanted = {}
    for table in (BEFORE, pa.concat_tables([AFTER[:30], BEFORE[30:]])):
        judge = counted(source_of(table, **options), persons)
        wanted[judge.fingerprint] = judge.tables.tolist()
    frame, readings = changing(10**6)
    counted(Source.spark(frame, **options), persons)
    assert readings[0] > 1 or not (blocks or persons)
    for after in range(readings[0] + 1):
        frame, _ = changing(after)
        if 0 < after < readings[0]:
            with pytest.raises(SourceError, match="the data changed while it was counted"):
                counted(Source.spark(frame, **options), persons)
            continue
        found = counted(Source.spark(frame, **options), persons)
        assert found.tables.tolist() == wanted[found.fingerprint]


def test_what_fails_on_an_executor_is_told_as_data_and_quotes_no_value(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise pa.ArrowInvalid("cannot convert 'confidential'")

    monkeypatch.setattr("residua.source.digest.Digest.add", fails)
    frame, _ = changing(1)
    for asked in (lambda: counted(Source.spark(frame), False), Source.spark(frame).fingerprint):
        with pytest.raises(SourceError, match=r"^an executor cannot count the records \(ArrowInvalid\); ") as caught:
            asked()
        assert "confidential" not in "".join(traceback.format_exception(caught.value))


def test_the_data_is_read_twice_once_to_check_and_once_to_count() -> None:
    frame, readings = changing(10**6)
    domain = rs.Domain.of_sizes(SIZES)
    found = Source.spark(frame).checked(domain)
    assert readings == [1]
    tables = found.count(layout_of(closure([], 2), domain.sizes), None, None).tables
    assert (readings, tables.tolist(), found.records) == ([2], [90], 90)
