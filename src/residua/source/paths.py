"""Files on disk: which ones a path or a pattern means, their digest, and what went wrong reading them."""

from __future__ import annotations

import glob
import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from residua.errors import FileError, SourceError
from residua.files import require_path
from residua.source.source import Paths


def expand(paths: Paths, folder_suffixes: tuple[str, ...] = ()) -> tuple[Path, ...]:
    """The files that paths and patterns mean: patterns in alphabetical order, the rest as given.

    Args:
        paths: a path, a list of paths, or a pattern.
        folder_suffixes: a folder stands for all files below it that end so; with none, a folder is refused.

    Raises:
        SourceError: no such file, a folder, or a file named twice (its records would count twice).
    """
    given = [paths] if isinstance(paths, str | Path) else list(paths)
    if not given:
        raise SourceError("paths is empty; name at least one file.")
    files: list[Path] = []
    for path in given:
        if not isinstance(path, str | Path):
            raise SourceError(f"paths holds {path!r}, which is no path; pass text or pathlib paths.")
        files += _expand_one(str(path), folder_suffixes)
    seen: set[tuple[int, int]] = set()
    for file in files:
        status = file.stat()  # the same file under another name, link or not
        if (status.st_dev, status.st_ino) in seen:
            raise SourceError(f"paths name {str(file)!r} twice, which would count it twice; name it once.")
        seen.add((status.st_dev, status.st_ino))
    return tuple(files)


def _expand_one(path: str, folder_suffixes: tuple[str, ...]) -> list[Path]:
    require_source_path(path)
    if Path(path).is_file():
        return [Path(path)]
    if Path(path).is_dir():
        if not folder_suffixes:
            raise SourceError(f"{path!r} is a folder; name its files, for example {path.rstrip('/') + '/*.csv'!r}.")
        found = sorted(file for file in Path(path).rglob("*") if _is_member(file, Path(path), folder_suffixes))
        if found:
            return found
        raise SourceError(f"there are no {' or '.join(folder_suffixes)} files in the folder {path!r}; check the path.")
    if glob.has_magic(path):
        found = sorted(file for file in map(Path, glob.glob(path, recursive=True)) if file.is_file())  # noqa: PTH207
        if found:
            return found
        raise SourceError(f"no file matches {path!r}; check the pattern and the folder.")
    raise SourceError(f"there is no file {path!r}; check the path.")


def _is_member(file: Path, folder: Path, suffixes: tuple[str, ...]) -> bool:
    hidden = any(part.startswith((".", "_")) for part in file.relative_to(folder).parts)
    return not hidden and file.name.lower().endswith(suffixes) and file.is_file()


def require_source_path(path: str | Path) -> None:
    """Refuses what no file system takes as a path.

    Raises:
        SourceError: it cannot be a path.
    """
    try:
        require_path(Path(path))
    except FileError as problem:
        raise SourceError(str(problem)) from None


def digest_of_files(files: Sequence[Path]) -> str:
    """SHA-256 over the bytes of the files in order; of one file, what `sha256sum` prints."""
    digests = []
    for path in files:
        with readable(path), path.open("rb") as file:
            digests.append(hashlib.file_digest(file, "sha256"))
    if len(digests) == 1:
        return f"files:{digests[0].hexdigest()}"
    # The digest of the digests, so that moving bytes from one file to the next is noticed.
    return f"files:{hashlib.sha256(b''.join(digest.digest() for digest in digests)).hexdigest()}"


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turns the operating system's refusals into sentences."""
    try:
        yield
    except FileNotFoundError:
        raise SourceError(f"there is no file {str(path)!r}; check the path.") from None
    except PermissionError:
        raise SourceError(f"{str(path)!r} may not be read; change its permissions.") from None
