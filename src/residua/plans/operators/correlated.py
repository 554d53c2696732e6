"""What is measured of a long ordered attribute: its counts, with noise correlated along it.

The noise N has covariance Σ and the privacy cost matrix `Γ = Σ⁻¹`; `t = 1ᵀΣ1` is the variance of its total. Along the
attribute a table is split by the spread vector `v = Σ1/t`: measuring x + N is measuring the total with variance t and,
independently, the rest `x − v (1ᵀx)` with covariances `K = Σ − t v vᵀ`. So a block along the axis at precision τ tells
the block without it at precision τ/t, and where that is measured too, both are pooled: facts of the split are those of
every other strategy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, NoReturn

import numpy as np

from residua.errors import PlanError, VerificationError
from residua.linalg.arrays import Floats, Integers, keep_fixed
from residua.linalg.conductances import AxisNoise, NestedNoise, Network, nesting_of, star_network
from residua.linalg.path import OrderedNoise, Path, ends_path, over_running_sums, prefix_path, range_path
from residua.machine import csr_array
from residua.plans.operators.contract import MOST_DENSE, running_rows, total_row
from residua.plans.operators.correlated_price import costs, opposed
from residua.plans.statements import packed, unpacked
from residua.plans.strategy import OTHERS, Strategy
from residua.workload import AttributeQueries, Workload

_NOTHING = 1e-13  # of a variance: rounding
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

    # ---- files

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


@dataclass(frozen=True, eq=False)
class Ordered(Strategy):
    """Noise with covariance `Σ_j a_j (G + p_j Q⁻¹)⁻¹` along an attribute; a record costs at most 1 by `price`, about.

    Args:
        size: n, how many values the attribute has.
        asked: the queries whose Gram matrix shapes the noise.
        q: the weights of the cells, (n,).
        poles: p_j, (parts,).
        weights: a_j, (parts,).
    """

    largest: ClassVar[int] = 1  # a record is counted once in a running sum
    complete: ClassVar[bool] = True  # every row can be answered
    unit: ClassVar[float] = 1.0  # precisions are those of the counts

    size: int
    asked: Asked
    q: Floats
    poles: Floats
    weights: Floats

    def __post_init__(self) -> None:
        keep_fixed(self, "q", "poles", "weights", dtype=np.float64)
        if self.q.shape != (self.size,) or self.poles.shape != self.weights.shape or self.poles.ndim != 1:
            raise PlanError("the noise along an axis does not fit it; plan again.")

    @cached_property
    def noise(self) -> AxisNoise:
        """The noise per count at precision 1."""
        return self.asked.noise(self.q, self.poles, self.weights)

    # ---- price

    @cached_property
    def record_costs(self) -> tuple[Floats, Fraction]:
        """What one record costs at precision 1 in each cell, by the verifier, (n,), and the relative error of that."""
        return costs(self.noise)

    @cached_property
    def price(self) -> Fraction:
        """What one record costs at precision 1 in the most expensive cell."""
        each, error = self.record_costs
        return Fraction(float(each.max())) * (1 + error)

    @cached_property
    def _total(self) -> Floats:
        """The covariance of the total with every running sum, (n,); the last one is t."""
        return np.asarray(self.noise.applied(total_row(self.size))[0])

    @property
    def tells(self) -> float:
        """`1/t`."""
        return float(1.0 / self._total[-1])

    @property
    def count(self) -> int:
        """One running sum per value."""
        return self.size

    @property
    def opposed(self) -> int:
        """How far two columns of Γ may point apart, relatively to their norms: 0, or 1 with nested groups."""
        return opposed(self.noise)

    # ---- measuring

    def apply(self, tables: Integers, axis: int) -> Integers:
        """Running sums along one axis."""
        return np.asarray(np.cumsum(tables, axis=axis))

    # ---- for planners

    @cached_property
    def cost(self) -> float:
        """What the rest costs: the largest diagonal entry of `Γ − 11ᵀ/t`."""
        return float(self.price) - self.tells

    @property
    def norms(self) -> list[int]:
        """There are none: the noise is not independent."""
        self._refuse()

    @property
    def least_inner(self) -> int:
        """There is none."""
        self._refuse()

    @property
    def least(self) -> float:
        """Where no entry of Γ is negative, what the rest of two values shares is above `−1/t`."""
        return -1.0 if self.opposed else -self.tells / self.cost

    # ---- estimates

    def recover(self, measured: Floats, axis: int) -> Floats:
        """The rest of what running sums say of the values."""
        sums = np.moveaxis(np.asarray(measured), axis, -1)
        return np.moveaxis(np.diff(sums - sums[..., -1:] * np.cumsum(self.spread), axis=-1, prepend=0.0), -1, axis)

    @cached_property
    def spread(self) -> Floats:
        """`Σ1/t`."""
        return np.diff(self._total / self._total[-1], prepend=0.0)

    # ---- accuracy

    def variances(self, asked: AttributeQueries) -> tuple[Floats, Floats]:
        """From passes along the axis."""
        total = self._total
        if asked.along in ("prefixes", "values"):
            sums, single = self._known
            variances, along = (single, np.diff(total, prepend=0.0)) if asked.along == "values" else (sums, total)
        else:
            rows = running_rows(asked)
            variances, along = self.noise.row_variances(rows), np.asarray(rows @ total)
        return _cleaned(variances, along**2 / total[-1]), np.asarray((along / total[-1]) ** 2)

    def means(self, asked: AttributeQueries) -> tuple[float, float]:
        """Of all ranges in closed form: differences of two running sums."""
        if asked.along != "ranges" or asked.rows <= 2**16:
            return super().means(asked)
        total = self._total
        along = ((self.size + 1) * float(total @ total) - float(total.sum()) ** 2) / asked.rows
        variance = self.noise.sum_of_range_variances() / asked.rows
        return variance - along / float(total[-1]), along / float(total[-1]) ** 2

    @cached_property
    def _known(self) -> tuple[Floats, Floats]:
        return self.noise.variances()

    @property
    def sum_variances(self) -> Floats:
        """The variances of all running sums of the noise at precision 1, (n,)."""
        return self._known[0]

    def beside_total(self, q: float) -> Floats:
        """The variances of `C_j − q N`, C the running sums of the noise and N the last of them, (n,)."""
        return np.asarray(np.maximum(self.sum_variances + q**2 * self._total[-1] - 2 * q * self._total, 0.0))

    def covariances(self, rows: Floats, others: Floats) -> Floats:
        """From passes along the axis."""
        return self._covariances(over_running_sums(csr_array(rows)), over_running_sums(csr_array(others)))

    def asked_covariances(self, asked: AttributeQueries, other: AttributeQueries) -> Floats:
        """The same, of rows with few entries over running sums."""
        return self._covariances(running_rows(asked), running_rows(other))

    def _covariances(self, one: csr_array, other: csr_array) -> Floats:
        shared = np.outer(one @ self._total, other @ self._total) / self._total[-1]
        return np.asarray(self.noise.covariance(one, other) - shared)

    def weigh(self, tables: Floats, axis: int) -> Floats:
        """K along one axis of tables."""
        rows = np.moveaxis(tables, axis, -1)
        flat = over_running_sums(csr_array(rows.reshape(-1, self.size)))
        weighed = self.noise.applied(flat) - np.outer(flat @ self._total, self._total) / self._total[-1]
        return np.moveaxis(np.diff(weighed, axis=1, prepend=0.0).reshape(rows.shape), -1, axis)

    def outside(self, rows: Floats) -> Floats:
        """Nothing."""
        return np.zeros(len(rows))

    # ---- matrices

    @property
    def matrix(self) -> Integers:
        """There is none: noise is correlated along the axis."""
        self._refuse()

    @cached_property
    def recovery(self) -> Floats:
        """A root of K, of a short axis, (n, n − 1)."""
        energies, U = np.linalg.eigh(self.inverse)
        return np.asarray(U[:, 1:] * np.sqrt(np.maximum(energies[1:], 0.0)))

    @cached_property
    def inverse(self) -> Floats:
        """K itself, of a short axis, (n, n)."""
        if self.size > MOST_DENSE:
            self._refuse()
        return self.covariances(np.eye(self.size), np.eye(self.size))

    @cached_property
    def root(self) -> Floats:
        """Independent rows with the Gram matrix `Γ − 11ᵀ/t`, of a short axis, (n − 1, n)."""
        whole = self.inverse + np.outer(self.spread, self.spread) / self.tells
        energies, U = np.linalg.eigh(np.linalg.inv(whole) - self.tells)
        return np.asarray(np.sqrt(energies[1:, None]) * U[:, 1:].T)

    def _refuse(self) -> NoReturn:
        raise PlanError(
            f"an axis of {self.size:,} values with correlated noise is too long for a matrix of its values, of which "
            f"there may be {MOST_DENSE:,}; combine plans that share it (form=rs.Lattice(like=other)), or group values."
        )

    # ---- files

    def to_body(self) -> dict[str, Any]:
        """The parameters, exactly; and the network that follows from what is asked, for readers without residua."""
        star = self.noise.queries.star
        arrays = {"grounds": packed(star.grounds), "chords": packed(star.chords)}
        return {
            "axis": {
                "asked": self.asked.to_body(),
                "network": {**vars(star), **arrays},
                "q": packed(self.q),
                "poles": self.poles.tolist(),
                "weights": self.weights.tolist(),
            }
        }

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ordered) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @cached_property
    def _key(self) -> tuple[Any, ...]:
        return (self.size, self.asked, self.q.tobytes(), self.poles.tobytes(), self.weights.tobytes())

    def __repr__(self) -> str:
        return f"Ordered({self.size:,} values, {len(self.poles)} parts)"


def ordered_of_body(body: dict[str, Any], size: int) -> Ordered:
    """The strategy that plain values describe; it is priced again."""
    numbers = (np.array(body[name], dtype=np.float64) for name in ("poles", "weights"))
    ordered = Ordered(size, Asked.of_body(body["asked"], size), unpacked(body["q"], size), *numbers)
    if not math.isfinite(float(ordered.price)):
        raise ValueError("the noise along an axis has no price")
    star = ordered.noise.queries.star
    arrays = {name: getattr(star, name).ravel() for name in ("grounds", "chords")}
    stated = {**body["network"], **{name: unpacked(body["network"][name], len(arrays[name])) for name in arrays}}
    if not all(np.array_equal(stated[name], own) for name, own in {**vars(star), **arrays}.items()):
        raise ValueError("the network of an axis is not that of what is asked along it")
    return ordered


def _cleaned(variances: Floats, shared: Floats) -> Floats:
    """Their difference, in which what is rounding is nothing."""
    rest = variances - shared
    return np.where(rest > _NOTHING * variances, rest, 0.0)


OTHERS["axis"] = ordered_of_body


def terms_of(workload: Workload) -> list[tuple[dict[int, AttributeQueries], float]]:
    """What each term asks of each of its attributes, and its weight."""
    return [(dict(term), weight) for term, weight in zip(workload.terms(), workload.weights.tolist(), strict=True)]
