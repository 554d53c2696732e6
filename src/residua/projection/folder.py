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
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import msgspec
import numpy as np
import tomli_w

from residua.domain import Domain, settings_of_domain
from residua.files import MOST_DOCUMENT, MOST_PLAN, read_document, require_path, write_document
from residua.folders import (
    ArrayForm,
    archive_of,
    archive_size,
    check_digests,
    digests_of,
    mapped_array,
    read_archive,
    receipt_of,
    refusing_damage,
    require_files,
    require_folder,
    whole_folder,
    write_synced,
)
from residua.plans.contract import Plan
from residua.projection.accuracy import Bound, SimulatedError
from residua.projection.facts import Fact
from residua.projection.problem import Metric, Terms
from residua.projection.problems import problem_of

if TYPE_CHECKING:
    from residua.projection.project import Projected

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
        write_beside(folder, projected.domain, terms.facts, "PROJECTION.md", projected.statement)
        with (folder / "estimates.npy").open("wb") as file:
            np.lib.format.write_array(file, np.ascontiguousarray(projected.fit.array), allow_pickle=False)
            file.flush()
            os.fsync(file.fileno())
        write_document(folder / NAME, KIND, VERSION, {**body, "files": digests_of(folder, _FILES)})


def load_projection(path: Path) -> tuple[Any, ...]:
    """Reads what a saved projection is made of, in order, refusing one that was changed.

    Nothing in the folder is trusted: only regular files are opened, and each only once its size is known to fit.
    """
    require_path(path)
    hint = "it is a release: project it first" if (path / "release.json").is_file() else "check the path"
    require_folder(path, "projection", NAME, hint)
    require_files(path, _FILES, "projection")
    body = read_document(path / NAME, KIND, VERSION)
    with refusing_damage(f"the projection {str(path)!r} is"):
        stated, receipt = body["files"], receipt_of(body["receipt"])
        check_digests(path, stated, {"plan.json": MOST_PLAN}, "projection")
        plan = Plan.load(path / "plan.json", follow=False)
        members, forms = facts_stated(plan.domain, body["facts"])
        most = {"facts.npz": archive_size(forms), "codebook.toml": MOST_PLAN, "PROJECTION.md": MOST_DOCUMENT}
        check_digests(path, stated, most, "projection")
        facts = read_facts(path, members, forms)
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
        if body["bound"] is not None and body["bound"]["projected"] is None:
            body["bound"]["projected"] = math.inf  # JSON has no number for what is infinite
        bound = msgspec.convert(body["bound"], Bound | None)
        simulated = msgspec.convert(body["simulated"], SimulatedError | None)
        return plan, terms, fit, float(body["distance"]), bound, receipt, simulated


def write_beside(folder: Path, domain: Domain, facts: Sequence[Fact], name: str, statement: str) -> None:
    """Writes what stands beside numbers without error bars: the public facts, the domain, and what is said of them."""
    write_synced(folder / "facts.npz", archive_of({f"fact_{i}": fact.values for i, fact in enumerate(facts)}))
    write_synced(folder / "codebook.toml", tomli_w.dumps({"domain": settings_of_domain(domain)}).encode())
    write_synced(folder / name, statement.encode())


def facts_stated(domain: Domain, stated: list[list[int]]) -> tuple[list[tuple[int, ...]], dict[str, ArrayForm]]:
    """The attributes of the facts that a folder states, and the forms of their arrays.

    Raises:
        ValueError: attributes that the domain lacks.
    """
    facts = [tuple(listed) for listed in stated]
    for members in facts:
        inside = all(type(i) is int and 0 <= i < len(domain) for i in members)
        if not inside or list(members) != sorted(set(members)):
            raise ValueError("a fact is about attributes that the domain lacks")
    shapes = [tuple(int(domain.sizes[i]) for i in members) for members in facts]
    return facts, {f"fact_{i}": ArrayForm(np.dtype(np.float64), shape) for i, shape in enumerate(shapes)}


def read_facts(path: Path, facts: Sequence[tuple[int, ...]], forms: Mapping[str, ArrayForm]) -> tuple[Fact, ...]:
    """The facts of a folder."""
    arrays = read_archive(path / "facts.npz", forms)
    return tuple(Fact(members, arrays[f"fact_{i}"]) for i, members in enumerate(facts))
