"""Progress bars for whoever calls from Python: `progress=True` draws one, on a terminal or in a notebook.

Steps report in one of two ways, and a bar understands both: `(round, gap)`, as planners and projections do, where
nobody knows how many rounds there will be, and `(step, done, total)`, as the measuring step does.

Rich draws on terminals. In notebooks it would need widgets that may not be installed: there, plain HTML does.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from html import escape
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    from rich.console import Console

P = ParamSpec("P")
R = TypeVar("R")
_SECONDS = 0.1  # between two updates in a notebook


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
            with drawn_bar(name) as options["progress"]:
                return function(*args, **options)

        return called

    return decorated


@contextmanager
def drawn_bar(name: str) -> Iterator[Callable[..., None]]:
    """A callback that draws a bar where a person is looking, and nothing elsewhere."""
    display = _notebook()
    with ExitStack() as stack:
        if display is not None:
            draw = stack.enter_context(_notebook_bars(display))
        elif sys.stderr is not None and sys.stderr.isatty():
            from rich.console import Console

            draw = stack.enter_context(terminal_bars(Console(stderr=True, markup=False)))
        else:
            yield lambda *facts: None
            return

        def report(*facts: Any) -> None:
            if len(facts) == 3:
                draw(*facts)
            else:
                rounds, gap = facts
                known = isinstance(gap, float) and math.isfinite(gap)
                draw(name, rounds, None, f"gap {gap:.2g}" if known else "")

        yield report


def lasting_bar(progress: Any) -> Any:
    """For an object that keeps its callback, such as a session: a new bar for every step, or what was given."""
    if progress is False:
        return None
    return _Lasting() if progress is True else progress


class _Lasting:
    """Draws one bar per step, and takes it away when the step is done."""

    def __init__(self) -> None:
        self._step, self._stack = "", ExitStack()

    def __call__(self, step: str, done: float, total: float | None) -> None:
        if step != self._step:
            self._stack.close()
            self._step, self._report = step, self._stack.enter_context(drawn_bar(step))
        self._report(step, done, total)
        if total is not None and done >= total:
            self._stack.close()
            self._step = ""


@contextmanager
def terminal_bars(console: Console) -> Iterator[Callable[..., None]]:
    """A callback `(step, done, total, words)` that draws a bar of Rich per step; all are taken away at the end."""
    from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeElapsedColumn

    text = TextColumn("{task.description} {task.fields[words]}")
    with Progress(
        text, BarColumn(), TaskProgressColumn(), TimeElapsedColumn(), console=console, transient=True
    ) as bars:
        tasks: dict[str, TaskID] = {}

        def draw(step: str, done: float, total: float | None, words: str = "") -> None:
            if step not in tasks:
                tasks[step] = bars.add_task(step, total=total, words=words)
            bars.update(tasks[step], completed=done, total=total, words=words)

        yield draw


@contextmanager
def _notebook_bars(display: Callable[[str], Callable[[str], Any]]) -> Iterator[Callable[..., None]]:
    """The same in the output of a notebook's cell, updated at most ten times a second."""
    lines: dict[str, str] = {}
    change: Callable[[str], Any] | None = None
    last = 0.0

    def draw(step: str, done: float, total: float | None, words: str = "") -> None:
        nonlocal change, last
        share = "" if total is None else f' value="{min(done, total):g}" max="{max(total, 1):g}"'
        count = f"{done:,.0f}" if total is None else f"{100 * done / max(total, 1):.0f} %"
        bar = f'<progress aria-label="{escape(step)}"{share}></progress>'
        lines[step] = f"<div>{escape(step)} {bar} {count} {escape(words)}</div>"
        if change is not None and time.monotonic() - last < _SECONDS:
            return
        last, html = time.monotonic(), "".join(lines.values())
        if change is None:
            change = display(html)
        else:
            change(html)

    try:
        yield draw
    finally:
        if change is not None:
            change("")


def _notebook() -> Callable[[str], Callable[[str], Any]] | None:
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
