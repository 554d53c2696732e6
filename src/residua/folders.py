"""Folders that are either whole or absent, and notice when one of their files was changed; arrays in them.

Strangers may have written them: nothing is read before its type, shape and size are known to fit. NumPy's own reader
evaluates headers and allocates what they claim, and a compressed archive can claim a thousand times its size. Here a
header is compared with the one we write, archives hold exactly the members we expect, uncompressed, and large arrays
are mapped rather than read.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import math
import mmap
import os
import re
import secrets
import shutil
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from residua.disk import patiently, sync_folder
from residua.errors import FileError, named
from residua.files import open_regular, require_path

_STATED = {  # between what the numbers of a receipt must lie
    **dict.fromkeys(("pcost", "epsilon"), (0.0, 1e300)),
    "left_out_most": (0.0, 2.0**62),
    "weights_squared": (0.0, 1.0),
    **dict.fromkeys(("weights_most", "weights_step"), (0.0, 2.0**40)),
}
_FEW_FILES = 64  # a disk takes as long for each of many as for all at once
# What reading plain values that a stranger wrote can raise, besides what we raise ourselves.
DAMAGE = (
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    OSError,
    RecursionError,
    TypeError,
    ValueError,
    zlib.error,
)


def require_folder(path: Path, what: str, document: str, hint: str = "check the path") -> None:
    """Refuses a path that is no folder, or a folder that lacks the file that says what it is.

    Raises:
        FileError: there is none.
    """
    require_path(path)
    if not path.is_dir():
        raise FileError(f"there is no {what} folder {str(path)!r}; check the path.")
    if not (path / document).is_file():
        raise FileError(f"{str(path)!r} is not a {what} folder ({document!r} is not in it); {hint}.")


def require_files(folder: Path, names: Iterable[str], what: str) -> None:
    """Refuses a folder that lacks one of these files.

    Raises:
        FileError: it does.
    """
    for name in names:
        if not (folder / name).is_symlink() and not (folder / name).exists():
            raise FileError(f"the {what} {str(folder)!r} lacks {named(name)}; copy the whole folder again.")


def receipt_of(stated: object) -> dict[str, Any]:
    """The receipt that a folder states: names with texts and finite numbers.

    Raises:
        ValueError: anything else.
    """
    plain = isinstance(stated, dict) and all(isinstance(value, str | int | float) for value in stated.values())
    if not isinstance(stated, dict) or not plain:
        raise ValueError("its receipt is not a table of texts and numbers")
    for name, (least, most) in _STATED.items():
        value = stated.get(name, 0)
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
            raise ValueError(f"its receipt states no number as {name}")
    return stated


def require_free(path: Path, what: str = "release", *, argument: str = "out", taken: str = "") -> None:
    """Refuses, before any work, a name that is taken, or where nothing can be written.

    Args:
        path: where something is to be written.
        what: what it is.
        argument: how whoever named it calls it.
        taken: what is said if something is there.

    Raises:
        FileError: the name is taken, or the folder around it is missing or closed to us.
    """
    around = path.absolute().parent
    try:
        there = path.is_symlink() or path.exists()
    except OSError as problem:  # a name that is too long, a folder that may not be looked into
        raise _refused(argument, path, problem) from None
    if there:
        taken = taken or f"exists already; choose another folder, a {what} is never overwritten."
        raise FileError(f"{argument}={str(path)!r} {taken}")
    if not around.is_dir():
        raise FileError(f"{argument}: the folder {str(around)!r} does not exist; make it first.")
    if not os.access(around, os.W_OK | os.X_OK):
        raise _refused(argument, path, PermissionError(errno.EACCES, os.strerror(errno.EACCES)))


def _refused(argument: str, path: Path, problem: OSError) -> FileError:
    where = f"{path.name!r} in {str(path.absolute().parent)!r}"
    return FileError(f"{argument}: cannot write {where}: {problem.strerror}; choose another folder.")


@contextlib.contextmanager
def partial_folder(path: Path, what: str) -> Iterator[Path]:
    """A folder beside `path` to write into; the caller renames it when it is whole, else it disappears.

    Raises:
        FileError: the name is taken, or the folder around it is missing or cannot be written to.
    """
    require_path(path)
    partial = path.with_name(f".{path.name}.partial-{secrets.token_hex(4)}")
    require_free(path, what)
    try:  # from before it is there: whoever interrupts does not wait for the next line
        try:
            partial.mkdir()
        except OSError as problem:
            raise _refused("out", path, problem) from None
        yield partial
    finally:
        shutil.rmtree(partial, ignore_errors=True)


@contextlib.contextmanager
def whole_folder(path: Path, what: str) -> Iterator[Path]:
    """A folder to write into, which appears under its name when the block ends well.

    Raises:
        FileError: the name is taken, or the disk refuses; nothing is left behind.
    """
    path = path.absolute()
    with partial_folder(path, what) as partial:
        try:
            yield partial
            sync_folder(partial)
            patiently(partial.rename, path)
            sync_folder(path.parent)
        except FileError:
            raise
        except OSError as problem:
            raise FileError(f"cannot write the {what} {str(path)!r}: {reason(problem)}.") from None


def write_synced(path: Path, content: bytes) -> None:
    """Writes a file and waits until the disk has it."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def sync_files(folder: Path) -> None:
    """Waits until the disk has every file of a folder: one by one, or where they are many, all at once."""
    files = [path for path in folder.iterdir() if path.is_file()]
    if len(files) > _FEW_FILES and hasattr(os, "sync"):
        os.sync()
        return
    for path in files:
        with path.open("r+b") as file:  # Windows flushes no file that is open only to be read
            os.fsync(file.fileno())


def digests_of(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """The SHA-256 digest of each of these files."""
    digests = {}
    for name in names:
        with (folder / name).open("rb") as file:
            digests[name] = hashlib.file_digest(file, "sha256").hexdigest()
    return digests


def check_digests(folder: Path, digests: object, most: Mapping[str, int], what: str) -> None:
    """Refuses a folder that lacks one of these files, or in which one was changed, or is longer than it can be.

    Args:
        folder: where the files are; whatever else is in it is not looked at.
        digests: file → its SHA-256 digest, as the folder states it.
        most: the files, and how many bytes each may have at most.
        what: what the folder is.

    Raises:
        FileError: a file is missing, no regular file, too long, or its digest is another.
    """
    if not isinstance(digests, Mapping):
        raise FileError(f"the {what} {str(folder)!r} states no digests of its files; it is damaged.")
    require_files(folder, most, what)
    for name, size in most.items():
        with open_regular(folder / name) as file:
            if os.fstat(file.fileno()).st_size > size:
                raise FileError(f"{named(name)} in {str(folder)!r} is longer than it can be; do not trust the {what}.")
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if digest != digests.get(name):
            raise FileError(
                f"{named(name)} in {str(folder)!r} was changed after it was written; do not trust the {what}."
            )


@contextlib.contextmanager
def refusing_damage(what: str) -> Iterator[None]:
    """Turns whatever reading values of a stranger's folder raises into one refusal; `what` says what is damaged.

    Raises:
        FileError: the folder is damaged.
    """
    try:
        yield
    except FileError:
        raise
    except DAMAGE as problem:
        why = str(problem).rstrip(".")
        raise FileError(f"{what} damaged ({why}); copy the whole folder again.") from None


def reason(problem: OSError) -> str:
    """Why the system refused, without a full stop."""
    return problem.strerror or str(problem).rstrip(".")


_MAGIC = b"\x93NUMPY\x01\x00"
_MOST_HEADER = 4096
_PER_MEMBER = 1024  # what an archive adds to the bytes of a member: two names, sizes, and the array's own header
_HEADER = re.compile(r"\{'descr': '([<|]\w\d)', 'fortran_order': False, 'shape': \(([0-9, ]*)\), \} *\n")


@dataclass(frozen=True)
class ArrayForm:
    """What an array should be: its type, and its shape where that is known."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...] | None

    @property
    def most(self) -> int:
        """The most bytes its file may have."""
        return _MOST_HEADER + (math.prod(self.shape) * self.dtype.itemsize if self.shape is not None else 2**62)


def form_of(array: NDArray[Any]) -> ArrayForm:
    """The form of a given array."""
    return ArrayForm(array.dtype, array.shape)


def archive_size(forms: Mapping[str, ArrayForm]) -> int:
    """The most bytes an archive of these arrays may have."""
    return _PER_MEMBER + sum(form.most + _PER_MEMBER for form in forms.values())


def archive_of(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """The archive that `read_archive` reads. Not `np.savez`: older NumPy takes `allow_pickle` for one more array."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)
    return content.getvalue()


def mapped_array(path: Path, form: ArrayForm) -> NDArray[Any]:
    """The array of a file, mapped and not read, if it has this form.

    Raises:
        FileError: not a regular file.
        ValueError: another form, or more or fewer bytes than that takes.
    """
    with open_regular(path) as file:
        shape, start = _header(file, path.name, form)
        cells = math.prod(shape)
        if os.fstat(file.fileno()).st_size != start + cells * form.dtype.itemsize:
            raise _unfit(path.name)
        if not cells:
            return np.zeros(shape, dtype=form.dtype)
        held = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return np.frombuffer(held, dtype=form.dtype, count=cells, offset=start).reshape(shape)


def let_go(array: NDArray[Any]) -> None:
    """Gives back the memory of a mapped array's pages, which are read from the file again when they are asked for."""
    held: Any = array
    while isinstance(held, np.ndarray):
        held = held.base
    held = getattr(held, "obj", None)
    if isinstance(held, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):  # not on every system
        held.madvise(mmap.MADV_DONTNEED)


def read_archive(path: Path, forms: Mapping[str, ArrayForm]) -> dict[str, NDArray[Any]]:
    """The arrays of an archive that holds exactly these, uncompressed.

    Raises:
        FileError: not a regular file.
        ValueError: other members or forms, or damaged.
    """
    with open_regular(path) as file:
        if os.fstat(file.fileno()).st_size > archive_size(forms):
            raise _unfit(path.name)
        try:
            with zipfile.ZipFile(file) as archive:
                members = archive.infolist()
                if sorted(member.filename for member in members) != sorted(f"{name}.npy" for name in forms):
                    raise _unfit(path.name)
                return {name: _member(archive, f"{name}.npy", form) for name, form in forms.items()}
        except Exception as problem:  # the reader of archives may raise anything on damaged ones
            raise ValueError(
                f"{path.name!r} is no archive of these arrays: {problem or type(problem).__name__}"
            ) from None


def _member(archive: zipfile.ZipFile, name: str, form: ArrayForm) -> NDArray[Any]:
    member = archive.getinfo(name)
    if member.compress_type != zipfile.ZIP_STORED or member.file_size > form.most:
        raise _unfit(name)
    content = io.BytesIO(archive.read(member))
    shape, start = _header(content, name, form)
    held = content.getvalue()[start:]
    if len(held) != math.prod(shape) * form.dtype.itemsize:
        raise _unfit(name)
    return np.frombuffer(held, dtype=form.dtype).reshape(shape)


def _header(file: io.BufferedIOBase, name: str, form: ArrayForm) -> tuple[tuple[int, ...], int]:
    """The shape that a file states and where its numbers begin; only the header that we write ourselves will do."""
    opening = file.read(len(_MAGIC) + 2)
    length = int.from_bytes(opening[len(_MAGIC) :], "little")
    if not opening.startswith(_MAGIC) or length > _MOST_HEADER - len(opening):
        raise _unfit(name)
    stated = _HEADER.fullmatch(file.read(length).decode("latin-1"))
    if stated is None or stated[1] != form.dtype.str:
        raise _unfit(name)
    shape = tuple(int(size) for size in stated[2].replace(" ", "").split(",") if size)
    if form.shape is not None and shape != form.shape:
        raise _unfit(name)
    return shape, len(opening) + length


def _unfit(name: str) -> ValueError:
    return ValueError(f"{name!r} does not hold what its plan says")
