"""How values reach what shows them: a seam between low layers and those that draw, filled once by the package's root.

A plan knows nothing of reports, and a release nothing of spreadsheets; yet `plan.report(path)` is where people look for
it. So the methods live here, below everything, and the packages that do the work are named once, in the root, which is
imported before any of its parts. Nothing is loaded before a method is called.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

_LOADERS: dict[str, Callable[[], Any]] = {}


def register(name: str, load: Callable[[], Any]) -> None:
    """Says how the package of this name is loaded; the root does, for each once."""
    _LOADERS[name] = load


def package(name: str) -> Any:
    """The package of this name, loaded when first needed."""
    return _LOADERS[name]()


class Shown:
    """A value that notebooks show as a small picture of itself. Values that hold true counts are never `Shown`."""

    def _repr_html_(self) -> str:
        html: str = package("report").fragment(self)
        return html


class Reported(Shown):
    """A value of which a report can be written: a plan, a release, a projection, a session."""

    def report(
        self, path: str | Path, *, title: str | None = None, beside: Any = None, overwrite: bool = False
    ) -> None:
        """Writes one self-contained HTML page for people: what is protected, how accurate the numbers are, pictures.

        The page holds what the value itself holds and nothing else: no data is read, and nothing is spent.

        Args:
            path: the file; an older report is replaced.
            title: what the page is called.
            beside: for a plan, another plan over the same domain, to see what changes.
            overwrite: replace the file whatever it holds.

        Raises:
            FileError: something else is there, or it cannot be written.
            PlanError: `beside` is not a plan, or this is none.
        """
        package("report").write_report(self, path, title=title, beside=beside, overwrite=overwrite)


class ReportedPlan(Reported):
    """A plan: `print` shows the table of errors that the command shows."""

    def __str__(self) -> str:
        text: str = package("report").text_of_plan(self)
        return text


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
        spark: Any = None,
        progress: Callable[..., None] | bool | None = None,
    ) -> list[Path]:
        """Writes every table that was asked for into a folder, all or none, with what a reader must know beside it.

        Args:
            folder: the folder to write; it must not exist.
            format: `"csv"`, `"parquet"`, `"long"` or `"long-csv"` (all tables in one Parquet or CSV file), `"xlsx"`,
                `"jsonstat"`, `"px"`, `"sdmx"`, `"datapackage"` or `"csvw"`; see docs/formats.md.
            confidence: how often an interval holds the truth, 0.95 if left out; a projection has no intervals.
            language: in which language titles are written, where the domain declares several; the first if left out.
            title: what the whole is called.
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
        written: list[Path] = package("formats").export(
            self, folder, format, confidence=confidence, language=language, title=title, spark=spark, progress=progress
        )
        return written


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
    starts = text.lstrip()
    risky = starts.startswith(_FORMULA) or (text != "" and text[0] in "\t\r\n")
    return f"'{text}" if risky else text


def _escaped(one: str) -> str:
    return one if one in _JOINERS else one.encode("unicode_escape").decode("ascii")
