"""Plans as JSON files: versioned, with a digest, without pickle."""

from __future__ import annotations

from pathlib import Path

from residua.errors import FileError
from residua.files import MOST_PLAN, check_document_place, read_document, write_document
from residua.folders import DAMAGE
from residua.plans.base import Plan
from residua.plans.kinds import kind_named, kind_of

KIND, VERSION = "residua plan", 1


def check_plan_place(path: Path) -> None:
    """Refuses, before planning, a path where a plan must not be saved.

    Raises:
        FileError: something that is not a plan is there, or the path cannot be one.
    """
    check_document_place(path, KIND)


def save_plan(plan: Plan, path: Path) -> None:
    """Writes a plan of any kind, over an older plan but over nothing else."""
    write_document(path, KIND, VERSION, kind_of(plan).to_body(plan), most=MOST_PLAN)


def load_plan(path: Path, *, follow: bool = True) -> Plan:
    """Reads a plan of any kind, refusing a file that was changed.

    Args:
        path: the file.
        follow: whether it may be a symbolic link, as where the user named it.
    """
    body = read_document(path, KIND, VERSION, most=MOST_PLAN, follow=follow)
    try:
        return kind_named(body["kind"]).of_body(body)
    except DAMAGE as problem:
        raise FileError(f"{str(path)!r} does not hold a valid plan ({problem}); plan again.") from None
