"""One fingerprint for the same records in every engine; another for any others."""

import datetime
import decimal
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from residua.source import Source, digest as digest_module, source_of
from residua.source.digest import Digest, spelled
from tests.conformance.engines import ENGINES, SPELLED_OTHERWISE, duckdb_file, every_engine, opened, records, table_of

TABLE = table_of([(*row, 1) for row in records(dirty=True)])
SAME = [engine for engine in ENGINES if engine not in SPELLED_OTHERWISE]


@pytest.mark.parametrize("engine", SAME, ids=lambda engine: engine.__name__)
def test_the_same_records_have_the_same_fingerprint_in_every_engine(engine: Callable[..., Any], tmp_path: Path) -> None:
    assert opened(engine(TABLE, tmp_path)).fingerprint() == source_of(TABLE).fingerprint()


@every_engine
def test_a_fingerprint_is_stable_and_notices_one_changed_value(engine: Callable[..., Any], tmp_path: Path) -> None:
    rows = [(*row, 1) for row in records(dirty=True)]
    changed = [*rows[:-1], (*rows[-1][:-1], 2)]
    folders = [tmp_path / name for name in "abc"]
    for folder in folders:
        folder.mkdir()
    prints = [
        opened(engine(table_of(data), folder)).fingerprint()
        for data, folder in zip((rows, rows, changed), folders, strict=True)
    ]
    assert prints[0] == prints[1] != prints[2]


def digest_of(table: pa.Table, rows: int = 1 << 16) -> str:
    digest = Digest()
    for batch in table.to_batches(max_chunksize=rows):
        digest.add(batch)
    return digest.fingerprint


def test_neither_order_nor_batches_nor_threads_matter() -> None:
    shuffled = TABLE.take(np.random.default_rng(0).permutation(len(TABLE))).select(TABLE.column_names[::-1])
    assert (
        len({digest_of(TABLE), digest_of(TABLE, 7), digest_of(shuffled, 100), digest_of(TABLE.combine_chunks())}) == 1
    )
    many = pa.concat_tables([TABLE] * 200).combine_chunks()
    with ThreadPoolExecutor(2) as pool:
        threaded = Digest(pool)
        for batch in many.to_batches():
            threaded.add(batch)
    assert threaded.fingerprint == digest_of(many, 1000)
    assert source_of(TABLE.slice(3, 20)).fingerprint() == source_of(TABLE[3:23].combine_chunks()).fingerprint()


def test_compiled_loops_give_the_same_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    small = [None if x == 9 else int(x) for x in rng.integers(-3, 10, 3000)]
    columns = {
        "small": pa.array(small, pa.int8()),
        "unsigned": pa.array(rng.integers(2**62, 2**62 + 40, 3000), pa.uint64()),
        "flag": pa.array([None if x == 2 else bool(x) for x in rng.integers(0, 3, 3000)]),
        "text": pa.array([None if x is None else f"label {x}" for x in small]).dictionary_encode(),
        "nothing": pa.nulls(3000, pa.int32()),
        "fraction": pa.array(rng.normal(size=3000)),
        "rising": pa.array(np.sort(rng.integers(-50, 2000, 3000))),  # the range it is looked up in widens upwards
        "falling": pa.array(np.sort(rng.integers(-50, 2000, 3000))[::-1]),
    }
    table = pa.table(columns)
    monkeypatch.setattr(digest_module, "_WORTH_LOOPS", 0)
    looped = digest_of(table, 700)
    monkeypatch.setattr(digest_module, "_WORTH_LOOPS", 2**62)
    monkeypatch.setattr(digest_module, "sys", SimpleNamespace(modules={}))  # as if Numba were not loaded yet
    assert digest_of(table, 700) == looped != digest_of(table[1:], 700)
    assert digest_of(table.take(rng.permutation(3000)), 3000) == looped


def test_digests_of_parts_add_up() -> None:
    whole, first, second = Digest(), Digest(), Digest()
    for digest, table in ((whole, TABLE), (first, TABLE[:200]), (second, TABLE[200:])):
        for batch in table.to_batches():
            digest.add(batch)
    first.merge(second.parts)
    assert first.fingerprint == whole.fingerprint


CHANGES: dict[str, Callable[[pa.Table], pa.Table]] = {
    "one record twice": lambda table: pa.concat_tables([table, table[:1]]),
    "one record less": lambda table: table[1:],
    "a column renamed": lambda table: table.rename_columns([*"abcdefg"]),
    "a column left out": lambda table: table.drop_columns("n"),
    "values of two columns exchanged": lambda table: table.rename_columns(
        ["region", "sex", "age", *table.column_names[3:]]
    ),
    "values of two records exchanged": lambda table: table.set_column(
        1, "sex", table["sex"].take(pa.array([1, 0, *range(2, len(table))]))
    ),
    "one letter": lambda table: table.set_column(1, "sex", pa.array(["fEmale", *table["sex"].to_pylist()[1:]])),
    "a value absent": lambda table: table.set_column(1, "sex", pa.array([None, *table["sex"].to_pylist()[1:]])),
}


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_is_noticed(change: str) -> None:
    table = table_of([(*row, 1) for row in records(dirty=False)])
    assert digest_of(CHANGES[change](table)) != digest_of(table)


def test_any_two_of_many_close_records_differ() -> None:
    """Texts that differ in one byte at any place, in length, or in zeros at the end, have different hashes."""
    base = "abcdefghijklmnopqrstuvwxyz"
    texts = {base[:n] for n in range(1, 27)} | {base[:i] + "A" + base[i + 1 :] for i in range(26)}
    texts |= {base[:n] + "\0" * k for n in range(1, 10) for k in range(1, 9)} | {str(n) for n in range(3000)}
    sums = set()
    for text in sorted(texts):
        digest = Digest()
        digest.add(pa.record_batch({"a": [text]}))
        sums |= set(digest.parts[1:])
    assert len(sums) == 2 * len(texts)


SPELLINGS: list[tuple[pa.Array, list[str | None]]] = [
    (pa.array([39, -1, None], pa.int8()), ["39", "-1", None]),
    (pa.array([2**64 - 1], pa.uint64()), ["18446744073709551615"]),
    (pa.array([39.0, 0.1, -0.0, float("nan"), 1e22, 1e6]), ["39", "0.1", "0", None, "1e+22", "1000000"]),
    (pa.array([0.1, 3.0], pa.float32()), ["0.1", "3"]),
    (pa.array([True, False]), ["true", "false"]),
    (pa.array([decimal.Decimal("39.00"), decimal.Decimal("10.50")], pa.decimal128(9, 2)), ["39", "10.5"]),
    (pa.array([decimal.Decimal("3900")], pa.decimal128(9, 0)), ["3900"]),
    (pa.array([datetime.date(2024, 1, 31)]), ["2024-01-31"]),
    (
        pa.array([datetime.datetime(2024, 1, 31), datetime.datetime(2024, 1, 31, 9, 30)]),
        ["2024-01-31", "2024-01-31 09:30:00"],
    ),
    (pa.array([datetime.datetime(2024, 1, 31)], pa.timestamp("ns", "Europe/Oslo")), ["2024-01-31 00:00:00Z"]),
    (pa.array([" 01", "é"], pa.string_view()), [" 01", "é"]),
    (pa.array([[1, None]]), ["[1, None]"]),
]


@pytest.mark.parametrize(("column", "texts"), SPELLINGS, ids=lambda given: str(getattr(given, "type", "")))
def test_a_value_is_spelled_in_one_way_whatever_its_type(column: pa.Array, texts: list[str | None]) -> None:
    assert spelled(column).to_pylist() == texts
    written = pa.table({"a": pa.array(texts, pa.string())})
    assert digest_of(pa.table({"a": column})) == digest_of(written)
    repeated = pa.chunked_array([pa.concat_arrays([column] * 600)])  # goes through tables of what was seen
    assert digest_of(pa.table({"a": repeated})) == digest_of(pa.concat_tables([written] * 600))
    if not pa.types.is_nested(column.type):
        assert digest_of(pa.table({"a": column.dictionary_encode()})) == digest_of(written)


@pytest.mark.parametrize(("column", "texts"), SPELLINGS, ids=lambda given: str(getattr(given, "type", "")))
def test_the_compiled_digest_is_the_same(
    column: pa.Array, texts: list[str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = digest_of(pa.table({"a": column}))
    monkeypatch.setattr("residua.source.digest._WORTH_COMPILING", 0)
    monkeypatch.setattr("residua.source.digest._MOST_RANGE", 0)
    assert digest_of(pa.table({"a": column})) == plain


def test_the_compiled_digest_is_the_same_for_texts_of_any_length_and_numbers_of_any_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(2)
    texts = ["é" * int(n) + "x" * int(m) for n, m in rng.integers(0, 20, (500, 2))]
    numbers = [-(2**63), 2**63 - 1, 0, 9, 10, -1, None, *map(int, rng.integers(-(2**63), 2**63 - 1, 493))]
    table = pa.table({"a": texts, "b": numbers})
    plain = digest_of(table)
    monkeypatch.setattr("residua.source.digest._WORTH_COMPILING", 0)
    assert (
        digest_of(table)
        == plain
        == digest_of(pa.table({"a": texts, "b": [n if n is None else str(n) for n in numbers]}))
    )


def test_a_uuid_is_text() -> None:
    value = uuid.UUID("12345678-1234-5678-1234-567812345678")
    column = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([value.bytes], pa.binary(16)))
    table = pa.table({"id": column})
    assert digest_of(table) == digest_of(pa.table({"id": [str(value)]}))
    (batch,) = source_of(table).batches(["id"])
    assert batch.to_pydict() == {"id": [str(value)]}


def test_null_nan_and_the_empty_text_are_absent_and_so_is_a_column_of_nothing_else() -> None:
    tables = [{"a": ["x", None]}, {"a": ["x", ""]}, {"a": ["x", None], "b": [None, None]}]
    assert len({digest_of(pa.table(table)) for table in tables}) == 1


def test_wide_whole_numbers_are_spelled_like_narrow_ones() -> None:
    rng = np.random.default_rng(1)
    values = np.concatenate([rng.integers(0, 50, 3000), rng.integers(-(2**62), 2**62, 3000)])
    rng.shuffle(values)
    table = pa.table({"a": values})
    texts = pa.table({"a": table["a"].cast(pa.string())})
    assert digest_of(table, 1000) == digest_of(texts, 777) == digest_of(pl.from_arrow(table).to_arrow(), 5000)


def test_a_querys_fingerprint_does_not_depend_on_the_order_of_its_records(tmp_path: Path) -> None:
    database, _ = duckdb_file(TABLE, tmp_path)
    up, down, fewer = (
        Source.duckdb(database, f"FROM people {clause}").fingerprint()
        for clause in ("ORDER BY age, sex", "ORDER BY income DESC", "WHERE age > 17")
    )
    assert up == down != fewer
