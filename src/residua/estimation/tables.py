"""Any table on demand: from its own margins, raked together, and what was measured of its own interaction.

A table of three or more attributes is what its margins say and no more (the log-linear model without the interaction of
all its attributes), moved by what was measured of that interaction as far as the evidence goes. So tables agree on the
margins that they share, up to what raking leaves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from residua.estimation.facts import Members, Public
from residua.estimation.fit import Fitted, above_floor, doubt_of
from residua.estimation.observed import Observed, centred
from residua.estimation.raking import raked
from residua.estimation.shrinkage import Prior, expected, guarded, pooled_prior, shrunk
from residua.linalg.arrays import Floats

_SAMPLED = 48
_SURELY = 4.0  # standard deviations: the noise of larger tables is large, and a little of it by mistake is much


@dataclass(frozen=True)
class Interaction:
    """What is known of the interaction of all attributes of one set.

    Args:
        measured: whether its residual was.
        error: the expected squared error of the residual, summed over cells; NaN where nothing says.
        kept: how much of the measured deviation from the model was kept, 0 to 1; NaN where nothing was measured.
        doubt: how far the measured deviation from the model is above what noise explains, in standard deviations.
        apart: how far the table is from the margins it was raked to, in counts.
        exact: whether the table is public.
    """

    measured: bool
    error: float
    kept: float = math.nan
    doubt: float = 0.0
    apart: float = 0.0
    exact: bool = False


@dataclass(frozen=True, eq=False)
class Tables:
    """The tables of one estimation.

    Args:
        observed: what the release says of residuals.
        public: what is known.
        fitted: singles and pairs.
    """

    observed: Observed
    public: Public
    fitted: Fitted

    def table(self, members: Members) -> Floats:
        """The table of these attributes (positions, increasing)."""
        return self._all(members)[members][0]

    def interactions(self, members: Members) -> dict[Members, Interaction]:
        """What is known of the interaction of each subset, the whole and the empty set included."""
        return {subset: found for subset, (_, found) in self._all(members).items()}

    def _all(self, members: Members) -> dict[Members, tuple[Floats, Interaction]]:
        found: dict[Members, tuple[Floats, Interaction]] = {}
        for size in range(len(members) + 1):
            for subset in combinations(members, size):
                found[subset] = self._small(subset) if size < 3 else self._raked(subset, found)
        return found

    def _small(self, members: Members) -> tuple[Floats, Interaction]:
        fitted = self.fitted
        if not members:
            return np.asarray(fitted.total), Interaction(True, fitted.total_error, exact=fitted.total_error == 0.0)
        at = members * 2 if len(members) == 1 else members
        table = fitted.single(members[0]) if len(members) == 1 else fitted.pair(*members)
        measured = math.isfinite(self.observed.variance(members))
        error, kept, doubt = float(fitted.errors[at]), float(fitted.kept[at]), float(fitted.doubt[at])
        return table, Interaction(measured, error, kept, doubt, exact=self.public.known(members) is not None)

    def _raked(self, members: Members, found: dict[Members, tuple[Floats, Interaction]]) -> tuple[Floats, Interaction]:
        known = self.public.known(members)
        if known is not None:
            return known, Interaction(False, 0.0, exact=True)
        model, margins, apart = self.model(members, found)
        prior = self.fitted.priors.get(len(members))
        if math.isinf(self.observed.variance(members)):
            unmeasured = 0.0 if not self.observed.directions(members) else math.nan
            error = unmeasured if prior is None else expected(model, prior)
            return model, Interaction(False, error, apart=apart)
        deviation = self.observed.residual(members) - centred(model)
        posterior = shrunk(deviation, model, self.observed.cell_variance(members), prior)
        directions = self.observed.directions(members)
        posterior = guarded(posterior, deviation, self.observed.variance(members), directions, _SURELY)
        table = above_floor(model, posterior, self.observed.cell_variance(members))
        table, apart = raked(np.where(self.public.possible(members), table, 0.0), margins)
        kept = float((posterior.mean * deviation).sum() / max(float((deviation**2).sum()), 1e-300))
        doubt = doubt_of(deviation, self.observed.variance(members), directions)
        return table, Interaction(True, posterior.variance, kept, doubt, apart)

    def model(
        self, members: Members, found: dict[Members, tuple[Floats, Interaction]]
    ) -> tuple[Floats, list[Floats], float]:
        """What its margins say of a table, those margins, and how far it is from them."""
        margins = [found[members[:j] + members[j + 1 :]][0] for j in range(len(members))]
        first = self.public.possible(members).astype(np.float64)
        model, apart = raked(first, margins)
        return model, margins, apart

    def deviation(self, members: Members) -> tuple[Floats, Floats]:
        """How far the measured interaction of a set is from what its margins say, and what they say."""
        below = {s: one for facet in combinations(members, len(members) - 1) for s, one in self._all(facet).items()}
        model, _, _ = self.model(members, below)
        return self.observed.residual(members) - centred(model), model

    def prior(self, size: int) -> Prior | None:
        """The prior of the interactions of this many attributes, from a sample of those measured."""
        sets = list(self.observed.sets(size))
        sample = sets[:: max(1, len(sets) // _SAMPLED)]
        parts = []
        for members in sample:
            deviation, model = self.deviation(members)
            parts.append((deviation, model, self.observed.cell_variance(members)))
        return pooled_prior(parts) if parts else None
