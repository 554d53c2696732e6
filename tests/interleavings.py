"""Whatever is kept beside a ledger, copies of it win nothing: killed, copied, put back and raced in every order.

A world is one ledger, a folder `a`, its copy `b`, and `old`, an earlier state of `a` that may be put back. A scheduler
stops what is done with a folder at each place where something is written (before it and after it), as a kill would, or
does something with the other folder there, as another process would; and runs every schedule of such moves: nothing is
left to luck. After every move, all that any copy ever learned costs together no more than the ledger says.

A door is a kind of world. Each says what can be done, where that writes, and what was learned. The tests run a part of
the schedules of each door, `benchmarks/interleavings.py` all.
"""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, ClassVar
from unittest.mock import patch

import pyarrow as pa

import residua as rs
from residua import files
from residua.errors import ResiduaError
from residua.measurement import job, on_spark, once, persons
from residua.measurement.continual_folder import ContinualFolder
from residua.measurement.persons import Aside
from residua.plans.verifier import composed_cost, priced
from residua.release.folder import Reserved
from residua.session import adapting, measuring
from residua.session.adapting import Adaptation
from residua.session.state import Folder
from residua.source import spark
from tests.laws.sessions import DATA, DOMAIN, ONE, TWO, YOUNG
from tests.toy_spark import DataFrame, Running


class Crash(BaseException):
    """A kill: nothing may handle it."""


class World:
    """One ledger, three folders, and all that was ever learned.

    Args:
        path: an empty folder.
    """

    deeds: ClassVar[tuple[str, ...]]
    writes: ClassVar[tuple[tuple[Any, str], ...]] = ((rs.Ledger, "debit"), (Reserved, "commit"))
    noted: ClassVar[tuple[tuple[Any, str, str], ...]] = ()  # a function that learns, and the method that notes what
    rewound: ClassVar[bool] = False  # whether an earlier state is put back also in the middle of what is done
    budget: ClassVar[rs.ZCDP] = rs.ZCDP(50.0)

    def __init__(self, path: Path) -> None:
        self.path = path
        self.costs = Fraction(0)  # of what was learned, where that adds up
        self.places = 0  # that the latest deed passed
        self.outcomes: Counter[str] = Counter()
        self.begin()
        self.copy("a", "old")

    @property
    def ledger(self) -> rs.Ledger:
        return rs.Ledger(self.path / "ledger")

    def begin(self) -> None:
        """A folder `a`, and the ledger."""
        rs.Ledger(self.path / "ledger", self.budget)
        (self.path / "a").mkdir()

    def act(self, who: str, deed: str) -> None:
        """Does something with a folder."""
        getattr(self, deed)(self.path / who)

    def learned(self) -> Fraction:
        """What all that was ever learned costs together, at least."""
        return self.costs

    # ---- moves

    def do(
        self,
        who: str,
        deed: str,
        point: int | None = None,
        other: tuple[str, int | None] | None = None,
        rewound: tuple[int, int] | None = None,
    ) -> None:
        """Does something with a folder; at a place it is killed, or something is done with the other folder first.

        Or the folder is copied at one place, and the copy put back at a later one.
        """
        passed = itertools.count()

        def at_a_place() -> None:
            self.places = next(passed)
            if rewound is not None and self.places in rewound:
                self.learned()  # whoever puts a copy back has seen what it takes away
                self.copy(*((who, "snapshot") if self.places == rewound[0] else ("snapshot", who)))
            if self.places == point:
                if other is None:
                    raise Crash
                self.do("b" if who == "a" else "a", *other)

        def between(function: Callable[..., Any]) -> Callable[..., Any]:
            def called(*args: Any, **options: Any) -> Any:
                at_a_place()
                result = function(*args, **options)
                at_a_place()
                return result

            return called

        with unpatched(), patched([(owner, name, between) for owner, name in self.writes]):
            ending = self.act_alone(who, deed)
        self.places = next(passed)
        self.outcomes[ending] += 1
        self.judge()

    def act_alone(self, who: str, deed: str) -> str:
        """Does something with a folder, noting what is learned; says how it ended."""
        with patched(self._noting()):
            try:
                self.act(who, deed)
            except ResiduaError:
                return "refused"
            except Crash:
                return "killed"
        return "done"

    def _noting(self) -> list[tuple[Any, str, Callable[..., Any]]]:
        def wrapped(note: Callable[..., None]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
            def noting(function: Callable[..., Any]) -> Callable[..., Any]:
                def called(*args: Any, **options: Any) -> Any:
                    result = function(*args, **options)
                    note(result, *args)
                    return result

                return called

            return noting

        return [(owner, name, wrapped(getattr(self, note))) for owner, name, note in self.noted]

    def copy(self, source: str, target: str) -> None:
        """Puts a copy of one folder in another's place."""
        shutil.rmtree(self.path / target, ignore_errors=True)
        shutil.copytree(self.path / source, self.path / target)

    def judge(self) -> None:
        learned, spent = self.learned(), self.ledger.spent_exactly
        assert learned <= spent, f"learned {float(learned)}, paid {float(spent)}"

    def finish(self, deed: str) -> None:
        """Whatever was left half done, each folder goes on."""
        for who in "ba":
            self.do(who, deed)


_BEFORE: dict[tuple[Any, str], Any] = {}  # what is patched now, as it was before anything was done


@contextmanager
def unpatched() -> Iterator[None]:
    """What is done at a place of something else is stopped at places of its own alone."""
    now = {(owner, name): getattr(owner, name) for owner, name in _BEFORE}
    for (owner, name), function in _BEFORE.items():
        setattr(owner, name, function)
    try:
        yield
    finally:
        for (owner, name), function in now.items():
            setattr(owner, name, function)


@contextmanager
def patched(changes: list[tuple[Any, str, Callable[..., Any]]]) -> Iterator[None]:
    before = {(owner, name): getattr(owner, name) for owner, name, _ in changes}
    own = before.keys() - _BEFORE.keys()
    _BEFORE.update({place: before[place] for place in own})
    for owner, name, change in changes:
        setattr(owner, name, change(getattr(owner, name)))
    try:
        yield
    finally:
        for (owner, name), function in before.items():
            setattr(owner, name, function)
        for place in own:
            del _BEFORE[place]


# ---- doors


class Ledgers(World):
    """The ledger itself: debits and declarations, killed between any two writes of the disk."""

    deeds = ("debit", "declare")
    writes = ((os, "pwrite"), (os, "fsync"), (os, "ftruncate"))

    def begin(self) -> None:
        rs.Ledger(self.path / "ledger", self.budget, dataset="x")
        (self.path / "a").mkdir()

    def debit(self, folder: Path) -> None:
        self.ledger.debit(Fraction(1, 7), purpose="tables", dataset="x")
        self.costs += Fraction(1, 7)  # the data may be read now

    def declare(self, folder: Path) -> None:
        self.ledger.accept(fingerprint=f"{folder.name}", why="corrected")


class Continual(World):
    """A continual release. Of each period one number may be seen, however often."""

    deeds = ("first", "second")  # the two versions of a period's data differ by one record
    writes = ((files, "write_atomically"), (rs.Ledger, "debit"))
    plan = rs.plan(rs.prefixes(rs.Domain({"month": rs.Integers(1, 6)}), "month"), rs.ZCDP(0.5), form=rs.Axis())

    def begin(self) -> None:
        self.seen: dict[int, set[float]] = {}
        start = _begun_stream(self.path.parent)
        shutil.copytree(start, self.path, dirs_exist_ok=True)

    def act(self, who: str, deed: str) -> None:
        with patch.object(ContinualFolder, "plan", lambda _: self.plan):  # pricing takes most of the time
            stream = rs.Continual(self.path / who, ledger=self.path / "ledger")
            if stream.next_period is not None:
                stream.append(_months(int(str(stream.next_period)), 40 + (deed == "second")))

    def learned(self) -> Fraction:
        for who in ("a", "b"):
            if (self.path / who / "released.json").exists():
                body = files.read_document(self.path / who / "released.json", "residua continual release", 1)
                for k, value in enumerate(body["sums"]):
                    self.seen.setdefault(k, set()).add(value)
        return max(map(len, self.seen.values()), default=1) * _price(self.plan)

    def finish(self, deed: str) -> None:
        for who, version in ("b", "second"), ("a", "first"), ("b", "first"), ("a", "second"), ("a", "first"):
            self.do(who, version)


@cache
def _price(plan: rs.Plan) -> Fraction:
    return priced(plan)[1]


def _months(month: int, records: int) -> pa.Table:
    return pa.table({"month": pa.array([month] * records, pa.int64())})


@cache
def _begun_stream(room: Path) -> Path:
    start = Path(tempfile.mkdtemp(dir=room))
    ledger = rs.Ledger(start / "ledger", rs.ZCDP(0.5))
    rs.Continual(start / "a", ledger=ledger, plan=Continual.plan).append(_months(1, 40))
    return start


class Sessions(World):
    """A session. All that was measured costs what it costs together, and every copy can go on."""

    deeds = ("released",)
    writes = (*World.writes, (Folder, "begin_choice"), (Folder, "end_choice"), (Adaptation, "written"))
    noted = ((measuring, "carry_out", "note_release"), (adapting, "scored", "note_scores"))

    def begin(self) -> None:
        self.measured: list[rs.Plan] = []
        rs.Session(DATA, self.budget, ledger=self.path / "ledger", state=self.path / "a")

    def act(self, who: str, deed: str) -> None:
        session = rs.Session(DATA, self.budget, ledger=self.path / "ledger", state=self.path / who)
        getattr(self, deed)(session)

    def note_release(self, release: rs.Release, *_: Any) -> None:
        self.measured.append(release.planned)

    def note_scores(self, _: Any, given: job.Job) -> None:
        self.costs += given.measurements.cost(given.unit)

    def learned(self) -> Fraction:
        return self.costs + (composed_cost(self.measured) if self.measured else 0)

    def released(self, session: rs.Session) -> None:
        session.release(YOUNG)

    def chosen(self, session: rs.Session) -> None:
        choice = session.choice or session.choose({"one": ONE, "two": TWO})
        choice.finish(next(reversed(choice.candidates)))

    def chosen_in_groups(self, session: rs.Session) -> None:
        plans = {
            name: rs.independent(rs.marginals(DOMAIN, [members]), rs.ZCDP(0.5)) for name, members in _GROUPS.items()
        }
        session.choose(plans, by=["sex"]).finish({"F": "both", "M": "age"})

    def adapted(self, session: rs.Session) -> None:
        session.adapt(rs.marginals(DOMAIN, ways=3), rs.ZCDP(0.25))

    def finish(self, deed: str) -> None:
        for who in "ba":
            self.do(who, deed)
        for who in "ab":
            before = self.outcomes["done"]
            self.do(who, "released")
            assert self.outcomes["done"] == before + 1, "a copy cannot go on"
            assert not list((self.path / who).rglob(".*.partial*"))


_GROUPS = {"age": ["age"], "both": ["age", "smokes"]}


class Choices(Sessions):
    """A choice between candidates."""

    deeds = ("chosen",)


class Strata(Sessions):
    """A choice for each group."""

    deeds = ("chosen_in_groups",)


class Adapted(Sessions):
    """A session that spends by itself."""

    deeds = ("adapted",)


class Measured(World):
    """`rs.measure` into a folder."""

    deeds = ("measured",)
    noted = ((job, "noisy_in_portions", "note"),)
    plan = rs.plan(rs.marginals(DOMAIN, ways=1), rs.ZCDP(0.5))

    def measured(self, folder: Path) -> None:
        rs.measure(self.plan, DATA, ledger=self.path / "ledger", out=folder / "out")

    def note(self, _: Any, measurements: Any, *__: Any) -> None:
        self.costs += measurements.price(rs.AddRemove())


class Scored(Measured):
    """`rs.score`, which keeps nothing."""

    deeds = ("scored",)

    def scored(self, folder: Path) -> None:
        rs.score(DOMAIN, {("sex",): [400.0, 500.0]}, DATA, rs.ZCDP(0.1), ledger=self.path / "ledger")


class Looks(World):
    """`rs.records_per_person`, which keeps nothing."""

    deeds = ("looked",)
    noted = ((Aside, "noisy", "note"),)
    writes = ((rs.Ledger, "debit"), (persons, "told_of_debit"))
    data = rs.Source.frame(DATA.append_column("id", pa.array([i // 3 for i in range(len(DATA))])), person="id")

    def begin(self) -> None:
        rs.Ledger(self.path / "ledger", self.budget, unit=rs.Person(records=3))
        (self.path / "a").mkdir()

    def looked(self, folder: Path) -> None:
        rs.records_per_person(self.data, DOMAIN, rs.ZCDP(0.1), ledger=self.path / "ledger")

    def note(self, _: Any, aside: Aside, *__: Any) -> None:
        self.costs += aside.cost


class Executors(World):
    """A release written by Spark's executors: each task may be killed, repeated, or run twice at once.

    Two numbers of one block cost the release twice. What a killed attempt leaves under a name of its own (where files
    without a name do not exist) nobody may read, and is gone when the folder is closed.
    """

    deeds = ("measured", "repeated", "overtaken")
    writes = ((rs.Ledger, "debit"), (once, "_fill"), (once, "_named"), (on_spark, "closed"), (Reserved, "commit"))
    noted = ((on_spark, "write_once", "look"), (on_spark, "closed", "look"))
    rewound = True
    plan = rs.plan(rs.marginals(rs.Domain.of_sizes({"a": 4, "b": 3}), ways=[1, 2]), rs.ZCDP(0.5))
    table = pa.table({"a": [i % 4 for i in range(60)], "b": [i % 3 for i in range(60)]})

    def begin(self) -> None:
        super().begin()
        self.seen: dict[str, set[bytes]] = {}

    def measured(self, folder: Path) -> None:
        """A kill ends the driver, too."""
        self._measured(folder, Running())

    def repeated(self, folder: Path) -> None:
        """A task that is killed is tried again, and every task is run again after it has ended."""
        self._measured(folder, Running((Crash,), twice=True))

    def overtaken(self, folder: Path) -> None:
        """While a task has its noise and no name for its file yet, another attempt of it runs from beginning to end."""
        running, nested, named = Running((Crash,)), [False], once._named

        def overtaken(*args: Any) -> bool:
            if not nested[0]:
                nested[0] = True
                list(running.now())
                nested[0] = False
            return named(*args)

        with patch.object(once, "_named", overtaken):
            self._measured(folder, running)

    def _measured(self, folder: Path, running: Running) -> None:
        frame = DataFrame([lambda: iter(self.table.to_batches())], self.table.column_names, running)
        with patch.object(spark, "_BLOCK_CELLS", 7):
            rs.measure(self.plan, rs.Source.spark(frame), ledger=self.path / "ledger", out=folder / "out")

    def look(self, *_: Any) -> None:
        """Notes every part that can be read anywhere below this world."""
        for part in self.path.glob("[ab]/**/part-*"):
            self.seen.setdefault(part.name, set()).add(part.read_bytes())

    def learned(self) -> Fraction:
        self.look()
        return max(map(len, self.seen.values()), default=0) * _price(self.plan)


class NamedExecutors(Executors):
    """The same where files without a name do not exist."""

    def act(self, who: str, deed: str) -> None:
        with patch.object(once, "_UNNAMED", None):
            super().act(who, deed)


DOORS: dict[str, type[World]] = {
    "ledgers": Ledgers,
    "continual releases": Continual,
    "sessions": Sessions,
    "choices": Choices,
    "choices in strata": Strata,
    "adapted sessions": Adapted,
    "releases": Measured,
    "scores": Scored,
    "records per person": Looks,
    "executors": Executors,
    "executors, named files": NamedExecutors,
}


# ---- schedules

Move = tuple[str, tuple[Any, ...]]  # a method of a world, and what it is called with


@dataclass(frozen=True)
class Schedules:
    """All schedules of a door, of so many moves after the copy was made.

    Args:
        door: its name.
        moves: how many.
    """

    door: str
    moves: int = 1

    def __iter__(self) -> Iterator[tuple[Move, ...]]:
        yield from self.one_after_another()
        yield from self.races()
        yield from self.rewindings()

    def one_after_another(self) -> Iterator[tuple[Move, ...]]:
        """Something is done, as far as a place; a copy is made; moves; then each folder goes on."""
        kind = DOORS[self.door]
        ways: list[tuple[str, int | None]] = [
            (deed, point) for deed in kind.deeds for point in (None, *range(places(self.door, deed)))
        ]
        copies: list[Move] = [("copy", pair) for pair in (("b", "a"), ("old", "a"), ("old", "b"), ("a", "b"))]
        moves: list[Move] = [("do", (who, *way)) for who in "ab" for way in ways] + copies
        beginnings: list[tuple[Move, ...]] = [(), *((("do", ("a", *way)),) for way in ways)]
        for beginning, later in itertools.product(beginnings, itertools.product(moves, repeat=self.moves)):
            yield (*beginning, ("copy", ("a", "b")), *later, ("finish", (kind.deeds[0],)))

    def races(self) -> Iterator[tuple[Move, ...]]:
        """At each place of what one does, another does something, as far as each of its own places."""
        kind = DOORS[self.door]
        if kind is Ledgers:  # its places are within the lock, where others wait
            return
        for deed, other in itertools.product(kind.deeds, kind.deeds):
            for point, until in itertools.product(
                range(places(self.door, deed)), (None, *range(places(self.door, other)))
            ):
                race = ("do", ("a", deed, point, (other, until)))
                yield (("copy", ("a", "b")), race, ("finish", (deed,)))

    def rewindings(self) -> Iterator[tuple[Move, ...]]:
        """In the middle of what is done, an earlier state of its folder is put back."""
        kind = DOORS[self.door]
        for deed in kind.deeds if kind.rewound else ():
            for rewound in itertools.combinations(range(places(self.door, deed)), 2):
                yield ("do", ("a", deed, None, None, rewound)), ("finish", (deed,))


@cache
def places(door: str, deed: str) -> int:
    """How many places something has where it can be stopped."""
    with room() as folder:
        world = DOORS[door](folder)
        world.do("a", deed)
        assert world.outcomes == {"done": 1}, f"{door}: {deed} does not come to its end"
        return world.places


@contextmanager
def room() -> Iterator[Path]:
    """An empty folder on a disk in memory, where one is there: nothing here is about power loss."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield Path(folder)


def run(door: str, schedule: tuple[Move, ...]) -> Counter[str]:
    """Runs one schedule in a world of its own; how what was done ended.

    Raises:
        AssertionError: copies learned more than was paid, or one cannot go on.
    """
    with room() as folder:
        world = DOORS[door](folder)
        try:
            for what, arguments in schedule:
                getattr(world, what)(*arguments)
        except AssertionError as problem:
            raise AssertionError(f"{door}: {schedule}: {problem}") from None
        return world.outcomes
