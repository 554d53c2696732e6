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

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from residua.errors import PlanError
from residua.linalg.arrays import Booleans, Floats, Integers
from residua.projection.arrangement import Arrangement, TableBatch
from residua.projection.crossing import Alike, Crossing, Interior, interior_of
from residua.projection.problem import Nearest, Progress

RELAXATION = 1.85
NO_FLOOR = -1e300  # compiled loops assume finite numbers
_CHECK_EVERY = 25
_WORTH_THREADS = 30_000  # cells: below, handing work to threads costs as much as the work
_FREE_CHANGES = 4
_SETTLING = 4.0  # times the penalty, once the bound is good enough and only signs are left to be settled


@dataclass(frozen=True)
class TableCertificate:
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


@dataclass(frozen=True, eq=False)
class Posed:
    """What is asked of the method, checked.

    Args:
        wanted: ŷ of every set, given coordinates in their places, (cells,).
        weights: w_S > 0 of each set, (sets,), the empty one first.
        is_fixed: whose coordinates are given, (sets,).
        zeros: which cells of the maximal tables must be zero, in the order of their layout, (cells,); or None.
        nonnegative: whether no cell may be negative.
        interior: of all tables with the given coordinates.
    """

    wanted: Floats
    weights: Floats
    is_fixed: Booleans
    zeros: Booleans | None
    nonnegative: bool
    interior: Interior


F = TypeVar("F", Arrangement, Crossing)
P = TypeVar("P", TableBatch, Alike)
R = TypeVar("R")


class Alternating(ABC, Generic[P]):
    """The state of the method: mutable, and it does not leave the solvers.

    Args:
        posed: what is asked.
        parts: the maximal tables.
        low_sets: the set of each coordinate below them, (low,).
        wanted: ŷ of the maximal tables, and of those below.
        zeros: which cells of the maximal tables must be zero, (cells,), or nothing.
    """

    def __init__(
        self, posed: Posed, parts: Sequence[P], low_sets: Integers, wanted: tuple[Floats, Floats], zeros: Booleans
    ) -> None:
        self.parts: Sequence[P] = parts
        self.low_sets, self.weights, self.is_fixed = low_sets, posed.weights, posed.is_fixed
        self.wanted, self.wanted_low = wanted
        self.zeros, self.has_zeros, self.nonnegative = zeros, bool(zeros.size), posed.nonnegative
        self.interior, self.penalty = posed.interior, 0.0
        self.w = np.zeros(len(self.wanted))
        self.pool = ThreadPoolExecutor(os.cpu_count())
        self.floor_share = 0.0
        self._kept = wanted  # the coordinates that leave, once there is a certificate of them
        self._changes = 0
        self._settling = False
        self._price = 0.5  # what mixing costs, as a multiple of what the floor's slope says

    # ---- what the coordinates decide

    @property
    @abstractmethod
    def total(self) -> float:
        """How many records are wanted."""

    @property
    @abstractmethod
    def longest(self) -> Floats:
        """How long y_S of a single record can be, of every set, (sets,)."""

    @abstractmethod
    def set_penalty(self, penalty: float) -> None:
        """Makes ρ this multiple of the weights."""

    @abstractmethod
    def step(self) -> tuple[float, float]:
        """One step; how far tables and coordinates are apart, and how far the tables moved, in the penalties' norm."""

    @abstractmethod
    def allowed(self, part: P) -> Floats:
        """The nearest tables to w that keep the floor and the zeros, (tables, cells)."""

    def shift(self, share: float, factor: float) -> None:
        """Puts the floor at another share, and multiplies what was cut off at the floor by a factor."""

        def work(part: P) -> None:
            w, z = part.rows(self.w), self.allowed(part)
            w[:] = z + factor * (w - z)

        if factor != 1.0:
            self.on_parts(work)
        self.floor_share = share

    def on_parts(self, work: Callable[[P], R]) -> list[R]:
        """What some work makes of each part, side by side where that is worth it."""
        return list(map(work, self.parts) if len(self.w) < _WORTH_THREADS else self.pool.map(work, self.parts))

    @abstractmethod
    def unprojected(self) -> TableCertificate:
        """The certificate of the coordinates as they came."""

    @abstractmethod
    def certificate(self) -> TableCertificate:
        """Distance, dual bound and feasibility of the present coordinates."""

    def closing(self) -> TableCertificate:
        """The last certificate; its coordinates are kept for `mix`."""
        return self.certificate()

    @abstractmethod
    def mix(self, share: float) -> float | None:
        """Mixes the coordinates kept with others of the same total such that no cell is negative; their distance then.

        The share is what the certificate said; a method that knows better takes its own. None if nothing helps.
        """

    @abstractmethod
    def scattered(self, top: Floats, low: Floats) -> Floats:
        """Coordinates of the maximal tables and of those below, in the order in which they came."""

    # ---- the loop

    def solve(self, tolerance: float, rounds: int, progress: Progress | None) -> Nearest:
        """Steps until the certificate is good enough. Feasible coordinates come back as they are, after no steps."""
        with self.pool:
            return self._solve(tolerance, rounds, progress)

    def _solve(self, tolerance: float, rounds: int, progress: Progress | None) -> Nearest:
        certificate = self.unprojected()
        if certificate.infeasibility <= 1e-10 * certificate.total:
            return Nearest(self.scattered(self.wanted, self.wanted_low), 0.0, 0.0, certificate.infeasibility, 0, True)
        most = self._most()
        self.shift(self._first_floor(tolerance), 1.0)
        done = 0
        while done < rounds:
            for _ in range(min(_CHECK_EVERY, rounds - done)):
                apart, moved = self.step()
                done += 1
            certificate = self.certificate()
            allowed = tolerance * max(certificate.distance, 1.0)
            if progress:
                progress(done, abs(certificate.distance - certificate.bound) / max(certificate.distance, 1.0))
            if certificate.bound > most:
                raise PlanError(
                    "no consistent non-negative tables meet the total, the fixed tables and the zeros (proven: the "
                    "dual exceeds the distance to anything feasible); leave one of them out."
                )
            if self._worth_closing(certificate, tolerance, allowed):
                nearest = self._closed(tolerance, done)
                if nearest.converged:
                    return nearest
            self._adapt(apart, moved, certificate, tolerance, allowed)
        return self._closed(tolerance, done)

    @property
    def _is_fit(self) -> bool:
        """Whether the tables z are a fit as they are, so that neither floor nor mixture is needed."""
        return False

    def _first_floor(self, tolerance: float) -> float:
        """The floor's share before anything is known of what it costs."""
        return 0.0 if self._is_fit else min(tolerance, (self.interior.evenness or 1.0) / 2.0)

    def _worth_closing(self, certificate: TableCertificate, tolerance: float, allowed: float) -> bool:
        """Whether the gap is likely to be good enough after mixing, from what that cost before."""
        share = self._share(certificate)
        exact = certificate.infeasibility <= 1e-11 * certificate.total or 0.0 < share <= 100.0 * tolerance
        return (
            exact and abs(certificate.distance - certificate.bound) + self._price * share * certificate.slope <= allowed
        )

    def _adapt(
        self, apart: float, moved: float, certificate: TableCertificate, tolerance: float, allowed: float
    ) -> None:
        """Keeps both residuals of the method alike, and the floor's share of the gap within a quarter of it.

        Once the bound is good enough, only the signs of cells are left to be settled, which a larger penalty does
        sooner.
        """
        room = (self.interior.evenness or 1.0) / 2.0
        wanted = min(10.0 * tolerance, room, allowed / 4.0 / max(certificate.slope, 1e-300))
        if not self._is_fit and not 0.5 * self.floor_share < wanted < 2.0 * self.floor_share:
            self.shift(wanted, 1.0)
        if not self._is_fit and not self._settling and abs(certificate.distance - certificate.bound) <= allowed:
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

    def _closed(self, tolerance: float, done: int) -> Nearest:
        """The present coordinates, made non-negative if that can be; the gap is that of what is kept."""
        certificate = self.closing()
        distance, infeasibility, share = certificate.distance, certificate.infeasibility, self._share(certificate)
        mixed = self.mix(share) if share > 0 else None  # still consistent, because everything is linear
        if mixed is not None:
            distance, infeasibility = mixed, 0.0
            self._price = max((distance - certificate.distance) / max(share * certificate.slope, 1e-300), 0.1)
        gap = max(distance - certificate.bound, 0.0)
        converged = infeasibility <= 1e-11 * certificate.total and gap <= tolerance * max(distance, 1.0)
        return Nearest(self.scattered(*self._kept), gap, distance, infeasibility, done, converged)

    def _share(self, certificate: TableCertificate) -> float:
        """How much of the interior is to be mixed in; 0 if that is not possible."""
        return certificate.short if self.nonnegative and not self.has_zeros and self.interior.evenness > 0 else 0.0

    def _most(self) -> float:
        """No feasible tables are further away: n records are n times one. Infinite without a total."""
        if not (self.nonnegative and self.is_fixed[0]):
            return np.inf
        lengths = np.sqrt(self._squares(lambda part: part.rows(self.wanted), self.wanted_low))
        return float(self.weights[1:] @ (lengths + self.total * self.longest)[1:] ** 2) * (1.0 + 1e-9)

    def _distance(self, top: Floats, low: Floats) -> float:
        """Of coordinates of the maximal tables and of those below from those wanted."""
        squares = self._squares(lambda part: part.rows(top) - part.rows(self.wanted), low - self.wanted_low)
        return float(self.weights @ squares)

    def _squares(self, top: Callable[[P], Floats], low: Floats) -> Floats:
        """The squared length of each set's coordinates, (sets,)."""
        squares = np.bincount(self.low_sets, low**2, len(self.weights)).astype(np.float64)
        for part in self.parts:
            squares[part.numbers] = (part.own(top(part)) ** 2).sum(axis=1)
        return squares


def nearest(
    method: Callable[[F, Posed], Alternating[Any]],
    form: F,
    coordinates: ArrayLike,
    weights: ArrayLike,
    *,
    fixed: Mapping[tuple[int, ...], ArrayLike] | None = None,
    zeros: Booleans | None = None,
    nonnegative: bool = True,
    tolerance: float = 1e-6,
    rounds: int = 5000,
    progress: Progress | None = None,
) -> Nearest:
    """The consistent tables of a family that are nearest to given coordinates and meet the constraints.

    Args:
        method: `local.Residuals` or `crossed.Crossed`.
        form: how their tables lie in coordinates: an `Arrangement`, or a `Crossing` of the maximal tables.
        coordinates: y_S of every set, in the order of the form's layout, (cells,); of residuals only the centred part
            counts, so that estimated marginals will do.
        weights: w_S > 0 of each set, (sets,): the precisions of the release.
        fixed: attribute positions (increasing) → coordinates that are given; `()` is the total.
        zeros: which cells of the maximal tables must be zero, in the order of
            `layout_of(lattice, sizes, lattice.is_maximal)`.
        nonnegative: whether no cell may be negative.
        tolerance: the gap that is good enough, relative to the squared distance (or to one, if that is smaller).
        rounds: how many steps at most.
        progress: called with the step and the relative gap now and then.

    Returns:
        The fit. Feasible coordinates come back as they are, after no steps.

    Raises:
        PlanError: arguments that do not fit, or constraints that nothing can meet.
    """
    layout = form.given_layout
    wanted, w = np.array(coordinates, dtype=np.float64), np.asarray(weights, dtype=np.float64)
    if wanted.shape != (layout.cells,) or not np.isfinite(wanted).all():
        raise PlanError(f"{form.named} must be {layout.cells:,} finite numbers, one per cell of every table.")
    if w.shape != (len(layout.lattice),) or not (np.isfinite(w).all() and (w > 0).all()):
        raise PlanError(f"weights must be {len(layout.lattice):,} positive numbers, one per set.")
    is_fixed = np.zeros(len(layout.lattice), dtype=bool)
    given = {members: np.asarray(table, dtype=np.float64) for members, table in (fixed or {}).items()}
    for members, table in given.items():
        number = layout.lattice.number(members)
        shape = tuple(int(layout.sizes[i]) for i in members)
        if number < 0 or table.shape != shape or not np.isfinite(table).all():
            raise PlanError(f"fixed[{members!r}] must be a finite table of shape {shape} of a set of the family.")
        wanted[layout.starts[number] : layout.starts[number] + table.size] = table.ravel()
        is_fixed[number] = True
    if len(layout.lattice) == 1:
        return _total_only(float(np.ravel(coordinates)[0]), float(w[0]), given, nonnegative, zeros)
    total = given.get((), np.zeros(()))
    margins = {i: form.margin(i[0], total, own) if i else own for i, own in given.items() if len(i) < 2}
    interior = interior_of({**given, **margins}, form.evens)
    return method(form, Posed(wanted, w, is_fixed, zeros, nonnegative, interior)).solve(tolerance, rounds, progress)


def _total_only(
    wanted: float, weight: float, fixed: Mapping[tuple[int, ...], Floats], nonnegative: bool, zeros: Booleans | None
) -> Nearest:
    """The family of the empty set alone: one number."""
    total = float(fixed.get((), max(wanted, 0.0) if nonnegative else wanted))
    if () not in fixed:
        total = 0.0 if zeros is not None and zeros.any() else total
    elif nonnegative and total < 0:
        raise PlanError(f"fixed[()]={total} is negative; a total of counts is not.")
    distance = 0.0 if () in fixed else weight * (total - wanted) ** 2
    return Nearest(np.array([total]), 0.0, distance, 0.0, 0, True)
