"""Plans as JSON files: versioned, with a digest, without pickle."""

from __future__ import annotations

from pathlib import Path

from residua.errors import FileError, PlanError, ResiduaError
from residua.files import read_document, write_document
from residua.plan.base import Plan
from residua.plan.dense_body import dense_of_body, dense_to_body
from residua.plan.dense_plan import DensePlan
from residua.plan.residual import ResidualPlan
from residua.plan.residual_body import residual_of_body, residual_to_body

KIND, VERSION = "residua plan", 1
_READERS = {"residual": residual_of_body, "dense": dense_of_body}


def save_plan(plan: Plan, path: Path) -> None:
    """Writes a plan of any kind."""
    if isinstance(plan, ResidualPlan):
        body = residual_to_body(plan)
    elif isinstance(plan, DensePlan):
        body = dense_to_body(plan)
    else:
        raise PlanError(f"{plan!r} is not a plan that can be saved.")
    write_document(path, KIND, VERSION, body)


def load_plan(path: Path) -> Plan:
    """Reads a plan of any kind, refusing a file that was changed."""
    body = read_document(path, KIND, VERSION)
    try:
        return _READERS[body["kind"]](body)
    except (KeyError, TypeError, IndexError, ValueError, OverflowError, ResiduaError) as problem:
        raise FileError(f"{str(path)!r} does not hold a valid plan ({problem}); plan again.") from None
