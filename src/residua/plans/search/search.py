"""The search for a strategy under Laplace noise: every known one is tried and improved, and the best is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from residua.linalg.arrays import Floats
from residua.plans.search.identity_plus import identity_plus
from residua.plans.search.level_weights import hierarchy, weighted_trees
from residua.plans.search.strategies import Asked, augmented, haar, rotated, sensitivity, singular_values

Told = Callable[[float], None]
_TALL = 8  # times as many queries as cells: the workload itself is then not worth trying as a strategy
_SMALL = 16  # cells up to which every rotation is descended far
_PROMISING = 4.0  # times the least loss: strategies up to this are worth a search for a better rotation


@dataclass(frozen=True, eq=False)
class Found:
    """A strategy of sensitivity 1 and its loss (see `Asked`)."""

    name: str
    strategy: Floats
    loss: float


def search(asked: Asked, workload: Floats, profile: Floats, told: Told) -> list[Found]:
    """Every strategy tried, best first, each augmented and rotated.

    Args:
        asked: what they are judged by.
        workload: the queries on the distinct cells, unweighted, (m, n).
        profile: a strategy with the error profile of the L2 optimum, (r, n).
        told: called after every step with a loss that is reached.

    Reference: matrix-mechanism, §5.2 to §5.4 and §6.
    """
    found: list[Found] = []
    for name, strategy in _plain(asked, workload, profile, told):
        found.append(_scaled(asked, name, strategy))
        _improve(asked, found)
        told(found[-1].loss)
    return sorted(found, key=lambda each: each.loss)


def _plain(asked: Asked, workload: Floats, profile: Floats, told: Told) -> Iterator[tuple[str, Floats]]:
    n = asked.cells
    yield "identity", np.eye(n)
    yield "identity plus", identity_plus(asked, told)
    if len(workload) <= _TALL * n:
        yield "workload", workload
    yield "L2 optimum", profile
    yield "singular values", singular_values(asked)
    if n > 2:
        yield "wavelet", haar(n)
        trees = weighted_trees(asked, told)
        plain = min(trees, key=lambda each: each.plain).tree.branching
        yield f"hierarchy of {plain}", hierarchy(n, plain)
        best = trees[0]
        yield f"weighted hierarchy of {best.tree.branching}", best.tree.strategy(best.weights)


def _improve(asked: Asked, found: list[Found]) -> None:
    """The last one found, with deficient columns completed and its rows rotated, where that lowers the loss."""
    plain = found[-1]
    least = min(each.loss for each in found)
    best = _lower(plain, _scaled(asked, f"{plain.name}, augmented", augmented(plain.strategy)))
    if np.isfinite(plain.loss) and len(plain.strategy) <= _TALL * asked.cells:
        small = asked.cells <= _SMALL
        rounds = 100 if small else 15 if plain.loss <= _PROMISING * least else 0
        turned = rotated(plain.strategy, rounds, starts=3 if small else 1)
        if sensitivity(turned) < sensitivity(plain.strategy) * (1 - 1e-9):
            best = _lower(best, _scaled(asked, f"{plain.name}, rotated", augmented(turned)))
    if best is not plain:
        found.append(best)


def _lower(first: Found, second: Found) -> Found:
    return second if second.loss < first.loss * (1 - 1e-9) else first


def _scaled(asked: Asked, name: str, strategy: Floats) -> Found:
    return Found(name, strategy / sensitivity(strategy), asked.loss(strategy))
