"""Any table on demand: from its margins, raked together, and what was measured of its own interaction; how accurate.

A table of three or more attributes is what its margins say and no more (the log-linear model without the interaction of
all its attributes), moved by what was measured of that interaction as far as the evidence goes. So tables agree on the
margins that they share, up to what raking leaves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np

from residua.domain import Domain
from residua.domain.facts import listed
from residua.estimation.fit import SAMPLED, Fitted, above_floor, judged
from residua.estimation.observed import Copies, Members, Observed, Public, copies_in
from residua.estimation.raking import raked
from residua.estimation.shrinkage import Prior, decided, expected, pooled_prior, shrunk
from residua.linalg.arrays import Floats, centred

_SURELY = 4.0  # standard deviations: the noise of larger tables is large, and a little of it by mistake is much


@dataclass(frozen=True)
class Interaction:
    """What is known of the interaction of all attributes of one set.

    Args:
        measured: whether its residual was.
        error: the expected squared error of the residual, summed over cells; NaN where nothing says.
        kept: how much of the measured deviation from the model was kept, 0 to 1; NaN where nothing was measured.
        doubt: how far the measured deviation from the model is above what noise explains, in standard deviations.
        apart: how far the table's margins are from the tables of fewer of its attributes, in counts.
        exact: whether the table is public.
    """

    measured: bool
    error: float
    kept: float = math.nan
    doubt: float = 0.0
    apart: float = 0.0
    exact: bool = False


@dataclass(frozen=True, eq=False)
class EstimatedTables:
    """The tables of one estimation.

    Args:
        told: what the release says of residuals.
        public: what is known.
        fitted: singles and pairs.
    """

    told: Observed
    public: Public
    fitted: Fitted

    @cached_property
    def copies(self) -> Copies:
        """Attributes that are others under other names."""
        return copies_in(self.told, self.public, self.fitted.total)

    @cached_property
    def observed(self) -> Observed:
        """What the release says, without copies."""
        return self.copies.without(self.told)

    def table(self, members: Members) -> Floats:
        """The table of these attributes (positions, increasing)."""
        return self._all(members)[members][0]

    def interactions(self, members: Members) -> dict[Members, Interaction]:
        """What is known of the interaction of each subset, the whole and the empty set included."""
        return {subset: interaction for subset, (_, interaction) in self._all(members).items()}

    def _all(self, members: Members) -> dict[Members, tuple[Floats, Interaction]]:
        tables: dict[Members, tuple[Floats, Interaction]] = {}
        for size in range(len(members) + 1):
            for subset in combinations(members, size):
                own = self.copies.originals(subset)
                if own != subset:
                    table, interaction = self._all(own)[own]
                    tables[subset] = self.copies.table(subset, table), interaction
                else:
                    tables[subset] = self._small(subset) if size < 3 else self._raked(subset, tables)
        return tables

    def _small(self, members: Members) -> tuple[Floats, Interaction]:
        fitted = self.fitted
        if not members:
            return np.asarray(fitted.total), Interaction(True, fitted.total_error, exact=fitted.total_error == 0.0)
        at = members * 2 if len(members) == 1 else members
        table = fitted.single(members[0]) if len(members) == 1 else fitted.pair(*members)
        measured = math.isfinite(self.observed.variance(members))
        error, kept, doubt = float(fitted.errors[at]), float(fitted.kept[at]), float(fitted.doubt[at])
        return table, Interaction(measured, error, kept, doubt, exact=self.public.known(members) is not None)

    def _raked(self, members: Members, tables: dict[Members, tuple[Floats, Interaction]]) -> tuple[Floats, Interaction]:
        known = self.public.known(members)
        if known is not None:
            return known, Interaction(False, 0.0, exact=True)
        model, margins = self.model(members, tables)
        prior = self.fitted.priors.get(len(members))
        if math.isinf(self.observed.variance(members)):
            unmeasured = 0.0 if not self.observed.directions(members) else math.nan
            error = unmeasured if prior is None else expected(model, prior)
            return model, Interaction(False, error, apart=_apart(members, model, tables))
        own = judged(self.observed, members, model, _SURELY, prior)
        table = above_floor(model, own.posterior, self.observed.cell_variance(members))
        table, _ = raked(np.where(self.public.possible(members), table, 0.0), margins)
        return table, Interaction(True, own.posterior.variance, own.kept, own.doubt, _apart(members, table, tables))

    def model(self, members: Members, tables: dict[Members, tuple[Floats, Interaction]]) -> tuple[Floats, list[Floats]]:
        """What its margins say of a table, and those margins."""
        margins = [tables[members[:j] + members[j + 1 :]][0] for j in range(len(members))]
        return raked(self.public.possible(members).astype(np.float64), margins)[0], margins

    def deviation(self, members: Members) -> tuple[Floats, Floats]:
        """How far the measured interaction of a set is from what its margins say, and what they say."""
        below = {s: one for facet in combinations(members, len(members) - 1) for s, one in self._all(facet).items()}
        model, _ = self.model(members, below)
        return self.observed.residual(members) - centred(model), model

    def prior(self, size: int) -> Prior | None:
        """The prior of the interactions of this many attributes, from a sample of those measured."""
        sets = list(self.observed.sets(size))
        sample = sets[:: max(1, len(sets) // SAMPLED)]
        parts = ((*self.deviation(members), self.observed.cell_variance(members)) for members in sample)
        # What is decided by others says nothing of the rest.
        return pooled_prior(own for own in parts if not decided(shrunk(*own), *own).decided)


def _apart(members: Members, table: Floats, tables: dict[Members, tuple[Floats, Interaction]]) -> float:
    """How far the margins of a table are, at most, from the tables of all smaller sets of its attributes, in counts."""
    smaller = ((kept, tuple(k for k, i in enumerate(members) if i not in kept)) for size in range(len(members))
               for kept in combinations(members, size))  # fmt: skip
    return max(float(np.abs(table.sum(axis=away) - tables[kept][0]).max()) for kept, away in smaller)


ODD = 5.0  # standard deviations above what noise explains: then measurements contradict the model


@dataclass(frozen=True)
class TableAccuracy:
    """What is said of one estimated table.

    Args:
        attributes: the table's attributes.
        rmse: the estimated root mean square error of a cell: the posterior variance of what the model leaves open, the
            noise that the model took for signal (by simulation), and what errors of margins pass on. An estimate, not
            a bound.
        shrunk: how far the measured interactions were moved to the model, from 0 (as measured) to 1 (the model);
            None where no interaction of its attributes was measured.
        measured: the sets of attributes whose interactions were measured, the table's own last if it was.
        unmeasured: those that were not: there the model alone speaks.
        unknown: those of `unmeasured` about whose strength nothing measured says anything: `rmse` takes them to vary as
            a sample of so many records does, and may be too small.
        contradicted: the sets whose measurements the model does not explain; there the measurements decide.
        apart: how far the table is from the margins it shares with others, in counts.
    """

    attributes: tuple[str, ...]
    rmse: float
    shrunk: float | None
    measured: tuple[tuple[str, ...], ...]
    unmeasured: tuple[tuple[str, ...], ...]
    unknown: tuple[tuple[str, ...], ...]
    contradicted: tuple[tuple[str, ...], ...]
    apart: float

    def __str__(self) -> str:
        words = [f"root mean square error about {self.rmse:,.3g}"]
        if self.unknown:
            words.append(f"more if {crossed_names(self.unknown)} interact")
        if self.shrunk is not None:
            words.append(f"interactions shrunk by {self.shrunk:.0%}")
        if self.unmeasured:
            words.append(f"not measured: {crossed_names(self.unmeasured)}")
        if self.contradicted:
            words.append(f"measurements contradict the model: {crossed_names(self.contradicted)}")
        return "; ".join(words)


def crossed_names(sets: tuple[tuple[str, ...], ...], most: int = 5) -> str:
    """Sets of attributes in words."""
    return listed([" × ".join(names) for names in sets], most)


def _passed_on(errors: dict[Members, float], members: Members, sizes: dict[int, int], uneven: Floats) -> float:
    """The squared error that a residual has from those below it.

    An error of a table is spread over another attribute as the records of its cells are, not evenly: its square grows
    by `Σ p²`, of which `1/n` stays in the smaller table's own residual. Of a cell of several attributes, `Σ p²` is at
    least what each of them alone says.
    """

    def spread(subset: Members, i: int) -> float:
        return max(max(float(uneven[j, i]) for j in (i, *subset)) - 1.0 / sizes[i], 0.0)

    return sum(
        errors[subset] * math.prod(spread(subset, i) for i in members if i not in subset)
        for size in range(len(members))
        for subset in combinations(members, size)
    )


def accuracy_of(
    domain: Domain, asked: tuple[str, ...], interactions: dict[Members, Interaction], fitted: Fitted, copies: Copies
) -> TableAccuracy:
    """The accuracy of the table of these attributes, from the interactions of those that they are or copy.

    Residuals are orthogonal, so the squared error is `Σ_S Π_{i∉S} 1/n_i · error_S`, summed over cells. Each error is
    the residual's own and what smaller ones pass on, as far as it is not as measured. Interactions of three or more
    attributes, and unknown ones, vary at least as a sample of the records does: `N Π (1 − Σ p²)`, the sums being
    `fitted.concentrations`.
    """
    members = max(interactions, key=len)
    called = {copies.original(i)[0]: domain.names[i] for i in reversed(domain.positions(asked))}
    sizes, concentrations = {i: int(domain.sizes[i]) for i in members}, fitted.concentrations
    own: dict[Members, float] = {}
    error, before, after = 0.0, 0.0, 0.0
    named: dict[str, list[tuple[str, ...]]] = {"measured": [], "unmeasured": [], "unknown": [], "odd": []}
    for subset, one in interactions.items():  # smaller sets first
        left = 0.0 if one.exact else 1.0 if math.isnan(one.kept) else (1.0 - min(max(one.kept, 0.0), 1.0)) ** 2
        own[subset] = 0.0 if math.isnan(one.error) else one.error
        if len(subset) > 2 or (math.isnan(one.error) and subset):
            drawn = fitted.total * math.prod(max(1.0 - float(concentrations[i, i]), 0.0) for i in subset)
            own[subset] = max(own[subset], left * drawn)
        whole = own[subset] + left * _passed_on(own, subset, sizes, concentrations)
        error += whole / math.prod(sizes[i] for i in members if i not in subset)
        if not subset:
            continue
        names = tuple(called.get(i, domain.names[i]) for i in subset)
        if not any(sizes[i] == 1 for i in subset):
            named["measured" if one.measured else "unmeasured"].append(names)
        if math.isnan(one.error):
            named["unknown"].append(names)
        if len(subset) > 1 and not math.isnan(one.kept):
            before += 1.0
            after += min(max(one.kept, 0.0), 1.0)
        if len(subset) > 1 and one.doubt > ODD:
            named["odd"].append(names)
    return TableAccuracy(
        asked,
        math.sqrt(error / domain.cells(asked)),
        1.0 - after / before if before else None,
        tuple(named["measured"]),
        tuple(named["unmeasured"]),
        tuple(named["unknown"]),
        tuple(named["odd"]),
        max(one.apart for one in interactions.values()),
    )
