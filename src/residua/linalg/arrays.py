"""Names for arrays, by what their entries are; shapes are said where they matter, as (m, n). Arrays that stay."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]
Objects = NDArray[np.object_]  # whole numbers of any size
Positions = NDArray[np.int32]  # of attributes or nodes: whole numbers that fit 32 bits
Words = NDArray[np.uint64]  # random bits
Array = NDArray[Any]  # of any kind


def keep_fixed(value: object, *names: str, dtype: Any = None) -> None:
    """Gives a frozen value copies of its arrays of these names, which cannot be changed any more."""
    for name in names:
        array = np.array(getattr(value, name), dtype=dtype)
        array.setflags(write=False)
        object.__setattr__(value, name, array)
