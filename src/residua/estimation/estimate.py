"""`rs.estimate`: from a release to tables of any attributes that borrow strength from each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from residua.errors import PlanError
from residua.estimation.estimated import Estimated
from residua.estimation.fit import Progress, fitted
from residua.estimation.observed import Public, observed_of
from residua.estimation.tables import EstimatedTables
from residua.projection.facts import estimated_total, facts_of
from residua.release.base import Release

_MOST_WAYS = 6  # up to which the strength of interactions is learned


def estimate(
    release: Release,
    *,
    total: float | None = None,
    known: Mapping[Sequence[str], Any] | None = None,
    progress: Progress | None = None,
) -> Estimated:
    """Tables of any attributes, measured or not, that borrow strength from everything the release measured.

    A mixture of independent attributes is fitted to all that was measured of single attributes and pairs; each
    measured interaction is shrunk towards it, by as much as its own evidence says; larger tables are raked from their
    margins, and shrunk towards that where their own interaction was measured. Reads the release alone: no data is
    touched and nothing is spent.

    Guarantee: no cell is negative, impossible cells are zero, public facts are met, and tables agree on the margins
    they share up to `apart` counts (`Estimated.accuracy`). The estimates are biased towards the model. Their errors are
    estimated, not bounded; unbiased estimates with exact variances stay in the release.

    Args:
        release: what was measured; `rs.Release.load` reads a saved one, `rs.pooled` makes one of several.
        total: a public total, met exactly. None is the total of the known marginals if there are any, else one
            estimated from what was measured and from its being positive.
        known: public marginals, met exactly: attributes → counts, as for `rs.project`.
        progress: called with what is being done, how much is done, and of how much.

    Raises:
        PlanError: not a release, one with a bias, no total measured or given, facts that contradict each other or
            the structural zeros, or more values of all attributes than can be estimated together.

    Example:
        >>> import pyarrow as pa, residua as rs, tempfile
        >>> domain = rs.Domain({"sex": ["F", "M"], "age": rs.Integers(0, 4), "job": ["no", "yes"]})
        >>> data = pa.table({"sex": ["F", "M"] * 500, "age": [0, 1, 2, 1, 0] * 200, "job": ["no", "yes"] * 500})
        >>> plan = rs.plan(rs.marginals(domain, ways=[1, 2]), rs.ZCDP(0.1))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     release = rs.measure(plan, data, ledger=rs.Ledger(f"{folder}/l", rs.ZCDP(0.1)))
        >>> estimated = rs.estimate(release, total=1000)
        >>> table = estimated.estimates(["sex", "age", "job"])             # three attributes: not measured
        >>> table.shape, bool(table.min() >= 0), round(float(table.sum()), 3)
        ((2, 5, 2), True, 1000.0)
        >>> estimated.accuracy(["sex", "age", "job"]).unmeasured
        (('sex', 'age', 'job'),)
    """
    if not isinstance(release, Release):
        raise PlanError(f"release={release!r} is not a release; measure one, or load it with rs.Release.load.")
    if total is not None and (isinstance(total, bool) or not isinstance(total, int | float | np.number)):
        raise PlanError(f"total={total!r} is not a count; give a public total, or leave it out to have it estimated.")
    facts = facts_of(release.domain, total, known)
    observed = observed_of(release)
    public = Public(release.domain, facts)
    count, variance = total_of(release, public)
    fit = fitted(observed, public, count, variance, progress)
    estimated = Estimated(release, public, fit, variance == 0.0)
    tables = EstimatedTables(observed, public, fit)
    for size in range(3, _MOST_WAYS + 1):
        prior = tables.prior(size)
        if prior is not None:
            fit.priors[size] = prior
    return estimated


def total_of(release: Release, public: Public) -> tuple[float, float]:
    """The total and the variance of what is not known of it."""
    known = public.known(())
    if known is not None:
        if float(known) <= 0:
            raise PlanError("total=0: there is nobody to estimate tables of.")
        return float(known), 0.0
    total = estimated_total(release)
    if total is None:
        raise PlanError("the release does not tell the total; give total=…, or measure it, too: ways=[0, …].")
    return max(total[0], 1.0), total[1] ** 2
