"""What noise along an ordered attribute is shaped for: the weight of each prefix, range, value and group of values."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from residua.errors import VerificationError
from residua.linalg.arrays import Floats
from residua.linalg.conductances import Network, nesting_of, star_network
from residua.linalg.nested_noise import AxisNoise, NestedNoise
from residua.linalg.path import OrderedNoise, Path, ends_path, prefix_path, range_path
from residua.plans.packing import packed, unpacked

_MOST_GROUPS = 2**20  # in a file, of an attribute with fewer values: every term repeats its own


@dataclass(frozen=True)
class Asked:
    """What is asked along the axis: the weight of each prefix (one for all, or one for each), range, value and group.

    Groups are runs of values, nested in one another: the first value, the last one, the weight; `singles` are weights
    of each value beside what all have. Or, alone, `ends`: weights of the n + 1 running sums, from that of nothing on; a
    range has the product of two.
    """

    prefixes: float | tuple[float, ...] = 0.0
    ranges: float = 0.0
    values: float = 0.0
    ends: tuple[float, ...] = ()
    groups: tuple[tuple[int, int, float], ...] = ()
    singles: tuple[float, ...] = ()

    @property
    def is_nested(self) -> bool:
        """Whether it takes a network, with groups or values of their own weights, and not a path alone."""
        return bool(self.groups or self.singles)

    def noise(self, q: Floats, poles: Floats, weights: Floats) -> AxisNoise:
        """Noise that is shaped for this.

        Raises:
            VerificationError: weights that fit no axis of that length, or groups that cross.
        """
        if self.is_nested:
            return NestedNoise(self.network(len(q)), q, poles, weights)
        return OrderedNoise(self.path(len(q)), q, poles, weights)

    def path(self, n: int) -> Path:
        """The electrical path of these queries along n values, without groups."""
        if self.ends:
            return ends_path(np.array(self.ends))
        if isinstance(self.prefixes, tuple):
            return replace(prefix_path(np.array(self.prefixes)), values=self.values)
        return range_path(n, self.prefixes, self.ranges, self.values)

    def network(self, n: int) -> Network:
        """The electrical network of these queries along n values.

        Raises:
            VerificationError: weights that fit no axis of that length, or groups that cross.
        """
        several = isinstance(self.prefixes, tuple)
        prefixes = np.array(self.prefixes) if several else np.full(n, self.prefixes)
        values = self.values + (np.array(self.singles) if self.singles else np.zeros(n))
        nesting = nesting_of(n, [group[:2] for group in self.groups])
        if nesting is None or len(prefixes) != n or len(values) != n or self.ends or (several and self.ranges):
            raise VerificationError("the groups along the axis cross, or its weights do not fit it; plan again.")
        held = np.array([group[2] for group in self.groups], dtype=np.float64)
        with np.errstate(over="ignore"):
            network = star_network(nesting, prefixes, self.ranges, values, held)
        if self.ranges and not math.isfinite(network.first):  # infinite is what stands for no ranges at all
            raise VerificationError("the weight of ranges along the axis is out of range; plan again.")
        return network

    def to_body(self) -> dict[str, Any]:
        """The weights as plain values."""
        asked = {**vars(self)}
        for name in ("prefixes", "ends", "groups", "singles"):
            if asked[name] == ():
                del asked[name]
            elif isinstance(asked[name], tuple):
                asked[name] = packed(np.array(asked[name]).T)
        return asked

    @classmethod
    def of_body(cls, body: dict[str, Any], size: int) -> Asked:
        """The weights that plain values describe, along so many values."""
        asked = dict(body)
        for name in ("prefixes", "ends", "singles"):
            if isinstance(asked.get(name), str):
                asked[name] = tuple(unpacked(asked[name], size + 1).tolist())
        if "groups" in asked:
            first, last, weights = unpacked(asked["groups"], 3 * max(2 * size, _MOST_GROUPS)).reshape(3, -1)
            ends = np.append(first, last)
            if not ((np.abs(ends) < 2**53) & (ends == np.rint(ends))).all():
                raise ValueError("a group has no first or no last value")
            runs = zip(first.astype(np.int64).tolist(), last.astype(np.int64).tolist(), weights.tolist(), strict=True)
            asked["groups"] = tuple(runs)
        return cls(**asked)
