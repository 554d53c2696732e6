"""What measuring needs is tried before the debit: a library that is broken costs nothing."""

import inspect
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import residua as rs
from residua import disk, machine
from residua.errors import FileError, VerificationError
from residua.machine import compiled
from residua.measurement import job, left_out, noisy as rehearsal, on_spark
from residua.noise import samplers, table
from residua.source import accumulate
from tests.toy_spark import DataFrame

DOMAIN = rs.Domain({"sex": ["F", "M"], "age": rs.Integers(0, 9)})
DATA = pa.table({"sex": ["F", "M"] * 50, "age": list(range(10)) * 10})
WORKLOAD = rs.marginals(DOMAIN, ways=[1, 2])
BUDGETS = {"normal": rs.ZCDP(rho=0.5), "laplace": rs.PureDP(epsilon=1.0)}


def _absent(*args: object, **kwargs: object) -> Any:
    raise AttributeError("'flint.flint_base.flint_context.FlintContext' object has no attribute 'workprec'")


def no_precision(patch: pytest.MonkeyPatch) -> None:
    """As python-flint 0.6 does."""
    patch.setattr(table, "ctx", SimpleNamespace(workprec=_absent))


def no_ball_arithmetic(patch: pytest.MonkeyPatch) -> None:
    """What one draw in 131,072 needs, so that most releases would have passed."""
    patch.setattr(samplers, "_nearest", _absent)


def _refuses(module: str) -> Any:
    raise ImportError("Numba needs NumPy 2.2 or less.")


def no_compiler(patch: pytest.MonkeyPatch) -> None:
    """As Numba does beside a newer NumPy; where there is none, see tests/cli/test_base_install.py."""
    patch.setattr(table, "_evaluate", compiled(inspect.unwrap(table._evaluate)))  # as in a process that just began
    patch.setattr(machine, "load", _refuses)


def wrong_floats(patch: pytest.MonkeyPatch) -> None:
    real = table._evaluate

    def kernel(*args: Any) -> None:
        real(*args)
        args[3][:] += 1.0

    patch.setattr(table, "_evaluate", kernel)


def no_entropy(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(samplers.SystemEntropy, "words", lambda self, count: np.zeros(count, dtype=np.uint64) + 2**63)


BROKEN: list[Callable[[pytest.MonkeyPatch], None]] = [
    no_precision,
    no_ball_arithmetic,
    no_compiler,
    wrong_floats,
    no_entropy,
]


@pytest.mark.parametrize("noise", BUDGETS)
@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.__name__)
def test_a_broken_library_fails_before_the_debit(
    broken: Callable[[pytest.MonkeyPatch], None], noise: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = rs.plan(WORKLOAD, BUDGETS[noise])
    ledger = rs.Ledger(tmp_path / "a.ledger", BUDGETS[noise])
    before = (tmp_path / "a.ledger").read_bytes()
    table.table.cache_clear()
    broken(monkeypatch)
    with pytest.raises(
        VerificationError, match=r"a rehearsal of measuring .* numpy .*python-flint .*; nothing was spent"
    ):
        rs.measure(plan, DATA, ledger=ledger)
    assert (tmp_path / "a.ledger").read_bytes() == before
    monkeypatch.undo()
    table.table.cache_clear()
    rs.measure(plan, DATA, ledger=ledger)  # what was not spent is still there


PEOPLE = DATA.append_column("who", pa.array([number // 5 for number in range(100)]))
SOURCES: dict[str, Callable[[], rs.Source]] = {
    "one machine": lambda: rs.Source.frame(PEOPLE, person="who"),
    "executors": lambda: rs.Source.spark(
        DataFrame([lambda: iter(PEOPLE.to_batches())], PEOPLE.column_names), person="who"
    ),
}


@pytest.mark.parametrize("where", SOURCES)
def test_the_records_left_out_are_rehearsed_before_the_debit_too(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What breaks on their tables alone fails while nothing is spent."""
    plan = rs.plan(WORKLOAD, rs.ZCDP(rho=0.5), unit=rs.Person(records=2))
    ledger = rs.Ledger(tmp_path / "a.ledger", rs.ZCDP(rho=9.0), unit=plan.unit)
    before, beside = (tmp_path / "a.ledger").read_bytes(), list[Any]()
    made, rehearse = job.Job.__init__, rehearsal.rehearse

    def remembering(self: Any, *given: Any, **options: Any) -> None:
        made(self, *given, **options)
        beside.append(self.left_out.measurements)

    def broken(measurements: Any, rows: int | None) -> None:
        rehearse(measurements, rows)
        if any(measurements is each for each in beside):
            raise VerificationError("their tables are too much for this machine.")

    monkeypatch.setattr(job.Job, "__init__", remembering)
    for module in (job, on_spark):
        monkeypatch.setattr(module, "rehearse", broken)
    with pytest.raises(VerificationError, match="too much for this machine"):
        rs.measure(plan, SOURCES[where](), ledger=ledger, out=tmp_path / "out")
    assert (tmp_path / "a.ledger").read_bytes() == before
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("where", SOURCES)
def test_nothing_is_measured_that_was_not_rehearsed(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = rs.plan(WORKLOAD, rs.ZCDP(rho=0.5), unit=rs.Person(records=2))
    ledger = rs.Ledger(tmp_path / "a.ledger", rs.ZCDP(rho=9.0), unit=plan.unit)
    tried, measured, unspent = list[Any](), list[Any](), (tmp_path / "a.ledger").read_bytes()
    rehearse, with_noise = rehearsal.rehearse, left_out.with_noise

    def rehearsed(measurements: Any, rows: int | None) -> None:
        assert (tmp_path / "a.ledger").read_bytes() == unspent
        tried.append(measurements)
        rehearse(measurements, rows)

    def noted(measurements: Any, tables: Any) -> Any:
        measured.append(measurements)
        return with_noise(measurements, tables)

    for module in (job, on_spark):
        monkeypatch.setattr(module, "rehearse", rehearsed)
    monkeypatch.setattr(left_out, "with_noise", noted)
    rs.measure(plan, SOURCES[where](), ledger=ledger, out=tmp_path / "out")
    assert measured
    assert all(any(each is one for one in tried) for each in measured)


def test_wrong_counts_and_integers_are_noticed_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = rs.plan(WORKLOAD, rs.ZCDP(rho=0.5))
    measurements = plan.measurements
    rehearsal.rehearse(measurements, None)
    with monkeypatch.context() as patch:
        patch.setattr(type(measurements), "integers", lambda self, batch, tables: np.ones(3, dtype=np.int64))
        with pytest.raises(VerificationError, match="wrong integers"):
            rehearsal.rehearse(measurements, 100)
    monkeypatch.setattr(accumulate, "add_plainly", lambda *args: None)
    with pytest.raises(VerificationError, match="wrong counts"):
        rehearsal.rehearse(measurements, None)
    rehearsal.rehearse(measurements, 100)  # few rows are counted without the compiled loop


def test_a_rehearsal_takes_no_memory_of_tables_that_it_does_not_touch() -> None:
    domain = rs.Domain.of_sizes({"a": 1000, "b": 1000, "c": 30})
    measurements = rs.plan(rs.marginals(domain, [("a", "b"), ("b", "c")]), rs.ZCDP(rho=0.5)).measurements
    assert rehearsal._tried(measurements).start < measurements.cells
    rehearsal.rehearse(measurements, 100)


def test_the_rehearsed_sampler_is_the_one_that_is_used() -> None:
    assert samplers.rounded is rehearsal.rounded


def test_where_there_are_no_locks_one_sentence_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = rs.Ledger(tmp_path / "there.ledger", rs.ZCDP(rho=1.0))
    plan = rs.plan(WORKLOAD, rs.ZCDP(rho=0.5))
    release = rs.measure(plan, DATA, ledger=there)
    monkeypatch.setattr(disk, "fcntl", None)  # as in a browser: neither POSIX nor Windows
    monkeypatch.setattr(sys, "platform", "emscripten")
    for attempt in (
        lambda: rs.Ledger(tmp_path / "new.ledger", rs.ZCDP(rho=1.0)),
        lambda: rs.measure(plan, DATA, ledger=there),
        lambda: rs.Session(DATA, rs.ZCDP(rho=1.0), ledger=tmp_path / "new.ledger"),
    ):
        with pytest.raises(FileError, match=r"this system \(emscripten\) has no lock .* on Linux, macOS or Windows"):
            attempt()
    assert not (tmp_path / "new.ledger").exists()
    release.save(tmp_path / "release")  # what needs no lock works
    assert rs.Release.load(tmp_path / "release").count().estimate == release.count().estimate


def test_macos_bytes_are_on_the_disk_itself_and_room_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(disk.fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(disk.fcntl, "fcntl", lambda handle, command: asked.append(command))
    monkeypatch.delattr(os, "posix_fallocate")
    ledger = rs.Ledger(tmp_path / "a.ledger", rs.ZCDP(rho=0.5))
    release = rs.measure(rs.plan(WORKLOAD, rs.ZCDP(rho=0.5)), DATA, ledger=ledger)
    assert asked == [51] * 3  # the ledger as it was made; a debit, and its newline
    release.save(tmp_path / "out")
    with (tmp_path / "room").open("wb") as file:
        disk.keep_room(file.fileno(), 2**20 + 5)
    assert (tmp_path / "room").stat().st_size == 2**20 + 5
