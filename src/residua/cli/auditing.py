"""`residua audit` and `verify`: what is measured, its price beside the guarantee, whether a release is what it says."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from residua.cli.show import out, print_json
from residua.errors import FileError, PrivacyError, ResiduaError, VerificationError
from residua.measurement import Ledger
from residua.plans.contract import Plan
from residua.plans.measurements import Measurements
from residua.privacy import AddRemove, ReplaceOne
from residua.privacy.exact import round_up
from residua.release import Release
from residua.release.signing import is_signed
from residua.screen import PlainTable


def print_audit(path: Path, *, as_json: bool) -> bool:
    """Prints the price of a saved plan or release; whether the stated guarantee covers it."""
    facts = audited(path)
    if as_json:
        print_json(facts)
        return bool(facts["covered"])
    out.print(f"{facts['measures']}: {facts['integers']:,} integers with {facts['noise']} noise.")
    slack = facts["slack"]
    loose = (
        "slack not computed"
        if slack is None
        else "exact, no slack"
        if not slack
        else f"at most {100 * slack:.2g}% above the truth"
    )
    rows = [[each["unit"], f"{each['price']:.9g}"] for each in facts["prices"]]
    out.print(PlainTable(["for"], [facts["currency"]], rows))
    out.print(f"Stated: {facts['guarantee']}, for {facts['unit']}; price: {loose}.")
    out.print("The guarantee covers the price." if facts["covered"] else "THE GUARANTEE DOES NOT COVER THE PRICE.")
    out.print(f"Without residua: {facts['independently']}")
    return bool(facts["covered"])


def audited(path: Path) -> dict[str, Any]:
    """The price of what a saved plan or release really measures, by residua's verifier, as plain values."""
    plan, measurements, release = _measured(path)
    prices = {unit: measurements.price(unit) for unit in dict.fromkeys([plan.unit, AddRemove(), ReplaceOne()])}
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


@dataclass(frozen=True)
class Check:
    """One thing that a release says of itself, and whether it is so."""

    holds: bool
    sentence: str


def print_verified(path: Path, ledger: Path | None, key: Path | None, *, as_json: bool) -> bool:
    """Prints each check; whether all hold."""
    checks = list(_checks(path, ledger, key))
    fine = all(check.holds for check in checks)
    if as_json:
        print_json({"path": str(path), "verified": fine, "checks": [asdict(check) for check in checks]})
        return fine
    for check in checks:
        out.print(f"{'yes' if check.holds else 'NO '}  {check.sentence}")
    out.print("Everything that was checked holds." if fine else "DO NOT TRUST THIS RELEASE.")
    return fine


def _checks(path: Path, ledger: Path | None, key: Path | None) -> list[Check]:
    try:
        release = Release.load(path)
    except ResiduaError as problem:
        return [Check(False, str(problem))]
    audit = audited(path)
    does = "covers" if audit["covered"] else "does not cover"
    checks = [
        Check(True, "The folder is whole: every file has the digest that release.json states."),
        Check(bool(audit["covered"]), f"The guarantee {audit['guarantee']} {does} the price of what was measured."),
    ]
    if ledger is not None:
        checks.append(_paid(release, Ledger(ledger)))
    if key is not None:
        signed = is_signed(path, key)
        checks.append(Check(signed, f"release.json {'is' if signed else 'is NOT'} signed by the owner of {key}."))
    return checks


def _paid(release: Release, ledger: Ledger) -> Check:
    """Whether the ledger has the debit that the receipt names, and it pays for what was measured."""
    receipt, name = release.receipt, f"The ledger {ledger.path}"
    if "pooled" in receipt:
        return Check(False, "It pools several releases, of which a ledger knows each by itself: verify those.")
    if receipt.get("ledger") != ledger.identity:
        return Check(False, f"{name} is not the one that paid for it.")
    debits = {entry.digest: entry for entry in ledger.entries}
    entry = debits.get(str(receipt.get("digest")))
    if entry is None:
        return Check(False, f"{name} has no such debit: the receipt is forged, or the ledger was set back.")
    currency = release.measurements.currency
    paid = entry.epsilon if entry.epsilon is not None and currency == "epsilon" else entry.cost
    priced = release.measurements.price(release.planned.unit)
    if Fraction(round_up(paid)) < priced or receipt.get(currency) != round_up(paid):
        return Check(False, f"Debit {entry.sequence} of {ledger.path} is of another cost than the release's.")
    return Check(True, f"Debit {entry.sequence} of {ledger.path} paid for it: {entry.purpose}.")
