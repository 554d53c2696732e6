"""Folders of tables without error bars: projections and estimates, opened alike."""

from __future__ import annotations

from pathlib import Path

from residua.estimation import Estimated
from residua.estimation.folder import is_estimates
from residua.estimation.statement import MODEL_BASED
from residua.projection import Projected
from residua.projection.folder import is_projection
from residua.projection.statement import BIASED


def is_made(path: Path) -> bool:
    """Whether a folder holds a projection or estimates (rather than a release)."""
    return is_projection(path) or is_estimates(path)


def load_made(path: Path) -> Projected | Estimated:
    """Reads a projection or estimates."""
    return Estimated.load(path) if is_estimates(path) else Projected.load(path)


def bias_of(path: Path) -> str:
    """What is said below every table of such a folder."""
    return MODEL_BASED if is_estimates(path) else BIASED
