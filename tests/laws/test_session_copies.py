"""Copies of a session's folder win nothing: crashed, copied, put back and raced in every order.

A world is one ledger and three folders: `a`, its copy `b`, and `old`, an earlier state of `a` that may be put back. A
scheduler stops what a session does at each place where something is written (before it and after it), as a kill would,
and runs every sequence of moves: nothing is left to luck. Whatever happened, all that was ever measured by any copy,
kept or not, costs together no more than the ledger was debited; and every copy can go on.

Here each world has one move of a few between its beginning and its end; RESIDUA_MOVES=2 tries all pairs of all moves.
"""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from fractions import Fraction
from pathlib import Path

import pytest

import residua as rs
from residua.errors import ResiduaError
from residua.plans.verifier import composed_cost
from residua.release.folder import Reserved
from residua.session import adapting, measuring
from residua.session.adapting import Adaptation
from residua.session.state import Folder
from tests.laws.sessions import DATA, DOMAIN, ONE, TWO, YOUNG

MOVES_EACH = int(os.environ.get("RESIDUA_MOVES", "1"))
BUDGET = rs.ZCDP(50.0)
WRITES = (
    (rs.Ledger, "debit"),
    (Reserved, "commit"),
    (Folder, "begin_choice"),
    (Folder, "end_choice"),
    (Adaptation, "written"),
)


def released(session):
    session.release(YOUNG)


def chosen(session):
    choice = session.choice or session.choose({"one": ONE, "two": TWO})
    choice.finish(next(reversed(choice.candidates)))


def chosen_in_groups(session):
    one, two = (rs.independent(rs.marginals(DOMAIN, [names]), rs.ZCDP(0.5)) for names in (["age"], ["age", "smokes"]))
    choice = session.choose({"age": one, "both": two}, by=["sex"])
    choice.finish({"F": "both", "M": "age"})


def adapted(session):
    session.adapt(rs.marginals(DOMAIN, ways=3), rs.ZCDP(0.25))


DEEDS = {deed.__name__: deed for deed in (released, chosen, chosen_in_groups, adapted)}
POINTS = {"released": 4, "chosen": 12, "chosen_in_groups": 12, "adapted": 16}  # before and after each write


class Crash(BaseException):
    """A kill: nothing may handle it."""


class World:
    """One ledger, three folders, and all that any of them ever measured."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path, self.patch = path, monkeypatch
        self.measured: list[rs.Plan] = []
        self.scored = Fraction(0)
        self.stops = 0

    def do(self, who, deed, point=None, then=None):
        """Does something with a folder; at a place it crashes, or something else happens first."""
        passed = itertools.count()

        def at_a_place():
            if next(passed) == point:
                self.stops += 1
                if then is None:
                    raise Crash
                then()

        def noted(*args, **options):
            release = CARRY_OUT(*args, **options)
            self.measured.append(release.planned)
            return release

        def noted_scores(job):
            scores = SCORED(job)
            self.scored += job.measurements.cost(job.unit)
            return scores

        with self.patch.context() as patch:
            for owner, name in WRITES:
                patch.setattr(owner, name, between(getattr(owner, name), at_a_place))
            patch.setattr(measuring, "carry_out", noted)
            patch.setattr(adapting, "scored", noted_scores)
            try:
                DEEDS[deed](self.opened(who))
            except (ResiduaError, Crash) as problem:
                result = problem
            else:
                result = None
        self.judge()
        return result

    def opened(self, who):
        return rs.Session(DATA, BUDGET, ledger=self.path / "ledger", state=self.path / who)

    def copy(self, source, target):
        shutil.rmtree(self.path / target, ignore_errors=True)
        shutil.copytree(self.path / source, self.path / target)

    def judge(self):
        learned = composed_cost(self.measured) if self.measured else Fraction(0)
        assert learned + self.scored <= rs.Ledger(self.path / "ledger").spent_exactly


CARRY_OUT, SCORED = measuring.carry_out, adapting.scored


def between(function, place):
    def called(*args, **options):
        place()
        result = function(*args, **options)
        place()
        return result

    return called


@pytest.fixture(scope="module")
def room():
    """A disk in memory, where one is there: nothing here is about power loss."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield Path(folder)


def world(room, monkeypatch, deed, point):
    """A session with one part, which was copied; then it did something, as far as a place, and was copied again."""
    path = room / "world"
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    tried = World(path, monkeypatch)
    tried.opened("a")
    tried.copy("a", "old")
    if deed is not None:
        tried.do("a", deed, point)
    tried.copy("a", "b")
    return tried


def finished(tried, deed):
    """Whatever was left half done, each folder goes on, and comes to its end."""
    for who in "ba":
        tried.do(who, deed)
    for who in "ab":
        assert tried.do(who, "released") is None
        assert not list((tried.path / who).rglob(".*.partial*"))


BEGINNINGS = [(None, None), *((deed, point) for deed, places in POINTS.items() for point in (None, *range(places)))]
MOVES = [("copy", "old", "a"), ("copy", "b", "a"), ("do", "b", "chosen")]
MORE_MOVES = [*(("do", who, deed) for who in "ab" for deed in POINTS), ("copy", "old", "b")]


@pytest.mark.parametrize("deed", POINTS)
def test_every_place_of_a_deed_is_tried(room, monkeypatch, deed):
    for point, stops in ((POINTS[deed] - 1, 1), (POINTS[deed], 0)):
        tried = world(room, monkeypatch, None, None)
        tried.do("a", deed, point)
        assert tried.stops == stops


@pytest.mark.parametrize(("deed", "point"), BEGINNINGS)
def test_all_that_copies_learn_in_any_order_is_paid_for(room, monkeypatch, deed, point):
    tried_here = MOVES[:1] if deed == "adapted" else MOVES  # which takes half a second each time
    for moves in itertools.product(tried_here if MOVES_EACH == 1 else MOVES + MORE_MOVES, repeat=MOVES_EACH):
        tried = world(room, monkeypatch, deed, point)
        for what, *arguments in moves:
            getattr(tried, what)(*arguments)
        finished(tried, deed or "chosen")


@pytest.mark.parametrize("deed", POINTS)
def test_all_that_copies_learn_in_a_race_is_paid_for(room, monkeypatch, deed):
    for point in range(0, POINTS[deed], 5 if deed == "adapted" and MOVES_EACH == 1 else 1):
        tried = world(room, monkeypatch, None, None)
        tried.do("a", deed, point, then=lambda tried=tried: tried.do("b", deed))
        assert tried.stops == 1
        finished(tried, deed)
