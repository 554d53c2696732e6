"""`rs.measure_survey`: weighted totals and, for a share of what is spent, what their sampling error follows from.

The squares of survey weights are counted like weights: clipped, in as many steps, so that a respondent changes both by
the same number. Their total and the asked one-way tables are an ordinary plan for the same unit, priced, debited and
measured like any other, beside the release of the weights.
"""

from __future__ import annotations

import warnings
from fractions import Fraction
from pathlib import Path
from typing import Any

from residua.errors import LedgerError, PlanError, ResiduaError, SourceError, named
from residua.folders import require_free
from residua.measurement.job import account_of, require_agreement
from residua.measurement.ledger import Ledger
from residua.measurement.left_out import one_way_tables
from residua.measurement.measure import measure
from residua.plans.contract import Plan
from residua.plans.verifier import priced, require_plan
from residua.privacy import AddRemove
from residua.privacy.guarantees import SAMPLING_SHARE
from residua.release import Weighted, squares_folder, weighted
from residua.source import source_of


def measure_survey(
    plan: Plan,
    source: Any,
    *,
    ledger: Ledger | str | Path,
    sampling: float = SAMPLING_SHARE,
    out: str | Path | None = None,
    **options: Any,
) -> Weighted:
    """Measures weighted tables and the squares of the weights: totals of the population, with sampling error.

    Guarantee: as for `rs.measure`, twice: each release satisfies its plan's guarantee for its unit, one respondent with
    any weight, and was debited before anything was counted. Nothing is spent if the ledger does not allow both. If the
    squares fail, the tables are not lost: they are returned with a warning, and sampling error follows from the largest
    weight; or they lie in `out`, and the error says so.

    Args:
        plan: the tables, for `unit=weights.protects`, at no more than 1 − sampling of what may be spent.
        source: data with `weights=rs.Weights(…)`.
        ledger: the dataset's ledger, or the path of one that exists.
        sampling: which share of all that is spent goes to the squares: their total and the asked one-way tables.
        out: a folder to write the release to; that of the squares is written beside it, with `-squares` to its name.
        options: purpose, progress and notice, as for `rs.measure`.

    Raises:
        SourceError: data without survey weights; others as for `rs.measure`.
        LedgerError: the budget does not allow both releases. Nothing is spent.
    """
    require_plan(plan)
    if isinstance(sampling, bool) or not isinstance(sampling, int | float) or not 0 < sampling < 1:
        raise PlanError(f"sampling={named(sampling)} is not a share of what is spent; say {SAMPLING_SHARE:g}.")
    data, account = source_of(source), account_of(ledger, plan.unit)
    weights = data.options.weights
    if weights is None or weights.squared:
        raise SourceError("the data has no survey weights; give the source weights=rs.Weights(column, most=…).")
    require_agreement(data.options, plan.unit, plan.domain)
    assert isinstance(plan.unit, AddRemove)  # which is what agrees
    measurements, cost = priced(plan)
    squares = one_way_tables(plan, plan.unit, float(cost * Fraction(sampling) / (1 - Fraction(sampling))))
    if not account.can_spend(cost + priced(squares)[1], currency=measurements.currency):
        raise LedgerError(
            f"the ledger does not allow the tables and, for {100 * sampling:.3g} % of both, the squares of their "
            f"weights; nothing was spent: plan for {100 * (1 - sampling):.3g} % of what is left."
        )
    folders = (None, None) if out is None else (Path(out), squares_folder(Path(out)))
    for folder in filter(None, folders):
        require_free(folder)
    release = measure(plan, data, ledger=account, out=folders[0], **options)
    shared = {name: value for name, value in options.items() if name != "notice"}
    try:
        beside = measure(squares, data.with_options(weights=weights.squares), ledger=account, out=folders[1], **shared)
    except BaseException as problem:
        if out is not None or not isinstance(problem, Exception):
            place = "this error's attribute `release`" if out is None else repr(str(out))
            problem.release = release  # type: ignore[attr-defined]
            problem.add_note(f"The weighted tables were measured before and are not lost: they are in {place}.")
            raise
        why = str(problem) if isinstance(problem, ResiduaError) else type(problem).__name__  # others may quote values
        warnings.warn(f"squares of weights were not measured, their bound is taken instead: {why}", stacklevel=2)
        return weighted(release)
    return weighted(release, squares=beside)
