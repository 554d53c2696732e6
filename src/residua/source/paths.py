"""Files, here or elsewhere: which ones a path, a pattern or a URI means, how they are opened, their digest."""

from __future__ import annotations

import glob
import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from residua.errors import FileError, SourceError
from residua.files import require_path
from residua.source.remote import RemoteFile, expand_uri
from residua.source.uris import is_uri, redacted

File = Path | RemoteFile
Paths = str | Path | Sequence[str | Path]
_PART = 1 << 20  # bytes that are held at a time


def expand(paths: Paths, folder_suffixes: tuple[str, ...] = ()) -> tuple[File, ...]:
    """The files that paths, patterns and URIs mean: patterns in alphabetical order, the rest as given.

    Args:
        paths: a path or URI, a list of them, or a pattern.
        folder_suffixes: a folder stands for all files below it that end so; with none, a folder is refused.

    Raises:
        SourceError: no such file, a folder, or a file named twice (its records would count twice).
    """
    given = [paths] if isinstance(paths, str | Path) else list(paths)
    if not given:
        raise SourceError("paths is empty; name at least one file.")
    files: list[File] = []
    for path in given:
        if not isinstance(path, str | Path):
            raise SourceError(f"paths holds {path!r}, which is no path; pass text or pathlib paths.")
        if isinstance(path, str) and is_uri(path):
            files += expand_uri(path, folder_suffixes)
        else:
            files += _expand_one(str(path), folder_suffixes)
    seen: set[object] = set()
    for file in files:
        if (identity := _identity(file)) in seen:
            raise SourceError(f"paths name {str(file)!r} twice, which would count it twice; name it once.")
        seen.add(identity)
    return tuple(files)


def _identity(file: File) -> object:
    if isinstance(file, RemoteFile):
        return file.uri
    status = file.stat()  # the same file under another name, link or not
    return status.st_dev, status.st_ino


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
        raise SourceError(redacted(str(problem))) from None


@contextmanager
def opened(file: File, *, stream: bool = False) -> Iterator[Any]:
    """The file as Arrow reads it: at any place, or from its beginning and unpacked.

    Raises:
        SourceError: it is not there, or may not be read.
    """
    import pyarrow as pa

    if isinstance(file, RemoteFile):
        with file.opened(stream=stream) as handle:
            yield handle
        return
    with readable(file):
        handle = pa.input_stream(str(file), compression="detect") if stream else pa.OSFile(str(file))
    with handle:
        yield handle


def size_of(file: File) -> int | None:
    """The bytes of a file, if that is known."""
    return file.size() if isinstance(file, RemoteFile) else file.stat().st_size


def digest_of_files(files: Sequence[File]) -> str:
    """SHA-256 over the bytes of the files in order; of one file, what `sha256sum` prints."""
    digests = []
    for path in files:
        digest = hashlib.sha256()
        with opened(path) as file:
            while part := file.read(_PART):
                digest.update(part)
        digests.append(digest)
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
