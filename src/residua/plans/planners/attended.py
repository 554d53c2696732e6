"""Long planning that can be watched and stopped: the work runs in parallel while the caller waits for its messages.

Linear algebra runs for minutes in one call, during which Python serves no signal. On Linux the work is done by a copy
of the process, so that Ctrl-C ends it at once, whatever it is doing; elsewhere by a thread, which is then abandoned.
Nothing is written or spent while planning, so that nothing is left half done.
"""

from __future__ import annotations

import io
import multiprocessing
import pickle
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar

from residua.errors import LongWarning, PlanError
from residua.plans.contract import Plan
from residua.plans.planners.forecast import Forecast
from residua.plans.saddle import Progress

P = TypeVar("P", bound=Plan)
Watcher = Callable[[float], object]
LONG = 5.0  # seconds: what takes less is done on the spot, in calls of well below a second
WORTH_SAYING = 20.0
_PAUSE = 0.1  # seconds between two looks
_PARENT_DEATH = 1  # PR_SET_PDEATHSIG of prctl
_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)
_beside = False  # whether this process or thread is already doing such work


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
    messages = _in_copy(work, shared) if sys.platform == "linux" else _in_thread(work)
    watcher, started = _watcher.get(), time.monotonic()
    try:
        for message in messages:
            if asked_to_stop.is_set():
                raise KeyboardInterrupt
            if message is None:
                if watcher is not None:
                    watcher(min((time.monotonic() - started) / ahead.seconds, 0.99))
            elif message.made is not None:
                for said in message.said:
                    warnings.warn(said, stacklevel=4)
                return message.made  # type: ignore[no-any-return]
            elif message.failed is not None:
                raise message.failed
            elif progress is not None:
                progress(*message.told)
    finally:
        messages.close()
    raise PlanError("planning was ended from outside, as when memory runs out; ask for fewer or smaller tables.")


@dataclass(frozen=True)
class _Message:
    """What the work says: progress, or how it ended."""

    told: tuple[int, float] = (0, 0.0)
    made: Any = None
    failed: BaseException | None = None
    said: list[Warning] = field(default_factory=list)


def _done(work: Callable[[Progress | None], Plan], send: Callable[[_Message], object]) -> None:
    """Does the work and reports how it went."""
    try:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            made = work(lambda rounds, gap: _report(send, rounds, gap))
        send(_Message(made=made, said=[one.message for one in said if isinstance(one.message, Warning)]))
    except BaseException as problem:  # whatever it is, it is raised where the plan was asked for
        send(_Message(failed=problem))


def _report(send: Callable[[_Message], object], rounds: int, gap: float) -> None:
    send(_Message(told=(rounds, float(gap))))


def _in_copy(work: Callable[[Progress | None], Plan], shared: Sequence[object]) -> Generator[Any]:
    """The messages of work done by a copy of this process, and None after every pause; closing it ends the copy."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)

    def alone() -> None:
        global _beside
        _beside = True
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent answers it
        _end_with_parent()
        ours.close()
        _done(work, lambda message: theirs.send_bytes(_packed(message, shared)))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of copies of processes with threads
        copy = context.Process(target=alone, daemon=True)
        copy.start()
    theirs.close()
    try:
        while True:
            try:
                yield _unpacked(ours.recv_bytes(), shared) if ours.poll(_PAUSE) else None
            except EOFError:
                return
    finally:
        copy.kill()
        copy.join()
        ours.close()


def _in_thread(work: Callable[[Progress | None], Plan]) -> Generator[Any]:
    """The messages of work done by a thread, and None after every pause; closed, it ends at its next report."""
    waiting: list[_Message] = []
    closed = threading.Event()

    def send(message: _Message) -> None:
        if closed.is_set():
            raise SystemExit
        waiting.append(message)

    thread = threading.Thread(target=_done, args=(work, send), daemon=True)
    thread.start()
    try:
        while thread.is_alive() or waiting:
            yield waiting.pop(0) if waiting else None
            thread.join(0 if waiting else _PAUSE)
    finally:
        closed.set()


def _packed(message: _Message, shared: Sequence[object]) -> bytes:
    """A message as bytes; what both processes have is named by its place."""
    places = {id(one): place for place, one in enumerate(shared)}
    buffer = io.BytesIO()
    pickler = pickle.Pickler(buffer, protocol=5)
    pickler.persistent_id = lambda one: places.get(id(one))  # type: ignore[method-assign]
    pickler.dump(message)
    return buffer.getvalue()


def _unpacked(packed: bytes, shared: Sequence[object]) -> _Message:
    """The message, from our own copy alone; a plan is made again, so that its arrays cannot be written to."""
    unpickler = pickle.Unpickler(io.BytesIO(packed))
    unpickler.persistent_load = lambda place: shared[place]  # type: ignore[method-assign]
    message: _Message = unpickler.load()
    return message if message.made is None else _Message(made=message.made.replaced(), said=message.said)


def _end_with_parent() -> None:
    """A copy does not outlive the process that waits for it."""
    import ctypes

    ctypes.CDLL(None).prctl(_PARENT_DEATH, signal.SIGKILL)
