"""Releases of disjoint populations as one: added up, or told apart by a new attribute that names the population.

Populations are groups of people, and their releases what a plan by groups measured, each by its own plan
(`plans/strata`): sums over populations have the sums of estimates and, their noise being independent, of variances.
Plans that are not measured by group are read as one matrix of all populations' rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from residua.domain import Domain
from residua.domain.domain import settings_of_domain
from residua.errors import PlanError, named
from residua.machine import linalg
from residua.plans.cells import MOST_COLUMNS, refine
from residua.plans.contract import Plan
from residua.plans.statements import sizes_to_body
from residua.plans.strata.making import grouped, lifted
from residua.plans.strata.measurements import StrataMeasurements
from residua.plans.strata.plan import cells_by_group
from residua.privacy import ReplaceOne
from residua.privacy.exact import round_up
from residua.release.base import Release
from residua.release.pooled import laplace_pool, over_cells, require_alike, shared_receipt
from residua.workload import Workload


def combined(
    releases: Mapping[str, Release] | Sequence[Release], *, by: str = "population", disjoint: bool = False
) -> Release:
    """Releases of disjoint populations as one release: of all of them together, and of each by its name.

    Guarantee: estimates are the sums of the populations' own, unbiased, with exactly the sums of their variances; of
    one population they are its own. Every record costs what its own population's release costs, so that the guarantee
    stated is the weakest of theirs.

    Args:
        releases: name → release of that population, over one domain and for one unit; of a list, the names are 1, 2, ….
        by: what the new attribute is called whose values are the names.
        disjoint: declares that nobody is in two of the populations, which no release can tell. Counts of people who
            are in two would be counted twice, and what is known of them would cost twice.

    Raises:
        PlanError: not declared disjoint, releases of one ledger (of one population: see `rs.pooled`), of different
            domains, units or noise, for replaced records, or that answer nothing in common.

    Example:
        >>> import pyarrow as pa, residua as rs, tempfile
        >>> domain = rs.Domain({"sex": ["F", "M"]})
        >>> plan = rs.plan(rs.marginals(domain, ways=[0, 1]), rs.ZCDP(0.1))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     north, south = (
        ...         rs.measure(plan, pa.table({"sex": ["F", "M"] * n}), ledger=rs.Ledger(f"{folder}/{n}", rs.ZCDP(0.1)))
        ...         for n in (100, 300)
        ...     )
        >>> both = rs.combined({"north": north, "south": south}, by="region", disjoint=True)
        >>> bool(both.count().estimate == north.count().estimate + south.count().estimate)
        True
        >>> list(both.share(["region"]).columns["region"])
        ['north', 'south']
    """
    parts = require_alike(list(releases.values()) if isinstance(releases, Mapping) else releases, "combined")
    names = list(releases) if isinstance(releases, Mapping) else [str(k + 1) for k in range(len(parts))]
    _require_populations(parts, by, disjoint)
    domain = parts[0].domain
    wide = Domain({**domain.attributes, by: names}, domain.impossible, language=domain.language)
    result = _joined(parts, wide)
    receipt = {**shared_receipt(parts), **_cost(result.planned), "pooled": len(parts)}
    if debits := frozenset().union(*(part.debits for part in parts)):
        receipt["debits"] = ", ".join(sorted(debits))
    left = [part.left_out for part in parts if part.left_out is not None]
    most = {part.receipt["left_out_most"] for part in parts if part.left_out is not None}
    if len(left) < len(parts) or len(most) > 1:
        return replace(result, receipt=receipt)
    left_out = _joined(left, wide)
    left_out = replace(left_out, receipt=_cost(left_out.planned) | {"pooled": len(parts)})
    cost = {
        name: round_up(Fraction(one) + Fraction(left_out.receipt[name])) for name, one in _cost(result.planned).items()
    }
    return replace(result, left_out=left_out, receipt=receipt | cost | {"left_out_most": most.pop()})


def _joined(parts: Sequence[Release], domain: Domain) -> Release:
    """What all populations measured, over the domain with the populations, and asked what all of them answer."""
    asked, costliest = _answered(parts, domain), max((part.planned for part in parts), key=lambda own: own.unit_pcost)
    result = _by_group(parts, domain) if costliest.noise.gaussian else _as_matrix(parts, domain)
    within = lifted(asked, (len(domain) - 1,))
    whole = asked if within is None else asked + within
    plan = result.planned.replaced(workload=whole, objective="combined populations")
    if plan.unit_pcost <= costliest.unit_pcost:  # unless integers of a matrix cost a little more
        plan = plan.replaced(guarantee=costliest.guarantee)
    return replace(result, planned=plan)


def _require_populations(parts: Sequence[Release], by: object, disjoint: object) -> None:
    if len(parts) < 2:
        raise PlanError("releases has one release; give those of two or more populations.")
    if not isinstance(by, str) or by in parts[0].domain:
        raise PlanError(f"by={named(by)} is not the name of a new attribute; the domain has {parts[0].domain.names!r}.")
    if disjoint is not True:
        raise PlanError(
            "nothing says that the populations are disjoint: whoever is in two would be counted twice. If nobody is, "
            "say disjoint=True (--disjoint); releases of the same people are pooled with rs.pooled."
        )
    if parts[0].planned.unit == ReplaceOne():
        raise PlanError(
            "releases for replaced records take the size of each population for public, which a record changes that "
            "moves from one to another; plan with rs.AddRemove() to combine."
        )
    ledgers = [one for part in parts for one in str(part.receipt.get("ledger", "")).split(", ") if one]
    if len(set(ledgers)) < len(ledgers):
        raise PlanError(
            "two of the releases are of one ledger, hence of one population: pool those with rs.pooled, and combine "
            "the pool with the others."
        )


def _answered(parts: Sequence[Release], domain: Domain) -> Workload:
    """What the first release was asked and all answer, over the domain with the populations."""
    asked = parts[0].planned.workload
    if asked is not None and not all(part.plan.supports(asked) for part in parts):
        known = [each for each in asked.each() if all(part.plan.supports(each) for part in parts)]
        asked = reduce(add, known) if known else None
    if asked is None:
        raise PlanError("the releases answer nothing in common that the first was asked; plan the same tables for all.")
    workload = _over(parts[0].planned.replaced(workload=asked), domain).workload
    assert workload is not None
    return workload


def _over(plan: Plan, domain: Domain) -> Plan:
    """The same plan over a domain with one more attribute, the last, of which it asks nothing."""
    body: dict[str, Any] = {**plan.to_body(), "domain": settings_of_domain(domain), **sizes_to_body(domain)}
    if body["kind"] == "blockwise":  # the values of each attribute, level by level
        body["axes"] = [*body["axes"], [list(range(int(domain.sizes[-1])))]]
    elif body.get("strategies"):
        body["strategies"] = [*body["strategies"], {"rows": None}]
    return Plan.of_body(body)


def _by_group(parts: Sequence[Release], domain: Domain) -> Release:
    """Each population a group with its own plan."""
    members = []
    for part in parts:
        read = part if _measured_by_group(part) else over_cells(part)
        plan = _over(read.planned.replaced(workload=None), domain)
        members.append((plan, plan.saved_measurements(read.measurements.arrays()), read.noisy))
    by, which = (len(domain) - 1,), np.arange(len(parts))
    plan = grouped([own for own, _, _ in members], by, which)
    measured = StrataMeasurements(domain.sizes, by, tuple(own for _, own, _ in members), which)
    return Release(plan, measured, np.concatenate([noisy for *_, noisy in members]))


def _measured_by_group(part: Release) -> bool:
    """Whether a release is of what plans by group measure; correlated noise, trees and groups themselves are not."""
    with suppress(PlanError):
        return bool(part.measurements.tables) and not part.planned.by_names
    return False


def _as_matrix(parts: Sequence[Release], domain: Domain) -> Release:
    """With Laplace noise: the rows of each population over its own cells, as those of one plan."""
    seen = [part.planned.laplace_rows() for part in parts]
    cells = refine(domain.sizes, [grouping for grouping, _ in seen])
    rows = [np.asarray(cells.lifted(own, i), dtype=np.float64) for i, (_, own) in enumerate(seen)]
    if len(parts) * len(cells.sizes) > MOST_COLUMNS:
        raise PlanError(
            f"releases with Laplace noise are combined over at most {MOST_COLUMNS:,} cells of all populations "
            f"together, and these have {len(parts) * len(cells.sizes):,}; add their tables up one by one."
        )
    by_group = cells_by_group(domain.sizes, (len(domain) - 1,), cells)
    like = _over(parts[0].planned.replaced(workload=None), domain)
    return laplace_pool(like, parts, by_group, np.asarray(linalg.block_diag(*rows)), None)


def _cost(plan: Plan) -> dict[str, float]:
    """What the plan costs its unit, as receipts say it."""
    if plan.noise.gaussian:
        return {"pcost": plan.unit_pcost}
    return {"epsilon": plan.unit_epsilon, "pcost": round_up(Fraction(plan.unit_epsilon) ** 2)}
