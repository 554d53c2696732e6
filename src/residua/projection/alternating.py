"""The alternating direction method behind projections of tables: what all of them do, whatever their coordinates.

Minimise `Σ_S w_S ‖y_S − ŷ_S‖²` such that all maximal tables, linear in the coordinates y, are non-negative, some
coordinates are given, and some cells are zero. The method keeps tables z ≥ 0 apart from those of the coordinates and
pulls them together with penalties ρ_A; its multipliers `λ_A = −ρ_A u_A ≥ 0` are feasible for the dual at every step, so
that `−Σ_S ‖p_S‖²/w_S − 2 Σ_S ⟨p_S, ŷ_S⟩`, p the coordinates' gradient of `⟨λ, tables⟩`, bounds the optimum from below.

The tables are asked to stay above a tiny floor, the table of `floor_share` of all records spread evenly, so that what
has nearly converged is strictly feasible, and the certificate is that of the problem without the floor. What is still
negative in the end is repaired by mixing in tables that are not negative; the certificate is then that of the mixture.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from residua.errors import PlanError
from residua.linalg.arrays import Booleans, Floats
from residua.linalg.layout import Group, Layout


@dataclass(frozen=True, eq=False)
class Interior:
    """Such tables, for one record.

    Args:
        evenness: δ; 0 if there are none, or if they are not known.
        rests: q' of each attribute, adding up to 1.
    """

    evenness: float
    rests: Sequence[Floats]

    def coordinates(self, layout: Layout, even: Sequence[Floats], rests: Sequence[Floats]) -> Floats:
        """The coordinates of these tables on all sets of a layout, from those of e and of q' along each attribute."""
        found = np.empty(layout.cells)
        for group in layout:
            parts = self.evenness * _crossed(group, even) + (1.0 - self.evenness) * _crossed(group, rests)
            group.view(found)[...] = parts
        return found


def interior_of(fixed: Mapping[tuple[int, ...], Floats], even: Sequence[Floats]) -> Interior:
    """The interior of all tables with given margins (attribute positions → cells); `even` is e of each attribute."""
    shares: list[Floats] = list(even)
    if not fixed:
        return Interior(1.0, shares)
    total = float(fixed.get((), np.asarray(0.0)))
    if total <= 0 or any(len(members) > 1 for members in fixed):
        return Interior(0.0, shares)
    for members, cells in fixed.items():
        if members:
            shares[members[0]] = cells / total
    delta = min(float((share / e).min()) for share, e in zip(shares, even, strict=True))
    if delta >= 1.0 - 1e-12:
        return Interior(1.0, even)
    if delta <= 1e-12:
        return Interior(0.0, even)
    rests = [(share - delta * e) / (1.0 - delta) for share, e in zip(shares, even, strict=True)]
    return Interior(delta, rests)


def _crossed(group: Group, vectors: Sequence[Floats]) -> Floats:
    """Outer products of the members' vectors, (tables, n_1, …, n_k)."""
    tables = np.ones(len(group.numbers))
    for j in range(group.members.shape[1]):
        along = np.stack([vectors[i] for i in group.members[:, j]])
        tables = tables[..., None] * along.reshape(len(along), *[1] * j, along.shape[1])
    return tables


Progress = Callable[[int, float], object]

RELAXATION = 1.85
NO_FLOOR = -1e300  # compiled loops assume finite numbers
_CHECK_EVERY = 25
_FREE_CHANGES = 4
_SETTLING = 4.0  # times the penalty, once the bound is good enough and only signs are left to be settled


@dataclass(frozen=True, eq=False)
class Nearest:
    """The nearest consistent tables, as their coordinates.

    Guarantee: no feasible tables have a squared distance below `distance − gap`, to within rounding.

    Args:
        coordinates: y_S of every set, in the order in which they came, (cells,).
        gap: proven bound on how far `distance` is above the least possible.
        distance: `Σ_S w_S ‖y_S − ŷ_S‖²`.
        infeasibility: the largest violation of non-negativity or of a zero, in counts.
        rounds: how many steps were made.
        converged: whether the gap and the violation are within what was asked.
    """

    coordinates: Floats
    gap: float
    distance: float
    infeasibility: float
    rounds: int
    converged: bool

    def __post_init__(self) -> None:
        self.coordinates.setflags(write=False)


@dataclass(frozen=True)
class Certificate:
    """What one look at the tables showed.

    Args:
        distance: of the coordinates from those wanted.
        bound: no feasible tables are nearer.
        infeasibility: the largest violation of a sign or a zero, in counts.
        slope: how fast the floor raises the distance, per share.
        total: of all records.
        short: the share that must be mixed in so that no cell is negative, about.
    """

    distance: float
    bound: float
    infeasibility: float
    slope: float
    total: float
    short: float


@dataclass(frozen=True)
class _Closed:
    """What is known of the coordinates kept, see `Nearest`."""

    distance: float
    gap: float
    infeasibility: float
    converged: bool

    def nearest(self, coordinates: Floats, rounds: int) -> Nearest:
        return Nearest(coordinates, self.gap, self.distance, self.infeasibility, rounds, self.converged)


class Alternating(ABC):
    """The state of the method: mutable, and it does not leave the solvers.

    Args:
        weights: w_S > 0 of each set, (sets,), the empty one first.
        is_fixed: whose coordinates are given, (sets,).
        has_zeros: whether some cells must be zero.
        nonnegative: whether no cell may be negative.
        interior: of all tables with the given coordinates.
        penalty: the first, relative to the weights.
    """

    def __init__(
        self,
        weights: Floats,
        is_fixed: Booleans,
        has_zeros: bool,
        nonnegative: bool,
        interior: Interior,
        penalty: float,
    ) -> None:
        self.weights, self.is_fixed = weights, is_fixed
        self.has_zeros, self.nonnegative, self.interior = has_zeros, nonnegative, interior
        self.floor_share = 0.0
        self.penalty = penalty
        self._changes = 0
        self._settling = False
        self._price = 0.5  # what mixing costs, as a multiple of what the floor's slope says

    # ---- what the coordinates decide

    @property
    @abstractmethod
    def total(self) -> float:
        """How many records are wanted."""

    @abstractmethod
    def wanted_lengths(self) -> tuple[Floats, Floats]:
        """`‖ŷ_S‖`, and how long y_S of a single record can be, of every set, (sets,) each."""

    @abstractmethod
    def set_penalty(self, penalty: float) -> None:
        """Makes ρ this multiple of the weights."""

    @abstractmethod
    def step(self) -> tuple[float, float]:
        """One step; how far tables and coordinates are apart, and how far the tables moved, in the penalties' norm."""

    @abstractmethod
    def shift(self, share: float, factor: float) -> None:
        """Puts the floor at another share, and multiplies what was cut off at the floor by a factor."""

    @abstractmethod
    def unprojected(self) -> Certificate:
        """The certificate of the coordinates as they came."""

    @abstractmethod
    def certificate(self) -> Certificate:
        """Distance, dual bound and feasibility of the present coordinates."""

    def closing(self) -> Certificate:
        """The last certificate; its coordinates are kept for `mix` and `written`."""
        return self.certificate()

    @abstractmethod
    def mix(self, share: float) -> float | None:
        """Mixes the coordinates kept with others of the same total such that no cell is negative; their distance then.

        The share is what the certificate said; a method that knows better takes its own. None if nothing helps.
        """

    @abstractmethod
    def written(self) -> Floats:
        """The coordinates kept, in the order in which they came."""

    @abstractmethod
    def as_they_came(self) -> Floats:
        """The coordinates wanted, in the order in which they came."""

    # ---- the loop

    def solve(self, tolerance: float, rounds: int, progress: Progress | None) -> Nearest:
        """Steps until the certificate is good enough. Feasible coordinates come back as they are, after no steps."""
        found = self.unprojected()
        if found.infeasibility <= 1e-10 * found.total:
            return Nearest(self.as_they_came(), 0.0, 0.0, found.infeasibility, 0, True)
        most = self._most()
        self.shift(self._first_floor(tolerance), 1.0)
        done = 0
        while done < rounds:
            for _ in range(min(_CHECK_EVERY, rounds - done)):
                apart, moved = self.step()
                done += 1
            found = self.certificate()
            allowed = tolerance * max(found.distance, 1.0)
            if progress:
                progress(done, abs(found.distance - found.bound) / max(found.distance, 1.0))
            if found.bound > most:
                raise PlanError(
                    "no consistent non-negative tables meet the total, the fixed tables and the zeros (proven: the "
                    "dual exceeds the distance to anything feasible); leave one of them out."
                )
            if self._worth_closing(found, tolerance, allowed):
                closed = self._closed(tolerance)
                if closed.converged:
                    return closed.nearest(self.written(), done)
            self._adapt(apart, moved, found, tolerance, allowed)
        return self._closed(tolerance).nearest(self.written(), done)

    @property
    def _is_fit(self) -> bool:
        """Whether the tables z are a fit as they are, so that neither floor nor mixture is needed."""
        return False

    def _first_floor(self, tolerance: float) -> float:
        """The floor's share before anything is known of what it costs."""
        return 0.0 if self._is_fit else min(tolerance, (self.interior.evenness or 1.0) / 2.0)

    def _worth_closing(self, found: Certificate, tolerance: float, allowed: float) -> bool:
        """Whether the gap is likely to be good enough after mixing, from what that cost before."""
        share = self._share(found)
        exact = found.infeasibility <= 1e-11 * found.total or 0.0 < share <= 100.0 * tolerance
        return exact and abs(found.distance - found.bound) + self._price * share * found.slope <= allowed

    def _adapt(self, apart: float, moved: float, found: Certificate, tolerance: float, allowed: float) -> None:
        """Keeps both residuals of the method alike, and the floor's share of the gap within a quarter of it.

        Once the bound is good enough, only the signs of cells are left to be settled, which a larger penalty does
        sooner.
        """
        room = (self.interior.evenness or 1.0) / 2.0
        wanted = min(10.0 * tolerance, room, allowed / 4.0 / max(found.slope, 1e-300))
        if not self._is_fit and not 0.5 * self.floor_share < wanted < 2.0 * self.floor_share:
            self.shift(wanted, 1.0)
        if not self._is_fit and not self._settling and abs(found.distance - found.bound) <= allowed:
            self._settling = True
            self._change_penalty(_SETTLING)
            return
        ratio = apart / max(moved, 1e-300)
        if ratio > 0.0 and not 0.45 < ratio < 1.2:  # below about 0.4 it does not fall, however large the penalty
            factor = 0.6 if ratio <= 0.45 else min(2.0, ratio / 0.8)
            # With a penalty that keeps changing the method need not converge; the product of these changes does.
            self._changes += 1
            self._change_penalty(factor ** min(1.0, _FREE_CHANGES / self._changes) ** 2)

    def _change_penalty(self, factor: float) -> None:
        self.shift(self.floor_share, 1.0 / factor)
        self.set_penalty(self.penalty * factor)

    def _closed(self, tolerance: float) -> _Closed:
        """Keeps the present coordinates, made non-negative if that can be; the gap is that of what is kept."""
        found = self.closing()
        distance, infeasibility, share = found.distance, found.infeasibility, self._share(found)
        mixed = self.mix(share) if share > 0 else None  # still consistent, because everything is linear
        if mixed is not None:
            distance, infeasibility = mixed, 0.0
            self._price = max((distance - found.distance) / max(share * found.slope, 1e-300), 0.1)
        gap = max(distance - found.bound, 0.0)
        exact = infeasibility <= 1e-11 * found.total
        return _Closed(distance, gap, infeasibility, exact and gap <= tolerance * max(distance, 1.0))

    def _share(self, found: Certificate) -> float:
        """How much of the interior is to be mixed in; 0 if that is not possible."""
        return found.short if self.nonnegative and not self.has_zeros and self.interior.evenness > 0 else 0.0

    def _most(self) -> float:
        """No feasible tables are further away: n records are n times one. Infinite without a total."""
        if not (self.nonnegative and self.is_fixed[0]):
            return np.inf
        wanted, longest = self.wanted_lengths()
        return float(self.weights[1:] @ (wanted[1:] + self.total * longest[1:]) ** 2) * (1.0 + 1e-9)


def mixing_share(short: Floats, even: Floats) -> float:
    """How much must be mixed in of tables not below `even`, to raise cells that fall short by this much to zero."""
    return float((short / np.maximum(short + even, 1e-300)).max()) * (1.0 + 1e-9) if even.max() > 0 else 0.0
