"""What the page shows of a plan, as plain values: protection, expected errors, the curve, what wishes would cost."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from statistics import NormalDist
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
from residua.report.odds import hundred, protection
from residua.report.plan_text import proof, side_by_side
from residua.ui.preview import expected, outlook, preview

ROWS = 15
_DELTA = 1e-6
_MOST_ROWS = 2_000
_MOST_HEADLINES = 6
_LISTED = 2**15  # tables among which one can be searched for
_MOST_QUERIES = 2**22  # beyond, a wish is judged by the mean variance of a table


def facts_of(spec: Spec, options: Mapping[str, Any], beside: Sequence[Spec] = ()) -> dict[str, Any]:
    """The plan of a specification, as the page shows it.

    Args:
        spec: the specification.
        options: `find`, a text that titles must hold; `order`, "asked" or "worst"; `rows`, how many are listed;
            `people` and `public`, what the user expects (`preview.expected`); `table`, the one to be drawn;
            `headlines`, the tables whose errors the curve shows.
        beside: other specifications, whose plans stand beside this one.
    """
    plan = make_plan(spec)
    errors, spent, guess = accuracy(plan, _LISTED), amounts(plan), expected(spec.domain, options)
    flags = None if errors is None else outlook(plan, guess, errors.listed)
    wishes = None if errors is None or spec.targets is None else _targets(plan, spec.targets)
    return {
        "sizes": {name: int(attribute.size) for name, attribute in spec.domain.attributes.items()},
        **_protection(plan, spent),
        **_accuracy(plan, errors, wishes, flags, options),
        "flags": None if not flags else np.sum(flags, axis=0).tolist(),
        "preview": preview(plan, guess, options.get("table")),
        "curve": _curve(spent),
        "wishes": None if wishes is None else _wishes(plan, spec, wishes),
        "beside": _beside([*map(make_plan, beside), plan]) if beside else None,
    }


def _beside(plans: list[Plan]) -> dict[str, Any]:
    """What each plan promises, and the errors of all."""
    rows = list(islice(side_by_side(plans), ROWS + 1))
    return {
        "plans": [
            {"guarantee": brief(plan.guarantee), "hides": shield.unit, "guess": shield.guess}
            for plan, shield in ((plan, protection(plan)) for plan in plans)
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


def _accuracy(
    plan: Plan,
    errors: Accuracy | None,
    wishes: Floats | None,
    flags: Sequence[list[int]] | None,
    options: Mapping[str, Any],
) -> dict[str, Any]:
    if errors is None:
        return {"what": "tables", "count": 0, "numbers": 0, "rows": [], "matching": 0}
    sought = str(options.get("find", "")).casefold()
    limit = min(max(int(options.get("rows", ROWS)), 1), _MOST_ROWS)
    places = [i for i, one in enumerate(errors.listed) if sought in one.title.casefold()]
    if options.get("order") == "worst":
        places.sort(key=lambda i: -errors.listed[i].stddev)
    sets = plan.workload.sets if plan.workload is not None and plan.workload.plain else None
    rows = [
        _row(errors.listed[i])
        | {
            "names": None if sets is None else list(sets[i]),
            "wish": None if wishes is None else math.sqrt(float(wishes[i])),
            "flags": None if flags is None else flags[i],
        }
        for i in islice(places, limit)
    ]
    return {
        "what": errors.what,
        "count": errors.count,
        "numbers": int(errors.numbers),
        "spread": errors.spread,
        "rows": rows,
        "matching": len(places),
        "lines": [_row(one) for one in _headlines(errors, options)],
    }


def _headlines(errors: Accuracy, options: Mapping[str, Any]) -> list[ListedTable]:
    """The tables on the curve: those that the user chose, in this order, else some that stand for all."""
    chosen = options.get("headlines") or []
    wanted = {str(one.get("title")): i for i, one in enumerate(chosen) if isinstance(one, Mapping)}
    headlines = sorted((one for one in errors.listed if one.title in wanted), key=lambda one: wanted[one.title])
    return headlines[:_MOST_HEADLINES] or curves(errors)


def _row(one: ListedTable) -> dict[str, Any]:
    known = {"stddev": one.stddev, "margin": one.margin, "reliable": one.reliable}
    finite = {key: value if math.isfinite(value) else None for key, value in known.items()}
    return {"title": one.title, "numbers": one.numbers, **finite}


def _curve(spent: Mapping[str, float]) -> dict[str, Any] | None:
    """For odds from 51 to 99 of 100: the budget that allows them, and by how much errors are larger then than now.

    Errors follow from the budget alone: by its root under normal noise, in proportion under Laplace noise.
    """
    laplace = "pure" in spent
    at = spent["pure"] if laplace else spent["rho"]
    if not at > 0:
        return None
    shares = [odds / 100 for odds in range(51, 100)]
    budgets = [math.log(x / (1 - x)) if laplace else 2 * NormalDist().inv_cdf(x) ** 2 for x in shares]
    points = [
        [100 * x, budget, (at / budget) ** (1.0 if laplace else 0.5)] for x, budget in zip(shares, budgets, strict=True)
    ]
    return {"currency": "pure" if laplace else "rho", "at": at, "points": points}


def _targets(plan: Plan, targets: Floats) -> Floats:
    """The target variance of each table (or query) of a plan."""
    workload = plan.workload
    return targets if workload is None or not workload.tabular else np.asarray(targets[workload.starts])


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
