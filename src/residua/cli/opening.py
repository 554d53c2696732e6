"""What a path holds: a release, a projection, estimates, a saved plan, or a specification. Only that is loaded."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

import residua as rs
from residua import cli
from residua.errors import PlanError
from residua.folders import require_free

if TYPE_CHECKING:
    from collections.abc import Sequence

    from residua.plans.contract import Plan
    from residua.release import Answered

_PLAN = b'{"format":"residua plan"'  # how every saved plan begins
_MADE = {"projection.json": "projection", "estimates.json": "estimates"}  # from a release


def kind_of(folder: Path) -> str:
    """What a folder holds by the names of its files: a projection, estimates, or else a release."""
    return next((kind for name, kind in _MADE.items() if (folder / name).is_file()), "release")


def load_published(folder: Path, known: Sequence[Path] | None = None) -> Answered | rs.Projected | rs.Estimated:
    """Reads a release, beside the facts of files if some are named, a projection or estimates.

    Raises:
        PlanError: facts beside numbers that are no release.
    """
    if known:
        if kind_of(folder) != "release":
            raise PlanError("--known is for releases; residua project and estimate take known tables of their own.")
        return rs.Release.load(folder).given(cli.known.read_facts(known))
    match kind_of(folder):
        case "projection":
            return rs.Projected.load(folder)
        case "estimates":
            return rs.Estimated.load(folder)
    return rs.Release.load(folder)


def plan_at(path: Path) -> Plan:
    """A saved plan, or the best one for a specification."""
    return rs.Plan.load(path) if is_plan(path) else cli.planning.make_plan(cli.spec.read_spec(path))


def require_plan_or_free(path: Path) -> None:
    """Refuses to write a plan over anything that is not a plan: the ledger, the data, the specification.

    Raises:
        FileError: the file is something else, or the folder around it is missing or closed to us.
    """
    if not is_plan(path) or path.is_symlink():
        taken = "exists and is not a plan of residua; choose another name, only a plan is replaced."
        require_free(path, argument="save", taken=taken)


def is_plan(path: Path) -> bool:
    """Whether a file is a saved plan, by how it begins."""
    try:
        with path.open("rb") if path.is_file() else io.BytesIO() as file:
            return file.read(len(_PLAN)) == _PLAN
    except OSError:
        return False
