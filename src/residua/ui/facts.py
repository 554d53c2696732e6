"""What the page shows of a plan, as plain values: protection, expected errors, the curve, what wishes would cost."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from residua.cli.planning import make_plan
from residua.cli.spec import Spec
from residua.linalg.arrays import Floats
from residua.plans.contract import Plan
from residua.privacy import PureDP, describe
from residua.privacy.costs import brief
from residua.report.accuracy import Accuracy, ListedTable, accuracy, curves
from residua.report.alternatives import alternatives
from residua.report.odds import hundred, normal_odds, protection, pure_odds
from residua.report.plan_text import proof, side_by_side

ROWS = 15
_DELTA = 1e-6
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
    errors, spent = accuracy(plan, _LISTED), amounts(plan)
    wishes = None if errors is None or spec.targets is None else _targets(plan, spec.targets)
    return {
        "sizes": [int(attribute.size) for attribute in spec.domain.attributes.values()],
        **_protection(plan, spent),
        **_accuracy(errors, wishes, options),
        "curve": _curve(spent, errors),
        "wishes": None if wishes is None else _wishes(plan, spec, wishes),
        "beside": _beside([*map(make_plan, beside), plan]) if beside else None,
    }


def _beside(plans: list[Plan]) -> dict[str, Any]:
    """What each plan promises, and the errors of all."""
    rows = list(islice(side_by_side(plans), ROWS + 1))
    return {
        "plans": [
            {"guarantee": brief(plan.guarantee), "protects": str(plan.unit), "guess": protection(plan).guess}
            for plan in plans
        ],
        "rows": [{"table": title, "stddevs": stddevs} for title, _, stddevs in rows[:ROWS]],
        "more": len(rows) > ROWS,
    }


def _protection(plan: Plan, spent: Mapping[str, float]) -> dict[str, Any]:
    shield = protection(plan)
    recognised = {} if shield.odds is None else shield.odds.recognised
    return {
        "guarantee": brief(plan.guarantee),
        "secret": shield.unit,
        "guess": shield.guess,
        "found": [[round(1 / alarms), hundred(share)] for alarms, share in recognised.items()],
        "amounts": spent,
        "proof": proof(plan),
        "remarks": [f"{word}: {remark}" if word else remark for word, remark in (*plan.remarks, *alternatives(plan))],
    }


def amounts(plan: Plan) -> dict[str, float]:
    """What a plan spends, in each currency that the page can be switched to."""
    if plan.noise.currency == "epsilon":
        return {"pure": float(plan.unit_epsilon)}
    costs = describe(plan.unit_pcost, [_DELTA])  # each delta takes milliseconds
    return {"rho": costs.rho, "mu": costs.mu, "approx": costs.epsilons[0], "delta": _DELTA}


def _accuracy(errors: Accuracy | None, wishes: Floats | None, options: Mapping[str, Any]) -> dict[str, Any]:
    if errors is None:
        return {"what": "tables", "count": 0, "numbers": 0, "rows": [], "more": 0, "matching": 0}
    sought = str(options.get("find", "")).casefold()
    limit = min(max(int(options.get("rows", ROWS)), 1), _MOST_ROWS)
    places = [i for i, one in enumerate(errors.listed) if sought in one.title.casefold()]
    if options.get("order") == "worst":
        places.sort(key=lambda i: -errors.listed[i].stddev)
    rows = [_row(errors.listed[i], None if wishes is None else float(wishes[i])) for i in islice(places, limit)]
    return {
        "what": errors.what,
        "count": errors.count,
        "numbers": int(errors.numbers),
        "spread": errors.spread,
        "rows": rows,
        "matching": len(places),
        "unlisted": errors.count - len(errors.listed),
    }


def _row(one: ListedTable, wish: float | None) -> dict[str, Any]:
    return {
        "title": one.title,
        "numbers": one.numbers,
        "stddev": _finite(one.stddev),
        "reliable": _finite(one.reliable),
        "wish": None if wish is None else math.sqrt(wish),
    }


def _curve(spent: Mapping[str, float], errors: Accuracy | None) -> dict[str, Any] | None:
    """Errors follow from the budget alone: by its root under normal noise, in proportion under Laplace noise."""
    laplace = "pure" in spent
    at = spent["pure"] if laplace else spent["rho"]
    if errors is None or not at > 0:
        return None
    middle = round(math.log10(at))
    decades = [10.0**power for power in range(middle - 2, middle + 3)]
    grid = [[x, hundred((pure_odds(x) if laplace else normal_odds(math.sqrt(2 * x))).right)] for x in decades]
    return {
        "currency": "epsilon" if laplace else "rho",
        "at": at,
        "exponent": 1.0 if laplace else 0.5,
        "lines": [{"title": one.title, "stddev": one.stddev} for one in curves(errors)],
        "grid": grid,
    }


def _targets(plan: Plan, targets: Floats) -> Floats:
    """The target variance of each table (or query) of a plan."""
    workload = plan.workload
    if workload is None or not workload.tabular:
        return targets
    return np.asarray(targets[workload.starts])


def _wishes(plan: Plan, spec: Spec, wishes: Floats) -> dict[str, Any]:
    """What meeting all wishes costs, and how far this plan is from it: the factor by which errors are too large."""
    factor = math.sqrt(_largest_ratio(plan, spec, wishes))
    if spec.guarantee is None:
        least = plan
    else:
        pure = isinstance(spec.guarantee, PureDP)
        least = make_plan(replace(spec, guarantee=None, least_epsilon=pure, minimise=None))
    return {
        "factor": factor,
        "met": factor <= 1 + 1e-9,
        "amounts": amounts(least),
        "guess": protection(least).guess,
        "guarantee": repr(least.guarantee),
    }


def _largest_ratio(plan: Plan, spec: Spec, wishes: Floats) -> float:
    known: Any = plan
    if plan.workload is not None and spec.targets is not None and plan.workload.queries <= _MOST_QUERIES:
        return float(np.max(known.variances(plan.workload) / spec.targets))
    return float(np.max(known.variances(plan.workload, per="term") / wishes))


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
