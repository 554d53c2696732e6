"""A saved projection: a folder that is whole or absent, says that it is biased, and notices when it was changed.

projection.json    kind, version, terms, gap, bound or simulated error, and the digest of every other file
estimates.npy      residuals of all tables, or the histogram (64-bit floats, no pickle)
facts.npz          the public facts that were met
PROJECTION.md      what was done and how accurate it is, for people
release/           the release that it was made from
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from residua import folders
from residua.domain.facts import Fact
from residua.errors import FileError
from residua.files import MOST_DOCUMENT, read_document, require_path, write_document
from residua.projection.accuracy import Bound, SimulatedError
from residua.projection.problem import Terms
from residua.projection.problems import problem_of
from residua.release.base import Release

if TYPE_CHECKING:
    from residua.projection.project import Projected

KIND, VERSION = "residua projection", 3
NAME = "projection.json"
_MOST_HEADER = 4096
_FILES = ("estimates.npy", "facts.npz", "PROJECTION.md")


def save_projection(projected: Projected, path: Path) -> None:
    """Writes a projection as a folder, whole or not at all."""
    with folders.whole_folder(path, "projection") as folder:
        beside = write_beside(folder, projected.release, projected.terms.facts, "PROJECTION.md", projected.statement)
        with (folder / "estimates.npy").open("wb") as file:
            np.lib.format.write_array(file, np.ascontiguousarray(projected.fit.array), allow_pickle=False)
            file.flush()
            os.fsync(file.fileno())
        body = {
            "terms": {name: value for name, value in vars(projected.terms).items() if name != "facts"},
            "gap": projected.gap if math.isfinite(projected.gap) else None,
            "infeasibility": projected.infeasibility,
            "distance": projected.distance,
            "bound": None if projected.bound is None else asdict(projected.bound),
            "simulated": None if projected.simulated is None else asdict(projected.simulated),
            **beside,
            "files": folders.digests_of(folder, _FILES),
        }
        write_document(folder / NAME, KIND, VERSION, body)


def load_projection(path: Path) -> tuple[Any, ...]:
    """Reads what a saved projection is made of, in order, refusing one that was changed.

    Nothing in the folder is trusted: only regular files are opened, and each only once its size is known to fit.
    """
    require_path(path)
    hint = "it is a release: project it first" if (path / "release.json").is_file() else "check the path"
    folders.require_folder(path, "projection", NAME, hint)
    folders.require_files(path, _FILES, "projection")
    body = read_document(path / NAME, KIND, VERSION)
    with folders.refusing_damage(f"the projection {str(path)!r} is"):
        release, facts = read_beside(path, body, "PROJECTION.md", "projection")
        terms = replace(msgspec.convert(body["terms"], Terms), facts=facts)
        gap = math.inf if body["gap"] is None else float(body["gap"])
        estimates = folders.mapped_array(path / "estimates.npy", folders.ArrayForm(np.dtype(np.float64), None))
        fit = problem_of(release.plan, terms).fit_of(estimates, gap, float(body["infeasibility"]))
        folders.check_digests(path, body["files"], {"estimates.npy": _MOST_HEADER + estimates.nbytes}, "projection")
        if body["bound"] is not None and body["bound"]["projected"] is None:
            body["bound"]["projected"] = math.inf  # JSON has no number for what is infinite
        bound = msgspec.convert(body["bound"], Bound | None)
        simulated = msgspec.convert(body["simulated"], SimulatedError | None)
        return release, terms, fit, float(body["distance"]), bound, simulated


def write_beside(folder: Path, release: Release, facts: Sequence[Fact], name: str, statement: str) -> dict[str, Any]:
    """Writes what stands beside numbers made from a release: it, public facts, what is said; what a document states."""
    release.save(folder / "release")
    folders.write_synced(
        folder / "facts.npz", folders.archive_of({f"fact_{i}": fact.values for i, fact in enumerate(facts)})
    )
    folders.write_synced(folder / name, statement.encode())
    return {"facts": [list(fact.members) for fact in facts], "release": _digest(folder)}


def read_beside(path: Path, body: Mapping[str, Any], name: str, what: str) -> tuple[Release, tuple[Fact, ...]]:
    """The release that numbers were made from, and the public facts that they meet.

    Raises:
        FileError: one of them was changed, or the release is a link.
        ValueError: facts about attributes that the domain lacks.
    """
    if (path / "release").is_symlink():
        raise FileError(f"the release in {str(path)!r} is a link, not a folder; copy the whole folder again.")
    release = Release.load(path / "release")
    if _digest(path) != body["release"]:
        raise FileError(f"the release in {str(path)!r} was changed after it was written; do not trust the folder.")
    members, sizes = [tuple(listed) for listed in body["facts"]], release.domain.sizes
    for each in members:
        inside = all(type(i) is int and 0 <= i < len(sizes) for i in each)
        if not inside or list(each) != sorted(set(each)):
            raise ValueError("a fact is about attributes that the domain lacks")
    shapes = [tuple(int(sizes[i]) for i in each) for each in members]
    forms = {f"fact_{i}": folders.ArrayForm(np.dtype(np.float64), shape) for i, shape in enumerate(shapes)}
    folders.check_digests(path, body["files"], {"facts.npz": folders.archive_size(forms), name: MOST_DOCUMENT}, what)
    arrays = folders.read_archive(path / "facts.npz", forms)
    return release, tuple(Fact(each, arrays[f"fact_{i}"]) for i, each in enumerate(members))


def _digest(folder: Path) -> str:
    """Which release it is: the digest of the document that holds all its digests."""
    return hashlib.sha256((folder / "release" / "release.json").read_bytes()).hexdigest()
