"""What planning with matrices will take, said before it starts: seconds and memory, from sizes alone.

The work of a planner is that of so many eigenvalue problems. How long one takes on this machine is measured once, on a
small one; constants are from measured plans, and a single workload may take several times as long, or a fraction of it.

Long planning that can be watched and stopped: the work runs in parallel while the caller waits for its messages.

Linear algebra runs for minutes in one call, during which Python serves no signal. On Linux the work is done by a copy
of the process, so that Ctrl-C ends it at once, whatever it is doing; elsewhere by a thread, which is then abandoned.
Nothing is written or spent while planning, so that nothing is left half done.
"""

from __future__ import annotations

import io
import math
import multiprocessing
import pickle
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar, cast

import numpy as np

from residua.errors import LongWarning, PlanError
from residua.plans.contract import Plan
from residua.plans.planners.offers import Forecast
from residua.plans.saddle import Progress
from residua.workload import Workload

_USUAL = 1e-9  # seconds per n³ of an n × n eigenvalue problem: enough to tell what is short for certain
_SHORT = 1.0
_TALL = 8  # times as many queries as cells: then only their Gram matrix counts
_LONG_AXIS = 512  # values from which noise is correlated along an axis
_NEWTON = 6000  # queries and cells up to which a Newton system is written out


def forecast(workload: Workload, *, pure: bool = False, maximum: bool = False) -> Forecast:
    """What planning for a workload will take.

    Args:
        workload: what is asked.
        pure: whether for Laplace noise.
        maximum: whether the largest variance counts, not their sum.
    """
    if workload.plain:
        return Forecast(0.0, 0.0, "marginals")
    if workload.with_rows and not pure:
        sizes = _searched(workload)
        work = float(sum(n**3 for n in sizes)) * (400.0 if maximum else 100.0)
        longest = max(sizes, default=0.0)
        what = f"products over up to {longest:,.0f} values"
        return Forecast(_seconds(work), 30 * 8.0 * longest**2, what, longest, _without_others(workload))
    cells, queries = _shape(workload)
    if pure:
        work = 8e5 * cells**2 + 800.0 * cells**3
    else:
        work = (30.0 if maximum else 15.0) * min(queries, _TALL * cells) * cells * min(queries, cells)
    written = queries + cells if queries + cells <= _NEWTON else 0.0
    needed = 8.0 * (16 * queries * cells + 3 * written**2)
    return Forecast(_seconds(work), needed, f"{queries:,.0f} queries over {cells:,.0f} cells")


def side_of(workload: Workload) -> float:
    """How many rows the matrices have that are decomposed to plan a workload, about."""
    if not workload.tabular:
        return float(math.prod(workload.shape))
    return 1.0 if workload.plain else float(max(workload.shape, default=1))


def _searched(workload: Workload) -> list[float]:
    """The sizes of attributes whose strategy is searched for; those asked alike share one search."""
    sizes = {}
    for i, n in enumerate(workload.domain.sizes.tolist()):
        asked = frozenset(family.queries[i] for family in workload.families if i in family.used)
        if not all(one.plain for one in asked):
            sizes[asked] = float(n)
    return list(sizes.values())


def _without_others(workload: Workload) -> str:
    """What is said of long ordered attributes that are planned by matrices for their cell of other values alone."""
    domain = workload.domain
    for i, name in enumerate(domain.names):
        asked = [family.queries[i] for family in workload.families if i in family.used]
        ordered = any(each.kind in ("prefixes", "ranges") for each in asked)
        if ordered and domain[name].has_other and int(domain.sizes[i]) > _LONG_AXIS:
            return (
                f" ({name!r} has a cell for other values, which takes matrices; with unknown and missing values "
                "refused or dropped instead, its order is planned in seconds)"
            )
    return ""


def _shape(workload: Workload) -> tuple[float, float]:
    """How many distinct cells and how many queries."""
    if workload.with_rows:
        return math.prod(map(float, workload.shape)), float(workload.queries)
    return float(distinct_cells(workload)), float(workload.queries)


def distinct_cells(workload: Workload) -> int:
    """How many cells listed queries distinguish, about."""
    probe = np.random.default_rng(0).standard_normal(workload.queries)
    return len(np.unique(workload.matrix.T @ probe))  # equal columns, equal sums


def _seconds(work: float) -> float:
    return work * (_unit() if work * _USUAL > _SHORT else _USUAL)


@cache
def _unit() -> float:
    """Seconds per n³ of an eigenvalue problem on this machine."""
    n = 300
    A = np.random.default_rng(0).standard_normal((n, n))
    A, times = A + A.T, []
    for _ in range(3):
        start = time.perf_counter()
        np.linalg.eigh(A)
        times.append(time.perf_counter() - start)
    return min(times) / n**3


# ---- long planning that can be watched and stopped


P = TypeVar("P", bound=Plan)
Watcher = Callable[[float], object]
LONG = 5.0  # seconds: what takes less is done on the spot, in calls of well below a second
WORTH_SAYING = 20.0
_PAUSE = 0.1  # seconds between two looks
_PARENT_DEATH = 1  # PR_SET_PDEATHSIG of prctl
_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)
_beside = False  # whether this process is a copy that does such work


@contextmanager
def watched(watcher: Watcher) -> Iterator[None]:
    """Calls the watcher, during long planning, with the share of the predicted time that has passed."""
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)


def attends(ahead: Forecast) -> bool:
    """Whether this is long enough to be done in parallel, and can be."""
    here = threading.current_thread() is threading.main_thread() and not multiprocessing.current_process().daemon
    return ahead.seconds >= LONG and not _beside and here


def attended(
    work: Callable[[Progress | None], P], ahead: Forecast, progress: Progress | None, shared: Sequence[object] = ()
) -> P:
    """What the work makes, with its progress, its warnings and its errors as if it were done here.

    Args:
        work: makes a plan, and reports its progress.
        ahead: what it will take; said first if it is much.
        progress: called with what the work reports.
        shared: what the plan has in common with what is here, such as its domain: it is not sent from process to
            process, and stays one.

    Raises:
        KeyboardInterrupt: at once, when the user asks for it; the work is ended.
    """
    asked_to_stop = threading.Event()
    before = signal.signal(signal.SIGINT, lambda *_: asked_to_stop.set())  # an exception could be lost on its way
    try:
        if ahead.seconds >= WORTH_SAYING:
            warnings.warn(f"{ahead}; Ctrl-C stops it.", LongWarning, stacklevel=3)
        return _waited_for(work, ahead, progress, shared, asked_to_stop)
    finally:
        signal.signal(signal.SIGINT, before)


def _waited_for(
    work: Callable[[Progress | None], P],
    ahead: Forecast,
    progress: Progress | None,
    shared: Sequence[object],
    asked_to_stop: threading.Event,
) -> P:
    """What the work makes; the watcher is called after every pause."""
    watcher, started = _watcher.get(), time.monotonic()
    with closing(_messages(work, shared)) as messages:
        for message in messages:
            if asked_to_stop.is_set():
                raise KeyboardInterrupt
            if message is None:
                if watcher is not None:
                    watcher(min((time.monotonic() - started) / ahead.seconds, 0.99))
            elif message.plan is not None:
                for warning in message.warnings:
                    warnings.warn(warning, stacklevel=4)
                return message.plan.replaced()  # type: ignore[no-any-return]  # so that its arrays are read-only
            elif message.failure is not None:
                raise message.failure
            elif progress is not None:
                progress(*message.progress)
    raise PlanError("planning was ended from outside, as when memory runs out; ask for fewer or smaller tables.")


@dataclass(frozen=True)
class _Message:
    """What the work says: progress, or how it ended."""

    progress: tuple[int, float] = (0, 0.0)
    plan: Any = None
    failure: BaseException | None = None
    warnings: list[Warning] = field(default_factory=list)


def _done(work: Callable[[Progress | None], Plan], send: Callable[[_Message], None]) -> None:
    """Does the work and reports how it went."""
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            plan = work(lambda rounds, gap: send(_Message(progress=(rounds, float(gap)))))
        send(_Message(plan=plan, warnings=[one.message for one in caught if isinstance(one.message, Warning)]))
    except BaseException as problem:  # whatever it is, it is raised where the plan was asked for
        send(_Message(failure=problem))


def _messages(work: Callable[[Progress | None], Plan], shared: Sequence[object]) -> Generator[_Message | None]:
    """The messages of work done elsewhere, and None after every pause.

    Closing it kills a copy of the process, and ends a thread at its next report.
    """
    copied = sys.platform == "linux"
    context = multiprocessing.get_context("fork" if copied else None)
    ours, theirs = context.Pipe(duplex=False)

    def beside() -> None:
        if copied:
            _alone()
            ours.close()
        with suppress(OSError), theirs:  # nobody listens any more
            _done(work, lambda message: theirs.send_bytes(_packed(message, shared)))

    worker: Any = context.Process if copied else threading.Thread
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of copies of processes with threads
        worker = worker(target=beside, daemon=True)
        worker.start()
    if copied:
        theirs.close()
    try:
        while True:
            yield _unpacked(ours.recv_bytes(), shared) if ours.poll(_PAUSE) else None
    except EOFError:
        return
    finally:
        if copied:
            worker.kill()
            worker.join()
        ours.close()


def _packed(message: _Message, shared: Sequence[object]) -> bytes:
    """A message as bytes; what both sides have is named by its place."""
    places = {id(one): place for place, one in enumerate(shared)}
    buffer = io.BytesIO()
    pickler = pickle.Pickler(buffer, protocol=5)
    pickler.persistent_id = lambda one: places.get(id(one))  # type: ignore[method-assign]
    pickler.dump(message)
    return buffer.getvalue()


def _unpacked(packed: bytes, shared: Sequence[object]) -> _Message:
    """The message, from our own copy or thread alone."""
    unpickler = pickle.Unpickler(io.BytesIO(packed))
    unpickler.persistent_load = lambda place: shared[place]  # type: ignore[method-assign]
    return cast("_Message", unpickler.load())


def _alone() -> None:
    """A copy leaves interrupts to the process that waits for it, and does not outlive it."""
    import ctypes

    global _beside
    _beside = True
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(_PARENT_DEATH, signal.SIGKILL)
