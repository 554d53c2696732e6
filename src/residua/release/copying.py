"""Releases are copied and pickled as what is saved of them, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from residua.release.folder import load_release

if TYPE_CHECKING:
    from residua.release.base import Release


def files_of(release: Release) -> dict[str, bytes]:
    """The files of a saved release: path → content."""
    with TemporaryDirectory() as folder:
        release.save(Path(folder, "release"))
        files = [file for file in Path(folder).rglob("*") if file.is_file()]
        return {file.relative_to(folder).as_posix(): file.read_bytes() for file in files}


def release_of_files(files: Mapping[str, bytes], made_of: Callable[..., Release]) -> Release:
    """The release that these files are, refused where they were changed."""
    with TemporaryDirectory() as folder:
        for name, content in files.items():
            Path(folder, name).parent.mkdir(parents=True, exist_ok=True)
            Path(folder, name).write_bytes(content)
        return load_release(Path(folder, "release"), made_of)
