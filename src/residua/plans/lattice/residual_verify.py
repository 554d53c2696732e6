"""The verifier: what measuring these blocks costs, exactly, from the blocks alone.

Small and trusted: planners may be wrong about accuracy, but nothing is measured that this file has not priced. It
uses whole numbers and fractions only, and rounds every step up.

Each column of `t · Ĉ_S` has squared norm `t² Π_{i∈S} n_i (n_i − 1)`, whatever the cell, so that block S adds
`t² Π n_i (n_i − 1) / s²` to every diagonal entry of the privacy cost matrix.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from residua.plans.lattice.replacement import MOST_ENUMERATED
from residua.plans.lattice.residual_blocks import ResidualBlocks
from residua.plans.verifying import POINT as _POINT
from residua.plans.verifying import WORD as _WORD
from residua.plans.verifying import check_blocks, check_records, promised
from residua.privacy import Guarantee, ReplaceOne, Unit

_FEWEST_RECORDS = 2**31


def verified_cost(blocks: ResidualBlocks, guarantee: Guarantee | None, unit: Unit) -> Fraction:
    """The privacy cost of measuring these blocks, for this unit of protection, never less than the truth.

    Guarantee: measuring the blocks is within `guarantee` for `unit`, or VerificationError is raised.

    Raises:
        VerificationError: dearer than promised, not integer, noise outside the exact samplers' range, or numbers
            that could overflow 64 bits.
    """
    return promised(together_cost([blocks], unit), guarantee)


def together_cost(several: Sequence[ResidualBlocks], unit: Unit) -> Fraction:
    """What measuring all these blocks of one domain costs this unit of protection, whatever was promised."""
    point = 0
    precisions: list[int] = []
    for blocks in several:
        _check_form(blocks)
        cells, smaller = _products(blocks, blocks.sizes), _products(blocks, blocks.sizes - 1)
        own = _precisions(blocks, cells)
        point += sum(-(-tau * less // all_) for tau, less, all_ in zip(own, smaller, cells, strict=True))
        precisions += own
    pcost = Fraction(point, _POINT)
    replaced = _replacement(several, precisions) if isinstance(unit, ReplaceOne) else None
    # A record changed to a value that is left out is a record removed.
    if replaced is not None and any(blocks.drops for blocks in several):
        replaced = max(replaced, pcost)
    return unit.scaled(pcost, replaced)


def most_records(blocks: ResidualBlocks) -> int:
    """How many records may be counted before a measurement could leave 64 bits."""
    largest = max(int(t) * math.prod(int(n) for n in group) for t, group in _extents(blocks))
    return (_WORD - 2**50) // largest


def _check_form(blocks: ResidualBlocks) -> None:
    check_blocks(blocks)
    check_records(most_records(blocks), _FEWEST_RECORDS)


def _extents(blocks: ResidualBlocks) -> list[tuple[int, tuple[int, ...]]]:
    """For each shape, its largest grid factor."""
    grids = np.zeros(len(blocks.lattice), dtype=np.int64)
    grids[blocks.measured] = blocks.grids
    return [(int(grids[group.numbers].max()), group.shape) for group in blocks.layout]


def _products(blocks: ResidualBlocks, factors: NDArray[np.int64]) -> list[int]:
    """`Π_{i∈S} factors[i]` of every measured set; the form was checked, so that those are far below 2^62."""
    found = np.concatenate([factors[level].prod(axis=1) for level in blocks.lattice.levels])
    listed: list[int] = found[blocks.measured].tolist()
    return listed


def _precisions(blocks: ResidualBlocks, cells: list[int]) -> list[int]:
    """`τ_S = (t Π n_i)² / s²` in fixed point, rounded up."""
    known: dict[tuple[int, float], int] = {}  # of hundreds of thousands of sets, many are alike
    found = []
    for size, t, s in zip(cells, blocks.grids.tolist(), blocks.scales.tolist(), strict=True):
        tau = known.get((t * size, s))
        if tau is None:
            numerator, denominator = s.as_integer_ratio()
            unit = t * size * denominator
            tau = known[t * size, s] = -(-unit * unit * _POINT // (numerator * numerator))
        found.append(tau)
    return found


def _shrunk(precision: int, row: tuple[int, ...], sizes: list[int]) -> int:
    """`τ · Π_{i∈row}(1 − 1/n_i)` in fixed point, rounded up."""
    return -(-precision * math.prod(sizes[i] - 1 for i in row) // math.prod(sizes[i] for i in row))


def _replacement(several: Sequence[ResidualBlocks], precisions: list[int]) -> Fraction:
    """`max_E 2 Σ_S τ_S (κ_S − c_S(E))`: each coefficient is non-negative, so rounding τ up rounds the cost up.

    With too many attributes to try all patterns E, each block's own worst: `κ_S − c_S ≤ κ_S · n/(n − 1)` with n the
    fewest values of an attribute of S, which is κ without that attribute.
    """
    sizes = several[0].sizes.tolist()
    members: list[tuple[int, ...]] = []
    for blocks in several:
        rows = list(blocks.lattice)
        members += [rows[number] for number in blocks.measured.tolist()]
    used = sorted({i for row in members for i in row if sizes[i] > 1})
    if len(used) > MOST_ENUMERATED:
        without = [tuple(sorted(row, key=lambda i: sizes[i])[1:]) for row in members]
        pairs = zip(precisions, members, without, strict=True)
        return Fraction(2 * sum(_shrunk(tau, rest, sizes) for tau, row, rest in pairs if row), _POINT)
    shared: NDArray[np.object_] = np.zeros((2,) * len(used), dtype=object)
    for precision, row in zip(precisions, members, strict=True):
        if all(sizes[i] > 1 for i in row):
            shared[tuple(int(i in row) for i in used)] += precision
    for axis, i in enumerate(used):  # everything is multiplied by n_i to stay whole
        without, with_i = np.take(shared, 0, axis=axis), np.take(shared, 1, axis=axis)
        shared = np.stack([without * sizes[i] - with_i, without * sizes[i] + with_i * (sizes[i] - 1)], axis=axis)
    everything = shared[(1,) * len(used)]  # cells that agree on all: the diagonal itself
    return Fraction(2 * (everything - shared.min()), math.prod(sizes[i] for i in used) * _POINT)
