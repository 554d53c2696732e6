"""A saved projection: a folder that is whole or absent, says that it is biased, and notices when it was changed.

projection.json    kind, version, terms, gap, bound or simulated error, receipt, and the digest of every other file
plan.json          the plan of the release it was made from
estimates.npy      residuals of all tables, or the histogram (64-bit floats, no pickle)
facts.npz          the public facts that were met
codebook.toml      the domain: attributes, labels, policies, impossible cells
PROJECTION.md      what was done and how accurate it is, for people
"""

from __future__ import annotations

import io
import math
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w
from numpy.typing import NDArray

from residua.domain import settings_of_domain
from residua.errors import FileError, ResiduaError
from residua.files import read_document, write_document
from residua.folders import check_digests, digests_of, whole_folder, write_synced
from residua.plans.contract import Plan
from residua.projection.accuracy import Bound, SimulatedError
from residua.projection.facts import Fact
from residua.projection.problem import Terms
from residua.projection.problems import problem_of
from residua.projection.projected import Projected

KIND, VERSION = "residua projection", 2
NAME = "projection.json"
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
        facts = io.BytesIO()
        named: dict[str, Any] = {f"fact_{i}": fact.values for i, fact in enumerate(terms.facts)}
        np.savez(facts, allow_pickle=False, **named)
        write_synced(folder / "facts.npz", facts.getvalue())
        write_synced(folder / "PROJECTION.md", projected.statement.encode())
        with (folder / "estimates.npy").open("wb") as file:
            np.lib.format.write_array(file, np.ascontiguousarray(projected.fit.array), allow_pickle=False)
            file.flush()
            os.fsync(file.fileno())
        write_document(folder / NAME, KIND, VERSION, {**body, "files": digests_of(folder, _FILES)})


def load_projection(path: Path) -> Projected:
    """Reads a saved projection, refusing one that was changed."""
    if not path.is_dir():
        raise FileError(f"there is no projection folder {str(path)!r}; check the path.")
    if not is_projection(path):
        hint = "it is a release: project it first" if (path / "release.json").is_file() else "check the path"
        raise FileError(f"{str(path)!r} is not a projection folder ({NAME!r} is not in it); {hint}.")
    body = read_document(path / NAME, KIND, VERSION)
    try:
        check_digests(path, body["files"], _FILES, "projection")
        plan = Plan.load(path / "plan.json")
        estimates: NDArray[np.float64] = np.load(path / "estimates.npy", mmap_mode="r", allow_pickle=False)
        with np.load(path / "facts.npz", allow_pickle=False) as arrays:
            facts = tuple(Fact(tuple(members), arrays[f"fact_{i}"]) for i, members in enumerate(body["facts"]))
        terms = Terms(body["nonnegative"], facts, body["metric"], body["tolerance"], body["total_stddev"])
        gap = math.inf if body["gap"] is None else float(body["gap"])
        fit = problem_of(plan, terms).fit_of(estimates, gap, float(body["infeasibility"]))
        bound = None if body["bound"] is None else Bound(**body["bound"])
        simulated = None if body["simulated"] is None else SimulatedError(**body["simulated"])
        return Projected(plan, terms, fit, float(body["distance"]), bound, body["receipt"], simulated)
    except FileError:
        raise
    except (ValueError, KeyError, TypeError, OSError, ResiduaError) as problem:
        raise FileError(f"the projection {str(path)!r} is damaged ({problem}).") from None
