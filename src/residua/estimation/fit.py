"""Fitting: from the residuals of a release to the tables of all single attributes and pairs, which agree.

Three steps. A mixture of independent attributes is fitted to everything measured (`mixture`). Each measured residual is
then shrunk towards it by its own evidence (`shrinkage`), twice: how much of the noise the mixture has followed is found
on a release simulated from the first estimates. Margins are restored by raking, singles to the total and pairs to the
singles; pairs that no three-way table could have together are moved until one can (`raking`).

**Noise that the mixture has followed.** With V the squared noise of a residual, B the squared error of the model and C
what they have in common, the squared distance between model and measurement is `D = B + V − 2C` in expectation, and the
mixture of both that errs least keeps `1 − (V − C)/D` of the deviation: as if the model were independent, and the noise
were `V − C`. It errs by C and the posterior variance at that noise. Where the model follows all of the noise (C = V),
nothing speaks for it, and the measurement stays. C depends on how freely the model fits, hardly on the truth: a release
simulated from the estimates, and fitted again, has the share `c = C/V` of the real one to within a few hundredths over
all tables. One table has few directions, and its own share is moved towards that of all tables.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations, permutations

import numpy as np

from residua.errors import PlanError
from residua.estimation.mixture import THRESHOLD, Mixture, Pairs, Target, Values, first_shares, fit_mixture
from residua.estimation.observed import Copies, Members, Observed, Public, Supposed, simulated
from residua.estimation.raking import Progress as Progress, agreeing, raked
from residua.estimation.shrinkage import SCALES, Posterior, Prior, decided, expected, guarded, pooled_prior, shrunk
from residua.linalg.arrays import Floats, Integers, centred

_SPREAD = 0.2  # how far shares of tables of one number of attributes are from their mean
_MOST = 0.98
_DIRECTIONS, _SIMULATIONS = 150, 4  # of singles that are looked at, in so many simulations at most


def simulations(values: Values) -> int:
    """How many releases to simulate: few attributes of few values have few directions each time."""
    return int(np.clip(math.ceil(_DIRECTIONS / max(int((values.sizes - 1).sum()), 1)), 1, _SIMULATIONS))


def absorbed_shares(truth: Supposed, fits: Sequence[tuple[Observed, Mixture]], total: float) -> Floats:
    """The share of the noise of each single (on the diagonal) and pair that a model of it has followed.

    Args:
        truth: what releases were simulated from.
        fits: those releases, and the mixture fitted to each.
        total: the number of records.

    Returns:
        (attributes, attributes), symmetric; 0 where nothing was measured.
    """
    values, first = truth.values, fits[0][0]
    absorbed = np.zeros((len(values.sizes),) * 2)
    for size in (1, 2):
        sets = first.sets(size)
        if not sets:
            continue
        own, precision = np.zeros(len(sets)), np.zeros(len(sets))
        for number, members in enumerate(sets):
            at = tuple(values.of(i) for i in members)
            sums = np.zeros(3)
            for release, mixture in fits:
                own_truth = truth.residual(members)
                noise = release.residual(members) - own_truth
                apart = centred(total * (mixture.singles[at] if size == 1 else mixture.pair(*at))) - own_truth
                sums += [float((apart * noise).sum()), float((noise**2).sum()), float((apart**2).sum())]
            whole = max(sums[1], 1e-300)
            own[number] = sums[0] / whole
            precision[number] = len(fits) * first.directions(members) / (1.0 + sums[2] / whole)
        mean = float(np.clip((own @ precision) / precision.sum(), 0.0, _MOST))
        shrunk = (own * precision + mean / _SPREAD**2) / (precision + 1.0 / _SPREAD**2)
        for members, share in zip(sets, np.clip(shrunk, 0.0, _MOST).tolist(), strict=True):
            absorbed[members[0], members[-1]] = absorbed[members[-1], members[0]] = share
    return absorbed


MOST_CELLS = 18_000_000  # of all pairs
_GROUPS = 512  # of an attribute's values, of which the mixture tells no more
_DOUBT = {1: 0.0, 2: 2.0}  # standard deviations beyond which measurements win, of singles and pairs
SAMPLED = 48  # tables that a prior is learned from
_DROWNED = 2.0  # standard deviations of the square that deviations must be above noise to be seen at all
_SURE = 100.0  # how much more precise than anything measured a public fact counts in the mixture
_FLOOR, _FLOOR_NOISE = 0.02, 0.1  # of the model, and of the noise: no cell is estimated below the lesser


@dataclass(frozen=True, eq=False)
class Fitted:
    """What was estimated: singles and pairs, and how sure each residual is.

    Args:
        values: where each attribute's values stand.
        total: the number of records.
        singles: each attribute's table, (values,).
        pairs: each pair's table.
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
    pairs: Pairs
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
        total = max(self.total, 1e-300)
        concentrations = np.diag(np.add.reduceat((self.singles / total) ** 2, self.values.starts))
        for j, i in permutations(range(len(concentrations)), 2):
            among = self.pair(j, i) ** 2 / np.maximum(self.single(j), 1e-300)[:, None]
            concentrations[j, i] = float(among.sum()) / total
        return concentrations

    def single(self, i: int) -> Floats:
        """An attribute's table."""
        return self.singles[self.values.of(i)]

    def pair(self, i: int, j: int) -> Floats:
        """A pair's table."""
        return self.pairs[i, j]

    def copy(self, copies: Copies) -> None:
        """Fills in the tables of attributes that are others under other names."""
        for members in (s for k in (1, 2) for s in combinations(range(len(self.values.sizes)), k)):
            own, at = copies.originals(members), (members[0], members[-1])
            if own == members:
                continue
            table = copies.table(members, self.single(own[0]) if len(own) == 1 else self.pair(*own))
            if len(members) == 1:
                self.singles[self.values.of(members[0])] = table
            else:
                self.pairs[at] = table
            for noted in (self.errors, self.kept, self.doubt):
                noted[at] = noted[at[::-1]] = noted[own[0], own[-1]]
            if len(own) < len(members):
                self.doubt[at] = self.doubt[at[::-1]] = 0.0


@dataclass(frozen=True, eq=False)
class Belief:
    """What is believed of a measured interaction, beside a model.

    Args:
        posterior: of its deviation from the model.
        kept: how much of it was kept, 0 to 1.
        doubt: how far it is above what noise alone would make it, in standard deviations of its square.
    """

    posterior: Posterior
    kept: float
    doubt: float


def judged(
    observed: Observed, members: Members, model: Floats, surely: float, prior: Prior | None = None, share: float = 0.0
) -> Belief:
    """Shrinks what was measured of an interaction towards a model.

    Args:
        observed: what was measured.
        members: of which attributes.
        model: the model's table.
        surely: standard deviations beyond which measurements win.
        prior: what other tables say of the deviations.
        share: of the noise that the model has followed.
    """
    deviation = observed.residual(members) - centred(model)
    directions, variance = observed.directions(members), observed.variance(members)
    of_cell = observed.cell_variance(members) * (1.0 - share)
    posterior = shrunk(deviation, model, of_cell, prior)
    if len(members) > 1:
        posterior = decided(posterior, deviation, model, of_cell)
    posterior = guarded(posterior, deviation, variance * (1.0 - share), directions, surely)
    square = float((deviation**2).sum())
    kept = float((posterior.mean * deviation).sum() / max(square, 1e-300))
    doubt = (square / variance - directions) / math.sqrt(2.0 * directions)
    if doubt < _DROWNED:  # noise hides all deviations: they are taken to be no larger than the model's own counts
        posterior = replace(posterior, variance=min(posterior.variance, float((model**2).sum())))
    return Belief(posterior, kept, doubt)


def above_floor(model: Floats, posterior: Posterior, cell_variance: float) -> Floats:
    """Model and posterior deviation together, kept above a little of the model."""
    if posterior.decided:
        return np.maximum(model + posterior.mean, 0.0)
    return np.maximum(model + posterior.mean, np.minimum(_FLOOR * model, _FLOOR_NOISE * math.sqrt(cell_variance)))


def fitted(
    observed: Observed, public: Public, total: float, total_variance: float, progress: Progress | None = None
) -> Fitted:
    """All singles and pairs.

    Raises:
        PlanError: more cells than fit, or nothing measured.
    """
    domain = observed.domain
    values = Values(domain.sizes.astype(np.int64))
    if values.pair_cells > MOST_CELLS:
        raise PlanError(
            f"the tables of all pairs of attributes have {values.pair_cells:,} cells, more than the {MOST_CELLS:,} "
            "that can be estimated together; declare coarser attributes, or fewer."
        )
    say = progress or (lambda what, done, of: None)
    fitting = _Fitting(observed, public, values, total, say)
    mixture, nothing = fitting.mixture(), np.zeros((len(values.sizes),) * 2)
    truth = Supposed(values, *fitting.tables(mixture, nothing)[:2])
    releases = [simulated(domain, observed.variances, truth.residual, seed) for seed in range(simulations(values))]
    fits = [(one, replace(fitting, observed=one).mixture()) for one in releases]
    singles, pairs, notes = fitting.tables(mixture, absorbed_shares(truth, fits, total))
    pairs = agreeing(public, singles, pairs, say)
    return Fitted(values, total, singles, pairs, notes.errors, total_variance, notes.kept, notes.doubt, {})


@dataclass(frozen=True, eq=False)
class _Notes:
    """What is noted of each single and pair while it is shrunk, (attributes, attributes) each, filled in.

    `absorbed` is given: the share of the noise that the model has followed. `hidden`: pairs whose deviations from
    their models noise hides, and those models.
    """

    errors: Floats
    kept: Floats
    doubt: Floats
    absorbed: Floats
    hidden: list[tuple[Members, Floats]] = field(default_factory=list)


def _both(members: Members) -> tuple[Members, ...]:
    """Where a single or a pair stands in a symmetric matrix of attributes."""
    return (members * 2,) if len(members) == 1 else (members, members[::-1])


@dataclass(frozen=True, eq=False)
class _Fitting:
    """What singles and pairs are fitted to: what was measured, what is public, and the total."""

    observed: Observed
    public: Public
    values: Values
    total: float
    say: Progress

    def mixture(self) -> Mixture:
        """The model."""
        steps = -(-self.values.sizes // _GROUPS)  # neighbouring values that are one to the mixture
        target, shares = self._target(steps)
        if not target.pair_weights.any() or target.penalty >= 1.0:  # no interaction is above the threshold
            return Mixture(np.ones(1), shares[None, :].copy())
        groups = fit_mixture(target, progress=lambda done, of: self.say("fitting a model", done, int(of)))
        within = np.arange(len(shares)) - self.values.starts[self.values.owner]
        owner = target.values.starts[self.values.owner] + within // steps[self.values.owner]
        return Mixture(groups.weights, groups.shares[:, owner] * (shares / np.bincount(owner, weights=shares)[owner]))

    def _target(self, steps: Integers) -> tuple[Target, Floats]:
        """What was measured, and what is known, in shares of groups of values; and the shares of single values."""
        fine, d = self.values, len(self.values.sizes)
        values = Values(-(-fine.sizes // steps))
        singles, pairs = np.zeros(len(fine.owner)), np.zeros((len(values.owner),) * 2)
        weights, sure = np.zeros((d, d)), np.zeros((d, d), dtype=bool)
        even = self._even()
        for members in (s for k in (1, 2) for s in combinations(range(d), k)):
            known, variance = self.public.known(members), self.observed.variance(members)
            if known is None and math.isinf(variance):
                continue
            residual = (centred(known) if known is not None else self.observed.residual(members)) / self.total
            if len(members) == 1:
                single = residual if known is not None else self._towards_even(members, residual, even)
                singles[fine.of(members[0])] = single
            else:
                at = tuple(values.of(i) for i in members)
                for axis, step in enumerate(steps[list(members)].tolist()):
                    residual = np.add.reduceat(residual, np.arange(0, residual.shape[axis], step), axis=axis)
                pairs[at], pairs[at[::-1]] = residual, residual.T
            for place in _both(members):
                weights[place] = 1.0 / (variance * math.prod(steps[list(members)].tolist()))
                sure[place] = known is not None
        of_singles = np.diag(weights)
        measured = weights[~np.eye(d, dtype=bool) & (weights > 0)]
        mean = float(np.sqrt(measured).mean()) if len(measured) else math.sqrt(float(of_singles.max(initial=1.0)))
        weights = np.where(sure, _SURE * max(float(weights.max()), 1e-300), weights) / (mean**2 if mean else 1.0)
        of_pairs = weights * ~np.eye(d, dtype=bool)
        shares, penalty = first_shares(fine, singles), THRESHOLD / max(self.total * mean, 1e-300)
        starts = np.concatenate([np.arange(at.start, at.stop, n) for at, n in zip(fine.all, steps, strict=True)])
        first, singles = np.add.reduceat(shares, starts), np.add.reduceat(singles, starts)
        return Target(values, singles, pairs, np.diag(weights), of_pairs, first, penalty), shares

    def _even(self) -> Prior | None:
        """How far single attributes are from even, what all of them say."""
        parts = [
            (self.observed.residual(i), np.full(self.values.sizes[i[0]], self.total / self.values.sizes[i[0]]), v)
            for i in self.observed.sets(1)
            if 0 < (v := self.observed.cell_variance(i)) < math.inf
        ]
        return pooled_prior(parts)

    def _towards_even(self, members: Members, residual: Floats, prior: Prior | None) -> Floats:
        """A single attribute's deviations from even, in shares, without what is likely to be noise."""
        if prior is None:
            return residual
        model = np.full(len(residual), self.total / len(residual))
        return shrunk(residual * self.total, model, self.observed.cell_variance(members), prior).mean / self.total

    def tables(self, mixture: Mixture, absorbed: Floats) -> tuple[Floats, Pairs, _Notes]:
        """Singles, pairs, and what was noted of them."""
        shape = absorbed.shape
        notes = _Notes(np.zeros(shape), np.full(shape, np.nan), np.zeros(shape), absorbed)
        singles = self._singles(mixture, notes)
        return singles, self._pairs(mixture, singles, notes), notes

    def _singles(self, mixture: Mixture, notes: _Notes) -> Floats:
        singles = np.empty(len(self.values.owner))
        for i in range(len(self.values.sizes)):
            at = self.values.of(i)
            known = self.public.known((i,))
            if known is None:
                model = np.where(self.public.possible_values(i), self.total * mixture.singles[at], 0.0)
                model = np.where(model > 0, self._shrunk((i,), model, notes), 0.0)
                known = model * (self.total / max(float(model.sum()), 1e-300))
            singles[at] = known
        return singles

    def _pairs(self, mixture: Mixture, singles: Floats, notes: _Notes) -> Pairs:
        pairs, d = Pairs.none(self.values), len(self.values.sizes)
        for number, members in enumerate(combinations(range(d), 2)):
            at, known = tuple(self.values.of(i) for i in members), self.public.known(members)
            if known is None:
                margins, possible = [singles[at[1]], singles[at[0]]], self.public.possible(members)
                model, _ = raked(np.where(possible, mixture.pair(*at), 0.0), margins)
                table = self._shrunk(members, model, notes)
                known = model if table is model else raked(np.where(possible, table, 0.0), margins)[0]
            pairs[members] = known
            if number % 200 == 0:
                self.say("shrinking pairs", number, d * (d - 1) // 2)
        self._drowned(notes)
        return pairs

    def _drowned(self, notes: _Notes) -> None:
        """Pairs whose deviations noise hides err by what all of them say together; one alone says next to nothing.

        They vary at least as a sample of the records does: `N Π (1 − Σ p²)`.
        """
        looked = notes.hidden[:: max(1, len(notes.hidden) // SAMPLED)]
        own = [(self.observed.residual(s) - centred(m), m, self.observed.cell_variance(s)) for s, m in looked]
        prior = pooled_prior(own)
        prior = np.zeros(SCALES) if prior is None else prior
        for members, model in notes.hidden:
            followed = float(notes.absorbed[members]) * self.observed.variance(members)
            uneven = [float((model.sum(axis=axis) ** 2).sum()) / self.total**2 for axis in (0, 1)]
            drawn = self.total * max(1.0 - uneven[0], 0.0) * max(1.0 - uneven[1], 0.0)
            error = max(expected(model, prior), drawn) + followed * self.observed.directions(members)
            for at in _both(members):
                notes.errors[at] = min(float(notes.errors[at]), error)

    def _shrunk(self, members: Members, model: Floats, notes: _Notes) -> Floats:
        """A single or a pair between model and measurement, the model itself where nothing was measured; noted."""
        if math.isinf(self.observed.variance(members)):
            for at in _both(members) if self.observed.directions(members) else ():
                notes.errors[at] = np.nan
            return model
        share = float(notes.absorbed[members[0], members[-1]])
        own = judged(self.observed, members, model, _DOUBT[len(members)], share=share)
        noise = self.observed.variance(members) * self.observed.directions(members)
        for at in _both(members):
            notes.kept[at], notes.doubt[at] = own.kept, own.doubt
            notes.errors[at] = own.posterior.variance + share * noise
        if len(members) > 1 and own.doubt < _DROWNED:
            notes.hidden.append((members, model))
        return above_floor(model, own.posterior, self.observed.cell_variance(members))
