"""Files in stores and on the web: URIs whose credentials, which belong in the environment, are never shown."""

from __future__ import annotations

import fnmatch
import os
import posixpath
import re
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path, PurePath, PurePosixPath
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlsplit

from residua.errors import FileError, SourceError, named
from residua.files import is_uri, require_path
from residua.machine import missing, pyarrow
from residua.source.options import explained

STORES = ("s3", "gs", "gcs", "abfs", "abfss")  # whose files can be listed
WEB = ("http", "https")
_AZURE = {"blob_storage_authority", "dfs_storage_authority", "enable_tls", "credential_kind"}
_PLACES = {
    "s3": {"region", "endpoint_override", "scheme"},
    "gs": {"endpoint_override", "scheme"},
    "abfs": _AZURE,
    "abfss": _AZURE,
}
_REMEDY = "leave credentials to the environment or to a profile of the store's own tools"


@dataclass(frozen=True)
class Uri:
    """Where a file or a folder is, in a store or on the web.

    Args:
        scheme: `s3`, `gs`, `abfss`, `https`, …
        place: the bucket, the container with its account, or the host.
        path: what follows, as it is written; without a leading slash in a store.
        query: of a store, its region or endpoint, or which kind of credential is looked for; on the web anything, which
            is never shown: it may be a signature.
    """

    scheme: str
    place: str
    path: str
    query: str = ""

    def __str__(self) -> str:
        return f"{self.scheme}://{self.place}/{self.path.lstrip('/')}"

    def __repr__(self) -> str:
        return f"Uri({str(self)!r})"

    @property
    def is_store(self) -> bool:
        """Whether it is an object store."""
        return self.scheme in STORES

    def at(self, path: str) -> Uri:
        """Another path of the same place."""
        return Uri(self.scheme, self.place, path, self.query)


def parse_uri(text: str) -> Uri:
    """The place that a URI names.

    Raises:
        SourceError: a scheme that is not known, a URI without a place, or one that holds a credential; the message
            does not repeat it.
    """
    scheme, _, rest = text.partition("://")
    scheme = scheme.lower()
    if scheme not in (*STORES, *WEB):
        raise SourceError(
            f"{shown_uri(text)!r} is of a kind that residua does not read; give a path, or a URI that begins with "
            "s3://, gs://, abfss:// or https://."
        )
    # In a store everything after the bucket is a name, in which ? and # are characters, except a query of ours.
    authority, slash, path = rest.partition("/")
    query = ""
    if scheme in WEB:
        try:
            parts = urlsplit(text)
        except ValueError:
            raise SourceError(f"{shown_uri(text)!r} is not a URI; correct it.") from None
        authority, path, query = parts.netloc, parts.path, parts.query
    elif _known_query(text):
        path, _, query = path.rpartition("?")
    place = _place(scheme, authority, text)
    _check_query(scheme, query, text)
    if not place or (scheme in STORES and (not slash or not path.strip("/"))):
        raise SourceError(f"{shown_uri(text)!r} names no file; write it as {scheme}://BUCKET/FILE.")
    if "\0" in text:
        raise SourceError(f"{shown_uri(text)!r} holds a NUL character and cannot be the name of a file; correct it.")
    return Uri(scheme, place, path, query)


def _known_query(text: str) -> bool:
    return re.search(r"\?\w+=[^?]*$", text) is not None


def _place(scheme: str, authority: str, text: str) -> str:
    user, at, _ = authority.rpartition("@")
    if scheme in STORES and ":" in authority:  # no bucket's name has one: it comes before a password, which may hold /
        raise SourceError(f"{shown_uri(text)!r} holds a user or a password; {_REMEDY}.")
    container = scheme in ("abfs", "abfss") and ":" not in user and user != ""
    anonymous = scheme in ("gs", "gcs") and user == "anonymous"
    if at and not (container or anonymous):
        raise SourceError(f"{shown_uri(text)!r} holds a user or a password; {_REMEDY}.")
    if not re.fullmatch(r"[\w.@:\[\]-]*", authority, flags=re.ASCII):
        raise SourceError(f"{shown_uri(text)!r} names no place that there can be; correct it.")
    return authority


def _check_query(scheme: str, query: str, text: str) -> None:
    if scheme in WEB:
        return
    unknown = [name for name, _ in parse_qsl(query, keep_blank_values=True) if name not in _PLACES.get(scheme, set())]
    if unknown:
        known = " and ".join(sorted(_PLACES.get(scheme, {"nothing"})))
        raise SourceError(
            f"{shown_uri(text)!r} has a query that says more than where it is; for {scheme}:// it may say {known}: "
            f"{_REMEDY}."
        )


def refuse_keys(text: str) -> None:
    """Refuses a path of Spark's, whose schemes are its own, that holds a password, or a query that may be a key.

    Raises:
        SourceError: it does; the message does not repeat it.
    """
    if is_uri(text) and (":" in text.partition("://")[2].rpartition("@")[0] or _known_query(text)):
        raise SourceError(f"{shown_uri(text)!r} holds a password or a key; leave credentials to Spark's settings.")


def shown_uri(text: str) -> str:
    """What messages may show of one URI: neither a user or a password, whatever they hold, nor a query."""
    scheme, _, rest = text.partition("://")
    user, _, place = rest.rpartition("@")
    container = scheme.lower() in ("abfs", "abfss")  # which is no user
    hidden = ":" in user or ("@" in rest.partition("/")[0] and not container)
    return redacted(f"{scheme}://…@{place}" if hidden else text)


def shown_value(value: object) -> str:
    """What messages may show of whatever stands where a path should."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(shown_value, value))}]"
    return repr(shown_uri(value)) if isinstance(value, str) and "://" in value else redacted(repr(value))


def redacted(text: str) -> str:
    """A text without users, passwords and queries of the URIs in it: what messages may show."""
    hidden = re.sub(r"(://)[^/@\s'\"]*:[^\s'\"]*@", r"\1…@", text)  # up to the last @: a password may hold a slash
    hidden = re.sub(r"((?:s3|gs|gcs|abfss?)://[^/:\s'\"]*):[^\s'\"]*", r"\1:…", hidden, flags=re.IGNORECASE)
    hidden = re.sub(r"((?:s3|https?)://)[^/@\s'\"]+@", r"\1…@", hidden, flags=re.IGNORECASE)
    return re.sub(r"(://[^?\s'\"]*)\?[^\s'\"]*", r"\1?…", hidden)


_MAGIC = frozenset("*?[")
_SETTINGS = ("AWS_", "GOOGLE_", "CLOUD", "AZURE_", "STORAGE_")  # of the environment, that stores look at
_PACKED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
_VAGUE = (ValueError, RuntimeError, NotImplementedError)  # these types themselves: a server that knows no ranges
_NETWORK = ("aiohttp", "fsspec", "asyncio")
_DENIED = ("ACCESS_DENIED", "INVALID_ACCESS_KEY_ID", "SIGNATURE_DOES_NOT_MATCH", "PERMISSION_DENIED", "UNAUTHENTICATED",
           "AuthenticationFailed", "AuthorizationFailure", "HTTP response code 403", "HTTP Status 403")  # fmt: skip
P = TypeVar("P", bound=PurePath)
T = TypeVar("T", str, Path)


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
        with _asked(self):
            filesystem, path = _filesystem(self.uri)
            size = _marks(filesystem, path).get("size")
            return None if size is None else int(size)

    @contextmanager
    def opened(self, *, stream: bool = False) -> Iterator[Any]:
        """The file as Arrow reads it: at any place, or from its beginning and unpacked.

        Raises:
            SourceError: it is not there, may not be read, or is not what it was when it was opened first.
        """
        with _asked(self):
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


def remote_files(text: str, folder_suffixes: tuple[str, ...]) -> list[RemoteFile]:
    """The files that a URI or a pattern of them means."""
    uri = parse_uri(text)
    with _asked(uri):
        filesystem, path = _filesystem(uri)
        if not uri.is_store:
            _marks(filesystem, path)
            return [RemoteFile(uri)]
        status = filesystem.get_file_info(path)
    if status.is_file:
        return [RemoteFile(uri)]
    if status.type.name == "Directory":
        folder = uri.path.rstrip("/")
        inside = ((PurePosixPath(posixpath.relpath(file, folder)), file) for file in _listed(uri, folder))
        return [RemoteFile(uri.at(file), below) for below, file in members_of(str(uri), inside, folder_suffixes)]
    parts = uri.path.split("/")
    fixed = next((i for i, part in enumerate(parts) if _MAGIC & set(part)), None)
    matching: list[str] = []
    if fixed is not None:
        listed = _listed(uri, "/".join(parts[:fixed]), deep=len(parts) - fixed > 1 or "**" in parts)
        matching = [file for file in listed if _matches(file.split("/"), parts)]
    remedy = "check the path, and that the bucket is yours."
    return [RemoteFile(uri.at(file)) for file in matched(str(uri), matching, fixed is not None, remedy)]


def members_of(folder: str, inside: Iterable[tuple[P, T]], suffixes: tuple[str, ...]) -> list[tuple[P, T]]:
    """The files that a folder stands for: those with a suffix, without what begins with a dot or an underscore."""
    if not suffixes:
        raise SourceError(f"{folder!r} is a folder; name its files, for example {folder.rstrip('/') + '/*.csv'!r}.")
    members = [
        (below, file)
        for below, file in sorted(inside)
        if below.name.lower().endswith(suffixes) and not any(part.startswith((".", "_")) for part in below.parts)
    ]
    if not members:
        raise SourceError(f"there are no {' or '.join(suffixes)} files in the folder {folder!r}; check the path.")
    return members


def matched(shown: str, matching: list[T], pattern: bool, remedy: str) -> list[T]:
    """The files that a pattern means, sorted.

    Raises:
        SourceError: there are none, or it is no pattern.
    """
    if not pattern:
        raise SourceError(f"there is no file {named(shown)}; {remedy}")
    if not matching:
        raise SourceError(f"no file matches {shown!r}; check the pattern and the folder.")
    return sorted(matching)


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
    with _asked(uri):
        filesystem, base = _filesystem(uri.at(folder))
        selector = pyarrow.fs.FileSelector(base, recursive=deep, allow_not_found=True)
        root = len(base) - len(folder)
        return [info.path[root:] for info in filesystem.get_file_info(selector) if info.is_file]


def _marks(filesystem: Any, path: str) -> dict[str, Any]:
    """What tells a file from a later one of the same name, as far as its store says."""
    if isinstance(filesystem, pyarrow.fs.PyFileSystem):  # the web
        said = filesystem.handler.fs.info(path)
    else:
        with filesystem.open_input_file(path) as handle:  # asks for its head alone
            said = {"size": handle.size(), **(handle.metadata() or {})}
        if not {"ETag", "generation"} & set(said):
            info = filesystem.get_file_info(path)
            said = {"size": info.size, "Last-Modified": info.mtime_ns}
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
    return pyarrow.fs.FileSystem.from_uri(place)  # type: ignore[no-any-return]


@lru_cache(maxsize=1)
def _web() -> Any:
    try:
        from fsspec.implementations.http import HTTPFileSystem
    except ImportError:
        sentence = 'files on the web are read by fsspec, which is not installed; run: pip install "residua[web]"'
        raise missing(sentence, SourceError) from None
    # Proxies and .netrc from the environment; nothing is remembered of earlier listings.
    fs = HTTPFileSystem(client_kwargs={"trust_env": True}, use_listings_cache=False, skip_instance_cache=True)
    return pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(fs))


def _asked(what: object) -> AbstractContextManager[None]:
    """Turns what a store or a server answers into a sentence."""

    def sentence(problem: Exception) -> str | None:
        # fsspec says that a file is not there whenever it could not ask.
        cause = problem.__cause__ if isinstance(problem, FileNotFoundError) and problem.__cause__ else problem
        if not (
            isinstance(cause, OSError) or type(cause) in _VAGUE or type(cause).__module__.split(".")[0] in _NETWORK
        ):
            return None
        status = getattr(cause, "status", None)
        if isinstance(cause, FileNotFoundError) or status in (404, 410):
            return f"there is no file {str(what)!r}; check the path."
        if isinstance(cause, PermissionError) or status in (401, 403) or any(word in str(cause) for word in _DENIED):
            why = "may not be read with the credentials that the environment gives; set them there, or in a profile."
            return f"{str(what)!r} {why}"
        return (
            f"{str(what)!r} cannot be read to its end: it is damaged, or its store refused or broke off; check "
            "the file, the address, the network and the credentials in the environment."
        )

    return explained(sentence, Exception)


def require_source_path(path: str | Path) -> None:
    """Refuses what no file system takes as a path.

    Raises:
        SourceError: it cannot be a path.
    """
    try:
        require_path(Path(path))
    except FileError as problem:
        raise SourceError(redacted(str(problem))) from None
