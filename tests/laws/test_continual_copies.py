"""Copies of a continual release's folder win nothing: crashed, copied, put back and raced in every order.

A world is one ledger and two folders, `a` and its copy `b`. A scheduler stops an append at each place where something
is written (before it and after it), as a kill would, and runs every sequence of moves: nothing is left to luck.
Whatever happened, all that both folders ever released of one period is one number, and the ledger was debited once.

Here each world has one move between its beginning and its end, and 378 worlds are tried; RESIDUA_MOVES=2 tries 6,468.
"""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from pathlib import Path

import pyarrow as pa
import pytest

import residua as rs
from residua import files
from residua.errors import LedgerError
from residua.measurement.continual_folder import ContinualFolder

DOMAIN = rs.Domain({"month": rs.Integers(1, 6)})
PLAN = rs.plan(rs.prefixes(DOMAIN, "month"), rs.ZCDP(0.5), form=rs.Axis())
FIRST, SECOND = 1, 2  # the two versions of a month's data differ by one record
MOVES_EACH = int(os.environ.get("RESIDUA_MOVES", "1"))
POINTS = range(6)  # before and after each of three writes: the noise, the ledger's line, what is released
BEGINNINGS = (None, *POINTS)  # the copy is made at rest, or of what a crash left


def data(month, version):
    return pa.table({"month": pa.array([month] * (40 + version), pa.int64())})


class Crash(BaseException):
    """A kill: nothing may handle it."""


class World:
    """One ledger, two folders, and all that they ever released."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path, self.patch = path, monkeypatch
        self.seen: dict[int, set[float]] = {}
        self.stops = 0

    def opened(self, who):
        return rs.Continual(self.path / who, ledger=self.path / "ledger")

    def append(self, who, version, point=None, then=None):
        """Appends the next month; at a place it crashes, or something else happens first."""
        passed = itertools.count()

        def at_a_place():
            if next(passed) == point:
                self.stops += 1
                if then is None:
                    raise Crash
                then()

        with self.patch.context() as patch:
            for owner, name in ((files, "write_atomically"), (rs.Ledger, "debit")):
                patch.setattr(owner, name, between(getattr(owner, name), at_a_place))
            try:
                stream = self.opened(who)
                if stream.next_period is not None:
                    stream.append(data(stream.next_period, version))
            except (LedgerError, Crash):
                pass
        self.look(who)

    def copy(self, source, target):
        shutil.rmtree(self.path / target, ignore_errors=True)
        shutil.copytree(self.path / source, self.path / target)

    def look(self, who):
        """Notes what is in a folder, which is what its owner may have published."""
        body = files.read_document(self.path / who / "released.json", "residua continual release", 1)
        for k, value in enumerate(body["sums"]):
            self.seen.setdefault(k, set()).add(value)

    def judge(self):
        assert all(len(values) == 1 for values in self.seen.values()), self.seen
        assert len([entry for entry in rs.Ledger(self.path / "ledger").entries if entry.cost > 0]) == 1


def between(function, place):
    def called(*args, **options):
        place()
        result = function(*args, **options)
        place()
        return result

    return called


@pytest.fixture(scope="module")
def begun():
    """A release with one month, on a disk in memory, where one is there: nothing here is about power loss."""
    room = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=room) as folder:
        start = Path(folder) / "start"
        start.mkdir()
        rs.Continual(start / "a", ledger=rs.Ledger(start / "ledger", rs.ZCDP(0.5)), plan=PLAN).append(data(1, FIRST))
        with pytest.MonkeyPatch.context() as patch:  # pricing the plan at every opening would take most of the time
            patch.setattr(ContinualFolder, "plan", lambda _: PLAN)
            yield Path(folder)


def world(begun, monkeypatch, beginning):
    path = begun / "world"
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(begun / "start", path)
    tried = World(path, monkeypatch)
    if beginning is not None:
        tried.append("a", FIRST, beginning)
        assert tried.stops == 1
    tried.copy("a", "b")
    return tried


def finished(tried):
    """Whatever was left half done, each folder tries with both versions of the data, and goes on."""
    for who, version in (("b", SECOND), ("a", FIRST), ("b", FIRST), ("a", SECOND), ("a", FIRST), ("b", FIRST)):
        tried.append(who, version)
    tried.judge()


MOVES = [
    *(("append", who, version, point) for who in "ab" for version in (FIRST, SECOND) for point in (None, *POINTS)),
    ("copy", "a", "b"),
    ("copy", "b", "a"),
]


@pytest.mark.parametrize("beginning", BEGINNINGS)
def test_crashes_copies_and_rollbacks_in_every_order_release_one_number_per_period(begun, monkeypatch, beginning):
    for moves in itertools.product(MOVES, repeat=MOVES_EACH):
        tried = world(begun, monkeypatch, beginning)
        for what, *arguments in moves:
            getattr(tried, what)(*arguments)
        finished(tried)


@pytest.mark.parametrize("beginning", BEGINNINGS)
def test_copies_that_race_release_one_number_per_period(begun, monkeypatch, beginning):
    for point, first, second in itertools.product(POINTS, (FIRST, SECOND), (FIRST, SECOND)):
        tried = world(begun, monkeypatch, beginning)
        tried.append("a", first, point, then=lambda tried=tried, second=second: tried.append("b", second))
        finished(tried)
