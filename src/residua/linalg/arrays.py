"""The one home of names for arrays: what their entries are. Shapes are said where they matter, as (m, n)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]
Objects = NDArray[np.object_]  # whole numbers of any size
