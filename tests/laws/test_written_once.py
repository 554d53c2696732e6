"""Files that are written once: whoever is first, whole, and nothing else is ever seen."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import traceback
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import residua as rs
from residua.errors import VerificationError
from residua.linalg.lattice import layout_of
from residua.measurement import on_spark, once
from residua.measurement.on_spark import BlockTask, bare, measured_partition, order_of
from residua.measurement.once import closed, swept, write_once
from residua.release.parts import PartedIntegers, part_name
from residua.source.accumulate import tables_of_layout
from residua.source.digest import Digest
from residua.source.spark import block_bounds
from residua.source.spark_tasks import narrowed, own_version, row_of, sums_of, widened

ways = pytest.mark.parametrize("unnamed", [True, False], ids=["unnamed", "named"])


@pytest.fixture
def _way(unnamed: bool, monkeypatch: Any) -> None:
    if not unnamed:  # as on NFS
        monkeypatch.setattr(once, "_UNNAMED", None)


@ways
@pytest.mark.usefixtures("_way")
def test_of_many_who_write_one_is_first_and_the_others_leave_nothing(tmp_path: Path) -> None:
    contents = [bytes([i]) * 100_000 for i in range(8)]
    for name in "abc":
        with ThreadPoolExecutor(8) as pool:
            done = list(pool.map(lambda content, name=name: write_once(tmp_path / name, content), contents))
        assert done.count(True) == 1
        assert (tmp_path / name).read_bytes() == contents[done.index(True)]
        assert not write_once(tmp_path / name, b"late")
    swept(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [*"abc"]
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o666 & ~_umask()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@ways
def test_whoever_is_killed_before_the_end_leaves_no_second_copy(
    tmp_path: Path, unnamed: bool, monkeypatch: Any
) -> None:
    told = f"""
import os, signal
from pathlib import Path
from residua.measurement import once
if not {unnamed}: once._UNNAMED = None
once._named = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
once.write_once(Path({str(tmp_path / "a")!r}), b"first")
"""
    ended = subprocess.run([sys.executable, "-c", told], check=False)
    assert ended.returncode == -signal.SIGKILL
    left = list(tmp_path.iterdir())
    assert len(left) == (0 if unnamed else 1)
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in left)
    if not unnamed:
        monkeypatch.setattr(once, "_UNNAMED", None)
    assert write_once(tmp_path / "a", b"second")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_bytes() == b"second"


@ways
@pytest.mark.usefixtures("_way")
def test_whoever_still_writes_when_the_folder_is_closed_leaves_nothing(tmp_path: Path, monkeypatch: Any) -> None:
    """As an attempt that Spark gave up but that still runs; also where a part was removed after the job failed."""
    (tmp_path / "open").mkdir()
    fill = once._fill

    def closed_meanwhile(handle: int, content: Any) -> None:
        fill(handle, content)
        if (tmp_path / "open").exists():
            closed(tmp_path / "open", tmp_path / "closed")

    monkeypatch.setattr(once, "_fill", closed_meanwhile)
    with contextlib.suppress(FileNotFoundError):
        assert not write_once(tmp_path / "open" / "a", b"late")
    assert [path.name for path in tmp_path.rglob("*")] == ["closed"]


@pytest.mark.parametrize("most", [0, 200, 255, 256, 70_000, 2**40])
def test_counts_travel_in_as_few_bytes_as_hold_them(most: int) -> None:
    counts = np.array([0, most // 2, most], dtype=np.int64)
    assert np.array_equal(widened(narrowed(counts)), counts)
    assert len(narrowed(counts)) == 1 + 3 * (1 if most < 2**8 else 2 if most < 2**16 else 4 if most < 2**32 else 8)


def parts_of(folder: Path, bounded: bool = False) -> tuple[rs.Plan, BlockTask, np.ndarray]:
    domain = rs.Domain.of_sizes({"a": 4, "b": 3, "c": 5, "d": 2, "e": 3})
    plan = rs.plan(rs.marginals(domain, ways=[1, 2, 3]), rs.ZCDP(rho=1e4))
    measurements = plan.measurements
    tables = tables_of_layout(measurements.counted)
    bounds = block_bounds(tables, 30)
    cells = tuple(int(tables.cells[a:b].sum()) for a, b in pairwise(bounds))
    given = (own_version(), str(folder / "measurements"), Digest().fingerprint, bounded)
    told = BlockTask(*given, bare(measurements), order_of(measurements), bounds, cells)
    counts = np.random.default_rng(1).integers(0, 50, measurements.counted.cells)
    return plan, told, counts


def test_what_the_blocks_measure_is_what_the_whole_measures(tmp_path: Path) -> None:
    plan, told, counts = parts_of(tmp_path)
    whole = counts.copy()
    for batch in plan.measurements.batches():
        plan.measurements.integers(batch, whole)  # in place
    found, scales, start = [], [], 0
    for block, size in enumerate(told.cells):
        part, own = told.part(block), counts[start : start + size].copy()
        assert part.cells == size
        for batch in part.batches():
            part.integers(batch, own)
            scales.append(batch.scales)
        found.append(own)
        start += size
    assert np.array_equal(np.concatenate(found), whole)
    assert np.array_equal(np.sort(np.concatenate(scales)), np.sort(plan.measurements.scales))
    again = layout_of(told.measurements.lattice, told.measurements.sizes, told.measurements.chosen)
    assert again.cells == plan.measurements.cells


def test_blocks_are_measured_once_and_only_of_the_records_that_were_checked(tmp_path: Path) -> None:
    plan, told, counts = parts_of(tmp_path)
    (tmp_path / "measurements").mkdir()
    starts = np.concatenate([[0], np.cumsum(told.cells)])

    def rows(note: bytes = b"") -> Any:
        for block in range(len(told.cells)):
            yield row_of(block, narrowed(counts[starts[block] : starts[block + 1]]), note)

    changed = list(measured_partition(told, rows(b"[1, 5, 5]")))
    assert all(b"changed" in batch.column("note")[0].as_py() for batch in changed)
    assert not list((tmp_path / "measurements").iterdir())
    first = [batch.to_pydict() for batch in measured_partition(told, rows())]
    again = [batch.to_pydict() for batch in measured_partition(told, rows())]  # as a task that is repeated
    assert first == again
    digests = {part_name(i): json.loads(row["note"][0])["sha256"] for i, row in enumerate(first)}
    parts = PartedIntegers(tmp_path, starts.tolist(), digests)
    whole = np.asarray(parts)
    assert np.array_equal(parts[7:95], whole[7:95])
    assert np.array_equal(parts[np.array([[3, 90], [50, -1]])], whole[np.array([[3, 90], [50, -1]])])
    release = rs.Release(plan, plan.measurements, whole)
    total = counts[0]
    assert abs(release.count().estimate - total) < 50 * float(np.sqrt(np.max(plan.variance(()))))


def test_another_residua_measures_nothing_and_no_number_is_in_what_spark_is_told(
    tmp_path: Path, monkeypatch: Any
) -> None:
    _, told, counts = parts_of(tmp_path)
    (tmp_path / "measurements").mkdir()
    first = row_of(0, narrowed(counts[: told.cells[0]]))
    (said,) = measured_partition(replace(told, version="0.0.9"), iter([first]))
    assert b"the executors have residua" in said.column("note")[0].as_py()

    def fails(*_: Any) -> None:
        raise OverflowError(f"{counts[0]} is too large")

    monkeypatch.setattr(on_spark, "with_noise", fails)
    with pytest.raises(VerificationError) as caught:
        list(measured_partition(told, iter([first])))
    assert "".join(traceback.format_exception_only(caught.value)).endswith("cannot measure (OverflowError).\n")
    assert caught.value.__suppress_context__
    assert not list((tmp_path / "measurements").iterdir())


def test_blocks_that_arrive_sorted_are_summed_one_at_a_time() -> None:
    batches = [row_of(-1, b"", b"note"), row_of(0, narrowed(np.array([1, 2])), b"x"), row_of(0, b"", b"y")]
    batches += [row_of(1, narrowed(np.array([300])))]
    found = [(block, counts.tolist(), notes) for block, counts, notes in sums_of((2, 1), iter(batches))]
    assert found == [(-1, [], [b"note"]), (0, [1, 2], [b"x", b"y"]), (1, [300], [])]
