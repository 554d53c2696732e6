"""`residua audit`: what a plan or release measures, and its price for every unit beside the guarantee it states."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

from residua.cli.show import out, print_json
from residua.errors import FileError, PrivacyError, VerificationError
from residua.plans.contract import Plan
from residua.plans.measurements import Measurements
from residua.privacy import AddRemove, ReplaceOne
from residua.privacy.exact import round_up
from residua.release import Release
from residua.screen import PlainTable


def print_audit(path: Path, *, as_json: bool) -> bool:
    """Prints the price of a saved plan or release; whether the stated guarantee covers it."""
    facts = audited(path)
    if as_json:
        print_json(facts)
        return bool(facts["covered"])
    out.print(f"{facts['measures']}: {facts['integers']:,} integers with {facts['noise']} noise.")
    slack = facts["slack"]
    loose = "not computed" if slack is None else "exact" if not slack else f"at most {100 * slack:.2g}% above the truth"
    rows = [[each["unit"], f"{each['price']:.9g}"] for each in facts["prices"]]
    out.print(PlainTable(["for"], [facts["currency"]], rows))
    out.print(f"Stated: {facts['guarantee']}, for {facts['unit']}; slack of the price: {loose}.")
    out.print("The guarantee covers the price." if facts["covered"] else "THE GUARANTEE DOES NOT COVER THE PRICE.")
    out.print(f"Without residua: {facts['independently']}")
    return bool(facts["covered"])


def audited(path: Path) -> dict[str, Any]:
    """The price of what a saved plan or release really measures, by residua's verifier, as plain values."""
    plan, measurements, release = _measured(path)
    units = dict.fromkeys([plan.unit, AddRemove(), ReplaceOne()])
    prices = {unit: measurements.price(unit) for unit in units}
    try:
        covered = bool(measurements.noise.promised(prices[plan.unit], plan.guarantee))
        if release is not None and (left := release.left_out) is not None:  # measured and paid for beside the plan
            own = {plan.unit: left.planned.unit}  # a person has so many records that are left out
            prices = {unit: price + left.measurements.price(own.get(unit, unit)) for unit, price in prices.items()}
            covered = covered and prices[plan.unit] <= Fraction(release.receipt[measurements.currency])
    except (PrivacyError, VerificationError):
        covered = False
    return {
        "path": str(path),
        "measures": type(plan).__name__,
        "integers": measurements.cells,
        "noise": plan.noise.name,
        "currency": measurements.currency,
        "prices": [{"unit": str(unit), "price": round_up(price)} for unit, price in prices.items()],
        "unit": str(plan.unit),
        "guarantee": repr(plan.guarantee),
        "covered": covered,
        "slack": plan.slack if math.isfinite(plan.slack) else None,
        "independently": f"python verifier/residua_verify.py {path}",
    }


def _measured(path: Path) -> tuple[Plan, Measurements, Release | None]:
    if path.is_dir():
        release = Release.load(path)
        return release.planned, release.measurements, release
    plan = Plan.load(path)
    if not plan.pcost:
        raise FileError(f"{str(path)!r} holds a plan that measures nothing: there is nothing to price.")
    return plan, plan.measurements, None
