"""Planning small matrices with one thread: how large the matrices of a workload are."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from residua.linalg.threads import threads_for
from residua.workload import Workload

P = ParamSpec("P")
R = TypeVar("R")


def with_few_threads(function: Callable[P, R]) -> Callable[P, R]:
    """The same function of a workload, with one thread for linear algebra where its matrices are small."""

    @wraps(function)
    def limited(*args: P.args, **options: P.kwargs) -> R:
        with threads_for(side_of(args[0] if args else options.get("workload"))):
            return function(*args, **options)

    return limited


def side_of(workload: object) -> float:
    """How many rows the matrices have that are decomposed to plan a workload, about."""
    if not isinstance(workload, Workload):
        return math.inf
    if not workload.tabular:
        return float(math.prod(workload.shape))
    return 1.0 if workload.plain else float(max(workload.shape, default=1))
