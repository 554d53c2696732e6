"""Arrays in files that strangers may have written: nothing is read before its type, shape and size are known to fit.

NumPy's own reader evaluates headers and allocates what they claim, and a compressed archive can claim a thousand times
its size. Here a header is compared with the one we write, archives hold exactly the members we expect, uncompressed,
and large arrays are mapped rather than read.
"""

from __future__ import annotations

import io
import math
import mmap
import os
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from residua.files import open_regular

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
