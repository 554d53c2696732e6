"""What a path holds: a release, a projection, estimates, a saved plan, or a specification; and where a plan may go."""

from __future__ import annotations

import io
from pathlib import Path

from residua.cli.spec import read_spec
from residua.cli.steps import make_plan
from residua.estimation import Estimated
from residua.estimation.estimated import MODEL_BASED
from residua.estimation.folder import is_estimates
from residua.folders import require_free
from residua.plans.contract import Plan
from residua.projection import Projected
from residua.projection.folder import is_projection
from residua.projection.statement import BIASED
from residua.release import Release

_PLAN = b'{"format":"residua plan"'  # how every saved plan begins


def bias_of(published: object) -> str:
    """What is said below every table of a projection or of estimates; nothing of a release."""
    return MODEL_BASED if isinstance(published, Estimated) else BIASED if isinstance(published, Projected) else ""


def load_published(path: Path) -> Release | Projected | Estimated:
    """Reads a release, a projection or estimates."""
    if is_estimates(path):
        return Estimated.load(path)
    return Projected.load(path) if is_projection(path) else Release.load(path)


def plan_at(path: Path) -> Plan:
    """A saved plan, or the best one for a specification."""
    return Plan.load(path) if is_plan(path) else make_plan(read_spec(path))


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
