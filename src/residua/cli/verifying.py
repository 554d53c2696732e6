"""`residua verify`: whether a release is what it says: whole, covered by its guarantee, paid for, signed."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path

from residua.cli.auditing import audited
from residua.cli.show import out, print_json
from residua.errors import ResiduaError
from residua.measurement import Ledger
from residua.privacy.exact import round_up
from residua.release import Release
from residua.release.signing import is_signed


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
