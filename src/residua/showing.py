"""How values and steps reach people: the seam between low layers and what draws, progress bars, texts that are inert.

A plan knows nothing of reports, and a release nothing of spreadsheets; yet `plan.report(path)` is where people look for
it. So the methods live here, below everything, and the packages that do the work are named once, in the root, which is
imported before any of its parts. Nothing is loaded before a method is called.

`progress=True` draws a bar, on a terminal or in a notebook. Steps report in one of two ways, and a bar understands
both: `(round, gap)`, as planners and projections do, where nobody knows how many rounds there will be, and
`(step, done, total)`, as the measuring step does. Rich draws on terminals. In notebooks it would need widgets that may
not be installed: there, plain HTML does.
"""

from __future__ import annotations

import math
import sys
import time
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from html import escape
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar, cast

if TYPE_CHECKING:
    from rich.console import Console

_HOMES: dict[str, str] = {}


def register(**homes: str) -> None:
    """Says which module of residua has the function of each name; the root does, once."""
    _HOMES.update(homes)


def shown_by(name: str) -> Any:
    """The function of this name; its module is loaded when first needed."""
    return getattr(import_module(f"residua.{_HOMES[name]}"), name)


class Shown:
    """A value that notebooks show as a small picture of itself. Values that hold true counts are never `Shown`."""

    def _repr_html_(self) -> str:
        return cast("str", shown_by("fragment")(self))


class Reported(Shown):
    """A value of which a report can be written: a plan, a release, a projection, a session."""

    def report(
        self,
        path: str | Path,
        *,
        title: str | None = None,
        beside: Any = None,
        since: Any = None,
        map: str | Path | None = None,
        theme: str | Path | None = None,
        language: str | None = None,
        overwrite: bool = False,
    ) -> None:
        """Writes one self-contained HTML page for people: a headline, charts, all tables, methods, the guarantee.

        The page holds what the value itself holds and nothing else: no data is read, and nothing is spent.

        Args:
            path: the file; an older report is replaced.
            title: what the page is called.
            beside: for a plan, another plan over the same domain, to see what changes.
            since: for a release, an earlier one, to see what changed.
            map: a file of GeoJSON with a region for every value of one attribute, which is then drawn as a map.
            theme: a TOML file with an office's name, logo, colours and fonts.
            language: in which it is written, such as `"de"` or `"fr"`; titles too, where the domain declares them.
            overwrite: replace the file whatever it holds.

        Raises:
            FileError: something else is there, or it cannot be written.
            PlanError: `beside` is not a plan, or this is none; or a language that nobody has translated to.
        """
        looks = {"since": since, "map": map, "theme": theme, "language": language}
        shown_by("write_report")(self, path, title=title, beside=beside, overwrite=overwrite, **looks)


class ReportedPlan(Reported):
    """A plan: `print` shows the table of errors that the command shows."""

    def __str__(self) -> str:
        return cast("str", shown_by("plan_text")(self))


class Exported(Reported):
    """A value with tables that can be written in the formats that statistical offices publish."""

    def export(
        self,
        folder: str | Path,
        format: str = "csv",
        *,
        confidence: float | None = None,
        language: str | None = None,
        title: str | None = None,
        suppress: Literal["use with caution", "unreliable"] | None = None,
        spark: Any = None,
        progress: Callable[..., None] | bool | None = None,
    ) -> list[Path]:
        """Writes every table that was asked for into a folder, all or none, with what a reader must know beside it.

        Args:
            folder: the folder to write; it must not exist.
            format: `"csv"`, `"parquet"`, `"long"` or `"long-csv"` (all tables in one Parquet or CSV file), `"xlsx"`,
                `"jsonstat"`, `"px"`, `"sdmx"`, `"datapackage"` or `"csvw"`; see docs/formats.md.
            confidence: how often an interval holds the truth, 0.95 if left out.
            language: in which it is written, such as `"de"` or `"fr"`: sentences, words and, in Excel, numbers; titles
                too, where the domain declares several, else the first.
            title: what the whole is called.
            suppress: numbers of this quality or worse are left blank, and so are counts below zero. Of numbers without
                standard errors the width of the interval decides.
            spark: a Spark session whose executors rebuild and write the tables of a release that they measured, as one
                dataset of Parquet files, in a folder that they share; see docs/spark.md. Parquet only.
            progress: with `spark`: `True` draws a bar; or a function, called with the step, how many files are
                written, and of how many.

        Returns:
            The files, in the order of the tables.

        Raises:
            FileError: the folder exists, or cannot be written. Nothing is left behind.
            PlanError: an unknown format, queries that make no tables, or a confidence for a projection.
        """
        written: list[Path] = shown_by("export")(
            self, folder, format, confidence=confidence, language=language, title=title, suppress=suppress, spark=spark,
            progress=progress,
        )  # fmt: skip
        return written

    def rounded(self) -> Any:
        """The same tables in whole numbers that add up across all tables; see docs/uncertainty.md.

        Guarantee: margins of every table are the tables of their attributes; the rounding follows from what is
        published, so that it is the same whenever and in whatever order tables are asked for; intervals allow for it.

        Raises:
            PlanError: a plan with a bias.

        Example: `release.rounded().table(["age", "sex"])`, `projected.rounded().export("tables")`.
        """
        return shown_by("rounded")(self)


# Controls, formats (among them those that turn the direction of writing), lone surrogates, line and paragraph ends.
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_JOINERS = frozenset("\u200c\u200d")  # Persian, Hindi and emoji are written with them
_FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠")


def printable(text: str) -> str:
    """The text with every character that a terminal would obey, and not show, written as an escape.

    Guarantee: the result has one line, and no control, format, or surrogate character except the two joiners.

    Example:
        >>> printable("Genève, 東京"), printable("two\\nlines \\x1b[31m")
        ('Genève, 東京', 'two\\\\nlines \\\\x1b[31m')
    """
    if text.isprintable():
        return text
    return "".join(_escaped(one) if unicodedata.category(one) in _HIDDEN else one for one in text)


def inert(text: str) -> str:
    """A text cell that no spreadsheet takes for a formula: one that could be begins with an apostrophe instead.

    Reference: OWASP, CSV injection: cells that begin with `=`, `+`, `-`, `@`, a tab or a line end, after spaces too.

    Example:
        >>> inert("=1+1"), inert("-5 to 0"), inert("<800")
        ("'=1+1", "'-5 to 0", '<800')
    """
    risky = text.lstrip().startswith(_FORMULA) or (text != "" and text[0] in "\t\r\n")
    return f"'{text}" if risky else text


def _escaped(one: str) -> str:
    return one if one in _JOINERS else one.encode("unicode_escape").decode("ascii")


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
    if display is None and (sys.stderr is None or not sys.stderr.isatty()):
        yield lambda *facts: None
        return
    with terminal_bars() if display is None else _notebook_bars(display) as draw:

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
def terminal_bars(console: Console | None = None) -> Iterator[Callable[..., None]]:
    """A callback `(step, done, total, words)` that draws a bar of Rich per step; all are taken away at the end.

    Args:
        console: where; standard error if left out.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description} {task.fields[words]}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console or Console(stderr=True, markup=False), transient=True) as bars:
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
        if change is None:
            change = display("".join(lines.values()))
        elif time.monotonic() - last >= _SECONDS:
            change("".join(lines.values()))
        else:
            return
        last = time.monotonic()

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
