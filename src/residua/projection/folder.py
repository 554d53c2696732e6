"""A saved projection: a folder that is whole or absent, says that it is biased, and notices when it was changed.

projection.json    kind, version, terms, gap, bound or simulated error, receipt, and the digest of every other file
plan.json          the plan of the release it was made from
estimates.npy      residuals of all tables, or the histogram (64-bit floats, no pickle)
facts.npz          the public facts that were met
codebook.toml      the domain: attributes, labels, policies, impossible cells
PROJECTION.md      what was done and how accurate it is, for people
"""

from __future__ import annotations

import math
import os
from dataclasses import asdict
from pathlib import Path
from typing import get_args

import numpy as np
import tomli_w

from residua.arrays import ArrayForm, archive_of, archive_size, mapped_array, read_archive
from residua.domain import settings_of_domain
from residua.errors import FileError
from residua.files import MOST_DOCUMENT, MOST_PLAN, read_document, require_path, write_document
from residua.folders import (
    DAMAGE,
    check_digests,
    digests_of,
    receipt_of,
    require_files,
    require_folder,
    whole_folder,
    write_synced,
)
from residua.plans.contract import Plan
from residua.projection.accuracy import CONFIDENCE, Bound, SimulatedError
from residua.projection.facts import Fact
from residua.projection.problem import Metric, Terms
from residua.projection.problems import problem_of
from residua.projection.projected import Projected

KIND, VERSION = "residua projection", 2
NAME = "projection.json"
_MOST_HEADER = 4096
_FILES = ("plan.json", "estimates.npy", "facts.npz", "codebook.toml", "PROJECTION.md")


def is_projection(path: Path) -> bool:
    """Whether a folder holds a projection (rather than a release)."""
    return (path / NAME).is_file()


def save_projection(projected: Projected, path: Path) -> None:
    """Writes a projection as a folder, whole or not at all."""
    terms = projected.terms
    body = {
        "nonnegative": terms.nonnegative,
        "metric": terms.metric,
        "tolerance": terms.tolerance,
        "total_stddev": terms.total_stddev,
        "shrunk": terms.shrunk,
        "facts": [list(fact.members) for fact in terms.facts],
        "gap": projected.gap if math.isfinite(projected.gap) else None,
        "infeasibility": projected.infeasibility,
        "distance": projected.distance,
        "bound": None if projected.bound is None else asdict(projected.bound),
        "simulated": None if projected.simulated is None else asdict(projected.simulated),
        "receipt": dict(projected.receipt),
    }
    with whole_folder(path, "projection") as folder:
        projected.plan.save(folder / "plan.json")
        settings = {"domain": settings_of_domain(projected.domain)}
        write_synced(folder / "codebook.toml", tomli_w.dumps(settings).encode())
        write_synced(folder / "facts.npz", archive_of({f"fact_{i}": fact.values for i, fact in enumerate(terms.facts)}))
        write_synced(folder / "PROJECTION.md", projected.statement.encode())
        with (folder / "estimates.npy").open("wb") as file:
            np.lib.format.write_array(file, np.ascontiguousarray(projected.fit.array), allow_pickle=False)
            file.flush()
            os.fsync(file.fileno())
        write_document(folder / NAME, KIND, VERSION, {**body, "files": digests_of(folder, _FILES)})


def load_projection(path: Path) -> Projected:
    """Reads a saved projection, refusing one that was changed.

    Nothing in the folder is trusted: only regular files are opened, and each only once its size is known to fit.
    """
    require_path(path)
    hint = "it is a release: project it first" if (path / "release.json").is_file() else "check the path"
    require_folder(path, "projection", NAME, hint)
    require_files(path, _FILES, "projection")
    body = read_document(path / NAME, KIND, VERSION)
    try:
        stated, receipt = body["files"], receipt_of(body["receipt"])
        check_digests(path, stated, {"plan.json": MOST_PLAN}, "projection")
        plan = Plan.load(path / "plan.json", follow=False)
        members = [_members(plan, listed) for listed in body["facts"]]
        forms = {f"fact_{i}": _form(plan, fact) for i, fact in enumerate(members)}
        most = {"facts.npz": archive_size(forms), "codebook.toml": MOST_PLAN, "PROJECTION.md": MOST_DOCUMENT}
        check_digests(path, stated, most, "projection")
        arrays = read_archive(path / "facts.npz", forms)
        facts = tuple(Fact(fact, arrays[f"fact_{i}"]) for i, fact in enumerate(members))
        if body["metric"] not in get_args(Metric):
            raise ValueError("its metric is none")
        tolerance, total_stddev = float(body["tolerance"]), float(body["total_stddev"])
        terms = Terms(
            bool(body["nonnegative"]), facts, body["metric"], tolerance, total_stddev, body.get("shrunk") is True
        )
        gap = math.inf if body["gap"] is None else float(body["gap"])
        estimates = mapped_array(path / "estimates.npy", ArrayForm(np.dtype(np.float64), None))
        fit = problem_of(plan, terms).fit_of(estimates, gap, float(body["infeasibility"]))
        check_digests(path, stated, {"estimates.npy": _MOST_HEADER + estimates.nbytes}, "projection")
        bound = None if body["bound"] is None else _bound(**body["bound"])
        simulated = None if body["simulated"] is None else _simulated(**body["simulated"])
        return Projected(plan, terms, fit, float(body["distance"]), bound, receipt, simulated)
    except FileError:
        raise
    except DAMAGE as problem:
        why = str(problem).rstrip(".")
        raise FileError(f"the projection {str(path)!r} is damaged ({why}); copy the whole folder again.") from None


def _bound(
    released: float, projected: float | None, unit: str, confidence: float = CONFIDENCE, doubtful: bool = False
) -> Bound:
    reached = math.inf if projected is None else float(projected)  # JSON has no number for what is infinite
    return Bound(float(released), reached, str(unit), float(confidence), bool(doubtful))


def _simulated(released: float, projected: float, simulations: int) -> SimulatedError:
    return SimulatedError(float(released), float(projected), int(simulations))


def _members(plan: Plan, listed: list[int]) -> tuple[int, ...]:
    members = tuple(listed)
    if not all(type(i) is int and 0 <= i < len(plan.domain) for i in members) or list(members) != sorted(set(members)):
        raise ValueError("a fact is about attributes that the domain lacks")
    return members


def _form(plan: Plan, members: tuple[int, ...]) -> ArrayForm:
    return ArrayForm(np.dtype(np.float64), tuple(int(plan.domain.sizes[i]) for i in members))
