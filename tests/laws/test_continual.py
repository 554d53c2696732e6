"""A time axis released as it grows: paid once, one number per period with the plan's own law, also when interrupted."""

from __future__ import annotations

import datetime
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import chi2

import residua as rs
from residua.errors import FileError, LedgerError, PlanError, SourceError
from residua.measurement.continual_folder import plan_mark, standing
from residua.noise import correlated
from residua.noise.correlated import Drawn, begun, rounded_so_far
from tests.cli.command import inside
from tests.statistics.copies import unlike

DOMAIN = rs.Domain({"month": rs.Integers(1, 12)})
PLAN = rs.plan(rs.prefixes(DOMAIN, "month"), rs.ZCDP(0.5), form=rs.Axis())
(PIECE,) = PLAN.measurements.pieces
NOISE, GRID = PIECE.sampled, PIECE.grid


def of_month(month, count):
    return pa.table({"month": pa.array([month] * count, pa.int64())})


def opened(tmp_path, **options):
    path = tmp_path / "ledger"
    ledger = rs.Ledger(path) if path.exists() else rs.Ledger(path, rs.ZCDP(0.5))
    return rs.Continual(tmp_path / "stream", ledger=ledger, **options)


def noise_of(stream):
    """The normals that the ledger names."""
    return standing(stream._folder, stream.ledger, plan_mark(PLAN)).drawn


def test_it_is_paid_once_and_every_running_sum_is_as_stated(tmp_path):
    stream = opened(tmp_path, plan=PLAN)
    spent = stream.ledger.spent_exactly
    assert 0 < spent <= 1
    whole = pa.table({"month": [m for m in range(1, 13) for _ in range(10 * m)]})
    seen = [stream.append(whole if month % 2 else of_month(month, 10 * month)) for month in range(1, 6)]
    truth = np.cumsum([10 * month for month in range(1, 6)])
    again = opened(tmp_path)
    assert again.periods == 5
    assert again.next_period == 6
    assert stream.ledger.spent_exactly == spent
    table = again.cumulative()
    assert [each.estimate for each in seen] == pytest.approx(table.columns["estimate"], abs=0.01)
    stated = np.sqrt(PLAN.variances(rs.prefixes(DOMAIN, "month")))[:5]
    assert [each.stddev for each in seen] == pytest.approx(stated)
    assert np.abs((np.array([each.estimate for each in seen]) - truth) / stated).max() < 6
    part = again.count(2, 4)
    assert part.stddev == pytest.approx(PLAN.variance({"month": rs.between(2, 4)}) ** 0.5)
    assert part.estimate == pytest.approx(seen[3].estimate - seen[0].estimate)
    assert again.counts().columns["estimate"].sum() == pytest.approx(seen[-1].estimate, abs=0.1)
    assert (tmp_path / "stream" / "confidential-noise.json").stat().st_mode & 0o077 == 0
    assert "confidential" in repr(begun(NOISE))
    for month in range(6, 13):
        stream.append(of_month(month, 3))
    assert stream.next_period is None
    with pytest.raises(PlanError, match="all 12 periods"):
        stream.append(of_month(12, 1))


def test_the_noise_of_a_period_never_changes_and_all_have_the_law_of_one_release(monkeypatch):
    noise, runs = NOISE, 400
    drawn, known = begun(noise), np.zeros(0, dtype=np.int64)
    for k in range(12):
        drawn = drawn.extended()
        found, drawn = rounded_so_far(noise, GRID, drawn)
        assert np.array_equal(found[:k], known)
        known = found
    with monkeypatch.context() as patch:
        patch.setattr(correlated, "UNDECIDED", 0.4)  # as if floats left most of them open
        found, more = rounded_so_far(noise, GRID, drawn)
        assert np.array_equal(found, known)
        assert more.more
        found, again = rounded_so_far(noise, GRID, more)
        assert again.more == more.more
    assert np.array_equal(rounded_so_far(noise, GRID, more)[0], known)
    words = np.random.default_rng(0).integers(0, 2**64, (runs, len(noise.poles), 13), dtype=np.uint64)
    draws = np.array([rounded_so_far(noise, GRID, Drawn(each))[0] for each in words]) / GRID
    stated = PLAN.covariance(rs.prefixes(DOMAIN, "month"))
    squares = np.einsum("ri,ij,rj->", draws, np.linalg.inv(stated), draws)
    assert chi2.ppf(1e-6, 12 * runs) < squares < chi2.isf(1e-6, 12 * runs)
    distance, pairs = unlike(draws, stated)
    assert chi2.ppf(1e-6, pairs) * 0.8 < distance < chi2.isf(1e-6, pairs) * 1.2


CRASH = """
    import os, signal, sys
    import pyarrow as pa, residua as rs
    from residua.measurement import continual_folder
    done = 0
    def counted(function):
        def called(*args, **options):
            global done
            done += 1
            if done == stop:
                os.kill(os.getpid(), signal.SIGKILL)
            found = function(*args, **options)
            done += 1
            if done == stop:
                os.kill(os.getpid(), signal.SIGKILL)
            return found
        return called
    def run(folder):
        os.mkdir(folder)
        stream = rs.Continual(folder + "/stream", ledger=rs.Ledger(folder + "/ledger", rs.ZCDP(0.5)), plan=plan)
        stream.append(pa.table({"month": [1] * 40}))
        stream.append(pa.table({"month": [2] * 40}))
    plan, stop = rs.Plan.load(sys.argv[1] + "/plan.json"), 0
    run(sys.argv[1] + "/whole")  # loads what every other run needs, once
    continual_folder.write_document = counted(continual_folder.write_document)
    rs.Ledger.debit = counted(rs.Ledger.debit)
    for stop in range(1, 1 + int(sys.argv[2])):
        child = os.fork()
        if not child:
            run(f"{sys.argv[1]}/{stop}")
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
STOPS = 18


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """A folder for every place to be killed at, each left by a process that was, or went through."""
    folder = tmp_path_factory.mktemp("killed")
    PLAN.save(folder / "plan.json")
    command = [sys.executable, "-c", textwrap.dedent(CRASH), str(folder), str(STOPS + 1)]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    return folder, [int(line) for line in ended.stdout.split()]


def test_every_place_to_be_killed_at_is_tried(killed):
    assert killed[1] == [-signal.SIGKILL] * STOPS + [0]


@pytest.mark.parametrize("stop", range(1, STOPS + 1))
def test_it_survives_being_killed_anywhere(killed, stop):
    tmp_path = killed[0] / str(stop)
    before = None
    if (tmp_path / "stream" / "confidential-noise.json").exists() and stop > 4:
        before = noise_of(opened(tmp_path, plan=PLAN))
    stream = opened(tmp_path, plan=PLAN)
    for month in range(stream.periods + 1, 4):
        stream.append(of_month(month, 40))
    assert len([entry for entry in stream.ledger.entries if entry.cost > 0]) == 1
    assert [entry.detail["period"] for entry in stream.ledger.entries if not entry.cost] == [0, 1, 2]
    found = stream.cumulative()
    assert np.abs((found.columns["estimate"] - [40, 80, 120]) / found.columns["stddev"]).max() < 6
    if before is not None:  # normals that the ledger named are never drawn again
        assert np.array_equal(noise_of(stream).words[:, : before.words.shape[1]], before.words)


def test_an_old_copy_of_the_folder_and_other_ledgers_are_refused(tmp_path):
    stream = opened(tmp_path, plan=PLAN)
    shutil.copytree(tmp_path / "stream", tmp_path / "copy")
    stream.append(of_month(1, 5))
    with pytest.raises(LedgerError, match="older than its ledger"):
        rs.Continual(tmp_path / "copy", ledger=stream.ledger)
    with pytest.raises(LedgerError, match="did not pay"):
        rs.Continual(tmp_path / "stream", ledger=rs.Ledger(tmp_path / "other", rs.ZCDP(0.5)))
    other = rs.plan(rs.prefixes(DOMAIN, "month"), rs.ZCDP(0.25), form=rs.Axis())
    with pytest.raises(FileError, match="another continual release"):
        opened(tmp_path, plan=other)
    with pytest.raises(LedgerError, match="another dataset"):
        rs.Continual(tmp_path / "second", ledger=stream.ledger, plan=PLAN)


def test_what_cannot_be_continual_is_said_before_anything_is_spent(tmp_path):
    ledger = rs.Ledger(tmp_path / "ledger", rs.ZCDP(0.5))
    with pytest.raises(PlanError, match="one axis"):
        rs.Continual(tmp_path / "a", ledger=ledger, plan=rs.plan(rs.marginals(DOMAIN, ways=1), rs.ZCDP(0.5)))
    person = rs.plan(rs.prefixes(DOMAIN, "month"), rs.ZCDP(0.5), form=rs.Axis(), unit=rs.Person(records=2))
    with pytest.raises(PlanError, match="AddRemove"):
        rs.Continual(tmp_path / "a", ledger=ledger, plan=person)
    with pytest.raises(FileError, match="no continual release"):
        rs.Continual(tmp_path / "a", ledger=ledger)
    assert not ledger.entries
    stream = rs.Continual(tmp_path / "a", ledger=ledger, plan=PLAN)
    with pytest.raises(SourceError):
        stream.append(of_month(13, 2))
    assert stream.periods == 0
    with pytest.raises(PlanError, match="released"):
        stream.count(1, 2)
    if os.geteuid():
        (tmp_path / "a").chmod(0o500)
        with pytest.raises(FileError):
            stream.append(of_month(1, 2))


def test_a_period_that_is_not_the_next_is_refused_whatever_the_data_holds(tmp_path):
    stream = opened(tmp_path, plan=PLAN)
    for data in (of_month(1, 5), of_month(2, 5), tmp_path / "nothing.csv", object()):
        with pytest.raises(PlanError, match=r"period='2' is not the next one, which is '1'; nothing was read"):
            stream.append(data, period=2)
    assert stream.periods == 0
    assert len(stream.ledger.entries) == 1
    stream.append(of_month(1, 5), period=1)
    stream.append(of_month(2, 5), period="2")
    assert stream.next_period == 3
    days = rs.Domain({"day": rs.Dates("2024-01-01", "2024-01-03")})
    plan = rs.plan(rs.prefixes(days, "day"), rs.ZCDP(0.5), form=rs.Axis())
    other = rs.Continual(tmp_path / "days", ledger=rs.Ledger(tmp_path / "other", rs.ZCDP(0.5)), plan=plan)
    other.append(pa.table({"day": ["2024-01-01"]}), period=datetime.date(2024, 1, 1))
    assert other.next_period == "2024-01-02"


def test_the_command_begins_appends_and_shows(tmp_path):
    PLAN.save(tmp_path / "plan.json")
    months = [tmp_path / f"{month}.csv" for month in (1, 2)]
    for month, path in enumerate(months, start=1):
        path.write_text("month\n" + f"{month}\n" * 50)
    common = ["continual", str(tmp_path / "s"), "--ledger", str(tmp_path / "l")]
    runs = [[*common, "--plan", str(tmp_path / "plan.json")], [*common, "--append", str(months[0])]]
    runs.append([*common, "--append", str(months[1]), "--json"])
    ended = [inside(*run, cwd=tmp_path) for run in runs]
    assert [one.code for one in ended] == [0, 0, 0]
    printed = [one.out for one in ended]
    assert "0 of 12 periods" in printed[0]
    assert "next: 2" in printed[1]
    assert '"periods": 2' in printed[2]
    for first, second in pairwise(printed):
        assert first != second
