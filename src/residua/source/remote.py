"""Files in object stores and on the web: which ones a URI means, how they are opened, and whether they changed.

Stores (`s3://`, `gs://`, `abfss://`) are read by Arrow's own file systems, the web by fsspec's. Both take credentials
from the environment, or from the profiles of the store's own tools; residua neither asks for them nor sees them.
"""

from __future__ import annotations

import contextlib
import fnmatch
import os
import posixpath
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Any

from residua.errors import SourceError
from residua.source.uris import STORES, Uri, parse_uri

_MAGIC = frozenset("*?[")
_SETTINGS = ("AWS_", "GOOGLE_", "CLOUD", "AZURE_", "STORAGE_")  # of the environment, that stores look at
_PACKED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}


@dataclass(frozen=True)
class RemoteFile:
    """One file in a store or on the web. What is printed of it holds no credential.

    Args:
        uri: where it is.
        below: where it lies below the folder that was named; nothing when the file itself was.
        seen: what its store said of it when it was first opened: size, ETag or time of change.
    """

    uri: Uri
    below: PurePosixPath | None = None
    seen: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def __str__(self) -> str:
        return str(self.uri)

    @property
    def _name(self) -> PurePosixPath:
        return PurePosixPath(self.uri.path)

    @property
    def suffix(self) -> str:
        """The last suffix of its name."""
        return self._name.suffix

    @property
    def suffixes(self) -> list[str]:
        """All suffixes of its name."""
        return self._name.suffixes

    def size(self) -> int | None:
        """Its bytes, if the store says."""
        with explained(self):
            filesystem, path = _filesystem(self.uri)
            size = _marks(filesystem, path).get("size")
            return None if size is None else int(size)

    @contextlib.contextmanager
    def opened(self, *, stream: bool = False) -> Iterator[Any]:
        """The file as Arrow reads it: at any place, or from its beginning and unpacked.

        Raises:
            SourceError: it is not there, may not be read, or is not what it was when it was opened first.
        """
        with explained(self):
            filesystem, path = _filesystem(self.uri)
            self._note(filesystem, path)
            if stream:
                packed = _PACKED.get(self.suffix.lower())
                handle = filesystem.open_input_stream(path, compression=packed, buffer_size=1 << 20)
            else:
                handle = filesystem.open_input_file(path)
            with handle:
                yield handle
            self._note(filesystem, path)

    def _note(self, filesystem: Any, path: str) -> None:
        """Compares what the store says of the file with what it said before."""
        for name, value in _marks(filesystem, path).items():
            if self.seen.setdefault(name, value) != value:
                raise SourceError(f"{str(self)!r} changed while it was read; wait until it is whole, and begin again.")


def expand_uri(text: str, folder_suffixes: tuple[str, ...]) -> list[RemoteFile]:
    """The files that a URI means: itself, those of a pattern in a store, or those below a folder.

    Raises:
        SourceError: no such file, a folder where none is taken, or a store that refuses.
    """
    uri = parse_uri(text)
    with explained(uri):
        filesystem, path = _filesystem(uri)
        if not uri.is_store:
            _marks(filesystem, path)
            return [RemoteFile(uri)]
        found = filesystem.get_file_info(path)
        found = found if found.is_file or found.type.name == "Directory" else None
    if found is not None and found.is_file:
        return [RemoteFile(uri)]
    if found is not None:
        return _folder(uri, folder_suffixes)
    if _MAGIC & set(uri.path):
        return _matching(uri)
    raise SourceError(f"there is no file {str(uri)!r}; check the path, and that the bucket is yours.")


def _folder(uri: Uri, suffixes: tuple[str, ...]) -> list[RemoteFile]:
    folder = uri.path.rstrip("/")
    if not suffixes:
        raise SourceError(f"{str(uri)!r} is a folder; name its files, for example {str(uri).rstrip('/') + '/*.csv'!r}.")
    below = [(PurePosixPath(posixpath.relpath(path, folder)), path) for path in _listed(uri, folder)]
    found = [
        RemoteFile(uri.at(path), inner)
        for inner, path in sorted(below)
        if inner.name.lower().endswith(suffixes) and not any(part.startswith((".", "_")) for part in inner.parts)
    ]
    if not found:
        raise SourceError(f"there are no {' or '.join(suffixes)} files in the folder {str(uri)!r}; check the path.")
    return found


def _matching(uri: Uri) -> list[RemoteFile]:
    parts = uri.path.split("/")
    fixed = next(i for i, part in enumerate(parts) if _MAGIC & set(part))
    listed = _listed(uri, "/".join(parts[:fixed]), deep=len(parts) - fixed > 1 or "**" in parts)
    found = sorted(path for path in listed if _matches(path.split("/"), parts))
    if not found:
        raise SourceError(f"no file matches {str(uri)!r}; check the pattern and the folder.")
    return [RemoteFile(uri.at(path)) for path in found]


def _matches(path: list[str], pattern: list[str]) -> bool:
    """As `glob` does: `*` stays within a folder and leaves out names that begin with a dot, `**` is any folders."""
    if not pattern or not path:
        return not pattern and not path
    if pattern[0] == "**":
        inside = len(path) > 1 and not path[0].startswith(".") and _matches(path[1:], pattern)
        return inside or _matches(path, pattern[1:])
    hidden = path[0].startswith(".") and not pattern[0].startswith(".")
    return not hidden and fnmatch.fnmatchcase(path[0], pattern[0]) and _matches(path[1:], pattern[1:])


def _listed(uri: Uri, folder: str, deep: bool = True) -> list[str]:
    """The paths of all files below a folder of a store, within their bucket."""
    from pyarrow.fs import FileSelector

    with explained(uri):
        filesystem, base = _filesystem(uri.at(folder))
        selector = FileSelector(base, recursive=deep, allow_not_found=True)
        root = len(base) - len(folder)
        return [found.path[root:] for found in filesystem.get_file_info(selector) if found.is_file]


def _marks(filesystem: Any, path: str) -> dict[str, Any]:
    """What tells a file from a later one of the same name, as far as its store says."""
    from pyarrow.fs import PyFileSystem

    if isinstance(filesystem, PyFileSystem):  # the web
        said = filesystem.handler.fs.info(path)
    else:
        with filesystem.open_input_file(path) as handle:  # asks for its head alone
            said = {"size": handle.size(), **(handle.metadata() or {})}
        if not {"ETag", "generation"} & set(said):
            found = filesystem.get_file_info(path)
            said = {"size": found.size, "Last-Modified": found.mtime_ns}
    return {name: said[name] for name in ("size", "ETag", "generation", "Last-Modified") if said.get(name) is not None}


def _filesystem(uri: Uri) -> tuple[Any, str]:
    """The file system that reads it, and the path there."""
    if uri.scheme in STORES:
        query = f"?{uri.query}" if uri.query else ""
        scheme = "gs" if uri.scheme == "gcs" else uri.scheme
        settings = tuple(item for item in sorted(os.environ.items()) if item[0].startswith(_SETTINGS))
        filesystem, root = _store(f"{scheme}://{uri.place}{query}", hash(settings))
        return filesystem, f"{root.rstrip('/')}/{uri.path.strip('/')}".rstrip("/")
    return _web(), f"{uri}?{uri.query}" if uri.query else str(uri)


@lru_cache(maxsize=16)
def _store(place: str, settings: int) -> tuple[Any, str]:
    """A connection to a store, made again when the environment says something else; finding a region takes a while."""
    from pyarrow.fs import FileSystem

    return FileSystem.from_uri(place)  # type: ignore[no-any-return]


@lru_cache(maxsize=1)
def _web() -> Any:
    try:
        from fsspec.implementations.http import HTTPFileSystem
    except ImportError:
        raise SourceError(
            "files on the web are read by fsspec, which is not installed; run: pip install 'residua[web]'"
        ) from None
    from pyarrow.fs import FSSpecHandler, PyFileSystem

    # Proxies and .netrc from the environment; nothing is remembered of earlier listings.
    fs = HTTPFileSystem(client_kwargs={"trust_env": True}, use_listings_cache=False, skip_instance_cache=True)
    return PyFileSystem(FSSpecHandler(fs))


@contextlib.contextmanager
def explained(what: object) -> Iterator[None]:
    """Turns what a store or a server answers into a sentence; its own words may hold more than they should."""
    try:
        yield
    except SourceError:
        raise
    except Exception as problem:
        # fsspec says that a file is not there whenever it could not ask.
        cause = problem.__cause__ if isinstance(problem, FileNotFoundError) and problem.__cause__ else problem
        ours = isinstance(cause, OSError) or type(cause) in _VAGUE or type(cause).__module__.split(".")[0] in _NETWORK
        if not ours:
            raise
        status = getattr(cause, "status", None)
        if isinstance(cause, FileNotFoundError) or status in (404, 410):
            raise SourceError(f"there is no file {str(what)!r}; check the path.") from None
        if isinstance(cause, PermissionError) or status in (401, 403) or any(word in str(cause) for word in _DENIED):
            raise SourceError(
                f"{str(what)!r} may not be read with the credentials that the environment gives; set them there, or in "
                "a profile."
            ) from None
        raise SourceError(
            f"{str(what)!r} cannot be read to its end: it is damaged, or its store refused or broke off; check "
            "the file, the address, the network and the credentials in the environment."
        ) from None


_VAGUE = (ValueError, RuntimeError, NotImplementedError)  # these types themselves: a server that knows no ranges
_NETWORK = ("aiohttp", "fsspec", "asyncio")
_DENIED = ("ACCESS_DENIED", "INVALID_ACCESS_KEY_ID", "SIGNATURE_DOES_NOT_MATCH", "PERMISSION_DENIED", "UNAUTHENTICATED",
           "AuthenticationFailed", "AuthorizationFailure", "HTTP response code 403", "HTTP Status 403")  # fmt: skip
