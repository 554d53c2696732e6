"""Progress bars for whoever calls from Python: `progress=True` draws one, on a terminal or in a notebook.

Steps report in one of two ways, and a bar understands both: `(round, gap)`, as planners and projections do, where
nobody knows how many rounds there will be, and `(step, done, total)`, as the measuring step does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from html import escape
from typing import Any, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
_SECONDS = 0.1  # between two updates in a notebook


class Bar(Protocol):
    """Something that shows how far a step is."""

    def update(self, step: str, done: float, total: float | None, words: str) -> None:
        """Shows it."""
        ...


def with_bar(name: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Lets a function take `progress=True` for a bar of this name, besides a callable and None."""

    def decorated(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def called(*args: P.args, **options: P.kwargs) -> R:
            asked = options.get("progress")
            if asked is False:
                options["progress"] = None
            if asked is not True:
                return function(*args, **options)
            with told_bar(name) as options["progress"]:
                return function(*args, **options)

        return called

    return decorated


@contextmanager
def told_bar(name: str) -> Iterator[Callable[..., None]]:
    """A callback that draws a bar where a person is looking, and nothing elsewhere."""
    with _bar() as bar:

        def told(*facts: Any) -> None:
            if bar is None:
                return
            if len(facts) == 3:
                step, done, total = facts
                bar.update(str(step), float(done), None if total is None else float(total), "")
            else:
                rounds, gap = facts
                known = isinstance(gap, float) and gap == gap and abs(gap) != float("inf")
                bar.update(name, float(rounds), None, f"gap {gap:.2g}" if known else "")

        yield told


def lasting_bar(progress: Any) -> Any:
    """For an object that keeps its callback, such as a session: a new bar for every step, or what was given."""
    if progress is False:
        return None
    return _Lasting() if progress is True else progress


class _Lasting:
    """Draws one bar per step, and takes it away when the step is done."""

    def __init__(self) -> None:
        self._step = ""
        self._bars: AbstractContextManager[Callable[..., None]] | None = None

    def __call__(self, step: str, done: float, total: float | None) -> None:
        if step != self._step:
            self._close()
            self._step, self._bars = step, told_bar(step)
            self._told = self._bars.__enter__()
        if self._bars is not None:
            self._told(step, done, total)
        if total is not None and done >= total:
            self._close()

    def _close(self) -> None:
        if self._bars is not None:
            self._bars.__exit__(None, None, None)
        self._step, self._bars = "", None


@contextmanager
def _bar() -> Iterator[Bar | None]:
    display = _notebook()
    if display is not None:
        notebook = NotebookBar(display)
        try:
            yield notebook
        finally:
            notebook.close()
    elif sys.stderr is not None and sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

        columns = (
            TextColumn("{task.description} {task.fields[words]}"),
            BarColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=Console(stderr=True, markup=False), transient=True) as bars:
            yield TerminalBar(bars)
    else:
        yield None


class TerminalBar:
    """A bar of Rich."""

    def __init__(self, bars: Any) -> None:
        self.bars = bars
        self.tasks: dict[str, Any] = {}

    def update(self, step: str, done: float, total: float | None, words: str) -> None:
        """Shows how far a step is."""
        if step not in self.tasks:
            self.tasks[step] = self.bars.add_task(step, total=total, words=words)
        self.bars.update(self.tasks[step], completed=done, total=total, words=words)


class NotebookBar:
    """A bar in the output of a notebook's cell, of plain HTML: no widget has to be installed."""

    def __init__(self, display: Callable[[str], Any]) -> None:
        self.display = display
        self.handle: Any = None
        self.steps: dict[str, tuple[float, float | None, str]] = {}
        self.last = 0.0

    def update(self, step: str, done: float, total: float | None, words: str) -> None:
        """Shows how far a step is, at most ten times a second."""
        import time

        self.steps[step] = (done, total, words)
        if self.handle is not None and time.monotonic() - self.last < _SECONDS:
            return
        self.last = time.monotonic()
        if self.handle is None:
            self.handle = self.display(self.html())
        else:
            self.handle(self.html())

    def html(self) -> str:
        """All steps, one line each."""
        lines = []
        for step, (done, total, words) in self.steps.items():
            share = "" if total is None else f' value="{min(done, total):g}" max="{max(total, 1):g}"'
            told = f"{done:,.0f}" if total is None else f"{100 * done / max(total, 1):.0f} %"
            bar = f'<progress aria-label="{escape(step)}"{share}></progress>'
            lines.append(f"<div>{escape(step)} {bar} {told} {escape(words)}</div>")
        return "".join(lines)

    def close(self) -> None:
        """Takes the bar away."""
        if self.handle is not None:
            self.handle("")


def _notebook() -> Callable[[str], Any] | None:
    """How to show HTML in a notebook, and to change it afterwards; None elsewhere."""
    shell = sys.modules.get("IPython")
    kernel = shell.get_ipython() if shell is not None else None
    if kernel is None or type(kernel).__name__ != "ZMQInteractiveShell":
        return None
    from IPython.display import HTML, display

    def shown(html: str) -> Callable[[str], None]:
        handle = display(HTML(html), display_id=True)  # type: ignore[no-untyped-call]  # where IPython is
        return lambda later: handle.update(HTML(later))  # type: ignore[no-untyped-call]

    return shown
