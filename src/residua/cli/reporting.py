"""`residua report`: a page about a release, a projection, estimates, a saved plan, or the plan of a specification."""

from __future__ import annotations

from pathlib import Path

from residua.cli.made import is_made, load_made
from residua.cli.places import is_plan
from residua.cli.show import out, progress_bar
from residua.cli.spec import read_spec
from residua.cli.steps import make_plan
from residua.errors import FileError
from residua.plans.contract import Plan
from residua.projection.tabled import Tabled
from residua.release import Release
from residua.report import write_report
from residua.report.page import require_report_or_free


def write_report_of(subject: Path, beside: Path | None, target: Path, title: str | None) -> None:
    """Writes the page.

    Raises:
        FileError: nothing of the kind is there, or something else is where the page should go.
        PlanError: something beside what is not a plan.
    """
    require_report_or_free(target)
    about = _subject(subject)
    other = None if beside is None else _plan(beside)
    with progress_bar() as show:
        show("drawing", 0, None)
        write_report(about, target, title=title, beside=other)
    out.print(f"Wrote {target}: one page, to be opened in any browser or printed")


def _subject(path: Path) -> Release | Tabled | Plan:
    if path.is_dir():
        return load_made(path) if is_made(path) else Release.load(path)
    if not path.exists():
        raise FileError(f"there is no release folder, saved plan or specification {str(path)!r}; check the path.")
    return _plan(path)


def _plan(path: Path) -> Plan:
    if path.is_dir():
        raise FileError(
            f"{str(path)!r} is a folder; two plans stand side by side, give a saved plan or a specification."
        )
    return Plan.load(path) if is_plan(path) else make_plan(read_spec(path))
