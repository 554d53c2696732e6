"""A saved release: a folder that is whole or absent, states its privacy, and notices when it was changed.

release.json       kind, version, receipt, and the digest of every other file
plan.json          the plan as it was made
measurements.npy   the noisy integers (64-bit, no pickle)
blocks.npz         sets measured, grid factors, noise scales
codebook.toml      the domain: attributes, labels, policies
PRIVACY.md         the privacy statement, for people
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tomli_w
from numpy.typing import NDArray

from residua.domain import settings_of_domain
from residua.errors import FileError
from residua.files import read_document, sync_folder, write_document
from residua.folders import check_digests, digests_of, partial_folder, reason, write_synced
from residua.plans.blocks import Blocks
from residua.plans.contract import Plan
from residua.release.base import Release
from residua.release.statement import privacy_statement

KIND, VERSION = "residua release", 1
_FILES = ("plan.json", "measurements.npy", "blocks.npz", "codebook.toml", "PRIVACY.md")
_SPARE = "spare"


@dataclass(frozen=True)
class Reserved:
    """Room on the disk for a release that is yet to be measured."""

    final: Path
    partial: Path

    def commit(self, release: Release) -> None:
        """Writes the measurements into the room reserved for them and lets the folder appear under its name."""
        try:
            with (self.partial / "measurements.npy").open("r+b") as file:
                _write_array(file, release.measurements)
                file.truncate()
                file.flush()
                os.fsync(file.fileno())
            (self.partial / _SPARE).unlink()  # room for the last two files
            write_synced(self.partial / "PRIVACY.md", privacy_statement(release).encode())
            digests = digests_of(self.partial, _FILES)
            body = {"receipt": dict(release.receipt), "files": digests}
            write_document(self.partial / "release.json", KIND, VERSION, body)
            sync_folder(self.partial)
        except OSError as problem:
            raise FileError(f"cannot write the release {str(self.final)!r}: {reason(problem)}.") from None
        try:
            self.partial.rename(self.final)
        except OSError as problem:  # the name was taken meanwhile; what was measured cannot be had again for free
            kept = self.final.with_name(f"{self.final.name}-{self.partial.name[-8:]}")
            self.partial.rename(kept)
            raise FileError(
                f"the release cannot be named {str(self.final)!r} ({reason(problem)}); "
                f"it is whole in {str(kept)!r}: use that."
            ) from None
        finally:
            sync_folder(self.final.parent)


@contextlib.contextmanager
def reserve(path: Path, plan: Plan, blocks: Blocks) -> Iterator[Reserved]:
    """Makes sure, before anything is spent, that a release can be written: its name is free and there is room.

    Raises:
        FileError: the folder exists, cannot be made, or the disk is too full. Nothing was spent.
    """
    path = path.absolute()
    with partial_folder(path, "release") as partial:
        try:
            _prepare(partial, plan, blocks)
        except OSError as problem:
            raise FileError(
                f"out: there is no room for the release in {str(path.parent)!r} ({reason(problem)}); "
                "make space or choose another folder, nothing was spent."
            ) from None
        yield Reserved(path, partial)


def load_release(path: Path) -> Release:
    """Reads a saved release, refusing one that was changed."""
    if not path.is_dir():
        raise FileError(f"there is no release folder {str(path)!r}; check the path.")
    if not (path / "release.json").is_file():
        raise FileError(f"{str(path)!r} is not a release folder, or lacks 'release.json'; check the path.")
    body = read_document(path / "release.json", KIND, VERSION)
    check_digests(path, body["files"], _FILES, "release")
    plan = Plan.load(path / "plan.json")
    try:
        measurements: NDArray[np.int64] = np.load(path / "measurements.npy", mmap_mode="r", allow_pickle=False)
        with np.load(path / "blocks.npz", allow_pickle=False) as arrays:
            return Release(plan, plan.saved_blocks(dict(arrays)), measurements, body["receipt"])
    except (ValueError, KeyError, OSError) as problem:
        raise FileError(f"the release {str(path)!r} is damaged ({problem}).") from None


def _prepare(folder: Path, plan: Plan, blocks: Blocks) -> None:
    """Everything that is known before measuring, and as many bytes on the disk as the rest will need."""
    plan.save(folder / "plan.json")
    write_synced(folder / "codebook.toml", tomli_w.dumps({"domain": settings_of_domain(plan.domain)}).encode())
    arrays = io.BytesIO()
    np.savez(arrays, allow_pickle=False, **blocks.arrays())
    write_synced(folder / "blocks.npz", arrays.getvalue())
    with (folder / "measurements.npy").open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, 8 * blocks.cells + 4096)
    with (folder / _SPARE).open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, 2**18)


def _write_array(file: io.BufferedRandom, array: NDArray[np.int64]) -> None:
    np.lib.format.write_array(file, np.ascontiguousarray(array), allow_pickle=False)
