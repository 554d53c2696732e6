"""Tables rebuilt in blocks, each from no more measurements than it needs, are those of the whole release."""

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import residua as rs
from residua.errors import PlanError
from residua.formats import on_spark
from residua.formats.about import about
from residua.formats.on_spark import ExportBlocks
from residua.linalg.lattice import closure
from residua.release.parts import PartedIntegers, part_bytes, part_name

DOMAIN = rs.Domain(
    {"a": rs.Integers(0, 3), "one": ["only"], "b": ["x", "y", "z"], "c": rs.Integers(0, 4), "d": ["u", "v"]}
)
ASKED = [(), ("one",), ("b",), ("a", "c"), ("a", "one", "d"), ("b", "c", "d"), ("a", "b", "d")]
PLANS = {
    "normal": rs.plan(rs.marginals(DOMAIN, ASKED), rs.ZCDP(rho=0.5)),
    "some sets": rs.plan(rs.marginals(DOMAIN, [("a", "b"), ("c",)]), rs.ZCDP(rho=0.5)),
    "Laplace": rs.plan(rs.marginals(DOMAIN, ASKED), rs.PureDP(epsilon=1.0)),
    "Laplace, all of two": rs.plan(rs.marginals(DOMAIN, ways=[1, 2]), rs.PureDP(epsilon=1.0)),
}


def released(plan: rs.Plan) -> rs.Release:
    """Noisy integers are any integers."""
    integers = np.random.default_rng(8).integers(-(10**6), 10**6, plan.measurements.cells)
    return rs.Release(plan, plan.measurements, integers)


@pytest.mark.parametrize("name", PLANS)
def test_a_part_of_a_family_is_rebuilt_as_the_whole_is(name: str) -> None:
    release = released(PLANS[name])
    lattice = release.planned.workload.lattice
    for level in lattice.levels:
        family = closure([level[::2]], lattice.attributes)
        seen = 0
        for group, part, tables in release.estimator.part(family).all_marginals():
            for members, table in zip(group.members[part].tolist(), tables, strict=True):
                whole = release.estimator.marginal(tuple(members))
                np.testing.assert_allclose(table, whole, rtol=1e-12, atol=1e-9 * np.abs(whole).max())
                seen += 1
        assert seen == len(family)


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("name", PLANS)
def test_blocks_hold_every_table_once_with_its_error_bars_and_labels(name: str, full: bool) -> None:
    release = released(PLANS[name])
    tables = ExportBlocks(release, 0.9, full, block_cells=5)
    told = about(release.plan, {}, title="People", confidence=0.9, biased=False)
    assert len(tables.blocks) > 1
    found = pa.concat_tables(
        [pq.read_table(pa.BufferReader(tables.block(i, told))) for i in range(len(tables.blocks))]
    ).to_pylist()
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in found:
        pairs = [(row[f"attribute_{j}"], row[f"value_{j}"]) for j in range(1, tables.ways + 1)]
        key = tuple(pair for pair in pairs if pair != (None, None))
        assert row["table"] == (" × ".join(name for name, _ in key) or "total")
        assert key not in rows
        rows[key] = row
    for table in release.tables(confidence=0.9):
        columns = table.columns
        for i in range(len(table)):
            row = rows.pop(tuple((each, str(columns[each][i])) for each in table.attributes))
            for column in ("estimate", "stddev", "lower", "upper"):
                step = 0.0 if full else columns["stddev"][i] / 100
                assert abs(row[column] - columns[column][i]) <= step + 1e-9 * abs(columns[column][i])
    assert not rows


def test_no_more_parts_are_read_than_a_block_needs(tmp_path: Path) -> None:
    release = released(
        rs.plan(rs.marginals(rs.Domain.of_sizes(dict.fromkeys("abcdefgh", 4)), ways=[2]), rs.ZCDP(rho=1))
    )
    starts = [*range(0, release.measurements.cells, 20), release.measurements.cells]
    (tmp_path / "measurements").mkdir()
    for i, first in enumerate(starts[:-1]):
        (tmp_path / part_name(i)).write_bytes(part_bytes(release.noisy[first : starts[i + 1]]))
    digests = {part_name(i): _digest(tmp_path / part_name(i)) for i in range(len(starts) - 1)}
    parts = PartedIntegers(tmp_path, starts, digests)
    lazily = rs.Release(release.planned, release.measurements, parts)  # type: ignore[arg-type]
    tables = ExportBlocks(lazily, block_cells=16)
    told = about(release.plan, {}, title="", confidence=0.95, biased=False)
    tables.block(0, told)
    assert 0 < parts.part.cache_info().misses <= 6 < len(starts) - 1


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_tables_of_another_kind_are_refused() -> None:
    prefixes = rs.plan(rs.prefixes(DOMAIN, "a", by=["b"]), rs.ZCDP(rho=0.5))
    listed = rs.plan(rs.queries(DOMAIN, ["a > 1", "b = 'x'"]), rs.ZCDP(rho=0.5))
    for plan in (prefixes, listed):
        with pytest.raises(PlanError, match="of marginals only"):
            ExportBlocks(released(plan))
    with pytest.raises(PlanError, match="confidence"):
        ExportBlocks(released(PLANS["normal"]), confidence=1.5)


def test_executors_that_see_no_release_or_another_say_so(tmp_path: Path) -> None:
    release = released(PLANS["normal"])
    release.save(tmp_path / "release")
    (tmp_path / "out").mkdir()
    told = about(release.plan, {}, title="", confidence=0.95, biased=False)
    numbers = [pa.record_batch({"block": pa.array([0], pa.int32())})]

    def said(**other: Any) -> str:
        task = on_spark.TablesTask(
            on_spark.own_version(), str(tmp_path / "release"), "0" * 64, str(tmp_path / "out"), told, 0.95, False, 50
        )
        (row,) = on_spark.tables_partition(replace(task, **other), iter(numbers))
        return str(row.column("note")[0].as_py(), "utf-8")

    assert "they see another release as" in said()
    assert "they cannot read the release" in said(release=str(tmp_path / "nowhere"))
    assert "the executors have residua" in said(version="0.0.1")
    assert not list((tmp_path / "out").iterdir())
