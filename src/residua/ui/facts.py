"""What the page shows of a plan, as plain values: protection, expected errors, the curve, what wishes would cost."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from residua.cli.spec import Spec
from residua.cli.steps import make_plan
from residua.linalg.arrays import Floats
from residua.plans.contract import Plan
from residua.privacy import PureDP, describe
from residua.report.accuracy import Accuracy, Listed, accuracy, curves
from residua.report.comparing import side_by_side
from residua.report.odds import hundred, normal_odds, protection, pure_odds
from residua.report.plan_text import proof
from residua.workload import Explicit

ROWS = 15
_MOST_ROWS = 2_000
_LISTED = 2**15  # tables among which one can be searched for
_MOST_QUERIES = 2**22  # beyond, a wish is judged by the mean variance of a table


def facts_of(spec: Spec, options: Mapping[str, Any], beside: Sequence[Spec] = ()) -> dict[str, Any]:
    """The plan of a specification, as the page shows it.

    Args:
        spec: the specification.
        options: `find`, a text that titles must hold; `order`, "asked" or "worst"; `rows`, how many are listed.
        beside: other specifications, whose plans stand beside this one.
    """
    plan = make_plan(spec)
    found = accuracy(plan, _LISTED)
    wishes = None if found is None or spec.targets is None else _targets(plan, spec.targets)
    return {
        "sizes": [int(attribute.size) for attribute in spec.domain.attributes.values()],
        "levels": {name: [level.name for level in one.hierarchy] for name, one in spec.domain.attributes.items()},
        **_protection(plan),
        **_accuracy(found, wishes, options),
        "curve": _curve(plan, found),
        "wishes": None if wishes is None else _wishes(plan, spec, wishes),
        "beside": _beside([*map(make_plan, beside), plan]) if beside else None,
    }


def _beside(plans: list[Plan]) -> dict[str, Any]:
    """What each plan promises, and the errors of all."""
    rows = list(islice(side_by_side(plans), ROWS + 1))
    shields = [protection(plan) for plan in plans]
    return {
        "plans": [
            {
                "guarantee": one.guarantee,
                "protects": one.change,
                "guess": None if one.odds is None else hundred(one.odds.right),
            }
            for one in shields
        ],
        "rows": [{"table": asked.title, "stddevs": stddevs} for asked, stddevs in rows[:ROWS]],
        "more": len(rows) > ROWS,
    }


def _protection(plan: Plan) -> dict[str, Any]:
    shield = protection(plan)
    odds = shield.odds
    return {
        "guarantee": shield.guarantee,
        "secret": shield.unit,
        "change": shield.change,
        "noise": shield.noise,
        "guess": None if odds is None else hundred(odds.right),
        "found": [] if odds is None else [[round(1 / a), hundred(share)] for a, share in odds.found.items()],
        "currencies": [list(one) for one in shield.currencies],
        "amounts": amounts(plan),
        "objective": plan.objective,
        "proof": proof(plan),
        "remarks": [f"{word}: {remark}" for word, remark in plan.remarks],
    }


def amounts(plan: Plan) -> dict[str, float]:
    """What a plan spends, in each currency that the page can be switched to."""
    if plan.noise.currency == "epsilon":
        return {"pure": float(plan.unit_epsilon)}
    costs = describe(plan.unit_pcost)
    return {"rho": costs.rho, "mu": costs.mu, "approx": costs.epsilons[0], "delta": costs.deltas[0]}


def _accuracy(found: Accuracy | None, wishes: Floats | None, options: Mapping[str, Any]) -> dict[str, Any]:
    if found is None:
        return {"what": "tables", "count": 0, "numbers": 0, "rows": [], "more": 0, "matching": 0}
    sought = str(options.get("find", "")).casefold()
    limit = min(max(int(options.get("rows", ROWS)), 1), _MOST_ROWS)
    places = [i for i, one in enumerate(found.listed) if sought in one.title.casefold()]
    if options.get("order") == "worst":
        places.sort(key=lambda i: -found.listed[i].stddev)
    rows = [_row(found.listed[i], None if wishes is None else float(wishes[i])) for i in islice(places, limit)]
    return {
        "what": found.what,
        "count": found.count,
        "numbers": int(found.numbers),
        "spread": found.spread,
        "rows": rows,
        "matching": len(places),
        "unlisted": found.count - len(found.listed),
    }


def _row(one: Listed, wish: float | None) -> dict[str, Any]:
    return {
        "title": one.title,
        "numbers": one.numbers,
        "stddev": _finite(one.stddev),
        "reliable": _finite(one.reliable),
        "wish": None if wish is None else math.sqrt(wish),
    }


def _curve(plan: Plan, found: Accuracy | None) -> dict[str, Any] | None:
    """Errors follow from the budget alone: by its root under normal noise, in proportion under Laplace noise."""
    laplace = plan.noise.currency == "epsilon"
    spent = amounts(plan)
    at = spent["pure"] if laplace else spent["rho"]
    if found is None or not at > 0:
        return None
    middle = round(math.log10(at))
    decades = [10.0**power for power in range(middle - 2, middle + 3)]
    grid = [[x, hundred((pure_odds(x) if laplace else normal_odds(math.sqrt(2 * x))).right)] for x in decades]
    return {
        "currency": "epsilon" if laplace else "rho",
        "at": at,
        "exponent": 1.0 if laplace else 0.5,
        "lines": [{"title": one.title, "stddev": one.stddev} for one in curves(found)],
        "grid": grid,
    }


def _targets(plan: Plan, targets: Floats) -> Floats:
    """The target variance of each table (or query) of a plan."""
    workload = plan.workload
    if workload is None or isinstance(workload, Explicit):
        return targets
    starts = np.concatenate([[0], np.cumsum(workload.cells.astype(np.int64))[:-1]])
    return np.asarray(targets[starts])


def _wishes(plan: Plan, spec: Spec, wishes: Floats) -> dict[str, Any]:
    """What meeting all wishes costs, and how far this plan is from it: the factor by which errors are too large."""
    factor = math.sqrt(_largest_ratio(plan, spec, wishes))
    if spec.guarantee is None:
        least = plan
    else:
        pure = isinstance(spec.guarantee, PureDP)
        least = make_plan(replace(spec, guarantee=None, least_epsilon=pure, minimise=None))
    shield = protection(least)
    return {
        "factor": factor,
        "met": factor <= 1 + 1e-9,
        "amounts": amounts(least),
        "currencies": [list(one) for one in shield.currencies],
        "guess": None if shield.odds is None else hundred(shield.odds.right),
        "guarantee": shield.guarantee,
    }


def _largest_ratio(plan: Plan, spec: Spec, wishes: Floats) -> float:
    known: Any = plan
    if plan.workload is not None and spec.targets is not None and plan.workload.queries <= _MOST_QUERIES:
        return float(np.max(known.variances(plan.workload) / spec.targets))
    return float(np.max(known.variances(plan.workload, per="term") / wishes))


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
