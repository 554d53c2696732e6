"""Fitting: from the residuals of a release to the tables of all single attributes and pairs, which agree.

Three steps. A mixture of independent attributes is fitted to everything measured (`mixture`). Each measured residual is
then shrunk towards it by its own evidence (`shrinkage`), twice: how much of the noise the mixture has followed is found
on a release simulated from the first estimates (`absorbing`). Margins are restored by raking, singles to the total and
pairs to the singles; pairs that no three-way table could have together are moved until one can (`agreement`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np

from residua.errors import PlanError
from residua.estimation.absorbing import absorbed_shares, simulations
from residua.estimation.agreement import agreeing
from residua.estimation.facts import Members, Public
from residua.estimation.mixture import (
    Mixture,
    Target,
    Values,
    first_shares,
    fit_mixture,
    independent_mixture,
    penalty,
)
from residua.estimation.observed import Observed, centred
from residua.estimation.raking import raked
from residua.estimation.shrinkage import Posterior, Prior, guarded, shrunk
from residua.estimation.simulation import Simulated
from residua.linalg.arrays import Floats

Progress = Callable[[str, int, int], object]
Seen = Callable[[Members, Floats, Floats, Prior], object]  # a deviation, the model, what is believed of it
MOST_VALUES = 6_000
_DOUBT = {1: 0.0, 2: 2.0}  # standard deviations beyond which measurements win, of singles and pairs
_SURE = 100.0  # how much more precise than anything measured a public fact counts in the mixture
_FLOOR, _FLOOR_NOISE = 0.02, 0.1  # of the model, and of the noise: no cell is estimated below the lesser


@dataclass(frozen=True, eq=False)
class Fitted:
    """What was estimated: singles and pairs, and how sure each residual is.

    Args:
        values: where each attribute's values stand.
        total: the number of records.
        singles: each attribute's table, (values,).
        pairs: each pair's table, (values, values), zero within an attribute.
        errors: the expected squared error of each residual, summed over its cells: of the total, (1, 1), of singles on
            the diagonal and pairs off it, (attributes, attributes).
        total_error: the expected squared error of the total.
        kept: how much of the measured deviation from the model was kept, 0 to 1; NaN where nothing was measured.
        doubt: how many standard deviations the squared deviation from the model is above what noise explains.
        priors: of the residuals of each larger size that was measured.
    """

    values: Values
    total: float
    singles: Floats
    pairs: Floats
    errors: Floats
    total_error: float
    kept: Floats
    doubt: Floats
    priors: dict[int, Prior]

    @cached_property
    def concentrations(self) -> Floats:
        """How unevenly records are spread, (attributes, attributes).

        `Σ p²` of the shares of each attribute on the diagonal; at [j, i] that of attribute i among the records of one
        value of j, the mean over records.
        """
        starts, total = self.values.starts, max(self.total, 1e-300)
        squares = self.pairs**2 / np.maximum(self.singles, 1e-300)[:, None]
        found = np.add.reduceat(np.add.reduceat(squares, starts, axis=0), starts, axis=1) / total
        np.fill_diagonal(found, np.add.reduceat(self.singles**2, starts) / total**2)
        return np.asarray(found)

    def single(self, i: int) -> Floats:
        """An attribute's table."""
        return self.singles[self.values.of(i)]

    def pair(self, i: int, j: int) -> Floats:
        """A pair's table."""
        return self.pairs[self.values.of(i), self.values.of(j)]


def doubt_of(deviation: Floats, variance: float, directions: int) -> float:
    """How far a squared deviation is above what noise alone would make it, in standard deviations of that."""
    return float(((deviation**2).sum() / variance - directions) / math.sqrt(2.0 * directions))


def above_floor(model: Floats, posterior: Posterior, cell_variance: float) -> Floats:
    """Model and posterior deviation together, kept above a little of the model."""
    floor = np.minimum(_FLOOR * model, _FLOOR_NOISE * math.sqrt(cell_variance))
    return np.maximum(model + posterior.mean, floor)


def fitted(
    observed: Observed,
    public: Public,
    total: float,
    total_variance: float,
    progress: Progress | None = None,
    *,
    reconcile: bool = True,
    simulate: bool = True,
    seen: Seen | None = None,
) -> Fitted:
    """All singles and pairs.

    `reconcile` moves pairs until three-way tables can have them, `simulate` finds how much noise the model has
    followed, and `seen` is told of each deviation.

    Raises:
        PlanError: more values than fit, or nothing measured.
    """
    domain = observed.domain
    values = Values(domain.sizes.astype(np.int64))
    if len(values.owner) > MOST_VALUES:
        raise PlanError(
            f"the attributes have {len(values.owner):,} values in all, more than the {MOST_VALUES:,} that can be "
            "estimated together; declare coarser attributes, or fewer."
        )
    say = progress or (lambda what, done, of: None)
    mixture = _mixture(observed, public, values, total, say)
    d = len(values.sizes)
    notes = _Notes.empty(np.zeros((d, d)), None if simulate else seen)
    singles = _singles(observed, public, values, mixture, total, notes)
    pairs = _pairs(observed, public, values, mixture, total, singles, notes, say)
    if simulate:
        supposed = [Simulated(observed, values, singles, pairs, seed) for seed in range(simulations(values))]
        fits = [(one, _mixture(one, public, values, total, say)) for one in supposed]
        notes = _Notes.empty(absorbed_shares(fits, values, total), seen)
        singles = _singles(observed, public, values, mixture, total, notes)
        pairs = _pairs(observed, public, values, mixture, total, singles, notes, say)
    if reconcile:
        pairs = agreeing(public, values, singles, pairs, say)
    return Fitted(values, total, singles, pairs, notes.errors, total_variance, notes.kept, notes.doubt, {})


def _mixture(observed: Observed, public: Public, values: Values, total: float, say: Progress) -> Mixture:
    target = _target(observed, public, values, total)
    if not target.pair_weights.any():
        return independent_mixture(target)
    return fit_mixture(target, progress=lambda done, of: say("fitting a model", done, int(of)))


@dataclass(frozen=True, eq=False)
class _Notes:
    """What is noted of each single and pair while it is shrunk, (attributes, attributes) each, filled in.

    `absorbed` is given: the share of the noise that the model has followed.
    """

    errors: Floats
    kept: Floats
    doubt: Floats
    absorbed: Floats
    seen: Seen | None

    @staticmethod
    def empty(absorbed: Floats, seen: Seen | None = None) -> _Notes:
        shape = absorbed.shape
        return _Notes(np.zeros(shape), np.full(shape, np.nan), np.zeros(shape), absorbed, seen)


def _target(observed: Observed, public: Public, values: Values, total: float) -> Target:
    """What was measured, and what is known, in shares."""
    d = len(values.sizes)
    singles, pairs = np.zeros(len(values.owner)), np.zeros((len(values.owner),) * 2)
    single_weights, pair_weights = np.zeros(d), np.zeros((d, d))
    sure: list[Members] = []
    for members in (s for k in (1, 2) for s in combinations(range(d), k)):
        known, variance = public.known(members), observed.variance(members)
        if known is None and math.isinf(variance):
            continue
        residual = (centred(known) if known is not None else observed.residual(members)) / total
        at = tuple(values.of(i) for i in members)
        if len(members) == 1:
            singles[at] = residual
            single_weights[members] = 1.0 / variance
        else:
            pairs[at], pairs[at[::-1]] = residual, residual.T
            pair_weights[members] = pair_weights[members[::-1]] = 1.0 / variance
        if known is not None:
            sure.append(members)
    measured = pair_weights[pair_weights > 0]
    mean = float(np.sqrt(measured).mean()) if len(measured) else math.sqrt(float(single_weights.max(initial=1.0)))
    most = _SURE * max(float(single_weights.max()), float(pair_weights.max()), 1e-300)
    for members in sure:
        if len(members) == 1:
            single_weights[members] = most
        else:
            pair_weights[members] = pair_weights[members[::-1]] = most
    scale = mean**2 if mean else 1.0
    first = first_shares(values, singles)
    return Target(values, singles, pairs, single_weights / scale, pair_weights / scale, first, penalty(total, mean))


def _singles(
    observed: Observed,
    public: Public,
    values: Values,
    mixture: Mixture,
    total: float,
    notes: _Notes,
) -> Floats:
    found = np.empty(len(values.owner))
    for i in range(len(values.sizes)):
        at = values.of(i)
        known = public.known((i,))
        model = np.where(public.possible_values(i), total * mixture.singles[at], 0.0)
        if known is None and math.isfinite(observed.variance((i,))):
            posterior = _judged(observed, (i,), model, notes)
            model = np.where(model > 0, above_floor(model, posterior, observed.cell_variance((i,))), 0.0)
        elif known is None and observed.directions((i,)):
            notes.errors[i, i] = np.nan
        found[at] = known if known is not None else model * (total / max(float(model.sum()), 1e-300))
    return found


def _judged(observed: Observed, members: Members, model: Floats, notes: _Notes) -> Posterior:
    """The posterior of a single's or a pair's deviation from the model; notes what was kept and how odd it is."""
    deviation = observed.residual(members) - centred(model)
    directions = observed.directions(members)
    share = float(notes.absorbed[members[0], members[-1]])
    variance = observed.variance(members)
    posterior = shrunk(deviation, model, observed.cell_variance(members) * (1.0 - share))
    posterior = guarded(posterior, deviation, variance * (1.0 - share), directions, _DOUBT[len(members)])
    for at in (members * 2,) if len(members) == 1 else (members, members[::-1]):
        notes.kept[at] = float((posterior.mean * deviation).sum() / max(float((deviation**2).sum()), 1e-300))
        notes.doubt[at] = doubt_of(deviation, variance, directions)
        notes.errors[at] = posterior.variance + share * variance * directions
    if notes.seen is not None:
        notes.seen(members, deviation, model, posterior.prior)
    return posterior


def _pairs(
    observed: Observed,
    public: Public,
    values: Values,
    mixture: Mixture,
    total: float,
    singles: Floats,
    notes: _Notes,
    say: Progress,
) -> Floats:
    shares = mixture.pairs
    found = np.zeros_like(shares)
    d = len(values.sizes)
    for number, members in enumerate(combinations(range(d), 2)):
        at = tuple(values.of(i) for i in members)
        known = public.known(members)
        if known is None:
            margins = [singles[at[1]], singles[at[0]]]
            model, _ = raked(np.where(public.possible(members), shares[at], 0.0), margins)
            if math.isfinite(observed.variance(members)):
                posterior = _judged(observed, members, model, notes)
                table = above_floor(model, posterior, observed.cell_variance(members))
                model, _ = raked(np.where(public.possible(members), table, 0.0), margins)
            elif observed.directions(members):
                notes.errors[members] = notes.errors[members[::-1]] = np.nan
        found[at] = model if known is None else known
        found[at[::-1]] = found[at].T
        if number % 200 == 0:
            say("shrinking pairs", number, d * (d - 1) // 2)
    return found
