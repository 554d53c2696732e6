"""What is accepted where a list is: arrays, columns and category types of NumPy, pandas, Polars and Arrow."""

from __future__ import annotations

from typing import Any

import numpy as np


def listed(given: Any) -> Any:
    """The plain values of an array, a column or a category type; whatever is none of these, as it is.

    Example:
        >>> listed(np.linspace(0, 1, 3)), listed(("a", "b"))
        ([0.0, 0.5, 1.0], ('a', 'b'))
    """
    for name in ("tolist", "to_list", "to_pylist"):
        if callable(read := getattr(given, name, None)) and not isinstance(given, np.generic | type):
            return read()
    categories = getattr(given, "categories", None)  # of pandas' CategoricalDtype, Polars' Enum
    return given if categories is None else listed(categories)


def plain(value: Any) -> Any:
    """A number, text or truth value of NumPy as Python's own."""
    return value.item() if isinstance(value, np.generic) and not isinstance(value, np.datetime64) else value
